"""Spans and durations: what is recorded, what never is, and that nothing happens without an SDK."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from agent_reminiscence.database.queries import NamedQuery, all_query_files, load_queries, statement_name
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.telemetry import Telemetry, detached
from tests.support.telemetry import Recording, attributes


@pytest.fixture
def recording() -> Iterator[Recording]:
    """What this test's objects observe."""
    kept = Recording()
    yield kept
    kept.close()


@pytest.fixture
def telemetry(recording: Recording) -> Telemetry:
    """As `AgentMem` makes it."""
    return Telemetry(recording.tracer_provider, recording.meter_provider)


def test_an_operation_has_a_span_and_a_duration(recording: Recording, telemetry: Telemetry) -> None:
    """Ids and figures go to the span alone: with them each tenant would be a time series of its own."""
    with telemetry.operation("retrieve_memories") as operation:
        operation.note(external_id="agent-1", limit=10, tiers=("active", "longterm"), version=None)

    span = recording.span("agent_reminiscence.retrieve_memories")
    assert attributes(span) == {
        "agent_reminiscence.operation": "retrieve_memories",
        "agent_reminiscence.external_id": "agent-1",
        "agent_reminiscence.limit": 10,
        "agent_reminiscence.tiers": ["active", "longterm"],
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "agent_reminiscence"
    (duration,) = recording.durations("agent_reminiscence.operation.duration")
    assert duration.attributes == {"agent_reminiscence.operation": "retrieve_memories"}
    assert duration.count == 1
    assert recording.metrics()["agent_reminiscence.operation.duration"].unit == "s"


def test_a_failure_is_named_by_its_class_alone(recording: Recording, telemetry: Telemetry) -> None:
    """A message may quote what was remembered; it is in no status, no event and no attribute."""
    with (
        pytest.raises(InvalidInputError),
        telemetry.operation("create_active_memory"),
        telemetry.statement("append_event", "reminiscence"),
    ):
        raise InvalidInputError("the xylophone plays")

    assert {span.name for span in recording.spans()} == {"append_event", "agent_reminiscence.create_active_memory"}
    for span in recording.spans():
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description is None
        assert attributes(span)["error.type"] == "InvalidInputError"
        assert span.events == ()
    for name in ("agent_reminiscence.operation.duration", "db.client.operation.duration"):
        (duration,) = recording.durations(name)
        assert duration.attributes is not None
        assert duration.attributes["error.type"] == "InvalidInputError"
    assert "xylophone" not in recording.printed()


async def test_a_cancelled_operation_ends_its_span(recording: Recording, telemetry: Telemetry) -> None:
    """A call that is given up is seen like any other, and its span is not the current one for ever."""

    async def wait() -> None:
        with telemetry.operation("retrieve_memories"):
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wait(), timeout=0.01)

    assert attributes(recording.span("agent_reminiscence.retrieve_memories"))["error.type"] == "CancelledError"
    assert not trace.get_current_span().is_recording()


@pytest.mark.parametrize("with_content", [False, True])
def test_memory_text_is_in_a_span_only_where_it_is_wanted(recording: Recording, with_content: bool) -> None:
    """The one switch decides for everything that is quoted."""
    telemetry = Telemetry(recording.tracer_provider, recording.meter_provider, with_content=with_content)

    with telemetry.operation("retrieve_memories") as operation:
        operation.quote(query="xylophone", hit_contents=["The xylophone plays."])

    found = attributes(recording.span("agent_reminiscence.retrieve_memories"))
    assert ("agent_reminiscence.query" in found) is with_content
    assert ("xylophone" in recording.printed()) is with_content


def test_a_statement_has_a_span_within_another_one_and_always_a_duration(
    recording: Recording, telemetry: Telemetry
) -> None:
    """A worker that looks for work would make a trace each second; what it costs is measured all the same."""
    with telemetry.statement("find_due", "reminiscence"):
        pass
    with telemetry.operation("create_active_memory"), telemetry.statement("append_event", "reminiscence"):
        pass

    assert [span.name for span in recording.spans()] == ["append_event", "agent_reminiscence.create_active_memory"]
    statement, operation = recording.spans()
    assert recording.children(operation) == [statement]
    assert statement.kind is SpanKind.CLIENT
    expected = {
        "db.system.name": "postgresql",
        "db.namespace": "reminiscence",
        "db.operation.name": "append_event",
    }
    assert attributes(statement) == expected
    durations = recording.durations("db.client.operation.duration")
    assert [point.attributes for point in durations] == [expected | {"db.operation.name": "find_due"}, expected]


def test_a_job_that_succeeds_is_done(recording: Recording, telemetry: Telemetry) -> None:
    """Its span says whose it is and which attempt; the durations say how long it waited and took."""
    with telemetry.job("consolidate", external_id="agent-1", attempt=2, delay_seconds=0.25):
        pass

    span = recording.span("agent_reminiscence.job consolidate")
    assert attributes(span) == {
        "agent_reminiscence.task": "consolidate",
        "agent_reminiscence.outcome": "done",
        "agent_reminiscence.external_id": "agent-1",
        "agent_reminiscence.attempt": 2,
    }
    (delay,) = recording.durations("agent_reminiscence.job.delay")
    assert (delay.sum, delay.attributes) == (0.25, {"agent_reminiscence.task": "consolidate"})
    (duration,) = recording.durations("agent_reminiscence.job.duration")
    assert duration.attributes == {"agent_reminiscence.task": "consolidate", "agent_reminiscence.outcome": "done"}


def test_a_job_that_fails_says_so(recording: Recording, telemetry: Telemetry) -> None:
    """Whether the error leaves the job or is caught by who repeats it."""
    with pytest.raises(ValueError, match="xylophone"), telemetry.job("consolidate", external_id="agent-1", attempt=1):
        raise ValueError("xylophone")
    with telemetry.job("consolidate", external_id="agent-1", attempt=1) as job:
        job.failed("ValueError")
        job.outcome = "repeated"

    left, caught = recording.spans()
    assert [attributes(span)["agent_reminiscence.outcome"] for span in (left, caught)] == ["failed", "repeated"]
    for span in (left, caught):
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == "ValueError"
    assert "xylophone" not in recording.printed()


def test_a_job_begins_a_trace_of_its_own(recording: Recording, telemetry: Telemetry) -> None:
    """A worker within the process was started within some other span, which has long ended when a job runs."""
    with telemetry.operation("create_active_memory"), telemetry.job("consolidate", external_id="agent-1", attempt=1):
        with telemetry.statement("append_event", "reminiscence"):
            pass
        assert trace.get_current_span().is_recording()

    job = recording.span("agent_reminiscence.job consolidate")
    assert job.parent is None
    assert [span.name for span in recording.children(job)] == ["append_event"]
    assert recording.children(recording.span("agent_reminiscence.create_active_memory")) == []


async def test_a_task_that_outlives_its_call_is_not_part_of_it(recording: Recording, telemetry: Telemetry) -> None:
    """What a worker does for ever after would otherwise belong to the call that has started it."""

    async def work() -> str:
        with telemetry.statement("append_event", "reminiscence"):
            return caller.get()

    caller = contextvars.ContextVar[str]("caller")
    caller.set("an application")
    with telemetry.operation("create_active_memory"):
        task = asyncio.create_task(work(), context=detached())
        assert trace.get_current_span().is_recording()

    assert await task == "an application"
    assert [span.name for span in recording.spans()] == ["agent_reminiscence.create_active_memory"]


def test_the_clocks_of_two_machines_make_no_negative_delay(recording: Recording, telemetry: Telemetry) -> None:
    """A job that seems to start before it was queued has not waited."""
    with telemetry.job("consolidate", external_id="agent-1", attempt=1, delay_seconds=-3.0):
        pass

    (delay,) = recording.durations("agent_reminiscence.job.delay")
    assert delay.sum == 0.0


def test_several_objects_share_one_provider(recording: Recording, caplog: pytest.LogCaptureFixture) -> None:
    """The instruments are the same ones; the SDK has nothing to warn of."""
    for _ in range(2):
        telemetry = Telemetry(recording.tracer_provider, recording.meter_provider)
        with telemetry.operation("retrieve_memories"):
            pass

    (duration,) = recording.durations("agent_reminiscence.operation.duration")
    assert duration.count == 2
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_without_an_sdk_nothing_is_recorded() -> None:
    """No span records, and every call is one that does nothing."""
    telemetry = Telemetry(with_content=True)

    with telemetry.operation("retrieve_memories") as operation:
        operation.note(limit=10)
        operation.quote(query="xylophone")
        assert not trace.get_current_span().is_recording()
        with telemetry.statement("search", "reminiscence"):
            assert not trace.get_current_span().is_recording()
    with telemetry.job("consolidate", external_id="agent-1", attempt=1, delay_seconds=0.1):
        assert not trace.get_current_span().is_recording()


_USE_WITHOUT_SDK = """
import sys
import agent_reminiscence
from agent_reminiscence.telemetry import Telemetry

with Telemetry().operation("retrieve_memories"):
    pass
loaded = [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))]
print(loaded)
"""


@pytest.mark.thorough
def test_the_package_imports_no_sdk_and_no_exporter() -> None:
    """Which SDK there is, and where it sends to, is the application's business."""
    done = subprocess.run([sys.executable, "-c", _USE_WITHOUT_SDK], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_every_named_query_knows_its_name_and_keeps_it() -> None:
    """A repository fills in what varies, such as a table's name, before it runs the statement."""
    for stem in all_query_files("sql"):
        for name, query in load_queries("sql", stem).items():
            assert statement_name(query) == name
            assert statement_name(query.replace("{generation}", "1").replace("external_id", "id", 1)) == name


def test_a_named_query_is_its_text() -> None:
    """Whatever takes a statement takes it: equal, hashed and replaced as a string is."""
    query = NamedQuery("SELECT {column} FROM {table}", "look")

    assert query == "SELECT {column} FROM {table}"
    assert hash(query) == hash("SELECT {column} FROM {table}")
    assert query.replace("{column}", "1").replace("{table}", "x") == "SELECT 1 FROM x"


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("COMMIT", "COMMIT"),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "BEGIN"),
        ("select 'xylophone'", "SELECT"),
        ("\n  SELECT 1", "SELECT"),
        ("-- The xylophone\n-- plays.\nSELECT 1", "SELECT"),
        ("", ""),
        ("-- xylophone", ""),
    ],
)
def test_another_statement_is_named_by_its_first_word(statement: str, name: str) -> None:
    """No other word of it is looked at, and no comment."""
    assert statement_name(statement) == name


class _Broken(SpanProcessor):
    """An application's processor with a mistake in it."""

    def on_end(self, span: ReadableSpan) -> None:
        raise ZeroDivisionError


def test_an_error_of_the_applications_telemetry_fails_nothing(
    recording: Recording, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    """What is observed may be a COMMIT; its caller must not take it for failed, and the span is left in any case."""
    recording.tracer_provider.add_span_processor(_Broken())

    with telemetry.operation("create_active_memory"):
        pass

    assert "telemetry failed (ZeroDivisionError)" in caplog.text
    assert trace.get_current_span() is trace.INVALID_SPAN
