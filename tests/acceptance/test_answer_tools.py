"""What a model that answers finds by its tools: passages, each shown once, and what stands around them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart

from agent_reminiscence import AgentMem, AgentModels, Config, Filter, RetrievalResult
from agent_reminiscence.agents.memory_retriever import Passage
from agent_reminiscence.config.constants import MAX_CHUNK_TOKENS, TIERS, Tier
from agent_reminiscence.domain.search import LATEST, SearchRequest
from agent_reminiscence.services.recall.neighbours import MAX_NEIGHBOURS, NEIGHBOUR_REACH
from agent_reminiscence.text.tokens import count_tokens
from tests.support.fakes import SetClock
from tests.support.memorizing import fact, reads
from tests.support.outdated import mark
from tests.support.rendered import Rendered, read_lines
from tests.support.scripted import ScriptedModel, Step, answer, call, call_all
from tests.support.steps import lines

MakeConfig = Callable[..., Config]

_LOG = (
    "The ferry left Almada at dawn.",
    "Rita carried the cello on board.",
    "Fog hid the bridge for an hour.",
    "The captain poured tea for everyone.",
    "Two gulls stole the sandwiches.",
    "Nuno lost the key of the practice room.",
    "A spare one was found in the piano stool.",
    "The rehearsal began at noon.",
    "Rita broke a string in the second movement.",
    "The landlord lent her an old one.",
    "Everybody sang on the way home.",
    "The instrument stayed with her aunt.",
)
_QUESTION = "Who lost the key of the practice room?"
_KEY = 5
_START = datetime(2031, 3, 10, 12, tzinfo=UTC)
_KNOWN = answer({"answer": "Nuno lost it [1].", "is_known": True})
_AROUND = call("show_around", ref=1)


@asynccontextmanager
async def _memory(config: MakeConfig, *steps: Step, memorizer: Step | None = None) -> AsyncIterator[_Asking]:
    model = ScriptedModel(*steps)
    clock = SetClock(_START)
    read = None if memorizer is None else ScriptedModel(memorizer).model
    models = AgentModels(memory_retrieve=model.model, memorizer=read)
    async with AgentMem(config(), clock=clock, models=models) as memory:
        yield _Asking(memory, model, clock)
        assert (await memory.admin.verify()).ok


class _Asking:
    """A memory whose retriever is scripted."""

    def __init__(self, memory: AgentMem, model: ScriptedModel, clock: SetClock) -> None:
        self.memory = memory
        self.model = model
        self.clock = clock
        self.result: RetrievalResult | None = None

    async def ask(self, query: str = _QUESTION, *, limit: int = 1, **asked: Any) -> list[str]:
        """Ask; returns what the tools showed, call by call, and complaints as they are."""
        self.model.asked.clear()
        self.result = await self.memory.retrieve_memories("agent-1", query, limit=limit, synthesis=True, **asked)
        return [
            str(part.content)
            for message in self.model.asked[-1]
            if isinstance(message, ModelRequest)
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]

    def prompt(self) -> str:
        """The last prompt."""
        (part,) = [part for part in self.model.asked[0][0].parts if isinstance(part, UserPromptPart)]
        return str(part.content)


def _passages(shown: str) -> list[Rendered]:
    return [
        one
        for rows in re.findall("<<<passages\n(.*?)\npassages>>>", shown, re.DOTALL)
        for one in read_lines(rows.split("\n"))
    ]


def _texts(shown: str) -> list[str]:
    return [passage.text for passage in _passages(shown)]


@pytest.mark.thorough
async def test_around_a_passage_stand_its_neighbours(config: MakeConfig) -> None:
    """In the order of the text, three on each side, each with a number of its own that may be cited."""
    cites = answer({"answer": "Gulls stole [4], then Nuno lost it [1], and a spare was found [5].", "is_known": True})
    async with _memory(config, _AROUND, cites) as asking:
        await asking.memory.create_active_memory("agent-1", "Outing", lines(_LOG))
        await asking.memory.create_active_memory("agent-1", "Other", "A key of another room is on the shelf.")

        (shown,) = await asking.ask()

    assert _texts(asking.prompt()) == [_LOG[_KEY]]
    assert [(one.number, one.text) for one in _passages(shown)] == list(
        zip([2, 3, 4, 1, 5, 6, 7], _LOG[_KEY - NEIGHBOUR_REACH : _KEY + NEIGHBOUR_REACH + 1], strict=True)
    )
    assert {(one.day, one.title) for one in _passages(shown)} == {(_START.date(), "Outing")}
    assert asking.result is not None
    assert asking.result.synthesis is not None
    assert [cited.content.strip() for cited in asking.result.synthesis.citations] == [_LOG[4], _LOG[_KEY], _LOG[6]]


@pytest.mark.parametrize("count", [1, 2])
async def test_at_the_ends_of_a_text_there_is_less_around(config: MakeConfig, count: int) -> None:
    """Nothing of another memory is taken for it, though it was written right after."""
    async with _memory(config, _AROUND, _KNOWN) as asking:
        await asking.memory.create_active_memory("agent-1", "Before", "The ferry was late.")
        await asking.memory.create_active_memory("agent-1", "Key", lines(_LOG[_KEY : _KEY + count]))
        await asking.memory.create_active_memory("agent-1", "After", "The shelf is empty.")

        (shown,) = await asking.ask()

    if count == 1:
        assert shown == "nothing is stored around this passage"
    else:
        assert _texts(shown) == list(_LOG[_KEY : _KEY + 2])


@pytest.mark.thorough
async def test_the_text_of_an_appended_memory_is_read_across_its_parts(config: MakeConfig) -> None:
    """A long memory is stored in parts, of which its text shows nothing."""
    async with _memory(config, _AROUND, _KNOWN) as asking:
        turns = [f"The tide table of day {number} lists {number + 40} boats." for number in range(70)]
        talk = asking.memory.conversation("agent-1", "harbour")
        for start in range(0, len(turns), 10):
            await talk.add_turns([{"speaker": "Rita", "text": turn} for turn in turns[start : start + 10]])
        assert len(await asking.memory.get_active_memories("agent-1")) == 1

        for number in (31, 32, 64):
            (shown,) = await asking.ask(f"How many boats does the tide table of day {number} list?")
            assert _texts(shown) == turns[number - 3 : number + 4]


async def test_around_a_passage_is_what_stood_there_at_the_moment_asked_about(config: MakeConfig) -> None:
    """Then as now: neither what came later nor what is gone, and the title of that time."""
    async with _memory(config, _AROUND, _KNOWN) as asking:
        memory = asking.memory
        note = await memory.create_active_memory("agent-1", "Outing", lines(_LOG[3:8]))
        first = asking.clock.advance(timedelta(days=1))
        asking.clock.advance(timedelta(days=1))
        new = [*_LOG[3:4], "Two seals stole the oars.", *_LOG[5:6], "Nobody found another.", *_LOG[7:8]]
        await memory.update_active_memory("agent-1", note.id, title="Trip", content=lines(new))

        (now,) = await asking.ask()
        (as_of,) = await asking.ask(as_of=first)
        (known_at,) = await asking.ask(known_at=first)
        (both,) = await asking.ask(as_of=first, where=Filter(memory_ids=[note.id]))
        (other,) = await asking.ask(as_of=first, where=Filter(sources=["user"], occurred_after=_START))

    assert sorted(_texts(now)) == sorted(new)
    assert {one.title for one in _passages(now)} == {"Trip"}
    for then in (as_of, known_at, both, other):
        assert _texts(then) == list(_LOG[3:8])
        assert {one.title for one in _passages(then)} == {"Outing"}


async def test_around_a_passage_is_only_what_the_filter_admits(config: MakeConfig) -> None:
    """By speaker, by source, and by the metadata of turns, now and at another moment."""
    async with _memory(config, _AROUND, _KNOWN) as asking:
        memory = asking.memory
        talk = memory.conversation("agent-1", "talk")
        said = [("Nuno", _LOG[2]), ("Rita", _LOG[3]), ("Nuno", _LOG[_KEY]), ("Rita", _LOG[6]), ("Nuno", _LOG[7])]
        for speaker, text in said:
            await talk.add(speaker, text, metadata={"mood": "glad" if speaker == "Nuno" else "sad"})
        later = asking.clock.advance(timedelta(days=1))
        asking.clock.advance(timedelta(days=1))
        nuno = [text for speaker, text in said if speaker == "Nuno"]

        (everything,) = await asking.ask()
        assert _texts(everything) == [text for _, text in said]
        for where in (Filter(speakers=["nuno"]), Filter(turn_metadata={"mood": "glad"})):
            assert _texts((await asking.ask(where=where))[0]) == nuno, where
            assert _texts((await asking.ask(where=where, as_of=later))[0]) == nuno, where


async def test_around_a_passage_are_only_the_tiers_and_the_confidence_asked_about(config: MakeConfig) -> None:
    """A neighbour that was imported, or that has not been consolidated yet, is left out like a hit."""
    async with _memory(config, _AROUND, _KNOWN) as asking:
        memory = asking.memory
        note = await memory.create_active_memory("agent-1", "Outing", lines(_LOG[3:7]))
        await memory.admin.consolidate("agent-1", note.id)
        await memory.update_active_memory("agent-1", note.id, content=lines(_LOG[3:8]), source="import")

        (everything,) = await asking.ask()
        hits = (await memory.retrieve_memories("agent-1", "rehearsal, key and gulls", limit=20)).hits
        confidence = {hit.content.strip(): hit.confidence for hit in hits}
        assert confidence[_LOG[7]] < confidence[_LOG[_KEY]]
        assert {hit.tier for hit in hits} == {"active", "shortterm"}

        assert _texts(everything) == list(_LOG[3:8])
        for asked in ({"tiers": ["shortterm"]}, {"min_confidence": confidence[_LOG[_KEY]]}):
            assert _texts((await asking.ask(**asked))[0]) == list(_LOG[3:7]), asked


def _request(external_id: str, tiers: Sequence[Tier] = TIERS, as_of: datetime | None = None) -> SearchRequest:
    return SearchRequest(
        external_id=external_id,
        query=_QUESTION,
        limit=1,
        tiers=tiers,
        token_budget=None,
        min_confidence=None,
        min_match=None,
        as_of=as_of,
        known_at=LATEST,
    )


async def test_nobody_reads_around_a_passage_of_somebody_else(config: MakeConfig) -> None:
    """Not even with the ids of the memory and of its chunks, which no tool takes."""
    async with _memory(config, _AROUND, _KNOWN) as asking:
        for tenant in ("agent-1", "agent-2"):
            await asking.memory.create_active_memory(tenant, "Outing", lines(_LOG))
        read = asking.memory._ready().services.synthesis.retriever_deps
        (hit,) = (await asking.memory.retrieve_memories("agent-2", _QUESTION, limit=1)).hits

        for moment in (None, _START + timedelta(hours=1)):
            passage = Passage(hit.memory_id, hit.chunk_id, hit.title, hit.content, (hit.chunk_id,), hit.external_id)
            theirs = await read(_request("agent-2", as_of=moment)).read_around(passage)
            mine = await read(_request("agent-1", as_of=moment)).read_around(passage)
            named = await read(_request("agent-1", as_of=moment)).read_around(replace(passage, external_id="agent-1"))
            assert [one.content.strip() for one in theirs] == list(_LOG[2:9])
            assert mine == named == []


async def test_around_a_fact_stand_the_passages_it_was_concluded_from(config: MakeConfig) -> None:
    """However far apart; then the nearest are shown, as many as one call shows."""
    said = "Nuno spoiled the rehearsal with the string."
    concludes = reads(lambda shown: {"facts": [fact(shown, said, _LOG[1], _LOG[_KEY], _LOG[10])]})
    async with _memory(config, _AROUND, _KNOWN, memorizer=concludes) as asking:
        await asking.memory.create_active_memory("agent-1", "Outing", lines(_LOG))
        await asking.memory.admin.consolidate("agent-1")

        (shown,) = await asking.ask("Who spoiled the rehearsal with the string?")
        prompt = asking.prompt()
        # A fact is no part of the text, so it does not stand after its end.
        (end,) = await asking.ask("With whom did the instrument stay?")

    assert _texts(end) == list(_LOG[-1 - NEIGHBOUR_REACH :])
    assert _texts(prompt) == [said]
    texts = _texts(shown)
    assert len(texts) == MAX_NEIGHBOURS
    assert {_LOG[1], _LOG[_KEY], _LOG[10]} <= set(texts)
    assert texts == sorted(texts, key=_LOG.index)


async def test_what_was_not_shown_yet_has_nothing_around_it(config: MakeConfig) -> None:
    """Neither a number that there is not, nor one that is found beside the call: both may only be guessed."""
    beside = call_all(
        ("search_memory", {"query": _LOG[1]}), ("show_around", {"ref": 2}), ("show_around", {"ref": 4711})
    )
    async with _memory(config, beside, call("show_around", ref=2), _KNOWN) as asking:
        await asking.memory.create_active_memory("agent-1", "Outing", lines(_LOG))

        found, guessed, wrong, shown = await asking.ask()

    assert _texts(found) == [_LOG[1]]
    assert guessed == "no passage has the number 2; choose one that you were shown"
    assert wrong == "no passage has the number 4711; choose one that you were shown"
    assert _texts(shown) == list(_LOG[:5])


async def test_a_search_shows_only_what_was_not_shown_before(config: MakeConfig) -> None:
    """A passage that is found again is named by its number, so that it is read and paid for once."""
    search = call("search_memory", query="the key of the practice room and the cello")
    async with _memory(config, search, search, _KNOWN) as asking:
        await asking.memory.create_active_memory("agent-1", "Outing", lines(_LOG[:2]))
        await asking.memory.create_active_memory("agent-1", "Key", _LOG[_KEY])

        first, second = await asking.ask(limit=1)
        both, _ = await asking.ask(limit=3)

    assert _texts(first) == []
    assert first == second == "(found as well, and shown already: 1)"
    assert _texts(both) == []
    assert both.startswith("(found as well, and shown already: ")
    assert sorted(map(int, re.findall(r"\d+", both))) == [1, 2, 3]


async def test_a_passage_that_is_probably_out_of_date_says_so(config: MakeConfig) -> None:
    """In the prompt, and around another passage by the number under which the newer one was shown before."""
    async with _memory(config, call("show_around", ref=3), _KNOWN) as asking:
        memory = asking.memory
        await memory.create_active_memory("agent-1", "Key", lines(_LOG[_KEY : _KEY + 2]), occurred_at=_START)
        found = "Nuno found the key of the practice room in his coat."
        await memory.create_active_memory("agent-1", "News", found, occurred_at=_START + timedelta(days=1))
        await mark(memory, "agent-1", _LOG[_KEY], found, since=_START + timedelta(days=1))

        around = await asking.ask(limit=3)

    shown = {passage.number: passage for passage in _passages(asking.prompt())}
    (newer,) = [number for number, passage in shown.items() if passage.text == found]
    old = next(passage for passage in [*shown.values(), *_passages(around[0])] if "lost the key" in passage.text)
    assert (old.outdated_since, old.newer) == (date(2031, 3, 11), newer)


async def test_that_names_stood_together_is_not_shown(config: MakeConfig) -> None:
    """Rules find that much of any two names; it says nothing that their passages do not."""
    async with _memory(config, call("search_memory", query="Rita Nuno"), _KNOWN) as asking:
        await asking.memory.create_active_memory("agent-1", "Duo", "Rita Vaz plays with Nuno Reis in Almada.")
        await asking.memory.admin.consolidate("agent-1")
        found = await asking.memory.retrieve_memories("agent-1", "Who plays with Rita Vaz?")
        assert {one.type for one in found.relationships} == {"related_to"}

        await asking.ask("Who plays with Rita Vaz?")

    assert "relationships" not in asking.model.shown.replace(str(asking.model.asked[0][0].instructions), "")  # type: ignore[union-attr]


@pytest.mark.thorough
async def test_who_asks_around_reads_a_bounded_part(config: MakeConfig) -> None:
    """Of a long memory each call shows a few passages, however long it is, and none of them twice in a search."""
    words = "the harbour log notes wind, tide, cargo, crew, berth, price, visitors and repairs of one more day"
    entries = [f"Entry {number} of Nuno: {words}, {words}, number {number}." for number in range(300)]
    steps = [
        call_all(("search_memory", {"query": f"Entry {number} of the log"}), ("show_around", {"ref": number}))
        for number in range(1, 6)
    ]
    async with _memory(config, *steps, _KNOWN) as asking:
        await asking.memory.create_active_memory("agent-1", "Log", lines(entries))

        shown = await asking.ask("What does entry 150 of the log say?", limit=10)

    assert len(shown) == 10
    assert count_tokens(lines(entries)) > 15_000
    # A number, a speaker and their brackets beside each text; a heading above them.
    most = 10 * (MAX_CHUNK_TOKENS + 15) + 50
    assert all(0 < count_tokens(text) <= most for text in shown)
    searched = [one.number for text in (asking.prompt(), *shown[::2]) for one in _passages(text)]
    assert len(searched) == len(set(searched))
    assert all(len(_passages(text)) <= 2 * NEIGHBOUR_REACH + 1 for text in shown[1::2])
