"""An event as JSON and back, with every field as it was."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import ValidationError

from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError

_BYTES: Final = ("request_hash", "salt", "digest", "chain")
_TIMES: Final = ("occurred_at", "recorded_at")


def write_event(event: Event) -> str:
    """An event as a JSON object: bytes in hexadecimal, times in ISO 8601 with their offset.

    Raises:
        InvalidInputError: The payload is not JSON, so that reading would give another event.
    """
    try:
        text = json.dumps(
            {name: _plain(value) for name, value in event}, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        text.encode()
        kept = json.loads(text)["payload"] == event.payload
    except (TypeError, ValueError):
        kept = False
    if not kept:
        # The payload itself is not quoted, nor is an error that quotes it.
        raise InvalidInputError(
            f"the payload of event {event.event_id} is not JSON: it may hold only dict with str as keys, list, str,"
            " int, finite float, bool and None"
        ) from None
    return text


def read_event(text: str) -> Event:
    """The event that `write_event` wrote.

    Raises:
        ValueError: `text` is no such event. The message quotes nothing of it.
    """
    try:
        fields: dict[str, Any] = dict(json.loads(text))
        fields |= {name: bytes.fromhex(fields[name]) for name in _BYTES if fields[name] is not None}
        fields |= {name: datetime.fromisoformat(fields[name]) for name in _TIMES}
        return Event.model_validate(fields)
    except (KeyError, TypeError, ValueError, ValidationError, RecursionError):
        raise ValueError("this is not an event as write_event() writes it") from None


def _plain(value: object) -> object:
    match value:
        case UUID():
            return str(value)
        case datetime():
            return value.isoformat()
        case bytes():
            return value.hex()
        case _:
            return value
