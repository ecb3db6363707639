"""Remember a text, change it, and ask about it. Needs no server, key or model.

Run it with `python examples/quickstart.py`. The memories stay in the data folder (set `REMINISCENCE_DATA_DIR` for
another one), and running it again changes nothing: the idempotency keys distinguish a repetition from a new write.
"""

from __future__ import annotations

import asyncio

from agent_reminiscence import AgentMem


async def main() -> None:
    """Create, update, list and retrieve."""
    async with AgentMem() as memory:
        note = await memory.create_active_memory(
            "example-quickstart",
            "Release plan",
            "Version 2 ships on Friday.\n\nNadia writes the release notes.",
            idempotency_key="release-plan-created",
        )
        note = await memory.update_active_memory(
            "example-quickstart",
            note.id,
            content="Version 2 ships on Monday, because the installer is late.\n\nNadia writes the release notes.",
            idempotency_key="release-plan-moved",
        )
        print(f"{note.title!r} is at version {note.version}")
        print(f"{len(await memory.get_active_memories('example-quickstart'))} active memory")

        found = await memory.retrieve_memories("example-quickstart", "When does version 2 ship?")
        best = found.hits[0]
        print(f"answer: {best.content.strip()}")
        print(f"source: {best.title}, characters {best.span_start} to {best.span_end} of version {best.memory_version}")
        print("for a prompt:")
        print(found.as_prompt(token_budget=300))


if __name__ == "__main__":
    asyncio.run(main())
