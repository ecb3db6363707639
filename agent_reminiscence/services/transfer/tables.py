"""The rows of a CSV or TSV file as sentences: `name = Ana; city = Porto`, each a paragraph of its own."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from threading import Lock
from typing import Final

from agent_reminiscence.exceptions import InvalidInputError

_DELIMITERS: Final = ",;\t|"
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
# The inside of a quoted cell, up to its end or the end of the line.
_INSIDE: Final = re.compile(r'[^"]*+(?:""[^"]*+)*+')
# Excel's own line: which character stands between cells.
_SEP: Final = re.compile(r'"?sep=([^\w\r\n"])"?[\r\n]*', re.IGNORECASE)
_NUMBER: Final = re.compile(r"[-+]?[\d.,]*\d[\d.,]*%?")
_MAX_LINE_CHARACTERS: Final = 16_000_000
# Far above csv's own limit of 131,072. A quotation mark that is never closed makes a cell of the rest of the file.
_MAX_CELL_CHARACTERS: Final = 16_000_000
# That limit is one for the whole process.
_CSV_LIMIT: Final = Lock()


def table_texts(blocks: Iterable[str], *, delimiter: str | None = None) -> Iterator[str]:
    """The rows of a table, with the names of their columns if its first row has names.

    It has names if it has several cells, none of which is empty, a number, or like another one, and if another row
    follows. Without names, the cells of a row stand side by side.

    Args:
        delimiter: What stands between cells; None: what the first line has most of. A first line such as `sep=;` says
            otherwise, and is no row.

    Raises:
        InvalidInputError: The file is no table; the error names the line.
    """
    lines = _lines(blocks)
    first, number = _first_line(lines)
    if (said := _SEP.fullmatch(first)) is not None:
        delimiter = said[1]
        first, skipped = _first_line(lines)
        number += skipped
    delimiter = delimiter or _delimiter_of(first)
    lines = chain([first], lines)
    rows = _Tabs(lines).rows() if delimiter == "\t" else _csv_rows(lines, delimiter, number)
    filled = (cells for row in rows if any(cells := [" ".join(cell.split()) for cell in row]))
    head, second = next(filled, None), next(filled, None)
    if head is None:
        return
    if second is None or not _are_names(head):
        yield _sentence(None, head)
        names = None
    else:
        names = head
    for cells in filled if second is None else chain([second], filled):
        yield _sentence(names, cells)


def _csv_rows(lines: Iterator[str], delimiter: str, number: int) -> Iterator[list[str]]:
    """The rows of lines, the first of which has this number in its file."""
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        try:
            with _CSV_LIMIT:
                before = csv.field_size_limit(_MAX_CELL_CHARACTERS)
                try:
                    row = next(rows, None)
                finally:
                    csv.field_size_limit(before)
        except csv.Error as error:
            raise InvalidInputError(f"line {number + rows.line_num - 1}: this is not CSV: {error}") from None
        if row is None:
            return
        yield row


class _Tabs:
    """Rows of cells between tabs, in which a quotation mark is one, unless it and its like enclose a whole cell."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        # Lines that were looked at already.
        self._ahead: deque[str] = deque()

    def rows(self) -> Iterator[list[str]]:
        while line := self._next():
            yield self._row(line)

    def _row(self, line: str) -> list[str]:
        cells: list[str] = []
        at = 0
        while True:
            if (quoted := self._quoted(line, at)) is not None:
                cell, line, at = quoted
            else:
                begin, at = at, line.find("\t", at)
                at = len(line) if at < 0 else at
                cell = line[begin:at]
            cells.append(cell)
            if not line.startswith("\t", at):
                return cells
            at += 1

    def _quoted(self, line: str, at: int) -> tuple[str, str, int] | None:
        """The quoted cell that begins here, the line in which it ends, and where; None if none does."""
        if not line.startswith('"', at):
            return None
        parts: list[str] = []
        passed: list[str] = []
        size, at = 0, at + 1
        while line and size <= _MAX_CELL_CHARACTERS:
            inside = _INSIDE.match(line, at)
            end = len(line) if inside is None else inside.end()
            parts.append(line[at:end])
            if end < len(line):
                if line.startswith(("\t", "\n", "\r\n"), end + 1) or end + 1 == len(line):
                    return "".join(parts).replace('""', '"'), line, end + 1
                break
            line, at = self._next(), 0
            passed.append(line)
            size += len(line)
        self._ahead.extendleft(filter(None, reversed(passed)))
        return None

    def _next(self) -> str:
        """The next line with its end; '' after the last one."""
        return self._ahead.popleft() if self._ahead else next(self._lines, "")


def _sentence(names: list[str] | None, cells: list[str]) -> str:
    if names is None:
        return "; ".join(filter(None, cells)) + "\n\n"
    # A row may be longer than the first one.
    named = [*names, *(f"column {number}" for number in range(len(names) + 1, len(cells) + 1))]
    return "; ".join(f"{name} = {cell}" for name, cell in zip(named, cells, strict=False) if cell) + "\n\n"


def _are_names(cells: list[str]) -> bool:
    return len(cells) > 1 and all(cells) and len(set(cells)) == len(cells) and not any(map(_NUMBER.fullmatch, cells))


def _delimiter_of(line: str) -> str:
    plain = _QUOTED.sub("", line)
    return max(_DELIMITERS, key=plain.count)


def _first_line(lines: Iterator[str]) -> tuple[str, int]:
    """The first line that is not blank and its number, counted from 1; '' if there is none."""
    number = 0
    for line in lines:
        number += 1
        if line.strip():
            return line, number
    return "", number


def _lines(blocks: Iterable[str]) -> Iterator[str]:
    rest = ""
    for block in blocks:
        *lines, rest = (rest + block).split("\n")
        for line in lines:
            yield f"{line}\n"
        if len(rest) > _MAX_LINE_CHARACTERS:
            raise InvalidInputError(f"a line has more than {_MAX_LINE_CHARACTERS:,} characters, so this is no table")
    if rest:
        yield rest
