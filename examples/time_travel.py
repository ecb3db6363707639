"""Ask what was true at a given time, and what was known at a given time.

`occurred_at` says when something was true in the world; the ledger itself notes when it was recorded. `as_of` queries
the first, `known_at` the second.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from agent_reminiscence import AgentMem

TENANT = "example-time-travel"


async def main() -> None:
    """Move a meeting, and ask before and after."""
    async with AgentMem() as memory:
        note = await memory.create_active_memory(
            TENANT,
            "Weekly meeting",
            "The team meets in room Aspen.",
            occurred_at=datetime(2025, 1, 6, tzinfo=UTC),
            idempotency_key="aspen",
        )
        moved = await memory.update_active_memory(
            TENANT,
            note.id,
            content="The team meets in room Birch.",
            occurred_at=datetime(2025, 3, 3, tzinfo=UTC),
            idempotency_key="birch",
        )

        question = "Where does the team meet?"
        now = await memory.retrieve_memories(TENANT, question)
        print(f"now: {now.hits[0].content}")

        february = await memory.retrieve_memories(TENANT, question, as_of=datetime(2025, 2, 1, tzinfo=UTC))
        best = february.hits[0]
        print(f"in February: {best.content}")
        print(f"that was true from {best.start_date:%d %B %Y} to {best.end_date:%d %B %Y}")

        # After the first note was recorded but before the second, today's room was not known.
        recorded_at = note.created_at
        assert recorded_at < moved.updated_at
        then = await memory.retrieve_memories(
            TENANT, question, as_of=datetime(2025, 4, 1, tzinfo=UTC), known_at=recorded_at
        )
        print(f"what was believed of April before the move was recorded: {then.hits[0].content}")


if __name__ == "__main__":
    asyncio.run(main())
