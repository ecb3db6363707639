"""Another version of the analyser gives other terms, so the words of a database are indexed anew before it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError
from agent_reminiscence.config.constants import APP_ROLE, OWNER_ROLE, SCHEDULER_ROLE
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.services.upkeep.reindexing import Reindexed, ReindexReport, reindex
from tests.conftest import TestServer
from tests.support.factories import superuser

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
