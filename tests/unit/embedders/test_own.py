"""Embedders of one's own: of the base class, and objects that merely have the methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent_reminiscence.database.connection import ConnectionSettings
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.embedders.base import BaseEmbedder, adapted, adopt_dimension
from agent_reminiscence.embedders.checked import CheckedEmbedder, describe_failure
from agent_reminiscence.embedders.create import create_embedder
from agent_reminiscence.embedders.halving import HARMLESS_TEXT
from agent_reminiscence.embedders.protocol import Embedder, EmbedderUnusableError
from agent_reminiscence.exceptions import ConfigurationError, EmbedderAwayError, EmbeddingError
from agent_reminiscence.services.vectors.generations import Generations

SECRET = "the launch code is heron"


class Plain:
    """The three members, and a note of what was asked.

    Args:
        fails_for: A text with this word in it has no vector.
        error: What is raised then.
    """

    model_name = "plain-2"
    dimension = 2

    def __init__(self, fails_for: str | None = None, error: Exception | None = None) -> None:
        self.fails_for = fails_for
        self.error = error or EmbeddingError(SECRET)
        self.calls: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append(list(texts))
        if self.fails_for is not None and any(self.fails_for in text for text in texts):
            raise self.error
        return [[1.0, 0.0] for _ in texts]


class Derived(BaseEmbedder):
    """The same with the base class."""

    def __init__(self, fails_for: str | None = None, error: Exception | None = None) -> None:
        self.plain = Plain(fails_for, error)

    @property
    def model_name(self) -> str:
        return self.plain.model_name

    @property
    def dimension(self) -> int:
        return self.plain.dimension

    @property
    def calls(self) -> list[list[str]]:
        return self.plain.calls

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return await self.plain.embed(texts)


class Complete(Plain):
    """Every optional member."""

    is_local = True

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Any] = []

    async def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        return [[0.0, 1.0] for _ in texts]

    async def embed_each(self, texts: Sequence[str]) -> list[list[float] | EmbeddingError]:
        return [EmbedderAwayError(SECRET), *([0.6, 0.8] for _ in texts[1:])]

    async def embed_weighted(self, text: str, weigh: Callable[[str], float]) -> list[float] | None:
        return [-1.0, 0.0] if weigh(text) else None

    async def prepare(self) -> None:
        self.noted.append("prepared")

    async def aclose(self) -> None:
        self.noted.append("closed")

    def adopt_dimension(self, dimension: int) -> None:
        self.noted.append(dimension)


@pytest.mark.parametrize("kind", [Plain, Derived])
async def test_three_members_are_enough(kind: type[Plain | Derived]) -> None:
    """Whatever is optional has a default, also for an object that knows nothing of the base class."""
    embedder = adapted(kind())
    adopt_dimension(embedder, "plain-2", 5)
    await embedder.prepare()

    assert await embedder.embed_queries(["heron?"]) == [[1.0, 0.0]]
    assert await embedder.embed_each(["heron", "cat"]) == [[1.0, 0.0], [1.0, 0.0]]
    assert await embedder.embed_weighted("heron", lambda _: 1.0) is None
    assert (embedder.model_name, embedder.dimension, embedder.is_local) == ("plain-2", 2, False)
    assert not embedder.has_own("embed_each")
    assert not embedder.has_own("embed_weighted")
    await embedder.aclose()


async def test_what_an_object_has_is_used() -> None:
    """Nothing has to be inherited or registered."""
    passed = Complete()
    embedder = adapted(passed)
    checked = CheckedEmbedder(embedder)

    await embedder.prepare()
    adopt_dimension(embedder, "another", 5)
    adopt_dimension(embedder, "plain-2", 7)
    failed, vector = await checked.embed_each(["heron", "cat"])

    assert embedder.is_local
    assert embedder.has_own("embed_weighted")
    assert await checked.embed_queries(["heron?"]) == [[0.0, 1.0]]
    assert await checked.embed_weighted("heron", lambda _: 1.0) == [-1.0, 0.0]
    assert await checked.embed_weighted("heron", lambda _: 0.0) is None
    assert isinstance(failed, EmbedderAwayError)
    assert str(failed) == "embedder 'plain-2' failed: EmbedderAwayError"
    assert vector == [0.6, 0.8]
    await embedder.aclose()
    assert passed.noted == ["prepared", 7, "closed"]
    assert passed.calls == []


def test_an_embedder_of_the_base_class_stays_what_it_is() -> None:
    """Its user may ask it something, or compare it, later."""
    embedder = Derived()

    assert adapted(embedder) is embedder


@pytest.mark.parametrize("kind", [Plain, Derived])
async def test_a_failing_batch_is_halved_until_the_text_is_alone(kind: type[Plain | Derived]) -> None:
    """The others keep their vectors; one harmless word shows, once, that a text is to blame."""
    embedder = kind(fails_for="heron")

    results = await CheckedEmbedder(adapted(embedder)).embed_each(["cat", "dog", "heron", "owl"])

    assert [str(one) if isinstance(one, EmbeddingError) else one for one in results] == [
        [1.0, 0.0],
        [1.0, 0.0],
        "embedder 'plain-2' failed: EmbeddingError",
        [1.0, 0.0],
    ]
    assert embedder.calls == [
        ["cat", "dog", "heron", "owl"],
        [HARMLESS_TEXT],
        ["cat", "dog"],
        ["heron", "owl"],
        ["heron"],
        ["owl"],
    ]


@pytest.mark.parametrize(
    ("error", "expected", "calls"),
    [
        (EmbeddingError(SECRET), EmbeddingError, 2),
        (ConnectionError(SECRET), EmbedderAwayError, 1),
        (ConfigurationError(SECRET), EmbedderUnusableError, 1),
    ],
)
async def test_a_batch_is_not_halved_if_no_text_is_to_blame(
    error: Exception, expected: type[EmbeddingError], calls: int
) -> None:
    """One that fails for a harmless word fails for everything; one that is away is not asked for it."""
    embedder = Derived(fails_for="", error=error)

    results = await CheckedEmbedder(embedder).embed_each(["cat", "dog", "heron", "owl"])

    assert [type(result) for result in results] == [expected] * 4
    assert len(embedder.calls) == calls
    assert SECRET not in str(results)


@pytest.mark.parametrize("kind", [Plain, Derived])
def test_a_users_own_error_is_never_quoted(kind: type[Plain | Derived]) -> None:
    """Not even one of our kinds: its message was written elsewhere, also where our adapter stands before it."""
    described = describe_failure(adapted(kind()), EmbeddingError(SECRET))

    assert described == "embedder 'plain-2' failed: EmbeddingError"


async def test_one_object_that_is_passed_twice_is_closed_once() -> None:
    """As `embedder=` and again for a change of the model, say."""
    passed = Complete()
    other: Embedder = Complete()
    store = PostgresManager(
        ConnectionSettings("127.0.0.1", 1, "nobody", "nothing"),
        pool_size=1,
        pool_timeout_seconds=1,
        statement_timeout_seconds=1,
    )
    generations = Generations(store, [adapted(passed), adapted(passed)], create_embedder)
    generations.add(adapted(other))

    await generations.close()

    assert passed.noted == ["closed"]
