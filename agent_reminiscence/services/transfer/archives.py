"""Reads the chats of a zip archive as ChatGPT or Claude offers it for download; nothing is unpacked to disk.

An archive may be made to unpack to terabytes. So what is read is counted as it is unpacked, whatever the archive says
about its own sizes, and only the files that hold conversations are opened.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO, Final

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.transfer.messages import FaultHandler, refuse
from agent_reminiscence.services.transfer.parts import NotedFile
from agent_reminiscence.services.transfer.records import Record, records_of_document

# Large exports are split into numbered files.
CONVERSATIONS_FILE: Final = re.compile(r"conversations(?:-\d{1,6})?\.json")

MAX_UNPACKED_BYTES: Final = 4 * 1024**3
# Chats shrink to a tenth. Only what is larger than this is held to the ratio: a short file of one word may shrink more.
MAX_RATIO: Final = 200
RATIO_FROM_BYTES: Final = 64 * 1024**2


def records_of_archive(
    opened: BinaryIO, note: Callable[[int], None], on_fault: FaultHandler = refuse
) -> Iterator[Record]:
    """The records of the archive's conversation files, in order of their names.

    Args:
        note: Called with the share of the archive's own bytes that was read.
        on_fault: Is told of a record that cannot be read.

    Raises:
        InvalidInputError: It is no such archive, is damaged or encrypted, or unpacks to too much; or a record in it has
            a fault, which the error names with its file.
    """
    with _refusing_damage(), zipfile.ZipFile(opened) as archive:
        entries = sorted(filter(_holds_conversations, archive.infolist()), key=lambda entry: entry.filename)
        if not entries:
            raise InvalidInputError(
                "the archive has no conversations.json, so it is not an export of ChatGPT or Claude; unpack it and"
                " ingest the files"
            )
        size = opened.seek(0, 2)
        progress = _Scaled(note, size, sum(entry.file_size for entry in entries))
        budget = _Budget(MAX_UNPACKED_BYTES)
        for entry in entries:
            with archive.open(entry) as stream:
                limited = _LimitedStream(stream, entry, budget)
                try:
                    yield from records_of_document(NotedFile(limited, progress), _named(entry, on_fault))
                except InvalidInputError as error:
                    raise InvalidInputError(f"{_shown(entry)}: {error}") from None
        progress.finish()


def _named(entry: zipfile.ZipInfo, on_fault: FaultHandler) -> FaultHandler:
    """Tells `on_fault` in which file a fault is; one that it raises is named where it arrives."""
    if on_fault is refuse:
        return refuse
    return lambda error: on_fault(InvalidInputError(f"{_shown(entry)}: {error}"))


def _holds_conversations(entry: zipfile.ZipInfo) -> bool:
    *folders, name = entry.filename.split("/")
    # macOS puts a copy of the attributes of each file beside it.
    return "__MACOSX" not in folders and CONVERSATIONS_FILE.fullmatch(name) is not None


@contextmanager
def _refusing_damage() -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InvalidInputError(f"the archive is damaged ({error}); download it again") from None
    except NotImplementedError:
        raise InvalidInputError(
            "the archive is compressed in a way that is not supported; unpack it yourself"
        ) from None
    except RuntimeError as error:
        # zipfile has no other class for this.
        if "encrypted" not in str(error):
            raise
        raise InvalidInputError("the archive is encrypted; unpack it yourself") from None


class _Budget:
    """How many bytes may still be unpacked from the archive."""

    def __init__(self, left: int) -> None:
        self.left = left


class _LimitedStream:
    """A file of an archive, up to a limit of what it may unpack to."""

    def __init__(self, stream: IO[bytes], entry: zipfile.ZipInfo, budget: _Budget) -> None:
        self._stream = stream
        self._entry = entry
        self._budget = budget
        self._unpacked = 0

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        return self._counted(self._stream.read(size))

    def readline(self, size: int) -> bytes:
        """A line, or the first `size` bytes of it; none at the end."""
        return self._counted(self._stream.readline(size))

    def _counted(self, data: bytes) -> bytes:
        self._unpacked += len(data)
        self._budget.left -= len(data)
        if self._budget.left < 0:
            raise InvalidInputError(f"the archive unpacks to more than {MAX_UNPACKED_BYTES // 1024**3} GiB")
        if self._unpacked > max(RATIO_FROM_BYTES, MAX_RATIO * self._entry.compress_size):
            raise InvalidInputError(
                f"it unpacks to more than {MAX_RATIO} times its size in the archive, as no chat does"
            )
        return data


class _Scaled:
    """Tells progress in bytes of the archive, given progress in unpacked bytes."""

    def __init__(self, note: Callable[[int], None], size: int, unpacked_size: int) -> None:
        self._note = note
        self._size = size
        self._unpacked_size = max(unpacked_size, 1)
        self._unpacked = 0
        self._told = 0

    def __call__(self, unpacked: int) -> None:
        self._unpacked += unpacked
        self._tell(min(self._size, self._size * self._unpacked // self._unpacked_size))

    def finish(self) -> None:
        """Tell the rest, which other files of the archive take up."""
        self._tell(self._size)

    def _tell(self, done: int) -> None:
        if done > self._told:
            self._note(done - self._told)
            self._told = done


def _shown(entry: zipfile.ZipInfo) -> str:
    return "".join(character if character.isprintable() else "\ufffd" for character in entry.filename[-100:])
