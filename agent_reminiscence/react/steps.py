"""Steps as messages of a model, and messages as steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)

from agent_reminiscence.react.models import AgentStep
from agent_reminiscence.react.plain import plain_value
from agent_reminiscence.text.storable import storable_text


@dataclass(frozen=True, slots=True)
class Turn:
    """A response that calls tools, and the results.

    Attributes:
        start: Where its response stands among the messages.
        stop: Where the next turn begins.
        steps: One for each call; the thought is the first one's.
    """

    start: int
    stop: int
    steps: tuple[AgentStep, ...]


def as_messages(history: Sequence[AgentStep]) -> list[ModelMessage]:
    """The messages that a model and its tools would have exchanged for these steps."""
    messages: list[ModelMessage] = []
    for number, step in enumerate(history, start=1):
        call_id = f"history-{number}"
        parts: list[TextPart | ToolCallPart] = [TextPart(step.thought)] if step.thought else []
        if step.action:
            parts.append(ToolCallPart(step.action, step.arguments, tool_call_id=call_id))
        if not parts:
            continue
        messages.append(ModelResponse(parts=parts))
        if step.action:
            messages.append(ModelRequest(parts=[ToolReturnPart(step.action, step.observation, tool_call_id=call_id)]))
    return messages


def starts_of(messages: Sequence[ModelMessage]) -> list[int]:
    """Where the turns begin among messages: at every response."""
    return [number for number, message in enumerate(messages) if isinstance(message, ModelResponse)]


def turns_of(messages: Sequence[ModelMessage], starts: Sequence[int]) -> list[Turn]:
    """The turns that begin at these places, each with what came back."""
    turns: list[Turn] = []
    for start, stop in pairwise([*starts, len(messages)]):
        response = messages[start]
        assert isinstance(response, ModelResponse)
        steps = steps_of(response, dict(_results(messages[start + 1 : stop])))
        # A response without calls was rejected, or is a thought of the history.
        turns.append(Turn(start, stop, tuple(step for _, step in steps) or (AgentStep(thought=thought_of(response)),)))
    return turns


def steps_of(response: ModelResponse, observed: Mapping[str, str]) -> list[tuple[str, AgentStep]]:
    """A step for each call of a response, with the call's id; the thought is the first one's.

    Args:
        observed: What came back, by the id of the call.
    """
    thought = thought_of(response)
    return [
        (
            call.tool_call_id,
            AgentStep(
                thought="" if number else thought,
                action=call.tool_name,
                arguments=arguments_of(call),
                observation=observed.get(call.tool_call_id, ""),
            ),
        )
        for number, call in enumerate(calls_of(response))
    ]


def calls_of(response: ModelResponse) -> list[ToolCallPart]:
    """The tools that a response calls."""
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def thought_of(response: ModelResponse) -> str:
    """What a response says beside its calls; what the model said to itself if that is nothing."""
    said = "\n\n".join(part.content for part in response.parts if isinstance(part, TextPart) and part.content.strip())
    if said:
        return storable_text(said)
    thinking = (part.content for part in response.parts if isinstance(part, ThinkingPart))
    return storable_text("\n\n".join(text for text in thinking if text.strip()))


def arguments_of(call: ToolCallPart) -> dict[str, object]:
    """The arguments of a call; as one text if they are not a JSON object."""
    try:
        arguments: dict[str, object] = plain_value(call.args_as_dict())
    except (ValueError, AssertionError):
        return {"arguments": storable_text(str(call.args))}
    return arguments


def observation_of(result: ToolReturnPart) -> str:
    """What a tool returned, as the model reads it."""
    return storable_text(result.model_response_str())


def call_text(step: AgentStep) -> str:
    """A call on one line: `search({"query": "tea"})`."""
    return f"{step.action}({json.dumps(step.arguments, ensure_ascii=False, default=str)})"


def _results(messages: Iterable[ModelMessage]) -> Iterator[tuple[str, str]]:
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    yield part.tool_call_id, observation_of(part)
