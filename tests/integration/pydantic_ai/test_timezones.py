"""The capability where the user is: days that are shown, and days that are recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem, InvalidInputError
from agent_reminiscence.integrations.pydantic_ai import Reminiscence

_QUESTION = "What colour is the gate?"
# A quarter past nine in the morning of 2 March in Auckland.
_MORNING = datetime(2026, 3, 1, 20, 15, tzinfo=UTC)


class _Model:
    """Searches, remembers something, and ends; keeps the messages that it was sent."""

    def __init__(self) -> None:
        self.seen: list[ModelMessage] = []
        self._calls = [
            ToolCallPart("search_memory", {"query": _QUESTION}),
            ToolCallPart("remember", {"text": "I painted the gate yesterday.", "title": "Paint"}),
        ]

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen = list(messages)
        return ModelResponse([self._calls.pop(0) if self._calls else TextPart("Green.")])


async def _run(memory: AgentMem, timezone: Any, *, deps: Any = None) -> tuple[str, str]:
    """What one run was shown before it began and by its search."""
    model = _Model()
    capability = Reminiscence(memory, external_id="ana", timezone=timezone, min_match=None, on_error="raise")
    agent = Agent(FunctionModel(model.answer), deps_type=object, capabilities=[capability])
    await agent.run(_QUESTION, deps=deps, conversation_id="talk")
    return str(model.seen[0]), str(model.seen[2])


@pytest.mark.parametrize("is_function", [False, True])
async def test_days_are_those_of_where_the_user_is(memory: AgentMem, is_function: bool) -> None:
    """In what is shown before a run and by a search; turns and what the model keeps are recorded in the same zone."""
    await memory.create_active_memory("ana", "Gate", "The gate is green.", occurred_at=_MORNING)

    def zone_of(ctx: RunContext[Any]) -> str:
        return f"Pacific/{ctx.deps}"

    for shown in await _run(memory, zone_of if is_function else "Pacific/Auckland", deps="Auckland"):
        assert "2026-03-02 Monday, Gate" in shown

    zones = {one.title: one.timezone for one in await memory.get_active_memories("ana")}
    assert zones == {"Gate": "UTC", "Paint": "Pacific/Auckland", "Conversation": "Pacific/Auckland"}


async def test_without_a_zone_days_are_those_of_the_setting(memory: AgentMem) -> None:
    """Which is UTC, unless it is set."""
    await memory.create_active_memory("ana", "Gate", "The gate is green.", occurred_at=_MORNING)

    for shown in await _run(memory, None):
        assert "2026-03-01 Sunday, Gate" in shown

    assert {one.timezone for one in await memory.get_active_memories("ana")} == {"UTC"}


async def test_an_unknown_zone_is_refused_by_name(memory: AgentMem) -> None:
    """A string when the capability is made; what a function says, in the run."""
    refused = r"'Mars/Olympus' is not a time zone; use an IANA name such as Europe/Lisbon"
    with pytest.raises(InvalidInputError, match=refused):
        Reminiscence(memory, external_id="ana", timezone="Mars/Olympus")
    await memory.create_active_memory("ana", "Gate", "The gate is green.")
    head = await memory.ledger.head("ana")

    with pytest.raises(InvalidInputError, match=refused):
        await _run(memory, lambda ctx: "Mars/Olympus")

    assert await memory.ledger.head("ana") == head
