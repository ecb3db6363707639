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
from agent_reminiscence.domain.canonical import count_json_bytes
from agent_reminiscence.domain.event import DIVIDED_KEY, USER_REDACTIONS_KEY
from agent_reminiscence.domain.exact_json import flat_parts, restore
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.validation import MAX_QUERY_CHARACTERS

MAX_DIVIDED_PAYLOAD_BYTES: Final = 32 * MAX_EVENT_PAYLOAD_BYTES
"""The largest payload of `append`, as JSON; five pictures of 4 MB."""

MAX_DIVIDED_PAYLOAD_VALUES: Final = 1_000_000
"""The most keys and values in a payload of `append`; one event has no room for half as many."""

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
# How a run of parts without strings is written, and how many parts one has.
_RUN: Final = "run"
_RUN_PARTS: Final = 1_000
_SHORTEST_RUN: Final = 4


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
    # With the separators around it.
    sizes = {key: count_json_bytes(key) + count_json_bytes(value) + 4 for key, value in payload.items()}
    if sum(sizes.values()) <= MAX_EVENT_PAYLOAD_BYTES:
        return Divided(payload)
    kept = {
        key: value for key, value in payload.items() if key in _READ_KEYS.get(kind, ()) or key == USER_REDACTIONS_KEY
    }
    size = sum(sizes[key] for key in kept)
    if size > MAX_EVENT_PAYLOAD_BYTES - _NAMED_BYTES:
        raise InvalidInputError(
            f"{', '.join(sorted(kept))} in the payload of {kind!r} take {size:,} bytes as JSON, and the limit is"
            f" {MAX_EVENT_PAYLOAD_BYTES - _NAMED_BYTES:,}: they have to stand in one event; name fewer events, or write"
            " several reflections"
        )
    for key in sorted(payload, key=sizes.__getitem__):
        if key in kept:
            continue
        size += sizes[key]
        if size > _KEPT_BYTES:
            break
        kept[key] = payload[key]
    moved = {key: value for key, value in payload.items() if key not in kept}
    value_id = str(uuid7())
    parts = [
        {"value": value_id, "number": number, "parts": batch}
        for number, batch in enumerate(_batches(_cut(_runs(flat_parts(moved)))))
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


def _runs(parts: Iterator[Any]) -> Iterator[Any]:
    """The parts of a value, runs of numbers and the like as one: as one text, which takes a hundredth of the time.

    Strings stay parts of their own, so that an erasure finds them.
    """
    run: list[Any] = []
    for part in parts:
        if isinstance(part, str) or (isinstance(part, dict) and "text" in part):
            yield from _written(run)
            run = []
            yield part
            continue
        run.append(part)
        if len(run) == _RUN_PARTS:
            yield from _written(run)
            run = []
    yield from _written(run)


def _written(run: list[Any]) -> Iterator[Any]:
    if len(run) < _SHORTEST_RUN:
        yield from run
        return
    written = {_RUN: json.dumps(run, separators=(",", ":"))}
    if count_json_bytes(written) <= _PIECE_BYTES:
        yield written
        return
    # Numbers may have thousands of digits.
    half = len(run) // 2
    yield from _written(run[:half])
    yield from _written(run[half:])


def _cut(parts: Iterator[Any]) -> Iterator[Any]:
    """The parts of a value, long strings in pieces."""
    for part in parts:
        # A character takes at most six bytes, and the quotes two.
        if not isinstance(part, str) or 6 * len(part) + 2 <= _PIECE_BYTES or count_json_bytes(part) <= _PIECE_BYTES:
            yield part
            continue
        at = 0
        while at < len(part):
            start = max(0, at - _OVERLAP)
            length = _PIECE_BYTES - _OVERLAP
            # Most characters take one byte, and the others at most six.
            while count_json_bytes(part[start : at + length]) > _PIECE_BYTES + _OVERLAP:
                length //= 2
            end = at + length
            yield {_PIECE: part[start:end], _REPEATED: at - start, _ENDS: end >= len(part)}
            at = end


def _joined(parts: Iterator[Any]) -> Iterator[Any]:
    """The inverse of `_runs` and `_cut`."""
    pieces: list[str] = []
    for part in parts:
        if not isinstance(part, dict):
            yield part
        elif _PIECE in part:
            pieces.append(part[_PIECE][part[_REPEATED] :])
            if part[_ENDS]:
                yield "".join(pieces)
                pieces = []
        elif _RUN in part:
            yield from json.loads(part[_RUN])
        else:
            yield part


def _batches(parts: Iterator[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    size = 0
    for part in parts:
        taken = count_json_bytes(part) + 2
        if batch and size + taken > _PART_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += taken
    if batch:
        yield batch
