"""The base class of embedders, and what makes one of an object that merely has an embedder's methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

from agent_reminiscence.embedders.halving import embed_in_halves
from agent_reminiscence.embedders.protocol import Embedder
from agent_reminiscence.exceptions import EmbeddingError


class BaseEmbedder(ABC):
    """Turns texts into unit vectors; inherit from it to write your own embedder.

    Three members are required: `model_name`, `dimension` and `embed`. Everything else has a default. The methods are
    called from several tasks at once, with at most 256 texts; run long computations in a thread. Vectors are checked
    before they are used: each must have `dimension` numbers and length 1, within 0.001.

    Errors: raise `EmbeddingError` for a text that cannot be embedded. Raise `EmbedderAwayError`, `ConnectionError`,
    `TimeoutError` or `ConfigurationError` if the same call may succeed later, by itself or once somebody acts. Any
    other exception counts as an EmbeddingError. Messages of your own errors are not shown: they might quote a text.

    Attributes:
        is_local: Whether vectors are computed in this process. Then they are made before a write and stored in its
            transaction, so that the text is found by meaning as soon as the call returns. Otherwise they follow the
            write, because no transaction waits for a server. False by default; set it on the class or the object.
    """

    is_local: bool = False

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The name that the vectors are recorded under; vectors with different names are never compared.

        It covers everything that changes the vectors: model, version, dimension, prefix.
        """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The length of every vector, from 1 to 4,000.

        Raises:
            ConfigurationError: It is not known yet; see `adopt_dimension`.
        """

    @abstractmethod
    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts that are to be found.

        Returns:
            One unit-length vector per text, in order; shape (len(texts), `self.dimension`). `[]` for no texts. The same
            text gives the same vector, whatever texts it comes with.

        Raises:
            EmbeddingError: A text has no vector; `embed_each` finds out which.
            EmbedderAwayError: The same call may succeed later.
            ConfigurationError: The model is missing.
        """

    async def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed questions; by default like all other texts.

        Override it for a model that embeds a question differently from the texts that answer it.

        Returns:
            As `embed`.

        Raises:
            EmbeddingError: A text has no vector; the question is answered by its words.
        """
        return await self.embed(texts)

    async def embed_each(self, texts: Sequence[str]) -> list[list[float] | EmbeddingError]:
        """Embed as many of `texts` as possible.

        By default calls `embed`. If that raises EmbeddingError and one harmless word has a vector, the batch is halved
        until the failing text is alone. Override it if the embedder knows which text failed.

        Returns:
            For each text, in order, its unit-length vector, of shape (`self.dimension`,), or why it has none: an
            EmbedderAwayError if the same call may succeed later, another EmbeddingError if the text is the cause.

        Raises:
            ConfigurationError: The model is missing.
        """
        return await embed_in_halves(texts, self.embed)

    async def embed_weighted(self, text: str, weigh: Callable[[str], float]) -> list[float] | None:
        """Embed a question, giving its rare words more weight; by default not supported.

        A question uses its vector; where it returns None or fails, that of `embed_queries`.

        Args:
            weigh: How rare a word is in the tenant's texts: at least 0, which is for a word that says nothing.

        Returns:
            A unit-length vector of shape (`self.dimension`,); None if no word of `text` has any weight.

        Raises:
            EmbeddingError: The question has no vector.
        """
        return None

    async def prepare(self) -> None:  # noqa: B027 - a default, nothing to implement
        """Check that the model is there; called when a memory is opened. Does nothing by default.

        Raises:
            ConfigurationError: Somebody has to act first; the memory is not opened.
        """

    async def aclose(self) -> None:  # noqa: B027 - a default, nothing to implement
        """Close what is open; called when a memory is closed. Does nothing by default.

        The embedder may be used again afterwards: another memory may have it too.
        """

    def adopt_dimension(self, dimension: int) -> None:  # noqa: B027 - a default, nothing to implement
        """Use the dimension that a database has recorded for this model; by default ignored.

        For an embedder that learns its dimension from a server, which may be unavailable at the start. If the dimension
        is known already, it stays.
        """

    def has_own(self, method: Literal["embed_each", "embed_weighted"]) -> bool:
        """Whether the embedder has a method of its own instead of the default; need not be overridden."""
        return getattr(type(self), method) is not getattr(BaseEmbedder, method)


class AdaptedEmbedder(BaseEmbedder):
    """An object that merely has an embedder's methods, completed by the defaults of those it lacks.

    Args:
        passed: It may lack everything that the base class has a default for.
    """

    def __init__(self, passed: Embedder) -> None:
        self.passed = passed

    @property
    def is_local(self) -> bool:  # type: ignore[override]  # the object's own, which may change
        """The object's, if it has it."""
        return bool(getattr(self.passed, "is_local", False))

    @property
    def model_name(self) -> str:
        """The object's."""
        return self.passed.model_name

    @property
    def dimension(self) -> int:
        """The object's."""
        return self.passed.dimension

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The object's."""
        return await self.passed.embed(texts)

    async def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """The object's, if it has it."""
        return await self._own("embed_queries", super().embed_queries)(texts)

    async def embed_each(self, texts: Sequence[str]) -> list[list[float] | EmbeddingError]:
        """The object's, if it has it."""
        return await self._own("embed_each", super().embed_each)(texts)

    async def embed_weighted(self, text: str, weigh: Callable[[str], float]) -> list[float] | None:
        """The object's, if it has it."""
        return await self._own("embed_weighted", super().embed_weighted)(text, weigh)

    async def prepare(self) -> None:
        """The object's, if it has it."""
        await self._own("prepare", super().prepare)()

    async def aclose(self) -> None:
        """The object's, if it has it."""
        await self._own("aclose", super().aclose)()

    def adopt_dimension(self, dimension: int) -> None:
        """The object's, if it has it."""
        self._own("adopt_dimension", super().adopt_dimension)(dimension)

    def has_own(self, method: Literal["embed_each", "embed_weighted"]) -> bool:
        """Whether the object has that method."""
        return self._own(method, None) is not None

    def _own[Default](self, name: str, default: Default) -> Default:
        own: Any = getattr(self.passed, name, None)
        return default if own is None else own


def adapted(embedder: Embedder) -> BaseEmbedder:
    """`embedder` with every method of the base class; one that inherits from it stays the same object."""
    return embedder if isinstance(embedder, BaseEmbedder) else AdaptedEmbedder(embedder)


def as_passed(embedder: BaseEmbedder) -> Embedder:
    """The object that was passed, if `embedder` adapts one."""
    return embedder.passed if isinstance(embedder, AdaptedEmbedder) else embedder


def adopt_dimension(embedder: BaseEmbedder, model_name: str, dimension: int) -> None:
    """Give an embedder that has not reached its server yet the dimension that a database recorded for its model."""
    if embedder.model_name == model_name:
        embedder.adopt_dimension(dimension)
