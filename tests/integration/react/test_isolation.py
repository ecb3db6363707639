"""A prompt of one user and collection never holds a word of another's memory."""

from __future__ import annotations

import asyncio
import random
from hashlib import sha256
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem
from agent_reminiscence.react import AgentRequest, ReactMemConfig, ReactMemService
from tests.support.brain import Asked, Brain, act

_USERS = ("ana", "ana/default", "Ana", "an", "ana%2Fdefault", "a\u0301na")
_COLLECTIONS = ("default", "work", "default/work", "%", "_")


def _canary(user: str, collection: str) -> str:
    return f"canary{sha256(f'{user}|{collection}'.encode()).hexdigest()[:12]}"


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))])
async def test_no_prompt_holds_anothers_canary(memory: AgentMem, seed: int) -> None:
    """Thirty pairs whose names are as alike as can be, the same conversation ids, at the same time."""
    chance = random.Random(seed)
    pairs = [(user, collection) for user in _USERS for collection in _COLLECTIONS]
    canaries = {pair: _canary(*pair) for pair in pairs}
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def look() -> str:
        """Look around."""
        return "a vault"

    def reason(asked: Asked) -> ModelResponse | str:
        word = asked.prompt.split()[-1]
        acts = (
            lambda: act("look"),
            lambda: act("look", "again"),
            lambda: act("store_fact", fact_content=f"The vault of {word} is open."),
            lambda: act("retrieve_facts", query="Which vault is open?"),
            lambda: act("recall_episodes", query="vaults"),
        )
        return acts[asked.turn]() if asked.turn < len(acts) else f"The vault of {word} is open."

    def learn(transcript: str) -> dict[str, Any]:
        word = next(word for word in transcript.split() if word.startswith("canary"))
        return {"facts": [f"A vault is called {word}."], "lessons": [f"Ask {word}."], "success": True}

    brain = Brain(reason, learn=learn)
    shown: list[tuple[tuple[str, str], str]] = []
    async with ReactMemService(
        brain.model, memory, toolsets=[tools], config=ReactMemConfig(show_retrieval=True)
    ) as agent:

        async def ask(pair: tuple[str, str]) -> None:
            response = await agent.answer(
                AgentRequest(
                    question=f"Which vault is open? {canaries[pair]}",
                    user=pair[0],
                    collection=pair[1],
                    conversation_id="c-1",
                    enable_memory=True,
                )
            )
            assert response.error is None
            shown.append((pair, response.model_dump_json()))

        for _ in range(2):
            chance.shuffle(pairs)
            for start in range(0, len(pairs), 6):
                await asyncio.gather(*map(ask, pairs[start : start + 6]))
            await agent.drain()

    for asked in brain.asked:
        own = asked.prompt.split()[-1]
        assert [canary for canary in canaries.values() if canary != own and canary in asked.shown] == []
    for pair, response in shown:
        assert [canary for other, canary in canaries.items() if other != pair and canary in response] == []
    second = [asked for asked in brain.asked if not asked.turn][len(pairs) :]
    assert all("long_term_facts" in asked.prompt and "<lessons>" in asked.prompt for asked in second)
