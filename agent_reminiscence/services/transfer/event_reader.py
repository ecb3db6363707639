"""Reads event files: the header, the events in batches, the footer and the seal."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, Self
from uuid import UUID

from pydantic import ValidationError

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_json import load_finite
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.compression import zstd
from agent_reminiscence.services.transfer.event_file import (
    BATCH_BYTES,
    BLOCK_BYTES,
    COPY_AGAIN,
    EXPORT_AGAIN,
    FOOTER_FIELDS,
    FORMAT,
    HEADER_FIELDS,
    MAX_LINE_BYTES,
    MAX_LINE_VALUES,
    SEAL_BYTES,
    SEAL_START,
    VERSION,
    WINDOW_LOG_MAX,
    ZSTD_MAGIC,
    EventFileHeader,
    check_storable,
    spelled_out,
)

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

# The footer of a plain file, with room: counts of 20 digits and two digests.
_FOOTER_BYTES: Final = 400
_SHA256: Final = re.compile(rb'"sha256":"([0-9a-f]{64})"\}$')


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
        self._is_plain = False

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
            contents = self._contents(self._file)
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
        contents = self._contents(self._file)
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
            raise InvalidInputError(f"{self._path} is empty; {COPY_AGAIN}")
        beginning = file.read(len(ZSTD_MAGIC))
        self._is_plain = beginning.startswith(b"{")
        if self._is_plain:
            return self._checked_lines(file)
        if beginning != ZSTD_MAGIC:
            raise InvalidInputError(f"{self._path} is not a zstd file; name the file that an export wrote")
        file.seek(max(0, self._size - SEAL_BYTES))
        seal = file.read(SEAL_BYTES)
        if len(seal) < SEAL_BYTES or not seal.startswith(SEAL_START):
            raise InvalidInputError(
                f"{self._path} does not end with the seal of an export: it was cut off, appended to or recompressed;"
                f" {COPY_AGAIN}"
            )
        file.seek(0)
        digest = hashlib.sha256()
        remaining = self._size - SEAL_BYTES
        while block := file.read(min(remaining, BLOCK_BYTES)):
            digest.update(block)
            remaining -= len(block)
        if digest.digest() != seal.removeprefix(SEAL_START):
            raise InvalidInputError(f"{self._path} is damaged: its bytes do not match its seal; {COPY_AGAIN}")
        return digest.digest()

    def _checked_lines(self, file: BinaryIO) -> bytes:
        """The digest of a plain file, after checking its lines against the digest in its footer."""
        file.seek(max(0, self._size - _FOOTER_BYTES))
        start = self._size - len(footer := file.read(_FOOTER_BYTES).removesuffix(b"\n").rpartition(b"\n")[2]) - 1
        found = _SHA256.search(footer)
        if found is None:
            raise InvalidInputError(
                f"{self._path} does not end with the footer of an export: it was cut off or appended to; {COPY_AGAIN}"
            )
        file.seek(0)
        lines, remaining = hashlib.sha256(), start
        while block := file.read(min(remaining, BLOCK_BYTES)):
            lines.update(block)
            remaining -= len(block)
        if lines.hexdigest().encode() != found[1]:
            raise InvalidInputError(
                f"{self._path} is damaged or was edited: its lines do not match its footer; {COPY_AGAIN}"
            )
        while block := file.read(BLOCK_BYTES):
            lines.update(block)
        return lines.digest()

    def _contents(self, file: BinaryIO) -> _Contents:
        size = self._size if self._is_plain else self._size - SEAL_BYTES
        return _Contents(self._path, file, size, self._seal, is_plain=self._is_plain)


class _Contents:
    """One pass over an open file: `header`, then all of `events`, which also reads the footer and the file's end."""

    def __init__(self, path: Path, file: BinaryIO, size: int, seal: bytes, *, is_plain: bool) -> None:
        self._path = path
        self._file = file
        self._is_plain = is_plain
        self._remaining = size
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
        if found.keys() != HEADER_FIELDS or type(found["head"]) is not int or found["head"] < 0:
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
        if footer.keys() != FOOTER_FIELDS:
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
        if too_large := say_too_large(line):
            self._refuse(too_large)
        self._lines.update(line)
        try:
            document = load_finite(line.decode())
            check_storable(document)
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
                self._refuse(say_too_large(pending))
        if pending:
            yield bytes(pending)

    def _blocks(self) -> Iterator[bytes]:
        """The frame's contents, in pieces of at most `BLOCK_BYTES`."""
        self._file.seek(0)
        if self._is_plain:
            while self._remaining:
                yield self._read_bytes()
            self._refuse_change()
            return
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG_MAX}
        decompressor = zstd.ZstdDecompressor(options=options)
        while not decompressor.eof:
            data = self._read_bytes() if decompressor.needs_input else b""
            try:
                block = decompressor.decompress(data, BLOCK_BYTES)
            except zstd.ZstdError as error:
                raise InvalidInputError(f"{self._path} has invalid zstd data: {error}; {EXPORT_AGAIN}") from None
            if block:
                yield block
        if self._remaining or decompressor.unused_data:
            raise InvalidInputError(f"{self._path} has extra data between its contents and its seal; {EXPORT_AGAIN}")
        self._refuse_change()

    def _refuse_change(self) -> None:
        if self._read.digest() != self._seal:
            _changed(self._path)

    def _read_bytes(self) -> bytes:
        data = self._file.read(min(self._remaining, BLOCK_BYTES))
        if not data:
            raise InvalidInputError(f"{self._path} ends before its contents do; {EXPORT_AGAIN}")
        self._remaining -= len(data)
        self._read.update(data)
        return data

    def _refuse(self, problem: str) -> NoReturn:
        # From None: errors of parsers and models contain the text they refused.
        raise InvalidInputError(f"{self._path}: line {self._number:,} {problem}; {EXPORT_AGAIN}") from None


def _parsed(parse: Callable[[str], object], text: object) -> object:
    """The value that `spelled_out` writes as `text`; ValueError for any other spelling."""
    if not isinstance(text, str):
        raise ValueError("not text")
    try:
        value = parse(text)
        spelled = spelled_out(value)
    except OverflowError:
        raise ValueError("outside the years 1 to 9999") from None
    if spelled != text:
        raise ValueError("a different spelling")
    return value


def say_too_large(line: bytes | bytearray) -> str:
    """What is too large about a line, found without parsing it; "" if nothing is."""
    if len(line) > MAX_LINE_BYTES:
        return f"takes more than {MAX_LINE_BYTES:,} bytes"
    if sum(map(line.count, (b",", b"[", b"{"))) > MAX_LINE_VALUES:
        return f"holds more than {MAX_LINE_VALUES:,} values"
    return ""


def _changed(path: Path) -> NoReturn:
    raise InvalidInputError(f"{path} was changed while it was read; {COPY_AGAIN}")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be read: {error.strerror or error}; name the file that an export wrote"
        ) from error
