"""What an embedder is, and what is checked of its vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from agent_reminiscence.exceptions import EmbedderAwayError, EmbeddingError

UNIT_LENGTH_TOLERANCE = 1e-3
"""How far a vector's length may be from 1: just enough for rounding to 16-bit floats."""


class EmbedderUnusableError(EmbedderAwayError):
    """The embedder refuses everything until somebody acts: its model is missing, or its account is refused."""


class Embedder(Protocol):
    """Turns texts into unit vectors; safe to call from several tasks at once.

    This is the least an embedder has. The other methods of `BaseEmbedder`, and its attribute `is_local`, are used if
    the object has them; a class that inherits from it has them all.
    """

    @property
    def model_name(self) -> str:
        """Identifies the vectors: vectors with different names are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed `texts`.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), `self.dimension`). `[]` for no texts. The
            same text gives the same vector, whatever texts it comes with.

        Raises:
            EmbeddingError: A text has no vector; the message names its index, never its words.
            ConfigurationError: The model is missing.
        """
        ...


def check_vectors(vectors: Sequence[Sequence[float]], *, count: int, dimension: int, model_name: str) -> None:
    """Refuse vectors that must not be stored.

    Args:
        vectors: What an embedder returned.
        count: How many texts it was given.
        dimension: The required dimension.
        model_name: The embedder's, for the message.

    Raises:
        EmbeddingError: The number of vectors or a dimension is wrong, or a vector is not of unit length within
            `UNIT_LENGTH_TOLERANCE` (zeros, NaN and infinities are not).
    """
    if len(vectors) != count:
        raise EmbeddingError(f"{model_name} returned {len(vectors)} vectors for {count} texts")
    for index, vector in enumerate(vectors):
        if len(vector) != dimension:
            raise EmbeddingError(
                f"{model_name} returned a vector of {len(vector)} dimensions for text {index} instead of {dimension}"
            )
        length = math.sqrt(math.sumprod(vector, vector))
        # Written so that NaN, for which every comparison is false, is refused.
        if not abs(length - 1) <= UNIT_LENGTH_TOLERANCE:
            raise EmbeddingError(f"{model_name} returned a vector of length {length:g} for text {index} instead of 1")
