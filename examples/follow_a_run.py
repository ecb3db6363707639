"""A monitor follows a run while its agents act; interrupted, it continues after the last event that it handled.

The monitor could be another process on another machine: the two share nothing but the database.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from agent_reminiscence import AgentMem

RUN = "example-run-1"


async def act(memory: AgentMem) -> None:
    """Let agents say something, and end the run."""
    said = [("ada", "The bridge is closed."), ("ben", "Then we take the ferry."), ("ada", "It leaves at nine.")]
    for number, (actor, text) in enumerate(said):
        await memory.ledger.append(RUN, "agent.spoke", {"text": text}, actor=actor, idempotency_key=f"spoke-{number}")
    await memory.ledger.append(RUN, "run.ended", {}, idempotency_key="ended")


async def watch(memory: AgentMem, *, after: int, most: int) -> int:
    """Print what happens after a position until the run ends, at most so many events; return the last position."""
    async with aclosing(memory.ledger.subscribe(RUN, after=after, kinds=["agent.spoke", "run.ended"])) as events:
        async for event in events:
            print(f"{event.position}: {event.payload.get('text', 'the end')}")
            most -= 1
            if event.kind == "run.ended" or most == 0:
                return event.position
    raise AssertionError("a subscription has no end of its own")


async def main() -> None:
    """Watch a run in two parts."""
    async with AgentMem() as memory:
        acting = asyncio.create_task(act(memory))
        position = await watch(memory, after=0, most=2)
        print(f"interrupted after {position}")
        await watch(memory, after=position, most=100)
        await acting


if __name__ == "__main__":
    asyncio.run(main())
