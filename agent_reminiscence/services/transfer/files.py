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
from pathlib import Path
from typing import Final

from agent_reminiscence.config.paths import checked_path
from agent_reminiscence.domain.transfer import ImportedMemory
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.archives import CONVERSATIONS_FILE, records_of_archive
from agent_reminiscence.services.transfer.chats import read_chat
from agent_reminiscence.services.transfer.messages import FaultHandler, refuse
from agent_reminiscence.services.transfer.parts import (
    BLOCK_BYTES,
    FORMATS,
    Format,
    NotedFile,
    Refusal,
    SourceFile,
    document_parts,
    first_heading,
    no_note,
    part_title,
)
from agent_reminiscence.services.transfer.records import records_of_document, records_of_lines

STANDARD_INPUT: Final = "standard input"

# Other files of the exports of ChatGPT and Claude: accounts, ratings, links, projects.
_BESIDE_CONVERSATIONS: Final = frozenset(
    {
        "export_manifest.json",
        "group_chats.json",
        "memories.json",
        "message_feedback.json",
        "model_comparisons.json",
        "projects.json",
        "shared_conversations.json",
        "sora.json",
        "user.json",
        "user_settings.json",
        "users.json",
    }
)


def find_sources(paths: Iterable[Path], *, file_format: Format | None = None) -> Iterator[SourceFile | Refusal]:
    """The files that `paths` name, those of folders sorted by name.

    In a folder, only files with a known extension are taken; hidden files, archives and links to folders are skipped,
    and so is what lies beside the conversations of an unpacked export and is no chat.

    Args:
        file_format: Read every file as this; None goes by the extension.
    """
    for path in paths:
        try:
            checked_path(path)
        except ValueError as error:
            yield Refusal(shown(path), f"its path {error}")
            continue
        if path.is_dir():
            yield from _files_below(path, file_format)
        elif not path.exists():
            yield Refusal(shown(path), "no such file or folder")
        else:
            yield _source(path, file_format)


def _files_below(folder: Path, file_format: Format | None) -> Iterator[SourceFile | Refusal]:
    refusals: list[Refusal] = []

    def refuse(error: OSError) -> None:
        refusals.append(Refusal(shown(Path(error.filename or folder)), error.strerror or str(error)))

    for parent, folders, files in folder.walk(on_error=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        is_export = any(map(CONVERSATIONS_FILE.fullmatch, files))
        for name in sorted(files):
            if name.startswith(".") or _format_of(parent / name) in (None, "zip"):
                continue
            if not (is_export and name in _BESIDE_CONVERSATIONS):
                yield _source(parent / name, file_format, below=folder)
    yield from refusals


def _source(path: Path, file_format: Format | None, *, below: Path | None = None) -> SourceFile | Refusal:
    file_format = file_format or _format_of(path)
    if file_format is None:
        endings = ", ".join(f".{known}" for known in FORMATS)
        return Refusal(shown(path), f"its extension is not one of {endings}; pass --format to say how to read it")
    try:
        status = path.stat()
    except OSError as error:
        return Refusal(shown(path), error.strerror or str(error))
    modified_at = datetime.fromtimestamp(status.st_mtime, UTC)
    label = shown(Path(path.name) if below is None else path.relative_to(below))
    return SourceFile(path, shown(path), file_format, shown(Path(path.stem)), modified_at, label)


def _format_of(path: Path) -> Format | None:
    ending = path.suffix.removeprefix(".").lower()
    return next((known for known in FORMATS if known == ending), None)


def shown(path: Path) -> str:
    """A path as text that can be printed and stored, whatever bytes the file system uses."""
    try:
        text = os.fsencode(path).decode("utf-8", "replace")
    except UnicodeEncodeError:
        # What the operating system does not take either.
        text = str(path).encode("utf-8", "replace").decode()
    return text.replace("\x00", "\ufffd")


def read_memories(
    source: SourceFile, *, note: Callable[[int], None] | None = None, on_fault: FaultHandler = refuse
) -> Iterator[ImportedMemory]:
    """The memories in `source`, in order; none for a file without words.

    Args:
        note: Called now and then with the number of bytes read since the last call.
        on_fault: Is told of a message of a chat that cannot be read; the error names its line or number.

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
                yield from read_chat(source, records_of_document(file, on_fault))
            case "jsonl":
                yield from read_chat(source, records_of_lines(file, on_fault))
            case "zip":
                yield from read_chat(source, records_of_archive(opened, note or no_note, on_fault))


# Documents ----------------------------------------------------------------------------------------


def _read_document(source: SourceFile, file: NotedFile) -> Iterator[ImportedMemory]:
    title = ""
    for number, part in enumerate(document_parts(_decoded(file)), start=1):
        if not title:
            title = (first_heading(part) if source.format == "md" else None) or source.title
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
