"""Conversations end by a request, by a sign in a message, or in the background; and say why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from agent_reminiscence import AgentMem, Config, ConfigurationError
from agent_reminiscence.domain.event import Event
from agent_reminiscence.react import (
    AgentRequest,
    MemoryServices,
    ReactMemConfig,
    ReactMemService,
    ReactService,
    create_agent_service,
    create_lifecycle,
    default_scope,
)
from agent_reminiscence.react.lifecycle import CLOSED, Lifecycle
from agent_reminiscence.react.maintenance import Maintenance, one_at_a_time
from agent_reminiscence.react.models import ConversationMemory
from agent_reminiscence.react.scope import Scope
from agent_reminiscence.react.sensitive import KINDS, told
from tests.support.brain import Brain

type MakeConfig = Callable[..., Config]

_SCOPE = default_scope("ana", "default")


class _Clock:
    """The time of the memory and of the service, which a test can put on."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def _request(question: str, **given: Any) -> AgentRequest:
    values: dict[str, Any] = {"user": "ana", "enable_memory": True, "conversation_id": "c-1"}
    return AgentRequest(question=question, **values | given)


def _brain(theme: str = "boats") -> Brain:
    return Brain(lambda _: "noted", close=lambda _: {"theme": theme})


async def _closed(memory: AgentMem, scope: str = _SCOPE) -> list[tuple[str, str]]:
    """Which conversations have ended, and why."""
    events: list[Event] = await memory.ledger.read(scope, kinds=[CLOSED])
    return [(str(event.conversation_id), event.payload["reason"]) for event in events]


async def test_a_request_ends_its_conversation(memory: AgentMem) -> None:
    """Once its answer is recorded; a conversation of the same name elsewhere goes on."""
    async with ReactMemService(_brain().model, memory) as agent:
        await agent.answer(_request("Where is the boat?"))
        await agent.answer(_request("Where is the boat?", user="ben"))
        await agent.drain()
        assert await _closed(memory) == []
        await agent.answer(_request("And the oars?", end_conversation=True))
        await agent.drain()

        assert await _closed(memory) == [("c-1", "request")]
        assert await _closed(memory, default_scope("ben", "default")) == []
        again = await agent.lifecycle.end_conversation("ana", "c-1")
        assert (again.is_new, again.reason) == (False, "call")
    [episode] = await memory.get_active_memories(_SCOPE, key_prefix="episode/")
    assert episode.metadata["goal"] == "boats"


def test_the_end_of_no_conversation_is_refused() -> None:
    """The message says what is missing."""
    with pytest.raises(ValidationError, match="conversation_id names no conversation; pass it as well"):
        AgentRequest(question="Bye", user="ana", end_conversation=True)
    with pytest.raises(ConfigurationError, match="end-heuristic"):
        ReactMemConfig.from_mapping({"end-heuristic": ["mood"]})
    with pytest.raises(ConfigurationError, match="maintenance-seconds"):
        ReactMemConfig.from_mapping({"maintenance-seconds": 0})


async def test_without_memory_a_request_ends_nothing(memory: AgentMem) -> None:
    """Neither where the request wants no memory, nor in the agent without one, nor while it is switched off."""
    async with ReactMemService(_brain().model, memory) as agent:
        await agent.answer(_request("Where is the boat?"))
        await agent.answer(_request("Bye", enable_memory=False, end_conversation=True))
        await agent.lifecycle.set_memory("ana", enabled=False)
        await agent.answer(_request("Bye", end_conversation=True))
        await agent.drain()
    async with ReactService(_brain().model) as stateless:
        assert (await stateless.answer(_request("Bye", end_conversation=True))).answer == "noted"

    assert await _closed(memory) == []


async def test_signs_end_a_conversation_only_where_they_are_wanted(memory: AgentMem) -> None:
    """By default a goodbye ends nothing; with the setting it does, and the event says why without quoting it."""
    async with ReactMemService(_brain().model, memory) as agent:
        await agent.answer(_request("Thanks, bye!"))
        await agent.drain()
    assert await _closed(memory) == []

    config = ReactMemConfig(end_heuristic=frozenset({"farewell"}))
    async with ReactMemService(_brain().model, memory, config=config) as agent:
        await agent.answer(_request("Thanks, bye!", conversation_id="c-2"))
        await agent.drain()
    [event] = await memory.ledger.read(_SCOPE, kinds=[CLOSED])
    assert (event.conversation_id, event.payload["reason"], event.payload["why"]) == (
        "c-2",
        "farewell",
        "the user said goodbye",
    )


async def test_another_topic_ends_what_was_before_it(memory: AgentMem) -> None:
    """What is said from then on is a part of its own, which ends later without the first."""
    brain = _brain()
    config = ReactMemConfig(end_heuristic=frozenset({"topic"}), learn_with="model")
    async with ReactMemService(brain.model, memory, config=config) as agent:
        for question in (
            "My boat has a leak near the keel.",
            "Which train goes from Graz to Vienna on Sunday morning?",
        ):
            await agent.answer(_request(question))
            await agent.drain()
        assert await _closed(memory) == [("c-1", "topic")]
        assert "boat" in brain.transcripts[-2] + brain.transcripts[-1]
        brain.transcripts.clear()

        ended = await agent.lifecycle.end_conversation("ana", "c-1")

    assert ended.is_new
    [shown] = brain.transcripts
    assert "train" in shown
    assert "boat" not in shown.replace("boats", "")


async def test_a_pause_ends_what_was_before_it(config: MakeConfig) -> None:
    """If no maintenance has done so: after `conversation_timeout`, by the clock of the service."""
    clock = _Clock()
    async with AgentMem(config(), clock=clock) as memory:
        settings = ReactMemConfig(end_heuristic=frozenset({"pause"}), conversation_timeout=600)
        async with ReactMemService(_brain().model, memory, config=settings, clock=clock) as agent:
            await agent.answer(_request("Where is the boat?"))
            await agent.drain()
            clock.now += timedelta(seconds=601)
            await agent.answer(_request("Where are the oars?"))
            await agent.drain()

        [event] = await memory.ledger.read(_SCOPE, kinds=[CLOSED])
        assert event.payload["why"] == "nothing was said for 601 s"
        assert event.payload["is_part"]


async def test_a_model_that_fails_at_an_end_costs_nobody_the_answer(memory: AgentMem) -> None:
    """The answer is given and recorded; the conversation ends at its next end or timeout."""
    fails = True

    def close(_: str) -> dict[str, Any]:
        if fails:
            raise RuntimeError("the model is away")
        return {"theme": "boats"}

    brain = Brain(lambda _: "noted", close=close)
    async with ReactMemService(brain.model, memory) as agent:
        answered = await agent.answer(_request("Where is the boat?", end_conversation=True))
        await agent.drain()
        assert (answered.answer, answered.warnings) == ("noted", ())
        assert await _closed(memory) == []
        fails = False
        assert (await agent.lifecycle.end_conversation("ana", "c-1")).is_new


async def test_an_open_service_maintains_by_itself(memory: AgentMem) -> None:
    """Every `maintenance_seconds`, one at a time, until it is closed; nothing is left running."""
    brain = _brain()
    config = ReactMemConfig(maintenance_seconds=0.2, conversation_timeout=1e-6)
    before = asyncio.all_tasks()
    async with (
        ReactMemService(brain.model, memory, config=config) as agent,
        ReactMemService(brain.model, memory, config=config),
    ):
        await agent.answer(_request("Where is the boat?"))
        await agent.drain()
        async with asyncio.timeout(30):
            while not await _closed(memory):  # noqa: ASYNC110 - a task of the service writes it
                await asyncio.sleep(0.05)
        async with one_at_a_time(memory):
            explicit = asyncio.create_task(agent.lifecycle.maintain_all())
            await asyncio.sleep(0.3)
            assert not explicit.done()
        await explicit
    assert await _closed(memory) == [("c-1", "timeout")]
    assert asyncio.all_tasks() == before


async def test_a_conversation_that_two_end_at_once_ends_once(memory: AgentMem, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the reason of the first; the other is told that it had ended already."""
    both_looked = asyncio.Barrier(2)
    looks = Lifecycle._is_closed

    async def look(self: Lifecycle, external_id: str, conversation: ConversationMemory) -> bool:
        is_closed = await looks(self, external_id, conversation)
        async with asyncio.timeout(60), both_looked:
            return is_closed

    config = ReactMemConfig(conversation_timeout=1e-6, maintenance_seconds=None)
    brain = _brain()
    async with (
        ReactMemService(brain.model, memory, config=config) as one,
        ReactMemService(brain.model, memory, config=config) as other,
    ):
        await one.answer(_request("Where is the boat?"))
        await one.drain()
        monkeypatch.setattr(Lifecycle, "_is_closed", look)
        called, report = await asyncio.gather(
            one.lifecycle.end_conversation("ana", "c-1"), other.lifecycle.maintain("ana")
        )

    assert sorted([called.is_new, bool(report.ended)]) == [False, True]
    assert await _closed(memory) == [("c-1", "call" if called.is_new else "timeout")]


async def test_who_waits_for_the_end_of_maintenance_can_be_cancelled() -> None:
    """A deadline on closing a service holds, however long a run takes to give up."""
    running, ends = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ends.wait()

    maintenance = Maintenance(work, 0.001)
    maintenance.start()
    await running.wait()
    stopping = asyncio.create_task(maintenance.stop())
    await asyncio.sleep(0)
    stopping.cancel()

    await asyncio.wait({stopping})

    assert stopping.cancelled()
    ends.set()


async def test_maintenance_can_be_left_to_another_process(memory: AgentMem) -> None:
    """Off with None; nor does a deployment that may only read maintain anything."""
    for config in (ReactMemConfig(maintenance_seconds=None), ReactMemConfig(memory_mode="read")):
        before = asyncio.all_tasks()
        async with ReactMemService(_brain().model, memory, config=config):
            assert asyncio.all_tasks() == before
    assert ReactMemConfig().maintenance_seconds == 60


async def test_what_maintains_without_answering_needs_its_section(memory: AgentMem) -> None:
    """And a model, unless rules learn."""
    with pytest.raises(ConfigurationError, match="there is no section 'agent-mem'"):
        create_lifecycle({"agent": {}}, memory)
    with pytest.raises(ConfigurationError, match="learns with a model, and none is named"):
        create_lifecycle({"agent-mem": {}}, memory)
    lifecycle = create_lifecycle({"agent-mem": {"learn-with": "rules", "conversation-timeout": 1e-6}}, memory)
    async with ReactMemService(_brain().model, memory, config=ReactMemConfig(learn_with="rules")) as agent:
        await agent.answer(_request("Where is the boat?"))
        await agent.drain()

    [report] = await lifecycle.maintain_all()

    assert [(one.conversation_id, one.reason) for one in report.ended] == [("c-1", "timeout")]


async def test_what_maintains_without_answering_learns_as_the_agent_does(memory: AgentMem) -> None:
    """The model that closes a conversation is told to leave out only the kinds that the section does not allow."""
    async with ReactMemService(_brain().model, memory) as agent:
        await agent.answer(_request("Where is the boat?"))
        await agent.drain()
    brain = _brain()
    section = {"allow-sensitive": ["health"], "conversation-timeout": 1e-6}
    lifecycle = create_lifecycle({"agent-mem": section}, memory, model=brain.model)

    await lifecycle.maintain_all()

    [instructions] = brain.told
    assert [kind for kind in KINDS if told(kind) not in instructions] == ["health"]


_SCOPES_OF_SERVICES: list[Scope] = []


def by_team(user: str, collection: str) -> str:
    """A scope that a section names."""
    return f"team/{user}/{collection}"


def by_team_services(memory: AgentMem, config: ReactMemConfig, scope: Scope) -> MemoryServices:
    """Services that a section names."""
    _SCOPES_OF_SERVICES.append(scope)
    return MemoryServices.of(memory, config, scope)


async def test_what_maintains_without_answering_uses_what_the_section_names(memory: AgentMem) -> None:
    """The memory is where the agent keeps it, and its services are those of the agent."""
    _SCOPES_OF_SERVICES.clear()
    section = {
        "conversation-timeout": 1e-6,
        "learn-with": "rules",
        "maintenance-seconds": None,
        "scope": f"{__name__}:by_team",
        "services": f"{__name__}:by_team_services",
    }
    async with create_agent_service({"agent-mem": section}, _brain().model, memory) as agent:
        await agent.answer(_request("Where is the boat?"))
    lifecycle = create_lifecycle({"agent-mem": section}, memory)

    await lifecycle.maintain_all()

    assert await _closed(memory, "team/ana/default") == [("c-1", "timeout")]
    assert [by_team, by_team] == _SCOPES_OF_SERVICES
    # The model that it names is enough; nothing is asked of it yet.
    create_lifecycle({"agent-mem": {"learning-model": "ollama:qwen3"}}, memory)
