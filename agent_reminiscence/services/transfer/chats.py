"""Gathers messages into memories, by conversation."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from agent_reminiscence.config.constants import MAX_CONTENT_CHARACTERS, MAX_METADATA_BYTES
from agent_reminiscence.domain.transfer import ImportedMemory
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.messages import FaultHandler, Message, TextRecord, refuse
from agent_reminiscence.services.transfer.parts import (
    SourceFile,
    document_parts,
    part_title,
    split_text,
    with_few_chunks,
)
from agent_reminiscence.services.transfer.records import Record, read_records

# The total size of interleaved conversations that may be open at once; beyond that, the one silent longest is written,
# and its later messages become a further part.
_MAX_OPEN_CHARACTERS: Final = 16_000_000

# Rough size of a message beyond its text.
_MESSAGE_OVERHEAD_CHARACTERS: Final = 500

# Room for the rest of the metadata.
_MAX_TURNS_BYTES: Final = MAX_METADATA_BYTES - 4_096


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
        check: Raises InvalidInputError for the id of a conversation that must not be stored.

    Attributes:
        messages: How many messages were taken.
        silent_messages: How many of them had no text and were skipped.
        replaced_characters: How many characters of them could not be stored and are U+FFFD now.
    """

    def __init__(
        self,
        title: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        occurred_at: datetime | None = None,
        conversation_id: str | None = None,
        check: Callable[[str], None] = lambda conversation_id: None,
    ) -> None:
        self.messages = 0
        self.silent_messages = 0
        self.replaced_characters = 0
        self._check = check
        self._checked: set[str] = set()
        self._title = title
        self._metadata = dict(metadata or {})
        self._occurred_at = occurred_at
        self._conversation_id = conversation_id
        self._open: OrderedDict[str | None, _OpenPart] = OrderedDict()
        self._finished_parts: dict[str | None, int] = {}
        self._size = 0
        self._silent = 0
        self._replaced = 0

    def take(self, value: object, number: int, on_fault: FaultHandler = refuse) -> Iterator[ImportedMemory]:
        """Take the `number`-th record: a message, a whole conversation or a text, in the form of a .jsonl line.

        Args:
            on_fault: Is told what cannot be read; the error names the number.

        Returns:
            The memories that this completes.

        Raises:
            InvalidInputError: Only `on_fault` raises it.
        """
        for record in read_records(value, f"message {number}", f"#{number}", on_fault):
            try:
                yield from self.add(record, on_fault)
            except InvalidInputError as error:
                on_fault(InvalidInputError(f"message {number}: {error}"))

    def add(self, record: Record, on_fault: FaultHandler = refuse) -> Iterator[ImportedMemory]:
        """Take one message or text; returns the memories that this completes.

        Args:
            on_fault: Is told of a conversation that this completes and that must not be stored.

        Raises:
            InvalidInputError: It must not be stored.
        """
        if record.conversation is not None and record.conversation not in self._checked:
            self._check(record.conversation)
            self._checked.add(record.conversation)
        self.messages += 1
        self.replaced_characters += record.replaced
        self._replaced += record.replaced
        if isinstance(record, Message):
            yield from self._add_message(record, on_fault)
        else:
            yield from self._text_parts(record)

    def _text_parts(self, record: TextRecord) -> Iterator[ImportedMemory]:
        """The memories of a text of its own."""
        number = 0
        for part in document_parts([record.text]):
            number += 1
            silent, replaced = self._told()
            yield ImportedMemory(
                title=part_title(record.title, number),
                content=validation.content(part),
                metadata=validation.memory_metadata({**self._metadata, **record.metadata}, part),
                occurred_at=record.written_at or self._occurred_at,
                conversation_id=record.conversation or self._conversation_id,
                silent_messages=silent,
                replaced_characters=replaced,
            )
        if not number:
            self._silent += 1
            self.silent_messages += 1

    def _add_message(self, message: Message, on_fault: FaultHandler) -> Iterator[ImportedMemory]:
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
        for piece, is_dense in _pieces(message.text, MAX_CONTENT_CHARACTERS - len(label)):
            if not piece.strip():
                continue
            part = self._part(message)
            if not part.takes(label + piece, turn) or (is_dense and part.turns):
                yield from self._finish(self._group(message), on_fault)
                part = self._part(message)
            before = part.size
            part.add(label + piece, turn, message.said_at)
            self._size += part.size - before
        while self._size > _MAX_OPEN_CHARACTERS and len(self._open) > 1:
            yield from self._finish(next(iter(self._open)), on_fault)

    def finish(self, on_fault: FaultHandler = refuse) -> Iterator[ImportedMemory]:
        """The memories still open, by when their conversations fell silent.

        Args:
            on_fault: Is told of one that must not be stored.

        Raises:
            InvalidInputError: Only `on_fault` raises it.
        """
        while self._open:
            yield from self._finish(next(iter(self._open)), on_fault)

    def _group(self, message: Message) -> str | None:
        """The key of the message's conversation; None for messages that name none."""
        return None if message.group == self._conversation_id else message.group

    def _part(self, message: Message) -> _OpenPart:
        group = self._group(message)
        part = self._open.get(group)
        if part is None:
            title = message.title or (self._title if group is None else f"{self._title} {group}")
            conversation = message.conversation or self._conversation_id
            part = _OpenPart(title, conversation, self._finished_parts.get(group, 0) + 1)
            self._open[group] = part
        self._open.move_to_end(group)
        return part

    def _finish(self, group: str | None, on_fault: FaultHandler) -> Iterator[ImportedMemory]:
        part = self._open.pop(group)
        self._size -= part.size
        self._finished_parts[group] = part.number
        try:
            content = validation.content("".join(part.texts))
            metadata = validation.memory_metadata({**self._metadata, "turns": part.turns}, content)
        except InvalidInputError as error:
            on_fault(InvalidInputError(f"a conversation of {len(part.turns):,} messages: {error}"))
            return
        silent, replaced = self._told()
        yield ImportedMemory(
            title=part_title(part.title, part.number),
            content=content,
            metadata=metadata,
            occurred_at=part.occurred_at or self._occurred_at,
            conversation_id=part.conversation,
            silent_messages=silent,
            replaced_characters=replaced,
        )

    def _told(self) -> tuple[int, int]:
        """How many messages had no text, and how many characters were replaced, since the last memory."""
        told = self._silent, self._replaced
        self._silent = self._replaced = 0
        return told


def _pieces(text: str, limit: int) -> Iterator[tuple[str, bool]]:
    """A message in pieces that one memory can hold, and whether a piece has so many chunks that it needs its own."""
    for whole in split_text([text], limit):
        pieces = list(with_few_chunks(whole))
        for piece in pieces:
            yield piece, len(pieces) > 1


def read_chat(
    source: SourceFile, records: Iterable[Record], on_fault: FaultHandler = refuse
) -> Iterator[ImportedMemory]:
    """The memories of a file: one or several for each conversation, and for each text of its own.

    Args:
        on_fault: Is told of a text or conversation that must not be stored.

    Raises:
        InvalidInputError: `on_fault` or `records` raise it.
    """
    conversations = Conversations(source.title, metadata=source.metadata, occurred_at=source.modified_at)
    for record in records:
        try:
            yield from conversations.add(record, on_fault)
        except InvalidInputError as error:
            on_fault(error)
    yield from conversations.finish(on_fault)
