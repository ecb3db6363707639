"""Payloads too large for one event: what of them stands in events of their own, and how they are put together again.

An event's payload takes a mebibyte, and agents carry more: the outputs of ten tools, a picture. The large values of
such a payload become the list of their parts (`domain/exact_json.py`), which is cut into payloads of
`memory.value_part`. These are appended in the same transaction, right before their event, which keeps the small values
and says what is missing under `memory.divided`.

This is the one place that knows where large values are. Redaction comes before it, so no secret is cut in two. Each
piece of a long text repeats the end of the one before it, so that an erasure finds every text in one piece; an erasure
of one of the events takes all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.config.constants import MAX_EVENT_PAYLOAD_BYTES
from agent_reminiscence.domain.belief import READ_KEYS, REFLECTED
from agent_reminiscence.domain.event import DIVIDED_KEY, USER_REDACTIONS_KEY
from agent_reminiscence.domain.exact_json import flatten, restore
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.validation import MAX_QUERY_CHARACTERS

MAX_DIVIDED_PAYLOAD_BYTES: Final = 32 * MAX_EVENT_PAYLOAD_BYTES
"""The largest payload of `append`, as JSON; five pictures of 4 MB."""

# Of all values that stay in the event itself.
_KEPT_BYTES: Final = 65_536
# Of what `memory.divided` says.
_NAMED_BYTES: Final = 1_024
# By kind: what an erasure or a projection reads, so that it may not be in another event.
_READ_KEYS: Final = {REFLECTED: READ_KEYS}
# Of one part's payload, without its few other fields.
_PART_BYTES: Final = 900_000
_PIECE_BYTES: Final = 700_000
# As long as a text that an erasure may name.
_OVERLAP: Final = MAX_QUERY_CHARACTERS - 1
# How a string is written that was cut: a piece of it, and how much of that the piece before it has.
_PIECE: Final = "piece"
_REPEATED: Final = "repeated"
_ENDS: Final = "ends"


@dataclass(frozen=True, slots=True)
class Divided:
    """A payload in parts.

    Attributes:
        payload: Of the event itself.
        parts: Payloads of `memory.value_part`, in order.
    """

    payload: dict[str, Any]
    parts: tuple[dict[str, Any], ...] = ()


def divide(kind: str, payload: dict[str, Any]) -> Divided:
    """A payload as one event of `kind` holds it, or several.

    Raises:
        InvalidInputError: What has to stand in the event itself has no room there.
    """
    if _bytes_of(payload) <= MAX_EVENT_PAYLOAD_BYTES:
        return Divided(payload)
    kept = {
        key: value for key, value in payload.items() if key in _READ_KEYS.get(kind, ()) or key == USER_REDACTIONS_KEY
    }
    size = _bytes_of(kept)
    if size > MAX_EVENT_PAYLOAD_BYTES - _NAMED_BYTES:
        raise InvalidInputError(
            f"{', '.join(sorted(kept))} in the payload of {kind!r} take {size:,} bytes as JSON, and the limit is"
            f" {MAX_EVENT_PAYLOAD_BYTES - _NAMED_BYTES:,}: they have to stand in one event; name fewer events, or write"
            " several reflections"
        )
    for key, value in sorted(payload.items(), key=_bytes_of):
        if key in kept:
            continue
        size += _bytes_of((key, value))
        if size > _KEPT_BYTES:
            break
        kept[key] = value
    moved = {key: value for key, value in payload.items() if key not in kept}
    value_id = str(uuid7())
    parts = [
        {"value": value_id, "number": number, "parts": batch}
        for number, batch in enumerate(_batches(_cut(flatten(moved))))
    ]
    return Divided({**kept, DIVIDED_KEY: {"value": value_id, "events": len(parts)}}, tuple(parts))


def parts_of(payload: Mapping[str, Any]) -> tuple[UUID, int] | None:
    """The id of the value that a payload lacks, and how many events hold it; None if it is whole."""
    match payload.get(DIVIDED_KEY):
        case {"value": str(value_id), "events": int(events)}:
            return UUID(value_id), events
    return None


def put_together(payload: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The payload that was divided.

    Args:
        parts: Payloads of all its `memory.value_part`, in order.

    Raises:
        ValueError: They are not the parts of this payload.
    """
    named = parts_of(payload)
    if named is None:
        return dict(payload)
    value_id, events = named
    if [(part.get("value"), part.get("number")) for part in parts] != [(str(value_id), n) for n in range(events)]:
        raise ValueError("parts are missing")
    moved = restore(list(_joined(part for one in parts for part in one["parts"])))
    if not isinstance(moved, dict):
        raise ValueError("not the parts of a payload")
    return {key: value for key, value in payload.items() if key != DIVIDED_KEY} | moved


def _cut(parts: Sequence[Any]) -> Iterator[Any]:
    """The parts of a value, long strings in pieces."""
    for part in parts:
        if not isinstance(part, str) or _bytes_of(part) <= _PIECE_BYTES:
            yield part
            continue
        at = 0
        while at < len(part):
            start = max(0, at - _OVERLAP)
            length = _PIECE_BYTES - _OVERLAP
            # Most characters take one byte, and the others at most six.
            while _bytes_of(part[start : at + length]) > _PIECE_BYTES + _OVERLAP:
                length //= 2
            end = at + length
            yield {_PIECE: part[start:end], _REPEATED: at - start, _ENDS: end >= len(part)}
            at = end


def _joined(parts: Iterator[Any]) -> Iterator[Any]:
    """The inverse of `_cut`."""
    pieces: list[str] = []
    for part in parts:
        if isinstance(part, dict) and _PIECE in part:
            pieces.append(part[_PIECE][part[_REPEATED] :])
            if part[_ENDS]:
                yield "".join(pieces)
                pieces = []
        else:
            yield part


def _batches(parts: Iterator[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    size = 0
    for part in parts:
        taken = _bytes_of(part) + 2
        if batch and size + taken > _PART_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += taken
    if batch:
        yield batch


def _bytes_of(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
