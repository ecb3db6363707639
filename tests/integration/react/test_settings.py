"""What each setting of an agent with memory switches on, off or limits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem
from agent_reminiscence.react import (
    AgentRequest,
    MemoryEpisodes,
    MemoryFacts,
    MemoryServices,
    ReactMemConfig,
    ReactMemService,
    RecordUseRequest,
    RetrieveFactsRequest,
    RetrieveFactsResponse,
    StoreEpisodeRequest,
    StoreFactRequest,
    default_scope,
)
from tests.support.brain import Asked, Brain, act

_SCOPE = default_scope("ana", "default")


def _request(question: str = "Where is the boat?", **given: Any) -> AgentRequest:
    values: dict[str, Any] = {"user": "ana", "enable_memory": True, "conversation_id": "c-1"}
    return AgentRequest(question=question, **values | given)


def _searches(asked: Asked) -> ModelResponse | str:
    return act("look", at=asked.turn) if asked.turn < 2 else "at the pier"


def _tools() -> FunctionToolset[Any]:
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def look(at: int) -> str:
        """Look at a pier."""
        return f"There is water at pier {at}."

    return tools


def _learns(_: str) -> dict[str, Any]:
    """More than it is asked for, as models do."""
    return {"facts": ["Ana has a boat."], "success": True, "lessons": ["Look at the pier."]}


@pytest.mark.parametrize("facts", [True, False])
@pytest.mark.parametrize("episodes", [True, False])
async def test_facts_and_episodes_are_each_recorded_only_if_they_are_wanted(
    memory: AgentMem, facts: bool, episodes: bool
) -> None:
    """The conversation is recorded in any case, and no model is asked for nothing."""
    brain = Brain(_searches, learn=_learns)
    config = ReactMemConfig(enable_auto_fact_extraction=facts, enable_episode_recording=episodes)
    async with ReactMemService(brain.model, memory, toolsets=[_tools()], config=config) as agent:
        await agent.answer(_request())

    kept = [str(one.key).partition("/")[0] for one in await memory.get_active_memories(_SCOPE)]
    assert sorted(kept) == ["episode"] * episodes + ["fact"] * facts
    assert len(brain.transcripts) == (facts or episodes)
    kinds = [event.kind for event in await memory.ledger.read(_SCOPE, limit=100)]
    assert kinds.count("react.invocation") == kinds.count("react.invocation.recorded") == 1


@pytest.mark.parametrize(("judges", "followed"), [(True, [1]), (True, []), (False, [1])])
async def test_whoever_reports_outcomes_can_forbid_the_model_to(
    memory: AgentMem, judges: bool, followed: list[int]
) -> None:
    """One outcome counts: with the judgement of the model on record, a report is no news.

    A model that names no lesson it followed judges none, and then the report counts.
    """
    episodes = MemoryEpisodes(memory)
    await episodes.store_episode(StoreEpisodeRequest(user="ana", goal="Where is the boat?", lessons=("Ask Ben.",)))
    config = ReactMemConfig(judge_outcome=judges)

    def learns(transcript: str) -> dict[str, Any]:
        return _learns(transcript) | ({"followed_lessons": followed} if "<shown_lessons>" in transcript else {})

    async with ReactMemService(
        Brain(_searches, learn=learns).model, memory, toolsets=[_tools()], config=config
    ) as agent:
        await agent.answer(_request(invocation_id="i-1"))
    reported = await episodes.record_use(RecordUseRequest(user="ana", invocation_id="i-1", success=False))

    assert (reported.error, reported.recorded) == (None, not (judges and followed))


@pytest.mark.thorough
async def test_no_more_is_shown_than_asked_for_and_the_client_sees_it_only_if_it_shall(memory: AgentMem) -> None:
    """Facts, episodes and invocations each have a number of their own; that of facts counts where not all fit."""
    for number in range(40):
        await MemoryFacts(memory).store_fact(StoreFactRequest(user="ana", content=f"Boat {number} is red."))
    for number in range(4):
        await MemoryEpisodes(memory).store_episode(
            StoreEpisodeRequest(user="ana", goal=f"Paint boat {number}.", lessons=("Sand the boat first.",))
        )
    brain = Brain(lambda _: "noted")
    numbers: dict[str, Any] = {
        "fact_retrieval_top_k": 2,
        "episode_retrieval_top_k": 1,
        "conversation_window": 2,
        "memory_token_budget": 400,
        "learn_with": "rules",
    }
    async with ReactMemService(brain.model, memory, config=ReactMemConfig(**numbers)) as hiding:
        for number in range(4):
            hidden = await hiding.answer(_request(f"boat question {number}"))
    async with ReactMemService(brain.model, memory, config=ReactMemConfig(**numbers, show_retrieval=True)) as showing:
        shown = (await showing.answer(_request("Which boat is red?"))).memory

    assert hidden.memory is None
    assert shown is not None
    assert shown.conversation is not None
    assert (len(shown.facts), len(shown.episodes), len(shown.conversation.invocations)) == (2, 1, 2)
    prompt = brain.asked[-1].prompt
    assert (prompt.count(" is red."), prompt.count("Sand the boat first."), prompt.count("User asked:")) == (
        2,
        1,
        2,
    )


async def test_recall_that_takes_too_long_delays_a_question_no_longer(memory: AgentMem) -> None:
    """It is answered without memory; a warning says which setting decided that."""

    class Slow(MemoryFacts):
        async def retrieve_facts(self, request: RetrieveFactsRequest) -> RetrieveFactsResponse:
            await asyncio.Event().wait()
            return await super().retrieve_facts(request)

    services = replace(MemoryServices.of(memory), fact_retrieval=Slow(memory))
    config = ReactMemConfig(memory_timeout_seconds=0.5)
    async with ReactMemService(Brain(lambda _: "noted").model, memory, services=services, config=config) as agent:
        response = await agent.answer(_request())

    assert (response.answer, response.error) == ("noted", None)
    assert response.warnings == ("recall: recall took longer than 0.5 s (memory_timeout_seconds)",)
