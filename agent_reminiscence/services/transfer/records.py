"""Tells the forms of a record apart, and reads each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer.chat_apps import chatgpt_messages, claude_messages, is_chatgpt, is_claude
from agent_reminiscence.services.transfer.json_files import json_document, json_lines
from agent_reminiscence.services.transfer.messages import (
    SUPPORTED,
    FaultHandler,
    Message,
    TextRecord,
    is_text_record,
    read_conversation,
    read_message,
    read_text_record,
    refuse,
)
from agent_reminiscence.services.transfer.parts import ReadableFile

Record = Message | TextRecord


def read_records(value: object, where: str, number: str | None, on_fault: FaultHandler = refuse) -> Iterator[Record]:
    """The messages in `value`: one message, all of a conversation, or a text of its own.

    Args:
        where: What to call it in errors.
        number: Identifies a conversation without an id; None for the file's only one.
        on_fault: Is told of a message that cannot be read, or of the whole value if it has none of the known forms.

    Raises:
        InvalidInputError: Only `on_fault` raises it.
    """
    try:
        yield from _records(value, where, number, on_fault)
    except InvalidInputError as error:
        on_fault(error)


def _records(value: object, where: str, number: str | None, on_fault: FaultHandler) -> Iterator[Record]:
    if not isinstance(value, Mapping):
        yield read_message(value, where)
    elif is_chatgpt(value):
        yield from chatgpt_messages(value, where, number, on_fault)
    elif is_claude(value):
        yield from claude_messages(value, where, number, on_fault)
    elif "messages" in value:
        yield from read_conversation(value, where, number, on_fault)
    elif is_text_record(value):
        yield read_text_record(value, where)
    else:
        yield read_message(value, where)


def records_of_lines(file: ReadableFile, on_fault: FaultHandler = refuse) -> Iterator[Record]:
    """The records of a file of one JSON value per line."""
    for item in json_lines(file, on_fault):
        yield from read_records(item.value, f"line {item.number}", f"#{item.number}", on_fault)


def records_of_document(file: ReadableFile, on_fault: FaultHandler = refuse) -> Iterator[Record]:
    """The records of one JSON document."""
    for item in json_document(file):
        if item.number is not None:
            yield from _read_item(item.value, item.number, on_fault)
        elif isinstance(item.value, dict):
            yield from _read_object(item.value, on_fault)
        else:
            raise InvalidInputError(f"the file is neither a list of messages nor an object; {SUPPORTED}")


def _read_object(value: dict[str, Any], on_fault: FaultHandler) -> Iterator[Record]:
    conversations = value.get("conversations")
    if conversations is None:
        yield from read_records(value, "the file", None, on_fault)
    elif isinstance(conversations, list):
        for number, item in enumerate(conversations, start=1):
            yield from _read_item(item, number, on_fault)
    elif isinstance(conversations, dict):
        yield from read_records(conversations, "the file", None, on_fault)
    else:
        raise InvalidInputError(f"'conversations' is not a list; {SUPPORTED}")


def _read_item(value: object, number: int, on_fault: FaultHandler) -> Iterator[Record]:
    is_message = not isinstance(value, dict) or not (
        "messages" in value or is_chatgpt(value) or is_claude(value) or is_text_record(value)
    )
    yield from read_records(value, f"{'message' if is_message else 'record'} {number}", f"#{number}", on_fault)
