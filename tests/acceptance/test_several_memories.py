"""Several memories asked with one question: ranked as one, each under its own row security, each hit with its owner."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config, Filter, RetrievalResult, SearchHit
from agent_reminiscence.exceptions import ExternalIdNotFoundError, InvalidInputError, ProfileNotFoundError
from agent_reminiscence.services.recall.searching import Search
from agent_reminiscence.text.tokens import count_tokens
from tests.conftest import TEST_DIMENSION
from tests.support.fakes import SetClock
from tests.support.openings import openings_of

_NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
_DAY = datetime(2026, 5, 4, 12, tzinfo=UTC)
_NAMES = ("Mara", "Ivo Bell", "user")
_FREQUENT = ("morning", "work", "people", "house", "water", "paper", "table", "weather", "coffee", "market")
_RARE = tuple(f"{first}{last}" for first in ("bar", "tel", "mon", "rud") for last in ("dun", "fer", "gat"))
_QUESTIONS = (
    "What happened in March 2026?",
    "Who was in the garden with the bardun?",
    "What did Mara say about the telfer?",
    "What did Ivo say about coffee?",
    "What did I write about paper and weather?",
    "When did the rudgat come to the office market?",
    "water table kitchen mongat bargat",
    "Which zebra did people see?",
)


def _notes(count: int) -> list[tuple[str, datetime]]:
    """Texts of several days, by several speakers; no two chunks say the same."""
    numbers = random.Random(count)
    notes = []
    for number in range(count):
        lines = [
            f"{numbers.choice(_NAMES)}: {' '.join(numbers.choices(_FREQUENT, k=6))}"
            f" {' '.join(numbers.choices(_RARE, k=numbers.random() < 0.3))} {number} {line}."
            for line in range(numbers.randint(1, 9))
        ]
        notes.append(("\n\n".join(lines), datetime(2026, 2, 1, 9, tzinfo=UTC) + timedelta(days=number)))
    return notes


async def _remember(memory: AgentMem, memories: Sequence[str], count: int = 40) -> None:
    """The notes in a memory `all`, and each of them in one of `memories` as well."""
    dice = random.Random(len(memories))
    for number, (text, said) in enumerate(_notes(count)):
        for external_id in ("all", dice.choice(memories)):
            metadata = {"even": number % 2 == 0}
            await memory.create_active_memory(external_id, f"Note {number}", text, occurred_at=said, metadata=metadata)


def _told(result: RetrievalResult) -> list[Any]:
    return [
        (hit.content, pytest.approx(hit.score, abs=1e-6), pytest.approx(hit.match, abs=1e-5)) for hit in result.hits
    ]


def _ranked(result: RetrievalResult) -> dict[str, Any]:
    """The score of each text: two of one score may change places."""
    return {content: score for content, score, _ in _told(result)}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"where": Filter(metadata={"even": True})},
        {"as_of": datetime(2026, 3, 1, tzinfo=UTC)},
        {"min_match": 0.3},
        {"embedding": [float(number % 7 - 3) for number in range(TEST_DIMENSION)]},
    ],
    ids=["all", "filtered", "past", "matching", "vector"],
)
async def test_several_memories_are_ranked_like_one_that_holds_all(
    config: Callable[..., Config], arguments: dict[str, Any]
) -> None:
    """The same passages with the same scores, whatever else is asked."""
    async with AgentMem(config(worker=False), clock=SetClock(_NOW)) as memory:
        asked = ["ana", "team", "project"]
        await _remember(memory, asked)
        for question in _QUESTIONS:
            one = await memory.retrieve_memories("all", question, limit=20, **arguments)
            several = await memory.retrieve_memories(asked, question, limit=20, **arguments)

            assert _ranked(several) == _ranked(one), question
            assert several.found == one.found
            assert {hit.external_id for hit in several.hits} <= set(asked)
            assert {hit.external_id for hit in one.hits} <= {"all"}


async def test_large_memories_are_ranked_with_small_ones(config: Callable[..., Config]) -> None:
    """Of a large one only what is likely is ranked; the first hits are nearly always those of one memory."""
    async with AgentMem(config(worker=False), clock=SetClock(_NOW)) as memory:
        asked = ["ana", "team", "project"]
        await _remember(memory, asked)
        first: dict[str, list[list[str]]] = {}
        for whole in (10_000, 60, 0):
            openings_of(memory)._whole_max_chunks = whole
            for question in _QUESTIONS:
                found = await memory.retrieve_memories(asked, question, limit=5)
                first.setdefault(question, []).append([hit.content for hit in found.hits])

    agreeing = [len(set(whole[:3]) & set(others[:5])) for whole, *more in first.values() for others in more]
    assert sum(agreeing) >= 0.9 * 3 * len(agreeing)


async def test_the_order_of_the_memories_means_nothing(memory: AgentMem) -> None:
    """Nor does it matter how often one is named, or in what collection."""
    await _remember(memory, ["ana", "team"], 12)
    for question in _QUESTIONS:
        told = [
            _told(await memory.retrieve_memories(asked, question))
            for asked in (["ana", "team"], ("team", "ana", "ana"), {"ana", "team"})
        ]
        assert told[0] == told[1] == told[2]
    alone = await memory.retrieve_memories(["ana"], _QUESTIONS[0])
    assert _told(alone) == _told(await memory.retrieve_memories("ana", _QUESTIONS[0]))
    assert alone.external_ids == ("ana",)


async def test_equal_words_of_two_memories_are_one_hit_that_names_both(memory: AgentMem) -> None:
    """Whoever stores a rule twice is shown it once, with whose it is."""
    for external_id in ("ana", "team", "other"):
        await memory.create_active_memory(external_id, "Deploys", "We deploy on Thursdays.", occurred_at=_DAY)
    await memory.create_active_memory("team", "Office", "The office closes at eight.", occurred_at=_DAY)

    found = await memory.retrieve_memories(["team", "ana"], "When do we deploy, and when does the office close?")

    deploys, office = sorted(found.hits, key=lambda hit: hit.title)
    assert {deploys.external_id, *deploys.also_in} == {"ana", "team"}
    assert len(deploys.same_text) == 1
    assert (office.external_id, office.also_in) == ("team", ())
    prompt = found.as_prompt()
    assert f'memory "{deploys.external_id}"' in prompt
    assert f'(also in memory "{deploys.also_in[0]}")' in prompt
    assert "other" not in prompt


async def test_a_name_cannot_pass_for_something_else(memory: AgentMem) -> None:
    """An external_id may hold quotation marks, backticks and whatever a rendering begins its lines with."""
    strange = '[1] x", standing summary "y", ``` written 2026: Ana'
    await memory.create_active_memory(strange, "Boat", "The boat is red.", occurred_at=_DAY)
    await memory.create_active_memory("ana", "Mast", "The mast of the boat is tall.", occurred_at=_DAY)

    lines = (await memory.retrieve_memories([strange, "ana"], "boat")).as_prompt().splitlines()

    headings = [line for line in lines if line.startswith("2026-05-04")]
    assert len(headings) == 2
    assert all(line.count('"') == 2 for line in headings)


async def test_what_is_refused_says_why(memory: AgentMem) -> None:
    """Before anything is read, and with the name that is meant."""
    await memory.create_active_memory("ana", "Boat", "The boat is red.")
    for refused in ([], ["ana", ""], ["ana", 1.5], [f"user-{number}" for number in range(17)], b"ana", {"ana": 1}):
        with pytest.raises(InvalidInputError, match="external_id"):
            await memory.retrieve_memories(refused, "boat")  # type: ignore[arg-type]
    with pytest.raises(ExternalIdNotFoundError, match="'nobody'"):
        await memory.retrieve_memories(["ana", "nobody"], "boat")
    assert not (await memory.retrieve_memories("nobody", "boat")).hits
    with pytest.raises(ExternalIdNotFoundError, match="'nobody'"):
        await anext(memory.stream_memories(["ana", "nobody"], "boat"))


async def test_sixteen_memories_need_one_connection(config: Callable[..., Config]) -> None:
    """No connection is held while another is waited for, so many such questions at once end, too."""
    async with AgentMem(config(worker=False, postgres_pool_size=1)) as memory:
        asked = [f"user-{number}" for number in range(16)]
        for number, external_id in enumerate(asked):
            await memory.create_active_memory(external_id, "Boat", f"Boat {number} is red.")

        results = await asyncio.gather(*(memory.retrieve_memories(asked, "boat", limit=20) for _ in range(5)))

        assert [len(result.hits) for result in results] == [16] * 5


async def test_a_stream_goes_on_over_all_memories(memory: AgentMem) -> None:
    """It begins with the hits of a search; what is erased meanwhile, in any of them, does not come any more."""
    for external_id in ("ana", "team"):
        for number in range(3):
            lines = "\n\n".join(f"The lantern of {external_id} {number} {line} is lit." for line in range(60))
            await memory.create_active_memory(external_id, f"Log {number}", lines, occurred_at=_DAY)
    first = await memory.retrieve_memories(["ana", "team"], "lantern", limit=200)
    streamed: list[SearchHit] = []
    async for hit in memory.stream_memories(["ana", "team"], "lantern"):
        streamed.append(hit)
        if len(streamed) == 200:
            await memory.admin.erase("ana")

    assert [hit.content for hit in streamed[:200]] == [hit.content for hit in first.hits]
    assert {hit.external_id for hit in streamed[:200]} == {"ana", "team"}
    assert {hit.external_id for hit in streamed[200:]} == {"team"}
    assert len({hit.chunk_id for hit in streamed}) == len(streamed)


async def test_what_is_erased_while_it_is_read_is_left_out(memory: AgentMem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each memory is read in a snapshot of its own; the rows of the hits are read after that."""
    for external_id in ("ana", "team"):
        await memory.create_active_memory(external_id, "Boat", f"The boat of {external_id} is red.")
    read = Search.read

    async def read_and_erase(self: Search, request: Any, *arguments: Any) -> Any:
        found = await read(self, request, *arguments)
        if request.external_id == "ana":
            await memory.admin.erase("ana")
        return found

    monkeypatch.setattr(Search, "read", read_and_erase)
    found = await memory.retrieve_memories(["ana", "team"], "boat")

    assert [hit.external_id for hit in found.hits] == ["team"]


async def test_a_token_budget_counts_the_names(memory: AgentMem) -> None:
    """What is rendered fits, and each one left out would not."""
    await _remember(memory, ["ana", "team"], 12)
    for budget in (60, 150, 400):
        found = await memory.retrieve_memories(["ana", "team"], "coffee and paper", token_budget=budget)
        assert count_tokens(found.as_prompt()) <= budget


async def test_each_memory_gives_what_it_has_beside_passages(memory: AgentMem) -> None:
    """Profiles, pins, uses and recorded runs are each memory's own."""
    await memory.create_active_memory("ana", "Rule", "Boats are painted in May.", pinned=True, occurred_at=_DAY)
    await memory.create_active_memory("team", "Rule", "Boats are sold in June.", pinned=True, occurred_at=_DAY)
    await memory.admin.profiles.define("ana", "boats", question="When are boats painted in May?")
    await memory.admin.profiles.refresh("ana", "boats")

    found = await memory.retrieve_memories(["ana", "team"], "boats", profile="boats", run_id="run-1")

    assert list(found.profiles) == ["ana"]
    assert found.profile == found.profiles["ana"]
    assert {hit.external_id for hit in found.standing} == {"ana", "team"}
    prompt = found.as_prompt()
    assert 'standing summary "boats", memory "ana"' in prompt
    assert prompt.count("2026-05, memory ") == 1
    for external_id in ("ana", "team"):
        outcome = await memory.admin.report_outcome(external_id, "run-1", success=True)
        assert outcome.chunks == 1
    with pytest.raises(ProfileNotFoundError):
        await memory.retrieve_memories(["ana", "team"], "boats", profile="ships")


async def test_the_graphs_of_all_count(memory: AgentMem) -> None:
    """A name that both know leads to what either knows of it."""
    for external_id, other in (("ana", "Bruno"), ("team", "Clara")):
        await memory.create_active_memory(external_id, "Work", f"Ines Halvorsen works with {other} Berg.")
        await memory.admin.consolidate(external_id)

    found = await memory.retrieve_memories(["ana", "team"], "Who works with Ines Halvorsen?")

    assert {entity.external_id for entity in found.entities} == {"ana", "team"}
    assert {entity.name for entity in found.entities} >= {"Ines Halvorsen", "Bruno Berg", "Clara Berg"}
    shown = {entity.id for entity in found.entities}
    assert all({one.from_id, one.to_id} <= shown for one in found.relationships)
