"""Reads messages and records in the forms that people have them in; says which forms there are if it knows none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from agent_reminiscence.config.constants import MAX_ID_CHARACTERS
from agent_reminiscence.domain.wording import kind_of
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.validation import TIME_KEYS, parse_time
from agent_reminiscence.text.storable import count_unstorable, storable_json, storable_text

# Keys that exports use; the first one present wins.
SPEAKER_KEYS: Final = ("speaker", "name", "role", "author")
TEXT_KEYS: Final = ("content", "text")
CONVERSATION_KEYS: Final = ("conversation_id", "session_id", "conversation", "session")
MESSAGE_ID_KEYS: Final = ("id", "message_id")

SUPPORTED: Final = (
    "supported: messages (speaker or role, and content or text), conversations (messages), texts (title and"
    " content), and the conversations of a ChatGPT export (mapping) or a Claude export (chat_messages)"
)
# Keys may be anything, even names of people; only what looks like a field is shown.
_FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,29}")
_MAX_SHOWN_KEYS: Final = 5


type FaultHandler = Callable[[InvalidInputError], None]
"""Is told of a record that cannot be read; reading goes on after it, unless it raises."""


def refuse(error: InvalidInputError) -> None:
    """Raise the fault: of the handlers, the one that skips nothing."""
    raise error


def read_or_tell[T](read: Callable[[], T], on_fault: FaultHandler) -> T | None:
    """What `read` returns; None if `on_fault` was told that it cannot be read, and goes on."""
    try:
        return read()
    except InvalidInputError as error:
        on_fault(error)
        return None


class Message(NamedTuple):
    """One message of a chat.

    Attributes:
        group: The conversation it belongs to within this file; None for the file's only one.
        conversation: The id of that conversation; None if it has none.
        message_id: Its id, the same in every export of the chat.
        replaced: How many characters of it are U+FFFD in place of what cannot be stored.
    """

    group: str | None
    conversation: str | None
    title: str | None
    speaker: str
    text: str
    said_at: datetime | None
    message_id: str | None
    replaced: int = 0


class TextRecord(NamedTuple):
    """A text of its own, with a title and without a speaker."""

    title: str
    text: str
    metadata: dict[str, Any]
    written_at: datetime | None
    conversation: str | None
    replaced: int = 0


def read_conversation(
    value: Mapping[str, Any], where: str, number: str | None, on_fault: FaultHandler = refuse
) -> Iterator[Message]:
    """The messages of an object with `messages`; without an id it is identified by its `number`."""
    messages = value.get("messages")
    if not isinstance(messages, list):
        raise InvalidInputError(f"{where}: 'messages' is not a list")
    name = read_id(value, (*CONVERSATION_KEYS, *MESSAGE_ID_KEYS), where)
    title = value.get("title")
    if title is not None and not (isinstance(title, str) and title.strip()):
        on_fault(InvalidInputError(f"{where}: 'title' is not text"))
        title = None
    began_at = read_or_tell(lambda: read_time(value, where), on_fault)
    # The title's are counted with the first message.
    replaced = 0 if title is None else count_unstorable(title)
    for position, item in enumerate(messages, start=1):
        try:
            message = read_message(item, f"{where}, message {position}")
        except InvalidInputError as error:
            on_fault(error)
            continue
        conversation = message.conversation or name
        yield Message(
            group=conversation or number,
            conversation=conversation,
            title=None if title is None else storable_text(title),
            speaker=message.speaker,
            text=message.text,
            said_at=message.said_at or began_at,
            message_id=message.message_id,
            replaced=message.replaced + replaced,
        )
        replaced = 0


def read_message(value: object, where: str) -> Message:
    """One message; the caller knows that it is none of the other forms."""
    if not isinstance(value, Mapping):
        raise InvalidInputError(
            f"{where}: a message must be an object with speaker (or role) and content (or text), not"
            f" {_kind_of(value)}; {SUPPORTED}"
        )
    speaker = _first(value, SPEAKER_KEYS)
    has_text = any(key in value for key in TEXT_KEYS)
    if speaker is None and not has_text:
        raise InvalidInputError(f"{where}: an object with {_shown_keys(value)} is not supported; {SUPPORTED}")
    if speaker is not None and not isinstance(speaker, str):
        key = next(key for key in SPEAKER_KEYS if value.get(key) is not None)
        raise InvalidInputError(f"{where}: the {key} must be text, not {_kind_of(speaker)}")
    if speaker is None or not speaker.strip():
        raise InvalidInputError(f"{where}: the message has no speaker (or role)")
    check_speaker("speaker", speaker, where)
    if not has_text:
        raise InvalidInputError(f"{where}: the message has no content (or text)")
    conversation = read_id(value, CONVERSATION_KEYS, where)
    words = _words(_first(value, TEXT_KEYS), where)
    return Message(
        group=conversation,
        conversation=conversation,
        title=None,
        speaker=" ".join(storable_text(speaker).split()),
        text=storable_text(words),
        said_at=read_time(value, where),
        message_id=read_id(value, MESSAGE_ID_KEYS, where),
        replaced=count_unstorable(speaker) + count_unstorable(words),
    )


def check_speaker(name: str, speaker: str, where: str) -> None:
    """Refuse a speaker whose name is too long to be stored."""
    if len(speaker) > MAX_ID_CHARACTERS:
        raise InvalidInputError(
            f"{where}: the {name} has {len(speaker):,} characters; the limit is {MAX_ID_CHARACTERS}"
        )


def is_text_record(value: Mapping[str, Any]) -> bool:
    """Whether an object is a text of its own: a title, a text, and nobody who says it."""
    return (
        isinstance(value.get("title"), str)
        and any(key in value for key in TEXT_KEYS)
        and _first(value, SPEAKER_KEYS) is None
    )


def read_text_record(value: Mapping[str, Any], where: str) -> TextRecord:
    """A text with its title and, optionally, a time, a conversation, an id and metadata."""
    text = _first(value, TEXT_KEYS)
    if not isinstance(text, str | None):
        raise InvalidInputError(f"{where}: the content of a text with a title must be text")
    title = value["title"]
    if not title.strip():
        raise InvalidInputError(f"{where}: the title is blank")
    words = storable_text(text or "")
    try:
        metadata, replaced = storable_json(validation.metadata(value.get("metadata")))
        if words.strip():
            validation.memory_metadata(metadata, words)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None
    record_id = read_id(value, MESSAGE_ID_KEYS, where)
    return TextRecord(
        title=storable_text(title),
        text=words,
        metadata={**({} if record_id is None else {"id": record_id}), **metadata},
        written_at=read_time(value, where),
        conversation=read_id(value, CONVERSATION_KEYS, where),
        replaced=replaced + count_unstorable(title) + count_unstorable(text or ""),
    )


def read_id(value: Mapping[str, Any], keys: Iterable[str], where: str) -> str | None:
    """The first id that is there."""
    found = _first(value, keys)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, str | int | UUID):
        raise InvalidInputError(f"{where}: an id must be text or a whole number")
    text = str(found).strip()
    try:
        return validation.identifier("an id", text) if text else None
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None


def read_time(value: Mapping[str, Any], where: str, keys: Iterable[str] = TIME_KEYS) -> datetime | None:
    """The first time that is there."""
    found = _first(value, keys)
    if found is None or found == "":
        return None
    try:
        moment = found if isinstance(found, datetime) else parse_time(found)
        validation.moment("the time", moment)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None
    # In its own time zone: that is part of the idempotency key and of what a hit shows.
    return moment


def _words(value: Any, where: str) -> str:
    """The text of a message: a string, or the text parts of a list as chat models return it; empty for null."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in value]
        return "\n".join(part for part in parts if isinstance(part, str))
    raise InvalidInputError(f"{where}: the content is neither text nor a list of parts")


def _first(value: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _kind_of(value: object) -> str:
    names = {
        str: "text",
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return names.get(type(value)) or kind_of(value)


def _shown_keys(value: Mapping[Any, Any]) -> str:
    shown = [repr(key) for key in value if isinstance(key, str) and _FIELD_NAME.fullmatch(key)][:_MAX_SHOWN_KEYS]
    if not shown:
        return "no known field" if value else "no fields"
    more = len(value) - len(shown)
    return f"the fields {', '.join(shown)}{f' and {more:,} more' if more else ''}"
