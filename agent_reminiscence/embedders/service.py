"""An embedding service of an application: an object that returns vectors of any length for texts."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.exceptions import ConfigurationError, EmbeddingError


class ServiceEmbedder(BaseEmbedder):
    """Makes an embedder of an object with `get_embeddings_batch(texts)` or `get_embedding(text)`.

    The methods may be asynchronous, or block, and then run in a thread. Their vectors are scaled to length 1.

    Args:
        service: Has at least one of the two methods; the first is preferred.
        model_name: The name that the vectors are recorded under, as `BaseEmbedder.model_name`. None takes that of the
            service, if it has one.
        dimension: The length of its vectors. None takes that of the service.

    Raises:
        ConfigurationError: The service has neither method, or no name or dimension is known.
    """

    def __init__(self, service: object, *, model_name: str | None = None, dimension: int | None = None) -> None:
        self._batch: Callable[[list[str]], Any] | None = getattr(service, "get_embeddings_batch", None)
        self._single: Callable[[str], Any] | None = getattr(service, "get_embedding", None)
        if self._batch is None and self._single is None:
            raise ConfigurationError(
                f"{type(service).__name__} has neither get_embeddings_batch() nor get_embedding(); inherit from"
                " agent_reminiscence.BaseEmbedder instead"
            )
        name = getattr(service, "model_name", None) if model_name is None else model_name
        length = getattr(service, "dimension", None) if dimension is None else dimension
        if not isinstance(name, str) or not name or not isinstance(length, int) or isinstance(length, bool):
            raise ConfigurationError(
                f"ServiceEmbedder needs the name of the model and the number of its dimensions, but has {name!r} and"
                f" {length!r}; pass ServiceEmbedder({type(service).__name__}(…), model_name=…, dimension=…)"
            )
        self._model_name = name
        self._dimension = length

    @property
    def model_name(self) -> str:
        """As it was passed, or the service's."""
        return self._model_name

    @property
    def dimension(self) -> int:
        """As it was passed, or the service's."""
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed `texts` in one call, or one by one if the service knows no batches.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), `dimension`).

        Raises:
            EmbeddingError: The service returned something else than a vector for each text.
        """
        if not texts:
            return []
        if self._batch is not None:
            vectors = await _called(self._batch, list(texts))
        else:
            assert self._single is not None
            vectors = [await _called(self._single, text) for text in texts]
        return [_unit(vector, index) for index, vector in enumerate(vectors)]


async def _called[Asked](method: Callable[[Asked], Any], asked: Asked) -> Any:
    if inspect.iscoroutinefunction(method):
        return await method(asked)
    answer = await asyncio.to_thread(method, asked)
    return await answer if isinstance(answer, Awaitable) else answer


def _unit(vector: Sequence[float] | None, index: int) -> list[float]:
    """The vector with length 1."""
    if vector is None:
        raise EmbeddingError(f"the service returned no vector for text {index}")
    values = [float(value) for value in vector]
    length = math.hypot(*values)
    if not 0 < length < math.inf:
        raise EmbeddingError(f"the service returned a vector of length {length:g} for text {index}")
    return [value / length for value in values]
