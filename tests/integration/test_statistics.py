"""The planner's samples of what tables hold: erased text must not live on in them."""

from __future__ import annotations

import re

from agent_reminiscence import AgentMem
from agent_reminiscence.database.places import PLACES, VECTOR_TABLE, Holds
from tests.conftest import TestServer, dsn
from tests.factories import fill_tenant, superuser

_HELD = {(place.table, place.column) for place in PLACES if place.holds in {Holds.TEXT, Holds.DERIVED}}


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
    assert texts == []


def _parent(table: str) -> str:
    """The table that a partition belongs to; tables of vectors under their common name."""
    return re.sub(r"^chunk_vector_\d+$", VECTOR_TABLE, re.sub(r"_p\d+$", "", table))
