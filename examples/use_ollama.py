"""Make vectors with a model of your own Ollama, and go on while it is away.

Run it with `python examples/use_ollama.py`, after `ollama pull all-minilm`. REMINISCENCE_OLLAMA_BASE_URL says where it
is (http://127.0.0.1:11434). Without it everything works all the same, by words; the vectors are made as soon as it is
back. The memory lives in a folder that is gone at the end.
"""

from __future__ import annotations

import asyncio
import tempfile

from agent_reminiscence import AgentMem, Config

_AGENT = "example-ollama"


async def main() -> None:
    """Remember a note, look for it in other words, and say whether Ollama was there."""
    with tempfile.TemporaryDirectory() as folder:
        config = Config(data_dir=folder, embedding_provider="ollama", embedding_model="all-minilm")
        async with AgentMem(config) as memory:
            note = await memory.create_active_memory(_AGENT, "Ferry", "The last ferry to the island leaves at eight.")

            assert note.write is not None
            if note.write.vectors_missing:
                print("Ollama is away: found by words until it is back")
            else:
                print("Ollama made the vectors")
            found = await memory.retrieve_memories(_AGENT, "When does the last boat to the island go?")
            print("found:", [hit.content for hit in found.hits])


if __name__ == "__main__":
    asyncio.run(main())
