"""Days are the user's: an agent whose user lives in Auckland, thirteen hours ahead of UTC.

`timezone` says where the user is: what "yesterday" means in a text and in a question, and which days are shown. Times
are stored in UTC, where it is still the day before when the user asks.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from zoneinfo import ZoneInfo

from agent_reminiscence import AgentMem

TENANT = "example-aroha"
ZONE = "Pacific/Auckland"
AUCKLAND = ZoneInfo(ZONE)
SATURDAY = datetime(2026, 2, 28, 20, 0, tzinfo=AUCKLAND)
SUNDAY = datetime(2026, 3, 1, 21, 30, tzinfo=AUCKLAND)
# Sunday evening in UTC. A program that asks about the present leaves `as_of` out.
MONDAY = datetime(2026, 3, 2, 9, 0, tzinfo=AUCKLAND)
TOLD = {
    SATURDAY: "I planted beans in the garden.",
    SUNDAY: "The tomatoes that Mara gave me are planted, too, in the sunny corner of the garden.",
}


async def main() -> None:
    """Remember two evenings, and ask about yesterday on Monday morning: where the user is, and as if in UTC."""
    async with AgentMem() as memory:
        for said_at, text in TOLD.items():
            await memory.create_active_memory(
                TENANT, "Garden", text, occurred_at=said_at, timezone=ZONE, idempotency_key=f"{said_at:%A}"
            )

        question = "What did I plant in the garden yesterday?"
        for zone in (ZONE, "UTC"):
            found = await memory.retrieve_memories(TENANT, question, as_of=MONDAY, timezone=zone)
            print(f"yesterday in {zone}: {found.hits[0].content}")

        found = await memory.retrieve_memories(TENANT, question, as_of=MONDAY, timezone=ZONE)
        print(found.as_prompt())


if __name__ == "__main__":
    asyncio.run(main())
