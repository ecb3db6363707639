"""Another version of the analyser gives other terms, so the words of a database are indexed anew before it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError
from agent_reminiscence.config.constants import APP_ROLE, EMBEDDED_LOGIN, OWNER_ROLE, SCHEDULER_ROLE
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.migrations import SchemaParameters
from agent_reminiscence.database.schema import migrate
from agent_reminiscence.services.upkeep.reindexing import Reindexed, ReindexReport, reindex
from tests.conftest import TEST_DIMENSION, TEST_PARTITIONS, TestServer
from tests.support.factories import superuser
from tests.support.index_rows import check_index, index_rows

_TEXT = "Ann: The boats lie in the harbour.\nBob: I painted mine green yesterday."


@pytest.mark.thorough
async def test_words_of_another_analyser_are_indexed_anew(
    test_server: TestServer, database: str, config: Callable[..., Config]
) -> None:
    """A process of this release refuses the database until `migrate` has done it, and finds everything after that."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _TEXT)
        await memory.create_active_memory("agent-2", "Harbour", _TEXT)
    await _read_otherwise(test_server, database)
    with pytest.raises(ConfigurationError, match=r"version 0 of the analyser.*agent-reminiscence migrate"):
        await AgentMem(config()).initialize()

    seen: list[Reindexed] = []
    assert await reindex(test_server.administrator(database), seen.append) == ReindexReport(2)

    assert [(one.streams_done, one.streams_total) for one in seen] == [(0, 2), (1, 2), (2, 2)]
    assert await reindex(test_server.administrator(database)) == ReindexReport()
    async with AgentMem(config()) as memory:
        assert (await memory.admin.verify()).ok
        found = await memory.retrieve_memories("agent-2", "Where does the boat lie?")
        assert found.hits[0].content.strip() == "Ann: The boats lie in the harbour."


# How a database was before memories had a time zone: flags of layouts without the quarter of an hour.
_BEFORE_ZONES = """
ALTER TABLE reminiscence.active_memory DROP COLUMN timezone;
ALTER TABLE reminiscence.memory_chunk DROP COLUMN said_on;
UPDATE reminiscence.memory_layout SET entries = (
    SELECT string_agg(set_byte(entry, 28, get_byte(entry, 28) & 1), '' ORDER BY place)
    FROM generate_series(0, length(entries) / 32 - 1) AS place,
        LATERAL substring(entries FROM place * 32 + 1 FOR 32) AS entry
);
DELETE FROM reminiscence.schema_migration WHERE version >= 11;
UPDATE reminiscence.schema_parameter SET value = '4' WHERE name = 'analyser_version';
"""


@pytest.mark.thorough
async def test_memories_from_before_time_zones_are_read_in_utc(
    test_server: TestServer, database: str, config: Callable[..., Config]
) -> None:
    """Their events name none, whatever the setting says. They are migrated, indexed again, and can be moved then."""
    # Two in the morning of 2 March in UTC, and a quarter past nine in the morning of 2 March in Auckland.
    night, morning = datetime(2026, 3, 2, 2, tzinfo=UTC), datetime(2026, 3, 1, 20, 15, tzinfo=UTC)
    async with AgentMem(config()) as memory:
        note = await memory.create_active_memory(
            "agent-1", "Gate", "I painted the gate yesterday.", occurred_at=morning
        )
        await memory.update_active_memory(
            "agent-1", note.id, content="I painted the gate yesterday.\n\nIt is green.", occurred_at=night
        )
        await memory.admin.consolidate("agent-1")
        assert all("timezone" not in event.payload for event in await memory.ledger.read("agent-1"))
    async with superuser(test_server, database) as db:
        rows = await index_rows(db)
        await db.execute_script(_BEFORE_ZONES)
        assert await index_rows(db) != rows
    with pytest.raises(ConfigurationError, match="agent-reminiscence migrate"):
        await AgentMem(config()).initialize()
    parameters = SchemaParameters(TEST_PARTITIONS, TEST_DIMENSION, f"hash-{TEST_DIMENSION}")

    administrator = test_server.administrator(database)
    applied = await migrate(administrator, login=EMBEDDED_LOGIN, parameters=parameters)
    assert "timezone" in {migration.name for migration in applied}
    with pytest.raises(ConfigurationError, match=r"version 4 of the analyser.*agent-reminiscence migrate"):
        await AgentMem(config()).initialize()
    assert await reindex(administrator) == ReindexReport(1)

    async with AgentMem(config(timezone="Pacific/Auckland")) as memory, superuser(test_server, database) as db:
        assert await index_rows(db) == rows
        await check_index(db, "agent-1")
        assert (await memory.admin.verify()).ok
        [stored] = await memory.get_active_memories("agent-1")
        assert stored.timezone == "UTC"
        # The question's zone counts for them, too.
        found = await memory.retrieve_memories("agent-1", "Who painted the gate?")
        assert "2026-03-02 Monday, Gate" in found.as_prompt()
        moved = await memory.update_active_memory("agent-1", note.id, timezone="Pacific/Auckland")
        assert moved.timezone == "Pacific/Auckland"
        await check_index(db, "agent-1")


async def _read_otherwise(test_server: TestServer, database: str) -> None:
    """Leave the words as another analyser might have read them, and recorded with that one's version."""
    async with superuser(test_server, database) as db:
        await db.execute_script(
            "UPDATE posting SET term = upper(term); UPDATE memory_chunk SET words = words + 7;"
            " UPDATE memory_layout SET words = words + 14; UPDATE memory_stream SET text_words = text_words + 14;"
            " UPDATE schema_parameter SET value = '0' WHERE name = 'analyser_version'"
        )


@pytest.mark.thorough
async def test_a_faulty_stream_keeps_no_other_one_from_being_read(
    test_server: TestServer, database: str, config: Callable[..., Config], caplog: pytest.LogCaptureFixture
) -> None:
    """Its words stay as they were, it is named, and once its ledger is mended a rebuild reads them anew."""
    async with AgentMem(config()) as memory:
        for external_id in ("agent-1", "agent-2"):
            await memory.create_active_memory(external_id, "Harbour", _TEXT)
    await _read_otherwise(test_server, database)
    await _replace_in_event(test_server, database, "boats", "goats")

    report = await reindex(test_server.administrator(database))

    assert report == ReindexReport(1, ("agent-1",))
    assert "external_id 'agent-1'" in caplog.text
    assert "event 1 has been altered" in caplog.text
    async with AgentMem(config()) as memory:
        verified = {stream.external_id: stream for stream in (await memory.admin.verify()).streams}
        assert not verified["agent-1"].ok
        assert verified["agent-2"].ok
        await _replace_in_event(test_server, database, "goats", "boats")
        await memory.admin.rebuild("agent-1")
        assert (await memory.admin.verify("agent-1")).ok
        assert (await memory.retrieve_memories("agent-1", "Where does the boat lie?")).found


async def _replace_in_event(test_server: TestServer, database: str, old: str, new: str) -> None:
    async with superuser(test_server, database) as db:
        await db.execute_script(
            f"UPDATE memory_event SET payload = replace(payload::text, '{old}', '{new}')::jsonb"  # noqa: S608
            " WHERE external_id = 'agent-1'"
        )


@pytest.mark.thorough
async def test_broken_off_it_goes_on_where_it_was(
    test_server: TestServer, database: str, config: Callable[..., Config]
) -> None:
    """A database of many streams takes long, and what was done is not done again."""
    tenants = [f"agent-{number}" for number in range(4)]
    async with AgentMem(config()) as memory:
        for external_id in tenants:
            await memory.create_active_memory(external_id, "Harbour", _TEXT)
    await _read_otherwise(test_server, database)

    def break_off(done: Reindexed) -> None:
        if done.streams_done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await reindex(test_server.administrator(database), break_off)
    assert await reindex(test_server.administrator(database)) == ReindexReport(1)

    async with AgentMem(config()) as memory:
        assert (await memory.admin.verify()).ok
    # What was noted on the way is of no use to a later release.
    await _read_otherwise(test_server, database)
    assert await reindex(test_server.administrator(database)) == ReindexReport(4)


async def test_the_administrator_is_no_member_of_the_applications_roles_afterwards(
    test_server: TestServer, database: str, config: Callable[..., Config]
) -> None:
    """Who is no superuser gives itself what it needs, and takes it away again, also where it fails."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _TEXT)
    await _read_otherwise(test_server, database)
    async with superuser(test_server, database) as db:
        # What CREATE ROLE gives to who has made the roles.
        await db.execute_script(
            f"CREATE ROLE manager LOGIN; GRANT {OWNER_ROLE} TO manager WITH INHERIT FALSE, SET TRUE;"
            f" GRANT {APP_ROLE}, {SCHEDULER_ROLE} TO manager WITH ADMIN TRUE, INHERIT FALSE, SET FALSE"
        )
        try:
            manager = replace(test_server.administrator(database), user="manager")
            with pytest.raises(KeyboardInterrupt):
                await reindex(manager, _interrupt)
            assert await _may_act(db) == {APP_ROLE: False, SCHEDULER_ROLE: False}

            assert await reindex(manager) == ReindexReport(1)

            assert await _may_act(db) == {APP_ROLE: False, SCHEDULER_ROLE: False}
        finally:
            await db.execute_script("DROP OWNED BY manager CASCADE; DROP ROLE manager")


def _interrupt(done: Reindexed) -> None:
    raise KeyboardInterrupt


async def _may_act(db: SqlExecutor) -> dict[str, bool]:
    """Whether the manager may act as each of the application's roles."""
    rows = await db.fetch_all(
        "SELECT rolname::text AS role, pg_has_role('manager', oid, 'SET') AS may FROM pg_roles"
        " WHERE rolname = ANY($(roles)p::text[])",
        {"roles": [APP_ROLE, SCHEDULER_ROLE]},
    )
    return {row["role"]: row["may"] for row in rows}
