"""The file that an export writes and an import reads: every event of one stream, in a form that outlives the database.

A file is one zstd frame with a content checksum, and behind it a seal. The frame holds JSON Lines in UTF-8:

    {"format": "agent_reminiscence.events", "version": 1, "external_id": …, "head": N, "exported_at": …,
     "package_version": …}                                                                   the header, line 1
    {"external_id": …, "event_id": …, "kind": …, "payload": {…}, …, "position": 1, …}        N events, by position
    {"events": N, "chain": …, "sha256": …}                                                   the footer, the last line

- An event has exactly the fields of `agent_reminiscence.domain.event.Event`. Bytes are lower-case hex, ids are UUIDs in
  their usual spelling, times are ISO 8601 in UTC with microseconds and `+00:00`. Numbers in a payload have the value
  that PostgreSQL's jsonb gives back: integers of any size, floats in the shortest spelling that reads back the same.
- `chain` is that of the last event, "" for an empty stream. `sha256` is taken over the bytes of all lines before the
  footer, with their line ends.
- The seal is a zstd skippable frame: magic 0x184D2A50, the length 32 (both little-endian, 4 bytes), and the SHA-256 of
  all bytes before this frame. zstd's own checksum covers what is compressed, not each bit of the frame's header; with
  the seal, a flipped bit anywhere in the file is found. Tools skip it, so `zstd -dc file` prints the lines.

Neither checksum is a signature: whoever can write the file can compute them anew. They tell damage, not forgery.

A later version keeps the seal, the frame, and `format` and `version` in line 1, so that an older release can tell a
newer file from a damaged one.
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
    # By name: what looks through the imports with an older Python does not know this part of the standard library.
    zstd = importlib.import_module("compression.zstd")
else:
    from backports import zstd

FORMAT: Final = "agent_reminiscence.events"
VERSION: Final = 1

# Of UTF-8, with the line end. The largest event is the receipt of an erasure: some hundred bytes for each event that it
# emptied.
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
# A list of empty objects takes 24 times its text in memory. Within both limits the worst line that was tried took
# 650 MiB.
MAX_LINE_VALUES: Final = 4_000_000
# A batch ends with the event that reaches this, in bytes of its lines: so much is in memory, and in a statement.
BATCH_BYTES: Final = 8 * 1024 * 1024
# What the ledger accepts is nested less than half as deep.
MAX_DEPTH: Final = 64

# zstd uses up to 8 MiB at all levels but its "ultra" ones; a header may ask for gigabytes.
_WINDOW_LOG_MAX = 23
_BLOCK_BYTES = 256 * 1024
_ZSTD_MAGIC = bytes.fromhex("28b52ffd")
_SEAL_START = (0x184D2A50).to_bytes(4, "little") + hashlib.sha256().digest_size.to_bytes(4, "little")
_SEAL_BYTES = len(_SEAL_START) + hashlib.sha256().digest_size

_HEADER_FIELDS = frozenset({"format", "version", "external_id", "head", "exported_at", "package_version"})
_FOOTER_FIELDS = frozenset({"events", "chain", "sha256"})
# What JSON has no type for. All other fields of an event stand in the file as they are.
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
_EXPORT_AGAIN = "it was not written by an export, or was changed since; export again"


@dataclass(frozen=True, slots=True)
class EventFileHeader:
    """What a file says of itself.

    Attributes:
        version: Version of the format.
        external_id: Whose stream was exported.
        head: How many events the file holds, which is the position of the last one.
        exported_at: When, in UTC.
        package_version: Which release of this package wrote it.
    """

    version: int
    external_id: str
    head: int
    exported_at: datetime
    package_version: str


class EventFileWriter:
    """Writes one file, beside its target, and puts it in place when it is complete: the target is whole or absent.

    Use it as a context manager, or call `open`, `write` and then `finish` or `discard`. All of them block; each may be
    called from another thread than the one before.
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
            external_id: Whose stream it is; every event must carry it.
            head: How many events will be written, in order of position from 1; 0 for an empty stream.
            overwrite: Whether an existing file is replaced.
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
        # A cancelled task leaves its thread running: what it still writes must not meet a file that is being closed.
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
        """Make the temporary file and write the header.

        Raises:
            InvalidInputError: The target exists or is no place for a file; nothing is left behind.
        """
        with self._lock:
            if self._used:
                raise InvalidInputError(f"{self._path}: a writer writes one file; make another one")
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
        """Append `events`, which follow those written before.

        Raises:
            InvalidInputError: An event belongs to another stream, does not follow the one before, or is too large for
                the format; or the disk refused. The temporary file is gone, and the writer takes no more.
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
        """Complete the file and put it in place of its target, durably.

        Raises:
            InvalidInputError: The count of events is not `head`, the target has come into being meanwhile, or the disk
                refused. The temporary file is gone, and the target is as it was before.
        """
        with self._lock:
            try:
                if self._events != self._head:
                    raise InvalidInputError(
                        f"{self._path}: {self._events:,} events came, and the stream has {self._head:,}; export again"
                    )
                with _writing(self._path):
                    self._write_footer()
                self._refuse_target()
                with _writing(self._path):
                    self._publish()
            finally:
                self._remove()

    def discard(self) -> None:
        """Remove the temporary file; the target is not touched. Nothing happens after `finish`, or a second time."""
        with self._lock:
            # A cancelled `open` may come to its turn only now, and must make no file.
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
            raise InvalidInputError(f"{self._path} exists; choose another path, or ask for it to be overwritten")

    def _refuse_event(self, event: Event) -> None:
        if event.external_id != self._external_id:
            raise InvalidInputError(
                f"{self._path}: event {event.position:,} is of external_id {event.external_id!r},"
                f" and the file is for {self._external_id!r}"
            )
        if event.position != self._events + 1:
            raise InvalidInputError(
                f"{self._path}: event {event.position:,} came where {self._events + 1:,} must follow;"
                " events are written in order of position, without gaps"
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
            return  # a folder cannot be opened there
        # Without this a crash may forget the new name.
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _remove(self) -> None:
        # Closing may have to write, and a full disk must not hide the error that brought us here.
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
        self._file = None
        with suppress(OSError):
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)
        self._temporary = None


class EventFileReader:
    """Reads a file: first `check`, then `batches`. A context manager that closes the file; `close` does the same.

    `batches` repeats every check while it reads. Comparing size and times of the file with those of the check would
    cost less, but a write within one tick of the clock, or through a memory map, can leave both as they were.
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
        """Read the whole file and hold it against all that the format promises.

        The seal comes first, so that damaged bytes reach neither the decompressor nor the JSON parser. Memory is
        bounded, whatever the file holds: a line at a time, of at most `MAX_LINE_BYTES`.

        Raises:
            InvalidInputError: The file is absent, damaged, incomplete, contradicts itself or is of a newer version. The
                message says what is wrong and the way out, and quotes none of the file's text.
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
            # Without a buffer of Python's, which could give back bytes that the file no longer holds.
            self._file = self._path.open("rb", buffering=0)
            self._size = os.fstat(self._file.fileno()).st_size
            self._seal = self._checked_seal(self._file)
            contents = _Contents(self._path, self._file, self._size, self._seal)
            header = contents.header()
            for _ in contents.events(header):
                pass
        return header

    def batches(self, size: int = 500) -> Iterator[list[Event]]:
        """Every event, in order of position, in lists of at most `size` and of few bytes; one iteration at a time.

        That the iteration ends says that these were the very bytes that `check` saw. Whatever was done with the events
        must be undone when it raises instead, so an import belongs into one transaction.

        In a thread: `await asyncio.to_thread(next, batches, None)`, which gives None at the end.

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
        """The seal's digest, after it was compared with that of the bytes before it."""
        if self._size == 0:
            raise InvalidInputError(f"{self._path} is empty; {_COPY_AGAIN}")
        if file.read(len(_ZSTD_MAGIC)) != _ZSTD_MAGIC:
            raise InvalidInputError(f"{self._path} is not a zstd file; name the file that an export wrote")
        file.seek(max(0, self._size - _SEAL_BYTES))
        seal = file.read(_SEAL_BYTES)
        if len(seal) < _SEAL_BYTES or not seal.startswith(_SEAL_START):
            raise InvalidInputError(
                f"{self._path} does not end with the seal of an export: it is cut off, something was appended, or it"
                f" was compressed anew; {_COPY_AGAIN}"
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
    """One pass over an open file: `header`, then all of `events`, which reads the footer and the file's end as well."""

    def __init__(self, path: Path, file: BinaryIO, size: int, seal: bytes) -> None:
        self._path = path
        self._file = file
        self._remaining = size - _SEAL_BYTES
        self._seal = seal
        self._read = hashlib.sha256()
        self._lines = hashlib.sha256()
        self._number = 0
        # Of the line that was read last, with its line end.
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
                f"{self._path} was written by a newer release, in version {version} of the format, and this one reads"
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
                self._refuse(f"is event {event.position:,} where {position:,} must follow")
            if event.external_id != header.external_id:
                self._refuse("belongs to another external_id than the file")
            chain = event.chain
            yield event
        lines = self._lines.hexdigest()
        footer = self._next()
        if footer.keys() != _FOOTER_FIELDS:
            self._refuse(f"is not the footer, which must follow {header.head:,} events")
        if type(footer["events"]) is not int or footer["events"] != header.head:
            self._refuse("counts other events than the header")
        if footer["chain"] != chain.hex():
            self._refuse("has another chain than the last event")
        if footer["sha256"] != lines:
            self._refuse("has another sha256 than the lines before it")
        if next(self._source, None) is not None:
            self._refuse("is not the last one, as the footer must be")

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
            self._refuse("is not JSON that a ledger can hold")
        if not isinstance(document, dict):
            self._refuse("is not a JSON object")
        return document

    def _split(self) -> Iterator[bytes]:
        """Lines with their line ends, which the last one may lack."""
        pending = bytearray()
        for block in self._blocks():
            start = 0
            while end := block.find(b"\n", start) + 1:
                pending += block[start:end]
                yield bytes(pending)
                pending.clear()
                start = end
            pending += block[start:]
            # Before more of it is unpacked: a few kilobytes here may be gigabytes there.
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
                raise InvalidInputError(f"{self._path} holds no valid zstd data: {error}; {_EXPORT_AGAIN}") from None
            if block:
                yield block
        if self._remaining or decompressor.unused_data:
            raise InvalidInputError(f"{self._path} has something between its contents and its seal; {_EXPORT_AGAIN}")
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
        # From None: errors of parsers and models carry the text that they refused.
        raise InvalidInputError(f"{self._path}: line {self._number:,} {problem}; {_EXPORT_AGAIN}") from None


def _spelled(value: object) -> object:
    """How a field of an event stands in the file."""
    match value:
        case bytes():
            return value.hex()
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds")
        case UUID():
            return str(value)
    return value


def _parsed(parse: Callable[[str], object], text: object) -> object:
    """What `_spelled` gave as `text`; ValueError for any other spelling."""
    if not isinstance(text, str):
        raise ValueError("not a text")
    try:
        value = parse(text)
        spelled = _spelled(value)
    except OverflowError:
        raise ValueError("outside the years 1 to 9999") from None
    if spelled != text:
        raise ValueError("another spelling")
    return value


def _too_large(line: bytes | bytearray) -> str:
    """What is too large about a line, without the work of parsing it; "" where nothing is."""
    if len(line) > MAX_LINE_BYTES:
        return f"takes more than {MAX_LINE_BYTES:,} bytes"
    if sum(map(line.count, (b",", b"[", b"{"))) > MAX_LINE_VALUES:
        return f"holds more than {MAX_LINE_VALUES:,} values"
    return ""


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("larger than a float can be")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_storable(document: object) -> None:
    """ValueError for what JSON can say and jsonb cannot hold: NUL, half a surrogate pair, bottomless nesting."""
    level = [document]
    for _ in range(MAX_DEPTH):
        inside: list[object] = []
        for value in level:
            match value:
                case str():
                    if "\x00" in value:
                        raise ValueError("NUL")
                    # Half a surrogate pair has no encoding, and UnicodeEncodeError is a ValueError.
                    value.encode()
                case dict():
                    inside += value.keys()
                    inside += value.values()
                case list():
                    inside += value
        if not inside:
            return
        level = inside
    raise ValueError("nested too deep")


def _changed(path: Path) -> NoReturn:
    raise InvalidInputError(f"{path} was changed while it was read; {_COPY_AGAIN}")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be written: {error.strerror or error}; choose another path, or make room"
        ) from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be read: {error.strerror or error}; name the file that an export wrote"
        ) from error
