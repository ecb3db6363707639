"""When the words of a chunk were first said, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from pydantic import AwareDatetime, Field

from agent_reminiscence.domain.model import StrictModel


class SaidFrom(StrictModel):
    """From which character of a chunk on its lines were first said at which time."""

    start: int = Field(
        ge=0, description="First character, counted from 0; white space at the beginning of the chunk does not count."
    )
    said_at: AwareDatetime


def check_said(lines: Sequence[SaidFrom]) -> Sequence[SaidFrom]:
    """Return `lines` as they are.

    Raises:
        ValueError: They do not begin with the chunk, are not in order, or are a single one.
    """
    starts = [line.start for line in lines]
    if starts and (len(starts) == 1 or starts[0] != 0 or starts != sorted(set(starts))):
        raise ValueError("said_lines must begin with 0, ascend, and be several, or none if all lines have one date")
    return lines


def said_parts(content: str, said_at: datetime, lines: Sequence[SaidFrom]) -> list[tuple[str, datetime]]:
    """Cut a chunk where the date of its lines changes: its parts, which joined are `content`, each with its date.

    Args:
        said_at: The date of the whole chunk if `lines` is empty.
    """
    if not lines:
        return [(content, said_at)]
    starts = said_starts(content, lines)
    return [
        (content[start:end], line.said_at)
        for start, end, line in zip(starts, [*starts[1:], len(content)], lines, strict=True)
    ]


def cut_said(
    content: str, said_at: datetime, lines: Sequence[SaidFrom], start: int, end: int
) -> tuple[datetime, tuple[SaidFrom, ...]]:
    """When a piece of a chunk was first said: most of its words, and its lines if they have several dates.

    Args:
        content: The chunk's.
        said_at: The date of the whole chunk if `lines` is empty.
        start: The piece's first character in `content`.
        end: One past its last character.
    """
    piece = content[start:end]
    blank = len(piece) - len(piece.lstrip())
    weights: Counter[datetime] = Counter()
    cut: list[SaidFrom] = []
    place = 0
    for part, date in said_parts(content, said_at, lines):
        first, last = max(start, place), min(end, place + len(part))
        place += len(part)
        if first < last and content[first:last].strip():
            weights[date] += sum(character.isalnum() for character in content[first:last])
            if not cut or date != cut[-1].said_at:
                cut.append(SaidFrom(start=max(0, first - start - blank) if cut else 0, said_at=date))
    if not weights:
        return said_at, ()
    most = min(weights, key=lambda date: (-weights[date], date))
    return most, tuple(cut) if len(cut) > 1 else ()


def said_starts(content: str, lines: Sequence[SaidFrom]) -> list[int]:
    """Where the parts of a chunk begin, as characters of `content`; the first begins at 0."""
    before = len(content) - len(content.lstrip())
    return [line.start + before if line.start else 0 for line in lines]
