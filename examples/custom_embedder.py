"""Bring an embedder of your own: three members are all that it takes.

Run it with `python examples/custom_embedder.py`. Its memory lives in a folder that is gone at the end: vectors of
different embedders are not compared, so a database belongs to the embedder that it was made with, until `reembed`.
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
    """Vectors of three letters each: it knows no meaning, and forgives a wrong spelling."""

    # What made a vector is recorded under this name; change it with whatever changes the vectors.
    model_name = "trigrams-64"
    dimension = 64

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of `dimension` numbers for each text, in order; never one of zeros."""
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> list[float]:
        vector = [0.0] * self.dimension
        folded = f"  {text.casefold()} "
        for place in range(len(folded) - 2):
            vector[zlib.crc32(folded[place : place + 3].encode()) % self.dimension] += 1
        length = math.hypot(*vector)
        return [number / length for number in vector]


async def main() -> None:
    """Remember two notes, and find one of them by a word that is spelled wrongly."""
    with tempfile.TemporaryDirectory() as folder:
        async with AgentMem(Config(data_dir=folder), embedder=TrigramEmbedder()) as memory:
            await memory.create_active_memory(_AGENT, "Kitchen", "The thermostat of the oven sticks at 180 degrees.")
            await memory.create_active_memory(_AGENT, "Garden", "The tomatoes want water every evening.")

            found = await memory.retrieve_memories(_AGENT, "termostate", limit=1)
            print("found:", [hit.content for hit in found.hits])


if __name__ == "__main__":
    asyncio.run(main())
