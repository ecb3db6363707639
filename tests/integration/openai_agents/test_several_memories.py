"""Shared memories beside the own one: read by the filter and by searches, and never written."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, RunConfig, Runner
from agents.exceptions import AgentsException
from agents.testing import ScriptedModel, assistant_message, function_call

from agent_reminiscence import AgentMem, InvalidInputError
from agent_reminiscence.exceptions import ExternalIdNotFoundError, ReminiscenceError
from agent_reminiscence.integrations.openai_agents import ReminiscenceSession, memory_tools, recall_filter

_DEPLOYS = "We deploy on Thursdays, never before a holiday."
_WISHES = "I would like to have the reports about deploys in Portuguese."
_QUESTION = "When do we deploy?"
_FAILURES = (AgentsException, ReminiscenceError)


async def _remember_all(memory: AgentMem) -> None:
    await memory.create_active_memory("team-red", "Deploys", _DEPLOYS)
    await memory.create_active_memory("team-blue", "Deploys", "We deploy whenever we like.")


async def _ask(model: ScriptedModel, filtered: Any = None, tools: Any = (), **options: Any) -> None:
    agent = Agent[Any](name="Harbour", model=model, tools=list(tools))
    await Runner.run(agent, _QUESTION, run_config=RunConfig(call_model_input_filter=filtered), **options)


@pytest.mark.parametrize("is_new", [True, False])
async def test_several_memories_are_read_and_one_is_written(memory: AgentMem, is_new: bool) -> None:
    """Also where the user's own has nothing yet. What is shown says whose it is."""
    await _remember_all(memory)
    if not is_new:
        await memory.create_active_memory("ana", "Wishes", _WISHES)
    before = [await memory.ledger.head(name) for name in ("team-red", "team-blue")]
    model = ScriptedModel(
        [
            [function_call("search_memory", {"query": "deploys"}, call_id="call_1")],
            [function_call("remember", {"title": "Plan", "text": "Ana deploys on Friday."}, call_id="call_2")],
            [assistant_message("On Thursdays.")],
        ]
    )
    shared = ["team-red", "team-red", "ana"]

    await _ask(
        model,
        recall_filter(memory, "ana", min_match=None, shared=shared),
        memory_tools(memory, "ana", shared=shared),
        session=ReminiscenceSession(memory, "ana", "chat-7"),
    )

    shown = [str(item) for item in model.calls[-1].input]
    recalled, found = shown[0], next(item for item in shown if "function_call_output" in item)
    for text in (recalled, found):
        assert _DEPLOYS in text
        assert 'memory "team-red"' in text
        assert "whenever we like" not in text
        assert (_WISHES in text) is not is_new
    assert [await memory.ledger.head(name) for name in ("team-red", "team-blue")] == before
    assert "Plan" in {one.title for one in await memory.get_active_memories("ana")}


async def test_several_memories_may_differ_from_call_to_call(memory: AgentMem) -> None:
    """As the own one does; what was looked up for one team is not shown to the other."""
    await _remember_all(memory)
    model = ScriptedModel([[assistant_message("Then.")], [assistant_message("Then.")]])
    filtered = recall_filter(memory, "ana", min_match=None, shared=lambda data: [f"team-{data.context}"])

    for team in ("red", "blue"):
        await _ask(model, filtered, context=team)

    assert [_DEPLOYS in str(call.input) for call in model.calls] == [True, False]


@pytest.mark.parametrize("shared", [["taem-red"], ["taem-red", "team-blue"]])
async def test_of_several_memories_a_mistyped_one_is_named(memory: AgentMem, shared: list[str]) -> None:
    """By the filter and by the tool; it counts as no failure to be passed over."""
    await _remember_all(memory)
    answer = assistant_message("Then.")

    with pytest.raises(ExternalIdNotFoundError, match="'taem-red'"):
        await _ask(ScriptedModel([[answer]]), recall_filter(memory, "ana", shared=shared))
    searching = ScriptedModel([[function_call("search_memory", {"query": "deploys"}, call_id="call_1")], [answer]])
    with pytest.raises(_FAILURES, match="'taem-red'"):
        await _ask(searching, None, memory_tools(memory, "ana", shared=shared))


@pytest.mark.parametrize("make", [recall_filter, memory_tools])
@pytest.mark.parametrize(
    ("shared", "message"),
    [
        ("team-red", r"list of external_ids, such as \['team-red'\], not 'team-red'"),
        (["team-red", " "], "shared: external_id must not be empty"),
        ([f"team-{number}" for number in range(16)], "names 16 memories; at most 15"),
    ],
)
def test_several_memories_that_cannot_be_are_refused_at_once(
    memory: AgentMem, make: Any, shared: Any, message: str
) -> None:
    """Not in the middle of a run."""
    with pytest.raises(InvalidInputError, match=message):
        make(memory, "ana", shared=shared)
