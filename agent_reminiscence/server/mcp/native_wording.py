"""Failures as a model reads them: in terms of the native tools, and without any text of a memory."""

from __future__ import annotations

from typing import Final, NoReturn

from mcp import MCPError, types
from pydantic import ValidationError

from agent_reminiscence.exceptions import (
    AgentError,
    CommitUnknownError,
    ConfigurationError,
    EmbeddingError,
    ExternalIdNotFoundError,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    NotInitializedError,
    QuotaExceededError,
    RedactionError,
    ReminiscenceError,
    StoreError,
    VersionConflictError,
)
from agent_reminiscence.server.mcp.wording import UNEXPECTED, Wording

AWAY: Final = "the memory is not available at the moment; nothing was written, so try again later"

_MAX_SHOWN_NAME: Final = 64
_MAX_SHOWN_FAULTS: Final = 5
_FAULTS: Final = {
    "extra_forbidden": "there is no such argument",
    "missing": "is missing",
    # Pydantic's words for this one quote a character.
    "uuid_parsing": "write an id as list_memories shows it",
}


def worded(error: ReminiscenceError) -> str:
    """What a model is told of an error."""
    match error:
        case MemoryNotFoundError(memory_id=memory_id) if memory_id is not None:
            return f"there is no memory {str(memory_id)!r}; list_memories shows those there are"
        case VersionConflictError():
            return (
                f"memory {str(error.memory_id)!r} is at version {error.version}, not {error.expected_version}: somebody"
                " else changed it; read it with history and redo the change"
            )
        case IdempotencyConflictError():
            return "this idempotency key was used for another call; a new call needs a new key"
        case InvalidInputError() | QuotaExceededError() | ExternalIdNotFoundError():
            return str(error)
        case RedactionError():
            return "the text could not be searched for secrets, so nothing was written"
        case CommitUnknownError():
            return "the connection was lost while writing; look with list_memories before you try again"
        case StoreError() | NotInitializedError():
            return AWAY
        case EmbeddingError():
            return "the texts could not be compared by meaning at the moment; try again later"
        case AgentError():
            return "the model gave no usable answer; recall finds the passages without it"
        case ConfigurationError():
            return "the server is not configured for this"
        case _:
            return UNEXPECTED


def _unknown_tool(name: str) -> NoReturn:
    raise MCPError(types.INVALID_PARAMS, f"there is no tool {name[:_MAX_SHOWN_NAME]!r}")


def _bad_arguments(tool: str, error: ValidationError) -> str:
    del tool
    found = error.errors(include_url=False, include_context=False, include_input=False)
    faults = [
        f"{'.'.join(map(str, one['loc']))[:_MAX_SHOWN_NAME] or 'arguments'}: {_FAULTS.get(one['type'], one['msg'])}"
        for one in found
    ]
    more = len(faults) - _MAX_SHOWN_FAULTS
    return "; ".join([*faults[:_MAX_SHOWN_FAULTS], *([f"and {more} more"] if more > 0 else [])])


NATIVE_WORDING: Final = Wording(unknown_tool=_unknown_tool, bad_arguments=_bad_arguments, error=worded)
