"""Turns files and messages into memories: documents and exported chats, read in bounded memory.

Nothing here writes. `read_memories` yields a file's contents as arguments of `create_active_memory`, the same on every
read: a file is read once to check all of it and again to write it, so a file with a fault in its last line leaves
nothing behind. `Conversations` does the same for messages that arrive one by one.

A document is one memory. A chat is one memory per conversation, with a turn per message in `metadata["turns"]`. Text
too long for one memory becomes several, cut at paragraphs or between messages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from agent_reminiscence.config.paths import checked_path
from agent_reminiscence.domain.transfer import ImportedMemory
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.services.transfer.archives import CONVERSATIONS_FILE, records_of_archive
from agent_reminiscence.services.transfer.chats import read_chat
from agent_reminiscence.services.transfer.decoding import TextFile, Utf8File, binary_kind
from agent_reminiscence.services.transfer.front_matter import split_front_matter
from agent_reminiscence.services.transfer.messages import FaultHandler, refuse
from agent_reminiscence.services.transfer.pages import read_page
from agent_reminiscence.services.transfer.parts import (
    BLOCK_BYTES,
    FORMATS,
    Format,
    LeftOut,
    NotedFile,
    ReadableFile,
    Refusal,
    SourceFile,
    document_parts,
    first_heading,
    no_note,
    part_title,
)
from agent_reminiscence.services.transfer.records import records_of_document, records_of_lines
from agent_reminiscence.services.transfer.tables import table_texts
from agent_reminiscence.services.validation import parse_time

_OTHER_ENDINGS: Final = {"htm": "html", "xhtml": "html", "markdown": "md", "ndjson": "jsonl", "tab": "tsv"}
_XHTML_ENDINGS: Final = frozenset({".xhtml", ".xht"})

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


def find_sources(
    paths: Iterable[Path], *, file_format: Format | None = None
) -> Iterator[SourceFile | Refusal | LeftOut]:
    """The files that `paths` name, those of folders sorted by name.

    In a folder, only files with a known extension are taken or, if a format is named, all that may be text. The others
    are told as left out: so are archives, and what lies beside the conversations of an unpacked export and is no chat.
    Of hidden files and links to folders nothing is told.

    Args:
        file_format: Read every file as this, whatever its extension; None goes by the extension.
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


def _files_below(folder: Path, file_format: Format | None) -> Iterator[SourceFile | Refusal | LeftOut]:
    refusals: list[Refusal] = []

    def refuse(error: OSError) -> None:
        refusals.append(Refusal(shown(Path(error.filename or folder)), error.strerror or str(error)))

    for parent, folders, files in folder.walk(on_error=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        is_export = any(map(CONVERSATIONS_FILE.fullmatch, files))
        for name in sorted(files):
            if name.startswith("."):
                continue
            path = parent / name
            if (known := _format_of(path)) is None and (reason := _why_left_out(path, file_format)) is not None:
                yield LeftOut(shown(path), reason)
            elif known == "zip":
                yield LeftOut(shown(path), "an archive in a folder is not read; name it by itself")
            elif is_export and name in _BESIDE_CONVERSATIONS:
                yield LeftOut(shown(path), "a file of an export that is no chat")
            else:
                yield _source(path, file_format, below=folder)
    yield from refusals


def _source(path: Path, file_format: Format | None, *, below: Path | None = None) -> SourceFile | Refusal:
    file_format = file_format or _format_of(path)
    if file_format is None:
        return Refusal(shown(path), _why_unknown(path))
    try:
        status = path.stat()
    except OSError as error:
        return Refusal(shown(path), error.strerror or str(error))
    modified_at = datetime.fromtimestamp(status.st_mtime, UTC)
    label = shown(Path(path.name) if below is None else path.relative_to(below))
    return SourceFile(path, shown(path), file_format, shown(Path(path.stem)), modified_at, label)


def _why_left_out(path: Path, file_format: Format | None) -> str | None:
    """Why a file of a folder with an unknown extension is not read in this format; None if it is."""
    if file_format is None or file_format == "zip":
        return f"{_ending_of(path)} is not read"
    # Opening a pipe would wait for its writer.
    if not path.is_file():
        return "it is no regular file"
    try:
        kind = _binary_kind_of(path)
    except OSError:
        # Reading it will say why.
        return None
    return None if kind is None else f"it is {kind}, which is not text"


def _binary_kind_of(path: Path) -> str | None:
    with path.open("rb") as file:
        try:
            return binary_kind(Utf8File(file).read(BLOCK_BYTES))
        except InvalidInputError:
            # Reading it will say in which line.
            return None


def _why_unknown(path: Path) -> str:
    try:
        kind = _binary_kind_of(path)
    except OSError as error:
        return error.strerror or str(error)
    if kind is not None:
        return f"it is {kind}, which is not read; convert it to text first"
    endings = ", ".join(f".{known}" for known in FORMATS)
    return f"its extension is not one of {endings}; if it is text, pass --format to say how to read it"


def _ending_of(path: Path) -> str:
    return path.suffix.lower() or "a file without an extension"


def _format_of(path: Path) -> Format | None:
    ending = path.suffix.removeprefix(".").lower()
    ending = _OTHER_ENDINGS.get(ending, ending)
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
        file = Utf8File(NotedFile(opened, note or no_note))
        match source.format:
            case "txt" | "md" | "html" | "csv" | "tsv":
                yield from _read_document(source, file)
            case "json":
                yield from read_chat(source, records_of_document(file, on_fault), on_fault)
            case "jsonl":
                yield from read_chat(source, records_of_lines(file, on_fault), on_fault)
            case "zip":
                yield from read_chat(source, records_of_archive(opened, note or no_note, on_fault), on_fault)


# Documents ----------------------------------------------------------------------------------------


def _read_document(source: SourceFile, file: ReadableFile) -> Iterator[ImportedMemory]:
    text = TextFile(file, is_html=source.format == "html")
    match source.format:
        case "html":
            page = read_page(text.blocks(), is_xhtml=source.path.suffix.lower() in _XHTML_ENDINGS)
            yield from _memories_of(source, text, document_parts([page.text]), title=lambda: page.title)
        case "csv" | "tsv":
            rows = table_texts(text.blocks(), delimiter="\t" if source.format == "tsv" else None)
            yield from _memories_of(source, text, document_parts(rows))
        case "md":
            yield from _read_markdown(source, text)
        case _:
            yield from _memories_of(source, text, document_parts(text.blocks()))


def _read_markdown(source: SourceFile, text: TextFile) -> Iterator[ImportedMemory]:
    blocks = text.blocks()
    fields, begin = split_front_matter(next(blocks, ""))
    title = fields.get("title")
    # What is too large for metadata is refused with the file, by the check of its first memory.
    yield from _memories_of(
        replace(source, modified_at=_written_at(fields) or source.modified_at),
        text,
        document_parts(chain([begin], blocks)),
        title=lambda: title if isinstance(title, str) else "",
        heads=True,
        metadata={"front_matter": fields} if fields else {},
    )


def _written_at(fields: Mapping[str, Any]) -> datetime | None:
    """The date in front matter, if it has one that can be read."""
    date = fields.get("date")
    try:
        return validation.moment("date", parse_time(date)) if isinstance(date, str) and date else None
    except InvalidInputError:
        return None


def _memories_of(
    source: SourceFile,
    text: TextFile,
    parts: Iterable[str],
    *,
    title: Callable[[], str] = str,
    heads: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[ImportedMemory]:
    """The memories of a document.

    Args:
        title: Asked once the first part is there; '' leaves the title to the first heading and the file's name.
        heads: Whether a line that begins with # is a heading.
    """
    name = ""
    for number, part in enumerate(parts, start=1):
        if not name:
            name = title().strip() or (first_heading(part) if heads else None) or source.title
        yield ImportedMemory(
            title=part_title(name, number),
            content=validation.content(part),
            metadata=validation.metadata({**source.metadata, **(metadata or {})}),
            occurred_at=source.modified_at,
            replaced_characters=text.take_replaced(),
        )
