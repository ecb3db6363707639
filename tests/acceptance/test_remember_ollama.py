"""Remembering with a real model, of Ollama: whatever so small a model makes of it, what was said is not lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic_ai import models
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.settings import ModelSettings

from agent_reminiscence import AgentMem, AgentModels, Config
from tests.support.ollama_server import OLLAMA_CHAT_MODEL

_PATIENCE_SECONDS = 1_500.0
_TALK = [
    {"role": "user", "content": "The ferry to the island leaves at ten now."},
    {"role": "user", "content": "Off the record: the captain is seasick."},
]


async def test_a_real_model_remembers_or_the_turns_are_recorded(
    ollama_url: str, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way of a call: the request, the answers that are sent back, the report, the ledger, and recall."""
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    # Always the most likely word, so that runs on one machine agree.
    model = OpenAIChatModel(
        OLLAMA_CHAT_MODEL,
        provider=OllamaProvider(base_url=f"{ollama_url}/v1"),
        settings=ModelSettings(temperature=0, seed=1, max_tokens=48, timeout=_PATIENCE_SECONDS),
    )
    settings = config(agent_timeout_seconds=_PATIENCE_SECONDS, worker=False)
    async with model, AgentMem(settings, models=AgentModels(memory_update=model)) as memory:
        note = await memory.create_active_memory("agent-1", "Ferry", "The ferry leaves at nine.\nOla sells tickets.")
        report = await memory.admin.remember("agent-1", _TALK, conversation_id="c-1", on_failure="record")
        usage = await memory.admin.usage("agent-1")
        hits = (await memory.retrieve_memories("agent-1", "When does the ferry to the island leave?")).hits
        said = await memory.conversation("agent-1", "c-1").turns()
        history = await memory.admin.history("agent-1", note.id)
        assert (await memory.admin.verify("agent-1")).ok

    assert report.off_record_messages == 1
    (spent,) = usage.models
    assert 1 <= spent.requests <= 3
    assert spent.input_tokens > 1_000
    # Such a model calls no tool for its answer as a rule; if it does once, its answer is what counts.
    assert (report.failure is not None) == (report.recorded_turns == 1) == ([turn.text for turn in said] != [])
    assert "at ten" in hits[0].content or report.failure is None
    assert history.versions[0].content == note.content
    assert "seasick" not in str((report, said, hits))
