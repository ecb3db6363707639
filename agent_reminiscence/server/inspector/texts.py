"""Two versions of a text side by side, with the words that differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, Literal

_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")
# Comparing takes up to the product of two lengths. Beyond this one, lines that are frequent are not looked for
# elsewhere, and words are not compared at all: a line counts as another one.
_MOST_LINE_PAIRS: Final = 4_000_000
_MOST_WORD_PAIRS: Final = 2_000_000
_MOST_ROWS: Final = 3_000
# Of unchanged lines, so many are shown beside a changed one.
_AROUND: Final = 2

type Mark = Literal["same", "removed", "added"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line."""

    text: str
    mark: Mark


@dataclass(frozen=True, slots=True)
class Row:
    """A line of each text that stand side by side.

    Attributes:
        left: Its number from 1 and its pieces; None beside a line that only the other text has.
        skipped: How many lines that both have are left out here; such a row has no lines.
        cut: How many rows are left out at the end, because there are too many.
    """

    left: tuple[int, tuple[Piece, ...]] | None = None
    right: tuple[int, tuple[Piece, ...]] | None = None
    skipped: int = 0
    cut: int = 0

    @property
    def is_changed(self) -> bool:
        """Whether the two lines differ."""
        sides = [side for side in (self.left, self.right) if side is not None]
        return len(sides) == 1 or any(piece.mark != "same" for _, pieces in sides for piece in pieces)


def compare(old: str, new: str, *, whole: bool = False) -> list[Row]:
    """The lines of two texts, side by side.

    Args:
        whole: Show unchanged lines, too, however far they are from a changed one.
    """
    rows = list(_rows(old.splitlines(), new.splitlines()))
    if not whole:
        rows = list(_folded(rows))
    return rows if len(rows) <= _MOST_ROWS else [*rows[:_MOST_ROWS], Row(cut=len(rows) - _MOST_ROWS)]


def _rows(left: Sequence[str], right: Sequence[str]) -> Iterator[Row]:
    is_long = len(left) * len(right) > _MOST_LINE_PAIRS
    pairs_left = _MOST_WORD_PAIRS
    for kind, i, j, k, m in SequenceMatcher(None, left, right, autojunk=is_long).get_opcodes():
        if kind == "equal":
            for offset in range(j - i):
                line = (Piece(left[i + offset], "same"),)
                yield Row((i + offset + 1, line), (k + offset + 1, line))
            continue
        for before, after in zip_longest(range(i, j), range(k, m)):
            if before is None:
                yield Row(None, (after + 1, (Piece(right[after], "added"),)))
            elif after is None:
                yield Row((before + 1, (Piece(left[before], "removed"),)), None)
            else:
                removed, added, pairs = words(left[before], right[after], most_pairs=pairs_left)
                pairs_left -= pairs
                yield Row((before + 1, removed), (after + 1, added))


def words(
    old: str, new: str, *, most_pairs: int = _MOST_WORD_PAIRS
) -> tuple[tuple[Piece, ...], tuple[Piece, ...], int]:
    """Two lines, each with the words marked that the other does not have, and how many pairs of words that took.

    Args:
        most_pairs: If it takes more, each line is marked as a whole.
    """
    left, right = _WORD.findall(old), _WORD.findall(new)
    pairs = len(left) * len(right)
    if pairs > most_pairs:
        return (Piece(old, "removed"),), (Piece(new, "added"),), 0
    removed: list[Piece] = []
    added: list[Piece] = []
    for kind, i, j, k, m in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        before, after = "".join(left[i:j]), "".join(right[k:m])
        if before:
            removed.append(Piece(before, "same" if kind == "equal" else "removed"))
        if after:
            added.append(Piece(after, "same" if kind == "equal" else "added"))
    return tuple(removed), tuple(added), pairs


def _folded(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows without what is far from every change."""
    near = [False] * len(rows)
    for index, row in enumerate(rows):
        if row.is_changed:
            for close in range(max(index - _AROUND, 0), min(index + _AROUND + 1, len(rows))):
                near[close] = True
    skipped = 0
    for index, row in enumerate(rows):
        if near[index]:
            if skipped:
                yield Row(skipped=skipped)
                skipped = 0
            yield row
        else:
            skipped += 1
    if skipped:
        yield Row(skipped=skipped)
