"""A service is chosen by configuration, its texts can be replaced, and so can each part of its memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agent_reminiscence import AgentMem, ConfigurationError
from agent_reminiscence.react import (
    AgentFailure,
    AgentRequest,
    AgentService,
    DeleteFactRequest,
    DeleteResponse,
    Fact,
    FactRetrieval,
    FactStorage,
    MemoryServices,
    ReactMemConfig,
    ReactMemService,
    ReactPrompts,
    ReactService,
    RetrieveFactsRequest,
    RetrieveFactsResponse,
    StoreFactRequest,
    StoreFactResponse,
    create_agent_service,
    default_scope,
)
from tests.support.brain import Brain

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

    assert "- Ana has a boat." in brain.asked[0].prompt
    assert list(shelf.facts.values()) == ["Ana has a boat.", "Ana has an oar."]
    assert await memory.get_active_memories(default_scope("ana", "default"), key_prefix="fact/") == []
    assert (failed.answer, failed.warnings) == ("done", ("recall: the shelf is locked",))


async def test_every_text_of_ours_can_be_replaced(memory: AgentMem) -> None:
    """For another language, or another manner."""
    prompts = ReactPrompts(
        memory="Du hast ein Gedächtnis.",
        facts="Was du weißt",
        conversation="Was gesagt wurde",
        state="Zustand",
        task="Frage",
        extraction="Nenne Fakten.",
    )
    brain = Brain(lambda _: "fertig", learn=lambda _: {"facts": ["Ana trinkt Tee."]})
    config = ReactMemConfig(persona="Du bist Gärtner.", prompts=prompts)
    async with ReactMemService(brain.model, memory, config=config) as agent:
        await agent.answer(_REQUEST)
        await agent.drain()
        await agent.answer(_REQUEST.model_copy(update={"question": "Was trinkt Ana, Tee?", "state": "Es regnet."}))

    assert brain.asked[0].instructions == "Du bist Gärtner.\n\nDu hast ein Gedächtnis."
    for text in ("Was du weißt:", "Was gesagt wurde:", "Zustand:\nEs regnet.", "Frage:\nWas trinkt Ana, Tee?"):
        assert text in brain.asked[1].prompt
