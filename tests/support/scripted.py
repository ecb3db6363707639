"""A language model that says what a test has written down, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.tools import ToolDefinition

type Step = Callable[[Sequence[ModelMessage], AgentInfo], ModelResponse]


class ScriptedModel:
    """Answers with one step after the other, and then with the last one again and again.

    Args:
        compares: What a memorizer answers that is to compare, in between; None takes the next step for that as well.

    Attributes:
        asked: What it was shown at each request, whole.
        offered: Which tools it was offered at each.
        tools: The same tools, with what each takes.
        outputs: The tools by which it could answer.
        compared: What it was shown at each request to compare.
        model: To pass as an agent's model.
    """

    def __init__(self, *steps: Step, compares: Step | None = None) -> None:
        self._steps = steps
        self._compares = compares
        self.compared: list[list[ModelMessage]] = []
        self.asked: list[list[ModelMessage]] = []
        self.offered: list[set[str]] = []
        self.tools: list[list[ToolDefinition]] = []
        self.outputs: list[list[ToolDefinition]] = []
        self.model = FunctionModel(self._answer, stream_function=self._stream, model_name="scripted")

    def begin(self, *steps: Step, compares: Step | None = None) -> None:
        """Begin again with other steps, as if nothing had been asked yet."""
        self._steps = steps
        self._compares = compares
        for kept in (self.compared, self.asked, self.offered, self.tools, self.outputs):
            kept.clear()

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if self._compares is not None and info.output_tools[0].parameters_json_schema["title"] == "EndingsPlan":
            self.compared.append(list(messages))
            return self._compares(messages, info)
        self.asked.append(list(messages))
        self.offered.append({tool.name for tool in info.function_tools})
        self.tools.append(list(info.function_tools))
        self.outputs.append(list(info.output_tools))
        step = self._steps[min(len(self.asked), len(self._steps)) - 1]
        return step(messages, info)

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        """The same answers, a few letters at a time."""
        response = await self._answer(messages, info)
        for number, part in enumerate(response.parts):
            if isinstance(part, ToolCallPart):
                arguments = part.args_as_json_str()
                yield {number: DeltaToolCall(part.tool_name, "", tool_call_id=part.tool_call_id)}
                for start in range(0, len(arguments), 5):
                    yield {number: DeltaToolCall(json_args=arguments[start : start + 5])}
            elif isinstance(part, TextPart):
                yield part.content

    @property
    def shown(self) -> str:
        """All text that it was ever shown."""
        messages = [message for request in (*self.asked, *self.compared) for message in request]
        texts = [str(getattr(part, "content", "")) for message in messages for part in message.parts]
        return "\n".join([*texts, *(str(getattr(message, "instructions", "")) for message in messages)])


def answer(plan: Mapping[str, Any]) -> Step:
    """Gives its final plan."""

    def step(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, dict(plan))])

    return step


def call(tool: str, **arguments: Any) -> Step:
    """Calls one tool."""
    return call_all((tool, arguments))


def call_all(*calls: tuple[str, Mapping[str, Any]]) -> Step:
    """Calls several tools at once."""

    def step(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart(tool, dict(arguments)) for tool, arguments in calls])

    return step


def say(text: str) -> Step:
    """Writes prose where a plan was wanted."""

    def step(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(text)])

    return step


def fail(error: Exception) -> Step:
    """Fails like a provider's client."""

    def step(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise error

    return step
