"""A language model for ReAct agents in tests: it reasons, learns and closes conversations as a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextContent,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

type Reason = Callable[["Asked"], ModelResponse | str]
type Say = Callable[[str], Mapping[str, Any]]


class Asked:
    """One request to the model of an agent.

    Attributes:
        messages: All that it was shown.
        tools: The names of the tools it was offered.
        turn: How many responses it has given in this run, and in the history it was given.
    """

    def __init__(self, messages: Sequence[ModelMessage], info: AgentInfo) -> None:
        self.messages = list(messages)
        self.tools = [tool.name for tool in info.function_tools]
        self.instructions = info.instructions or ""
        self.turn = sum(isinstance(message, ModelResponse) for message in messages)

    @property
    def prompt(self) -> str:
        """What stands before its first response: what was recalled, and the question."""
        return "\n".join(text for message in self.messages[:1] for text in texts_of(message))

    @property
    def shown(self) -> str:
        """All text that it was shown."""
        return "\n".join(text for message in self.messages for text in texts_of(message))


class Brain:
    """A scripted model.

    Args:
        reason: Its next response; a text is an answer.
        learn: What it draws from an invocation, by the transcript.
        close: What it draws from a conversation.
        summarise: How it sums up earlier steps.

    Attributes:
        asked: The requests of agents.
        transcripts: What it was shown to learn from, and to close.
        told: Its instructions for that.
        model: To pass to a service.
    """

    def __init__(
        self,
        reason: Reason,
        *,
        learn: Say = lambda _: {},
        close: Say = lambda _: {},
        summarise: Callable[[str], str] = lambda _: "summed up",
    ) -> None:
        self.reason = reason
        self.learn = learn
        self.close = close
        self.summarise = summarise
        self.asked: list[Asked] = []
        self.transcripts: list[str] = []
        self.told: list[str] = []
        self.model = FunctionModel(self._answer, stream_function=self._stream, model_name="brain")

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if not info.output_tools:
            asked = Asked(messages, info)
            self.asked.append(asked)
            said = self.reason(asked)
            return ModelResponse(parts=[TextPart(said)]) if isinstance(said, str) else said
        [output] = info.output_tools
        prompt = "\n".join(text for message in messages for text in texts_of(message))
        fields = output.parameters_json_schema["properties"]
        if "summary" in fields:
            given: Mapping[str, Any] = {"summary": self.summarise(prompt)}
        else:
            self.transcripts.append(prompt)
            self.told.append(info.instructions or "")
            given = self.close(prompt) if "theme" in fields else self.learn(prompt)
        return ModelResponse(parts=[ToolCallPart(output.name, dict(given))])

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        response = await self._answer(messages, info)
        for number, part in enumerate(response.parts):
            if isinstance(part, TextPart):
                for start in range(0, len(part.content), 4):
                    yield part.content[start : start + 4]
            elif isinstance(part, ToolCallPart):
                yield {number: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}


def act(tool: str, thought: str = "", **arguments: Any) -> ModelResponse:
    """A response that calls a tool."""
    said = [TextPart(thought)] if thought else []
    return ModelResponse(parts=[*said, ToolCallPart(tool, arguments)])


def texts_of(message: ModelMessage) -> list[str]:
    """The texts of a message, whoever says them."""
    texts: list[str] = []
    for part in message.parts:
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
            texts.extend(one.content if isinstance(one, TextContent) else str(one) for one in part.content)
        elif isinstance(part, ToolCallPart):
            texts.append(f"{part.tool_name} {part.args_as_json_str()}")
        else:
            texts.append(str(getattr(part, "content", "")))
    return texts
