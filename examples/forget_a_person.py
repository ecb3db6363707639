"""Forget a person: preview the erasure, erase, and prove that everything is gone.

A memory is erased with all its versions. Other memories are kept, and the ledger still verifies.
"""

from __future__ import annotations

import asyncio

from agent_reminiscence import AgentMem

TENANT = "example-forget-a-person"
PERSON = "Mr. Thorne"


async def main() -> None:
    """Remember a guest, update what is known about him, and forget him."""
    async with AgentMem() as memory:
        note = await memory.create_active_memory(
            TENANT,
            "Room 12",
            "Mr. Thorne prefers feather pillows and is woken at six.",
            idempotency_key="thorne",
        )
        # The update no longer names him, but the version before it does.
        await memory.update_active_memory(
            TENANT, note.id, content="The guest wants to be woken at seven.", idempotency_key="seven"
        )
        await memory.create_active_memory(TENANT, "Room 14", "Ms. Adair brings her own tea.", idempotency_key="adair")

        preview = await memory.admin.erase(TENANT, text=PERSON, dry_run=True)
        for item in preview.items:
            print(f"would be erased: {item.title}, {item.events} events")

        receipt = await memory.admin.erase(TENANT, text=PERSON, actor="front desk")
        print(f"erased: {len(receipt.events)} events, {receipt.rows['memory_chunk']} chunks")

        check = await memory.admin.verify_erased(receipt, text=PERSON)
        if check.ok:
            print(f"no trace of {PERSON} in {len(check.places)} columns")
        print("left:", [one.content for one in await memory.get_active_memories(TENANT)])
        print("the ledger still verifies:", (await memory.admin.verify(TENANT)).ok)


if __name__ == "__main__":
    asyncio.run(main())
