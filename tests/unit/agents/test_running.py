"""Asking a model: its limits, what it cost however it ends, and errors that quote nothing."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel
from pydantic_ai import Agent, InstrumentationSettings, ToolOutput, models
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from agent_reminiscence.agents.model_call import AgentFailedError, Meter
from agent_reminiscence.agents.models import AgentLimits, resolve_model
from agent_reminiscence.agents.running import ANSWER_TOOL, MAX_TOOL_CALLS, _watcher, run_agent
from agent_reminiscence.exceptions import StoreUnavailableError
from tests.support.scripted import ScriptedModel, Step, answer, call, call_all, fail, say

_SECRET = "what somebody once said"
_PLAN = answer({"plan": "done"})
_LIMITS = AgentLimits(timeout_seconds=30, max_requests=3, max_tokens=5_000)


class _Plan(BaseModel):
    plan: str


def _agent(*tools: Callable[..., Any]) -> Agent[None, _Plan]:
    return Agent(output_type=_Plan, deps_type=type(None), tools=[look, *tools], retries=1, name="test")


async def look(what: str) -> str:
    """Look at something."""
    return what


async def lose_the_store(what: str) -> str:
    """Look at something in a store that is away."""
    await asyncio.sleep(0)
    raise StoreUnavailableError("the store is away")


async def _ask(
    model: Any, *tools: Callable[..., Any], limits: AgentLimits = _LIMITS, meter: Meter | None = None
) -> Any:
    return await run_agent(
        _agent(*tools), _SECRET, model=getattr(model, "model", model), deps=None, limits=limits, meter=meter
    )


async def _never(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    await asyncio.sleep(3600)
    raise AssertionError


def _several(*models: ScriptedModel | FunctionModel) -> Any:
    chosen = [model.model if isinstance(model, ScriptedModel) else model for model in models]
    return resolve_model(chosen, setting="a_setting", ollama_base_url="http://127.0.0.1:9")


async def test_a_plan_comes_with_what_it_cost() -> None:
    """Every request of the call counts, and the meter says the same."""
    meter = Meter()

    answered = await _ask(ScriptedModel(call("look", what="here"), _PLAN), meter=meter)

    assert answered.output.plan == "done"
    assert (answered.usage.model, answered.usage.requests) == ("scripted", 2)
    assert answered.usage.input_tokens > 0
    assert meter.usage == answered.usage


@pytest.mark.parametrize(
    ("steps", "reason", "requests"),
    [
        ([say(_SECRET)], "invalid", 2),
        ([call("look", where=_SECRET)], "invalid", 2),
        ([call("look", what=_SECRET)], "limit", 3),
        ([_PLAN, fail(ValueError(_SECRET))], None, 1),
        ([call("look", what=_SECRET), fail(ValueError(_SECRET))], "failed", 1),
        ([call("look", what=_SECRET), fail(ModelHTTPError(503, _SECRET, {"said": _SECRET}))], "unavailable", 1),
        ([fail(ModelHTTPError(503, _SECRET))], "unavailable", 0),
        ([fail(TimeoutError(_SECRET))], "timeout", 1),
    ],
    ids=[
        "prose",
        "wrong arguments",
        "never stops",
        "no failure",
        "broken client",
        "away",
        "away at once",
        "slow client",
    ],
)
async def test_a_failure_says_what_was_asked_until_then_and_quotes_nothing(
    steps: list[Step], reason: str | None, requests: int
) -> None:
    """Neither in its message, nor in its cause, its context or its traceback."""
    meter = Meter()
    if reason is None:
        assert (await _ask(ScriptedModel(*steps), meter=meter)).usage.requests == requests
        return

    with pytest.raises(AgentFailedError) as caught:
        await _ask(ScriptedModel(*steps), meter=meter)

    error = caught.value
    assert (error.reason, error.usage.requests, error.usage) == (reason, requests, meter.usage)
    assert (error.__cause__, error.__context__) == (None, None)
    assert _SECRET not in "".join(traceback.format_exception(error))


async def test_tokens_have_a_limit() -> None:
    """What the request beyond it cost is told, too."""
    limits = AgentLimits(timeout_seconds=30, max_requests=3, max_tokens=1)

    with pytest.raises(AgentFailedError, match="3 requests, 1 tokens") as caught:
        await _ask(ScriptedModel(_PLAN), limits=limits)

    assert (caught.value.reason, caught.value.usage.requests) == ("limit", 1)


async def test_tools_are_called_so_often_at_most() -> None:
    """Calls of one answer run side by side: too many of them at once are not begun at all."""
    seen: list[str] = []

    async def search(what: str) -> str:
        """Search."""
        seen.append(what)
        return what

    model = ScriptedModel(call_all(*[("search", {"what": str(number)}) for number in range(MAX_TOOL_CALLS + 1)]), _PLAN)

    with pytest.raises(AgentFailedError, match="50 tool calls") as caught:
        await _ask(model, search)

    assert (caught.value.reason, seen) == ("limit", [])


@pytest.mark.thorough
@pytest.mark.parametrize("watch", [None, lambda written: None], ids=["whole", "streamed"])
async def test_what_tools_have_shown_is_not_sent_beyond_the_limit(watch: Any) -> None:
    """It is some 10,000 tokens, which a provider would bill before anybody could count them."""
    model = ScriptedModel(call("look", what="w" * 40_000), _PLAN)
    limits = AgentLimits(timeout_seconds=30, max_requests=3, max_tokens=9_000)

    with pytest.raises(AgentFailedError, match="9,000 tokens") as caught:
        await run_agent(_agent(), _SECRET, model=model.model, deps=None, limits=limits, watch=watch)

    assert (caught.value.reason, caught.value.usage.requests, len(model.asked)) == ("limit", 1, 1)


async def test_a_silent_model_is_given_up() -> None:
    """After the time that the call may take in all."""
    limits = AgentLimits(timeout_seconds=1.5, max_requests=3, max_tokens=5_000)

    with pytest.raises(AgentFailedError, match=r"within 1\.5 s") as caught:
        await _ask(FunctionModel(_never, model_name="silent"), limits=limits)

    assert caught.value.reason == "timeout"
    # It was read, and is paid for: four bytes to a token, with the tools.
    assert caught.value.usage.requests == 1
    assert 10 < caught.value.usage.input_tokens < 200


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_request_that_was_given_up_counts_with_what_it_was_sent(is_streamed: bool) -> None:
    """The first one too, and beside the answers that there were; what the client has counted stays as it is."""
    meter = Meter()
    silent = asyncio.Event()

    async def answer_once(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return call("look", what="w" * 4_000)(messages, info)
        silent.set()
        return await _never(messages, info)

    async def stream_once(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[DeltaToolCalls]:
        response = await answer_once(messages, info)
        for number, part in enumerate(response.parts):
            assert isinstance(part, ToolCallPart)
            yield {number: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id="1")}

    model = FunctionModel(answer_once, stream_function=stream_once, model_name="silent")
    asking = asyncio.create_task(
        run_agent(
            _agent(),
            _SECRET,
            model=model,
            deps=None,
            limits=_LIMITS,
            meter=meter,
            watch=(lambda written: None) if is_streamed else None,
        )
    )
    await silent.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert meter.usage is not None
    assert (meter.usage.requests, meter.unanswered) == (2, 1)
    # The second request has the call and what the tool has returned: twice a thousand tokens.
    assert 2_000 < meter.usage.input_tokens < 2_500


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_an_answer_that_was_left_in_its_midst_counts_with_what_was_sent(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Providers say what a stream has cost when it ends, and this one does not."""
    monkeypatch.setattr(models, "ALLOW_MODEL_REQUESTS", True)
    writing = asyncio.Event()
    meter = Meter()

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        call = {"index": 0, "id": "1", "type": "function"}
        called = {"tool_calls": [{**call, "function": {"name": ANSWER_TOOL, "arguments": '{"plan": "to be'}}]}
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        piece = json.dumps({**chunk, "choices": [{"index": 0, "delta": called, "finish_reason": None}]})
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {piece}\n\n".encode())
        await reader.read()
        writer.close()

    agent = Agent(output_type=ToolOutput(_Plan, name=ANSWER_TOOL), deps_type=type(None), name="test")
    limits = AgentLimits(timeout_seconds=4 if how == "timed out" else 30, max_requests=3, max_tokens=5_000)
    async with await asyncio.start_server(begin, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        provider = OpenAIProvider(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        async with OpenAIChatModel("m", provider=provider) as model:
            asking = asyncio.create_task(
                run_agent(
                    agent,
                    "w" * 4_000,
                    model=model,
                    deps=None,
                    limits=limits,
                    meter=meter,
                    watch=lambda written: writing.set(),
                )
            )
            await asyncio.wait({asking, asyncio.create_task(writing.wait())}, return_when=asyncio.FIRST_COMPLETED)
            if how == "cancelled":
                asking.cancel()
            with pytest.raises(asyncio.CancelledError if how == "cancelled" else AgentFailedError):
                await asking

    assert writing.is_set()
    assert meter.usage is not None
    assert (meter.usage.requests, meter.unanswered) == (1, 1)
    assert 1_000 < meter.usage.input_tokens < 1_500


async def test_pieces_of_what_was_never_begun_are_passed_over() -> None:
    """A provider that sends them breaks no answer."""
    seen: list[Any] = []

    async def events() -> AsyncIterator[AgentStreamEvent]:
        yield PartDeltaEvent(index=3, delta=ToolCallPartDelta(args_delta='{"answer": "lost"}'))
        yield PartStartEvent(index=0, part=ToolCallPart(ANSWER_TOOL, ""))
        yield PartDeltaEvent(index=0, delta=ToolCallPartDelta(args_delta='{"answer": "kept'))

    context: Any = None
    await _watcher(seen.append)(context, events())

    assert seen == [{"answer": "kept"}]


async def test_the_error_of_a_tool_of_ours_comes_through_as_it_is() -> None:
    """Also from among several calls; the meter says what the model cost until then."""
    meter = Meter()
    model = ScriptedModel(call_all(("look", {"what": "a"}), ("lose_the_store", {"what": "b"}), ("look", {"what": "c"})))

    with pytest.raises(StoreUnavailableError, match="the store is away"):
        await _ask(model, lose_the_store, meter=meter)

    assert meter.usage is not None
    assert meter.usage.requests == 1


async def test_who_gives_up_learns_what_it_cost() -> None:
    """A cancelled call ends at once, and its meter is read."""
    meter = Meter()
    waiting = asyncio.Event()

    async def wait(what: str) -> str:
        """Look for long."""
        waiting.set()
        await asyncio.sleep(3600)
        return what

    asking = asyncio.create_task(_ask(ScriptedModel(call("wait", what="x")), wait, meter=meter))
    await waiting.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert meter.usage is not None
    assert meter.usage.requests == 1


@pytest.mark.parametrize(
    "first",
    [ScriptedModel(fail(ModelHTTPError(429, "first"))), ScriptedModel(fail(ValueError("odd"))), FunctionModel(_never)],
    ids=["too many requests", "broken client", "silent"],
)
async def test_where_one_model_fails_the_next_one_answers(first: Any) -> None:
    """It is the one that the usage names; a silent one takes its share of the time only."""
    second = FunctionModel(ScriptedModel(_PLAN)._answer, model_name="second")
    limits = AgentLimits(timeout_seconds=4, max_requests=3, max_tokens=5_000)

    answered = await _ask(_several(first, second), limits=limits)

    assert (answered.output.plan, answered.usage.model) == ("done", "second")


async def test_where_all_models_fail_the_error_names_the_kinds() -> None:
    """And nothing of what they said."""
    model = _several(ScriptedModel(fail(ModelHTTPError(429, _SECRET))), ScriptedModel(fail(ValueError(_SECRET))))

    with pytest.raises(AgentFailedError, match=r"was unavailable \(ModelHTTPError 429, ValueError\)") as caught:
        await _ask(model)

    assert caught.value.reason == "unavailable"
    assert _SECRET not in repr(caught.value)


async def test_who_traces_all_agents_gets_no_text_of_ours() -> None:
    """`Agent.instrument_all()` is for an application's own agents."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    try:
        await _ask(ScriptedModel(_PLAN))
    finally:
        Agent.instrument_all(False)

    assert _SECRET not in "".join(span.to_json() for span in spans.get_finished_spans())
