"""An embedder of hashed words and letters: no model, the same on every machine."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.exceptions import ConfigurationError

HASH_DIMENSION = 64
_WORD = re.compile(r"\w+")

# Small beside a word's 1, and 1 is not a multiple of it: it separates texts with the same words and avoids zero sums.
_TEXT_WEIGHT = 0.01


class HashEmbedder(BaseEmbedder):
    """Hashes words into a vector: texts that share words are close, and every process gives the same numbers.

    For tests and experiments: it knows only spelling, not meaning.

    Args:
        dimension: The length of the vectors; at least 1.
    """

    is_local = True

    def __init__(self, dimension: int = HASH_DIMENSION) -> None:
        if dimension < 1:
            raise ConfigurationError(f"embedding_dimension is {dimension}; HashEmbedder needs at least 1")
        self._dimension = dimension

    @property
    def model_name(self) -> str:
        """`hash-` and the dimension."""
        return f"hash-{self._dimension}"

    @property
    def dimension(self) -> int:
        """The dimension it was made with."""
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed `texts`; an empty text has a vector too.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), `self.dimension`).
        """
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        marks = hashlib.shake_128(text.encode("utf-8", "surrogatepass")).digest(self._dimension)
        vector = [_TEXT_WEIGHT * (1 + mark / 256) for mark in marks]
        for word in _WORD.findall(text.casefold()):
            number = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            sign, bucket = divmod(number, 2**63)
            vector[bucket % self._dimension] += 1 - 2 * sign
        length = math.sqrt(math.sumprod(vector, vector))
        return [value / length for value in vector]
