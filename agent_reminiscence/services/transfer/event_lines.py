"""Events as a file of JSON Lines, without a memory: fixtures, replays and what a program keeps of a ledger.

A line is one event, as `Event.model_dump_json` writes it. Other than in an export, the events may be any, in any
order: one actor's, one conversation's, or made by hand. Nothing seals the file, so it can be edited.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_json import read_event, write_event
from agent_reminiscence.domain.wording import kind_of
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.event_file import FORMAT, MAX_LINE_BYTES, ZSTD_MAGIC
from agent_reminiscence.services.transfer.event_reader import EventFileReader, say_too_large
from agent_reminiscence.services.transfer.new_file import NewFile

# Where the header of an export says so; no event begins like it.
_EXPORT_START: Final = json.dumps({"format": FORMAT}, separators=(",", ":")).encode().removesuffix(b"}")


def write_events(path: str | os.PathLike[str], events: Iterable[Event], *, overwrite: bool = False) -> int:
    """Write events to a file, one JSON object a line, in the order given. Needs no memory and no server.

    For all events of an `external_id`, with a checksum, use `memory.admin.export`.

    Args:
        path: The file; it appears complete or not at all, and only its owner may read it. Its folder must exist.
        events: Any events, such as those of `memory.ledger.read`.
        overwrite: Whether to replace an existing file.

    Returns:
        How many were written.

    Raises:
        InvalidInputError: The file exists or cannot be written, or an event cannot be written as JSON.
    """
    checked = validation.path("path", path)
    if checked.suffix == ".zst":
        raise InvalidInputError(
            f"{checked} names a compressed file, but events are written as plain JSON Lines; call it"
            f" {checked.with_suffix('')}, or use admin.export for all events of an external_id"
        )
    given: object = events
    # One event can be iterated, too: by its fields.
    if isinstance(given, Event) or not isinstance(given, Iterable):
        raise InvalidInputError(
            f"events must be several Event objects, not {kind_of(given)}; await what returns them, or pass a list"
        )
    target = NewFile(checked, overwrite=validation.flag("overwrite", overwrite))
    written = 0
    try:
        target.create()
        for event in events:
            if not isinstance(event, Event):
                raise InvalidInputError(
                    f"events must be Event objects, but number {written + 1} is {type(event).__name__}"
                )
            line = f"{write_event(event)}\n".encode()
            if too_large := say_too_large(line):
                raise InvalidInputError(f"event {event.event_id} {too_large}; it cannot be written")
            target.write(line)
            written += 1
        target.publish()
    finally:
        target.remove()
    return written


def read_events(path: str | os.PathLike[str]) -> Iterator[Event]:
    """Read events from a file, one by one: what `write_events` wrote, or an export. Needs no memory and no server.

    An export is checked as a whole before its first event is returned. Digests are not checked: an import does that.

    Args:
        path: The file: JSON Lines, or an export, compressed or not.

    Raises:
        InvalidInputError: The file cannot be read, a line is not an event, or an export is damaged. The message names
            the line and quotes nothing of it. Events of the lines before have been returned by then.
    """
    checked = validation.path("path", path)
    return _exported(checked) if _is_export(checked) else _lines(checked)


def _is_export(path: Path) -> bool:
    with _open(path) as file:
        start = file.read(len(_EXPORT_START))
    return start.startswith(ZSTD_MAGIC) or start == _EXPORT_START


def _exported(path: Path) -> Iterator[Event]:
    with EventFileReader(path) as reader:
        for batch in reader.batches():
            yield from batch


def _lines(path: Path) -> Iterator[Event]:
    with _open(path) as file:
        number = 0
        while line := _read_line(file, path, number := number + 1):
            if line.strip():
                yield _read_event(line, f"{path}: line {number:,}")


def _read_event(line: bytes, place: str) -> Event:
    try:
        return read_event(line.decode())
    except UnicodeDecodeError:
        raise InvalidInputError(f"{place} is not UTF-8") from None
    except ValueError as error:
        raise InvalidInputError(f"{place} {error}") from None


def _read_line(file: BinaryIO, path: Path, number: int) -> bytes:
    try:
        line = file.readline(MAX_LINE_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if too_large := say_too_large(line):
        raise InvalidInputError(f"{path}: line {number:,} {too_large}")
    return line


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(f"{path} cannot be read: {error.strerror or error}; name a file of events")
