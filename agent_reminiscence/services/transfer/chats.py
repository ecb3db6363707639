"""Chats to ingest: the messages of JSON and JSONL files, gathered by conversation."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from agent_reminiscence.config.constants import MAX_CONTENT_CHARACTERS, MAX_ID_CHARACTERS, MAX_METADATA_BYTES
from agent_reminiscence.domain.transfer import ImportedMemory
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.parts import NotedFile, SourceFile, part_title, split_text
from agent_reminiscence.services.validation import parse_time

# Keys that exports use; the first one present wins.
_SPEAKER_KEYS: Final = ("speaker", "name", "role", "author")
_TEXT_KEYS: Final = ("content", "text")
_TIME_KEYS: Final = ("timestamp", "time", "created_at", "date")
_CONVERSATION_KEYS: Final = ("conversation_id", "session_id", "conversation", "session")
_MESSAGE_ID_KEYS: Final = ("id", "message_id")

# A .json file, or a line of a .jsonl file, is parsed as a whole, which takes some ten times its size in memory.
_MAX_JSON_BYTES: Final = 64 * 1024 * 1024

# The total size of interleaved conversations that may be open at once; beyond that, the one silent longest is written,
# and its later messages become a further part.
_MAX_OPEN_CHARACTERS: Final = 16_000_000

# Rough size of a message beyond its text.
_MESSAGE_OVERHEAD_CHARACTERS: Final = 500

# Room for the rest of the metadata.
_MAX_TURNS_BYTES: Final = MAX_METADATA_BYTES - 4_096


@dataclass(frozen=True, slots=True)
class _Message:
    """One message of a chat.

    Attributes:
        group: The conversation it belongs to within this file; None for the file's only one.
        conversation: The id of that conversation; None if it has none.
    """

    group: str | None
    conversation: str | None
    title: str | None
    speaker: str
    text: str
    said_at: datetime | None
    message_id: str | None


@dataclass(slots=True)
class _OpenPart:
    """The part of a conversation that is being assembled."""

    title: str
    conversation: str | None
    number: int = 1
    texts: list[str] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    characters: int = 0
    turns_bytes: int = 0
    occurred_at: datetime | None = None

    @property
    def size(self) -> int:
        return self.characters + _MESSAGE_OVERHEAD_CHARACTERS * len(self.turns)

    def takes(self, text: str, turn: Mapping[str, Any]) -> bool:
        """Whether one more message fits; the first one always does."""
        return not self.turns or (
            self.characters + 1 + len(text) <= MAX_CONTENT_CHARACTERS
            and self.turns_bytes + _turn_bytes(turn) <= _MAX_TURNS_BYTES
        )

    def add(self, text: str, turn: Mapping[str, Any], said_at: datetime | None) -> None:
        if self.texts:
            self.texts.append("\n")
            self.characters += 1
        self.turns.append({"start": self.characters, **turn})
        self.turns_bytes += _turn_bytes(turn)
        self.texts.append(text)
        self.characters += len(text)
        self.occurred_at = self.occurred_at or said_at


def _turn_bytes(turn: Mapping[str, Any]) -> int:
    # A seven-digit start with its key, and the separator between turns.
    return len(json.dumps(turn, ensure_ascii=False).encode()) + 24


class Conversations:
    """The conversations of a chat that are being assembled, the one silent longest first.

    Args:
        title: The title for messages without a conversation; followed by its id, for a conversation without a title.
        metadata: What each memory keeps besides its turns.
        occurred_at: The time of a memory whose messages have none; None is the moment of the import.
        conversation_id: The conversation of messages that name none; None for no conversation.

    Attributes:
        messages: How many messages were taken.
        silent_messages: How many of them had no text and were skipped.
    """

    def __init__(
        self,
        title: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        occurred_at: datetime | None = None,
        conversation_id: str | None = None,
    ) -> None:
        self.messages = 0
        self.silent_messages = 0
        self._title = title
        self._metadata = dict(metadata or {})
        self._occurred_at = occurred_at
        self._conversation_id = conversation_id
        self._open: OrderedDict[str | None, _OpenPart] = OrderedDict()
        self._finished_parts: dict[str | None, int] = {}
        self._size = 0
        self._silent = 0

    def take(self, value: object, number: int) -> Iterator[ImportedMemory]:
        """Take the `number`-th message or a whole conversation, in the form of a .jsonl line.

        Returns:
            The memories that this completes.

        Raises:
            InvalidInputError: It is neither; the error names the number.
        """
        for message in _messages_of(value, f"message {number}", f"#{number}"):
            yield from self.add(message)

    def add(self, message: _Message) -> Iterator[ImportedMemory]:
        """Take one message; returns the memories that this completes."""
        self.messages += 1
        if not message.text.strip():
            self._silent += 1
            self.silent_messages += 1
            return
        label = f"{message.speaker}: "
        turn: dict[str, Any] = {"speaker": message.speaker}
        if message.said_at is not None:
            turn["time"] = message.said_at.isoformat()
        if message.message_id is not None:
            turn["id"] = message.message_id
        for piece in split_text([message.text], MAX_CONTENT_CHARACTERS - len(label)):
            if not piece.strip():
                continue
            part = self._part(message)
            if not part.takes(label + piece, turn):
                yield self._finish(self._group(message))
                part = self._part(message)
            before = part.size
            part.add(label + piece, turn, message.said_at)
            self._size += part.size - before
        while self._size > _MAX_OPEN_CHARACTERS and len(self._open) > 1:
            yield self._finish(next(iter(self._open)))

    def finish(self) -> Iterator[ImportedMemory]:
        """The memories still open, by when their conversations fell silent."""
        while self._open:
            yield self._finish(next(iter(self._open)))

    def _group(self, message: _Message) -> str | None:
        """The key of the message's conversation; None for messages that name none."""
        return None if message.group == self._conversation_id else message.group

    def _part(self, message: _Message) -> _OpenPart:
        group = self._group(message)
        part = self._open.get(group)
        if part is None:
            title = message.title or (self._title if group is None else f"{self._title} {group}")
            conversation = message.conversation or self._conversation_id
            part = _OpenPart(title, conversation, self._finished_parts.get(group, 0) + 1)
            self._open[group] = part
        self._open.move_to_end(group)
        return part

    def _finish(self, group: str | None) -> ImportedMemory:
        part = self._open.pop(group)
        self._size -= part.size
        self._finished_parts[group] = part.number
        silent, self._silent = self._silent, 0
        content = validation.content("".join(part.texts))
        return ImportedMemory(
            title=part_title(part.title, part.number),
            content=content,
            metadata=validation.memory_metadata({**self._metadata, "turns": part.turns}, content),
            occurred_at=part.occurred_at or self._occurred_at,
            conversation_id=part.conversation,
            silent_messages=silent,
        )


def read_chat(source: SourceFile, messages: Iterable[_Message]) -> Iterator[ImportedMemory]:
    """The memories of a chat: one or several for each conversation."""
    conversations = Conversations(source.title, metadata=source.metadata, occurred_at=source.modified_at)
    for message in messages:
        yield from conversations.add(message)
    yield from conversations.finish()


def jsonl_messages(file: NotedFile) -> Iterator[_Message]:
    """The messages of a file of one JSON value per line."""
    number = 0
    while line := file.readline(_MAX_JSON_BYTES + 1):
        number += 1
        where = f"line {number}"
        if not line.strip():
            continue
        value = _parse_json(line.rstrip(b"\r\n"), where, first_line=number)
        yield from _messages_of(value, where, f"#{number}")


def json_messages(file: NotedFile) -> Iterator[_Message]:
    """The messages of one JSON document."""
    data = file.read(_MAX_JSON_BYTES + 1)
    if not data.strip():
        return
    value = _parse_json(data, "the file")
    if isinstance(value, dict) and "conversations" in value:
        value = value["conversations"]
    if isinstance(value, dict):
        yield from _conversation(value, "the file", None)
        return
    if not isinstance(value, list):
        raise InvalidInputError("the file is not a list of messages or an object with 'messages' or 'conversations'")
    for number, item in enumerate(value, start=1):
        if isinstance(item, dict) and "messages" in item:
            yield from _conversation(item, f"conversation {number}", f"#{number}")
        else:
            yield _message(item, f"message {number}")


def _parse_json(data: bytes, where: str, *, first_line: int = 1) -> Any:
    if len(data) > _MAX_JSON_BYTES:
        raise InvalidInputError(
            f"{where} has more than {_MAX_JSON_BYTES // 1024**2} MiB of JSON, which is parsed as a whole;"
            " write one message per line as .jsonl"
        )
    try:
        return json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"line {first_line + error.lineno - 1}, column {error.colno}: this is not JSON: {error.msg}"
        ) from None
    except UnicodeDecodeError as error:
        line = first_line + data[: error.start].count(b"\n")
        raise InvalidInputError(f"line {line}: this is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        # Numbers with thousands of digits, and brackets nested thousands deep.
        raise InvalidInputError(f"{where} cannot be read as JSON: {error}") from None


def _messages_of(value: object, where: str, number: str) -> Iterator[_Message]:
    """The message in `value`, or the messages of the conversation in it."""
    if isinstance(value, Mapping) and "messages" in value:
        yield from _conversation(value, where, number)
    else:
        yield _message(value, where)


def _conversation(value: Mapping[str, Any], where: str, number: str | None) -> Iterator[_Message]:
    """The messages of an object with `messages`; without an id it is identified by its `number`."""
    messages = value.get("messages")
    if not isinstance(messages, list):
        raise InvalidInputError(f"{where}: 'messages' is not a list")
    name = _identity(value, (*_CONVERSATION_KEYS, *_MESSAGE_ID_KEYS), where)
    title = value.get("title")
    if title is not None and not (isinstance(title, str) and title.strip()):
        raise InvalidInputError(f"{where}: 'title' is not text")
    began_at = _time(value, where)
    for position, item in enumerate(messages, start=1):
        message = _message(item, f"{where}, message {position}")
        conversation = message.conversation or name
        yield _Message(
            group=conversation or number,
            conversation=conversation,
            title=None if title is None else _printable(title, where),
            speaker=message.speaker,
            text=message.text,
            said_at=message.said_at or began_at,
            message_id=message.message_id,
        )


def _message(value: object, where: str) -> _Message:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{where}: a message must be an object with speaker (or role) and content (or text)")
    speaker = _first(value, _SPEAKER_KEYS)
    if not isinstance(speaker, str) or not speaker.strip():
        raise InvalidInputError(f"{where}: the message has no speaker (or role)")
    if len(speaker) > MAX_ID_CHARACTERS:
        raise InvalidInputError(
            f"{where}: the speaker has {len(speaker):,} characters; the limit is {MAX_ID_CHARACTERS}"
        )
    if not any(key in value for key in _TEXT_KEYS):
        raise InvalidInputError(f"{where}: the message has no content (or text)")
    conversation = _identity(value, _CONVERSATION_KEYS, where)
    return _Message(
        group=conversation,
        conversation=conversation,
        title=None,
        speaker=" ".join(_printable(speaker, where).split()),
        text=_printable(_words(_first(value, _TEXT_KEYS), where), where),
        said_at=_time(value, where),
        message_id=_identity(value, _MESSAGE_ID_KEYS, where),
    )


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


def _identity(value: Mapping[str, Any], keys: Iterable[str], where: str) -> str | None:
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


def _time(value: Mapping[str, Any], where: str) -> datetime | None:
    found = _first(value, _TIME_KEYS)
    if found is None or found == "":
        return None
    try:
        moment = found if isinstance(found, datetime) else parse_time(found)
        validation.moment("the time", moment)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None
    # In its own time zone: that is part of the idempotency key and of what a hit shows.
    return moment


def _first(value: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _printable(text: str, where: str) -> str:
    """`text`, if PostgreSQL can store it."""
    if "\x00" in text:
        raise InvalidInputError(f"{where}: a NUL character, which PostgreSQL cannot store")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{where}: a lone surrogate, which is not Unicode text") from None
    return text
