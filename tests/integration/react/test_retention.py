"""What the agent's memory removes for its age, its number or its disuse is erased where the settings say so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.react import (
    AgentRequest,
    InvocationSummary,
    MemoryConversations,
    MemoryEpisodes,
    MemoryFacts,
    ReactMemConfig,
    ReactMemService,
    StoreEpisodeRequest,
    StoreFactRequest,
    UpdateConversationMemoryRequest,
    default_scope,
    retention,
)
from tests.conftest import TestServer
from tests.support.brain import Brain
from tests.support.factories import stored_rows, superuser
from tests.support.fakes import SetClock
from tests.support.steps import all_events

type MakeConfig = Callable[..., Config]

_SCOPE = default_scope("ana", "default")
_DAY = timedelta(days=1)
_FACTS = 30


@pytest.fixture
def clock() -> SetClock:
    """The clock of the memory and of the service."""
    return SetClock(datetime.now(UTC))


def _request(question: str, conversation_id: str | None = "c-1") -> AgentRequest:
    return AgentRequest(question=question, user="ana", enable_memory=True, conversation_id=conversation_id)


async def _said(memory: AgentMem, word: str) -> list[str]:
    """The kinds of the events that say a word."""
    return [event.kind for event in await all_events(memory, _SCOPE) if word in str(event.payload).lower()]


async def test_thirty_facts_that_are_over_are_erased_at_once(
    config: MakeConfig, clock: SetClock, test_server: TestServer, database: str
) -> None:
    """No row says them any more, one receipt names them, and another user keeps the same ones."""
    settings = ReactMemConfig(fact_ttl_days=30, retention="erase")
    brain = Brain(lambda _: "noted")
    async with (
        superuser(test_server, database) as db,
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=settings, clock=clock) as agent,
    ):
        for user in ("ana", "ben"):
            for number in range(_FACTS):
                await MemoryFacts(memory).store_fact(
                    StoreFactRequest(user=user, content=f"The zebra of stable {number} is striped.")
                )
        others = await stored_rows(db, default_scope("ben", "default"), with_ctid=False)
        clock.advance(29 * _DAY)
        early = await agent.lifecycle.maintain("ana")
        clock.advance(2 * _DAY)
        await MemoryFacts(memory).store_fact(StoreFactRequest(user="ana", content="The walrus is new."))
        report = await agent.lifecycle.maintain("ana")
        again = await agent.lifecycle.maintain("ana")

        assert (early.erased_facts, report.erased_facts, report.archived_facts, again.erased_facts) == (0, 30, 0, 0)
        [receipt] = report.receipts
        assert (len(receipt.memory_ids), receipt.actor, receipt.reason) == (30, "retention", "retention: fact_ttl_days")
        assert not [row for rows in (await stored_rows(db, _SCOPE)).values() for row in rows if "zebra" in row.lower()]
        assert await stored_rows(db, default_scope("ben", "default"), with_ctid=False) == others
        assert [one.content for one in await memory.get_active_memories(_SCOPE)] == ["The walrus is new."]
        assert (await memory.admin.verify(_SCOPE)).ok
        assert (await memory.admin.verify_erased(receipt, text="zebra of stable")).ok


async def test_each_setting_takes_what_it_bounds_and_nothing_else(config: MakeConfig, clock: SetClock) -> None:
    """A fact outlives its conversation, and a conversation its facts; what was noted of them goes with them."""
    settings = ReactMemConfig(
        conversation_ttl_days=10, fact_ttl_days=20, episode_min_steps=1, conversation_timeout=60, retention="erase"
    )
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": ["Ana has a zebra at home."]})
    async with (
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=settings, clock=clock) as agent,
    ):
        await agent.answer(_request("My giraffe is ill."))
        await agent.drain()
        await agent.answer(_request("My camel is ill.", conversation_id=None))
        await agent.drain()
        clock.advance(5 * _DAY)
        await agent.answer(_request("My walrus is ill.", conversation_id="c-2"))
        await agent.drain()
        assert set(await _said(memory, "giraffe")) == {"react.invocation", "react.invocation.finished"}
        assert "react.invocation.learned" in await _said(memory, "zebra")

        clock.advance(6 * _DAY)
        first = await agent.lifecycle.maintain("ana")
        assert (first.erased_facts, first.erased_conversations) == (0, 2)
        assert [receipt.reason for receipt in first.receipts] == ["retention: conversation_ttl_days"]
        assert await _said(memory, "giraffe") + await _said(memory, "camel") == []
        assert await _said(memory, "walrus") != []
        assert "memory.created" in await _said(memory, "zebra")
        listed = await agent.lifecycle.usage("ana")
        assert (listed.facts, listed.conversations) == (1, 1)

        clock.advance(10 * _DAY)
        second = await agent.lifecycle.maintain("ana")
        assert (second.erased_facts, second.erased_conversations) == (1, 1)
        assert await _said(memory, "zebra") + await _said(memory, "walrus") == []
        assert (await agent.lifecycle.maintain("ana")).receipts == ()
        assert (await memory.admin.verify(_SCOPE)).ok
        # The same words are a new fact.
        await agent.answer(_request("My zebra is well.", conversation_id="c-3"))
        await agent.drain()
        assert (await agent.lifecycle.usage("ana")).facts == 1


async def test_a_fact_that_is_over_takes_the_note_of_its_invocation_along(config: MakeConfig, clock: SetClock) -> None:
    """The conversation in which it was said stays, by its own setting."""
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": ["Ana keeps an animal with stripes."]})
    settings = ReactMemConfig(fact_ttl_days=10, retention="erase")
    async with (
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=settings, clock=clock) as agent,
    ):
        await agent.answer(_request("My zebra is ill."))
        await agent.drain()
        clock.advance(11 * _DAY)
        assert (await agent.lifecycle.maintain("ana")).erased_facts == 1
        assert await _said(memory, "stripes") == []
        assert await _said(memory, "zebra") != []


async def test_more_notes_than_one_erasure_takes_all_go(
    config: MakeConfig, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are found by their facts, so those that did not fit could not be found again."""
    monkeypatch.setattr(retention, "_MAX_EVENTS", 2)
    facts = iter(["Ana keeps striped fish.", "Ana keeps striped cats.", "Ana has striped mats."])
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": [next(facts)]})
    settings = ReactMemConfig(fact_ttl_days=10, retention="erase")
    async with (
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=settings, clock=clock) as agent,
    ):
        for number in range(3):
            await agent.answer(_request(f"My zebra {number} is ill."))
            await agent.drain()
        clock.advance(11 * _DAY)
        report = await agent.lifecycle.maintain("ana")
        assert (report.erased_facts, len(report.receipts)) == (3, 2)
        assert await _said(memory, "striped") == []


@pytest.mark.thorough
async def test_what_is_too_much_or_unused_is_erased_as_well(config: MakeConfig, clock: SetClock) -> None:
    """One rule for all that maintenance removes."""
    settings = ReactMemConfig(max_facts=2, max_episodes=1, max_conversations=1, retention="erase")
    brain = Brain(lambda _: "noted")
    async with (
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=settings, clock=clock) as agent,
    ):
        for word in ("zebra", "camel", "walrus"):
            await MemoryFacts(memory).store_fact(StoreFactRequest(user="ana", content=f"The {word} is here."))
            await MemoryEpisodes(memory).store_episode(StoreEpisodeRequest(user="ana", goal=f"Find the {word} soon."))
            await agent.answer(_request(f"Where is the {word}?", conversation_id=word))
            await agent.drain()
        report = await agent.lifecycle.maintain("ana")
        assert (report.erased_facts, report.erased_episodes, report.erased_conversations) == (1, 2, 2)
        [receipt] = report.receipts
        assert receipt.reason == "retention: max_facts, max_episodes, max_conversations"
        assert await _said(memory, "zebra") == []
        assert await _said(memory, "camel") == ["memory.created"]

    settings = ReactMemConfig(prune_unused_days=30, retention="erase")
    async with (
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=settings, clock=clock) as agent,
    ):
        clock.advance(31 * _DAY)
        report = await agent.lifecycle.maintain("ana")
        assert (report.erased_facts, report.erased_episodes) == (2, 1)
        assert [receipt.reason for receipt in report.receipts] == ["retention: prune_unused_days"]


async def test_an_invocation_that_waits_to_be_recorded_keeps_its_conversation(
    config: MakeConfig, clock: SetClock
) -> None:
    """Until it is over as well: what was answered just now must not go before it is learned from."""
    settings = ReactMemConfig(max_conversations=1, conversation_ttl_days=10, retention="erase")
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": 7})
    async with (
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=settings, clock=clock) as agent,
    ):
        await agent.answer(_request("My zebra is ill.", conversation_id="old"))
        await agent.drain()
        await MemoryConversations(memory).update_conversation(
            UpdateConversationMemoryRequest(
                user="ana",
                conversation_id="new",
                invocation_summary=InvocationSummary(query="Hello", summary="", result="", timestamp=clock() + _DAY),
            )
        )
        assert (await agent.lifecycle.maintain("ana")).erased_conversations == 0
        assert await _said(memory, "zebra") != []
