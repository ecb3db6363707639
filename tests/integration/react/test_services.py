"""A service is chosen by configuration, its texts can be replaced, and so can each part of its memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem, Config, ConfigurationError
from agent_reminiscence.react import (
    AgentFailure,
    AgentRequest,
    AgentService,
    ConversationMemory,
    ConversationMemoryService,
    ConversationOutline,
    DeleteConversationRequest,
    DeleteEpisodeRequest,
    DeleteFactRequest,
    DeleteResponse,
    Episode,
    EpisodeRetrieval,
    EpisodeStorage,
    Fact,
    FactRetrieval,
    FactStorage,
    GetConversationMemoryRequest,
    GetConversationMemoryResponse,
    InvocationSummary,
    ListConversationsRequest,
    ListConversationsResponse,
    MemoryServices,
    ReactMemConfig,
    ReactMemService,
    ReactPrompts,
    ReactService,
    RecordUseRequest,
    RecordUseResponse,
    RetrieveEpisodesRequest,
    RetrieveEpisodesResponse,
    RetrieveFactsRequest,
    RetrieveFactsResponse,
    StoreEpisodeRequest,
    StoreEpisodeResponse,
    StoreFactRequest,
    StoreFactResponse,
    UpdateConversationMemoryRequest,
    UpdateConversationMemoryResponse,
    create_agent_service,
    default_scope,
)
from agent_reminiscence.react.scope import Scope
from agent_reminiscence.redaction.redactor import Redaction
from tests.support.brain import Brain, act, texts_of

_REQUEST = AgentRequest(question="What is it?", user="ana", conversation_id="c-1", enable_memory=True)


class _Shelf:
    """Facts in a dict, of a service that is not ours."""

    def __init__(self) -> None:
        self.facts: dict[str, str] = {"1": "Ana has a boat."}
        self.fails = False

    async def retrieve_facts(self, request: RetrieveFactsRequest) -> RetrieveFactsResponse:
        if self.fails:
            return RetrieveFactsResponse(error=AgentFailure(reason="memory_failed", message="the shelf is locked"))
        now = datetime(2026, 3, 1, tzinfo=UTC)
        found = [Fact(id=key, content=content, timestamp=now) for key, content in self.facts.items()]
        return RetrieveFactsResponse(facts=tuple(found[: request.top_k]))

    async def store_fact(self, request: StoreFactRequest) -> StoreFactResponse:
        self.facts[request.content] = request.content
        return StoreFactResponse(fact_id=request.content)

    async def delete_fact(self, request: DeleteFactRequest) -> DeleteResponse:
        return DeleteResponse(success=self.facts.pop(request.fact_id, None) is not None)


async def test_a_configuration_chooses_the_service(memory: AgentMem) -> None:
    """The same request, and a client that knows only the protocol."""
    for sections, kind in (({"agent": {}}, ReactService), ({"agent-mem": {}}, ReactMemService)):
        service: AgentService = create_agent_service(sections, Brain(lambda _: "done").model, memory)
        assert type(service) is kind
        assert (await service.answer(_REQUEST)).answer == "done"
        await service.close()

    with pytest.raises(ConfigurationError, match="needs a memory"):
        create_agent_service({"agent-mem": {}}, Brain(lambda _: "done").model)


def shelf_of(memory: AgentMem, config: ReactMemConfig, scope: Scope) -> MemoryServices:
    """Services that a configuration names: with a shelf for the facts."""
    shelf = _Shelf()
    shelf.facts["oar"] = "Ana has an oar."
    return replace(MemoryServices.of(memory, config, scope), fact_retrieval=shelf, fact_storage=shelf)


def by_team(user: str, collection: str) -> str:
    """A scope that a configuration names."""
    return f"team/{user}/{collection}"


@pytest.mark.parametrize("is_named", [True, False])
async def test_a_configuration_chooses_services_scope_and_who_sums_up(memory: AgentMem, is_named: bool) -> None:
    """By name in the section, or as arguments; either way the client notices nothing."""
    brain = Brain(
        lambda asked: act("look", at=asked.turn) if len(brain.asked) < 12 else "done",
        learn=lambda _: {"facts": []},
        summarise=lambda _: "All was looked at.",
    )
    tools: FunctionToolset[Any] = FunctionToolset()
    tools.add_function(lambda at: "dust " * 60, name="look", description="Look.", takes_ctx=False)
    section: dict[str, Any] = {"working-memory-threshold": 500, "max-iterations": 20}
    arguments: dict[str, Any] = {"summary_model": brain.model}
    if is_named:
        section |= {"services": f"{__name__}:shelf_of", "scope": f"{__name__}:by_team"}
    else:
        arguments |= {"services": shelf_of(memory, ReactMemConfig(), by_team), "scope": by_team}
    async with create_agent_service(
        {"agent-mem": section}, brain.model, memory, toolsets=[tools], **arguments
    ) as agent:
        response = await agent.answer(_REQUEST)

    assert (response.answer, response.error) == ("done", None)
    assert "Ana has an oar." in brain.asked[0].prompt
    assert "All was looked at." in brain.asked[-1].shown
    assert await memory.ledger.head(by_team("ana", "default")) > 0
    assert await memory.ledger.head(default_scope("ana", "default")) == 0


async def test_a_part_of_the_memory_can_be_replaced(memory: AgentMem) -> None:
    """What it finds is shown, what is learned is stored with it, and nothing of that goes anywhere else."""
    shelf = _Shelf()
    assert isinstance(shelf, FactRetrieval)
    assert isinstance(shelf, FactStorage)
    services = replace(MemoryServices.of(memory), fact_retrieval=shelf, fact_storage=shelf)
    brain = Brain(lambda _: "done", learn=lambda _: {"facts": ["Ana has an oar."]})
    async with ReactMemService(brain.model, memory, services=services) as agent:
        await agent.answer(_REQUEST)
        await agent.drain()
        shelf.fails = True
        failed = await agent.answer(_REQUEST)

    assert " Ana has a boat." in brain.asked[0].prompt
    assert list(shelf.facts.values()) == ["Ana has a boat.", "Ana has an oar."]
    assert await memory.get_active_memories(default_scope("ana", "default"), key_prefix="fact/") == []
    assert (failed.answer, failed.warnings) == ("done", ("recall: the shelf is locked",))


class _Notebook:
    """Conversations and episodes in lists, of services that are not ours."""

    def __init__(self) -> None:
        self.said: dict[str, list[InvocationSummary]] = {}
        self.episodes: dict[str, Episode] = {}
        self.uses: list[bool] = []

    async def get_conversation(self, request: GetConversationMemoryRequest) -> GetConversationMemoryResponse:
        said = tuple(self.said.get(request.conversation_id, ()))
        conversation = ConversationMemory(conversation_id=request.conversation_id, invocations=said)
        return GetConversationMemoryResponse(conversation=conversation)

    async def update_conversation(self, request: UpdateConversationMemoryRequest) -> UpdateConversationMemoryResponse:
        said = self.said.setdefault(request.conversation_id, [])
        if request.invocation_summary.invocation_id not in [one.invocation_id for one in said]:
            said.append(request.invocation_summary)
        return UpdateConversationMemoryResponse(success=True)

    async def list_conversations(self, request: ListConversationsRequest) -> ListConversationsResponse:
        listed = [
            ConversationOutline(conversation_id=name, last_query=said[-1].query, updated_at=said[-1].timestamp)
            for name, said in self.said.items()
        ]
        listed.sort(key=lambda one: one.updated_at, reverse=True)
        return ListConversationsResponse(conversations=tuple(listed))

    async def delete_conversation(self, request: DeleteConversationRequest) -> DeleteResponse:
        return DeleteResponse(success=self.said.pop(request.conversation_id, None) is not None)

    async def retrieve_episodes(self, request: RetrieveEpisodesRequest) -> RetrieveEpisodesResponse:
        return RetrieveEpisodesResponse(episodes=tuple(self.episodes.values())[: request.top_k])

    async def store_episode(self, request: StoreEpisodeRequest) -> StoreEpisodeResponse:
        assert request.id is not None
        now = datetime(2026, 3, 1, tzinfo=UTC)
        self.episodes[request.id] = Episode(id=request.id, goal=request.goal, lessons=request.lessons, timestamp=now)
        return StoreEpisodeResponse(episode_id=request.id)

    async def delete_episode(self, request: DeleteEpisodeRequest) -> DeleteResponse:
        return DeleteResponse(success=self.episodes.pop(request.episode_id, None) is not None)

    async def record_use(self, request: RecordUseRequest) -> RecordUseResponse:
        self.uses.append(request.success)
        return RecordUseResponse(recorded=True)


@pytest.mark.thorough
async def test_so_can_conversations_and_episodes_with_all_that_happens_to_them(memory: AgentMem) -> None:
    """They are shown, added to, ended and archived through their own services; our memory has none of them."""
    notebook = _Notebook()
    for protocol in (ConversationMemoryService, EpisodeRetrieval, EpisodeStorage):
        assert isinstance(notebook, protocol)
    services = replace(
        MemoryServices.of(memory), conversations=notebook, episode_retrieval=notebook, episode_storage=notebook
    )
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def look() -> str:
        """Look around."""
        return "a boat"

    brain = Brain(
        lambda asked: act("look") if asked.turn < 1 else "done",
        learn=lambda _: {"success": True, "lessons": ["Look twice."]},
        close=lambda _: {"theme": "boats"},
    )
    shift = timedelta(0)
    config = ReactMemConfig(episode_min_steps=1, conversation_timeout=3_600, max_conversations=1)
    async with ReactMemService(
        brain.model,
        memory,
        toolsets=[tools],
        services=services,
        config=config,
        clock=lambda: datetime.now(UTC) + shift,
    ) as agent:
        for question, conversation in (("one", "c-1"), ("two", "c-1"), ("three", "c-2")):
            await agent.answer(_REQUEST.model_copy(update={"question": question, "conversation_id": conversation}))
            await agent.drain()
        shift = timedelta(hours=2)
        usage = await agent.lifecycle.usage("ana")
        report = await agent.lifecycle.maintain("ana")
        again = await agent.lifecycle.maintain("ana")

    second = next(asked for asked in brain.asked if asked.prompt.endswith("two"))
    assert "1. Look twice." in second.prompt
    assert "User asked: one;" in second.prompt
    assert notebook.uses == [True, True, True]
    assert sorted(one.goal for one in notebook.episodes.values()) == ["boats", "boats", "one", "three", "two"]
    assert usage.conversations == 2
    assert sorted(end.conversation_id for end in report.ended) == ["c-1", "c-2"]
    assert (report.archived_conversations, list(notebook.said)) == (1, ["c-2"])
    assert again.ended == ()
    scope = default_scope("ana", "default")
    assert await memory.get_active_memories(scope, key_prefix="episode/") == []
    assert "react.invocation" not in [event.kind for event in await memory.ledger.read(scope, limit=1_000)]


async def test_a_service_of_ones_own_that_raises_costs_no_answer(memory: AgentMem) -> None:
    """The invocation joins its conversation at the next maintenance, once."""

    class Broken(_Notebook):
        is_broken = True

        async def update_conversation(
            self, request: UpdateConversationMemoryRequest
        ) -> UpdateConversationMemoryResponse:
            if self.is_broken:
                raise OSError("the notebook is wet")
            return await super().update_conversation(request)

    notebook = Broken()
    services = replace(MemoryServices.of(memory), conversations=notebook)
    async with ReactMemService(
        Brain(lambda _: "done").model, memory, services=services, config=ReactMemConfig(learn_with="rules")
    ) as agent:
        response = await agent.answer(_REQUEST)
        await agent.drain()
        notebook.is_broken = False
        report = await agent.lifecycle.maintain("ana")

    assert (response.answer, response.error) == ("done", None)
    assert (report.recorded, report.not_recorded) == (1, 0)
    assert [one.query for one in notebook.said["c-1"]] == ["What is it?"]


async def test_a_redactor_that_fails_is_a_value(config: Callable[..., Config]) -> None:
    """Whether a repeated question is the same cannot be told then."""

    class Rules:
        are_there = True

        def redact(self, text: str) -> Redaction:
            if not self.are_there:
                raise OSError("no rules")
            return Redaction(text)

    rules = Rules()
    async with (
        AgentMem(config(), redactor=rules) as memory,
        ReactMemService(Brain(lambda _: "done").model, memory, config=ReactMemConfig(learn_with="rules")) as agent,
    ):
        request = _REQUEST.model_copy(update={"invocation_id": "i-1"})
        await agent.answer(request)
        await agent.drain()
        rules.are_there = False
        again = await agent.answer(request)

    assert again.error is not None
    assert again.error.message.startswith("RedactionError: ")


async def test_every_text_of_ours_can_be_replaced(memory: AgentMem) -> None:
    """For another language, or another manner: none of the default texts is shown any more."""
    prompts = ReactPrompts(**{name: f"<{name}>" for name in ReactPrompts.model_fields})
    shown: list[str] = []
    turns = count(1)
    tools: FunctionToolset[Any] = FunctionToolset()

    @tools.tool_plain
    def look() -> str:
        """Look."""
        return "Es gibt viel zu sehen. " * 20

    def reason(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown.append("\n".join([info.instructions or "", *(text for each in messages for text in texts_of(each))]))
        if info.output_tools:
            [output] = info.output_tools
            fields = output.parameters_json_schema["properties"]
            drawn = {"facts": ["Ana trinkt Tee."], "lessons": ["Sieh hin."]}
            given = {"summary": "Gesehen."} if "summary" in fields else {"theme": "Tee"} if "theme" in fields else drawn
            return ModelResponse(parts=[ToolCallPart(output.name, given)])
        return act("look") if next(turns) % 5 else ModelResponse(parts=[TextPart("fertig")])

    await memory.create_active_memory("team", "Tee", "Im Team trinkt Ana Tee.")
    config = ReactMemConfig(
        persona="<persona>",
        prompts=prompts,
        working_memory_threshold=300,
        keep_recent_steps=1,
        max_repeats=9,
        shared=("team",),
    )
    model = FunctionModel(reason)
    async with ReactMemService(model, memory, toolsets=[tools], config=config, summary_model=model) as agent:
        for question in ("Was trinkt Ana?", "Was trinkt Ana, Tee?"):
            # The name is known for one of them.
            asked = {"question": question, "state": "Es regnet.", "user_name": "Ana" if "Tee" in question else ""}
            await agent.answer(_REQUEST.model_copy(update=asked))
            await agent.drain()
        await agent.lifecycle.end_conversation("ana", "c-1")

    everything = "\n".join(shown)
    for name, field in ReactPrompts.model_fields.items():
        assert f"<{name}>" in everything, name
        assert f"{field.default}:" not in everything, name
        assert len(field.default) < 30 or field.default not in everything, name
    assert "<state>:\nEs regnet." in everything
    assert "<task>:\nWas trinkt Ana, Tee?" in everything
