"""The filter, the tools and the session where the user is: days that are shown, and days that are recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message, function_call

from agent_reminiscence import AgentMem, InvalidInputError
from agent_reminiscence.integrations.openai_agents import ReminiscenceSession, memory_tools, recall_filter

_QUESTION = "What colour is the gate?"
# A quarter past nine in the morning of 2 March in Auckland.
_MORNING = datetime(2026, 3, 1, 20, 15, tzinfo=UTC)


@pytest.mark.parametrize("is_function", [False, True])
async def test_days_are_those_of_where_the_user_is(memory: AgentMem, is_function: bool) -> None:
    """In what the filter and a search show; turns and what the model keeps are recorded in the same zone."""
    await memory.create_active_memory("ana", "Gate", "The gate is green.", occurred_at=_MORNING)
    model = ScriptedModel(
        [
            [function_call("search_memory", {"query": _QUESTION}, call_id="call_1")],
            [function_call("remember", {"title": "Paint", "text": "I painted it yesterday."}, call_id="call_2")],
            [assistant_message("Green.")],
        ]
    )
    filtered: Any = lambda data: f"Pacific/{data.context}"  # noqa: E731
    called: Any = lambda context: f"Pacific/{context.context}"  # noqa: E731
    zone = "Pacific/Auckland"
    agent = Agent[Any](
        name="Harbour", model=model, tools=list(memory_tools(memory, "ana", timezone=called if is_function else zone))
    )

    await Runner.run(
        agent,
        _QUESTION,
        context="Auckland",
        session=ReminiscenceSession(memory, "ana", "chat-7", timezone=zone),
        run_config=RunConfig(
            call_model_input_filter=recall_filter(
                memory, "ana", min_match=None, timezone=filtered if is_function else zone
            )
        ),
    )

    shown = [str(item) for item in model.calls[-1].input]
    for one in (shown[0], next(item for item in shown if "function_call_output" in item)):
        assert "2026-03-02 Monday, Gate" in one
    zones = {one.title: one.timezone for one in await memory.get_active_memories("ana")}
    assert zones == {"Gate": "UTC", "Paint": zone, "Conversation": zone}


async def test_an_unknown_zone_is_refused_by_name(memory: AgentMem) -> None:
    """When the filter, the tools or the session are made."""
    refused = r"'Mars/Olympus' is not a time zone; use an IANA name such as Europe/Lisbon"
    with pytest.raises(InvalidInputError, match=refused):
        recall_filter(memory, "ana", timezone="Mars/Olympus")
    with pytest.raises(InvalidInputError, match=refused):
        memory_tools(memory, "ana", timezone="Mars/Olympus")
    with pytest.raises(InvalidInputError, match=refused):
        ReminiscenceSession(memory, "ana", "chat-7", timezone="Mars/Olympus")
