"""Which chunks a review chooses: the statement's order beside the documented formula."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

from agent_reminiscence import AgentMem
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.live_chunks import LiveChunksRepository
from agent_reminiscence.services.tiers.importance import effective_importance
from tests.conftest import TestServer
from tests.support.factories import superuser

_NOW = datetime(2026, 11, 1, tzinfo=UTC)


async def test_the_least_important_are_those_of_the_formula(
    memory: AgentMem, store: PostgresManager, test_server: TestServer, database: str
) -> None:
    """What is chosen in the database is ordered as `effective_importance` says; extremes are no error."""
    dice = random.Random(5)
    content = "\n\n".join(f"passage {number} of a long text" for number in range(120))
    await memory.create_active_memory("agent-1", "Notes", content)
    async with superuser(test_server, database) as db:
        rows = await db.fetch_all("SELECT chunk_id FROM memory_chunk ORDER BY chunk_id")
        chunk_ids = [UUID(row["chunk_id"]) for row in rows]
        importances = [dice.choice([0.0, 0.3, 0.5, 0.55, 1.0]) for _ in chunk_ids]
        # Also later than now, as another machine's clock may have it, and earlier than anybody can remember.
        recorded = [_NOW - timedelta(days=dice.choice([-1, 0, 10, 90, 700_000])) for _ in chunk_ids]
        await db.execute(
            "UPDATE memory_chunk AS c"
            " SET importance = t.importance, recorded_at = t.recorded_at, start_date = '2000-01-01'"
            " FROM unnest($(ids)p::uuid[], $(importances)p::float8[], $(recorded)p::timestamptz[])"
            " AS t (chunk_id, importance, recorded_at) WHERE c.chunk_id = t.chunk_id",
            {"ids": chunk_ids, "importances": importances, "recorded": recorded},
        )
        await db.execute(
            "INSERT INTO chunk_use SELECT 'agent-1', t.*"
            " FROM unnest($(ids)p::uuid[], $(uses)p::int[], $(used)p::timestamptz[]) AS t",
            {
                "ids": chunk_ids[::2],
                "uses": [dice.choice([0, 1, 2, 9, 2**31 - 1]) for _ in chunk_ids[::2]],
                "used": [_NOW - timedelta(days=dice.choice([-1, 0, 5, 400])) for _ in chunk_ids[::2]],
            },
        )
    repository = LiveChunksRepository()

    async with store.transaction("agent-1", read_only=True) as db:
        found = await repository.find_least_important(db, "agent-1", now=_NOW, limit=100)
        chunks = await repository.read_live(db, "agent-1", chunk_ids)

    assert len(chunks) == 120
    expected = sorted(
        chunks,
        key=lambda chunk: (
            effective_importance(chunk.importance, uses=chunk.uses, touched_at=chunk.used_at, now=_NOW),
            chunk.recorded_at,
            chunk.chunk_id,
        ),
    )
    assert found == [chunk.chunk_id for chunk in expected[:100]]
