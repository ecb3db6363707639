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
from tests.support.fakes import FaultyEmbedder, SetClock, away
from tests.support.openings import openings_of

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
        openings_of(narrowed)._whole_max_chunks = 0
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
async def test_what_a_rare_speaker_said_is_found_among_very_much_else(
    paths: Paths, config: Callable[..., Config]
) -> None:
    """Neither a word nor a label of hers stands in it; who said it is looked up, also where no vector leads there."""
    await _remember(paths.whole, memories=60, chunks=10)
    for speaker, line in (("Zoe", "The lanterns hang too low."), ("Mara", "Somebody has moved the ladder.")):
        await paths.whole.create_active_memory("agent-1", "Notes", line, metadata={"speaker": speaker})

    async with AgentMem(config(worker=False), embedder=FaultyEmbedder(away, TEST_DIMENSION)) as without_vectors:
        openings_of(without_vectors)._whole_max_chunks = 0
        for question in ("What did Zoe say?", "what has zoe said?"):
            for found in (*await paths.ask(question), await without_vectors.retrieve_memories("agent-1", question)):
                assert "Zoe" in [hit.speaker for hit in found.hits], question


@pytest.mark.thorough
async def test_all_that_a_speaker_said_in_long_texts_is_looked_at(paths: Paths) -> None:
    """The postings of long texts lie in several blocks, one behind the other: their numbers do not ascend."""
    for part in range(3):
        text = "\n\n".join(f"{('Ann', 'Bob')[n % 2]}: part {part} of the stones, line {n}." for n in range(700))
        await paths.whole.create_active_memory("agent-1", f"Part {part}", text)

    for question in ("What did Ann say about line 650?", "What did Bob say about part 1 and line 333?"):
        whole, narrowed = await paths.ask(question)

        assert narrowed.hits[0].chunk_id == whole.hits[0].chunk_id, question
        same = {hit.chunk_id for hit in whole.hits} & {hit.chunk_id for hit in narrowed.hits}
        assert len(same) >= 8, question


async def test_what_a_speaker_no_longer_says_takes_nothing_from_who_is_asked_about(paths: Paths) -> None:
    """Postings stay when chunks end: neither do they make a speaker common, nor one who has gone somebody."""
    told = [f"Ann: tea number {n} is hers." for n in range(20)] + [f"Bob: cup number {n} is his." for n in range(60)]
    note = await paths.whole.create_active_memory("agent-1", "Kitchen", "\n\n".join(["Zoe: And I had tea.", *told]))
    for version in range(4):
        told[:20] = [f"Ann: tea number {n} is hers, {version} times." for n in range(20)]
        note = await paths.whole.update_active_memory("agent-1", note.id, content="\n\n".join(told))

    for question in ("What did Ann say of tea number 7?", "What did Ann tell Zoe of tea number 7?"):
        whole, narrowed = await paths.ask(question)

        assert narrowed.hits[0].speaker == whole.hits[0].speaker == "Ann", question
        assert narrowed.hits[0].score_parts["speaker"] == pytest.approx(
            whole.hits[0].score_parts["speaker"], abs=0.02
        ), question


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


async def test_a_month_without_a_year_is_the_same_one_on_both_paths(paths: Paths) -> None:
    """What is to come is stored, too, and does not make it the month of next year."""
    for year, line in ((2026, "The boat was painted green."), (2027, "The boat will be sold.")):
        await paths.whole.create_active_memory("agent-1", "Log", line, occurred_at=datetime(year, 5, 3, tzinfo=UTC))

    for found in await paths.ask("What about the boat in May?"):
        dated = [hit.start_date.year for hit in found.hits if "date" in hit.score_parts]
        assert dated == [2026]


@pytest.mark.parametrize("question", ["What happened in May?", "in May 2026", "What happened last spring?"])
async def test_a_question_of_time_alone_is_found_where_anything_lies_in_it(paths: Paths, question: str) -> None:
    """Neither "happened" nor the month stands in what happened."""
    await paths.whole.create_active_memory(
        "agent-1", "Log", "The boat was painted green.", occurred_at=datetime(2026, 5, 3, tzinfo=UTC)
    )
    await paths.whole.create_active_memory(
        "agent-1", "Log", "The roof leaks.", occurred_at=datetime(2026, 10, 3, tzinfo=UTC)
    )

    for found in await paths.ask(question):
        assert found.found
        assert found.hits[0].content.strip() == "The boat was painted green."
        assert [hit.match for hit in found.hits] == [1, *[0] * (len(found.hits) - 1)]
    for found in await paths.ask(question.replace("May", "July").replace("spring", "summer")):
        assert not found.found


async def test_words_beside_the_time_decide_whether_it_is_there(paths: Paths) -> None:
    """The period says when, and is no word that an answer has to have."""
    await paths.whole.create_active_memory(
        "agent-1", "Log", "The boat was painted green.", occurred_at=datetime(2026, 5, 3, tzinfo=UTC)
    )

    for found in await paths.ask("Was the boat painted in May 2026?"):
        assert found.found
    for found in await paths.ask("Which zebra did the penguin bite in May 2026?"):
        assert not found.found


@pytest.mark.thorough
async def test_a_smaller_limit_gives_the_first_of_a_larger_one(paths: Paths) -> None:
    """Also where very many are equal but for their age: the newest are first."""
    for minute in range(250):
        await paths.whole.create_active_memory(
            "agent-1", "Log", "The boat.", occurred_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
        )

    few = (await paths.whole.retrieve_memories("agent-1", "the boat")).hits
    many = (await paths.whole.retrieve_memories("agent-1", "the boat", limit=200)).hits
    assert [hit.chunk_id for hit in few] == [hit.chunk_id for hit in many[:10]]
    assert few[0].start_date == max(hit.start_date for hit in many)


async def test_of_a_very_long_question_the_rare_words_are_looked_at(paths: Paths) -> None:
    """Words that no text has take no more than half of the places; and a question of such words is not answered."""
    await _remember(paths.whole, memories=20, chunks=10)
    await paths.whole.create_active_memory("agent-1", "Keys", "Mara: the lighthouse key hangs in the pantry.")
    filler = " ".join(f"frobnicated{n}" for n in range(300))

    for found in await paths.ask(f"{' '.join(_FREQUENT)} {filler} lighthouse key pantry"):
        assert any("pantry" in hit.content for hit in found.hits)
    for found in await paths.ask(f"{filler} market"):
        assert not found.found
