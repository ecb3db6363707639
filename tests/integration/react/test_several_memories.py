"""A ReAct agent that reads shared memories beside its user's, and never writes them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.react import (
    AgentRequest,
    AgentResponse,
    ReactMemConfig,
    ReactMemService,
    default_scope,
    read_sections,
)
from tests.support.brain import Asked, Brain, act

_DEPLOYS = "We deploy on Thursdays, never before a holiday."
_QUESTION = "When do we deploy?"
_SCOPE = default_scope("ana", "default")


def _searches(asked: Asked) -> ModelResponse | str:
    """Look it up, then answer."""
    return "On Thursdays." if asked.turn else act("retrieve_facts", query="deploys")


async def _answer(
    memory: AgentMem, brain: Brain, toolsets: Any = (), *, question: str = _QUESTION, **settings: Any
) -> AgentResponse:
    config = ReactMemConfig(show_retrieval=True, **settings)
    async with ReactMemService(brain.model, memory, toolsets=toolsets, config=config) as agent:
        return await agent.answer(
            AgentRequest(question=question, user="ana", enable_memory=True, conversation_id="talk")
        )


async def test_the_agent_is_shown_what_is_shared_and_writes_only_its_users_memory(memory: AgentMem) -> None:
    """At the start and by its tool, each passage with the memory that it is from; the user's own is new."""
    await memory.create_active_memory("team-red", "Deploys", _DEPLOYS)
    await memory.create_active_memory("team-blue", "Deploys", "We deploy whenever we like.")
    before = await memory.ledger.head("team-red")
    brain = Brain(_searches, learn=lambda _: {"facts": ["Ana asks about deploys."]})

    response = await _answer(memory, brain, shared=["team-red"])

    assert response.error is None
    assert response.warnings == ()
    for shown in (brain.asked[0].prompt, response.steps[0].observation):
        assert _DEPLOYS in shown
        assert 'memory "team-red"' in shown
        assert "</shared_memory>" in shown
        assert "whenever we like" not in shown
    assert response.memory is not None
    assert response.memory.shared is not None
    assert [hit.external_id for hit in response.memory.shared.hits] == ["team-red"]
    assert await memory.ledger.head("team-red") == before
    assert [one.content for one in await memory.get_active_memories(_SCOPE, key_prefix="fact/")] == [
        "Ana asks about deploys."
    ]


async def test_nothing_shared_can_be_named_to_be_forgotten(memory: AgentMem) -> None:
    """Shared passages have no numbers, and the application is named none of them."""
    await memory.create_active_memory("team-red", "Deploys", _DEPLOYS)

    def forgets(asked: Asked) -> ModelResponse | str:
        calls = (act("forget", what="when we deploy", facts=[1]), act("forget", what="when we deploy"))
        return calls[asked.turn] if asked.turn < len(calls) else "Passed on."

    response = await _answer(
        memory, Brain(forgets), question="Forget when we deploy.", shared=["team-red"], learn_with="rules"
    )

    assert response.steps[0].observation.startswith("Not passed on: no fact has the number 1")
    assert [one.fact_ids for one in response.forget_requests] == [()]
    assert len(await memory.get_active_memories("team-red")) == 1


@pytest.mark.parametrize("shared", [["taem-red"], ["team-blue", "taem-red"]])
async def test_a_mistyped_shared_memory_is_a_warning_that_names_it(memory: AgentMem, shared: list[str]) -> None:
    """As whatever cannot be recalled: the question is answered without."""
    await memory.create_active_memory("team-blue", "Lunch", "Lunch is at noon.")
    brain = Brain(_searches)

    response = await _answer(memory, brain, shared=shared)

    assert response.answer == "On Thursdays."
    [warning] = response.warnings
    assert "'taem-red'" in warning
    assert "shared with others cannot be read" in response.steps[0].observation


async def test_a_run_that_was_shown_what_is_erased_meanwhile_records_nothing(memory: AgentMem) -> None:
    """Also in a memory that is only shared: what the run says of it must not outlive it."""
    await memory.create_active_memory("team-red", "Deploys", _DEPLOYS)
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    async def erase() -> str:
        """Erase it."""
        await memory.admin.erase("team-red", text=_DEPLOYS)
        return "erased"

    response = await _answer(
        memory, Brain(lambda asked: _DEPLOYS if asked.turn else act("erase")), [tools], shared=["team-red"]
    )

    assert response.warnings == ("not recorded: the memory was switched off meanwhile, or something in it erased",)
    assert _DEPLOYS not in str(await memory.ledger.read(_SCOPE, limit=1_000))


async def test_the_own_memory_is_not_read_twice(memory: AgentMem) -> None:
    """Where a configuration for all users names one of them."""
    await memory.create_active_memory(_SCOPE, "Deploys", _DEPLOYS)

    response = await _answer(memory, Brain(_searches), shared=[_SCOPE])

    assert response.memory is not None
    assert response.memory.shared is None


@pytest.mark.parametrize("shared", ["team-red", ["team-red", ""], [f"team-{number}" for number in range(16)]])
def test_what_cannot_be_shared_is_refused_with_the_configuration(shared: Any) -> None:
    """The message names the setting."""
    with pytest.raises(ConfigurationError, match=r"ReactMemConfig: shared: .*shared"):
        read_sections({"agent-mem": {"shared": shared}})
