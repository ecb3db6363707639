"""What an application with an OpenTelemetry SDK sees of a memory, and what it never sees unless it asks to."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest
from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, StatusCode

import agent_reminiscence
from agent_reminiscence import (
    AgentMem,
    AgentModels,
    Config,
    Embedder,
    Filter,
    ImportedMemory,
    InvalidInputError,
    MemoryNotFoundError,
    NotInitializedError,
    ReminiscenceError,
)
from agent_reminiscence.database import connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.vector_cell import VectorCellRepository
from agent_reminiscence.services.vectors.cells import CellService
from agent_reminiscence.telemetry import Telemetry
from tests.acceptance.conftest import Server
from tests.support.factories import LONG_AGO
from tests.support.fakes import FaultyEmbedder, quoting
from tests.support.openings import openings_of
from tests.support.scripted import ScriptedModel, answer
from tests.support.servers import SECOND_SERVER_THOROUGHLY
from tests.support.steps import refusing
from tests.support.telemetry import Recording, attributes
from tests.support.updating import creates, plan

CREATE = "agent_reminiscence.create_active_memory"
GET = "agent_reminiscence.get_active_memories"
UPDATE = "agent_reminiscence.update_active_memory"
RETRIEVE = "agent_reminiscence.retrieve_memories"

SECRETS = {
    "text": "xylophone",
    "title": "quagmire",
    "query": "zeugma",
    "description": "borborygmus",
    "metadata": "kerfuffle",
    "speaker": "Nincompoop",
    "payload": "flibbertigibbet",
    "key": "gobbledygook",
}

Opens = Callable[..., AgentMem]

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "observability.md"


@pytest.fixture
def recording() -> Iterator[Recording]:
    """What the memories of this test observe."""
    kept = Recording()
    yield kept
    kept.close()


@pytest.fixture
def observed(config: Callable[..., Config], recording: Recording) -> Opens:
    """Makes a memory that is observed; keywords override settings."""

    def make(*, embedder: Embedder | None = None, models: AgentModels | None = None, **settings: object) -> AgentMem:
        return AgentMem(
            config(**settings),
            embedder=embedder,
            models=models,
            tracer_provider=recording.tracer_provider,
            meter_provider=recording.meter_provider,
        )

    return make


async def test_each_of_the_four_methods_is_a_span_over_its_statements(observed: Opens, recording: Recording) -> None:
    """A slow call shows which of its statements was slow, the commit among them."""
    async with observed() as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        await memory.get_active_memories("agent-1")
        await memory.update_active_memory("agent-1", note.id, content="Ship on Monday.")
        await memory.retrieve_memories("agent-1", "when do we ship?")

    expected = {
        CREATE: ["BEGIN", "append_event", "create_active_memory", "COMMIT"],
        GET: ["BEGIN", "list_active_memories", "COMMIT"],
        UPDATE: ["BEGIN", "append_event", "update_active_memory", "COMMIT"],
        RETRIEVE: ["BEGIN", "open_stream", "find_dots_and_norms", "read_hits", "COMMIT"],
    }
    for name, statements in expected.items():
        operation = recording.span(name)
        assert operation.parent is None
        found = recording.children(operation)
        assert _in_order(statements, [span.name for span in found])
        for span in found:
            assert span.kind is SpanKind.CLIENT
            assert attributes(span)["db.system.name"] == "postgresql"
            assert attributes(span)["db.operation.name"] == span.name


async def test_a_search_of_a_small_tenant_takes_three_round_trips(observed: Opens, recording: Recording) -> None:
    """Once its statements are prepared: the first goes with the beginning of the transaction, the last with its end."""
    async with observed(postgres_pool_size=1) as memory:
        await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        for _ in range(3):
            result = await memory.retrieve_memories("agent-1", "when do we ship?")

    assert result.hits
    last = recording.spans(RETRIEVE)[-1]
    assert [span.name for span in recording.children(last)] == ["open_stream", "find_dots_and_norms", "read_hits"]


@pytest.mark.thorough
async def test_a_search_of_many_short_texts_takes_four_round_trips(
    observed: Opens, recording: Recording, store: PostgresManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is still to be compared of the chosen texts is asked for together with these."""
    # A connection of that age begins with a statement that discards its plans.
    monkeypatch.setattr(connection, "_FIRST_REPLANNING_SECONDS", math.inf)
    async with observed(postgres_pool_size=1, worker=False) as memory:
        openings_of(memory)._whole_max_chunks = 0
        await memory.admin.import_memories(
            "agent-1",
            [ImportedMemory(title=f"Crate {number}", content=f"It holds {number * 7} pears.", metadata={},
                            occurred_at=LONG_AGO) for number in range(400)],
        )  # fmt: skip
        # More cells than a search looks into.
        cells = CellService(store, EventLedger(), ChunkVectorRepository(), VectorCellRepository(), least=100)
        assert await cells.sort("agent-1")
        for number in (12, 34, 56):
            result = await memory.retrieve_memories("agent-1", f"What does crate {number} hold?")

    assert result.hits[0].title == "Crate 56"
    sent = recording.children(recording.spans(RETRIEVE)[-1])
    assert [span.name for span in sent] == ["open_stream", "find_near_dots", "read_layouts_of", "read_hits"]
    assert attributes(sent[2])["db.operation.batch.size"] == 2


def _in_order(wanted: list[str], found: list[str]) -> bool:
    """Whether `found` holds all of `wanted`, in this order, whatever is in between."""
    rest = iter(found)
    return all(name in rest for name in wanted)


async def test_the_spans_of_the_four_methods_say_what_was_done(observed: Opens, recording: Recording) -> None:
    """Whose memory, which one, and how much of it changed."""
    async with observed(active_memory_update_threshold=1) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        await memory.update_active_memory("agent-1", note.id, content="Ship on Monday.")
        await memory.get_active_memories("agent-1")
        await memory.retrieve_memories("agent-1", "when do we ship?", limit=3, tiers=["active", "shortterm"])

    prefix = "agent_reminiscence."
    written = {f"{prefix}external_id": "agent-1", f"{prefix}memory_id": str(note.id)}
    assert attributes(recording.span(CREATE)) == written | {
        f"{prefix}operation": "create_active_memory",
        f"{prefix}version": 1,
        f"{prefix}chunks_added": 1,
        f"{prefix}chunks_kept": 0,
        f"{prefix}chunks_ended": 0,
        f"{prefix}consolidation_queued": False,
    }
    assert attributes(recording.span(UPDATE)) == written | {
        f"{prefix}operation": "update_active_memory",
        f"{prefix}version": 2,
        f"{prefix}chunks_added": 1,
        f"{prefix}chunks_kept": 0,
        f"{prefix}chunks_ended": 1,
        f"{prefix}consolidation_queued": True,
    }
    assert attributes(recording.span(GET)) == {
        f"{prefix}operation": "get_active_memories",
        f"{prefix}external_id": "agent-1",
        f"{prefix}memories": 1,
    }
    assert attributes(recording.span(RETRIEVE)) == {
        f"{prefix}operation": "retrieve_memories",
        f"{prefix}external_id": "agent-1",
        f"{prefix}limit": 3,
        f"{prefix}tiers": ["active", "shortterm"],
        f"{prefix}hits": 1,
        f"{prefix}entities": 0,
    }


async def test_calls_that_ask_a_model_are_observed_and_quote_nothing(observed: Opens, recording: Recording) -> None:
    """How long a conversation took to be remembered, and an answer to be written; not what its reader did meanwhile."""
    updater = ScriptedModel(plan(creates("Zeugma", "A zeugma joins.", 1)))
    retriever = ScriptedModel(answer({"answer": "It joins [1].", "is_known": True}))
    models = AgentModels(memory_update=updater.model, memory_retrieve=retriever.model)
    async with observed(models=models) as memory:
        await memory.admin.remember("agent-1", [{"role": "user", "content": "What a zeugma is: it joins."}])
        tracer = recording.tracer_provider.get_tracer("a reader")
        async for _ in memory.admin.stream_answer("agent-1", "What is a zeugma?", limit=3):
            with tracer.start_as_current_span("reading"):
                pass

    prefix = "agent_reminiscence."
    assert attributes(recording.span(f"{prefix}remember")) == {
        f"{prefix}operation": "remember",
        f"{prefix}external_id": "agent-1",
        f"{prefix}messages": 1,
        f"{prefix}changes": 1,
    }
    assert attributes(recording.span(f"{prefix}stream_answer")) == {
        f"{prefix}operation": "stream_answer",
        f"{prefix}external_id": "agent-1",
        f"{prefix}limit": 3,
        f"{prefix}tiers": ["active", "shortterm", "longterm"],
        f"{prefix}hits": 1,
    }
    assert {span.parent for span in recording.spans("reading")} == {None}
    assert "zeugma" not in "".join(span.to_json() for span in recording.spans()).casefold()


async def test_a_call_is_part_of_the_callers_trace(observed: Opens, recording: Recording) -> None:
    """An agent's run shows the memory calls that it made."""
    tracer = recording.tracer_provider.get_tracer("an agent")
    async with observed() as memory:
        with tracer.start_as_current_span("run"):
            await memory.retrieve_memories("agent-1", "when do we ship?")
            await memory.admin.verify()

    below = recording.children(recording.span("run"))
    assert below[0].name == RETRIEVE
    assert "COMMIT" in [span.name for span in below[1:]]


async def test_a_call_that_fails_has_the_error_in_span_and_duration(observed: Opens, recording: Recording) -> None:
    """By its class, so that failures can be counted by kind."""
    unknown = UUID(int=0)
    memory = observed()
    with pytest.raises(NotInitializedError):
        await memory.get_active_memories("agent-1")
    async with memory:
        with pytest.raises(MemoryNotFoundError):
            await memory.update_active_memory("agent-1", unknown, content="Ship on Monday.")
        with pytest.raises(InvalidInputError):
            await memory.retrieve_memories("agent-1", "when?", limit=0)

    failed = {GET: "NotInitializedError", UPDATE: "MemoryNotFoundError", RETRIEVE: "InvalidInputError"}
    for name, error in failed.items():
        span = recording.span(name)
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == error
    assert attributes(recording.span(UPDATE))["agent_reminiscence.memory_id"] == str(unknown)
    durations = recording.durations("agent_reminiscence.operation.duration")
    counted = {(point.attributes or {})["error.type"]: point.count for point in durations}
    assert counted == dict.fromkeys(failed.values(), 1)


async def test_a_statement_that_is_refused_is_the_one_that_failed(
    observed: Opens, recording: Recording, server: Server, database: str
) -> None:
    """The statement's span has the error, those before it have none, and the transaction is rolled back."""
    async with (
        observed() as memory,
        refusing(server.superuser(database), "active_memory", "content NOT LIKE '%plays%'"),
    ):
        with pytest.raises(ReminiscenceError, match="of_a_test"):
            await memory.create_active_memory("agent-1", "Plan", "The band plays.")

    statements = recording.children(recording.span(CREATE))
    assert [span.name for span in statements if span.status.status_code is StatusCode.ERROR] == ["create_active_memory"]
    assert statements[-1].name == "ROLLBACK"


async def test_metrics_name_no_tenant(observed: Opens, recording: Recording) -> None:
    """An attribute with as many values as there are tenants makes as many time series."""
    async with observed() as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")

    printed = "\n".join(metric.to_json() for metric in recording.metrics().values())
    assert "agent_reminiscence.operation.duration" in printed
    assert "db.client.operation.duration" in printed
    assert "agent-1" not in printed
    assert str(note.id) not in printed


async def test_work_in_the_background_is_no_part_of_the_call_before_it(observed: Opens, recording: Recording) -> None:
    """A trace ends with its call, whoever started the worker in it and whatever the worker does from then on."""
    memory = observed(worker=True, active_memory_update_threshold=1)
    with recording.tracer_provider.get_tracer("an application").start_as_current_span("start"):
        await memory.initialize()
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        await memory.retrieve_memories("agent-1", "when do we ship?")
    await memory.update_active_memory("agent-1", note.id, content="Ship on Monday.")
    await memory.admin.wait_until_idle("agent-1", timeout_seconds=30)
    await memory.close()

    start = recording.span("start")
    assert start.end_time is not None
    within = [span for span in recording.spans() if span.context.trace_id == start.context.trace_id]
    assert {RETRIEVE, "COMMIT"} <= {span.name for span in within}
    assert [span.name for span in within if (span.end_time or 0) > start.end_time] == []


@asynccontextmanager
async def _within(recording: Recording) -> AsyncIterator[None]:
    # So that the statements of administration, which has no spans of its own, have some too.
    with recording.tracer_provider.get_tracer("an agent").start_as_current_span("run"):
        yield


async def _live(memory: AgentMem, folder: Path) -> None:
    """Everything that can be done with a memory, with a secret in every place."""
    text, title, query = SECRETS["text"], SECRETS["title"], SECRETS["query"]
    note = await memory.create_active_memory(
        "agent-1",
        title,
        f"The {text} plays.",
        description=SECRETS["description"],
        metadata={"note": SECRETS["metadata"], "speaker": SECRETS["speaker"]},
        idempotency_key=SECRETS["key"],
    )
    for number in range(5):
        await memory.update_active_memory("agent-1", note.id, content=f"The {text} plays on. {number}")
    long = await memory.create_active_memory("agent-1", title, f"The {text} plays long. " * 120)
    await memory.ledger.append("agent-1", "world.observed", {"seen": SECRETS["payload"]})
    await memory.retrieve_memories("agent-1", query)
    where = Filter(
        metadata={SECRETS["metadata"]: SECRETS["payload"]}, speakers=[SECRETS["speaker"]], actors=[SECRETS["key"]]
    )
    await memory.retrieve_memories("agent-1", query, where=where)
    await memory.get_active_memories("agent-1", where=where)
    await memory.retrieve_memories("agent-1", f"{text}, says {SECRETS['speaker']}")
    await memory.admin.consolidate("agent-1")
    await memory.admin.archive("agent-1", note.id)
    for attempt in (
        memory.create_active_memory("agent-1", title, text, key=f"{SECRETS['key']}\x00"),
        memory.create_active_memory("agent-1", title, text, metadata={SECRETS["metadata"]: {1}}),
        memory.create_active_memory("agent-1", title, text, idempotency_key=SECRETS["key"]),
        memory.update_active_memory("agent-1", note.id, content=text),
        memory.retrieve_memories("agent-1", query * 20_000),
    ):
        with pytest.raises(ReminiscenceError):
            await attempt
    await memory.admin.history("agent-1", note.id)
    await memory.admin.verify("agent-1")
    await memory.admin.rebuild("agent-1")
    await memory.admin.export("agent-1", folder / "memory.export")
    await memory.admin.import_(folder / "memory.export", "agent-2")
    await memory.admin.erase("agent-1", text=f"{text} plays long", dry_run=True)
    receipt = await memory.admin.erase("agent-1", memory_id=long.id)
    await memory.admin.verify_erased(receipt, text=f"{text} plays long")
    await memory.admin.erase("agent-1", text=SECRETS["payload"])


@pytest.mark.thorough
@SECOND_SERVER_THOROUGHLY
async def test_no_span_and_no_metric_holds_what_was_remembered_or_asked(
    observed: Opens, recording: Recording, tmp_path: Path
) -> None:
    """Neither in a name nor in an attribute, an event or a status, of calls that succeed and of calls that fail."""
    async with observed(worker=True) as memory, _within(recording):
        await _live(memory, tmp_path)
        await memory.admin.wait_until_idle(timeout_seconds=30)

    names = {span.name for span in recording.spans()}
    assert {CREATE, UPDATE, RETRIEVE, "empty_events", "compare_table", "import_events"} <= names
    _check(recording.printed())


@pytest.mark.thorough
async def test_no_span_of_a_failing_embedder_or_store_quotes_the_text(
    observed: Opens, recording: Recording, server: Server, database: str, tmp_path: Path
) -> None:
    """An embedder's error may repeat its input, and PostgreSQL's the row that it refused."""
    async with observed(embedder=FaultyEmbedder(quoting)) as memory, _within(recording):
        await _live(memory, tmp_path)
        async with refusing(server.superuser(database), "active_memory", f"title <> '{SECRETS['title']} 2'"):
            with pytest.raises(ReminiscenceError, match="of_a_test"):
                await memory.create_active_memory("agent-1", f"{SECRETS['title']} 2", f"The {SECRETS['text']}.")

    assert any(span.status.status_code is StatusCode.ERROR for span in recording.spans("create_active_memory"))
    _check(recording.printed())


def _check(printed: str) -> None:
    for name, secret in SECRETS.items():
        assert secret.lower() not in printed.lower(), f"{name} in a span or a metric"


async def test_spans_quote_memory_where_the_setting_asks_for_it(observed: Opens, recording: Recording) -> None:
    """Texts, titles, queries and hits, on the spans of the calls that they belong to, and never in a metric."""
    async with observed(telemetry_content=True) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.", description="For the release")
        await memory.update_active_memory("agent-1", note.id, content="Ship on Monday.")
        await memory.retrieve_memories("agent-1", "when do we ship?")

    prefix = "agent_reminiscence."
    created, updated, found = (attributes(recording.span(name)) for name in (CREATE, UPDATE, RETRIEVE))
    assert created[f"{prefix}title"] == "Plan"
    assert created[f"{prefix}content"] == "Ship on Friday."
    assert created[f"{prefix}description"] == "For the release"
    assert updated[f"{prefix}content"] == "Ship on Monday."
    assert f"{prefix}title" not in updated
    assert found[f"{prefix}query"] == "when do we ship?"
    assert found[f"{prefix}hit_titles"] == ["Plan"]
    assert found[f"{prefix}hit_contents"] == ["Ship on Monday."]
    assert "Ship on" not in "\n".join(metric.to_json() for metric in recording.metrics().values())


async def test_without_an_sdk_everything_works_and_nothing_is_recorded(config: Callable[..., Config]) -> None:
    """The API alone, which is what an installation has, records nothing, whatever the setting says."""
    assert type(trace.get_tracer_provider()).__module__.startswith("opentelemetry.trace")
    assert type(metrics.get_meter_provider()).__module__.startswith("opentelemetry.metrics")

    async with AgentMem(config(telemetry_content=True)) as memory:
        await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        found = await memory.retrieve_memories("agent-1", "when do we ship?")

    assert [hit.content for hit in found.hits] == ["Ship on Friday."]
    assert not trace.get_current_span().is_recording()


def _listed(what: str) -> list[str]:
    """The first cells of the guide's tables whose header begins with `what`."""
    found: list[str] = []
    header = ""
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            header = ""
            continue
        first = line.split("|")[1].strip()
        header = header or first
        if header == what and first.startswith("`"):
            found.append(first.strip("`"))
    return found


async def test_the_guide_lists_every_attribute_and_metric(observed: Opens, recording: Recording) -> None:
    """Who builds a dashboard finds all there is, and nothing that is not."""
    models = AgentModels(memory_update=ScriptedModel(answer({"why": "Small talk."})).model)
    async with observed(telemetry_content=True, models=models) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.", description="For the release")
        await memory.get_active_memories("agent-1")
        await memory.update_active_memory("agent-1", note.id, content="Ship on Monday.")
        await memory.create_active_memory("agent-2", "Plan", "Ship on Sunday.")
        await memory.retrieve_memories("agent-1", "when do we ship?")
        await memory.retrieve_memories(["agent-1", "agent-2"], "when do we ship?")
        await memory.admin.remember("agent-1", [{"role": "user", "content": "We ship later."}])
    with (
        pytest.raises(RuntimeError),
        Telemetry(recording.tracer_provider, recording.meter_provider).job(
            "consolidate", external_id="agent-1", attempt=1, delay_seconds=0.1
        ),
    ):
        raise RuntimeError

    listed = _listed("attribute")
    assert len(listed) == len(set(listed))
    assert set(listed) == {name for span in recording.spans() for name in attributes(span)}
    assert set(_listed("metric")) == recording.metrics().keys()
    assert {metric.unit for metric in recording.metrics().values()} == {"s"}


def test_the_guide_lists_every_logger() -> None:
    """Who sets levels finds the names to set them for."""
    sources = Path(agent_reminiscence.__file__).parent.rglob("*.py")
    ours = {
        name
        for path in sources
        for name in re.findall(r'getLogger\("(agent_reminiscence\.[\w.]+)"\)', path.read_text(encoding="utf-8"))
    }

    assert ours == set(_listed("logger"))
