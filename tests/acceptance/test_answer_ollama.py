"""Answering and summarising with a real model, of Ollama: what it says is checked, cited and returned."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic_ai import models

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.agents.running import ANSWER_TOOL
from tests.support.ollama_models import PATIENCE_SECONDS, repeating_model

_NOTE = "The ferry to the island leaves at ten."


async def test_what_a_real_server_answers_is_cited(
    ollama_url: str, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way of an answer, and that of a profile: the schema goes out, a cited sentence comes back.

    The template of the model's copy shows it the answer, not the prompt.
    """
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    drawn = '{"answer": "It leaves at ten [1].", "is_known": true}'
    model = await repeating_model(ollama_url, "smollm2-answers", drawn, tool=ANSWER_TOOL)
    settings = config(agent_timeout_seconds=PATIENCE_SECONDS, worker=False)
    async with model, AgentMem(settings, models=AgentModels(memory_retrieve=model)) as memory:
        note = await memory.create_active_memory("agent-1", "Ferry", _NOTE)
        answered = await memory.retrieve_memories("agent-1", "When does the ferry leave?", synthesis=True, strict=True)
        await memory.admin.profiles.define("agent-1", "ferry", "When does the ferry leave?")
        profile = await memory.admin.profiles.refresh("agent-1", "ferry")
        usage = await memory.admin.usage("agent-1")

    assert answered.synthesis is not None
    assert (answered.synthesis.answer, answered.synthesis.is_known) == ("It leaves at ten [1].", True)
    assert [one.memory_id for one in answered.synthesis.citations] == [note.id]
    assert (profile.text, profile.made_by) == ("It leaves at ten.", "model")
    assert [[one.memory_id for one in line] for line in profile.citations] == [[note.id]]
    assert [spent.requests for spent in usage.models] == [2]
