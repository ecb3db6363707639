"""What the retriever's tools show, and what its citations mean: no database is needed for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic_ai.messages import ModelRequest

from agent_reminiscence.agents import memory_retriever
from agent_reminiscence.agents.memory_retriever import RetrieverDeps, cited_numbers
from agent_reminiscence.agents.models import AgentLimits
from agent_reminiscence.agents.running import run_agent
from agent_reminiscence.domain.graph import TOGETHER
from agent_reminiscence.domain.retrieval import EntityHit, RelationshipHit, RetrievalResult, SearchHit
from agent_reminiscence.text.tokens import count_tokens
from tests.support.scripted import ScriptedModel, answer, call

_MORNING = datetime(2026, 3, 1, 8, tzinfo=UTC)
_LIMITS = AgentLimits(timeout_seconds=60, max_requests=20, max_tokens=10_000_000)


def _returned(model: ScriptedModel, request: int) -> list[str]:
    """What the tools said before the `request`-th request."""
    return [str(part.content) for part in model.asked[request - 1][-1].parts if part.part_kind == "tool-return"]


def _rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


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


async def _nothing_around(passage: object) -> Sequence[SearchHit]:
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
