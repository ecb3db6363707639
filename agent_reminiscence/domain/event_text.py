"""What an event says: the text under which it is searched and shown."""

from __future__ import annotations

import json
from typing import Any, Final
from uuid import UUID

from agent_reminiscence.domain.event import DIVIDED_KEY, USER_REDACTIONS_KEY, Event

# The first of these that a payload has as a text is what the event says.
_TEXT_KEYS: Final = ("text", "belief", "content")
# They name other events, and a model can only be confused by them.
_REFERENCES: Final = frozenset({"based_on", "replaces", "contradicts", USER_REDACTIONS_KEY, DIVIDED_KEY})
_UUID_CHARACTERS: Final = 36

MAX_INDEXED_CHARACTERS: Final = 10_000
"""What an event says beyond this is not searched."""

EVENT_LANGUAGE: Final = "en"
"""The language in which events are indexed; they do not say theirs."""


def indexed_event_text(event: Event) -> str:
    """What of an event's text is indexed and embedded; '' if it says nothing."""
    return event_text(event)[:MAX_INDEXED_CHARACTERS].strip()


def event_text(event: Event) -> str:
    """What an event says: the first of `text`, `belief` and `content` in its payload that is a string and not blank.

    A payload with none of them reads as compact JSON with sorted keys, without ids: the keys `id`, `…_id` and `…_ids`,
    references to other events, and UUIDs are left out, as is what is empty then. '' if nothing is left.
    """
    for key in _TEXT_KEYS:
        text = event.payload.get(key)
        if isinstance(text, str) and text.strip():
            return text
    said = _without_ids(event.payload)
    return json.dumps(said, ensure_ascii=False, sort_keys=True, separators=(",", ":")) if said else ""


def _without_ids(value: Any) -> Any:
    match value:
        case dict():
            kept = {key: _without_ids(one) for key, one in value.items() if not _is_reference(key)}
            return {key: one for key, one in kept.items() if one not in (None, "", [], {})}
        case list():
            return [kept for one in value if (kept := _without_ids(one)) not in (None, "", [], {})]
        case str():
            return None if _is_uuid(value) else value
        case _:
            return value


def _is_reference(key: str) -> bool:
    return key in _REFERENCES or key == "id" or key.endswith(("_id", "_ids"))


def _is_uuid(text: str) -> bool:
    if len(text) != _UUID_CHARACTERS:
        return False
    try:
        UUID(text)
    except ValueError:
        return False
    return True
