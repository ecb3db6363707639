"""An agent that learns from what it did: the second run succeeds because of the first one's lesson, or fails."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem
from agent_reminiscence.react import (
    AgentRequest,
    MemoryEpisodes,
    ReactMemConfig,
    ReactMemService,
    StoreEpisodeRequest,
    default_scope,
)
from tests.support.brain import Asked, Brain, act

_TASK = "Open the vault of the old mill."


class _World:
    """A vault that opens only to whoever turns off the water first; the model cannot know that."""

    def __init__(self) -> None:
        self.tools: FunctionToolset[Any] = FunctionToolset()
        self.is_dry = self.is_open = False
        self.tools.add_function(self.turn_off_water, takes_ctx=False)
        self.tools.add_function(self.open_vault, takes_ctx=False)

    def begin(self) -> None:
        """As it was before anybody came."""
        self.is_dry = self.is_open = False

    def turn_off_water(self) -> str:
        """Turn off the water."""
        self.is_dry = True
        return "The water is off."

    def open_vault(self) -> str:
        """Open the vault."""
        self.is_open = self.is_dry
        return "The vault is open." if self.is_open else "The vault is flooded and locks itself for a day."


def _reason(asked: Asked) -> ModelResponse | str:
    """What any model would do: the obvious, unless it is told better before it begins."""
    if "locks itself" in asked.shown.split(_TASK)[-1]:
        return "It did not work."
    if "is open" in asked.shown.split(_TASK)[-1]:
        return "The vault is open."
    knows_better = "turn off the water first" in asked.prompt
    return act("turn_off_water") if knows_better and not asked.turn else act("open_vault")


def _learn(transcript: str) -> dict[str, Any]:
    if "locks itself" in transcript:
        return {"success": False, "outcome": "It was flooded.", "lessons": ["At the mill, turn off the water first."]}
    return {"success": True, "outcome": "It opened."}


@pytest.mark.parametrize("remembers", [True, False])
async def test_the_second_attempt_succeeds_only_with_the_lesson_of_the_first(memory: AgentMem, remembers: bool) -> None:
    """The first run fails with memory and without; the second one differs."""
    world, brain = _World(), Brain(_reason, learn=_learn)
    config = ReactMemConfig(episode_min_steps=1)
    results = []
    async with ReactMemService(brain.model, memory, toolsets=[world.tools], config=config) as agent:
        for _ in range(2):
            world.begin()
            await agent.answer(AgentRequest(question=_TASK, user="ana", enable_memory=remembers))
            await agent.drain()
            results.append(world.is_open)

    assert results == [False, remembers]


@pytest.mark.promise
@pytest.mark.parametrize("reports", [True, False])
async def test_a_lesson_that_helps_overtakes_one_that_does_not(memory: AgentMem, reports: bool) -> None:
    """Two episodes match alike. The one that is shown first does not help; without reports it stays first."""
    scope = default_scope("ana", "default")
    config = ReactMemConfig(episode_retrieval_top_k=1, fact_retrieval_top_k=0, memory_tools=frozenset())
    brain = Brain(lambda _: "done")
    lessons = {"kick": "Kick the vault of the old mill.", "push": "Push the vault of the old mill."}
    async with ReactMemService(brain.model, memory, config=config) as agent:
        episodes = MemoryEpisodes(memory)
        for name, lesson in lessons.items():
            await episodes.store_episode(
                StoreEpisodeRequest(user="ana", goal=_TASK, lessons=(lesson,), success=True, id=name)
            )
        shown: list[str] = []
        for number in range(6):
            await agent.answer(
                AgentRequest(question=_TASK, user="ana", enable_memory=True, invocation_id=f"i-{number}")
            )
            await agent.drain()
            shown.append("kick" if "Kick" in brain.asked[-1].prompt else "push")
            if reports:
                await memory.admin.report_outcome(scope, f"i-{number}", success=shown[-1] != shown[0])

    assert (shown[-1] != shown[0]) == reports
