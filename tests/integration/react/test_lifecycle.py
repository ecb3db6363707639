"""Conversations end, memories grow old, and a purge leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem, Config, ExternalIdNotFoundError
from agent_reminiscence.react import (
    AgentRequest,
    DeleteConversationRequest,
    DeleteEpisodeRequest,
    DeleteFactRequest,
    GetConversationMemoryRequest,
    InvocationSummary,
    ListConversationsRequest,
    MemoryConversations,
    MemoryEpisodes,
    MemoryFacts,
    NotRecordedError,
    ReactMemConfig,
    ReactMemService,
    RetrieveEpisodesRequest,
    RetrieveFactsRequest,
    StoreEpisodeRequest,
    StoreFactRequest,
    UpdateConversationMemoryRequest,
    default_scope,
)
from agent_reminiscence.react.scope import REGISTRY
from tests.support.brain import Asked, Brain, act

type MakeConfig = Callable[..., Config]

_SCOPE = default_scope("ana", "default")


class _Clock:
    """The time of the memory and of the service, which a test can put on."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def later(self, **by: float) -> None:
        self.now += timedelta(**by)


def _request(question: str = "What is it?", **given: Any) -> AgentRequest:
    values: dict[str, Any] = {"user": "ana", "enable_memory": True, "conversation_id": "c-1"}
    return AgentRequest(question=question, **values | given)


async def _contents(memory: AgentMem, prefix: str, scope: str = _SCOPE) -> list[str]:
    return [one.content for one in await memory.get_active_memories(scope, key_prefix=prefix)]


@pytest.mark.thorough
async def test_the_end_of_a_conversation_promotes_what_will_matter_and_records_an_episode(memory: AgentMem) -> None:
    """Once, however often it ends; and again if it has gone on."""
    facts = iter([["Ana's boat is called Mora."], ["Ana is waiting for the bus."], []])
    brain = Brain(
        lambda _: "noted",
        learn=lambda _: {"facts": next(facts)},
        close=lambda prompt: {
            "theme": "repairing the boat",
            "outcome": "A date was found.",
            "success": True,
            "lessons": ["Ask for the tide."],
            "lasting_facts": [number for number in (1, 2) if f"{number}. Ana's boat" in prompt],
        },
    )
    async with ReactMemService(brain.model, memory) as agent:
        await agent.answer(_request("My boat is called Mora."))
        await agent.drain()
        await agent.answer(_request("I am waiting for the bus."))
        await agent.drain()

        ends = [await agent.lifecycle.end_conversation("ana", "c-1") for _ in range(2)]
        await agent.answer(_request("One more thing."))
        await agent.drain()
        ends.append(await agent.lifecycle.end_conversation("ana", "c-1"))

    assert [(end.is_new, end.promoted_facts) for end in ends] == [(True, 1), (False, 0), (True, 0)]
    assert ends[0].episode_id == ends[1].episode_id != ends[2].episode_id
    hits = (await memory.retrieve_memories(_SCOPE, "Mora bus")).hits
    tiers = {hit.content: hit.tier for hit in hits}
    assert tiers["Ana's boat is called Mora."] == "longterm"
    assert tiers["Ana is waiting for the bus."] == "active"
    entities = {entity.name for entity in await memory.admin.graph.entities(_SCOPE)}
    assert "Mora" in entities
    assert (await _contents(memory, "episode/"))[0] == (
        "repairing the boat\nIt succeeded. A date was found.\n- Ask for the tide."
    )


async def test_a_conversation_that_nobody_continues_ends_by_itself(config: MakeConfig) -> None:
    """Maintenance finds it, also in another process; one that goes on is left alone."""
    clock = _Clock()
    brain = Brain(lambda _: "noted", close=lambda _: {"theme": "tea"})
    async with AgentMem(config(), clock=clock) as memory:
        async with ReactMemService(brain.model, memory, clock=clock) as agent:
            await agent.answer(_request(conversation_id="old"))
            clock.later(minutes=20)
            await agent.answer(_request(conversation_id="new"))
        clock.later(minutes=15)
        async with ReactMemService(brain.model, memory, clock=clock) as other:
            [report] = await other.lifecycle.maintain_all()
            [again] = await other.lifecycle.maintain_all()

    assert [end.conversation_id for end in report.ended] == ["old"]
    assert again.ended == ()


async def test_the_periodic_job_goes_on_after_a_fault_until_it_is_cancelled(config: MakeConfig) -> None:
    """While the memory is closed it says so and tries again; then it ends what nobody continues."""
    clock = _Clock()
    brain = Brain(lambda _: "noted", close=lambda _: {"theme": "tea"})
    memory = AgentMem(config(), clock=clock)
    async with memory, ReactMemService(brain.model, memory, clock=clock) as agent:
        await agent.answer(_request(conversation_id="old"))
    clock.later(minutes=40)

    job = asyncio.create_task(agent.lifecycle.run(interval_seconds=0.01))
    await asyncio.sleep(0.05)
    assert not job.done()
    async with memory, asyncio.timeout(120):
        tenant = default_scope("ana", "default")
        while "react.conversation.closed" not in await _kinds(memory, tenant):  # noqa: ASYNC110 - the job tells nobody
            await asyncio.sleep(0.02)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job


async def _kinds(memory: AgentMem, external_id: str) -> set[str]:
    return {event.kind for event in await memory.ledger.read(external_id)}


async def test_a_conversation_whose_end_failed_ends_at_the_next_maintenance(config: MakeConfig) -> None:
    """A model that fails costs time and nothing else."""
    clock = _Clock()
    brain = Brain(lambda _: "noted", close=lambda _: {"theme": 7})
    async with AgentMem(config(), clock=clock) as memory, ReactMemService(brain.model, memory, clock=clock) as agent:
        await agent.answer(_request())
        await agent.drain()
        clock.later(hours=1)
        with pytest.raises(NotRecordedError):
            await agent.lifecycle.end_conversation("ana", "c-1")
        assert (await agent.lifecycle.maintain("ana")).ended == ()
        brain.close = lambda _: {"theme": "tea"}
        assert len((await agent.lifecycle.maintain("ana")).ended) == 1


async def test_memories_are_archived_when_their_time_is_over(config: MakeConfig) -> None:
    """Each kind has a time to live of its own; what is archived is neither shown nor found, and not erased."""
    clock = _Clock()
    settings = ReactMemConfig(fact_ttl_days=30, episode_ttl_days=60, conversation_ttl_days=10, conversation_timeout=60)
    brain = Brain(lambda _: "noted")
    async with (
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=settings, clock=clock) as agent,
    ):
        facts, episodes = MemoryFacts(memory), MemoryEpisodes(memory)
        await facts.store_fact(StoreFactRequest(user="ana", content="The key is blue."))
        await episodes.store_episode(StoreEpisodeRequest(user="ana", goal="Find the key."))
        await agent.answer(_request("Where is the key?"))
        await agent.drain()
        reports = []
        for days in (5, 10, 20, 30):
            clock.later(days=days)
            reports.append(await agent.lifecycle.maintain("ana"))
        found = await facts.retrieve_facts(RetrieveFactsRequest(user="ana", query="Where is the key?"))

    assert [(report.archived_facts, report.archived_episodes, report.archived_conversations) for report in reports] == [
        (0, 0, 0),
        (0, 0, 1),
        (1, 0, 0),
        (0, 1, 0),
    ]
    assert found.facts == ()


async def test_a_fact_that_is_unarchived_has_its_time_again(config: MakeConfig) -> None:
    """Whoever takes back what was archived for its age does not see it archived again at the next maintenance."""
    clock = _Clock()
    brain = Brain(lambda _: "noted")
    async with (
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=ReactMemConfig(fact_ttl_days=30), clock=clock) as agent,
    ):
        facts = MemoryFacts(memory)
        await facts.store_fact(StoreFactRequest(user="ana", content="The key is blue."))
        [(tenant, fact)] = [
            (one.external_id, fact)
            for one in await memory.admin.tenants()
            for fact in await memory.get_active_memories(one.external_id)
        ]
        clock.later(days=40)
        archived = await agent.lifecycle.maintain("ana")
        await memory.admin.unarchive(tenant, fact.id)
        reports = []
        for days in (1, 40):
            clock.later(days=days)
            reports.append((await agent.lifecycle.maintain("ana")).archived_facts)

    assert archived.archived_facts == 1
    assert reports == [0, 1]


async def test_unused_memories_are_pruned_and_used_ones_are_kept(config: MakeConfig) -> None:
    """A fact that a question was shown stays; one that no question reached for so long goes."""
    clock = _Clock()
    # Too little for both: where all facts fit, every question is shown all of them.
    settings = ReactMemConfig(
        prune_unused_days=30, fact_retrieval_top_k=1, episode_retrieval_top_k=0, memory_token_budget=100
    )
    about = "of the old mill that stands at the bend of the river"
    key, oven = f"The key {about} is blue.", f"The oven {about} is broken."
    brain = Brain(lambda _: "noted")
    async with (
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=settings, clock=clock) as agent,
    ):
        facts = MemoryFacts(memory)
        for content in (key, oven):
            await facts.store_fact(StoreFactRequest(user="ana", content=content))
        clock.later(days=20)
        await agent.answer(_request("Is the key blue?"))
        await agent.drain()
        clock.later(days=20)
        first = await agent.lifecycle.maintain("ana")
        kept = await _contents(memory, "fact/")
        clock.later(days=20)
        second = await agent.lifecycle.maintain("ana")

    assert (first.archived_facts, kept) == (1, [key])
    assert second.archived_facts == 1


async def test_a_quota_refuses_what_is_too_much_as_a_value(memory: AgentMem) -> None:
    """What is stored already is no addition; a deletion makes room."""
    facts = MemoryFacts(memory, max_facts=2)
    stored = [
        await facts.store_fact(StoreFactRequest(user="ana", content=content))
        for content in ("one", "two", "one", "three")
    ]

    assert [one.error and one.error.reason for one in stored] == [None, None, None, "quota_exceeded"]
    assert stored[0].fact_id is not None
    await facts.delete_fact(DeleteFactRequest(user="ana", fact_id=stored[0].fact_id))
    assert (await facts.store_fact(StoreFactRequest(user="ana", content="three"))).error is None
    assert (await facts.store_fact(StoreFactRequest(user="ben", content="four"))).error is None


@pytest.mark.thorough
async def test_maintenance_keeps_the_newest_within_a_quota(config: MakeConfig) -> None:
    """Also where the limit was lowered."""
    clock = _Clock()
    settings = ReactMemConfig(max_facts=2, max_episodes=1, max_conversations=1)
    brain = Brain(lambda _: "noted")
    async with (
        AgentMem(config(), clock=clock) as memory,
        ReactMemService(brain.model, memory, config=settings, clock=clock) as agent,
    ):
        for content in ("one", "two", "three"):
            await MemoryFacts(memory).store_fact(StoreFactRequest(user="ana", content=content))
            await MemoryEpisodes(memory).store_episode(StoreEpisodeRequest(user="ana", goal=content))
            await agent.answer(_request(conversation_id=content))
            await agent.drain()
        report = await agent.lifecycle.maintain("ana")
        listed = await MemoryConversations(memory).list_conversations(ListConversationsRequest(user="ana"))

        assert (report.archived_facts, report.archived_episodes, report.archived_conversations) == (1, 2, 2)
        assert await _contents(memory, "fact/") == ["two", "three"]
        assert [one.conversation_id for one in listed.conversations] == ["three"]


@pytest.mark.thorough
async def test_a_purged_conversation_is_gone_with_its_facts_and_episodes(memory: AgentMem) -> None:
    """The receipt proves it; other conversations stay."""
    brain = Brain(_works, learn=_learns)
    async with ReactMemService(brain.model, memory, toolsets=[_tools()]) as agent:
        for name in ("giraffe", "walrus"):
            await agent.answer(_request(f"Tell me about the {name}.", conversation_id=f"c-{name}"))
            await agent.drain()
        receipt = await agent.lifecycle.purge_conversation("ana", "c-giraffe")

    check = await memory.admin.verify_erased(receipt, text="giraffe")
    assert check.findings == ()
    assert "giraffe" not in await _everything(memory, _SCOPE)
    assert "walrus" in await _everything(memory, _SCOPE)
    assert (await memory.admin.verify(_SCOPE)).ok


@pytest.mark.thorough
async def test_a_purged_user_is_gone_from_every_collection_and_from_the_list(memory: AgentMem) -> None:
    """Other users stay."""
    brain = Brain(_works, learn=_learns)
    async with ReactMemService(brain.model, memory, toolsets=[_tools()]) as agent:
        for user, collection in (("ana", "default"), ("ana", "work"), ("ben", "default")):
            await agent.answer(_request("Tell me about the giraffe.", user=user, collection=collection))
        await agent.drain()
        await agent.lifecycle.set_memory("ana", enabled=False)

        receipts = await agent.lifecycle.purge_user("ana")

        assert len(receipts) == 3
        for collection in ("default", "work"):
            assert "giraffe" not in await _everything(memory, default_scope("ana", collection))
        assert "'ana'" not in await _everything(memory, REGISTRY)
        assert "giraffe" in await _everything(memory, default_scope("ben", "default"))
        assert [report.user for report in await agent.lifecycle.maintain_all()] == ["ben"]
        assert await agent.lifecycle.purge_user("nobody") == []
        with pytest.raises(ExternalIdNotFoundError):
            await agent.lifecycle.purge_collection("nobody")


@pytest.mark.thorough
async def test_a_purge_is_not_undone_by_what_is_still_being_recorded(memory: AgentMem) -> None:
    """An invocation that was answered before the purge leaves nothing after it, though its model learns late."""
    brain = Brain(_works, learn=_learns)
    first = ReactMemService(brain.model, memory, toolsets=[_tools()])
    await first.answer(_request("Tell me about the giraffe."))
    receipt_of_running = await first.lifecycle.purge_collection("ana")
    await first.drain()
    assert "giraffe" not in await _everything(memory, _SCOPE)
    assert receipt_of_running.external_id == _SCOPE

    # Another process has read the event and learns from it while the purge is done elsewhere.
    await first.answer(_request("Tell me about the giraffe."))
    await first.drain()
    [finished] = [
        event
        for event in await memory.ledger.read(_SCOPE, limit=1_000)
        if event.kind.endswith(".finished") and event.payload
    ]
    await memory.admin.erase(_SCOPE)
    other = ReactMemService(brain.model, memory, toolsets=[_tools()])
    await other.lifecycle.record(_SCOPE, finished)
    assert "giraffe" not in await _everything(memory, _SCOPE)


async def test_facts_are_stored_found_and_deleted_through_their_service(memory: AgentMem) -> None:
    """Errors are values; the same words are one fact, and an id of the caller's own counts."""
    facts = MemoryFacts(memory)
    one = await facts.store_fact(
        StoreFactRequest(user="ana", content="The key is blue.", source="c-1", metadata={"a": [1]})
    )
    same = await facts.store_fact(StoreFactRequest(user="ana", content="the KEY  is blue."))
    named = await facts.store_fact(StoreFactRequest(user="ana", content="The oven is warm.", id="my-id"))

    assert one.fact_id == same.fact_id
    assert named.fact_id == "my-id"
    found = await facts.retrieve_facts(
        RetrieveFactsRequest(user="ana", query="Which colour has the key? Is it blue?", top_k=1)
    )
    [fact] = found.facts
    assert (fact.id, fact.content, fact.source, fact.metadata) == (one.fact_id, "The key is blue.", "c-1", {"a": [1]})
    assert (await facts.retrieve_facts(RetrieveFactsRequest(user="ana", query="key", top_k=0))).facts == ()
    assert (await facts.delete_fact(DeleteFactRequest(user="ana", fact_id="my-id", purge=True))).success
    assert (await facts.delete_fact(DeleteFactRequest(user="ana", fact_id="my-id"))).success
    assert "oven" not in await _everything(memory, _SCOPE)
    refused = await facts.store_fact(StoreFactRequest(user=" ana", content="x", id="y" * 256))
    assert refused.error is not None
    assert refused.error.reason == "invalid_request"


async def test_episodes_are_found_by_query_and_state(memory: AgentMem) -> None:
    """And deleted like facts."""
    episodes = MemoryEpisodes(memory)
    for goal, lesson in (("Repair the boat.", "Wait for low tide."), ("Repair the oven.", "Unplug it first.")):
        await episodes.store_episode(
            StoreEpisodeRequest(user="ana", goal=goal, lessons=(lesson,), success=True, id=goal[11:15])
        )

    found = await episodes.retrieve_episodes(
        RetrieveEpisodesRequest(user="ana", query="What shall I repair?", state="standing at the oven", top_k=1)
    )
    assert [(one.id, one.lessons) for one in found.episodes] == [("oven", ("Unplug it first.",))]
    await episodes.delete_episode(DeleteEpisodeRequest(user="ana", episode_id="oven"))
    found = await episodes.retrieve_episodes(RetrieveEpisodesRequest(user="ana", query="Repair the oven."))
    assert [one.id for one in found.episodes] == ["boat"]


@pytest.mark.thorough
async def test_a_conversation_is_read_listed_and_deleted_through_its_service(memory: AgentMem) -> None:
    """Archived, it begins anew; purged, it is gone from the ledger."""
    conversations = MemoryConversations(memory)
    for number in range(30):
        for conversation in ("c-1", "c-2"):
            await conversations.update_conversation(
                UpdateConversationMemoryRequest(
                    user="ana",
                    conversation_id=conversation,
                    invocation_summary=InvocationSummary(
                        query=f"{conversation} question {number}",
                        summary="did",
                        result="done",
                        timestamp=datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=number),
                        invocation_id=f"i-{number}",
                    ),
                )
            )

    async def read(limit: int, user: str = "ana") -> tuple[list[int], int | None]:
        found = await conversations.get_conversation(
            GetConversationMemoryRequest(user=user, conversation_id="c-1", limit=limit)
        )
        assert found.conversation is not None
        return [int(one.query.split()[-1]) for one in found.conversation.invocations], found.conversation.gap_after

    assert await read(500) == (list(range(30)), None)
    assert await read(30) == (list(range(30)), None)
    assert await read(20) == ([0, 1, 2, *range(13, 30)], 3)
    assert await read(8) == ([0, 1, 24, 25, 26, 27, 28, 29], 2)
    assert await read(3) == ([27, 28, 29], 0)
    assert await read(1) == ([29], 0)
    assert await read(5, user="ben") == ([], None)
    listed = await conversations.list_conversations(ListConversationsRequest(user="ana"))
    assert [(one.conversation_id, one.last_query) for one in listed.conversations] == [
        ("c-2", "c-2 question 29"),
        ("c-1", "c-1 question 29"),
    ]

    await conversations.delete_conversation(DeleteConversationRequest(user="ana", conversation_id="c-1"))
    assert await read(10) == ([], None)
    listed = await conversations.list_conversations(ListConversationsRequest(user="ana"))
    assert [one.conversation_id for one in listed.conversations] == ["c-2"]
    await conversations.delete_conversation(DeleteConversationRequest(user="ana", conversation_id="c-1", purge=True))
    assert "c-1 question" not in await _everything(memory, _SCOPE)


@pytest.mark.thorough
async def test_what_a_service_purges_has_receipts_and_what_it_does_not_know_is_gone_already(memory: AgentMem) -> None:
    """They are checked like those of a whole collection."""
    facts, episodes, conversations = MemoryFacts(memory), MemoryEpisodes(memory), MemoryConversations(memory)
    unknown = [
        await facts.delete_fact(DeleteFactRequest(user="ana", fact_id="f", purge=True)),
        await episodes.delete_episode(DeleteEpisodeRequest(user="ana", episode_id="e", purge=True)),
        await conversations.delete_conversation(
            DeleteConversationRequest(user="ana", conversation_id="c-1", purge=True)
        ),
    ]
    await facts.store_fact(StoreFactRequest(user="ana", content="Ana saw a giraffe.", id="f"))
    await episodes.store_episode(StoreEpisodeRequest(user="ana", goal="Find the giraffe.", id="e"))
    said = InvocationSummary(query="Which giraffe?", summary="", result="", timestamp=datetime(2026, 3, 1, tzinfo=UTC))
    await conversations.update_conversation(
        UpdateConversationMemoryRequest(user="ana", conversation_id="c-1", invocation_summary=said)
    )
    archived = await facts.delete_fact(DeleteFactRequest(user="ana", fact_id="f"))
    purged = [
        await facts.delete_fact(DeleteFactRequest(user="ana", fact_id="f", purge=True)),
        await episodes.delete_episode(DeleteEpisodeRequest(user="ana", episode_id="e", purge=True)),
        await conversations.delete_conversation(
            DeleteConversationRequest(user="ana", conversation_id="c-1", purge=True)
        ),
    ]

    assert [(one.success, one.error, one.receipts) for one in (*unknown, archived)] == [(True, None, ())] * 4
    for done in purged:
        assert done.success
        assert done.receipts
        for receipt in done.receipts:
            assert (await memory.admin.verify_erased(receipt)).findings == ()
    assert "giraffe" not in await _everything(memory, _SCOPE)


async def test_a_conversation_keeps_what_is_said_about_it(memory: AgentMem) -> None:
    """What was said last counts."""
    conversations = MemoryConversations(memory)
    for number, metadata in enumerate(({"title": "Boats", "language": "en"}, {}, {"title": "Boats and tides"})):
        said = InvocationSummary(
            query="q", summary="", result="", timestamp=datetime(2026, 3, 1, tzinfo=UTC), invocation_id=f"i-{number}"
        )
        await conversations.update_conversation(
            UpdateConversationMemoryRequest(
                user="ana", conversation_id="c-1", invocation_summary=said, metadata=metadata
            )
        )
    found = await conversations.get_conversation(GetConversationMemoryRequest(user="ana", conversation_id="c-1"))

    assert found.conversation is not None
    assert found.conversation.metadata == {"title": "Boats and tides", "language": "en"}


def _tools() -> FunctionToolset[Any]:
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def look(at: str) -> str:
        """Look at something."""
        return f"a {at}"

    return tools


def _works(asked: Asked) -> ModelResponse | str:
    name = "walrus" if "walrus" in asked.prompt.splitlines()[-1] else "giraffe"
    return act("look", at=name) if asked.turn < 2 else f"It is a {name}."


def _learns(transcript: str) -> dict[str, Any]:
    name = "walrus" if "the walrus" in transcript else "giraffe"
    return {"facts": [f"Ana saw a {name}."], "success": True, "lessons": [f"Look at the {name} twice."]}


async def _everything(memory: AgentMem, scope: str) -> str:
    """All that a stream holds, as text."""
    events = await memory.ledger.read(scope, limit=1_000)
    memories = await memory.get_active_memories(scope)
    told = (event.model_dump(exclude={"salt", "digest", "chain", "request_hash"}) for event in events)
    return "\n".join(map(repr, [*told, *memories]))
