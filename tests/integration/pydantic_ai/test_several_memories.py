"""The capability with shared memories beside the own one: read by every recall and search, and never written."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem, InvalidInputError, MemoryNotFoundError
from agent_reminiscence.exceptions import ExternalIdNotFoundError
from agent_reminiscence.integrations.pydantic_ai import Reminiscence

_DEPLOYS = "We deploy on Thursdays, never before a holiday."
_WISHES = "I would like to have the reports about deploys in Portuguese."
_QUESTION = "When do we deploy?"


class Model:
    """Calls the tools that it is told to, then ends; keeps the messages that it was sent."""

    def __init__(self, *calls: ToolCallPart) -> None:
        self.seen: list[ModelMessage] = []
        self._calls = list(calls)

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen = list(messages)
        return ModelResponse([self._calls.pop(0) if self._calls else TextPart("On Thursdays.")])

    @property
    def returned(self) -> list[ToolReturnPart]:
        return [part for message in self.seen for part in message.parts if isinstance(part, ToolReturnPart)]


async def _ask(memory: AgentMem, model: Model, question: str = _QUESTION, **options: Any) -> None:
    options = {"external_id": "ana", "on_error": "raise", "min_match": None} | options
    agent = Agent(FunctionModel(model.answer), capabilities=[Reminiscence(memory, **options)])
    await agent.run(question, conversation_id="talk")


async def _remember_all(memory: AgentMem) -> None:
    await memory.create_active_memory("ana", "Wishes", _WISHES)
    await memory.create_active_memory("team-red", "Deploys", _DEPLOYS)
    await memory.create_active_memory("team-blue", "Deploys", "We deploy whenever we like.")


async def _heads(memory: AgentMem, *names: str) -> list[int]:
    return [await memory.ledger.head(name) for name in names]


async def test_recall_and_search_read_the_shared_memories_and_nothing_writes_them(memory: AgentMem) -> None:
    """What the run shows says whose it is; what it records, and what the model keeps, is the user's."""
    await _remember_all(memory)
    before = await _heads(memory, "team-red", "team-blue")
    model = Model(
        ToolCallPart("search_memory", {"query": _QUESTION}),
        ToolCallPart("remember", {"text": "Ana deploys on Friday.", "title": "Plan"}),
    )

    await _ask(memory, model, shared=["team-red", "team-red", "ana"])

    found, kept = model.returned
    for shown in (str(model.seen[0]), str(found.content)):
        assert _DEPLOYS in shown
        assert 'memory "team-red"' in shown
        assert "whenever we like" not in shown
    assert _WISHES in str(found.content)
    assert kept.content == "Stored."
    assert await _heads(memory, "team-red", "team-blue") == before
    assert {"Wishes", "Plan"} <= {one.title for one in await memory.get_active_memories("ana")}
    assert [turn.text for turn in await memory.conversation("ana", "talk").turns()] == [_QUESTION, "On Thursdays."]


async def test_what_a_shared_memory_holds_cannot_be_changed_as_the_own_one(memory: AgentMem) -> None:
    """A tool of yours that edits by the ids a search has named keeps to the memory it is given."""
    await _remember_all(memory)
    model = Model(ToolCallPart("search_memory", {"query": _QUESTION}))
    await _ask(memory, model, shared=["team-red"])
    [deploys] = await memory.get_active_memories("team-red")
    assert str(deploys.id) in model.returned[0].metadata["memory_ids"]

    with pytest.raises(MemoryNotFoundError, match=str(deploys.id)):
        await memory.update_active_memory("ana", deploys.id, content="We never deploy.")
    with pytest.raises(MemoryNotFoundError, match=str(deploys.id)):
        await memory.admin.erase("ana", memory_id=deploys.id)

    assert (await memory.get_active_memories("team-red"))[0].content == _DEPLOYS


@pytest.mark.parametrize("shared", [["team-red"], ["team-red", "team-blue"]])
async def test_a_new_user_is_shown_what_is_shared(memory: AgentMem, shared: list[str]) -> None:
    """Before anything was stored for them; the passages say whose they are all the same."""
    await memory.create_active_memory("team-red", "Deploys", _DEPLOYS)
    await memory.create_active_memory("team-blue", "Lunch", "Lunch is at noon.")
    model = Model()

    await _ask(memory, model, shared=shared)

    assert _DEPLOYS in str(model.seen[0])
    assert 'memory "team-red"' in str(model.seen[0])


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("shared", [["taem-red"], ["taem-red", "team-blue"]])
async def test_a_mistyped_shared_memory_is_named(memory: AgentMem, shared: list[str], is_new: bool) -> None:
    """Otherwise it would never answer, and nobody would notice; so it counts as no failure to be passed over."""
    await memory.create_active_memory("team-blue", "Lunch", "Lunch is at noon.")
    if not is_new:
        await memory.create_active_memory("ana", "Wishes", _WISHES)

    with pytest.raises(ExternalIdNotFoundError, match="'taem-red'"):
        await _ask(memory, Model(), shared=shared, on_error="ignore")
    with pytest.raises(ExternalIdNotFoundError, match="'taem-red'"):
        # The tool alone: a run without a question of its own recalls nothing.
        await _ask(memory, Model(ToolCallPart("search_memory", {"query": "deploys"})), question="", shared=shared)


async def test_a_function_tells_the_shared_memories_of_each_run(memory: AgentMem) -> None:
    """As for the own one: the model has no say in it."""
    await _remember_all(memory)
    model = Model()

    def teams(ctx: RunContext[Any]) -> list[str]:
        return [f"team-{ctx.deps}"]

    agent = Agent(
        FunctionModel(model.answer),
        deps_type=str,
        capabilities=[Reminiscence(memory, external_id="ana", shared=teams, min_match=None, remember="never")],
    )
    shown = []
    for team in ("red", "blue"):
        await agent.run(_QUESTION, deps=team)
        shown.append(str(model.seen[0]))

    assert [_DEPLOYS in one for one in shown] == [True, False]
    assert ["whenever we like" in one for one in shown] == [False, True]


async def test_a_memory_that_is_away_is_still_passed_over(memory: AgentMem, caplog: pytest.LogCaptureFixture) -> None:
    """Only a mistake of the program ends a run."""
    await _remember_all(memory)
    await memory.close()

    with caplog.at_level(logging.WARNING):
        await _ask(memory, Model(), shared=["team-red"], on_error="ignore")

    assert "nothing is recalled" in caplog.text


@pytest.mark.parametrize(
    ("shared", "message"),
    [
        ("team-red", r"list of external_ids, such as \['team-red'\], not 'team-red'"),
        (None, "not None"),
        (["team-red", " "], "shared: external_id must not be empty"),
        ([b"team"], "shared: external_id must be a str, an int or a UUID, not bytes"),
        ([f"team-{number}" for number in range(16)], "names 16 memories; at most 15"),
    ],
)
def test_what_cannot_be_shared_is_refused_when_the_capability_is_made(
    memory: AgentMem, shared: Any, message: str
) -> None:
    """Not in the middle of a run."""
    with pytest.raises(InvalidInputError, match=message):
        Reminiscence(memory, external_id="ana", shared=shared)


def test_the_own_memory_and_repetitions_count_once(memory: AgentMem) -> None:
    """Sixteen with the own one."""
    names = [f"team-{number}" for number in range(15)]

    made = Reminiscence(memory, external_id="ana", shared=[*names, *names, "ana"])

    assert made.shared == tuple(names)


async def test_a_run_is_scored_in_the_own_memory_only(memory: AgentMem) -> None:
    """Shared memories are never written, not even with how a run ended."""
    await _remember_all(memory)
    shared = await memory.ledger.head("team-red")

    await _ask(memory, Model(), shared=["team-red"], learn=True)

    assert len(await memory.ledger.read("ana", kinds=["memory.outcome"])) == 1
    assert await memory.ledger.head("team-red") == shared


def test_a_file_may_name_shared_memories() -> None:
    """`Agent.from_file` passes its arguments on as they stand there."""
    made = Reminiscence.from_spec(external_id="ana", dsn="postgresql://app@db/memory", shared=["team-red"])

    assert made.shared == ("team-red",)
