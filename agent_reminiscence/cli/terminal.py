"""Printing for commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress as RichProgress
from rich.progress import TaskID, TextColumn
from rich.text import Text

if TYPE_CHECKING:
    from agent_reminiscence.domain.progress import Progress


def console() -> Console:
    """Standard output, printing text unchanged."""
    return Console(highlight=False, markup=False, emoji=False)


def say(out: Console, text: str, *, indent: int = 0, style: str = "") -> None:
    """Print `text` unchanged; on a terminal, wrapped within its indentation."""
    margin = " " * indent
    for line in printable(text).split("\n"):
        rows = (
            textwrap.wrap(line, out.width, initial_indent=margin, subsequent_indent=margin) if out.is_terminal else []
        )
        for row in rows or [f"{margin}{line}".rstrip()]:
            out.print(Text(row, style=style), soft_wrap=True)


def printable(text: str) -> str:
    """`text` without control characters: remembered text could otherwise control the terminal."""
    return "".join(character if character.isprintable() or character in "\n\t" else "\ufffd" for character in text)


def one_line(text: str) -> str:
    """`text` with each run of white space as a single space."""
    return " ".join(text.split())


def count(number: int, one: str, many: str) -> str:
    """`number` with the right form of its noun."""
    return f"{number:,} {one if number == 1 else many}"


def write_json(document: Any) -> None:
    """Write one JSON document as a line on standard output."""
    # Escaped to ASCII: survives any encoding, and cannot control a terminal.
    sys.stdout.write(json.dumps(document, default=str) + "\n")


def complain(message: str) -> None:
    """Write a line on standard error."""
    sys.stderr.write(printable(message) + "\n")


@contextmanager
def progress(description: str, total: int) -> Iterator[Bar]:
    """A progress bar on standard error if that is a terminal."""
    with _progress() as shown:
        yield Bar(shown, shown.add_task(description, total=total, count=""))


class Bar:
    """A bar for one amount, and a count of something else beside it."""

    def __init__(self, shown: RichProgress, task: TaskID) -> None:
        self._shown = shown
        self._task = task

    def advance(self, amount: float) -> None:
        """Move on by `amount`."""
        self._shown.advance(self._task, amount)

    def count(self, step: Progress) -> None:
        """Show beside the bar what has no total."""
        self._shown.update(self._task, count=f"{step.done:,} {step.unit}")


@contextmanager
def progress_of_stages() -> Iterator[Callable[[str, Progress], None]]:
    """A progress bar like `progress`; yields a function that takes the stage and how far it is."""
    with _progress() as shown:
        task = shown.add_task("", total=None, count="")

        def show(stage: str, step: Progress) -> None:
            shown.update(
                task, description=stage, completed=step.done, total=step.total, count=f"{step.done:,} {step.unit}"
            )

        yield show


def _progress() -> RichProgress:
    screen = Console(stderr=True)
    return RichProgress(
        *RichProgress.get_default_columns(),
        TextColumn("{task.fields[count]}"),
        console=screen,
        disable=not screen.is_terminal,
        transient=True,
    )
