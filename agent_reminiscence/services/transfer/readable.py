"""Memories as a text for people: a heading with date and title, then the words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.services.transfer.new_file import NewFile
from agent_reminiscence.text.invisible import INVISIBLE
from agent_reminiscence.text.rendering import MAX_SHOWN_TITLE, one_clean_line

PAGE_MEMORIES: Final = 100
"""So many memories are read and written at a time."""


class ReadableFileWriter:
    """Writes memories to a file that appears once it is whole. All methods block; each may be called from any thread.

    Args:
        path: The target; its folder must exist.
        overwrite: Whether to replace an existing file.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self._file = NewFile(path, overwrite=overwrite)

    def open(self, external_id: str) -> None:
        """Create the file and write its heading.

        Raises:
            InvalidInputError: The target exists or cannot be written.
        """
        self._file.create()
        self._file.write(f"# Memories of {one_clean_line(external_id, MAX_SHOWN_TITLE)}\n".encode())

    def write(self, memories: Sequence[ActiveMemory]) -> None:
        """Append the text of each memory.

        Raises:
            InvalidInputError: The disk refused.
        """
        self._file.write("".join(map(readable, memories)).encode())

    def finish(self) -> None:
        """Move the file to its target.

        Raises:
            InvalidInputError: The target was created meanwhile, or the disk refused.
        """
        try:
            self._file.publish()
        finally:
            self._file.remove()

    def discard(self) -> None:
        """Delete what was written."""
        self._file.remove()


def readable(memory: ActiveMemory) -> str:
    """A memory under a heading with its date and title, and its text quoted, so that no line looks like a heading.

    Characters that nobody sees are left out: a terminal might obey them.
    """
    title = one_clean_line(memory.title, MAX_SHOWN_TITLE)
    day = f"{memory.occurred_at:%Y-%m-%d %H:%M} UTC"
    heading = f"{day}, {title}" if title else day
    notes = [] if memory.source == "user" else [f"source: {memory.source}"]
    if memory.key is not None:
        notes.append(f"key: {one_clean_line(memory.key, MAX_SHOWN_TITLE)}")
    beneath = f"({', '.join(notes)})\n\n" if notes else ""
    lines = INVISIBLE.sub("", memory.content).strip().splitlines()
    quoted = "".join(f"> {line}".rstrip() + "\n" for line in lines)
    return f"\n## {heading}\n\n{beneath}{quoted}"
