"""Says an error of the library in the words of the command line: its commands and options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agent_reminiscence.exceptions import (
    ConfigurationError,
    EntityNotFoundError,
    InvalidInputError,
    MemoryNotFoundError,
    ProfileNotFoundError,
    ReminiscenceError,
)

# Options that are not called like the argument or the setting that they fill.
_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "memory_id": "--memory",
        "scopes": "--scope",
        "expires_at": "--expires",
        "conversation_ids": "--conversation",
        "speakers": "--speaker",
        "sources": "--source",
        "types": "--type",
        "worker_concurrency": "--concurrency",
        "embedding_provider": "--provider",
        "embedding_model": "--model",
        "embedding_dimension": "--dimension",
    }
)
# What stands in messages for people who write Python, and the way out for those who type a command.
_CALLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "(memory.admin.archive)": "with `archive`",
        "take it back with memory.admin.unarchive()": "take it back with `unarchive`",
        "history() shows them": "`history` shows them",
        "alike must": "the name must",
        "as returned by create_active_memory()": "as `memories` prints it",
        "as memory.admin.keys.list() returns": "as `keys list` prints it",
        "memory.admin.keys.list() lists": "`keys list` lists",
        "allow overwriting it": "replace it with --overwrite",
        "verify() says which, and you can still erase() the whole external_id": (
            "`verify` says which, and `erase --all` still works"
        ),
        "verify() lists all such events; you can still erase() the whole external_id": (
            "`verify` lists all such events; `erase --all` still works"
        ),
        "verify() lists all such events": "`verify` lists all such events",
        "verify() finds all such events": "`verify` finds all such events",
        "verify() or rebuild()": "`verify` or `rebuild`",
        "then call rebuild()": "then run `rebuild`",
    }
)
_FIRST_NAMES: Final = re.compile(r"[a-z][a-z_]*(?: and [a-z][a-z_]*)?(?=[ :])")


def worded(error: ReminiscenceError, words: Sequence[str]) -> str:
    """The message of `error`, for somebody who typed `words`."""
    match error:
        case MemoryNotFoundError(memory_id=memory_id) if memory_id is not None:
            return (
                f"external_id {error.external_id!r} has no memory {str(memory_id)!r}; `memories` lists the active ones"
            )
        case EntityNotFoundError():
            return (
                f"external_id {error.external_id!r} has no entity {str(error.entity)!r}; `entities` lists those it has"
            )
        case ProfileNotFoundError():
            return (
                f"external_id {error.external_id!r} has no profile {error.name!r}, or had none at that time;"
                " `profiles list` lists those it has"
            )
        case InvalidInputError() | ConfigurationError():
            return _name_options(_name_commands(str(error)), words)
    return _name_commands(str(error))


def _name_commands(message: str) -> str:
    for call, command in _CALLS.items():
        message = message.replace(call, command)
    return message


def _name_options(message: str, words: Sequence[str]) -> str:
    """`message` with the options that were typed, if it begins with the arguments or settings that these fill."""
    given = {word.partition("=")[0] for word in words if word.startswith("--")}

    def option_of(name: str) -> str:
        options = (f"--{name.replace('_', '-')}", _OPTIONS.get(name))
        return next((option for option in options if option in given and option is not None), name)

    first = _FIRST_NAMES.match(message)
    if first is None:
        return message
    return " and ".join(map(option_of, first[0].split(" and "))) + message[first.end() :]
