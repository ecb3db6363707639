"""`verify` says what is not as the ledger says, and nothing else; `rebuild` makes it so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import AgentMem, Config, ExternalIdNotFoundError, InvalidInputError
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.replay_tables import PROJECTED_TABLES
from agent_reminiscence.domain.audit import AuditProgress, AuditReport, Drift, StreamReport
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.projections import HANDLERS
from agent_reminiscence.projections.change import Change
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.factories import LONG_AGO, SECRET, Tenant, fill_tenant, make_event, stored_rows, superuser
from tests.support.fakes import DistantEmbedder, FaultyEmbedder, away
from tests.support.filled import FilledDatabases

_LOGGER = "agent_reminiscence.verification"
# Of every text that `fill_tenant` stores, a few words that stand nowhere else.
_WORDS = ("Lisbon", "spare key", "water the plants", "bakery", "houseboat", "summer party", "kettle", "guests", SECRET)


@pytest.fixture
async def database(
    request: pytest.FixtureRequest, test_server: TestServer, filled_databases: FilledDatabases[Tenant]
) -> AsyncIterator[str]:
    """A database in which the tenant is, for a test that asks for it; for others one without a memory."""
    if "tenant" in request.fixturenames:
        async with filled_databases.lent() as name:
            yield name
    else:
        name = await test_server.databases.take()
        yield name
        await test_server.databases.give_back(name)


@pytest.fixture
def config(test_server: TestServer, database: str) -> Config:
    """Of a memory on the test's database."""
    settings: dict[str, Any] = {
        "postgres_dsn": dsn(test_server.login(database)),
        "embedding_provider": "hash",
        "embedding_dimension": TEST_DIMENSION,
        "worker": False,
    }
    return Config(**settings)


@pytest.fixture
async def memory(config: Config) -> AsyncIterator[AgentMem]:
    """A memory on the test's database."""
    async with AgentMem(config) as opened:
        yield opened


@pytest.fixture
def tenant(database: str, filled_databases: FilledDatabases[Tenant]) -> Tenant:
    """A tenant of the test's own, with all that a tenant can have."""
    return filled_databases.contents


@pytest.fixture
async def administrator(test_server: TestServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A superuser's connection on the test's database."""
    async with superuser(test_server, database) as db:
        yield db


async def _verify(memory: AgentMem, external_id: str, **options: Any) -> StreamReport:
    [report] = (await memory.admin.verify(external_id, **options)).streams
    return report


async def _first_chunk(db: SqlExecutor, tenant: Tenant) -> UUID:
    row = await db.fetch_one(
        "SELECT chunk_id FROM memory_chunk WHERE external_id = $(tenant)p AND memory_id = $(memory_id)p"
        " ORDER BY chunk_order LIMIT 1",
        {"tenant": tenant.external_id, "memory_id": tenant.memory_id},
    )
    assert row is not None
    return UUID(row["chunk_id"])


# What is as it should be ----------------------------------------------------------------------------------------------


async def test_a_tenant_with_all_that_a_tenant_can_have_verifies(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """Every kind of event and of end, and the report counts them; nothing is written by looking."""
    before = await stored_rows(administrator)

    report = await memory.admin.verify(tenant.external_id)

    [stream] = report.streams
    assert report.ok
    assert (stream.faults, stream.drift, stream.missing_vectors, stream.repaired) == ((), (), 0, False)
    assert (stream.head, stream.events, stream.erased_events) == (61, 61, 1)
    stored = await stored_rows(administrator, tenant.external_id)
    assert stream.rows == {table: len(stored[table]) for table in stream.rows}
    assert set(stream.rows) == set(PROJECTED_TABLES)
    assert all(stream.rows.values())
    last = (await memory.ledger.read(tenant.external_id, after=stream.head - 1))[0]
    assert stream.chain == last.chain.hex()
    assert await stored_rows(administrator) == before


async def test_a_rebuild_of_what_is_right_touches_no_row(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """Not even to write the same values again: each version of a row costs entries in seven indexes."""
    before = await stored_rows(administrator)

    [report] = (await memory.admin.rebuild(tenant.external_id)).streams

    assert report.ok
    assert not report.repaired
    assert await stored_rows(administrator) == before


async def test_a_tenant_of_which_everything_was_erased_verifies(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """What is left are emptied events and receipts, and they still hold together."""
    await memory.admin.erase(tenant.external_id)

    report = await _verify(memory, tenant.external_id)

    assert report.ok
    assert (report.events, report.erased_events, set(report.rows.values())) == (62, 59, {0})


@pytest.mark.parametrize("method", ["verify", "repair", "rebuild"])
async def test_an_unknown_external_id_is_refused_and_gets_nothing(
    memory: AgentMem, administrator: SqlExecutor, method: str
) -> None:
    """Nobody takes a check of a mistyped id for one that was passed, and no stream of that name appears."""
    before = await stored_rows(administrator)
    calls: dict[str, Callable[[str], Awaitable[AuditReport]]] = {
        "verify": memory.admin.verify,
        "repair": partial(memory.admin.verify, repair=True),
        "rebuild": memory.admin.rebuild,
    }

    with pytest.raises(ExternalIdNotFoundError, match="no memory is stored for external_id 'nobody'"):
        await calls[method]("nobody")

    assert await stored_rows(administrator) == before


@pytest.mark.thorough
async def test_without_an_id_all_streams_are_looked_at(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """In order of their ids, one report each; the faulty one is told from the others, and all of it is not right."""
    other = await fill_tenant(memory, f"agent-{uuid4()}")
    await administrator.execute(
        "UPDATE active_memory SET title = 'Changed' WHERE external_id = $(tenant)p AND memory_id = $(memory_id)p",
        {"tenant": other.external_id, "memory_id": other.memory_id},
    )

    found = await memory.admin.verify()
    mended = await memory.admin.rebuild()

    ids = [stream.external_id for stream in found.streams]
    rows = await administrator.fetch_all("SELECT external_id FROM memory_stream")
    assert ids == sorted(row["external_id"] for row in rows)
    assert {tenant.external_id, other.external_id} <= set(ids)
    assert [stream.external_id for stream in found.streams if not stream.ok] == [other.external_id]
    assert not found.ok
    assert [stream.external_id for stream in mended.streams if stream.repaired] == [other.external_id]
    assert mended.ok
    assert found.events == sum(stream.events for stream in found.streams)
    assert (await memory.admin.verify()).ok


async def test_progress_is_told_for_every_stream(memory: AgentMem, tenant: Tenant) -> None:
    """Streams and events done, out of how many; the last word is that all is done."""
    told: list[AuditProgress] = []

    report = await memory.admin.verify(progress=told.append)

    streams = len(report.streams)
    assert [(p.external_id, p.streams_done, p.streams_total) for p in told] == [
        (stream.external_id, number, streams) for number, stream in enumerate(report.streams)
    ]
    assert all(p.events_done == p.events_total for p in told)
    assert sum(p.events_total for p in told) == report.events


@pytest.mark.thorough
async def test_a_long_stream_is_replayed_in_pages(memory: AgentMem) -> None:
    """More events than a page holds: each of them is counted once, and the chain goes on across the border."""
    external_id = f"agent-{uuid4()}"
    store, projector = memory._ready().stores.postgres, memory._ready().services.manager._projector
    async with store.transaction(external_id) as db:
        await projector._ledger.lock(db, external_id)
        for _ in range(1_000):
            await projector.record(db, make_event(external_id=external_id))
    told: list[int] = []

    report = await _verify(memory, external_id, progress=lambda p: told.append(p.events_done))

    assert report.ok
    assert (report.head, report.events) == (1_000, 1_000)
    assert told == [500, 1_000]


@pytest.mark.parametrize("wrong", ["", 1.5, True])
async def test_wrong_arguments_are_refused(memory: AgentMem, wrong: Any) -> None:
    """As everywhere: an id is an id."""
    for attempt in (memory.admin.verify(wrong), memory.admin.rebuild(wrong)):
        with pytest.raises(InvalidInputError):
            await attempt
    with pytest.raises(InvalidInputError):
        await memory.admin.verify("agent-1", repair="yes")  # type: ignore[arg-type]


# What is not ----------------------------------------------------------------------------------------------------------


async def test_a_changed_row_is_named_by_table_key_and_columns(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """That and no more: not what it says, and not its neighbours."""
    await administrator.execute(
        "UPDATE active_memory SET title = 'Changed', version = version + 1"
        " WHERE external_id = $(tenant)p AND memory_id = $(memory_id)p",
        {"tenant": tenant.external_id, "memory_id": tenant.memory_id},
    )

    report = await _verify(memory, tenant.external_id)

    assert not report.ok
    assert report.faults == ()
    assert report.drift == (
        Drift(table="active_memory", key=str(tenant.memory_id), problem="changed", columns=("title", "version")),
    )


@pytest.mark.promise
async def test_a_row_that_no_event_wrote_is_named_and_taken_away(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """It looks like any other row; a rebuild leaves what the events say."""
    before = await stored_rows(administrator, tenant.external_id, with_ctid=False)
    [row] = await administrator.fetch_all(
        "INSERT INTO shortterm_memory"
        " SELECT external_id, gen_random_uuid(), version, title, summary, last_updated FROM shortterm_memory"
        " WHERE external_id = $(tenant)p AND memory_id = $(memory_id)p RETURNING memory_id::text AS memory_id",
        {"tenant": tenant.external_id, "memory_id": tenant.memory_id},
    )

    found = await _verify(memory, tenant.external_id)
    [rebuilt] = (await memory.admin.rebuild(tenant.external_id)).streams

    drift = (Drift(table="shortterm_memory", key=row["memory_id"], problem="unexpected"),)
    assert not found.ok
    assert (found.drift, rebuilt.drift) == (drift, drift)
    assert await stored_rows(administrator, tenant.external_id, with_ctid=False) == before
    assert (await _verify(memory, tenant.external_id)).ok


@pytest.mark.promise
async def test_repair_mends_and_says_what_it_has_mended(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """The report names the drift that there was; it is right now, and the next one finds nothing."""
    before = await stored_rows(administrator, tenant.external_id, with_ctid=False)
    chunk_id = await _first_chunk(administrator, tenant)
    await administrator.execute("DELETE FROM memory_chunk WHERE chunk_id = $(chunk_id)p", {"chunk_id": chunk_id})

    repaired = await _verify(memory, tenant.external_id, repair=True)

    assert repaired.drift == (Drift(table="memory_chunk", key=str(chunk_id), problem="missing"),)
    assert repaired.repaired
    assert repaired.ok
    assert await stored_rows(administrator, tenant.external_id, with_ctid=False) == before
    assert (await _verify(memory, tenant.external_id)).drift == ()


async def test_a_mended_row_is_found_again(memory: AgentMem, administrator: SqlExecutor, tenant: Tenant) -> None:
    """By its words and by its vectors, in the same order as before."""
    before = await memory.retrieve_memories(tenant.external_id, "spare key of the blue cabin")
    await administrator.execute(
        "DELETE FROM memory_chunk WHERE external_id = $(tenant)p", {"tenant": tenant.external_id}
    )
    assert (await memory.retrieve_memories(tenant.external_id, "spare key of the blue cabin")).hits == ()

    await memory.admin.rebuild(tenant.external_id)

    after = await memory.retrieve_memories(tenant.external_id, "spare key of the blue cabin")
    assert "spare key" in after.hits[0].content
    assert [hit.chunk_id for hit in after.hits] == [hit.chunk_id for hit in before.hits]
    assert after.hits[0].score_parts == before.hits[0].score_parts
    assert {"words", "meaning"} <= after.hits[0].score_parts.keys()


@pytest.mark.thorough
async def test_missing_vectors_are_counted_and_are_no_error(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """A chunk without vector is found by its words; a rebuild fills it in, byte for byte."""
    before = await stored_rows(administrator, tenant.external_id, with_ctid=False)
    deleted = await administrator.fetch_all(
        "DELETE FROM chunk_vector_1 AS v USING memory_chunk AS c"
        " WHERE v.external_id = $(tenant)p AND c.external_id = $(tenant)p AND c.number = v.number"
        " AND c.tier <> 'active' AND c.superseded_at IS NOT NULL AND c.duplicate_of IS NULL RETURNING v.number",
        {"tenant": tenant.external_id},
    )

    report = await _verify(memory, tenant.external_id)

    assert report.ok
    assert report.drift == ()
    assert report.missing_vectors == len(deleted) > 0
    [rebuilt] = (await memory.admin.rebuild(tenant.external_id)).streams
    assert rebuilt.missing_vectors == 0
    assert await stored_rows(administrator, tenant.external_id, with_ctid=False) == before


@pytest.mark.thorough
async def test_without_an_embedder_a_rebuild_mends_and_counts_what_it_cannot_make(
    config: Config, administrator: SqlExecutor
) -> None:
    """The tiers are made from the ledger alone; vectors that nobody can make are missing, never wrong."""
    external_id = f"agent-{uuid4()}"
    embedder = FaultyEmbedder()
    async with AgentMem(config, embedder=embedder) as memory:
        await fill_tenant(memory, external_id)
        before = await stored_rows(administrator, external_id, with_ctid=False)
        for table in ("memory_chunk", "chunk_vector_1", "chunk_norms_1", "embedding_cache"):
            await administrator.execute(
                f"DELETE FROM {table} WHERE external_id = $(tenant)p",  # noqa: S608
                {"tenant": external_id},
            )
        embedder.fault = away

        [rebuilt] = (await memory.admin.rebuild(external_id)).streams

        assert rebuilt.ok
        assert rebuilt.missing_vectors == rebuilt.rows["memory_chunk"] > 0
        after = await stored_rows(administrator, external_id, with_ctid=False)
        assert (after["memory_chunk"], after["chunk_vector_1"]) == (before["memory_chunk"], [])

        embedder.mend()
        await memory.admin.rebuild(external_id)
        after = await stored_rows(administrator, external_id, with_ctid=False)
        for table in ("chunk_vector_1", "chunk_norms_1"):
            assert after[table] == before[table]


@pytest.mark.thorough
async def test_a_vector_that_is_not_what_the_cache_holds_is_made_again(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """Either of the two may be the wrong one, so both go, and the embedder decides."""
    before = await stored_rows(administrator, tenant.external_id, with_ctid=False)
    chunk_id = await _first_chunk(administrator, tenant)
    await administrator.execute(
        "UPDATE embedding_cache SET vector = vector + vector"
        " WHERE external_id = $(tenant)p AND text_hash = ("
        "  SELECT text_hash FROM memory_chunk WHERE chunk_id = $(chunk_id)p)",
        {"tenant": tenant.external_id, "chunk_id": chunk_id},
    )

    found = await _verify(memory, tenant.external_id)
    repaired = await _verify(memory, tenant.external_id, repair=True)

    row = await administrator.fetch_one(
        "SELECT number::text AS number FROM memory_chunk WHERE chunk_id = $(chunk_id)p", {"chunk_id": chunk_id}
    )
    assert row is not None
    assert row["number"] in {drift.key for drift in found.drift}
    assert {(drift.table, drift.columns) for drift in found.drift} == {("chunk_vector_1", ("vector",))}
    assert repaired.ok
    assert (await _verify(memory, tenant.external_id)).drift == ()
    assert await stored_rows(administrator, tenant.external_id, with_ctid=False) == before


@pytest.mark.thorough
async def test_the_streams_own_row_is_compared_too(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """Its counts and languages decide how a question is read and a search is planned, so a wrong one is drift."""
    before = await stored_rows(administrator, tenant.external_id, with_ctid=False)
    await administrator.execute(
        "UPDATE memory_stream SET live_chunks = live_chunks + 1, languages = array_append(languages, 'pt'),"
        " text_chunks = text_chunks + 1, text_words = text_words + 1, due_at = now()"
        " WHERE external_id = $(tenant)p",
        {"tenant": tenant.external_id},
    )

    repaired = await _verify(memory, tenant.external_id, repair=True)

    columns = ("live_chunks", "languages", "text_chunks", "text_words", "due_at")
    assert repaired.drift == (Drift(table="memory_stream", key="", problem="changed", columns=columns),)
    assert await stored_rows(administrator, tenant.external_id, with_ctid=False) == before
    assert (await _verify(memory, tenant.external_id)).drift == ()


async def test_a_count_that_a_handler_got_wrong_is_drift(
    memory: AgentMem, administrator: SqlExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks are counted: the sum of what the handlers say would repeat their mistake."""

    async def miscounting(*arguments: Any) -> Change:
        change = await created(*arguments)
        return replace(change, live_chunks=change.live_chunks + 1)

    created = HANDLERS[EventKind.CREATED]
    external_id = f"agent-{uuid4()}"
    with monkeypatch.context() as patch:
        patch.setitem(cast("dict[str, Any]", HANDLERS), EventKind.CREATED, miscounting)
        await memory.create_active_memory(external_id, "House", "The gate squeaks.")
        found = await _verify(memory, external_id, repair=True)

    assert found.drift == (Drift(table="memory_stream", key="", problem="changed", columns=("live_chunks",)),)
    [stream] = await administrator.fetch_all(
        "SELECT live_chunks FROM memory_stream WHERE external_id = $(tenant)p", {"tenant": external_id}
    )
    assert stream["live_chunks"] == 1


@pytest.mark.thorough
async def test_work_that_waits_is_still_waiting_after_a_rebuild(config: Config, administrator: SqlExecutor) -> None:
    """A stream whose consolidation was cut off is due, by its events and by its row; either way it stays so."""
    external_id = f"agent-{uuid4()}"
    embedder = DistantEmbedder(TEST_DIMENSION)
    async with AgentMem(config, embedder=embedder) as memory:
        note = await memory.create_active_memory(external_id, "House", "The gate squeaks. " * 3)
        for number in range(4):
            await memory.update_active_memory(external_id, note.id, content=f"The gate squeaks {number} times.")
        embedder.hold()
        update = asyncio.create_task(
            memory.update_active_memory(external_id, note.id, content="The gate is quiet at last.")
        )
        await embedder.reached.wait()
        update.cancel()
        await asyncio.gather(update, return_exceptions=True)
        embedder.let_go()

        report = await _verify(memory, external_id)
        assert (report.ok, report.missing_vectors) == (True, 1)
        row = "SELECT due_at, live_chunks FROM memory_stream WHERE external_id = $(tenant)p"
        due = await administrator.fetch_one(row, {"tenant": external_id})
        await administrator.execute(
            "UPDATE memory_stream SET live_chunks = 0 WHERE external_id = $(tenant)p", {"tenant": external_id}
        )
        await memory.admin.rebuild(external_id)
        assert due is not None
        assert due["due_at"] is not None
        assert await administrator.fetch_one(row, {"tenant": external_id}) == due

        await administrator.execute(
            "UPDATE memory_stream SET due_at = NULL WHERE external_id = $(tenant)p", {"tenant": external_id}
        )
        repaired = await _verify(memory, external_id, repair=True)
        assert repaired.drift == (Drift(table="memory_stream", key="", problem="changed", columns=("due_at",)),)
        assert (await _verify(memory, external_id)).ok


# What is said of it ---------------------------------------------------------------------------------------------------


def _says(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == _LOGGER and record.levelno == level]


@pytest.mark.promise
async def test_drift_is_a_warning_and_a_fault_of_the_ledger_is_an_error(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """With the ids and numbers that somebody needs who reads the log, and silence where all is right."""
    caplog.set_level(logging.INFO, _LOGGER)
    await memory.admin.verify(tenant.external_id)
    assert _says(caplog, logging.WARNING) == _says(caplog, logging.ERROR) == []

    await administrator.execute(
        "UPDATE active_memory SET title = 'Changed' WHERE external_id = $(tenant)p", {"tenant": tenant.external_id}
    )
    await memory.admin.verify(tenant.external_id, repair=True)
    [warning] = _says(caplog, logging.WARNING)
    assert "rows differed from what the ledger gives and were repaired" in warning
    assert _says(caplog, logging.ERROR) == []

    caplog.clear()
    await administrator.execute(
        "UPDATE memory_event SET actor = 'somebody' WHERE external_id = $(tenant)p AND position = 12",
        {"tenant": tenant.external_id},
    )
    await memory.admin.verify(tenant.external_id)
    [error] = _says(caplog, logging.ERROR)
    assert "1 faults, the first at position 12" in error
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.__dict__["external_id"] == tenant.external_id


@pytest.mark.thorough
async def test_no_report_and_no_log_record_holds_memory_text(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """Every table drifts, and an event that says something can no longer be applied: only ids and numbers are told."""
    caplog.set_level(logging.DEBUG)
    for statement in (
        "UPDATE active_memory SET content = content || ' Lisbon'",
        "UPDATE memory_segment SET content = content || ' Lisbon'",
        "UPDATE shortterm_memory SET summary = 'Lisbon'",
        "UPDATE memory_chunk SET content = content || ' Lisbon'",
        "UPDATE memory_heading SET title = title || ' Lisbon'",
        "UPDATE posting SET term = term || ' Lisbon'",
        "UPDATE memory_layout SET entries = entries || 'Lisbon'",
        "UPDATE memory_attribute SET value = value || 'Lisbon'",
        "UPDATE chunk_norms_1 SET layout_hash = 'Lisbon'",
        "UPDATE chunk_vector_1 SET mass = mass + 1",
    ):
        await administrator.execute(f"{statement} WHERE external_id = $(tenant)p", {"tenant": tenant.external_id})
    reports: list[AuditReport] = [await memory.admin.verify(tenant.external_id)]
    assert {drift.table for drift in reports[0].streams[0].drift} == {
        "active_memory",
        "memory_segment",
        "shortterm_memory",
        "memory_chunk",
        "memory_heading",
        "posting",
        "memory_layout",
        "memory_attribute",
        "chunk_norms_1",
        "chunk_vector_1",
    }

    for payload in ('{"content": "Lisbon"}', '["Lisbon"]', '{"memory_id": "Lisbon", "spare key": 1}'):
        await administrator.execute(
            "UPDATE memory_event SET payload = $(payload)p::text::jsonb"
            " WHERE external_id = $(tenant)p AND position = 3",
            {"tenant": tenant.external_id, "payload": payload},
        )
        reports += [await memory.admin.verify(tenant.external_id), await memory.admin.rebuild(tenant.external_id)]

    told = "\n".join(
        [*(report.model_dump_json() for report in reports), caplog.text, *(str(r.__dict__) for r in caplog.records)]
    )
    assert not [words for words in _WORDS if words in told]
    assert all(report.streams[0].faults[0].position == 3 for report in reports[1:])


# What is left behind --------------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_no_connection_of_the_pool_has_seen_a_scratch_table(
    memory: AgentMem, administrator: SqlExecutor, tenant: Tenant
) -> None:
    """What was prepared while they were there would be planned for tables that are gone; so they have their own."""
    await memory.admin.verify(tenant.external_id)
    await administrator.execute(
        "UPDATE memory_stream SET live_chunks = 0 WHERE external_id = $(tenant)p", {"tenant": tenant.external_id}
    )
    await memory.admin.rebuild(tenant.external_id)
    await memory.admin.erase(tenant.external_id, memory_id=tenant.draft_memory_id)

    for connection in memory._ready().stores.postgres._idle:
        state = await connection.fetch_one(
            "SELECT pg_my_temp_schema()::bigint AS temp_schema, current_setting('search_path') AS search_path,"
            " (SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%pg' || '_temp.%') AS prepared"
        )
        assert state == {"temp_schema": 0, "search_path": '"$user", public', "prepared": 0}
    assert await _temporary_tables(administrator, until=lambda tables: not tables) == []


async def _temporary_tables(db: SqlExecutor, *, until: Callable[[list[str]], bool]) -> list[str]:
    """Temporary tables of the whole database; a connection that was closed takes a moment to end."""
    tables: list[str] = []
    for _ in range(1_200):
        rows = await db.fetch_all("SELECT oid::regclass::text AS name FROM pg_class WHERE relpersistence = 't'")
        tables = [row["name"] for row in rows]
        if until(tables):
            break
        await asyncio.sleep(0.05)
    return tables


async def test_verify_sees_what_was_learned_late_and_what_has_not_happened_yet(
    memory: AgentMem, administrator: SqlExecutor
) -> None:
    """Times run in any order in the world; the replay follows the order of the ledger."""
    external_id = f"agent-{uuid4()}"
    note = await memory.create_active_memory(external_id, "Ana", "Ana lives in the mill.", occurred_at=LONG_AGO)
    for year in (2030, 2028, 2026, 2021, 2029):
        await memory.update_active_memory(
            external_id,
            note.id,
            content=f"Ana lives in house number {year}.",
            occurred_at=LONG_AGO.replace(year=year),
        )
    await memory.admin.archive(external_id, note.id, end_chunks=True, occurred_at=LONG_AGO.replace(year=2020))

    report = await _verify(memory, external_id)

    assert (report.faults, report.drift) == ((), ())
    rows = await administrator.fetch_all(
        "SELECT cardinality(corrected_at) AS corrections FROM memory_chunk WHERE external_id = $(tenant)p",
        {"tenant": external_id},
    )
    assert max(row["corrections"] or 0 for row in rows) > 1
