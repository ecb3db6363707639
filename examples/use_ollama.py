"""Make vectors with your own Ollama, and keep working while it is unavailable.

Run it with `python examples/use_ollama.py`, after `ollama pull all-minilm`. Set REMINISCENCE_OLLAMA_BASE_URL to its
address (default: http://127.0.0.1:11434). While Ollama is unavailable, search uses words only; the vectors are made
once it is back. The memory is in a temporary folder.
"""

from __future__ import annotations

import asyncio
import tempfile

from agent_reminiscence import AgentMem, Config

_AGENT = "example-ollama"


async def main() -> None:
    """Remember a note, search for it in other words, and say whether Ollama was available."""
    with tempfile.TemporaryDirectory() as folder:
        config = Config(data_dir=folder, embedding_provider="ollama", embedding_model="all-minilm")
        async with AgentMem(config) as memory:
            note = await memory.create_active_memory(_AGENT, "Ferry", "The last ferry to the island leaves at eight.")

            assert note.write is not None
            if note.write.vectors_missing:
                print("Ollama is unavailable: searching by words until it is back")
            else:
                print("Ollama made the vectors")
            found = await memory.retrieve_memories(_AGENT, "When does the last boat to the island go?")
            print("found:", [hit.content for hit in found.hits])


if __name__ == "__main__":
    asyncio.run(main())
