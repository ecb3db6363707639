"""The file of a backup: a ZIP archive with a dump of PostgreSQL's and, behind it, what it holds.

`memory.dump` is what `pg_dump --format=custom` wrote, stored as it is, so that `unzip` and `pg_restore` can do without
this package. `backup.json` comes last, because only then are the size and the digest of the dump known; and a ZIP
archive ends in its table of contents, so that a file which was cut off is told from a whole one at once.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from agent_reminiscence.domain.backup import BackupContents
from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer.new_file import NewFile

FORMAT: Final = 1

_DUMP: Final = "memory.dump"
_CONTENTS: Final = "backup.json"
# It has a dozen short fields.
_MAX_CONTENTS_BYTES: Final = 65_536
_BLOCK_BYTES: Final = 1 << 20

_PG_DUMP: Final = b"PGDMP"
_ZIP: Final = b"PK\x03\x04"


class BackupWriter:
    """Writes a backup next to its target: first the dump, then what it holds. Nothing is published here."""

    def __init__(self, file: NewFile) -> None:
        self._file = _Appending(file)
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED)
        # Its size is not known beforehand, and may exceed 4 GiB.
        entry = zipfile.ZipInfo(_DUMP, datetime.now(UTC).timetuple()[:6])
        self._dump = self._zip.open(entry, "w", force_zip64=True)
        self._digest = hashlib.sha256()
        self._bytes = 0

    def write(self, block: bytes) -> None:
        """Append to the dump.

        Raises:
            InvalidInputError: The disk refused.
        """
        self._digest.update(block)
        self._bytes += len(block)
        self._dump.write(block)

    def finish(self, describe: Callable[[int, str], BackupContents]) -> BackupContents:
        """End the file with what it holds; `describe` takes the bytes and the digest of the dump.

        Raises:
            InvalidInputError: The disk refused.
        """
        self._dump.close()
        contents = describe(self._bytes, self._digest.hexdigest())
        self._zip.writestr(_CONTENTS, contents.model_dump_json(indent=1) + "\n")
        self._zip.close()
        return contents

    def abandon(self) -> None:
        """Let go of what was not finished; a ZIP archive that is forgotten would try to write its end."""
        self._file.is_abandoned = True
        self._dump.close()
        self._zip.close()


class _Appending:
    """What a ZIP archive needs of a file to be appended to."""

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self.is_abandoned = False

    def write(self, data: bytes) -> int:
        """Append `data`."""
        if not self.is_abandoned:
            self._file.write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: the file is flushed before it is published."""

    def close(self) -> None:
        """Do nothing: the file belongs to the caller."""


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A backup that can be read."""

    path: Path
    contents: BackupContents

    @classmethod
    def open(cls, path: Path) -> BackupFile:
        """Read what a file says it holds.

        Raises:
            InvalidInputError: It cannot be read, is no backup, was cut off, or a newer release wrote it.
        """
        with _reading(path), _archive(path) as archive:
            names = archive.namelist()
            if _CONTENTS not in names or _DUMP not in names:
                raise InvalidInputError(f"{path} is a ZIP archive, but no backup: it has no {_CONTENTS} and {_DUMP}")
            if archive.getinfo(_CONTENTS).file_size > _MAX_CONTENTS_BYTES:
                raise InvalidInputError(f"{path} is no backup: its {_CONTENTS} is larger than any of ours")
            written = archive.read(_CONTENTS)
        return cls(path, _parsed(path, written))

    def blocks(self) -> Iterator[bytes]:
        """The dump, in blocks of up to 1 MiB.

        Raises:
            InvalidInputError: The file is damaged.
        """
        with _reading(self.path), _archive(self.path) as archive, archive.open(_DUMP) as dump:
            while block := dump.read(_BLOCK_BYTES):
                yield block

    def check(self) -> None:
        """Read the dump to its end and compare it with what the file says.

        Raises:
            InvalidInputError: It differs.
        """
        digest = hashlib.sha256()
        size = 0
        for block in self.blocks():
            digest.update(block)
            size += len(block)
        if (size, digest.hexdigest()) != (self.contents.dump_bytes, self.contents.dump_sha256):
            raise InvalidInputError(
                f"{self.path} is damaged: its dump does not have the digest that the file records; use another copy"
            )


def _parsed(path: Path, written: bytes) -> BackupContents:
    try:
        contents = BackupContents.model_validate_json(written)
    except ValidationError:
        # A newer format may have other fields, but says which it is.
        if (newer := _format_of(written)) is not None and newer > FORMAT:
            raise _newer(path, newer) from None
        raise InvalidInputError(f"{path} is no backup: its {_CONTENTS} does not describe one") from None
    if contents.format > FORMAT:
        raise _newer(path, contents.format)
    return contents


class _Versioned(FrozenModel):
    format: int


def _format_of(written: bytes) -> int | None:
    try:
        return _Versioned.model_validate_json(written).format
    except ValidationError:
        return None


def _newer(path: Path, version: int) -> InvalidInputError:
    return InvalidInputError(
        f"{path} has version {version} of the format, this release reads up to {FORMAT}; update agent-reminiscence"
    )


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with path.open("rb") as file:
        if not file.seekable():
            raise InvalidInputError(f"{path} is a pipe; a backup is read more than once, so store it in a file first")
        start = file.read(8)
        try:
            archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile:
            raise InvalidInputError(f"{path} {_what_it_is(start)}") from None
        with archive:
            yield archive


def _what_it_is(start: bytes) -> str:
    if start.startswith(_PG_DUMP):
        return "is an archive of pg_dump, not of `agent-reminiscence backup`; restore it with pg_restore"
    if start.startswith(_ZIP):
        return "was cut off or is damaged: the end of a backup is missing; use another copy"
    if not start:
        return "is empty; use another copy"
    return "is no file that `agent-reminiscence backup` wrote"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        # A checksum that does not match, or an entry that is compressed or encrypted, as ours never are.
        raise InvalidInputError(f"{path} is damaged: {error}; use another copy") from error
