"""A ReAct agent with a real model, of Ollama: whatever it says and does, the user gets it and memory has it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pydantic_ai import models
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import FunctionToolset

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.react import (
    AgentRequest,
    AgentStep,
    MemoryEpisodes,
    MemoryFacts,
    ReactMemConfig,
    ReactMemService,
    StoreEpisodeRequest,
    StoreFactRequest,
    default_scope,
)
from agent_reminiscence.react.journal import FINISHED, RECORDED, as_finished
from tests.support.examples import EXAMPLES, finish_example, new_data_dir
from tests.support.ollama_server import OLLAMA_CHAT_MODEL

_MODEL = f"ollama:{OLLAMA_CHAT_MODEL}"
# A few sentences, each made of the next likely word: on a busy machine that takes minutes.
_PATIENCE_SECONDS = 1_500.0


def test_the_example_runs_with_a_real_model(ollama_url: str) -> None:
    """Two attempts to the end. What such a small model makes of the task, and whether it learns, is left to it."""
    settings = {"REACT_MODEL": _MODEL, "REMINISCENCE_OLLAMA_BASE_URL": ollama_url}
    with new_data_dir() as data_dir:
        finished = finish_example(EXAMPLES / "react_agent.py", data_dir, settings, timeout_seconds=_PATIENCE_SECONDS)

    first, _, second = finished.stdout.partition("attempt 2: ")
    for attempt in (first.removeprefix("attempt 1: "), second):
        answer, _, _ = attempt.partition("→ ")[2].rpartition("\n  it was shown ")
        assert answer.strip()
        assert "the model or its tools failed" not in answer


async def test_what_a_real_model_answers_is_recorded_once(
    ollama_url: str, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that is asked twice gets one answer; what the model has not managed to learn, rules do."""
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    tools, _ = _weather()
    request = AgentRequest(
        question="I live in Graz. How is the weather there?",
        user="ana",
        conversation_id="c-1",
        invocation_id="i-1",
        enable_memory=True,
    )
    patient = ReactMemConfig(timeout_seconds=None)
    async with AgentMem(config(ollama_base_url=ollama_url)) as memory:
        async with ReactMemService(_MODEL, memory, toolsets=[tools], config=patient) as agent:
            first = await agent.answer(request)
            await agent.drain()
            again = await agent.answer(request)
        async with ReactMemService(_MODEL, memory, config=ReactMemConfig(learn_with="rules")) as agent:
            report = await agent.lifecycle.maintain("ana")
        events = await memory.ledger.read(default_scope("ana", "default"), limit=1_000)

    assert first.error is None or first.error.reason == "iteration_limit"
    assert first.answer or first.error
    assert first.usage is not None
    assert first.usage.output_tokens > 0
    assert again.usage is not None
    assert (again.answer, again.steps, again.usage.requests) == (first.answer, first.steps, 0)
    assert report.not_recorded == 0
    kinds = [event.kind for event in events]
    assert (kinds.count(FINISHED), kinds.count(RECORDED)) == (1, 1)


async def test_a_real_model_calls_a_tool(
    ollama_url: str, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So small a model never chooses a tool, but it repeats a pattern; the history gives it one."""
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    tools, asked = _weather()
    step = AgentStep(action="weather", arguments={"place": "Graz"}, observation="It rains in Graz.")
    request = AgentRequest(
        question="How is the weather in Graz?",
        user="ana",
        conversation_id="c-1",
        history=(step,) * 10,
        enable_memory=True,
    )
    # Always the most likely word, so that runs on one machine agree.
    model = OpenAIChatModel(
        OLLAMA_CHAT_MODEL,
        provider=OllamaProvider(base_url=f"{ollama_url}/v1"),
        settings=ModelSettings(temperature=0, seed=1, max_tokens=48, timeout=_PATIENCE_SECONDS),
    )
    patient = ReactMemConfig(timeout_seconds=None, max_iterations=2, learn_with="rules")
    async with model, AgentMem(config()) as memory:
        async with ReactMemService(model, memory, toolsets=[tools], config=patient) as agent:
            response = await agent.answer(request)
        events = await memory.ledger.read(default_scope("ana", "default"), kinds=[FINISHED])

    assert asked, response
    taken = [step for step in response.steps if step.observation == f"It rains in {asked[0]}."]
    assert taken
    assert taken[0].action == "weather"
    assert taken[0].arguments == {"place": asked[0]}
    (event,) = events
    recorded = as_finished(event)
    assert recorded is not None
    assert recorded.steps == (*request.history, *response.steps)


async def test_what_a_real_server_answers_ends_a_fact(
    ollama_url: str, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way of the learner: the schema goes out, a call of its tool comes back, and the numbers are read.

    So small a model cannot learn, but it repeats a pattern: the template of its copy shows it one, not the prompt.
    """
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    drawn = '{"replaces": [1], "facts": ["Ana works in sales."]}'
    learner = await _repeating(ollama_url, "smollm2-ends-a-fact", drawn)
    agent_model = FunctionModel(lambda messages, info: ModelResponse([TextPart("Noted.")]))
    async with learner, AgentMem(config()) as memory:
        facts = MemoryFacts(memory)
        await facts.store_fact(StoreFactRequest(user="ana", content="Ana works in accounting."))
        async with ReactMemService(agent_model, memory, learning_model=learner) as agent:
            await agent.answer(AgentRequest(question="I work in sales now.", user="ana", enable_memory=True))
        held = await memory.get_active_memories(default_scope("ana", "default"), key_prefix="fact/")

    assert [fact.content for fact in held] == ["Ana works in sales."]


async def test_what_a_real_server_answers_credits_a_lesson(
    ollama_url: str, config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same way for a task that its lesson shortened to one step."""
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    drawn = '{"success": true, "outcome": "It rains.", "followed_lessons": [1]}'
    learner = await _repeating(ollama_url, "smollm2-credits-a-lesson", drawn)
    tools, _ = _weather()

    def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse([TextPart("It rains.")])
        assert "1. Ask for the district." in str(messages)
        return ModelResponse([ToolCallPart("weather", {"place": "Graz, Lend"})])

    goal = "How is the weather in Graz?"
    async with learner, AgentMem(config()) as memory:
        await MemoryEpisodes(memory).store_episode(
            StoreEpisodeRequest(user="ana", goal=goal, lessons=("Ask for the district.",), success=False)
        )
        async with ReactMemService(FunctionModel(play), memory, toolsets=[tools], learning_model=learner) as agent:
            await agent.answer(AgentRequest(question=goal, user="ana", enable_memory=True))
        scope = default_scope("ana", "default")
        [hit] = (await memory.retrieve_memories(scope, goal, where=Filter(key_prefix="episode/"))).hits

    assert (hit.successes, hit.failures) == (1, 0)


async def _repeating(url: str, name: str, drawn: str) -> OpenAIChatModel:
    """A copy of the chat model that gives this answer of a learner, whatever it is asked."""
    await _create_repeating(url, name, f'<tool_call>{{"name": "final_result", "arguments": {drawn}}}</tool_call>')
    return OpenAIChatModel(
        name,
        provider=OllamaProvider(base_url=f"{url}/v1"),
        settings=ModelSettings(temperature=0, seed=1, max_tokens=60, timeout=_PATIENCE_SECONDS),
    )


async def _create_repeating(url: str, name: str, said: str) -> None:
    """Make a copy of the chat model that is shown what it has said twenty times, whatever it is asked."""
    asked, answers = "<|im_start|>user\nOnce more.<|im_end|>\n", "<|im_start|>assistant\n"
    # Ollama looks for where tools and their calls stand, so that it takes what comes back for a call.
    calls = (
        "{{ range .Messages }}{{ if .ToolCalls }}<tool_call>{{ range .ToolCalls }}"
        '{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}'
        "{{ end }}</tool_call>{{ end }}{{ end }}"
    )
    pattern = f"{asked}{answers}{said}<|im_end|>\n" * 20
    template = f"{{{{- if .Tools }}}}{pattern}{asked}{{{{ else }}}}{calls}{{{{ end }}}}{answers}"
    async with httpx.AsyncClient(timeout=_PATIENCE_SECONDS, trust_env=False) as client:
        made = await client.post(
            f"{url}/api/create",
            json={
                "model": name,
                "from": OLLAMA_CHAT_MODEL,
                "template": template,
                "parameters": {"num_ctx": 4096},
                "stream": False,
            },
        )
    made.raise_for_status()


def _weather() -> tuple[FunctionToolset[Any], list[str]]:
    """A tool, and the places that it was asked about."""
    tools: FunctionToolset[Any] = FunctionToolset()
    asked: list[str] = []

    @tools.tool_plain
    def weather(place: str) -> str:
        """The weather at a place."""
        asked.append(place)
        return f"It rains in {place}."

    return tools, asked
