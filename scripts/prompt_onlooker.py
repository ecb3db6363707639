"""A model that looks at what it is sent and breaks off: for the page of all prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse, TextContent, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence.agents.running import prompt_version


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one agent is sent with its first request.

    Attributes:
        about: What it is for, with a link.
        tools: Schemas of tools and answer.
        shown: What stands before the model's first response, of invented memories.
    """

    heading: str
    about: str
    version: str
    instructions: str
    tools: Sequence[dict[str, Any]]
    shown: str


class Onlooker:
    """Keeps the last request that its model was sent."""

    def __init__(self) -> None:
        self.model = FunctionModel(self._look, model_name="onlooker")
        self._seen: tuple[str, list[dict[str, Any]], str, str] | None = None

    def _look(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tools = [
            {"name": one.name, "description": one.description, "parameters": one.parameters_json_schema}
            for one in (*info.function_tools, *info.output_tools)
        ]
        shown = "\n".join(text for message in messages for part in message.parts for text in _texts(part))
        self._seen = (info.instructions or "", tools, prompt_version(info.model_request_parameters), shown)
        raise UnexpectedModelBehavior("it has seen enough")

    def prompt(self, heading: str, about: str) -> Prompt:
        """What it was sent, under a heading."""
        assert self._seen is not None, f"{heading} has asked no model"
        (instructions, tools, version, shown), self._seen = self._seen, None
        return Prompt(heading, about, version, instructions, tools, shown)


def _texts(part: object) -> list[str]:
    if not isinstance(part, UserPromptPart):
        return []
    if isinstance(part.content, str):
        return [part.content]
    return [one.content if isinstance(one, TextContent) else str(one) for one in part.content]
