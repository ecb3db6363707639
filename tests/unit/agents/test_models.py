"""Which model an agent has: names, objects, several, none, and what cannot be one."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, models
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel

from agent_reminiscence import Config, ConfigurationError
from agent_reminiscence.agents.models import AgentModels, find_model, resolve_model
from tests.support.fake_ollama import FakeOllama


def _resolve(choice: Any) -> Any:
    return resolve_model(choice, setting="memorizer_agent_model", ollama_base_url="http://127.0.0.1:9/base")


def test_no_test_asks_a_real_model() -> None:
    """Whatever keys and settings the machine of whoever runs them holds."""
    assert not models.ALLOW_MODEL_REQUESTS
    assert [name for name in os.environ if name.startswith("REMINISCENCE_")] == []


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "OLLAMA_BASE_URL", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("choice", [None, "", " , ", [], [None], [""]])
def test_nothing_named_is_no_model(choice: Any) -> None:
    """An empty choice switches an agent off."""
    assert _resolve(choice) is None


def test_a_model_of_the_callers_own_is_taken_as_it_is() -> None:
    """Nothing is wrapped around it."""
    model = TestModel()

    assert _resolve(model) is model
    assert _resolve([model]) is model


def test_ollama_is_asked_where_the_settings_say() -> None:
    """By its OpenAI-compatible endpoint, and without a variable of the environment."""
    model = _resolve("ollama:qwen3")

    assert isinstance(model, OpenAIChatModel)
    assert (model.model_name, str(model.client.base_url)) == ("qwen3", "http://127.0.0.1:9/base/v1/")


async def test_a_password_in_ollamas_address_is_sent_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """HTTP clients log the address of every request. No proxy of the environment reads what stays on this machine."""
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    caplog.set_level(logging.DEBUG)
    password = "-".join(["made", "up"])
    async with FakeOllama(lambda _path, _request: (401, {})) as server:
        address = server.url.replace("//", f"//user:{password}@")
        model = resolve_model("ollama:qwen3", setting="memorizer_agent_model", ollama_base_url=address)
        assert isinstance(model, OpenAIChatModel)
        with pytest.raises(ModelHTTPError) as caught:
            await Agent(model).run("Is anybody there?")
        await model.client.close()

    assert [path for path, _ in server.requests] == ["/v1/chat/completions"]
    assert "authorization: basic" in server.headers[0].lower()
    assert "/v1/chat/completions" in caplog.text
    assert password not in f"{caught.value!r} {caplog.text} {model!r}"


def test_an_address_that_is_none_is_refused_without_quoting_it() -> None:
    """It may hold a password."""
    password = "-".join(["made", "up"])

    with pytest.raises(ConfigurationError, match="ollama_base_url is not a URL") as caught:
        resolve_model("ollama:q", setting="memorizer_agent_model", ollama_base_url=f"http://user:{password}@host:port")

    assert password not in str(caught.value)


@pytest.mark.parametrize(
    "choice",
    ["ollama:qwen3:8b, ollama:llama3.2 ,", ["ollama:qwen3:8b", "ollama:llama3.2"], ["ollama:qwen3:8b,ollama:llama3.2"]],
    ids=["commas", "list", "both"],
)
def test_several_names_stand_in_for_each_other_in_their_order(choice: Any) -> None:
    """A setting is a string, so names come with commas."""
    model = _resolve(choice)

    assert isinstance(model, FallbackModel)
    assert [one.model_name for one in model.models] == ["qwen3:8b", "llama3.2"]


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        ("nowhere:model", "memorizer_agent_model is 'nowhere:model', which cannot be used"),
        ("gpt-5-mini", "write provider:model"),
        ("openai:", "write provider:model"),
        ("openai:gpt-5-mini", "OPENAI_API_KEY"),
        ("ollama:qwen3, nowhere:model", "'nowhere:model'"),
        (7, "takes a model name or a Model, not int"),
        (["ollama:qwen3", 7], "not int"),
        ({"ollama:qwen3"}, "not set"),
    ],
)
def test_what_is_no_model_is_refused_by_its_name(choice: Any, complaint: str) -> None:
    """The error names the setting, the value and the way out."""
    with pytest.raises(ConfigurationError, match=complaint):
        _resolve(choice)


@pytest.mark.parametrize("provider", ["ollama", "together", "vllm", "openai-chat"])
def test_a_client_that_is_not_installed_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    """The extra of Pydantic AI is not always called as the provider is, and pip passes over one that there is not."""
    for name in [name for name in sys.modules if name.startswith(("openai", "pydantic_ai.providers."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(ConfigurationError, match=r'pip install "pydantic-ai-slim\[openai\]"'):
        _resolve(f"{provider}:model")


def test_what_is_passed_goes_before_what_the_settings_name() -> None:
    """Each agent has a setting of its own; an empty name switches off what the settings name."""
    config = Config(memorizer_agent_model="ollama:one", memory_update_agent_model="ollama:two")
    passed = TestModel()

    models = AgentModels(memorizer=passed, memory_update="")

    assert find_model(config, models, "memorizer") is passed
    assert find_model(config, models, "memory_update") is None
    assert find_model(config, models, "memory_retrieve") is None
    named = find_model(config, AgentModels(), "memory_update")
    assert named is not None
    assert named.model_name == "two"
