"""What a model is asked, counted: for benchmarks that ask none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_ai.messages import ModelMessage, TextContent, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo

from agent_reminiscence.text.tokens import count_tokens


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model. Tokens are estimated; a provider adds a little for its own format.

    Attributes:
        fixed: Tokens of the instructions, and of the schemas of tools and answer.
        material: Tokens of everything else, calls and results included.
        learns: Whether it wants an answer by a schema; a ReAct agent's own requests do not.
        text: All of it but the schemas.
    """

    fixed: int
    material: int
    learns: bool
    text: str

    @property
    def tokens(self) -> int:
        """All that the model reads."""
        return self.fixed + self.material


def request_of(messages: Sequence[ModelMessage], info: AgentInfo) -> Request:
    """The size of a request."""
    schemas = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
        for tool in (*info.function_tools, *info.output_tools)
    ]
    fixed = count_tokens(info.instructions or "") + count_tokens(json.dumps(schemas, ensure_ascii=False))
    texts = [text for message in messages for text in texts_of(message)]
    return Request(
        fixed=fixed,
        material=sum(map(count_tokens, texts)),
        learns=bool(info.output_tools),
        text="\n".join([info.instructions or "", *texts]),
    )


def texts_of(message: ModelMessage) -> list[str]:
    """The texts of a message, whoever says them; a call on one line."""
    texts: list[str] = []
    for part in message.parts:
        match part:
            case UserPromptPart(content=str(content)):
                texts.append(content)
            case UserPromptPart(content=content):
                texts.extend(one.content if isinstance(one, TextContent) else str(one) for one in content)
            case ToolCallPart():
                texts.append(f"{part.tool_name} {part.args_as_json_str()}")
            case ToolReturnPart():
                texts.append(part.model_response_str())
            case _:
                texts.append(str(getattr(part, "content", "")))
    return texts
