"""What an embedder is, and what is checked of its vectors."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Protocol

from agent_reminiscence.exceptions import ConfigurationError, EmbedderAwayError, EmbeddingError

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


def check_embedder(embedder: object) -> None:
    """Refuse an object that lacks a member of `Embedder`, instead of finding by words alone.

    Raises:
        ConfigurationError: It lacks one; the message names it.
    """
    # Not `hasattr`: a property may raise until the embedder has reached its server.
    missing = [name for name in ("model_name", "dimension", "embed") if not _has(embedder, name)]
    if not missing:
        return
    way_out = "inherit from agent_reminiscence.BaseEmbedder, which says what each is"
    if _has(embedder, "get_embedding") or _has(embedder, "get_embeddings_batch"):
        way_out = (
            "wrap it in agent_reminiscence.embedders.service.ServiceEmbedder(…, model_name=…, dimension=…), which calls"
            " get_embeddings_batch() or get_embedding()"
        )
    elif isinstance(embedder, type):
        way_out = f"pass an object, {embedder.__name__}(), instead of the class"
    shown = embedder.__name__ if isinstance(embedder, type) else f"{type(embedder).__name__}(…)"
    raise ConfigurationError(f"embedder={shown} lacks {', '.join(missing)}; {way_out}")


def _has(embedder: object, name: str) -> bool:
    try:
        inspect.getattr_static(embedder, name)
    except AttributeError:
        # An object that stands for another one may answer all the same.
        return hasattr(type(embedder), "__getattr__") and hasattr(embedder, name)
    return not isinstance(embedder, type)


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
