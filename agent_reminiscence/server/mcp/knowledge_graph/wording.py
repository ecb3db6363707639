"""What the reference server's clients read: results as JSON, and failures in its words."""

from __future__ import annotations

import json
from typing import Any, Final

from mcp import types
from pydantic import ValidationError

from agent_reminiscence.exceptions import InvalidInputError, QuotaExceededError, RedactionError, ReminiscenceError
from agent_reminiscence.server.mcp.wording import Wording, failed

# A list may have as many as it has items.
_SHOWN_FAULTS: Final = 5
# How the reference server tells of arguments that it cannot read.
_INVALID: Final = f"MCP error {types.INVALID_PARAMS}:"


def as_text(value: Any) -> str:
    """A JSON value as the reference server shows it to models."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def told(error: ReminiscenceError) -> str:
    """What a model is told of an error, without any text of a memory.

    Of a list of changes, those before the failure were made, so it does not say that nothing was written.
    """
    match error:
        case InvalidInputError() | QuotaExceededError():
            return str(error)
        case RedactionError():
            return "the text could not be searched for secrets, so nothing was written"
        case _:
            return "the memory is not available at the moment; try again later"


def _unknown_tool(name: str) -> types.CallToolResult:
    return failed(f"{_INVALID} Tool {name} not found")


def _bad_arguments(tool: str, error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    faults = "; ".join(f"{one['msg']} at {'.'.join(map(str, one['loc']))}" for one in found[:_SHOWN_FAULTS])
    return f"{_INVALID} Input validation error: Invalid arguments for tool {tool}: {faults}"


WORDING: Final = Wording(unknown_tool=_unknown_tool, bad_arguments=_bad_arguments, error=told)
