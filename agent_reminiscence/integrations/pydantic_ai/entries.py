"""Messages of a conversation as JSON that the ledger can hold, and back."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, ToolCallPart

from agent_reminiscence.exceptions import InvalidInputError, StoreError

type Json = dict[str, Any]

# A payload nests sixteen levels, four of which are ours.
_MAX_DEPTH: Final = 12
_RECORD: Final = TypeAdapter(ConversationRecord)
_WAITING: Final = ("calls", "approvals")
# NUL and lone surrogates, which no text of PostgreSQL holds.
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


def write_entry(entry: ConversationEntry) -> Json:
    """An entry as JSON; one that PostgreSQL's JSON cannot hold keeps its message as text.

    Raises:
        InvalidInputError: The message holds what JSON cannot represent.
    """
    message = write_message(entry.message)
    written: Json = {"id": entry.id, "parent_id": entry.parent_id}
    if _is_storable(message):
        return written | {"message": message}
    # The escapes of JSON hide such characters; text nests nothing.
    return written | {"message_json": json.dumps(message, allow_nan=False)}


def read_entry(written: Mapping[str, Any], *, parent_id: str | None) -> ConversationEntry:
    """The inverse of `write_entry`.

    Raises:
        StoreError: What was stored is no message to this release of Pydantic AI.
    """
    try:
        message = read_message(_message_of(written))
    except ValueError:
        # From None: the error quotes the message.
        raise StoreError(
            f"the entry {written['id']!r} cannot be read as a message by this release of Pydantic AI; read the events"
            " of its conversation with memory.ledger.read_conversation()"
        ) from None
    return ConversationEntry(id=written["id"], parent_id=parent_id, message=message)


def check_readable(written: Mapping[str, Any], number: int) -> None:
    """Refuse an entry that `read_entry` could not read.

    Args:
        number: Its place among the messages to be saved, from 1.

    Raises:
        InvalidInputError: It could not; the error names the parts of the message.
    """
    message = _message_of(written)
    try:
        read_message(message)
    except ValueError:
        kinds = ", ".join(str(part.get("part_kind")) for part in message.get("parts", ()) if isinstance(part, Mapping))
        raise InvalidInputError(
            f"message {number} of those to be saved (parts: {kinds or 'none'}) could not be read again by"
            " ModelMessagesTypeAdapter, so nothing is saved; give each part the fields that its type requires, such as"
            " input for an error of a RetryPromptPart"
        ) from None


def write_message(message: ModelMessage) -> Json:
    """A message as `ModelMessagesTypeAdapter` writes it.

    Raises:
        InvalidInputError: It holds what JSON cannot represent.
    """
    try:
        [written] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
        json.dumps(written, allow_nan=False)
    except (ValueError, TypeError) as error:
        # Its text may quote the message.
        raise InvalidInputError(
            f"a message of the conversation cannot be written as JSON ({type(error).__name__}); give its tools"
            " arguments and returns that ModelMessagesTypeAdapter can write"
        ) from None
    return dict(written)


def read_message(written: Mapping[str, Any]) -> ModelMessage:
    """The inverse of `write_message`."""
    [message] = ModelMessagesTypeAdapter.validate_python([written])
    return message


def read_redacted(written: Mapping[str, Any]) -> ModelMessage:
    """The message of a redacted entry.

    Raises:
        InvalidInputError: A secret stood where the message cannot be without it.
    """
    try:
        return read_message(_message_of(written))
    except (ValidationError, ValueError):
        raise InvalidInputError(
            "redaction took something out of a message that it cannot be without, such as a part of an image; take the"
            " secret out yourself, or open the memory with redaction=False"
        ) from None


def write_record(record: ConversationRecord, calls: Mapping[str, ToolCallPart]) -> Json:
    """A conversation's record as JSON, without the arguments of the calls that it waits for.

    Args:
        calls: What stands in messages of the conversation, by its id: it is read from there.

    Raises:
        InvalidInputError: The metadata of a call hold what JSON cannot represent.
    """
    try:
        written: Json = _RECORD.dump_python(record, mode="json")
        json.dumps(written, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"the record of the conversation cannot be written as JSON ({type(error).__name__}); give its deferred"
            " calls metadata that JSON can represent"
        ) from None
    waiting = written["deferred_tool_requests"]
    if waiting is not None:
        for kind in _WAITING:
            waiting[kind] = [call["tool_call_id"] if call["tool_call_id"] in calls else call for call in waiting[kind]]
        if not _is_storable(waiting):
            written["deferred_tool_requests"] = {"json": json.dumps(waiting, allow_nan=False)}
    return written


def read_record(written: Mapping[str, Any], calls: Mapping[str, ToolCallPart]) -> ConversationRecord:
    """The inverse of `write_record`. A call that was erased with its message is no longer waited for.

    Args:
        calls: Those of `awaited_calls` that are still there, by their ids.
    """
    waiting = _waiting_of(written)
    if waiting is not None:
        gone = awaited_calls(written) - calls.keys()
        for kind in _WAITING:
            named = [call for call in waiting[kind] if not isinstance(call, str) or call in calls]
            waiting[kind] = [calls[call] if isinstance(call, str) else call for call in named]
        for about in (waiting["metadata"], waiting.get("_kinds", {})):
            for call_id in gone & about.keys():
                del about[call_id]
        if gone and not any(waiting[kind] for kind in _WAITING):
            waiting = None
    return _RECORD.validate_python({**written, "deferred_tool_requests": waiting})


def awaited_calls(written: Mapping[str, Any]) -> set[str]:
    """The ids of calls that a record waits for and that stand in messages."""
    waiting = _waiting_of(written) or {}
    return {call for kind in _WAITING for call in waiting.get(kind, ()) if isinstance(call, str)}


def calls_of(messages: Iterable[ModelMessage]) -> dict[str, ToolCallPart]:
    """The calls of tools in some messages, by their ids; of two with one id the last."""
    return {
        part.tool_call_id: part
        for message in messages
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }


def _waiting_of(written: Mapping[str, Any]) -> Json | None:
    waiting = written["deferred_tool_requests"]
    if waiting is None:
        return None
    read: Json = json.loads(waiting["json"]) if "json" in waiting else copy.deepcopy(waiting)
    return read


def _message_of(written: Mapping[str, Any]) -> Json:
    text = written.get("message_json")
    return dict(written["message"] if text is None else json.loads(text))


def _is_storable(value: object, depth: int = 1) -> bool:
    match value:
        case str():
            return _UNSTORABLE.search(value) is None
        case Mapping():
            return depth <= _MAX_DEPTH and all(
                _is_storable(key) and _is_storable(item, depth + 1) for key, item in value.items()
            )
        case list():
            return depth <= _MAX_DEPTH and all(_is_storable(item, depth + 1) for item in value)
    return True
