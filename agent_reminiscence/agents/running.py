"""Asks a model within limits and reports the outcome without quoting anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic_ai import Agent, ModelSettings, RunContext
from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.capabilities import Hooks, WrapModelRequestHandler
from pydantic_ai.exceptions import (
    FallbackExceptionGroup,
    ModelAPIError,
    ModelRequestTimeout,
    ModelTimeoutError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
)
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.usage import RunUsage, UsageLimits
from pydantic_core import from_json

from agent_reminiscence.agents.model_call import AgentFailedError, Meter
from agent_reminiscence.agents.models import AgentLimits, ModelChoice
from agent_reminiscence.apart import run_apart
from agent_reminiscence.domain.payloads import FailureReason, ModelUsage
from agent_reminiscence.exceptions import ReminiscenceError

# The output tool of agents whose answer may be watched while it is written.
ANSWER_TOOL = "give_answer"
# Tool calls allowed per run. Those of one response run concurrently, and each may take a connection.
MAX_TOOL_CALLS = 50
# English has about four letters per token; most other languages have more bytes per letter.
_BYTES_PER_TOKEN = 4
# Of the digest that tells versions of a prompt apart.
_VERSION_CHARACTERS = 12
_TIMEOUTS = (TimeoutError, ModelTimeoutError, ModelRequestTimeout)


@dataclass(frozen=True, slots=True)
class AgentAnswer[T]:
    """A model's answer.

    Attributes:
        output: Its plan, checked.
        usage: What the call used.
        messages: The messages exchanged; never stored and never logged.
    """

    output: T
    usage: ModelUsage
    messages: Sequence[ModelMessage]


async def run_agent[D, T](
    agent: Agent[D, T],
    prompt: str,
    *,
    model: Model,
    deps: D,
    limits: AgentLimits,
    meter: Meter | None = None,
    watch: Callable[[Mapping[str, Any]], None] | None = None,
) -> AgentAnswer[T]:
    """Ask `model` as `agent`.

    Args:
        meter: Receives what the call cost, even if it fails or is cancelled.
        watch: Called with the partial, unchecked answer while it is being written, for agents whose output tool is
            called `ANSWER_TOOL`; the model is then asked for a stream.

    Raises:
        AgentFailedError: It gave no usable answer.
        ReminiscenceError: Raised by one of the agent's tools.
    """
    run_usage = RunUsage()
    sent = _Sent(limits)
    meter = Meter() if meter is None else meter
    allowed = UsageLimits(
        request_limit=limits.max_requests, total_tokens_limit=limits.max_tokens, tool_calls_limit=MAX_TOOL_CALLS
    )
    # An application that traces all agents means its own; ours would put memory text into spans.
    agent.instrument = False
    try:
        async with asyncio.timeout(limits.timeout_seconds):
            # The application's model may do anything to its task, or to one that an earlier call has spoilt.
            result = await run_apart(
                agent.run(
                    prompt,
                    model=model,
                    deps=deps,
                    usage=run_usage,
                    usage_limits=allowed,
                    model_settings=_settings(model, limits),
                    event_stream_handler=None if watch is None else _watcher(watch),
                    capabilities=[sent.hooks()],
                )
            )
    except ReminiscenceError:
        raise
    except asyncio.CancelledError:
        _count_unanswered(meter, model, run_usage, sent)
        raise
    except Exception as error:  # noqa: BLE001 - a provider's client may raise anything
        reason, why = _describe(error, limits)
        if _took_too_long(error):
            _count_unanswered(meter, model, run_usage, sent)
    else:
        messages = result.all_messages()
        meter.usage = _usage(_answering_model(messages) or model.model_name, run_usage)
        return AgentAnswer(result.output, meter.usage, messages)
    finally:
        if meter.usage is None:
            meter.usage = _usage(model.model_name, run_usage)
        if sent.last is not None:
            meter.prompt = prompt_version(sent.last.model_request_parameters)
    # Raised out here so that __context__ is empty too: the original error may quote what the model was shown.
    raise AgentFailedError(f"model {model.model_name!r} {why}", reason=reason, usage=meter.usage)


def prompt_version(parameters: ModelRequestParameters) -> str:
    """A short name of what an agent tells every model: its instructions and the schema of its answer.

    Tools do not count: which of them a call offers depends on its caller.
    """
    told = [
        [part.content for part in parameters.instruction_parts or ()],
        [[tool.name, tool.description, tool.parameters_json_schema] for tool in parameters.output_tools],
    ]
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:_VERSION_CHARACTERS]


@dataclass(slots=True)
class _Sent:
    """What a model was sent; how much of it the model has read is only known once it answers.

    Attributes:
        limits: Those of the call.
        requests: How many requests were started.
        last: The last of them.
        read: Tokens counted as read when the last one started.
    """

    limits: AgentLimits
    requests: int = 0
    last: ModelRequestContext | None = None
    read: int = 0

    def hooks(self) -> Hooks[Any]:
        async def note(context: RunContext[Any], request: ModelRequestContext) -> ModelRequestContext:
            # Tools may show a model any amount, which is billed before it is counted.
            if context.usage.total_tokens + _estimated_tokens(_shown_by_tools(request)) > self.limits.max_tokens:
                raise UsageLimitExceeded("the next request would be too long")
            self.requests += 1
            self.last = request
            self.read = context.usage.input_tokens
            return request

        async def limit(
            context: RunContext[Any], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
        ) -> ModelResponse:
            async with asyncio.timeout(self.limits.request_timeout_seconds):
                return await handler(request_context)

        return Hooks(before_model_request=note, model_request=limit)


def _count_unanswered(meter: Meter, model: Model, run_usage: RunUsage, sent: _Sent) -> None:
    """Count a request that was abandoned: its provider has most likely read it and will bill it."""
    usage = _usage(model.model_name, run_usage)
    # An abandoned stream counts as a request, but most providers report its cost only at the end.
    if sent.last is not None and run_usage.input_tokens == sent.read:
        meter.unanswered = 1
        read = usage.input_tokens + _estimated_tokens(_texts(sent.last))
        usage = usage.model_copy(update={"requests": sent.requests, "input_tokens": read})
    meter.usage = usage


def _estimated_tokens(texts: Iterable[str]) -> int:
    """A rough token count of `texts`, rounded up."""
    return -(-sum(len(text.encode()) for text in texts) // _BYTES_PER_TOKEN)


def _shown_by_tools(request: ModelRequestContext) -> Iterator[str]:
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                yield str(part.content)


def _texts(request: ModelRequestContext) -> Iterator[str]:
    parameters = request.model_request_parameters
    for instruction in parameters.instruction_parts or ():
        yield instruction.content
    for tool in (*parameters.function_tools, *parameters.output_tools):
        yield f"{tool.name} {tool.description} {json.dumps(tool.parameters_json_schema)}"
    for message in request.messages:
        for part in message.parts:
            yield str(getattr(part, "content", None) or getattr(part, "args", None) or "")


def _took_too_long(error: Exception) -> bool:
    failures = error.exceptions if isinstance(error, FallbackExceptionGroup) else (error,)
    return any(isinstance(failure, _TIMEOUTS) for failure in failures)


async def close_clients(model: Model, given: ModelChoice) -> None:
    """Close the client that `model`, or each of its fallbacks, opened to its provider.

    Args:
        given: The choice it was resolved from. `Model` instances in it belong to the caller and stay open.
    """
    theirs = {id(one) for one in ([given] if given is None or isinstance(given, str | Model) else given)}
    several = model.models if isinstance(model, FallbackModel) and id(model) not in theirs else [model]
    async with AsyncExitStack() as closing:
        for one in several:
            if id(one) not in theirs:
                # Leaving a model's context last closes the client that its provider made, if any.
                await closing.enter_async_context(one)
                if one.provider is not None and one.provider.name == "ollama":
                    # We passed this client in, so the provider does not close it.
                    closing.push_async_callback(one.provider.client.close)


def _watcher[D](watch: Callable[[Mapping[str, Any]], None]) -> EventStreamHandler[D]:
    """Passes on the partial answer each time the model has written more of it."""

    async def handle(context: RunContext[D], events: AsyncIterable[AgentStreamEvent]) -> None:
        calls: dict[int, ToolCallPart] = {}
        async for event in events:
            if isinstance(event, PartStartEvent) and isinstance(event.part, ToolCallPart):
                calls[event.index] = event.part
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, ToolCallPartDelta):
                begun = calls.get(event.index)
                changed = None if begun is None else event.delta.apply(begun)
                if not isinstance(changed, ToolCallPart):
                    continue
                calls[event.index] = changed
            else:
                continue
            call = calls[event.index]
            if call.tool_name == ANSWER_TOOL and (answer := _read_partly(call.args)):
                watch(answer)

    return handle


def _read_partly(arguments: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The answer so far; {} if nothing can be read yet."""
    if isinstance(arguments, str):
        try:
            arguments = from_json(arguments, allow_partial="trailing-strings")
        except ValueError:
            return {}
    return arguments if isinstance(arguments, Mapping) else {}


def _settings(model: Model, limits: AgentLimits) -> ModelSettings | None:
    """Split the time evenly between several models, so that some is left for the next one."""
    seconds = limits.timeout_seconds or limits.request_timeout_seconds
    if not isinstance(model, FallbackModel) or seconds is None:
        return None
    return ModelSettings(request_timeout=seconds / len(model.models))


def _describe(error: Exception, limits: AgentLimits) -> tuple[FailureReason, str]:
    if isinstance(error, _TIMEOUTS):
        return "timeout", f"gave no answer within {limits.timeout_seconds or limits.request_timeout_seconds:g} s"
    if isinstance(error, UsageLimitExceeded):
        return "limit", (
            f"needed more than {limits.max_requests} requests, {limits.max_tokens:,} tokens or {MAX_TOOL_CALLS} tool"
            " calls"
        )
    if isinstance(error, FallbackExceptionGroup):
        return "unavailable", f"was unavailable ({', '.join(map(_name, error.exceptions))})"
    if isinstance(error, ModelAPIError):
        return "unavailable", f"was unavailable ({_name(error)})"
    if isinstance(error, UnexpectedModelBehavior):
        return "invalid", "gave no usable answer"
    return "failed", f"failed ({_name(error)})"


def _name(error: Exception) -> str:
    """The kind of error, without its message."""
    status = getattr(error, "status_code", None)
    return f"{type(error).__name__} {status}" if isinstance(status, int) else type(error).__name__


def _usage(model: str, run_usage: RunUsage) -> ModelUsage:
    return ModelUsage(
        model=model,
        requests=run_usage.requests,
        input_tokens=run_usage.input_tokens,
        output_tokens=run_usage.output_tokens,
    )


def _answering_model(messages: Sequence[ModelMessage]) -> str | None:
    """The model that gave the last answer; with fallbacks, not always the first."""
    answers: list[Any] = [message for message in messages if isinstance(message, ModelResponse)]
    return answers[-1].model_name if answers else None
