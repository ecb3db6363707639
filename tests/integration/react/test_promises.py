"""What went wrong once: secrets in answers, memory that is off, purges, and what comes too early or too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.react import (
    AgentFailure,
    AgentRequest,
    DeleteFactRequest,
    GetConversationMemoryRequest,
    GetConversationMemoryResponse,
    MemoryConversations,
    MemoryEpisodes,
    MemoryFacts,
    MemoryServices,
    ReactMemConfig,
    ReactMemService,
    ReactService,
    RetrieveEpisodesRequest,
    RetrieveEpisodesResponse,
    RetrieveFactsRequest,
    RetrieveFactsResponse,
    StoreEpisodeRequest,
    StoreEpisodeResponse,
    StoreFactRequest,
    UpdateConversationMemoryRequest,
    UpdateConversationMemoryResponse,
    default_scope,
)
from tests.support.brain import Asked, Brain, act

_SCOPE = default_scope("ana", "default")
_KEY = "sk-proj-4f8a9b2c1d7e6f5a4b3c2d1e0f9a8b7c"


def _request(question: str = "What is it?", **given: Any) -> AgentRequest:
    values: dict[str, Any] = {"user": "ana", "enable_memory": True, "conversation_id": "c-1"}
    return AgentRequest(question=question, **values | given)


async def _kinds(memory: AgentMem) -> list[str]:
    return [event.kind for event in await memory.ledger.read(_SCOPE, limit=1_000)]


async def _everything(memory: AgentMem) -> str:
    events = await memory.ledger.read(_SCOPE, limit=1_000)
    told = (event.model_dump(exclude={"salt", "digest", "chain", "request_hash"}) for event in events)
    return "\n".join(map(repr, [*told, *await memory.get_active_memories(_SCOPE)]))


async def test_a_secret_in_an_answer_reaches_the_client_and_not_the_memory(memory: AgentMem) -> None:
    """What is recorded is redacted; the answer of this very run is not."""
    brain = Brain(lambda _: f"Use api_key = {_KEY}.")
    config = ReactMemConfig(learn_with="rules", show_retrieval=True)
    async with ReactMemService(brain.model, memory, config=config) as agent:
        response = await agent.answer(_request(invocation_id="i-1"))
        again = await agent.answer(_request(invocation_id="i-1"))

    assert _KEY in response.answer
    assert response.memory is not None
    assert _KEY not in again.answer
    assert _KEY not in await _everything(memory)


async def test_nothing_is_written_of_a_user_whose_memory_is_off(memory: AgentMem) -> None:
    """Neither by a question that would recall something, nor by maintenance of what was left undone before."""
    await MemoryEpisodes(memory).store_episode(StoreEpisodeRequest(user="ana", goal="Open the vault."))
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": 7})
    async with ReactMemService(brain.model, memory) as agent:
        await agent.answer(_request("Open the vault."))
        await agent.drain()
        await agent.lifecycle.set_memory("ana", enabled=False)
        before = await _kinds(memory)
        brain.learn = lambda _: {"facts": ["Ana lives in Graz."]}

        await agent.answer(_request("Open the vault."))
        await agent.drain()
        await agent.lifecycle.maintain_all()
        await agent.lifecycle.end_conversation("ana", "c-1")

    assert await _kinds(memory) == before
    assert "memory.recalled" in before


async def test_a_memory_that_is_switched_off_during_a_run_is_written_nothing_of_it(memory: AgentMem) -> None:
    """Neither by the run's tool nor when it is answered; the client gets the answer, and is told."""
    brain = Brain(
        lambda asked: (
            (act("switch"), act("store_fact", fact_content="A giraffe."))[asked.turn] if asked.turn < 2 else "noted"
        )
    )
    tools: FunctionToolset[Any] = FunctionToolset()
    agent = ReactMemService(brain.model, memory, toolsets=[tools])

    @tools.tool_plain
    async def switch() -> str:
        """Switch it off."""
        await agent.lifecycle.set_memory("ana", enabled=False)
        return "off"

    async with agent:
        response = await agent.answer(_request("What is a giraffe?"))

    assert (response.answer, response.error) == ("noted", None)
    assert response.steps[1].observation.startswith("Not stored: the memory was switched off")
    assert response.warnings == ("not recorded: the memory was switched off meanwhile, or something in it erased",)
    assert await _kinds(memory) == []


@pytest.mark.thorough
async def test_what_is_being_answered_during_a_purge_does_not_bring_back_what_it_was_shown(memory: AgentMem) -> None:
    """The answer may quote it, and a tool may store it; the next question is recorded again."""
    await MemoryFacts(memory).store_fact(StoreFactRequest(user="ana", content="Ana saw a giraffe."))
    tools: FunctionToolset[Any] = FunctionToolset()
    brain = Brain(
        lambda asked: (
            (act("purge"), act("store_fact", fact_content="Ana saw a giraffe."))[asked.turn]
            if asked.turn < 2
            else "A giraffe."
        )
    )
    agent = ReactMemService(brain.model, memory, toolsets=[tools], config=ReactMemConfig(learn_with="rules"))

    @tools.tool_plain
    async def purge() -> str:
        """Erase everything."""
        await agent.lifecycle.purge_user("ana")
        return "erased"

    async with agent:
        response = await agent.answer(_request("What was it that Ana saw?"))
        brain.reason = lambda _: "noted"
        await agent.answer(_request("And now?"))

    assert "Ana saw a giraffe." in brain.asked[0].prompt
    assert (response.answer, response.error) == ("A giraffe.", None)
    assert response.warnings
    assert "giraffe" not in await _everything(memory)
    assert (await _kinds(memory)).count("react.invocation") == 1


async def test_a_deployment_that_only_reads_maintains_nothing(memory: AgentMem) -> None:
    """Its process may run maintenance beside one that writes."""
    brain = Brain(lambda _: "noted", close=lambda _: {"theme": "tea"})
    async with ReactMemService(brain.model, memory) as agent:
        await agent.answer(_request())
    before = await _kinds(memory)

    def later() -> datetime:
        return datetime.now(UTC) + timedelta(days=3)

    config = ReactMemConfig(memory_mode="read", conversation_ttl_days=1)
    async with ReactMemService(brain.model, memory, clock=later, config=config) as agent:
        await agent.lifecycle.maintain("ana")

    assert await _kinds(memory) == before


@pytest.mark.thorough
async def test_a_purge_finds_what_any_process_and_any_service_has_written(memory: AgentMem) -> None:
    """Also what was written after an earlier purge, through a service alone, or by a tool of a run without an end."""
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": ["Ana saw a giraffe."]})
    one, other = (ReactMemService(brain.model, memory) for _ in range(2))
    for agent in (one, other):
        await agent.answer(_request("giraffe?"))
        await agent.drain()
    await one.lifecycle.purge_user("ana")
    await other.answer(_request("giraffe again?"))
    await other.drain()
    assert await one.lifecycle.purge_user("ana") != []
    assert "giraffe" not in await _everything(memory)

    await MemoryFacts(memory).store_fact(StoreFactRequest(user="ana", content="Ana saw a giraffe."))
    await one.lifecycle.purge_user("ana")
    assert "giraffe" not in await _everything(memory)

    begun = asyncio.Event()
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    brain = Brain(lambda asked: act("wait") if asked.turn else act("store_fact", fact_content="Ana saw a giraffe."))
    async with ReactMemService(brain.model, memory, toolsets=[tools]) as agent:
        running = asyncio.create_task(agent.answer(_request()))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert "giraffe" in await _everything(memory)
        await agent.lifecycle.purge_user("ana")
    assert "giraffe" not in await _everything(memory)


@pytest.mark.thorough
async def test_a_purged_fact_leaves_its_words_nowhere(memory: AgentMem) -> None:
    """Not where it was learned, and not if it had been archived."""
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": ["Ana saw a giraffe."]})
    async with ReactMemService(brain.model, memory) as agent:
        await agent.answer(_request("What did I see?"))
    facts = MemoryFacts(memory)
    [fact] = await memory.get_active_memories(_SCOPE, key_prefix="fact/")
    assert fact.key is not None
    fact_id = fact.key.removeprefix("fact/")
    assert (await facts.delete_fact(DeleteFactRequest(user="ana", fact_id=fact_id))).success
    assert "giraffe" in await _everything(memory)

    assert (await facts.delete_fact(DeleteFactRequest(user="ana", fact_id=fact_id, purge=True))).success

    assert "giraffe" not in await _everything(memory)


async def test_the_next_question_is_shown_the_one_before_it(memory: AgentMem) -> None:
    """However soon it comes."""
    brain = Brain(lambda _: "noted")
    async with ReactMemService(brain.model, memory) as agent:
        await agent.answer(_request("The word is giraffe."))
        await agent.answer(_request("What was the word?"))

    assert "User asked: The word is giraffe.;" in brain.asked[1].prompt


async def test_a_long_answer_does_not_hide_the_conversation(memory: AgentMem) -> None:
    """It is shown by its beginning; the newest invocation is always there."""
    brain = Brain(lambda _: "A long story. " * 1_000)
    config = ReactMemConfig(memory_token_budget=200)
    async with ReactMemService(brain.model, memory, config=config) as agent:
        for number in range(4):
            await agent.answer(_request(f"Tell story number {number}."))

    assert "Tell story number 2." in brain.asked[-1].prompt
    assert len(brain.asked[-1].prompt) < 2_000


async def test_a_conversation_whose_episode_could_not_be_stored_is_closed_later(memory: AgentMem) -> None:
    """Its theme is known already, and the model is not asked again."""

    class Broken(MemoryEpisodes):
        is_broken = True

        async def store_episode(self, request: StoreEpisodeRequest) -> StoreEpisodeResponse:
            if self.is_broken:
                return StoreEpisodeResponse(error=AgentFailure(reason="memory_failed", message="away"))
            return await super().store_episode(request)

    episodes = Broken(memory)
    services = replace(MemoryServices.of(memory), episode_storage=episodes)
    brain = Brain(lambda _: "noted", close=lambda _: {"theme": "tea"})

    def later() -> datetime:
        return datetime.now(UTC) + timedelta(hours=2)

    async with ReactMemService(brain.model, memory) as agent:
        await agent.answer(_request())
    async with ReactMemService(brain.model, memory, services=services, clock=later) as agent:
        assert (await agent.lifecycle.maintain("ana")).ended == ()
        asked = len(brain.transcripts)
        episodes.is_broken = False
        report = await agent.lifecycle.maintain("ana")

    assert [end.conversation_id for end in report.ended] == ["c-1"]
    assert len(brain.transcripts) == asked
    assert [one.content for one in await memory.get_active_memories(_SCOPE, key_prefix="episode/")] == ["tea"]


async def test_an_invocation_id_names_one_question_of_one_conversation(memory: AgentMem) -> None:
    """Another question is refused without asking a model; in another conversation the id is another one."""
    brain = Brain(lambda asked: f"answer to {asked.prompt.splitlines()[-1]}")
    async with ReactMemService(brain.model, memory, config=ReactMemConfig(learn_with="rules")) as agent:
        await agent.answer(_request("one", invocation_id="i-1"))
        other = await agent.answer(_request("two", invocation_id="i-1"))
        elsewhere = await agent.answer(_request("three", invocation_id="i-1", conversation_id="c-2"))

    assert other.error is not None
    assert (other.error.reason, other.answer) == ("conflict", "")
    assert elsewhere.answer == "answer to three"
    assert (await _kinds(memory)).count("react.invocation") == 2


async def test_sensitive_outcomes_and_themes_are_not_kept(memory: AgentMem) -> None:
    """Whatever a model draws is looked at, not only facts."""
    drawn = {"success": True, "outcome": "Ana has diabetes.", "lessons": ["Ana's PIN is 4471."], "facts": []}
    brain = Brain(
        lambda asked: act("look") if asked.turn < 2 else "done",
        learn=lambda _: drawn,
        close=lambda _: {"theme": "Ana has diabetes."},
    )
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def look() -> str:
        """Look."""
        return "nothing"

    async with ReactMemService(brain.model, memory, toolsets=[tools]) as agent:
        await agent.answer(_request())
        await agent.drain()
        await agent.lifecycle.end_conversation("ana", "c-1")

    episodes = await memory.get_active_memories(_SCOPE, key_prefix="episode/")
    assert len(episodes) == 1
    assert "diabetes" not in repr(episodes)
    assert "4471" not in repr(episodes)


@pytest.mark.parametrize("odd", ["\ud800", "\x00", "nan"])
async def test_what_no_database_can_hold_costs_nothing(memory: AgentMem, odd: str) -> None:
    """A tool may return, and a model may pass, whatever Python holds."""
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def look(at: float = 0.0) -> str:
        """Look."""
        return f"seen {at} {odd}"

    def reason(asked: Asked) -> ModelResponse | str:
        return act("look", at=float("nan")) if asked.turn < 2 else f"done {odd}"

    brain = Brain(reason)
    async with ReactMemService(brain.model, memory, toolsets=[tools]) as agent:
        response = await agent.answer(_request())

    assert (response.error, response.warnings) == (None, ())
    assert "react.invocation.recorded" in await _kinds(memory)


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("no"), RecursionError("no")])
async def test_no_error_of_a_model_or_its_tools_is_raised(error: Exception) -> None:
    """It is a failure in the response; and no timeout is claimed that nobody set."""

    def reason(_: Asked) -> str:
        raise error

    response = await ReactService(Brain(reason).model).answer(_request())

    assert response.error is not None
    assert response.error.reason == "model_failed"
    assert type(error).__name__ in response.error.message


async def test_a_quota_holds_for_stores_at_the_same_moment(memory: AgentMem) -> None:
    """Of one process; the rest is refused."""
    facts = MemoryFacts(memory, max_facts=3)

    stored = await asyncio.gather(
        *(facts.store_fact(StoreFactRequest(user="ana", content=f"fact number {n}")) for n in range(10))
    )

    assert sum(one.error is None for one in stored) == 3
    assert len(await memory.get_active_memories(_SCOPE)) == 3


async def test_one_invocation_that_cannot_be_recorded_holds_up_nobody(memory: AgentMem) -> None:
    """A model that draws a novel as a fact: it is left out."""
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": ["x" * 20_000, "Ana likes tea."]})
    async with ReactMemService(brain.model, memory) as agent:
        await agent.answer(_request())
        await agent.drain()
        reports = await agent.lifecycle.maintain_all()

    assert [report.not_recorded for report in reports] == [0]
    assert [one.content for one in await memory.get_active_memories(_SCOPE)] == ["Ana likes tea."]


async def test_how_much_a_collection_holds_is_counted(memory: AgentMem) -> None:
    """To be exported as a gauge of one's own."""
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": ["Ana likes tea."]})
    async with ReactMemService(brain.model, memory) as agent:
        await agent.answer(_request())
        await agent.drain()
        usage = await agent.lifecycle.usage("ana")

    assert (usage.facts, usage.episodes, usage.conversations) == (1, 0, 1)
    assert usage.memory.active_memories == 1


async def test_facts_episodes_and_the_conversation_are_read_at_the_same_time(memory: AgentMem) -> None:
    """None of them is begun only when another has been read."""
    all_begun = asyncio.Barrier(3)

    class Facts(MemoryFacts):
        async def retrieve_facts(self, request: RetrieveFactsRequest) -> RetrieveFactsResponse:
            await all_begun.wait()
            return await super().retrieve_facts(request)

    class Episodes(MemoryEpisodes):
        async def retrieve_episodes(self, request: RetrieveEpisodesRequest) -> RetrieveEpisodesResponse:
            await all_begun.wait()
            return await super().retrieve_episodes(request)

    class Conversations(MemoryConversations):
        async def get_conversation(self, request: GetConversationMemoryRequest) -> GetConversationMemoryResponse:
            await all_begun.wait()
            return await super().get_conversation(request)

    services = replace(
        MemoryServices.of(memory),
        fact_retrieval=Facts(memory),
        episode_retrieval=Episodes(memory),
        conversations=Conversations(memory),
    )
    async with ReactMemService(
        Brain(lambda _: "noted").model, memory, services=services, config=ReactMemConfig(memory_mode="read")
    ) as agent:
        response = await agent.answer(_request())

    assert (response.answer, response.warnings) == ("noted", ())


@pytest.mark.parametrize("fits", [True, False])
async def test_only_what_is_searched_by_is_embedded(config: Callable[..., Config], fits: bool) -> None:
    """The question for facts where not all are shown, and the question with the state for episodes."""

    class Counting(HashEmbedder):
        is_local = False

        def __init__(self) -> None:
            super().__init__(64)
            self.requests: list[list[str]] = []

        async def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
            self.requests.append(list(texts))
            return await super().embed_queries(texts)

    embedder = Counting()
    async with AgentMem(config(), embedder=embedder) as memory:
        await MemoryFacts(memory).store_fact(StoreFactRequest(user="ana", content="Ana has a boat."))
        settings = ReactMemConfig(memory_mode="read", memory_token_budget=2_000 if fits else 100)
        if not fits:
            long = f"Ana sails with {', '.join(f'sailor {n}' for n in range(20))}."
            await MemoryFacts(memory).store_fact(StoreFactRequest(user="ana", content=long))
        async with ReactMemService(Brain(lambda _: "noted").model, memory, config=settings) as agent:
            await agent.answer(_request("Where is the boat?", state="at sea"))

    asked = [text for request in embedder.requests for text in request]
    assert sorted(asked) == [*([] if fits else ["Where is the boat?"]), "Where is the boat?\nat sea"]


@pytest.mark.parametrize("phase", ["recall", "model"])
async def test_a_run_that_is_cancelled_early_leaves_nothing_and_can_be_repeated(memory: AgentMem, phase: str) -> None:
    """While the memory is read, or while the model thinks."""
    reached = asyncio.Event()
    is_waiting = True

    async def wait() -> None:
        if is_waiting:
            reached.set()
            await asyncio.Event().wait()

    class Slow(MemoryFacts):
        async def retrieve_facts(self, request: RetrieveFactsRequest) -> RetrieveFactsResponse:
            if phase == "recall":
                await wait()
            return await super().retrieve_facts(request)

    async def reason(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        if phase == "model":
            await wait()
        return ModelResponse(parts=[TextPart("noted")])

    services = replace(MemoryServices.of(memory), fact_retrieval=Slow(memory))
    config = ReactMemConfig(learn_with="rules")
    async with ReactMemService(FunctionModel(reason), memory, services=services, config=config) as agent:
        running = asyncio.create_task(agent.answer(_request(invocation_id="i-1")))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await _kinds(memory) == []

        is_waiting = False
        assert (await agent.answer(_request(invocation_id="i-1"))).answer == "noted"
        await agent.drain()

    assert (await _kinds(memory)).count("react.invocation") == 1


async def test_a_caller_that_is_cancelled_while_the_answer_is_noted_is_remembered(memory: AgentMem) -> None:
    """The answer may be on its way: it is recorded, once."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    class Slow(MemoryConversations):
        async def update_conversation(
            self, request: UpdateConversationMemoryRequest
        ) -> UpdateConversationMemoryResponse:
            reached.set()
            await go_on.wait()
            return await super().update_conversation(request)

    services = replace(MemoryServices.of(memory), conversations=Slow(memory))
    brain = Brain(lambda _: "noted", learn=lambda _: {"facts": ["Ana likes tea."]})
    async with ReactMemService(brain.model, memory, services=services) as agent:
        running = asyncio.create_task(agent.answer(_request()))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        go_on.set()

    kinds = await _kinds(memory)
    assert [kinds.count(kind) for kind in ("react.invocation", "react.invocation.recorded", "memory.created")] == [
        *[1] * 3
    ]
    assert len(brain.transcripts) == 1
