"""Of a large tenant only some chunks are ranked: the same memory, searched both ways, gives the same answers."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from agent_reminiscence import AgentMem, Config, RetrievalResult
from tests.conftest import TEST_DIMENSION
from tests.fakes import FaultyEmbedder, SetClock, away

_NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
_TITLES = ("Harbour", "Kitchen", "Garden plans", "Office", "Letters")
_FREQUENT = ("morning", "work", "people", "house", "water", "paper", "table", "weather", "coffee", "market")
_RARE = tuple(
    f"{first}{last}" for first in ("bar", "tel", "mon", "rud", "sik", "pol") for last in ("dun", "fer", "gat")
)
_QUESTIONS = (
    "What happened in March 2026?",
    "Who was in the garden with the bardun?",
    "Where is the coffee of the harbour?",
    "What did Mara say about the telfer?",
    "What did I write about paper and weather?",
    "When did the rudgat come to the office market?",
    "water table kitchen monfer poldun",
    "Which zebra did people see?",
)


@dataclass(frozen=True)
class Paths:
    """One database, searched as a small tenant's and as a large one's."""

    whole: AgentMem
    narrowed: AgentMem

    async def ask(self, question: str, limit: int = 10) -> tuple[RetrievalResult, RetrievalResult]:
        """What both find."""
        return (
            await self.whole.retrieve_memories("agent-1", question, limit=limit),
            await self.narrowed.retrieve_memories("agent-1", question, limit=limit),
        )


@pytest.fixture
async def paths(config: Callable[..., Config]) -> AsyncIterator[Paths]:
    """Both, with nothing stored."""
    async with AsyncExitStack() as stack:
        whole, narrowed = [
            await stack.enter_async_context(AgentMem(config(worker=False), clock=SetClock(_NOW))) for _ in range(2)
        ]
        # No tenant of a test is as large as those of which only some chunks are ranked.
        narrowed._ready().retrieval._finder._whole_max_chunks = 0
        yield Paths(whole, narrowed)


async def _remember(memory: AgentMem, *, memories: int, chunks: int) -> None:
    """Some days of notes; each has frequent words and, now and then, a rare one."""
    numbers = random.Random(memories)
    for day in range(memories):
        lines = []
        for _ in range(chunks):
            words = [*numbers.choices(_FREQUENT, k=6), *numbers.choices(_RARE, k=numbers.random() < 0.2)]
            lines.append(f"{numbers.choice(('Mara', 'Ivo', 'user'))}: {' '.join(words)}.")
        await memory.create_active_memory(
            "agent-1",
            numbers.choice(_TITLES),
            "\n\n".join(lines),
            occurred_at=datetime(2026, 1, 5, 12, tzinfo=UTC) + timedelta(days=day * 300 // memories),
        )


async def test_where_everything_is_chosen_scores_and_matches_are_those_of_all(paths: Paths) -> None:
    """A heading's word stands in every chunk below it, and a heading's length in every window."""
    await _remember(paths.whole, memories=10, chunks=6)

    for question in _QUESTIONS:
        whole, narrowed = await paths.ask(question, limit=60)

        assert narrowed.found == whole.found, question
        scores = {hit.chunk_id: hit for hit in narrowed.hits}
        assert scores.keys() == {hit.chunk_id for hit in whole.hits}, question
        for hit in whole.hits:
            assert scores[hit.chunk_id].match == pytest.approx(hit.match, abs=1e-6), question
            # How many windows have a word is an estimate.
            assert scores[hit.chunk_id].score == pytest.approx(hit.score, abs=0.03), question


async def test_where_some_are_chosen_the_best_match_as_among_all(paths: Paths) -> None:
    """How rare a word is among the texts that were not read is estimated from its postings."""
    await _remember(paths.whole, memories=100, chunks=10)
    same = 0

    for question in _QUESTIONS:
        whole, narrowed = await paths.ask(question)

        assert narrowed.found == whole.found, question
        best = {hit.chunk_id: hit for hit in whole.hits}
        same += sum(hit.chunk_id in best for hit in narrowed.hits)
        for hit in narrowed.hits:
            if hit.chunk_id in best:
                assert hit.match == pytest.approx(best[hit.chunk_id].match, abs=0.02), question
                assert hit.score == pytest.approx(best[hit.chunk_id].score, abs=0.1), question
    assert same >= 0.9 * 10 * len(_QUESTIONS)


async def test_what_a_rare_speaker_said_is_found_among_very_much_else(
    paths: Paths, config: Callable[..., Config]
) -> None:
    """Neither a word nor a label of hers stands in it; who said it is looked up, also where no vector leads there."""
    await _remember(paths.whole, memories=60, chunks=10)
    for speaker, line in (("Zoe", "The lanterns hang too low."), ("Mara", "Somebody has moved the ladder.")):
        await paths.whole.create_active_memory("agent-1", "Notes", line, metadata={"speaker": speaker})

    async with AgentMem(config(worker=False), embedder=FaultyEmbedder(away, TEST_DIMENSION)) as without_vectors:
        without_vectors._ready().retrieval._finder._whole_max_chunks = 0
        for question in ("What did Zoe say?", "what has zoe said?"):
            for found in (*await paths.ask(question), await without_vectors.retrieve_memories("agent-1", question)):
                assert "Zoe" in [hit.speaker for hit in found.hits], question


async def test_a_speaker_who_said_nearly_everything_is_told_apart_by_little(paths: Paths) -> None:
    """The share is that of all chunks, and not that of those which were chosen."""
    for _ in range(8):
        notes = "\n\n".join(f"user: stones {n}." for n in range(50))
        await paths.whole.create_active_memory("agent-1", "Log", notes)
    await _remember(paths.whole, memories=10, chunks=10)

    for question in ("What did I hear of the market?", "What did Mara say of the market?"):
        whole, narrowed = await paths.ask(question)
        parts = {hit.chunk_id: hit.score_parts.get("speaker", 0) for hit in whole.hits}
        same = [hit for hit in narrowed.hits if hit.chunk_id in parts]
        assert same
        for hit in same:
            assert hit.score_parts.get("speaker", 0) == pytest.approx(parts[hit.chunk_id], abs=0.01), question
