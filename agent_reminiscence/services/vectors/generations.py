"""The current vector generation, and the embedder of each; a process follows when another one has switched."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from agent_reminiscence.apart import run_apart
from agent_reminiscence.config.constants import MAX_EMBEDDING_DIMENSION
from agent_reminiscence.database.generations import current_generation
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.embedders.base import BaseEmbedder, adopt_dimension, as_passed
from agent_reminiscence.exceptions import ConfigurationError, EmbeddingError, ReminiscenceError

_logger = logging.getLogger("agent_reminiscence.embedding")

# How soon to try again after an embedder could not be made; until then searches use words and do not wait.
_RETRY_SECONDS: Final = 30.0

MakeEmbedder = Callable[[str, str | None, int | None], BaseEmbedder]
"""Makes a built-in embedder from provider, model and dimension; raises ConfigurationError if it cannot."""


class NoEmbedderError(EmbeddingError):
    """This process has no embedder for the model; logged once."""


class Generations:
    """The current generation as far as this process knows, and its embedders.

    Args:
        embedders: Those it was given; a model's name identifies everything its vectors depend on.
        make: Makes the embedders of providers that a generation names.
    """

    def __init__(self, store: PostgresManager, embedders: Sequence[BaseEmbedder], make: MakeEmbedder) -> None:
        self._store = store
        self.make = make
        self._embedders: dict[str, BaseEmbedder] = {}
        # Including replaced ones, which may still be in use; by the passed object's id, because each is closed once.
        self._to_close: dict[int, BaseEmbedder] = {}
        for embedder in embedders:
            self.add(embedder)
        # By model: waiting for one that does not answer must not block another.
        self._making: dict[str, asyncio.Lock] = {}
        self._failures: dict[int, float] = {}
        self._current: Generation | None = None

    @property
    def current(self) -> Generation:
        """The current generation when this process last read it."""
        assert self._current is not None, "refresh() has not been called yet"
        return self._current

    async def refresh(self) -> Generation:
        """Read which generation is current."""
        async with self._store.transaction("", read_only=True) as db:
            generation = await current_generation(db)
        self.follow(generation)
        return generation

    def follow(self, generation: Generation) -> None:
        """From now on use `generation`, which was read as the current one."""
        if self._current is not None and generation.number > self._current.number:
            _logger.info(
                "the vectors of %s are now current, replacing those of %s",
                generation.made_by,
                self._current.made_by,
                extra={"model_name": generation.model_name},
            )
        if self._current is None or generation.number >= self._current.number:
            self._current = generation

    async def embedder(self, generation: Generation) -> BaseEmbedder:
        """The embedder for the generation's model.

        Raises:
            NoEmbedderError: This process was given none and cannot make one.
        """
        name = generation.model_name
        if name not in self._embedders:
            async with self._making.setdefault(name, asyncio.Lock()):
                if name not in self._embedders:
                    self.add(await self._made(generation))
        embedder = self._embedders[name]
        check_dimension(embedder, generation)
        return embedder

    def add(self, embedder: BaseEmbedder) -> None:
        """Add an embedder, or replace the one for its model."""
        self._embedders[embedder.model_name] = embedder
        self._to_close.setdefault(id(as_passed(embedder)), embedder)

    async def close(self, *, keep: Iterable[BaseEmbedder] = ()) -> None:
        """Close what the embedders have open, except those to `keep`."""
        kept = {id(as_passed(embedder)) for embedder in keep}
        await close_all([embedder for passed, embedder in self._to_close.items() if passed not in kept])

    async def _made(self, generation: Generation) -> BaseEmbedder:
        failed_at = self._failures.get(generation.number)
        if failed_at is not None and time.monotonic() < failed_at + _RETRY_SECONDS:
            raise NoEmbedderError(f"no embedder for the vectors of {generation.made_by}")
        try:
            if generation.provider is None:
                raise EmbeddingError("they were made by your own embedder; pass it to AgentMem(embedders=[…])")
            embedder = await self._opened(generation, generation.provider)
        except ReminiscenceError as error:
            if failed_at is None:
                _logger.error(
                    "this process cannot make vectors of %s, the current generation, and searches by words only: %s",
                    generation.made_by,
                    error,
                    extra={"model_name": generation.model_name},
                )
            self._failures[generation.number] = time.monotonic()
            raise NoEmbedderError(f"no embedder for the vectors of {generation.made_by}: {error}") from error
        self._failures.pop(generation.number, None)
        return embedder

    async def _opened(self, generation: Generation, provider: str) -> BaseEmbedder:
        embedder = self._made_by_provider(generation, provider)
        try:
            await run_apart(embedder.prepare())
        except BaseException:
            # The next attempt makes a new one.
            await run_apart(embedder.aclose())
            raise
        return embedder

    def _made_by_provider(self, generation: Generation, provider: str) -> BaseEmbedder:
        """The provider's embedder for the generation's model, matched by name."""
        names = []
        # It is not known whether the dimension was requested or is the model's own; if it matters, the name shows it.
        for dimension in (generation.dimension, None):
            embedder = self.make(provider, generation.model, dimension)
            adopt_dimension(embedder, generation.model_name, generation.dimension)
            if embedder.model_name == generation.model_name:
                return embedder
            names.append(repr(embedder.model_name))
        raise EmbeddingError(f"with these settings, provider {provider!r} makes {' or '.join(names)}")


def check_dimension(embedder: BaseEmbedder, generation: Generation) -> None:
    """Check that an embedder makes vectors of the generation's dimension.

    Raises:
        NoEmbedderError: It does not.
    """
    name = embedder.model_name
    # An embedder the caller passed may predate this generation, and its server may have been away ever since.
    adopt_dimension(embedder, generation.model_name, generation.dimension)
    try:
        dimension = embedder.dimension
    except ConfigurationError as error:
        raise NoEmbedderError(f"the embedder {name!r} does not know its dimension") from error
    if dimension != generation.dimension:
        raise NoEmbedderError(
            f"the embedder {name!r} has {dimension} dimensions, but this database's vectors have {generation.dimension}"
        )


def check_storable(embedder: BaseEmbedder) -> None:
    """Check that vectors of this embedder's dimension can be stored.

    Raises:
        ConfigurationError: They cannot, or the dimension is unknown while the embedder's server is unavailable.
    """
    if not 1 <= embedder.dimension <= MAX_EMBEDDING_DIMENSION:
        raise ConfigurationError(
            f"the vectors of {embedder.model_name!r} have {embedder.dimension} dimensions; the index supports at most"
            f" {MAX_EMBEDDING_DIMENSION:,}"
        )


async def close_all(embedders: Iterable[BaseEmbedder]) -> None:
    """Close what `embedders` have open, each once; a failure of one does not keep the others open."""
    async with AsyncExitStack() as closing:
        for embedder in {id(as_passed(embedder)): embedder for embedder in embedders}.values():
            closing.push_async_callback(_close, embedder)


async def _close(embedder: BaseEmbedder) -> None:
    await run_apart(embedder.aclose())
