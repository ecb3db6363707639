"""Spans and durations, through the OpenTelemetry API. Nothing is recorded unless the application sets up an SDK.

The API is the extra `telemetry`. Every SDK requires it, so where it is missing, nobody could be told anything.
"""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Sequence
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from agent_reminiscence.config.extras import require
from agent_reminiscence.config.installation import installed_version

try:
    from opentelemetry import context, metrics, trace
except ImportError:
    _is_installed = False
else:
    _is_installed = True

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import SpanKind, Tracer, TracerProvider

_logger = logging.getLogger("agent_reminiscence.telemetry")

Attribute = str | bool | int | float | Sequence[str]

_SCOPE: Final = "agent_reminiscence"
_PREFIX: Final = "agent_reminiscence."
_ERROR_TYPE: Final = "error.type"

# Bounds in seconds. Statements use the semantic conventions' bounds; operations use those for HTTP durations.
_OPERATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_JOB_BOUNDS = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900)
_STATEMENT_BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)


class Telemetry:
    """Observes what one `AgentMem` does.

    Args:
        tracer_provider: Receives spans; None uses the process's global provider, even if it is set later.
        meter_provider: Receives durations; None uses the global one.
        with_content: Whether spans carry memory text.

    Raises:
        ConfigurationError: `with_content` is set, but OpenTelemetry is not installed, so there are no spans.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        with_content: bool = False,
    ) -> None:
        if with_content:
            require("telemetry", "telemetry_content is set, which")
        self._with_content = with_content
        if _is_installed:
            self._tracer = trace.get_tracer(_SCOPE, installed_version(), tracer_provider)
            self._no_tracer = trace.NoOpTracer()
            self._instruments = _shared_instruments() if meter_provider is None else _Instruments(meter_provider)

    def operation(self, name: str) -> Observed:
        """Observe a call of the public API: `with telemetry.operation("retrieve_memories") as operation:`."""
        if not _is_installed:
            return _Unobserved()
        return Observed(
            self._tracer,
            self._instruments.operation_duration,
            f"{_PREFIX}{name}",
            {f"{_PREFIX}operation": name},
            with_content=self._with_content,
        )

    def job(
        self, task: str, *, external_id: str, attempt: int | None = None, delay_seconds: float | None = None
    ) -> ObservedJob:
        """Observe one attempt at a job: `with telemetry.job("consolidate", …) as job:`.

        Args:
            attempt: 1 for the first; None if unknown.
            delay_seconds: How long ago it could have started; None if unknown.
        """
        if not _is_installed:
            return _Unobserved()
        if delay_seconds is not None:
            # Clocks of two machines differ, but no job starts before it is queued.
            self._instruments.job_delay.record(max(0.0, delay_seconds), {f"{_PREFIX}task": task})
        return ObservedJob(self._tracer, self._instruments.job_duration, task, external_id=external_id, attempt=attempt)

    def statement(self, name: str, database: str, *, system: str = "postgresql", statements: int = 1) -> Observed:
        """Observe a statement by its name, never its text or parameters.

        It gets a span only inside another span. Otherwise each would be its own trace, and a polling worker makes
        several each second.

        Args:
            system: The kind of database, as named in the semantic conventions.
            statements: How many are sent together, ending with this one; they share a span.
        """
        if not _is_installed:
            return _Unobserved()
        measured: dict[str, Attribute] = {
            "db.system.name": system,
            "db.namespace": database,
            "db.operation.name": name,
        }
        if statements > 1:
            measured["db.operation.batch.size"] = statements
        is_within = trace.get_current_span().get_span_context().is_valid
        return Observed(
            self._tracer if is_within else self._no_tracer,
            self._instruments.statement_duration,
            name,
            measured,
            kind=trace.SpanKind.CLIENT,
        )


class Observed:
    """A block whose duration is recorded and whose span is current inside it.

    An error is recorded by its class, in `error.type`; not its message, which may quote memory text.
    """

    def __init__(
        self,
        tracer: Tracer,
        histogram: Histogram,
        span_name: str,
        measured: dict[str, Attribute],
        *,
        kind: SpanKind | None = None,
        parent: Context | None = None,
        with_content: bool = False,
    ) -> None:
        self._tracer = tracer
        self._histogram = histogram
        self._span_name = span_name
        self._measured = measured
        self._kind = trace.SpanKind.INTERNAL if kind is None else kind
        self._parent = parent
        self._with_content = with_content

    def __enter__(self) -> Self:
        self._span = self._tracer.start_span(self._span_name, self._parent, self._kind, self._measured)
        self._token: contextvars.Token[Context] = context.attach(trace.set_span_in_context(self._span, self._parent))
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        context.detach(self._token)
        # The block may be a COMMIT; an application's span processor must not make it fail.
        try:
            if error is not None:
                self.failed(type(error).__qualname__)
            self._histogram.record(time.perf_counter() - self._started, self._measured)
            self._span.end()
        except Exception as failure:  # noqa: BLE001 - whatever an application's own telemetry raises
            _logger.warning("telemetry failed (%s); the observed operation was not affected", type(failure).__name__)

    @property
    def is_recording(self) -> bool:
        """Whether attributes set with `note` are recorded."""
        return self._span.is_recording()

    def note(self, **values: Attribute | None) -> None:
        """Set a span attribute `agent_reminiscence.<name>` for each value: ids and numbers, never memory text."""
        if self._span.is_recording():
            self._span.set_attributes({f"{_PREFIX}{name}": v for name, v in values.items() if v is not None})

    def quote(self, **texts: str | Sequence[str] | None) -> None:
        """Set span attributes with memory text, if spans may carry it."""
        if self._with_content:
            self.note(**texts)

    def failed(self, error_type: str) -> None:
        """Record a failure and its error class; an error that leaves the block is recorded automatically."""
        self._measure(_ERROR_TYPE, error_type)
        self._span.set_status(trace.Status(trace.StatusCode.ERROR))

    def _measure(self, name: str, value: Attribute) -> None:
        """Set an attribute with few distinct values on both the span and the duration."""
        self._measured[name] = value
        self._span.set_attribute(name, value)


class ObservedJob(Observed):
    """One attempt at a job, in its own trace: the call that queued it has ended.

    Attributes:
        outcome: The result in one word; None means "failed" after an error, else "done".
    """

    def __init__(
        self, tracer: Tracer, histogram: Histogram, task: str, *, external_id: str, attempt: int | None
    ) -> None:
        super().__init__(
            tracer,
            histogram,
            f"{_PREFIX}job {task}",
            {f"{_PREFIX}task": task},
            kind=trace.SpanKind.CONSUMER,
            # An in-process worker was started inside some other span.
            parent=context.Context(),
        )
        self.outcome: str | None = None
        self._external_id = external_id
        self._attempt = attempt

    def __enter__(self) -> Self:
        super().__enter__()
        self.note(external_id=self._external_id, attempt=self._attempt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        has_failed = error is not None or _ERROR_TYPE in self._measured
        self._measure(f"{_PREFIX}outcome", self.outcome or ("failed" if has_failed else "done"))
        super().__exit__(kind, error, traceback)


class _Unobserved(ObservedJob):
    """A block in a process without OpenTelemetry."""

    def __init__(self) -> None:
        self.outcome = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    @property
    def is_recording(self) -> bool:
        """Never."""
        return False

    def note(self, **values: Attribute | None) -> None:
        """Do nothing."""

    def quote(self, **texts: str | Sequence[str] | None) -> None:
        """Do nothing."""

    def failed(self, error_type: str) -> None:
        """Do nothing."""


def detached() -> contextvars.Context:
    """The caller's context without its span, for a task that outlives the call that started it."""
    copied = contextvars.copy_context()
    if _is_installed:
        copied.run(context.attach, trace.set_span_in_context(trace.INVALID_SPAN))
    return copied


class _Instruments:
    """The duration histograms, in seconds."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = metrics.get_meter(_SCOPE, installed_version() or "", provider)

        def durations(name: str, description: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(
                name, unit="s", description=description, explicit_bucket_boundaries_advisory=bounds
            )

        self.operation_duration = durations(
            f"{_PREFIX}operation.duration", "Duration of calls to the public API.", _OPERATION_BOUNDS
        )
        self.job_duration = durations(f"{_PREFIX}job.duration", "Duration of job attempts.", _JOB_BOUNDS)
        self.job_delay = durations(
            f"{_PREFIX}job.delay", "Time between when a job could have started and when it did.", _JOB_BOUNDS
        )
        self.statement_duration = durations(
            "db.client.operation.duration", "Duration of database client operations.", _STATEMENT_BOUNDS
        )


@cache
def _shared_instruments() -> _Instruments:
    """One set per process: each set created before a provider exists is kept until there is one."""
    return _Instruments(None)
