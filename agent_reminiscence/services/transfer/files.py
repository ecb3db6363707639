"""Turns files and messages into memories: documents and exported chats, read in bounded memory.

Nothing here writes. `read_memories` yields a file's contents as arguments of `create_active_memory`, the same on every
read: a file is read once to check all of it and again to write it, so a file with a fault in its last line leaves
nothing behind. `Conversations` does the same for messages that arrive one by one.

A document is one memory. A chat is one memory per conversation, with a turn per message in `metadata["turns"]`. Text
too long for one memory becomes several, cut at paragraphs or between messages.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final

from agent_reminiscence.config.constants import (
    MAX_CONTENT_CHARACTERS,
)
from agent_reminiscence.domain.transfer import ImportedMemory
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.chats import json_messages, jsonl_messages, read_chat
from agent_reminiscence.services.transfer.parts import (
    BLOCK_BYTES,
    FORMATS,
    Format,
    NotedFile,
    Refusal,
    SourceFile,
    first_heading,
    no_note,
    part_title,
    split_text,
    with_few_chunks,
)

STANDARD_INPUT: Final = "standard input"


def find_sources(paths: Iterable[Path], *, file_format: Format | None = None) -> Iterator[SourceFile | Refusal]:
    """The files that `paths` name, those of folders sorted by name.

    In a folder, only files with a known extension are taken; hidden files and links to folders are skipped.

    Args:
        file_format: Read every file as this; None goes by the extension.
    """
    for path in paths:
        if path.is_dir():
            yield from _files_below(path, file_format)
        elif not path.exists():
            yield Refusal(shown(path), "there is no such file or folder")
        else:
            yield _source(path, file_format)


def _files_below(folder: Path, file_format: Format | None) -> Iterator[SourceFile | Refusal]:
    refusals: list[Refusal] = []

    def refuse(error: OSError) -> None:
        refusals.append(Refusal(shown(Path(error.filename or folder)), error.strerror or str(error)))

    for parent, folders, files in folder.walk(on_error=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and _format_of(parent / name) is not None:
                yield _source(parent / name, file_format)
    yield from refusals


def _source(path: Path, file_format: Format | None) -> SourceFile | Refusal:
    file_format = file_format or _format_of(path)
    if file_format is None:
        endings = ", ".join(f".{known}" for known in FORMATS)
        return Refusal(shown(path), f"its extension is not one of {endings}; pass --format to say how to read it")
    try:
        status = path.stat()
    except OSError as error:
        return Refusal(shown(path), error.strerror or str(error))
    modified_at = datetime.fromtimestamp(status.st_mtime, UTC)
    return SourceFile(path, shown(path), file_format, shown(Path(path.stem)), modified_at)


def _format_of(path: Path) -> Format | None:
    ending = path.suffix.removeprefix(".").lower()
    return next((known for known in FORMATS if known == ending), None)


def shown(path: Path) -> str:
    """A path as text that can be printed and stored, whatever bytes the file system uses."""
    return os.fsencode(path).decode("utf-8", "replace").replace("\x00", "\ufffd")


def read_memories(source: SourceFile, *, note: Callable[[int], None] | None = None) -> Iterator[ImportedMemory]:
    """The memories in `source`, in order; none for a file without words.

    Args:
        note: Called now and then with the number of bytes read since the last call.

    Raises:
        InvalidInputError: The file does not match its format; the error names the line or message.
        OSError: It cannot be read.
    """
    with source.path.open("rb") as opened:
        file = NotedFile(opened, note or no_note)
        match source.format:
            case "txt" | "md":
                yield from _read_document(source, file)
            case "json":
                yield from read_chat(source, json_messages(file))
            case "jsonl":
                yield from read_chat(source, jsonl_messages(file))


# Documents ----------------------------------------------------------------------------------------


def _read_document(source: SourceFile, file: NotedFile) -> Iterator[ImportedMemory]:
    title = ""
    number = 0
    for part in chain.from_iterable(map(with_few_chunks, split_text(_decoded(file), MAX_CONTENT_CHARACTERS))):
        if not title:
            title = (first_heading(part) if source.format == "md" else None) or source.title
        if not part.strip():
            continue
        number += 1
        yield ImportedMemory(
            title=part_title(title, number),
            content=validation.content(part),
            metadata=source.metadata,
            occurred_at=source.modified_at,
        )


def _decoded(file: NotedFile) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line = 1
    while True:
        block = file.read(BLOCK_BYTES)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"line {line + error.object[: error.start].count(b'\n')}: this is not UTF-8 text"
            ) from None
        if "\x00" in text:
            raise InvalidInputError(
                f"line {line + text[: text.index(chr(0))].count('\n')}: a NUL character, so this is not text"
            )
        line += text.count("\n")
        yield text
        if not block:
            return


# Chats --------------------------------------------------------------------------------------------
