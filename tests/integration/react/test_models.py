"""A model that is named is found as the memory's own agents find theirs: by the same names and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import models

from agent_reminiscence import AgentMem, Config, ConfigurationError
from agent_reminiscence.react import (
    AgentRequest,
    ReactMemConfig,
    ReactMemService,
    ReactService,
    create_agent_service,
    default_scope,
)
from tests.support.fake_ollama import FakeOllama

type MakeConfig = Callable[..., Config]

_REQUEST = AgentRequest(question="I live in Graz. Where do I live?", user="ana", enable_memory=True)


@pytest.fixture(autouse=True)
def _real_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a server of the test; nothing in the environment leads elsewhere."""
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    for variable in ("OLLAMA_BASE_URL", "OLLAMA_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


def _answers(path: str, request: dict[str, Any]) -> tuple[int, Any]:
    """As a model would at Ollama's OpenAI-compatible endpoint."""
    assert path == "/v1/chat/completions"
    output = [tool["function"]["name"] for tool in request.get("tools", ()) if "final" in tool["function"]["name"]]
    message: dict[str, Any] = {"role": "assistant", "content": None if output else "In Graz."}
    if output:
        call = {"name": output[0], "arguments": '{"facts": ["Ana lives in Graz."]}'}
        message["tool_calls"] = [{"id": "call-1", "type": "function", "function": call}]
    return 200, {
        "id": "made-up",
        "object": "chat.completion",
        "created": 1_772_366_400,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if output else "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


@pytest.mark.thorough
async def test_models_of_ollama_are_asked_where_the_memory_asks_its_own(config: MakeConfig) -> None:
    """To reason and to learn; and again after the service was closed and opened once more."""
    async with FakeOllama(_answers) as server, AgentMem(config(ollama_base_url=server.url)) as memory:
        agent = ReactMemService("ollama:reasons", memory, learning_model="ollama:learns")
        for _ in range(2):
            async with agent:
                response = await agent.answer(_REQUEST)
            assert (response.answer, response.error) == ("In Graz.", None)
        facts = await memory.get_active_memories(default_scope("ana", "default"))

    assert [request["model"] for _, request in server.requests] == ["reasons", "learns"] * 2
    assert [fact.content for fact in facts] == ["Ana lives in Graz."]


@pytest.mark.parametrize(
    ("sections", "arguments"),
    [
        ({"agent-mem": {"learning-model": "ollama:learns"}}, {}),
        ({"agent-mem": {}}, {"learning_model": "ollama:learns"}),
        ({"agent-mem": {"learning-model": "ollama:other"}}, {"learning_model": "ollama:learns"}),
    ],
    ids=["by name in the section", "as an argument", "an argument comes first"],
)
async def test_a_configuration_names_another_model_that_learns(
    config: MakeConfig, sections: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """It is asked at the memory's server, like the one that reasons."""
    async with (
        FakeOllama(_answers) as server,
        AgentMem(config(ollama_base_url=server.url)) as memory,
        create_agent_service(sections, "ollama:reasons", memory, **arguments) as agent,
    ):
        await agent.answer(_REQUEST)

    assert [request["model"] for _, request in server.requests] == ["reasons", "learns"]


@pytest.mark.parametrize("sections", [{"agent": {}}, {"agent-mem": {"learn-with": "rules"}}])
async def test_a_configuration_changes_the_service_and_not_the_server_of_the_model(
    config: MakeConfig, sections: dict[str, Any]
) -> None:
    """Whoever switches to memory, or back, has the same model answer."""
    async with FakeOllama(_answers) as server, AgentMem(config(ollama_base_url=server.url)) as memory:
        service = create_agent_service(sections, "ollama:reasons", memory)
        async with service:
            response = await service.answer(_REQUEST)

    assert (response.answer, response.error) == ("In Graz.", None)
    assert len(server.requests) == 1


async def test_without_a_memory_the_setting_or_an_argument_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stateless agent reads the same setting; a name may have others to stand in for it."""
    async with FakeOllama(lambda _path, _request: (500, {})) as broken, FakeOllama(_answers) as server:
        monkeypatch.setenv("REMINISCENCE_OLLAMA_BASE_URL", server.url)
        async with ReactService("ollama:one") as agent:
            by_setting = await agent.answer(_REQUEST)
        async with ReactService("ollama:one, ollama:two", ollama_base_url=broken.url) as agent:
            by_argument = await agent.answer(_REQUEST)

    assert by_setting.answer == "In Graz."
    assert by_argument.error is not None
    assert {request["model"] for _, request in broken.requests} == {"one", "two"}
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"model": "gpt-5-mini"}, "model is 'gpt-5-mini'; write provider:model"),
        ({"model": ""}, "model is ''; write provider:model"),
        ({"model": "openai:gpt-5-mini"}, "OPENAI_API_KEY"),
        ({"model": "test", "learning_model": "nowhere:model"}, "learning_model is 'nowhere:model'"),
        ({"model": "test", "summary_model": "nowhere:model"}, "summary_model is 'nowhere:model'"),
    ],
)
async def test_a_name_that_says_no_model_is_refused_where_it_is_written(
    memory: AgentMem, given: dict[str, Any], complaint: str
) -> None:
    """Not where the first question is asked."""
    with pytest.raises(ConfigurationError, match=complaint):
        ReactMemService(memory=memory, config=ReactMemConfig(), **given)
