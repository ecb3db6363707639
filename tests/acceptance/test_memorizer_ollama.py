"""Consolidating with a real model, of Ollama: its request, its answer with labels and parts, and what they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pydantic_ai import models

from agent_reminiscence import AgentMem, AgentModels, Config
from tests.support.ollama_models import PATIENCE_SECONDS, repeating_model

_OFFICE = "The office closes at 18:00."
_PARKING = "Parking costs 12 euros a day."
_CHANGE = "The office closes at 20:00 now."


async def test_what_a_real_server_answers_ends_the_words_that_are_over(
    ollama_url: str, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way of a memorizer: the schema goes out, labels and quoted words come back, and end one statement.

    The template of the model's copy shows it the answer, not the prompt.
    """
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    drawn = {
        "importance": [{"passage": "N1", "importance": 0.9}],
        "over": [{"number": "S2", "by": "N1", "part": _OFFICE, "why": "So."}],
    }
    memorizer = await repeating_model(ollama_url, "smollm2-ends-a-statement", json.dumps(drawn), max_tokens=150)
    settings = config(agent_timeout_seconds=PATIENCE_SECONDS, worker=False)
    async with AgentMem(settings) as memory:
        old = await memory.create_active_memory(
            "agent-1", "Office", f"{_OFFICE} {_PARKING}", occurred_at=datetime(2026, 1, 12, tzinfo=UTC)
        )
        await memory.admin.consolidate("agent-1", old.id)
    async with memorizer, AgentMem(settings, models=AgentModels(memorizer=memorizer)) as memory:
        new = await memory.create_active_memory(
            "agent-1", "Change", _CHANGE, occurred_at=datetime(2026, 4, 14, tzinfo=UTC)
        )
        await memory.admin.consolidate("agent-1", new.id)
        found = {
            question: [hit.content for hit in (await memory.retrieve_memories("agent-1", question)).hits]
            for question in ("What does parking cost?", "When does the office close?")
        }
        [plan] = [
            event.payload
            for event in await memory.ledger.read("agent-1", kinds=["memory.consolidated"])
            if event.payload["memory_id"] == str(new.id)
        ]
        [ended] = await memory.ledger.read("agent-1", kinds=["memory.ended"])
        usage = await memory.admin.usage("agent-1")
        assert (await memory.admin.verify("agent-1")).ok

    parking, office = found.values()
    assert _PARKING in parking[0]
    assert _CHANGE in office[0]
    assert not any(_OFFICE in one for one in (*parking, *office))
    assert ended.payload["why"] == "So."
    assert [one["estimate"] for one in plan["chunks"]] == [0.9]
    assert [spent.requests for spent in usage.models] == [1]
