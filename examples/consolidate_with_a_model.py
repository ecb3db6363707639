"""Have a model read new memories: who is in them, what follows from them, and what no longer holds.

Run it with `python examples/consolidate_with_a_model.py`. It uses the model named in
REMINISCENCE_MEMORIZER_AGENT_MODEL, such as `ollama:qwen3` or `openai:gpt-5-mini`; without one, rules do what they can.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from agent_reminiscence import AgentMem, Config

_AGENT = "example-consolidates"
_NOTES = (
    ("Kitchen", datetime(2026, 3, 2, tzinfo=UTC), "Maria orders the flour from Adair Mills."),
    ("Kitchen, later", datetime(2026, 5, 4, tzinfo=UTC), "Maria orders the flour from Porto Grain since Monday."),
)


async def main() -> None:
    """Remember two notes, consolidate each, and show the result and its cost."""
    async with AgentMem(Config()) as memory:
        for title, said_at, text in _NOTES:
            note = await memory.create_active_memory(
                _AGENT, title, text, occurred_at=said_at, idempotency_key=f"note-{title}"
            )
            # An already consolidated version is skipped, so the second run of this script calls no model.
            await memory.admin.consolidate(_AGENT, note.id)
            history = await memory.admin.history(_AGENT, note.id)
            for derived in history.versions[-1].derived:
                for usage in derived.usage:
                    print(f"{title}: {usage.model} read {usage.input_tokens} tokens and wrote {usage.output_tokens}")
                if derived.fallback is not None:
                    print(f"{title}: rules stepped in for the model: {derived.fallback}")

        found = await memory.retrieve_memories(_AGENT, "Who sells the flour to Maria?")
        for hit in found.hits:
            origin = "concluded" if hit.derived_from else "said"
            print(f"{origin}: {hit.content.strip()}")
        names = [entity.name for entity in await memory.admin.graph.entities(_AGENT)]
        print(f"known: {', '.join(sorted(names))}")


if __name__ == "__main__":
    asyncio.run(main())
