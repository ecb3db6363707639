"""Reads a conversation's messages, in the forms that agents keep them in, into what was said."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from agent_reminiscence.agents.plans import Role, Said
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.validation import TIME_KEYS, parse_time
from agent_reminiscence.text.rendering import split_recalled
from agent_reminiscence.text.storable import storable_text

MAX_MESSAGES: Final = 1_000
MAX_CONVERSATION_CHARACTERS: Final = 100_000

_ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_MAX_SHOWN_KEYS: Final = 100
_MAX_SHOWN_ROLE = 40
# Message parts that hold what a model thought but did not say.
_SILENT_PARTS: Final = frozenset({"thinking", "reasoning"})
# What an application tells its model was not said by anybody.
_SILENT_ROLES: Final = frozenset({"system", "developer"})


def read_conversation(messages: object, *, until: datetime | None = None) -> list[Said]:
    """What was said, in order; text that only quotes recalled memory becomes a separate item.

    Args:
        messages: Pydantic AI messages, or mappings with `role` (user, assistant, tool, system) and `content`: text, or
            a list of parts, of which those with `text` count. System prompts, tool calls and pictures are left out.
        until: When the conversation took place. A Pydantic AI message that claims to be from later was only made then:
            messages restored from plain texts carry the time at which they were restored.

    Raises:
        InvalidInputError: Something is not a message, or there is too much.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise InvalidInputError(f"messages must be a sequence of messages, not {type(messages).__name__}")
    texts: list[tuple[Role, str, int, datetime | None]] = []
    for number, message in enumerate(messages):
        if number == MAX_MESSAGES:
            raise InvalidInputError(
                f"there are more than {MAX_MESSAGES:,} messages; pass the latest ones, or use import_messages()"
            )
        for role, text, said_at in _read(message, number, until):
            texts.append((role, storable_text(text), number, said_at))
    characters = sum(len(text) for _, text, _, _ in texts)
    if characters > MAX_CONVERSATION_CHARACTERS:
        raise InvalidInputError(
            f"the messages have {characters:,} characters, more than {MAX_CONVERSATION_CHARACTERS:,};"
            " pass the latest ones, or use import_messages()"
        )
    # Only after the length check: on an unbounded hostile text, the search for recalled memory could run for ever.
    return [
        Said(role, part, is_recalled, number, said_at)
        for role, text, number, said_at in texts
        for part, is_recalled in split_recalled(text)
        if part.strip()
    ]


def _read(message: object, number: int, until: datetime | None) -> list[tuple[Role, str, datetime | None]]:
    if isinstance(message, Mapping):
        said = _read_mapping(message, number)
        said_at = _read_time(message, number) if said else None
        return [(role, text, said_at) for role, text in said]
    if type(message).__module__.startswith("pydantic_ai."):
        found = _read_model_message(message)
        if found is not None:
            return [(role, text, _not_after(said_at, until)) for role, text, said_at in found]
    raise InvalidInputError(
        f"messages[{number}] is {type(message).__name__}; pass Pydantic AI messages, or mappings with role and content"
    )


def _read_mapping(message: Mapping[Any, Any], number: int) -> list[tuple[Role, str]]:
    role = message.get("role")
    if isinstance(role, str) and role in _SILENT_ROLES:
        return []
    if not isinstance(role, str) or role not in _ROLES:
        shown = repr(role)[:_MAX_SHOWN_ROLE] if role is None or isinstance(role, str) else f"of {type(role).__name__}"
        raise InvalidInputError(f"messages[{number}] has the role {shown}; use user, assistant, tool or system")
    content = message.get("content")
    if content is None:
        if role != "assistant" and "content" not in message:
            keys = ", ".join(sorted(str(key) for key in message))[:_MAX_SHOWN_KEYS]
            raise InvalidInputError(f"messages[{number}] has no content, only {keys}; put its text under `content`")
        # A message that only calls tools.
        return []
    if isinstance(content, str):
        return [(_ROLES[role], content)]
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        texts = [part if isinstance(part, str) else _text_of(part) for part in content]
        return [(_ROLES[role], text) for text in texts if text]
    raise InvalidInputError(f"messages[{number}] has content of type {type(content).__name__}; it must be text")


def _read_time(message: Mapping[Any, Any], number: int) -> datetime | None:
    """When a message was said, if it says so."""
    found = next((message[key] for key in TIME_KEYS if message.get(key) not in (None, "")), None)
    if found is None:
        return None
    try:
        return validation.moment("its time", found if isinstance(found, datetime) else parse_time(found))
    except InvalidInputError as error:
        raise InvalidInputError(f"messages[{number}]: {error}") from None


def _not_after(said_at: datetime, until: datetime | None) -> datetime | None:
    """A message's own time, if it can be right."""
    if said_at.utcoffset() is None or (until is not None and said_at > until):
        return None
    return said_at


def _text_of(part: object) -> str:
    if not isinstance(part, Mapping) or str(part.get("type")) in _SILENT_PARTS:
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else ""


def _read_model_message(message: object) -> list[tuple[Role, str, datetime]] | None:
    """The texts of a Pydantic AI message with their times; None if `message` is not one."""
    if sys.modules.get("pydantic_ai") is None:
        # Whoever made one has imported it. It takes most of a second, and may not be installed.
        return None
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextContent, TextPart, ToolReturnPart, UserPromptPart

    said: list[tuple[Role, str, datetime]] = []
    if not isinstance(message, ModelRequest | ModelResponse):
        return None
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            contents = [part.content] if isinstance(part.content, str) else part.content
            texts = [content.content if isinstance(content, TextContent) else content for content in contents]
            said += [("user", text, part.timestamp) for text in texts if isinstance(text, str)]
        elif isinstance(part, ToolReturnPart):
            if part.outcome in ("success", "failed"):
                said.append(("tool", part.model_response_str(), part.timestamp))
        elif isinstance(part, TextPart) and isinstance(message, ModelResponse):
            said.append(("assistant", part.content, message.timestamp))
    return said
