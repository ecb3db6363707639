"""The file that an export writes and an import reads: every event of one stream, in a form that outlives the database.

A file is one zstd frame with a content checksum, followed by a seal. The frame holds JSON Lines in UTF-8:

    {"format": "agent_reminiscence.events", "version": 1, "external_id": …, "head": N, "exported_at": …,
     "package_version": …}                                                                   the header, line 1
    {"external_id": …, "event_id": …, "kind": …, "payload": {…}, …, "position": 1, …}        N events, by position
    {"events": N, "chain": …, "sha256": …}                                                   the footer, the last line

- An event has exactly the fields of `agent_reminiscence.domain.event.Event`. Bytes are lower-case hex, ids are UUIDs in
  their usual spelling, times are ISO 8601 in UTC with microseconds and `+00:00`. Numbers in a payload have the value
  that PostgreSQL's jsonb gives back: integers of any size, floats in the shortest spelling that reads back the same.
- `chain` is that of the last event, "" for an empty stream. `sha256` covers the bytes of all lines before the footer,
  with their line ends.
- The seal is a zstd skippable frame: magic 0x184D2A50, the length 32 (both little-endian, 4 bytes), and the SHA-256 of
  all bytes before this frame. zstd's own checksum covers the contents, but not every bit of the frame's header; the
  seal detects a flipped bit anywhere in the file. Tools skip it, so `zstd -dc file` prints the lines.

Neither checksum is a signature: anyone who can write the file can recompute them. They reveal damage, not forgery.

Later versions keep the seal, the frame, and `format` and `version` in line 1, so that an older release can tell a newer
file from a damaged one.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

FORMAT: Final = "agent_reminiscence.events"
VERSION: Final = 1

# In UTF-8, including the line end. The largest event is an erasure's receipt: some hundred bytes for each event it
# emptied.
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
# A list of empty objects takes 24 times its text in memory. Within both limits the worst line tested took 650 MiB.
MAX_LINE_VALUES: Final = 4_000_000
# A batch ends with the event that reaches this many bytes of lines, which bounds memory and the size of a statement.
BATCH_BYTES: Final = 8 * 1024 * 1024
# The ledger accepts less than half this nesting depth.
MAX_DEPTH: Final = 64

# zstd uses up to 8 MiB at all but its "ultra" levels; a header may ask for gigabytes.
WINDOW_LOG_MAX = 23
BLOCK_BYTES = 256 * 1024
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
SEAL_START = (0x184D2A50).to_bytes(4, "little") + hashlib.sha256().digest_size.to_bytes(4, "little")
SEAL_BYTES = len(SEAL_START) + hashlib.sha256().digest_size

HEADER_FIELDS = frozenset({"format", "version", "external_id", "head", "exported_at", "package_version"})
FOOTER_FIELDS = frozenset({"events", "chain", "sha256"})

COPY_AGAIN = "copy or export it again"
EXPORT_AGAIN = "it was not written by an export or was changed since; export again"


class EventFileHeader(NamedTuple):
    """A file's header.

    Attributes:
        version: Version of the format.
        external_id: Whose stream was exported.
        head: The number of events in the file, which is the position of the last one.
        exported_at: When, in UTC.
        package_version: The release of this package that wrote it.
    """

    version: int
    external_id: str
    head: int
    exported_at: datetime
    package_version: str


def spelled_out(value: object) -> object:
    """A field of an event as it is written in the file."""
    match value:
        case bytes():
            return value.hex()
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds")
        case UUID():
            return str(value)
    return value


def check_storable(document: object) -> None:
    """Raise ValueError for JSON that jsonb cannot hold: NUL, a lone surrogate, excessive nesting."""
    level = [document]
    for _ in range(MAX_DEPTH):
        inside: list[object] = []
        for value in level:
            match value:
                case str():
                    if "\x00" in value:
                        raise ValueError("NUL")
                    # A lone surrogate cannot be encoded, and UnicodeEncodeError is a ValueError.
                    value.encode()
                case dict():
                    inside += value.keys()
                    inside += value.values()
                case list():
                    inside += value
        if not inside:
            return
        level = inside
    raise ValueError("nested too deeply")
