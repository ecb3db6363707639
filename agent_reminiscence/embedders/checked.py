"""An embedder as the services use it: its vectors are checked, and its errors quote no text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from agent_reminiscence.apart import run_apart
from agent_reminiscence.embedders.base import BaseEmbedder, as_passed
from agent_reminiscence.embedders.halving import embed_in_halves
from agent_reminiscence.embedders.protocol import EmbedderUnusableError, check_vectors
from agent_reminiscence.exceptions import ConfigurationError, EmbedderAwayError, EmbeddingError, ReminiscenceError

# What an embedder, including a user's own, raises if its server does not answer.
_OUTAGES = (EmbedderAwayError, ConnectionError, TimeoutError)


class CheckedEmbedder:
    """Calls an embedder that may raise and return anything.

    Every method raises EmbedderAwayError if the same call may succeed later, by itself or once the setup is fixed, and
    another EmbeddingError for any other failure, including vectors that must not be stored.
    """

    def __init__(self, embedder: BaseEmbedder) -> None:
        self._embedder = embedder

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One unit-length vector per text, in order; shape (len(texts), dimension)."""
        return self._checked(await self._answer(self._embedder.embed(texts)), count=len(texts))

    async def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """The same for questions."""
        return self._checked(await self._answer(self._embedder.embed_queries(texts)), count=len(texts))

    async def embed_weighted(self, text: str, weigh: Callable[[str], float]) -> list[float] | None:
        """The unit vector of a question, weighted towards its rare words; None if that is not possible."""
        vector = await self._answer(self._embedder.embed_weighted(text, weigh))
        return None if vector is None else self._checked([vector], count=1)[0]

    async def embed_each(self, texts: Sequence[str]) -> list[list[float] | EmbeddingError]:
        """For each text, in order, its unit vector, or why it has none; raises nothing."""
        if not self._embedder.has_own("embed_each"):
            # What the default does, with checks.
            return await embed_in_halves(texts, self.embed)
        try:
            results = await self._answer(_as_list(self._embedder.embed_each(texts)))
            if len(results) != len(texts):
                raise EmbeddingError(
                    f"{self._embedder.model_name} returned {len(results)} vectors for {len(texts)} texts"
                )
        except EmbeddingError as error:
            return [error] * len(texts)
        return [self._checked_one(result) for result in results]

    async def _answer[T](self, request: Awaitable[T]) -> T:
        """Await a request; its failure is described without quoting any text."""
        try:
            return await run_apart(request)
        except ConfigurationError as error:
            raise EmbedderUnusableError(describe_failure(self._embedder, error)) from error
        except _OUTAGES as error:
            raise EmbedderAwayError(describe_failure(self._embedder, error)) from error
        except Exception as error:
            # A user's own embedder may raise anything, with any message.
            raise EmbeddingError(describe_failure(self._embedder, error)) from error

    def _checked(self, made: Sequence[Sequence[float]], *, count: int) -> list[list[float]]:
        """`made` as lists of floats, if they are `count` vectors that may be stored."""
        embedder = self._embedder
        try:
            check_vectors(made, count=count, dimension=embedder.dimension, model_name=embedder.model_name)
        except EmbeddingError:
            raise
        except Exception as error:
            # It may also return anything.
            message = f"embedder {embedder.model_name!r} returned no vectors: {type(error).__name__}"
            raise EmbeddingError(message) from error
        # Converts a client's array to a list of floats.
        return [list(map(float, vector)) for vector in made]

    def _checked_one(self, result: Sequence[float] | EmbeddingError) -> list[float] | EmbeddingError:
        if isinstance(result, EmbeddingError):
            described = describe_failure(self._embedder, result)
            return EmbedderAwayError(described) if isinstance(result, EmbedderAwayError) else EmbeddingError(described)
        try:
            return self._checked([result], count=1)[0]
        except EmbeddingError as error:
            return error


def describe_failure(embedder: BaseEmbedder, error: Exception) -> str:
    """How an embedder failed, without text it may quote: only our own errors are known to quote nothing."""
    is_ours = type(as_passed(embedder)).__module__.startswith("agent_reminiscence.")
    if is_ours and isinstance(error, ReminiscenceError):
        return str(error)
    return f"embedder {embedder.model_name!r} failed: {type(error).__name__}"


async def _as_list[T](request: Awaitable[Iterable[T]]) -> list[T]:
    return list(await request)
