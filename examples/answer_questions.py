"""Ask a question and have a model answer it, citing the passages the answer is based on.

Run it with `python examples/answer_questions.py`. It uses the model named in REMINISCENCE_MEMORY_RETRIEVE_AGENT_MODEL,
such as `ollama:qwen3` or `openai:gpt-5-mini`; without one, or if it fails, it shows what recall finds.
"""

from __future__ import annotations

import asyncio

from agent_reminiscence import AgentMem, Config

_AGENT = "example-answers"
_NOTES = {
    "Boats": "Maria owns the red boat in the harbour of Porto. Its name is Estrela.",
    "People": "Tom works with Maria at the shipyard since spring.",
}


async def main() -> None:
    """Remember two notes, and ask a question that needs both."""
    config = Config()
    async with AgentMem(config) as memory:
        for title, text in _NOTES.items():
            await memory.create_active_memory(_AGENT, title, text, idempotency_key=f"note-{title}")

        found = await memory.retrieve_memories(
            _AGENT,
            "Who works with the owner of the Estrela?",
            # Without a model, synthesis=True raises ConfigurationError.
            synthesis=config.memory_retrieve_agent_model is not None,
        )
        for reason in (omission.reason for omission in found.omitted if omission.reason.startswith("synthesis_")):
            print(f"no model answer: {reason}")
        if found.synthesis is None:
            print("passages:", [hit.content.strip() for hit in found.hits])
            return
        print(f"answer: {found.synthesis.answer}")
        print(f"known: {found.synthesis.is_known}")
        for passage in found.synthesis.citations:
            print(f"[{passage.number}] {passage.title}: {passage.content.strip()}")


if __name__ == "__main__":
    asyncio.run(main())
