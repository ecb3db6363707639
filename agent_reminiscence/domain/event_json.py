"""An event as JSON and back, with every field as it was."""

from __future__ import annotations

import json
from datetime import datetime
from math import isfinite
from typing import Any, Final, NoReturn
from uuid import UUID

from pydantic import ValidationError

from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError

_TIMES: Final = ("occurred_at", "recorded_at")


def write_event(event: Event) -> str:
    """An event as a JSON object on one line: bytes in hexadecimal, times in ISO 8601 with their offset.

    Raises:
        InvalidInputError: The payload is not JSON, so that reading would give another event.
    """
    try:
        text = json.dumps(
            {name: _plain(value) for name, value in event}, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        text.encode()
        kept = json.loads(text)["payload"] == event.payload
    except (TypeError, ValueError, RecursionError):
        kept = False
    if not kept:
        # The payload itself is not quoted, nor is an error that quotes it.
        raise InvalidInputError(
            f"the payload of event {event.event_id} is not JSON: it may hold only dict with str as keys, list, str,"
            " int, finite float, bool and None"
        ) from None
    return text


def read_event(text: str) -> Event:
    """The event that `write_event`, `Event.model_dump_json` or an export wrote.

    Raises:
        ValueError: `text` is not such an event. The message names the fields that are wrong and quotes nothing.
    """
    try:
        fields = load_finite(text)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(fields, dict):
        raise ValueError("is not a JSON object")
    try:
        event = Event.model_validate(fields)
    except ValidationError as error:
        wrong = sorted({str(fault["loc"][0]) for fault in error.errors(include_input=False, include_url=False)})
        known = [name for name in wrong if name in Event.model_fields]
        # The names of other fields are the file's words, and may be anything.
        raise ValueError(_describe(known) if known else "has fields that an event does not have") from None
    if naive := [name for name in _TIMES if getattr(event, name).tzinfo is None]:
        raise ValueError(f"has no offset from UTC in {' and '.join(naive)}")
    return event


def load_finite(text: str) -> Any:
    """JSON as Python reads it, without the numbers that JSON does not have.

    Raises:
        ValueError: It is not JSON, or a number is infinite, NaN or too large for a float.
        RecursionError: It is nested too deeply for Python.
    """
    return json.loads(text, parse_float=_finite, parse_constant=_refuse_constant)


def _describe(names: list[str]) -> str:
    return f"is not an event: wrong or missing {', '.join(names)}"


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


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError("too large for a float")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
