"""Writes event files: beside the target first, in its place once they are whole."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from agent_reminiscence.config.installation import installed_version
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.compression import zstd
from agent_reminiscence.services.transfer.event_file import FORMAT, SEAL_START, VERSION, spelled_out
from agent_reminiscence.services.transfer.event_reader import say_too_large
from agent_reminiscence.services.transfer.new_file import NewFile


class EventFileWriter:
    """Writes one file next to its target and moves it into place once complete: the target is whole or absent.

    Use it as a context manager, or call `open`, `write` and then `finish` or `discard`. All of them block; each may be
    called from a different thread.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        external_id: str,
        head: int,
        *,
        overwrite: bool = False,
        is_plain: bool = False,
        exported_at: datetime | None = None,
    ) -> None:
        """Nothing is touched before `open`.

        Args:
            path: The target; its folder must exist. Only its owner may read it, since it holds memories.
            external_id: Whose stream it is; every event must have it.
            head: How many events will be written, in order of position from 1; 0 for an empty stream.
            overwrite: Whether to replace an existing file.
            is_plain: Whether to write plain JSON Lines instead of compressing and sealing them.
            exported_at: An aware datetime; None is now.

        Raises:
            InvalidInputError: An argument is refused.
        """
        self._path = Path(path)
        self._target = NewFile(self._path, overwrite=overwrite)
        self._external_id = validation.identifier("external_id", external_id)
        self._head = validation.whole_number("head", head, minimum=0)
        self._exported_at = validation.moment("exported_at", datetime.now(UTC) if exported_at is None else exported_at)
        # A plain file is its lines, and nothing else.
        self._compressor = (
            None if is_plain else zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
        )
        self._written = hashlib.sha256()
        self._lines = hashlib.sha256()
        self._events = 0
        self._chain = b""
        self._used = False
        # A cancelled task leaves its thread running, which must not write to a file that is being closed.
        self._lock = Lock()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.discard()

    def open(self) -> None:
        """Create the temporary file and write the header.

        Raises:
            InvalidInputError: The target exists or cannot be a file; nothing is left behind.
        """
        with self._lock:
            if self._used:
                raise InvalidInputError(f"{self._path}: this writer was already used; create a new one")
            self._used = True
            try:
                self._target.create()
                self._write_line(
                    {
                        "format": FORMAT,
                        "version": VERSION,
                        "external_id": self._external_id,
                        "head": self._head,
                        "exported_at": spelled_out(self._exported_at),
                        "package_version": installed_version() or "0+unknown",
                    }
                )
            except BaseException:
                self._target.remove()
                raise

    def write(self, events: Sequence[Event]) -> None:
        """Append `events`, which continue those written before.

        Raises:
            InvalidInputError: An event belongs to another stream, is out of sequence or is too large for the format; or
                the disk refused. The temporary file is deleted and the writer accepts no more events.
        """
        with self._lock:
            try:
                for event in events:
                    self._refuse_event(event)
                    self._write_line({name: spelled_out(value) for name, value in event})
                    self._events = event.position
                    self._chain = event.chain
            except BaseException:
                self._target.remove()
                raise

    def finish(self) -> None:
        """Complete the file and move it to its target, durably.

        Raises:
            InvalidInputError: The count of events is not `head`, the target was created meanwhile, or the disk refused.
                The temporary file is deleted and the target unchanged.
        """
        with self._lock:
            try:
                if self._events != self._head:
                    raise InvalidInputError(
                        f"{self._path}: got {self._events:,} events, but the stream has {self._head:,}; export again"
                    )
                self._write_footer()
                self._target.publish()
            finally:
                self._target.remove()

    def discard(self) -> None:
        """Delete the temporary file without touching the target. Does nothing after `finish` or a second time."""
        with self._lock:
            # A cancelled `open` may run only after this, and must not create a file.
            self._used = True
            self._target.remove()

    def _refuse_event(self, event: Event) -> None:
        if event.external_id != self._external_id:
            raise InvalidInputError(
                f"{self._path}: event {event.position:,} belongs to external_id {event.external_id!r},"
                f" but the file is for {self._external_id!r}"
            )
        if event.position != self._events + 1:
            raise InvalidInputError(
                f"{self._path}: got event {event.position:,}, expected {self._events + 1:,};"
                " write events in order of position, without gaps"
            )

    def _write_line(self, document: Mapping[str, Any]) -> None:
        line = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        if too_large := say_too_large(line):
            raise InvalidInputError(f"{self._path}: line {self._events + 2:,} {too_large}; it cannot be exported")
        self._lines.update(line)
        self._write_bytes(line if self._compressor is None else self._compressor.compress(line))

    def _write_footer(self) -> None:
        self._write_line({"events": self._events, "chain": self._chain.hex(), "sha256": self._lines.hexdigest()})
        if self._compressor is not None:
            self._write_bytes(self._compressor.flush())
            self._write_bytes(SEAL_START + self._written.digest())

    def _write_bytes(self, data: bytes) -> None:
        self._target.write(data)
        self._written.update(data)
