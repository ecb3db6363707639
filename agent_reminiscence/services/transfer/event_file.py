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
import importlib
import importlib.metadata
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, BinaryIO, Final, NoReturn, Self
from uuid import UUID

from pydantic import ValidationError

from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation

if sys.version_info >= (3, 14):
    # By name: tools that check imports with an older Python do not know this standard library module.
    zstd = importlib.import_module("compression.zstd")
else:
    from backports import zstd

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
_WINDOW_LOG_MAX = 23
_BLOCK_BYTES = 256 * 1024
_ZSTD_MAGIC = bytes.fromhex("28b52ffd")
_SEAL_START = (0x184D2A50).to_bytes(4, "little") + hashlib.sha256().digest_size.to_bytes(4, "little")
_SEAL_BYTES = len(_SEAL_START) + hashlib.sha256().digest_size

_HEADER_FIELDS = frozenset({"format", "version", "external_id", "head", "exported_at", "package_version"})
_FOOTER_FIELDS = frozenset({"events", "chain", "sha256"})
# Fields without a JSON type. All other fields of an event are written as they are.
_PARSERS: Mapping[str, Callable[[str], object]] = {
    "event_id": UUID,
    "occurred_at": datetime.fromisoformat,
    "recorded_at": datetime.fromisoformat,
    "request_hash": bytes.fromhex,
    "salt": bytes.fromhex,
    "digest": bytes.fromhex,
    "chain": bytes.fromhex,
}

_COPY_AGAIN = "copy or export it again"
_EXPORT_AGAIN = "it was not written by an export or was changed since; export again"


@dataclass(frozen=True, slots=True)
class EventFileHeader:
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
        exported_at: datetime | None = None,
    ) -> None:
        """Nothing is touched before `open`.

        Args:
            path: The target; its folder must exist. Only its owner may read it, since it holds memories.
            external_id: Whose stream it is; every event must have it.
            head: How many events will be written, in order of position from 1; 0 for an empty stream.
            overwrite: Whether to replace an existing file.
            exported_at: An aware datetime; None is now.

        Raises:
            InvalidInputError: An argument is refused.
        """
        self._path = Path(path)
        self._external_id = validation.identifier("external_id", external_id)
        self._head = validation.whole_number("head", head, minimum=0)
        self._overwrite = overwrite
        self._exported_at = validation.moment("exported_at", datetime.now(UTC) if exported_at is None else exported_at)
        self._temporary: Path | None = None
        self._file: BinaryIO | None = None
        self._compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
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
            self._refuse_target()
            try:
                with _writing(self._path):
                    descriptor, name = tempfile.mkstemp(suffix=".part", prefix=".export-", dir=self._path.parent)
                    self._temporary = Path(name)
                    self._file = os.fdopen(descriptor, "wb")
                    self._write_line(
                        {
                            "format": FORMAT,
                            "version": VERSION,
                            "external_id": self._external_id,
                            "head": self._head,
                            "exported_at": _spelled(self._exported_at),
                            "package_version": importlib.metadata.version("agent-reminiscence"),
                        }
                    )
            except BaseException:
                self._remove()
                raise

    def write(self, events: Sequence[Event]) -> None:
        """Append `events`, which continue those written before.

        Raises:
            InvalidInputError: An event belongs to another stream, is out of sequence or is too large for the format; or
                the disk refused. The temporary file is deleted and the writer accepts no more events.
        """
        with self._lock:
            try:
                with _writing(self._path):
                    for event in events:
                        self._refuse_event(event)
                        self._write_line({name: _spelled(value) for name, value in event})
                        self._events = event.position
                        self._chain = event.chain
            except BaseException:
                self._remove()
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
                with _writing(self._path):
                    self._write_footer()
                self._refuse_target()
                with _writing(self._path):
                    self._publish()
            finally:
                self._remove()

    def discard(self) -> None:
        """Delete the temporary file without touching the target. Does nothing after `finish` or a second time."""
        with self._lock:
            # A cancelled `open` may run only after this, and must not create a file.
            self._used = True
            self._remove()

    def _refuse_target(self) -> None:
        with _writing(self._path):
            try:
                found = os.lstat(self._path)
            except FileNotFoundError:
                return
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInputError(f"{self._path} exists and is not a regular file; choose another path")
        if not self._overwrite:
            raise InvalidInputError(f"{self._path} exists; choose another path, or allow overwriting it")

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
        if too_large := _too_large(line):
            raise InvalidInputError(f"{self._path}: line {self._events + 2:,} {too_large}; it cannot be exported")
        self._lines.update(line)
        self._write_bytes(self._compressor.compress(line))

    def _write_footer(self) -> None:
        self._write_line({"events": self._events, "chain": self._chain.hex(), "sha256": self._lines.hexdigest()})
        self._write_bytes(self._compressor.flush())
        self._write_bytes(_SEAL_START + self._written.digest())

    def _write_bytes(self, data: bytes) -> None:
        if self._file is None:
            raise InvalidInputError(f"{self._path}: the writer is not open")
        self._written.update(data)
        self._file.write(data)

    def _publish(self) -> None:
        assert self._file is not None
        assert self._temporary is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(self._path)
        self._temporary = None
        if sys.platform == "win32":
            return  # a folder cannot be opened on Windows
        # Without this a crash may forget the new name.
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _remove(self) -> None:
        # Closing may write, and a full disk must not hide the error that led here.
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
        self._file = None
        with suppress(OSError):
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)
        self._temporary = None


class EventFileReader:
    """Reads a file: first `check`, then `batches`. A context manager that closes the file, as `close` does.

    `batches` repeats every check while it reads. Comparing the file's size and times with those at the check would be
    cheaper, but a write within one clock tick, or through a memory map, can leave both unchanged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Nothing is opened before `check`."""
        self._path = Path(path)
        self._file: BinaryIO | None = None
        self._size = 0
        self._seal = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; `check` opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def check(self) -> EventFileHeader:
        """Read the whole file and check everything the format promises.

        The seal is checked first, so that damaged bytes reach neither the decompressor nor the JSON parser. Memory is
        bounded, whatever the file holds: one line at a time, of at most `MAX_LINE_BYTES`.

        Raises:
            InvalidInputError: The file is missing, damaged, incomplete, inconsistent or of a newer version. The message
                says what is wrong and what to do, and quotes none of the file's text.
        """
        self.close()
        try:
            return self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> EventFileHeader:
        with _reading(self._path):
            if self._path.exists() and not self._path.is_file():
                raise InvalidInputError(f"{self._path} is not a regular file; name the file that an export wrote")
            # Without Python's buffer, which could return bytes that the file no longer holds.
            self._file = self._path.open("rb", buffering=0)
            self._size = os.fstat(self._file.fileno()).st_size
            self._seal = self._checked_seal(self._file)
            contents = _Contents(self._path, self._file, self._size, self._seal)
            header = contents.header()
            for _ in contents.events(header):
                pass
        return header

    def batches(self, size: int = 500) -> Iterator[list[Event]]:
        """Every event, in order of position, in lists of at most `size` and bounded bytes; one iteration at a time.

        If the iteration ends normally, the bytes were those that `check` saw. If it raises, whatever was done with the
        events must be undone, so an import belongs in one transaction.

        In a thread: `await asyncio.to_thread(next, batches, None)`, which returns None at the end.

        Raises:
            InvalidInputError: As `check` does, or the file has changed since.
        """
        if self._file is None:
            self.check()
        assert self._file is not None
        contents = _Contents(self._path, self._file, self._size, self._seal)
        with _reading(self._path):
            batch: list[Event] = []
            weight = 0
            for event in contents.events(contents.header()):
                batch.append(event)
                weight += contents.line_bytes
                if len(batch) == size or weight >= BATCH_BYTES:
                    yield batch
                    batch, weight = [], 0
            if batch:
                yield batch

    def _checked_seal(self, file: BinaryIO) -> bytes:
        """The seal's digest, after checking it against the bytes before it."""
        if self._size == 0:
            raise InvalidInputError(f"{self._path} is empty; {_COPY_AGAIN}")
        if file.read(len(_ZSTD_MAGIC)) != _ZSTD_MAGIC:
            raise InvalidInputError(f"{self._path} is not a zstd file; name the file that an export wrote")
        file.seek(max(0, self._size - _SEAL_BYTES))
        seal = file.read(_SEAL_BYTES)
        if len(seal) < _SEAL_BYTES or not seal.startswith(_SEAL_START):
            raise InvalidInputError(
                f"{self._path} does not end with the seal of an export: it was cut off, appended to or recompressed;"
                f" {_COPY_AGAIN}"
            )
        file.seek(0)
        digest = hashlib.sha256()
        remaining = self._size - _SEAL_BYTES
        while block := file.read(min(remaining, _BLOCK_BYTES)):
            digest.update(block)
            remaining -= len(block)
        if digest.digest() != seal.removeprefix(_SEAL_START):
            raise InvalidInputError(f"{self._path} is damaged: its bytes do not match its seal; {_COPY_AGAIN}")
        return digest.digest()


class _Contents:
    """One pass over an open file: `header`, then all of `events`, which also reads the footer and the file's end."""

    def __init__(self, path: Path, file: BinaryIO, size: int, seal: bytes) -> None:
        self._path = path
        self._file = file
        self._remaining = size - _SEAL_BYTES
        self._seal = seal
        self._read = hashlib.sha256()
        self._lines = hashlib.sha256()
        self._number = 0
        # Of the last line read, with its line end.
        self.line_bytes = 0
        self._source = self._split()

    def header(self) -> EventFileHeader:
        found = self._next()
        if found.get("format") != FORMAT:
            raise InvalidInputError(f"{self._path} is not an export of agent_reminiscence")
        version = found.get("version")
        if type(version) is not int or version < 1:
            self._refuse("has no format version")
        if version > VERSION:
            raise InvalidInputError(
                f"{self._path} was written by a newer release in format version {version}, but this release reads"
                f" up to version {VERSION}; update agent-reminiscence"
            )
        if found.keys() != _HEADER_FIELDS or type(found["head"]) is not int or found["head"] < 0:
            self._refuse("is not a header")
        try:
            return EventFileHeader(
                version=version,
                external_id=validation.identifier("external_id", found["external_id"]),
                head=found["head"],
                exported_at=validation.moment("exported_at", _parsed(datetime.fromisoformat, found["exported_at"])),
                package_version=validation.identifier("package_version", found["package_version"]),
            )
        except ValueError:
            self._refuse("is not a header")

    def events(self, header: EventFileHeader) -> Iterator[Event]:
        chain = b""
        for position in range(1, header.head + 1):
            event = self._event(self._next())
            if event.position != position:
                self._refuse(f"is event {event.position:,}, expected {position:,}")
            if event.external_id != header.external_id:
                self._refuse("belongs to a different external_id than the file")
            chain = event.chain
            yield event
        lines = self._lines.hexdigest()
        footer = self._next()
        if footer.keys() != _FOOTER_FIELDS:
            self._refuse(f"is not the footer, which must follow {header.head:,} events")
        if type(footer["events"]) is not int or footer["events"] != header.head:
            self._refuse("has a different event count than the header")
        if footer["chain"] != chain.hex():
            self._refuse("has a different chain than the last event")
        if footer["sha256"] != lines:
            self._refuse("has a different sha256 than the lines before it")
        if next(self._source, None) is not None:
            self._refuse("is not the last line, as the footer must be")

    def _event(self, document: dict[str, Any]) -> Event:
        if document.keys() != Event.model_fields.keys():
            self._refuse("does not have the fields of an event")
        fields = dict(document)
        for name, parse in _PARSERS.items():
            if fields[name] is not None:
                try:
                    fields[name] = _parsed(parse, fields[name])
                except ValueError:
                    self._refuse(f"has a wrong {name}")
        try:
            return Event.model_validate(fields, strict=True)
        except ValidationError as error:
            wrong = sorted({str(detail["loc"][0]) for detail in error.errors(include_input=False)})
            self._refuse(f"has a wrong {', '.join(wrong)}")

    def _next(self) -> dict[str, Any]:
        """The next line as a JSON object."""
        self._number += 1
        line = next(self._source, None)
        if line is None:
            self._refuse("is missing")
        self.line_bytes = len(line)
        if not line.endswith(b"\n"):
            self._refuse("is cut off")
        if too_large := _too_large(line):
            self._refuse(too_large)
        self._lines.update(line)
        try:
            document = json.loads(line.decode(), parse_float=_finite, parse_constant=_no_constant)
            _check_storable(document)
        except (ValueError, RecursionError):
            self._refuse("is not JSON that a ledger can store")
        if not isinstance(document, dict):
            self._refuse("is not a JSON object")
        return document

    def _split(self) -> Iterator[bytes]:
        """Lines with their line ends; the last may lack one."""
        pending = bytearray()
        for block in self._blocks():
            start = 0
            while end := block.find(b"\n", start) + 1:
                pending += block[start:end]
                yield bytes(pending)
                pending.clear()
                start = end
            pending += block[start:]
            # Checked before unpacking more: a few compressed kilobytes may become gigabytes.
            if len(pending) > MAX_LINE_BYTES:
                self._refuse(_too_large(pending))
        if pending:
            yield bytes(pending)

    def _blocks(self) -> Iterator[bytes]:
        """The frame's contents, in pieces of at most `_BLOCK_BYTES`."""
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX}
        decompressor = zstd.ZstdDecompressor(options=options)
        self._file.seek(0)
        while not decompressor.eof:
            data = self._read_bytes() if decompressor.needs_input else b""
            try:
                block = decompressor.decompress(data, _BLOCK_BYTES)
            except zstd.ZstdError as error:
                raise InvalidInputError(f"{self._path} has invalid zstd data: {error}; {_EXPORT_AGAIN}") from None
            if block:
                yield block
        if self._remaining or decompressor.unused_data:
            raise InvalidInputError(f"{self._path} has extra data between its contents and its seal; {_EXPORT_AGAIN}")
        if self._read.digest() != self._seal:
            _changed(self._path)

    def _read_bytes(self) -> bytes:
        data = self._file.read(min(self._remaining, _BLOCK_BYTES))
        if not data:
            raise InvalidInputError(f"{self._path} ends before its contents do; {_EXPORT_AGAIN}")
        self._remaining -= len(data)
        self._read.update(data)
        return data

    def _refuse(self, problem: str) -> NoReturn:
        # From None: errors of parsers and models contain the text they refused.
        raise InvalidInputError(f"{self._path}: line {self._number:,} {problem}; {_EXPORT_AGAIN}") from None


def _spelled(value: object) -> object:
    """A field of an event as it is written in the file."""
    match value:
        case bytes():
            return value.hex()
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds")
        case UUID():
            return str(value)
    return value


def _parsed(parse: Callable[[str], object], text: object) -> object:
    """The value that `_spelled` writes as `text`; ValueError for any other spelling."""
    if not isinstance(text, str):
        raise ValueError("not text")
    try:
        value = parse(text)
        spelled = _spelled(value)
    except OverflowError:
        raise ValueError("outside the years 1 to 9999") from None
    if spelled != text:
        raise ValueError("a different spelling")
    return value


def _too_large(line: bytes | bytearray) -> str:
    """What is too large about a line, found without parsing it; "" if nothing is."""
    if len(line) > MAX_LINE_BYTES:
        return f"takes more than {MAX_LINE_BYTES:,} bytes"
    if sum(map(line.count, (b",", b"[", b"{"))) > MAX_LINE_VALUES:
        return f"holds more than {MAX_LINE_VALUES:,} values"
    return ""


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("too large for a float")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_storable(document: object) -> None:
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


def _changed(path: Path) -> NoReturn:
    raise InvalidInputError(f"{path} was changed while it was read; {_COPY_AGAIN}")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be written: {error.strerror or error}; choose another path, or free some space"
        ) from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be read: {error.strerror or error}; name the file that an export wrote"
        ) from error
