"""Spans and durations through the OpenTelemetry API. Nothing is recorded until the application sets up an SDK."""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from types import TracebackType
from typing import Final, Self

from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, TracerProvider

Attribute = str | bool | int | float | Sequence[str]

_logger = logging.getLogger("agent_reminiscence.telemetry")

_SCOPE: Final = "agent_reminiscence"
_PREFIX: Final = "agent_reminiscence."
_ERROR_TYPE: Final = "error.type"

_NO_TRACER: Final = trace.NoOpTracer()

# Bounds in seconds. Those of statements are the semantic conventions', those of operations their HTTP durations'.
_OPERATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_JOB_BOUNDS = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900)
_STATEMENT_BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)


class Telemetry:
    """Observes what one `AgentMem` does.

    Args:
        tracer_provider: Where spans go; None is the provider that the application sets for the process, now or later.
        meter_provider: Where durations go; None is as above.
        with_content: Whether spans carry memory text.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        with_content: bool = False,
    ) -> None:
        self._tracer = trace.get_tracer(_SCOPE, _version(), tracer_provider)
        self._instruments = _shared_instruments() if meter_provider is None else _Instruments(meter_provider)
        self._with_content = with_content

    def operation(self, name: str) -> Observed:
        """Observe a call of the public surface: `with telemetry.operation("retrieve_memories") as operation:`."""
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
            attempt: 1 for the first; None where that is unknown.
            delay_seconds: How long ago it could have started; None where that is unknown.
        """
        if delay_seconds is not None:
            # The clocks of two machines differ, and no job starts before it was queued.
            self._instruments.job_delay.record(max(0.0, delay_seconds), {f"{_PREFIX}task": task})
        return ObservedJob(self._tracer, self._instruments.job_duration, task, external_id=external_id, attempt=attempt)

    def statement(self, name: str, database: str, *, system: str = "postgresql", statements: int = 1) -> Observed:
        """Observe a statement, by its name: neither its text nor its parameters are looked at.

        It gets a span only within another one. Alone it would be a trace of its own, and a worker that looks for work
        makes some each second.

        Args:
            system: The kind of database, as the semantic conventions call it.
            statements: How many are sent together, of which this is the last; they share a span.
        """
        measured: dict[str, Attribute] = {
            "db.system.name": system,
            "db.namespace": database,
            "db.operation.name": name,
        }
        if statements > 1:
            measured["db.operation.batch.size"] = statements
        is_within = trace.get_current_span().get_span_context().is_valid
        return Observed(
            self._tracer if is_within else _NO_TRACER,
            self._instruments.statement_duration,
            name,
            measured,
            kind=SpanKind.CLIENT,
        )


class Observed:
    """A block whose duration is recorded, and which has a span that is the current one within it.

    What fails is named by its class, in `error.type`. Its message is left out, since it may quote memory text.
    """

    def __init__(
        self,
        tracer: Tracer,
        histogram: Histogram,
        span_name: str,
        measured: dict[str, Attribute],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: Context | None = None,
        with_content: bool = False,
    ) -> None:
        self._tracer = tracer
        self._histogram = histogram
        self._span_name = span_name
        self._measured = measured
        self._kind = kind
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
        # What is observed may be a COMMIT. An application's span processor must not make a failure of it.
        try:
            if error is not None:
                self.failed(type(error).__qualname__)
            self._histogram.record(time.perf_counter() - self._started, self._measured)
            self._span.end()
        except Exception as failure:  # noqa: BLE001 - whatever an application's own telemetry raises
            _logger.warning("telemetry failed (%s); what it observed did not", type(failure).__name__)

    @property
    def is_recording(self) -> bool:
        """Whether anybody keeps what `note` is told."""
        return self._span.is_recording()

    def note(self, **values: Attribute | None) -> None:
        """Give the span an attribute `agent_reminiscence.<name>` for each value: ids and figures, never memory text."""
        if self._span.is_recording():
            self._span.set_attributes({f"{_PREFIX}{name}": v for name, v in values.items() if v is not None})

    def quote(self, **texts: str | Sequence[str] | None) -> None:
        """The same for memory text; left out unless spans are to carry it."""
        if self._with_content:
            self.note(**texts)

    def failed(self, error_type: str) -> None:
        """Say that it failed, and with which class of error; an error that leaves the block says so by itself."""
        self._measure(_ERROR_TYPE, error_type)
        self._span.set_status(Status(StatusCode.ERROR))

    def _measure(self, name: str, value: Attribute) -> None:
        """Give both the span and the duration an attribute, one of few values."""
        self._measured[name] = value
        self._span.set_attribute(name, value)


class ObservedJob(Observed):
    """One attempt at a job, which begins a trace of its own: who queued it is long gone.

    Attributes:
        outcome: What became of it, in one word; None is "failed" after an error, and else "done".
    """

    def __init__(
        self, tracer: Tracer, histogram: Histogram, task: str, *, external_id: str, attempt: int | None
    ) -> None:
        super().__init__(
            tracer,
            histogram,
            f"{_PREFIX}job {task}",
            {f"{_PREFIX}task": task},
            kind=SpanKind.CONSUMER,
            # A worker within the process was started in the midst of something else.
            parent=Context(),
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


def detached() -> contextvars.Context:
    """The caller's context without its span, for a task that outlives the call in which it begins."""
    copied = contextvars.copy_context()
    copied.run(context.attach, trace.set_span_in_context(trace.INVALID_SPAN))
    return copied


class _Instruments:
    """The durations that are measured, in seconds."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = metrics.get_meter(_SCOPE, _version(), provider)

        def durations(name: str, description: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(
                name, unit="s", description=description, explicit_bucket_boundaries_advisory=bounds
            )

        self.operation_duration = durations(
            f"{_PREFIX}operation.duration", "Duration of calls of the public surface.", _OPERATION_BOUNDS
        )
        self.job_duration = durations(f"{_PREFIX}job.duration", "Duration of attempts at jobs.", _JOB_BOUNDS)
        self.job_delay = durations(
            f"{_PREFIX}job.delay", "Time from when a job could have started to its start.", _JOB_BOUNDS
        )
        self.statement_duration = durations(
            "db.client.operation.duration", "Duration of database client operations.", _STATEMENT_BOUNDS
        )


@cache
def _shared_instruments() -> _Instruments:
    """Those of the process. Each set that is made before a provider is there would be kept until one is."""
    return _Instruments(None)


@cache
def _version() -> str:
    return version("agent-reminiscence")
