"""Files to ingest, and their division into parts of the length of a memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from agent_reminiscence.config.constants import (
    MAX_CHUNK_TOKENS,
    MAX_CONTENT_CHARACTERS,
    MAX_TEXT_CHUNKS,
    MAX_TITLE_CHARACTERS,
)
from agent_reminiscence.text.chunking import chunk_text

Format = Literal["txt", "md", "html", "csv", "tsv", "json", "jsonl", "zip"]
FORMATS: Final[tuple[Format, ...]] = ("txt", "md", "html", "csv", "tsv", "json", "jsonl", "zip")

# Fewer characters per chunk than in any text, line ends aside: emoji take three tokens each.
_LEAST_CHUNK_CHARACTERS: Final = 30
BLOCK_BYTES: Final = 65_536
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(\S.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to import.

    Attributes:
        path: Where it is read from.
        name: Its name in messages.
        label: What its memories keep of its path: the part below the folder that was named, which says what it is
            about, and not where that folder is, which says more about a machine.
        title: The title for contents without one.
        modified_at: The time for contents without one; None is the moment of the import.
    """

    path: Path
    name: str
    format: Format
    title: str
    modified_at: datetime | None
    label: str = ""

    @property
    def metadata(self) -> dict[str, Any]:
        """What a memory keeps of its file."""
        return {"file": self.label or Path(self.name).name}


class Refusal(NamedTuple):
    """A file or folder that is not imported, and why; the reason begins with the line, if there is one."""

    name: str
    reason: str


class LeftOut(NamedTuple):
    """A file of a folder that is not of a kind that is read, and why."""

    name: str
    reason: str


class ReadableFile(Protocol):
    """A file that is read from its beginning to its end."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""
        ...

    def readline(self, size: int, /) -> bytes:
        """A line with its end, or the first `size` bytes of it; none at the end."""
        ...


class NotedFile:
    """A file that reports how much of it has been read, block by block."""

    def __init__(self, file: ReadableFile, note: Callable[[int], None]) -> None:
        self._file = file
        self._note = note
        self._unsaid = 0

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        return self._noted(self._file.read(size))

    def readline(self, size: int) -> bytes:
        """A line with its end, or the first `size` bytes of it; none at the end."""
        return self._noted(self._file.readline(size))

    def _noted(self, data: bytes) -> bytes:
        self._unsaid += len(data)
        if self._unsaid >= BLOCK_BYTES or not data:
            self._note(self._unsaid)
            self._unsaid = 0
        return data


def no_note(size: int) -> None:
    """Ignore progress."""


def split_text(blocks: Iterable[str], limit: int) -> Iterator[str]:
    """Pieces of at most `limit` characters that joined give the text back.

    Cut after the last blank line that fits; without one, after the last line end, else after the last space.
    """
    buffer = ""
    for block in blocks:
        buffer += block
        while len(buffer) > limit:
            at = _last_boundary(buffer, limit)
            yield buffer[:at]
            buffer = buffer[at:]
    if buffer:
        yield buffer


def document_parts(blocks: Iterable[str]) -> Iterator[str]:
    """A text in parts that one memory can hold, without those that have no words."""
    for part in chain.from_iterable(map(with_few_chunks, split_text(blocks, MAX_CONTENT_CHARACTERS))):
        if part.strip():
            yield part


def with_few_chunks(text: str) -> Iterator[str]:
    """`text`, or parts of it in order, none with more chunks than one memory may have."""
    # Most texts are far below the limit, so their chunks need not be counted.
    most = text.count("\n") + len(text) // _LEAST_CHUNK_CHARACTERS
    if most <= MAX_TEXT_CHUNKS or len(chunk_text(text, max_tokens=MAX_CHUNK_TOKENS)) <= MAX_TEXT_CHUNKS:
        yield text
        return
    at = _last_boundary(text, len(text) // 2)
    yield from with_few_chunks(text[:at])
    yield from with_few_chunks(text[at:])


def _last_boundary(text: str, limit: int) -> int:
    """The position after the last boundary in the second half of the first `limit` characters; else `limit`."""
    for boundaries in (("\n\n", "\n\r\n"), ("\n",), (" ",)):
        ends = [at + len(mark) for mark in boundaries if (at := text.rfind(mark, limit // 2, limit)) >= 0]
        if ends:
            return max(ends)
    return limit


def first_heading(text: str) -> str | None:
    """The words of the first Markdown heading that is not inside a code fence."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence and (heading := _HEADING.match(line)):
            return heading[1]
    return None


def part_title(title: str, number: int) -> str:
    """`title` cut to the limit, with the part number from the second part on."""
    suffix = "" if number == 1 else f" (part {number})"
    words = " ".join(title.split())
    room = MAX_TITLE_CHARACTERS - len(suffix)
    return (words if len(words) <= room else f"{words[: room - 1]}…") + suffix
