"""The planner's samples of what tables hold: erased text must not live on in them."""

from __future__ import annotations

import re

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.replay_tables import PROJECTED_TABLES, ReplayTablesRepository
from agent_reminiscence.database.text_columns import CELL_TABLE, NORMS_TABLE, TEXT_COLUMNS, VECTOR_TABLE, Holds
from agent_reminiscence.services.ledger.replay import Replay
from tests.conftest import TestServer, dsn
from tests.support.factories import fill_tenant, superuser

_HELD = {(column.table, column.name) for column in TEXT_COLUMNS if column.holds in {Holds.TEXT, Holds.DERIVED}}


@pytest.mark.thorough
async def test_no_sample_is_kept_of_what_memories_say(test_server: TestServer, database: str, memory: AgentMem) -> None:
    """ANALYZE stores common values of a column in the clear; of these columns it stores none, before any erasure."""
    for number in range(30):
        await memory.create_active_memory(
            "agent-1",
            "Canary",
            f"Robin: The canary number {number} sings.",
            actor="canary-keeper",
            conversation_id="canary-talk",
            metadata={"canary": True},
            idempotency_key=f"canary-{number}",
        )
    await fill_tenant(memory, "agent-1")
    # The vectors of another model are made of the same words.
    await memory.admin.reembed(provider="hash", dimension=96, admin_dsn=dsn(test_server.administrator(database)))

    async with superuser(test_server, database) as db:
        await db.execute_script("ANALYZE")
        sampled = await db.fetch_all(
            "SELECT DISTINCT s.tablename::text AS table, s.attname::text AS column FROM pg_stats AS s"
            " WHERE s.schemaname = 'reminiscence'"
        )
        texts = await db.fetch_all(
            "SELECT s.tablename::text AS table, s.attname::text AS column FROM pg_stats AS s"
            " WHERE s.schemaname = 'reminiscence'"
            " AND concat(s.most_common_vals::text, s.histogram_bounds::text) ILIKE '%canary%'"
        )

    found = {(_parent(row["table"]), row["column"]) for row in sampled}
    assert ("memory_event", "kind") in found, "nothing was analysed"
    assert not found & _HELD
    # A tenant that is new since then would be missing in it, and every lookup of theirs be planned for one row.
    assert not {column for column in found if column[1] == "external_id"}
    assert texts == []


@pytest.mark.thorough
async def test_a_replay_leaves_no_sample_of_what_memories_say(memory: AgentMem) -> None:
    """Its temporary tables are analysed for the planner, and of their columns only ids are."""
    await fill_tenant(memory, "agent-1")
    parts = memory._ready()

    async with parts.stores.postgres.scratch_transaction("agent-1") as db:
        await ReplayTablesRepository().create(db)
        await memory.admin._services.verification._replayer.run(db, Replay("agent-1"))
        await db.execute_script(load_queries("sql", "replay_tables")["analyze_tables"])
        sampled = await db.fetch_all(
            "SELECT c.relname::text AS table, a.attname::text AS column FROM pg_attribute AS a"
            " JOIN pg_class AS c ON c.oid = a.attrelid"
            " WHERE c.relnamespace = pg_my_temp_schema() AND c.relname = ANY($(tables)p::text[])"
            " AND EXISTS (SELECT FROM pg_stats AS s"
            "  WHERE s.schemaname = c.relnamespace::regnamespace::text"
            "  AND s.tablename = c.relname AND s.attname = a.attname)",
            {"tables": list(PROJECTED_TABLES)},
        )

    found = {(row["table"], row["column"]) for row in sampled}
    assert {table for table, _ in found} == set(PROJECTED_TABLES)
    assert not found & _HELD


def _parent(table: str) -> str:
    """The table that a partition belongs to; tables of a generation of vectors without its number."""
    return re.sub(rf"^({VECTOR_TABLE}|{NORMS_TABLE}|{CELL_TABLE})_\d+$", r"\1", re.sub(r"_p\d+$", "", table))
