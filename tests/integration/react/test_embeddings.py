"""Facts and episodes are searched by a given vector, and returned with theirs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from agent_reminiscence import AgentMem, Config, EmbeddingError
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.react import (
    MemoryEpisodes,
    MemoryFacts,
    RetrieveEpisodesRequest,
    RetrieveFactsRequest,
    StoreEpisodeRequest,
    StoreFactRequest,
    default_scope,
)
from tests.conftest import TEST_DIMENSION

_BOAT = "Ana has a boat."
_KETTLE = "The kettle belongs to Ivo."


async def _vector_of(text: str) -> tuple[float, ...]:
    return tuple((await HashEmbedder(TEST_DIMENSION).embed([text]))[0])


async def _facts(memory: AgentMem, user: str) -> MemoryFacts:
    facts = MemoryFacts(memory)
    for content in (_BOAT, _KETTLE):
        # The day is in the vector of the passage: on some days, it has nothing in common with another fact's.
        request = StoreFactRequest(user=user, content=content, occurred_at=datetime(2026, 3, 2, 9, tzinfo=UTC))
        assert (await facts.store_fact(request)).error is None
    return facts


async def test_facts_are_found_by_a_vector_and_returned_with_theirs(memory: AgentMem, tenant: str) -> None:
    """The query has no word of the fact; the returned vector is the stored one, and finds the fact again."""
    facts = await _facts(memory, tenant)

    found = await facts.retrieve_facts(
        RetrieveFactsRequest(user=tenant, query="Zyx", embedding=await _vector_of(_KETTLE), with_embeddings=True)
    )

    assert found.error is None
    assert [fact.content for fact in found.facts] == [_KETTLE, _BOAT]
    first, second = (fact.embedding for fact in found.facts)
    assert first == pytest.approx(await _vector_of(_KETTLE), abs=2e-3)
    assert second == pytest.approx(await _vector_of(_BOAT), abs=2e-3)
    again = await facts.retrieve_facts(RetrieveFactsRequest(user=tenant, query="Zyx", embedding=second))
    assert again.facts[0].content == _BOAT
    assert again.facts[0].embedding is None


async def test_episodes_are_found_by_a_vector_and_returned_with_theirs(memory: AgentMem, tenant: str) -> None:
    """Also in an invocation whose outcome is to count."""
    episodes = MemoryEpisodes(memory)
    for goal in (_BOAT, _KETTLE):
        await episodes.store_episode(StoreEpisodeRequest(user=tenant, goal=goal))

    found = await episodes.retrieve_episodes(
        RetrieveEpisodesRequest(
            user=tenant,
            query="Zyx",
            embedding=await _vector_of(_KETTLE),
            with_embeddings=True,
            invocation_id="invocation-1",
        )
    )

    assert found.error is None
    assert found.episodes[0].goal == _KETTLE
    assert found.episodes[0].embedding == pytest.approx(await _vector_of(_KETTLE), abs=2e-3)


@pytest.mark.parametrize(
    "embedding",
    [(), (0.1, 0.2, 0.3), (math.nan,) * TEST_DIMENSION, (math.inf,) * TEST_DIMENSION, (0.0,) * TEST_DIMENSION],
    ids=["empty", "three", "nan", "infinite", "zeros"],
)
async def test_a_vector_that_does_not_fit_is_refused(
    memory: AgentMem, tenant: str, embedding: tuple[float, ...]
) -> None:
    """As a value that says how many numbers are wanted; the invocation is not recorded."""
    facts, episodes = await _facts(memory, tenant), MemoryEpisodes(memory)
    head = await memory.ledger.head(default_scope(tenant, "default"))

    failures = [
        (await facts.retrieve_facts(RetrieveFactsRequest(user=tenant, query="boat", embedding=embedding))).error,
        (
            await episodes.retrieve_episodes(
                RetrieveEpisodesRequest(user=tenant, query="boat", embedding=embedding, invocation_id="invocation-1")
            )
        ).error,
    ]

    for failure in failures:
        assert failure is not None
        assert failure.reason == "invalid_request"
        assert f"embedding must be {TEST_DIMENSION} finite numbers" in failure.message
    assert await memory.ledger.head(default_scope(tenant, "default")) == head


async def test_a_vector_finds_nothing_of_another_user(memory: AgentMem, tenant: str) -> None:
    """Not even the very vector of a fact."""
    facts = await _facts(memory, tenant)

    found = await facts.retrieve_facts(
        RetrieveFactsRequest(
            user=f"{tenant}-other", query="boat", embedding=await _vector_of(_BOAT), with_embeddings=True
        )
    )

    assert (found.facts, found.error) == ((), None)


class _Refusing(HashEmbedder):
    """Refuses texts, and embeds questions."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """No vector for any text."""
        raise EmbeddingError("refused")

    async def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """As ever."""
        return await HashEmbedder(self.dimension).embed_queries(texts)


async def test_a_fact_without_a_vector_is_returned_without_one(config: Callable[..., Config]) -> None:
    """It is found by its words; what is missing is None, never zeros."""
    async with AgentMem(config(), embedder=_Refusing(TEST_DIMENSION)) as memory:
        facts = await _facts(memory, "ana")

        found = await facts.retrieve_facts(RetrieveFactsRequest(user="ana", query="boat", with_embeddings=True))

    assert [(fact.content, fact.embedding) for fact in found.facts][:1] == [(_BOAT, None)]


async def test_steps_and_lessons_may_be_texts(memory: AgentMem, tenant: str) -> None:
    """They are stored as a step of that thought and as one lesson."""
    episodes = MemoryEpisodes(memory)
    given = {"steps": ["Looked up the street.", {"action": "weather"}], "lessons": "Ask for the district."}
    request = StoreEpisodeRequest.model_validate({"user": tenant, "goal": "Look up the weather in Graz."} | given)

    await episodes.store_episode(request)

    (found,) = (await episodes.retrieve_episodes(RetrieveEpisodesRequest(user=tenant, query="the district"))).episodes
    assert [(step.thought, step.action) for step in found.steps] == [("Looked up the street.", ""), ("", "weather")]
    assert found.lessons == ("Ask for the district.",)
