"""Reflecting with a real model, of Ollama: what comes back over the wire becomes beliefs, or nothing is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic_ai import models
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.settings import ModelSettings

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.exceptions import AgentError
from tests.support.ollama_models import PATIENCE_SECONDS, repeating_model
from tests.support.ollama_server import OLLAMA_CHAT_MODEL

_RUN = "harbour"


async def _live(memory: AgentMem) -> None:
    await memory.ledger.append(_RUN, "world.observed", {"text": "Low tide at six."}, turn=1)
    await memory.ledger.append(_RUN, "agent.thought", {"text": "I hide the letter."}, actor="mara", turn=1)


async def test_what_a_real_server_answers_becomes_beliefs_of_their_readers(
    ollama_url: str, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: the schema goes out, a call of its tool comes back, and grounds decide who reads each belief.

    So small a model cannot reflect, but it repeats a pattern: the template of its copy shows it one, not the prompt.
    """
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    drawn = '{"beliefs": [{"belief": "The tide is low at six.", "based_on": [1]}]}'
    model = await repeating_model(ollama_url, "smollm2-reflects", drawn)
    settings = config(agent_timeout_seconds=PATIENCE_SECONDS, worker=False)
    async with model, AgentMem(settings, models=AgentModels(reflector=model)) as memory:
        await _live(memory)
        # The one has seen a thought of its own beside the tide, and the other only the tide.
        mara = await memory.admin.reflections.run(_RUN, "mara", threshold=2)
        odo = await memory.admin.reflections.run(_RUN, "odo", threshold=1)
        read_by = {
            reader: [belief.agent_name for belief in await memory.admin.beliefs.current(_RUN, reader=reader)]
            for reader in ("mara", "odo", "judge")
        }
        usage = await memory.admin.usage(_RUN)
        assert (await memory.admin.verify()).ok

    assert (mara.outcome, odo.outcome) == ("written", "written")
    assert [event.payload["belief"] for event in (*mara.events, *odo.events)] == ["The tide is low at six."] * 2
    assert read_by == {"mara": ["mara", "odo"], "odo": ["odo"], "judge": ["odo"]}
    assert sum(one.requests for one in usage.models) == 2


async def test_a_real_model_believes_something_or_nothing_is_written(
    ollama_url: str, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever so small a model makes of the request, it is paid for, and no half of an answer is kept."""
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    # Always the most likely word, so that runs on one machine agree.
    model = OpenAIChatModel(
        OLLAMA_CHAT_MODEL,
        provider=OllamaProvider(base_url=f"{ollama_url}/v1"),
        settings=ModelSettings(temperature=0, seed=1, max_tokens=48, timeout=PATIENCE_SECONDS),
    )
    settings = config(agent_timeout_seconds=PATIENCE_SECONDS, worker=False)
    async with model, AgentMem(settings, models=AgentModels(reflector=model)) as memory:
        await _live(memory)
        try:
            written = (await memory.admin.reflections.run(_RUN, "mara", threshold=2)).events
        except AgentError:
            written = ()
        held = await memory.admin.beliefs.current(_RUN)
        others = await memory.admin.beliefs.current(_RUN, reader="odo")
        usage = await memory.admin.usage(_RUN)
        assert (await memory.admin.verify()).ok

    assert [belief.id for belief in held] == [event.event_id for event in written]
    assert others == ()
    (spent,) = usage.models
    assert 1 <= spent.requests <= 3
