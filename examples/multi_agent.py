"""Two agents of one team share a memory; a third agent, on another team, sees none of it.

`external_id` says whose memory it is, here one per team; `actor` says which agent wrote what.
"""

from __future__ import annotations

import asyncio

from agent_reminiscence import AgentMem, MemoryNotFoundError


async def main() -> None:
    """Let agents write concurrently, read each other's notes, and fail to read another team's."""
    async with AgentMem() as memory:
        await asyncio.gather(
            memory.create_active_memory(
                "example-team-kitchen",
                "Supplier",
                "The bakery in Mill Street delivers rye bread at six in the morning.",
                actor="purchaser",
                source="agent",
                idempotency_key="supplier",
            ),
            memory.create_active_memory(
                "example-team-kitchen",
                "Guest",
                "Ms. Adeyemi of table 4 must not eat hazelnuts.",
                actor="waiter",
                source="agent",
                idempotency_key="guest",
            ),
        )
        secret = await memory.create_active_memory(
            "example-team-office", "Payroll", "Salaries are paid on the 25th.", idempotency_key="payroll"
        )

        found = await memory.retrieve_memories("example-team-kitchen", "Who must not eat hazelnuts?")
        print(f"the kitchen knows: {found.hits[0].content}")
        for event in await memory.ledger.read("example-team-kitchen"):
            print(f"written by {event.actor}: {event.payload['title']}")

        found = await memory.retrieve_memories("example-team-kitchen", "When are salaries paid?")
        print(f"the kitchen on salaries: {[hit.content for hit in found.hits if 'Salaries' in hit.content]}")
        try:
            await memory.update_active_memory("example-team-kitchen", secret.id, content="Salaries are never paid.")
        except MemoryNotFoundError:
            print("the office's memory does not exist for the kitchen")


if __name__ == "__main__":
    asyncio.run(main())
