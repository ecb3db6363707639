"""What a server says when a call of a tool fails; each kind of tools has words of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mcp import types
from pydantic import ValidationError

from agent_reminiscence.exceptions import ReminiscenceError

UNEXPECTED: Final = "that failed for a reason that only the server's log names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How one kind of tools tells of failures. None of it quotes a memory, or a text that was to become one.

    Attributes:
        unknown_tool: Answers a call of a tool that is not there, given its name; or raises `MCPError`.
        bad_arguments: What a model is told of arguments that a tool, given its name, cannot read.
        error: What a model is told of an error of the memory.
    """

    unknown_tool: Callable[[str], types.CallToolResult]
    bad_arguments: Callable[[str, ValidationError], str]
    error: Callable[[ReminiscenceError], str]


def failed(text: str) -> types.CallToolResult:
    """A refusal or a failure, of which the model reads the text."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
