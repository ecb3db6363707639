"""Who makes the vectors of a generation: an embedder that was passed, or one that the database's record leads to."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from agent_reminiscence.database.connection import ConnectionSettings
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.embedders.base import BaseEmbedder
from agent_reminiscence.embedders.create import create_embedder
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.embedders.ollama import OllamaEmbedder
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.services.vectors.generations import Generations, NoEmbedderError


def _generation(model_name: str, dimension: int, *, provider: str | None = None, number: int = 2) -> Generation:
    return Generation(
        number=number,
        model_name=model_name,
        dimension=dimension,
        state="current",
        state_since=datetime(2026, 1, 1, tzinfo=UTC),
        provider=provider,
    )


def _generations(*embedders: BaseEmbedder) -> Generations:
    # Nothing here asks the database.
    store = PostgresManager(
        ConnectionSettings("127.0.0.1", 1, "nobody", "nothing"),
        pool_size=1,
        pool_timeout_seconds=1,
        statement_timeout_seconds=1,
    )
    return Generations(store, embedders, create_embedder)


async def test_an_embedder_that_was_passed_is_used() -> None:
    """Also where its provider is known: its user has made it as it is wanted."""
    passed = HashEmbedder(96)

    assert await _generations(HashEmbedder(64), passed).embedder(_generation("hash-96", 96, provider="hash")) is passed


@pytest.mark.parametrize(
    ("provider", "model_name", "dimension"),
    [
        ("hash", "hash-96", 96),
        ("universal", "use-multilingual-3-q6-512", 512),
        ("wordllama", "wordllama-l2-supercat-256", 256),
    ],
)
async def test_another_one_is_made_from_what_is_recorded(provider: str, model_name: str, dimension: int) -> None:
    """And made once."""
    generations = _generations(HashEmbedder(64))

    made = await generations.embedder(_generation(model_name, dimension, provider=provider))

    assert (made.model_name, made.dimension) == (model_name, dimension)
    assert await generations.embedder(_generation(model_name, dimension, provider=provider)) is made


@pytest.mark.parametrize(
    ("generation", "reason"),
    [
        (_generation("our-model", 8), r"AgentMem\(embedders="),
        (_generation("hash-8", 16, provider="hash"), "provider 'hash' makes 'hash-16' or 'hash-64'"),
        (_generation("model-8", 8, provider="nobody"), "embedding_provider is 'nobody'"),
    ],
)
async def test_what_cannot_be_made_is_said_once(
    generation: Generation, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first question says why, and neither it nor the following ones are answered with another model's vectors."""
    generations = _generations(HashEmbedder(64))

    with pytest.raises(NoEmbedderError, match=reason):
        await generations.embedder(generation)
    for _ in range(3):
        with pytest.raises(NoEmbedderError):
            await generations.embedder(generation)

    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_vectors_of_another_length_are_not_passed_off_as_the_models() -> None:
    """An embedder with the right name and the wrong dimension is none."""

    class Misnamed(HashEmbedder):
        @property
        def model_name(self) -> str:
            return "our-model"

    with pytest.raises(NoEmbedderError, match="has 8 dimensions, but this database's vectors have 16"):
        await _generations(Misnamed(8)).embedder(_generation("our-model", 16))


async def test_an_embedder_whose_server_was_away_learns_its_dimension_from_the_database() -> None:
    """It was passed before there was such a generation, and could ask nobody; it is the one that the switch is for."""
    passed = OllamaEmbedder("mine", base_url="http://127.0.0.1:9")

    made = await _generations(HashEmbedder(64), passed).embedder(_generation("ollama:mine", 5))

    assert made is passed
    assert passed.dimension == 5


async def test_an_embedder_that_does_not_know_its_dimension_is_none() -> None:
    """Searches and writes go on by words, as for any other that is missing."""

    class Unknowing(HashEmbedder):
        @property
        def model_name(self) -> str:
            return "our-model"

        @property
        def dimension(self) -> int:
            raise ConfigurationError("nobody has said")

    with pytest.raises(NoEmbedderError, match="does not know its dimension"):
        await _generations(Unknowing()).embedder(_generation("our-model", 16))


class _Open(HashEmbedder):
    """Notes that it was closed; may be unable to begin, or to close.

    Args:
        fails_at: Its method that fails.
    """

    def __init__(self, fails_at: str | None = None) -> None:
        super().__init__(8)
        self.fails_at = fails_at
        self.closed = 0

    async def prepare(self) -> None:
        if self.fails_at == "prepare":
            raise ConfigurationError("the model is not there")

    async def aclose(self) -> None:
        self.closed += 1
        if self.fails_at == "aclose":
            raise RuntimeError("cannot be closed")


async def test_an_embedder_that_cannot_begin_is_closed_again() -> None:
    """Another one is made every half a minute, as long as the model is missing."""
    made = _Open(fails_at="prepare")
    generations = _generations()
    generations.make = lambda provider, model, dimension: made

    with pytest.raises(NoEmbedderError):
        await generations.embedder(_generation("hash-8", 8, provider="hash"))

    assert made.closed == 1


async def test_all_embedders_are_closed_whatever_became_of_them() -> None:
    """One that fails keeps none open, nor does one that another has taken the place of."""
    passed, failing, later = _Open(), _Open(fails_at="aclose"), _Open()
    generations = _generations(passed, failing, passed)
    generations.add(later)
    generations.add(later)

    with pytest.raises(RuntimeError, match="cannot be closed"):
        await generations.close()

    assert [passed.closed, failing.closed, later.closed] == [1, 1, 1]


def test_what_was_read_earlier_does_not_replace_what_was_read_later() -> None:
    """Tasks read at the same time and tell in any order; numbers only grow."""
    generations = _generations()
    generations.follow(_generation("hash-96", 96, number=2))

    generations.follow(_generation("hash-64", 64, number=1))

    assert generations.current.number == 2
