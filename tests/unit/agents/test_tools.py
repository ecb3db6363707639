"""What the agents' tools show of many and of long memories, and what they refuse: no database is needed for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic_ai.messages import ModelRequest

from agent_reminiscence.agents import memory_retriever, memory_updater
from agent_reminiscence.agents.memory_retriever import RetrieverDeps, cited_numbers
from agent_reminiscence.agents.memory_updater import MAX_INTENTS, UpdaterDeps
from agent_reminiscence.agents.models import AgentLimits
from agent_reminiscence.agents.plans import Said, UpdateIntent
from agent_reminiscence.agents.running import run_agent
from agent_reminiscence.domain.graph import TOGETHER
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.retrieval import EntityHit, RelationshipHit, RetrievalResult, SearchHit
from agent_reminiscence.text.tokens import count_tokens
from tests.support.scripted import ScriptedModel, Step, answer, call, call_all

_MORNING = datetime(2026, 3, 1, 8, tzinfo=UTC)
# Some 10,000 tokens, and what JSON and our own words add.
_MOST_CHARACTERS = 60_000
_LIMITS = AgentLimits(timeout_seconds=60, max_requests=20, max_tokens=10_000_000)
_DONE = answer({"why": "Done."})
_LOOK = call("get_detailed_active_memories")


def _memory(number: int, content: str, *, title: str | None = None) -> ActiveMemory:
    moment = _MORNING + timedelta(minutes=number)
    return ActiveMemory(
        external_id="agent-1",
        id=uuid4(),
        version=1,
        title=title or f"Memory {number}",
        content=content,
        description=None,
        metadata={},
        created_at=moment,
        updated_at=moment,
        occurred_at=moment,
        source="user",
        consolidated_version=0,
        updates_until_consolidation=5,
    )


async def _never_known(text: str) -> bool:
    return False


def _updater(memories: Sequence[ActiveMemory]) -> UpdaterDeps:
    said = [Said("user", "Something worth remembering was said.")]
    return UpdaterDeps(said=said, memories=memories, check=lambda title, content: None, is_known=_never_known)


async def _update(deps: UpdaterDeps, *steps: Step) -> ScriptedModel:
    model = ScriptedModel(*steps, _DONE)
    prompt = memory_updater.make_prompt(deps.said, datetime(2026, 3, 5, tzinfo=UTC))
    await run_agent(memory_updater.updater_agent(), prompt, model=model.model, deps=deps, limits=_LIMITS)
    return model


def _returned(model: ScriptedModel, request: int) -> list[str]:
    """What the tools said before the `request`-th request."""
    return [str(part.content) for part in model.asked[request - 1][-1].parts if part.part_kind == "tool-return"]


def _rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _change(ref: int, content: str = "A new text.") -> tuple[str, dict[str, Any]]:
    return "update_active_memory", {"ref": ref, "content": content, "why": "It changed.", "messages": [1]}


@pytest.mark.parametrize("letter", ["a", "\n", "\u2028", "語"], ids=["letters", "lines", "escapes", "wide"])
async def test_of_many_long_memories_the_updater_is_shown_a_bounded_part(letter: str) -> None:
    """200 memories of 100,000 characters: titles of the latest, and a clear note that there are more."""
    deps = _updater([_memory(number, letter * 100_000, title=letter * 499 + "x") for number in range(200)])

    model = await _update(deps, _LOOK)

    (text,) = _returned(model, 2)
    assert len(text) < 2 * _MOST_CHARACTERS
    rows = _rows(text)
    assert [row["ref"] for row in rows] == list(range(200, 100, -1))
    assert all(row["text"] is None and row["is_too_long"] for row in rows)
    assert "100 more, updated longer ago, are not listed" in text


async def test_the_updater_is_shown_what_fits_and_the_rest_on_demand() -> None:
    """The ones updated last come first; by their numbers others are shown whole."""
    deps = _updater([_memory(number, f"Text {number}. " * 500) for number in range(1, 21)])
    model = await _update(deps, _LOOK, call("get_detailed_active_memories", refs=[2, 1, 2]))

    first, second = _rows(_returned(model, 2)[0]), _rows(_returned(model, 3)[0])

    whole = [row["ref"] for row in first if row["text"] is not None]
    assert whole
    assert whole == list(range(20, 20 - len(whole), -1))
    assert {row["ref"] for row in first} == set(range(1, 21))
    assert "pass their numbers as refs" in _returned(model, 2)[0]
    assert [row["ref"] for row in second] == [2, 1]
    assert all(row["text"] for row in second)


async def test_who_names_no_memory_is_shown_the_latest() -> None:
    """And is not told that there are none, on which it would create them again."""
    model = await _update(_updater([_memory(1, "Short.")]), call("get_detailed_active_memories", refs=[]))

    assert [row["text"] for row in _rows(_returned(model, 2)[0])] == ["Short."]


async def test_a_memory_that_was_not_shown_whole_is_not_written_over() -> None:
    """Its text would be lost; and what is shown beside a call was not seen before it."""
    deps = _updater([_memory(1, "x" * 100_000), _memory(2, "Short.")])
    steps = (
        call_all(("get_detailed_active_memories", {}), _change(2)),
        call_all(_change(1), _change(2)),
    )

    model = await _update(deps, *steps)

    assert [intent.content for intent in deps.plan.intents] == ["A new text."]
    (intent,) = deps.plan.intents
    assert isinstance(intent, UpdateIntent)
    assert intent.memory_id == deps.memories[1].id
    assert "you have not seen the whole of memory 2" in _returned(model, 2)[1]
    assert "you have not seen the whole of memory 1" in _returned(model, 3)[0]


async def test_a_memory_may_lose_a_line() -> None:
    """What is left of it is stored already, and that is no repetition; put anywhere else, it is."""

    async def all_known(text: str) -> bool:
        return True

    deps = _updater([_memory(1, "Maria sails.\nTom sails."), _memory(2, "Nobody swims.")])
    deps.is_known = all_known

    model = await _update(deps, _LOOK, call_all(_change(1, "Tom sails."), _change(2, "Nobody swims.\nTom sails.")))

    assert [intent.content for intent in deps.plan.intents] == ["Tom sails."]
    assert "stored already, word for word" in _returned(model, 3)[1]


@pytest.mark.parametrize(
    ("content", "is_repetition"),
    [
        ("Maria sails. Nobody swims.", False),
        ("maria  sails", False),
        ("Maria sails. Tom swims. Nobody swims.\nTom dives.", True),
    ],
    ids=["without a sentence", "one sentence", "with what another memory says"],
)
async def test_only_what_comes_into_a_memory_may_be_a_repetition(content: str, is_repetition: bool) -> None:
    """That it said so itself is no reason to refuse what is left of it."""
    texts = ["Maria sails. Tom swims. Nobody swims.", "Tom dives."]

    async def is_known(text: str) -> bool:
        return any(" ".join(text.casefold().split()) in known.casefold() for known in texts)

    deps = _updater([_memory(number, known) for number, known in enumerate(texts, start=1)])
    deps.is_known = is_known

    model = await _update(deps, _LOOK, call_all(_change(1, content)))

    complaint = _returned(model, 3)[0]
    assert ("stored already, word for word" in complaint) == is_repetition


async def test_a_plan_has_an_end() -> None:
    """However many calls come at once."""
    deps = _updater([])
    steps = [
        ("create_active_memory", {"title": f"T {n}", "content": f"C {n}", "why": "So.", "messages": [1]})
        for n in range(MAX_INTENTS + 1)
    ]

    await _update(deps, call_all(*steps))

    assert len(deps.plan.intents) == MAX_INTENTS


async def test_a_title_is_taken_once() -> None:
    """By a memory that is there, or by one of the same plan; two that share one already may be changed."""
    deps = _updater([_memory(1, "One.", title="Same"), _memory(2, "Two.", title="Same"), _memory(3, "Three.")])
    new = {"content": "New.", "why": "So.", "messages": [1]}
    renamed = ("update_active_memory", {"ref": 3, "title": "Same", **new})
    changed = ("update_active_memory", {"ref": 1, **new})

    model = await _update(deps, _LOOK, call_all(renamed, changed, ("create_active_memory", {"title": "Same", **new})))

    assert [type(intent) for intent in deps.plan.intents] == [UpdateIntent]
    complaints = [text for text in _returned(model, 3) if "a memory with that title exists" in text]
    assert len(complaints) == 2


_MARIA, _TOM, _PORTO, _ELSEWHERE = (uuid4() for _ in range(4))


def _relationship(from_id: UUID, kind: str, to_id: UUID, description: str | None = None) -> RelationshipHit:
    return RelationshipHit(
        id=uuid4(),
        external_id="agent-1",
        tier="shortterm",
        from_id=from_id,
        to_id=to_id,
        type=kind,
        description=description,
        confidence=1.0,
        strength=0.5,
        importance=0.5,
        observations=1,
        first_observed=_MORNING,
        last_observed=_MORNING,
        start_date=_MORNING,
        last_updated=_MORNING,
        score=1.0,
        hops=0,
    )


def _entity(entity_id: UUID, name: str) -> EntityHit:
    return EntityHit(
        id=entity_id,
        external_id="agent-1",
        tier="shortterm",
        name=name,
        type="person",
        confidence=1.0,
        importance=0.5,
        first_seen=_MORNING,
        last_seen=_MORNING,
        shortterm_memory_id=uuid4(),
        mentions=1,
        score=1.0,
        hops=0,
    )


async def _nothing_found(query: str) -> RetrievalResult:
    return RetrievalResult(query=query, hits=(), found=False, summary="", citations=())


async def _nothing_around(memory_id: object, chunk_ids: object) -> Sequence[SearchHit]:
    return ()


async def test_of_relationships_only_what_says_something_is_shown_and_once() -> None:
    """Neither that names stood together, nor an empty description, nor one end without a name."""

    async def search(query: str) -> RetrievalResult:
        entities = (_entity(_MARIA, "Maria"), _entity(_TOM, "Tom"), _entity(_PORTO, "Porto"))
        nothing = await _nothing_found(query)
        return nothing.model_copy(update={"entities": entities, "relationships": tuple(relationships)})

    relationships = [
        _relationship(_MARIA, TOGETHER, _PORTO),
        _relationship(_MARIA, TOGETHER, _TOM, " "),
        _relationship(_MARIA, "works_with", _TOM),
        _relationship(_MARIA, "lives_in", _PORTO, "Since spring."),
        _relationship(_TOM, TOGETHER, _PORTO, "He comes from there."),
        _relationship(_TOM, "owns", _ELSEWHERE, "A boat."),
    ]
    deps = RetrieverDeps(search=search, read_around=_nothing_around)
    look = call("search_memory", query="Maria")
    model = ScriptedModel(look, look, answer({"answer": "Memory does not say.", "is_known": False}))

    await run_agent(memory_retriever.retriever_agent(), "Who?", model=model.model, deps=deps, limits=_LIMITS)

    (text,) = _returned(model, 2)
    assert _rows(text) == [
        {"trust": "model", "from": "Maria", "type": "works_with", "to": "Tom"},
        {"trust": "model", "from": "Maria", "type": "lives_in", "to": "Porto", "says": "Since spring."},
        {"trust": "model", "from": "Tom", "type": "related_to", "to": "Porto", "says": "He comes from there."},
    ]
    assert _returned(model, 3) == ["no passage was found"]


async def test_what_the_retriever_reads_before_the_question_is_bounded() -> None:
    """Each request repeats the instructions and the schemas of the tools, so they are paid for again and again."""
    deps = RetrieverDeps(search=_nothing_found, read_around=_nothing_around)
    model = ScriptedModel(answer({"answer": "Memory does not say.", "is_known": False}))

    await run_agent(memory_retriever.retriever_agent(), "Who?", model=model.model, deps=deps, limits=_LIMITS)

    (request,) = model.asked[0]
    assert isinstance(request, ModelRequest)
    schemas = [
        json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema})
        for tool in (*model.tools[0], *model.outputs[0])
    ]
    tokens = sum(map(count_tokens, [request.instructions or "", *schemas]))
    assert tokens <= 1010


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("None.", []),
        ("One [1], two [2][1].", [1, 2]),
        ("Both [1, 3; 2].", [1, 3, 2]),
        ("A list[0] and [x] and [].", []),
        ("Nobody is listed[0, 3].", [3]),
        ("`a[1]` and ```\n[2]\n``` and [`x`4] but [3], ``` to the end [5]", [3]),
        (f"[{'9' * 5_000}]", []),
        ("[٣]", [3]),
        ("One [ 1 ], two [2 ,3 ].", [1, 2, 3]),
        ("一【1】,二[2、3]。", [1, 2, 3]),
    ],
)
def test_citations_are_read(text: str, numbers: list[int]) -> None:
    """Each number once, in the order of the answer; also where several stand in one pair of brackets."""
    assert cited_numbers(text) == numbers
