"""What an embedder is, and what is checked of its vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from agent_reminiscence.exceptions import EmbedderAwayError, EmbeddingError, ReminiscenceError

UNIT_LENGTH_TOLERANCE = 1e-3
"""How far a vector's length may be from 1: just enough for rounding to 16-bit floats."""


HARMLESS_TEXT = "memory"
"""The text an embedder is tested with: one that has no vector for this has none for anything."""


class EmbedderUnusableError(EmbedderAwayError):
    """The embedder refuses everything until somebody acts: its model is missing, or its account is refused."""


class Embedder(Protocol):
    """Turns texts into unit vectors; safe to call from several tasks at once.

    Four more methods are optional: `async embed_queries(texts)`, like `embed`, if questions are embedded differently
    from the texts that answer them; `async embed_each(texts)`, like `embed`, but with an EmbeddingError in place of
    each vector it cannot make; `async prepare()`, called at the start, which checks that the model is there; and
    `async aclose()`, called at the end, after which the embedder may be used again. If an embedder has
    `async embed_weighted(text, weigh)`, questions use it: `weigh` says how rare a word is in the tenant's texts, 0 for
    a word that says nothing; it returns None if no word has any weight. If the attribute `is_local` is true, vectors
    are computed in this process, before a write, and stored in its transaction; otherwise they follow the write.
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


def adopt_dimension(embedder: Embedder, model_name: str, dimension: int) -> None:
    """Give an embedder that has not reached its server yet the dimension that a database recorded for its model."""
    adopt = getattr(embedder, "adopt_dimension", None)
    if adopt is not None and embedder.model_name == model_name:
        adopt(dimension)


async def close_embedder(embedder: Embedder) -> None:
    """Close what `embedder` has open, if anything; it may be used again."""
    close = getattr(embedder, "aclose", None)
    if close is not None:
        await close()


def describe_failure(embedder: Embedder, error: Exception) -> str:
    """How an embedder failed, without text it may quote: only our own errors are known to quote nothing."""
    is_ours = type(embedder).__module__.startswith("agent_reminiscence.")
    if is_ours and isinstance(error, ReminiscenceError):
        return str(error)
    return f"embedder {embedder.model_name!r} failed: {type(error).__name__}"


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
