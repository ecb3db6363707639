"""Use your own embedder: it needs only three members.

Run it with `python examples/custom_embedder.py`. Its memory is in a temporary folder: vectors of different embedders
cannot be compared, so a database is tied to the embedder it was created with, until `reembed`.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import zlib
from collections.abc import Sequence

from agent_reminiscence import AgentMem, Config

_AGENT = "example-embedder"


class TrigramEmbedder:
    """Vectors of letter trigrams: they capture no meaning, but tolerate misspellings."""

    # Recorded with the vectors; change it whenever the vectors change.
    model_name = "trigrams-64"
    dimension = 64

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector of `dimension` numbers per text, in order; never all zeros."""
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> list[float]:
        vector = [0.0] * self.dimension
        folded = f"  {text.casefold()} "
        for place in range(len(folded) - 2):
            vector[zlib.crc32(folded[place : place + 3].encode()) % self.dimension] += 1
        length = math.hypot(*vector)
        return [number / length for number in vector]


async def main() -> None:
    """Remember two notes, and find one of them by a misspelled word."""
    with tempfile.TemporaryDirectory() as folder:
        async with AgentMem(Config(data_dir=folder), embedder=TrigramEmbedder()) as memory:
            await memory.create_active_memory(_AGENT, "Kitchen", "The thermostat of the oven sticks at 180 degrees.")
            await memory.create_active_memory(_AGENT, "Garden", "The tomatoes want water every evening.")

            found = await memory.retrieve_memories(_AGENT, "termostate", limit=1)
            print("found:", [hit.content for hit in found.hits])


if __name__ == "__main__":
    asyncio.run(main())
