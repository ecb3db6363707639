"""A memory that is switched off is neither read nor written: by the agent, by its services, by maintenance."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem, InvalidInputError
from agent_reminiscence.react import (
    AgentRequest,
    DeleteConversationRequest,
    DeleteEpisodeRequest,
    DeleteFactRequest,
    EndLessonsRequest,
    GetConversationMemoryRequest,
    InvocationSummary,
    LessonCorrection,
    ListConversationsRequest,
    MemoryServices,
    ReactMemConfig,
    ReactMemService,
    RecordUseRequest,
    RetrieveEpisodesRequest,
    RetrieveFactsRequest,
    StoreEpisodeRequest,
    StoreFactRequest,
    UpdateConversationMemoryRequest,
    default_scope,
)
from agent_reminiscence.react.config import MemoryMode
from agent_reminiscence.react.facts import fact_id_of
from agent_reminiscence.react.permission import Permission
from agent_reminiscence.react.scope import REGISTRY
from tests.support.brain import Brain, act

_SAID = InvocationSummary(
    query="Where is it?", summary="Looked.", result="Here.", timestamp=datetime(2026, 3, 1, tzinfo=UTC)
)


def _request(question: str, **given: Any) -> AgentRequest:
    values: dict[str, Any] = {"user": "ana", "enable_memory": True, "conversation_id": "c-1"}
    return AgentRequest(question=question, **values | given)


def _agent(memory: AgentMem, *, fact: str = "Ana has a boat.", **settings: Any) -> tuple[ReactMemService, Brain]:
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": [fact]}, close=lambda _: {"theme": "boats"})
    return ReactMemService(brain.model, memory, config=ReactMemConfig(**settings)), brain


async def _fill(services: MemoryServices, user: str, conversation_id: str = "c-1") -> None:
    fact = StoreFactRequest(user=user, content=f"{user} has a boat.", source=conversation_id)
    episode = StoreEpisodeRequest(user=user, goal=f"{user} repairs the boat", source=conversation_id)
    said = UpdateConversationMemoryRequest(user=user, conversation_id=conversation_id, invocation_summary=_SAID)
    assert (await services.fact_storage.store_fact(fact)).error is None
    assert (await services.episode_storage.store_episode(episode)).error is None
    assert (await services.conversations.update_conversation(said)).error is None


async def _reads(services: MemoryServices, user: str, conversation_id: str = "c-1") -> dict[str, Any]:
    """What each service answers to reads: how much it found, or why not."""
    facts = await services.fact_retrieval.retrieve_facts(RetrieveFactsRequest(user=user, query="boat"))
    episodes = await services.episode_retrieval.retrieve_episodes(RetrieveEpisodesRequest(user=user, query="boat"))
    conversation = await services.conversations.get_conversation(
        GetConversationMemoryRequest(user=user, conversation_id=conversation_id)
    )
    listed = await services.conversations.list_conversations(ListConversationsRequest(user=user))
    said = conversation.conversation.invocations if conversation.conversation is not None else ()
    return {
        "facts": facts.error.reason if facts.error else len(facts.facts),
        "episodes": episodes.error.reason if episodes.error else len(episodes.episodes),
        "conversation": conversation.error.reason if conversation.error else len(said),
        "list": listed.error.reason if listed.error else len(listed.conversations),
    }


async def _writes(services: MemoryServices, user: str, conversation_id: str = "c-1") -> list[str | None]:
    """Why each service does not write; None where it does."""
    summary = _SAID.model_copy(update={"query": "And then?"})
    done = [
        await services.fact_storage.store_fact(
            StoreFactRequest(user=user, content="The boat is red.", source=conversation_id)
        ),
        await services.episode_storage.store_episode(
            StoreEpisodeRequest(user=user, goal="paint the boat", source=conversation_id)
        ),
        await services.conversations.update_conversation(
            UpdateConversationMemoryRequest(user=user, conversation_id=conversation_id, invocation_summary=summary)
        ),
    ]
    return [one.error.reason if one.error else None for one in done]


_NOTHING = dict.fromkeys(("facts", "episodes", "conversation", "list"), "memory_off")
_ALL = dict.fromkeys(("facts", "episodes", "conversation", "list"), 1)


async def test_switching_off_binds_the_services_as_well(memory: AgentMem) -> None:
    """Each says so as a value; the memory of others is untouched, and on again everything is there as before."""
    agent, _ = _agent(memory)
    services = MemoryServices.of(memory)
    for user in ("ana", "ben"):
        await _fill(services, user)
    await agent.lifecycle.set_memory("ana", enabled=False)
    head = await memory.ledger.head(default_scope("ana", "default"))

    assert await _reads(services, "ana") == _NOTHING
    assert await _writes(services, "ana") == ["memory_off"] * 3
    used = await services.episode_storage.record_use(RecordUseRequest(user="ana", invocation_id="i", success=True))
    assert used.error is not None
    facts = await services.fact_retrieval.retrieve_facts(
        RetrieveFactsRequest(user="ana", query="boat", ids=(fact_id_of("ana has a boat."),))
    )
    every = await services.fact_retrieval.retrieve_facts(RetrieveFactsRequest(user="ana", query="boat", room_tokens=99))
    tasks = await services.episode_retrieval.retrieve_episodes(
        RetrieveEpisodesRequest(user="ana", query="boat", ids=("any",))
    )
    assert isinstance(services.episode_storage, LessonCorrection)
    ended = await services.episode_storage.end_lessons(
        EndLessonsRequest(user="ana", episode_id="any", lesson_ids=("any",))
    )
    assert [one.error and one.error.reason for one in (facts, every, tasks, ended)] == ["memory_off"] * 4
    assert not facts.facts + every.facts + tasks.episodes
    assert used.error.message == "the user's memory is switched off; Lifecycle.set_memory switches it on again"
    assert await memory.ledger.head(default_scope("ana", "default")) == head
    assert await _reads(services, "ben") == _ALL
    # How much there is may be counted, and what is there put away.
    assert (await agent.lifecycle.usage("ana")).conversations == 1

    await agent.lifecycle.set_memory("ana", enabled=True)
    assert await _reads(services, "ana") == _ALL
    assert await _writes(services, "ana") == [None] * 3


async def test_what_is_switched_off_can_be_deleted_and_purged(memory: AgentMem) -> None:
    """Whoever does not want to be remembered must be able to have it forgotten."""
    agent, _ = _agent(memory)
    services = MemoryServices.of(memory)
    stored = await services.fact_storage.store_fact(StoreFactRequest(user="ana", content="Ana has a boat."))
    episode = await services.episode_storage.store_episode(StoreEpisodeRequest(user="ana", goal="repair the boat"))
    await _fill(services, "ana")
    await agent.lifecycle.set_memory("ana", enabled=False)
    assert stored.fact_id is not None
    assert episode.episode_id is not None

    done = [
        await services.fact_storage.delete_fact(DeleteFactRequest(user="ana", fact_id=stored.fact_id, purge=True)),
        await services.episode_storage.delete_episode(DeleteEpisodeRequest(user="ana", episode_id=episode.episode_id)),
        await services.conversations.delete_conversation(DeleteConversationRequest(user="ana", conversation_id="c-1")),
    ]

    assert [(one.success, one.error) for one in done] == [(True, None)] * 3


async def test_one_conversation_is_switched_off(memory: AgentMem) -> None:
    """The agent neither shows it anything nor keeps anything of it; other conversations go on."""
    agent, brain = _agent(memory)
    services = MemoryServices.of(memory)
    async with agent:
        await _fill(services, "ana")
        await _fill(services, "ana", "c-2")
        await agent.lifecycle.set_memory("ana", conversation_id="c-1", enabled=False)
        scope = default_scope("ana", "default")
        head = await memory.ledger.head(scope)

        off = await agent.answer(_request("Where is the boat?"))
        await agent.drain()
        reads = await _reads(services, "ana")
        writes = await _writes(services, "ana")
        ended = await agent.lifecycle.end_conversation("ana", "c-1")
        assert await memory.ledger.head(scope) == head

        assert off.answer == "noted"
        assert "has a boat" not in brain.asked[-1].shown
        # Facts belong to the user: those that are stored are found in other conversations.
        assert reads == {"facts": 1, "episodes": 2, "conversation": "memory_off", "list": 2}
        assert writes == ["memory_off"] * 3
        assert not ended.is_new

        on = await agent.answer(_request("Where is the boat?", conversation_id="c-2"))
        await agent.drain()
        assert on.answer == "noted"
        assert any("has a boat" in one.shown for one in brain.asked[1:])
        assert await memory.ledger.head(scope) > head


async def test_the_strictest_wins(memory: AgentMem) -> None:
    """Of the deployment, the user, the conversation and the request; none can allow what another forbids."""
    agent, _ = _agent(memory)
    services = MemoryServices.of(memory)
    await _fill(services, "ana")
    await agent.lifecycle.set_memory("ana", conversation_id="c-1", enabled=True)
    await agent.lifecycle.set_memory("ana", enabled=False)
    assert await _writes(services, "ana") == ["memory_off"] * 3
    await agent.lifecycle.set_memory("ana", enabled=True)

    def of(mode: MemoryMode) -> MemoryServices:
        return MemoryServices.of(memory, ReactMemConfig(memory_mode=mode))

    assert await _reads(of("read"), "ana") == _ALL
    assert await _writes(of("read"), "ana") == ["memory_off"] * 3
    assert await _reads(of("off"), "ana") == _NOTHING
    async with agent:
        head = await memory.ledger.head(default_scope("ana", "default"))
        await agent.answer(_request("Where is it?", enable_memory=False))
        await agent.drain()
        assert await memory.ledger.head(default_scope("ana", "default")) == head


async def test_a_switch_is_of_one_collection_and_user(memory: AgentMem) -> None:
    """Conversations of the same name elsewhere stay on; the registry does not name the one that is off."""
    agent, _ = _agent(memory)
    services = MemoryServices.of(memory)
    for user in ("ana", "ben"):
        await _fill(services, user, "about the divorce")
    await agent.lifecycle.set_memory("ana", conversation_id="about the divorce", enabled=False, collection="work")
    assert await _reads(services, "ana", "about the divorce") == _ALL
    await agent.lifecycle.set_memory("ana", conversation_id="about the divorce", enabled=False)

    assert (await _reads(services, "ana", "about the divorce"))["conversation"] == "memory_off"
    assert await _reads(services, "ben", "about the divorce") == _ALL
    assert "divorce" not in str(await memory.ledger.read(REGISTRY, limit=1000))


async def test_an_answer_on_its_way_is_not_recorded_once_its_conversation_is_off(memory: AgentMem) -> None:
    """As when the user's memory is switched off meanwhile; the tool stores nothing either."""
    box: list[ReactMemService] = []

    async def off() -> str:
        """Switch this conversation off."""
        await box[0].lifecycle.set_memory("ana", conversation_id="c-1", enabled=False)
        return "off"

    acts: list[ModelResponse | str] = [act("off"), act("store_fact", fact_content="Ana has a boat."), "done"]
    brain = Brain(lambda asked: acts[asked.turn])
    tools: FunctionToolset[Any] = FunctionToolset()
    tools.add_function(off)
    async with ReactMemService(brain.model, memory, toolsets=[tools]) as agent:
        box.append(agent)
        answered = await agent.answer(_request("I have a boat."))
        await agent.drain()

        assert answered.answer == "done"
        assert "switched off meanwhile" in answered.warnings[0]
        assert "Not stored" in answered.steps[1].observation
        assert await memory.get_active_memories(default_scope("ana", "default")) == []


async def test_maintenance_leaves_a_conversation_alone_that_is_off(memory: AgentMem) -> None:
    """What was answered before stays unrecorded until it is on again; others are recorded and ended."""
    agent, _ = _agent(memory, conversation_timeout=1e-6)
    async with agent:
        for conversation in ("c-1", "c-2"):
            await agent.answer(_request("I have a boat.", conversation_id=conversation))
            await agent.drain()
        await agent.lifecycle.set_memory("ana", conversation_id="c-1", enabled=False)
        report = await agent.lifecycle.maintain("ana")
        assert [one.conversation_id for one in report.ended] == ["c-2"]
        await agent.lifecycle.set_memory("ana", conversation_id="c-1", enabled=True)
        again = await agent.lifecycle.maintain("ana")
        assert [one.conversation_id for one in again.ended] == ["c-1"]


async def test_a_purged_user_has_no_switches(memory: AgentMem) -> None:
    """Nothing is left that says there was such a user; a new one of that name begins with a memory that is on."""
    agent, _ = _agent(memory)
    services = MemoryServices.of(memory)
    await _fill(services, "ana")
    await agent.lifecycle.set_memory("ana", conversation_id="c-1", enabled=False)
    await agent.lifecycle.set_memory("ben", conversation_id="c-1", enabled=False)

    await agent.lifecycle.purge_user("ana")

    registry = [event.payload for event in await memory.ledger.read(REGISTRY, limit=1000)]
    assert all(one.get("user") != "ana" for one in registry)
    assert await _writes(services, "ana") == [None] * 3
    assert (await _writes(services, "ben"))[0] == "memory_off"


async def test_what_cannot_be_switched_is_refused(memory: AgentMem) -> None:
    """With the value and the way out; nothing is written."""
    agent, _ = _agent(memory)
    for given, message in (
        ({"enabled": "no"}, "enabled must be True or False"),
        ({"enabled": False, "conversation_id": ""}, "conversation_id"),
        ({"enabled": False, "conversation_id": "c" * 257}, "conversation_id has 257 characters"),
        ({"enabled": False, "conversation_id": 7}, "conversation_id must be"),
        ({"enabled": False, "collection": "work"}, "collection is 'work', but conversation_id names no conversation"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            await agent.lifecycle.set_memory("ana", **given)
    assert await memory.ledger.read(REGISTRY) == []


async def test_a_cancelled_call_leaves_nothing_behind(memory: AgentMem) -> None:
    """Whatever is cancelled, such as all tasks of a request, the next call asks again."""
    permission = Permission(memory)
    asking = asyncio.create_task(permission.to_read("ana", "default"))
    await asyncio.sleep(0)
    before = asyncio.all_tasks() - {asyncio.current_task(), asking}
    for task in [one for one in before if "_look" in repr(one)]:
        task.cancel()

    await asyncio.wait({asking})

    assert asking.cancelled()
    await permission.to_read("ana", "default")
