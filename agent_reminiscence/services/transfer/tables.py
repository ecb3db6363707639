"""The rows of a CSV or TSV file as sentences: `name = Ana; city = Porto`, each a paragraph of its own."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Final

from agent_reminiscence.exceptions import InvalidInputError

_DELIMITERS: Final = ",;\t|"
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_NUMBER: Final = re.compile(r"[-+]?[\d.,]*\d[\d.,]*%?")
_MAX_LINE_CHARACTERS: Final = 16_000_000


def table_texts(blocks: Iterable[str], *, delimiter: str | None = None) -> Iterator[str]:
    """The rows of a table, with the names of their columns if its first row has names.

    It has names if no cell is empty, a number, or like another one. Without names, the cells of a row stand side by
    side.

    Args:
        delimiter: What stands between cells; None: what the first line has most of.

    Raises:
        InvalidInputError: The file is no table; the error names the line.
    """
    lines = _lines(blocks)
    first = next((line for line in lines if line.strip()), "")
    rows = csv.reader(_chained(first, lines), delimiter=delimiter or _delimiter_of(first), strict=True)
    names: list[str] | None = None
    is_first = True
    try:
        for row in rows:
            cells = [" ".join(cell.split()) for cell in row]
            if is_first and _are_names(cells):
                names = cells
            elif any(cells):
                yield _sentence(names, cells)
            is_first = False
    except csv.Error as error:
        raise InvalidInputError(f"line {rows.line_num}: this is not CSV: {error}") from None


def _sentence(names: list[str] | None, cells: list[str]) -> str:
    if names is None:
        return "; ".join(filter(None, cells)) + "\n\n"
    # A row may be longer than the first one.
    named = [*names, *(f"column {number}" for number in range(len(names) + 1, len(cells) + 1))]
    return "; ".join(f"{name} = {cell}" for name, cell in zip(named, cells, strict=False) if cell) + "\n\n"


def _are_names(cells: list[str]) -> bool:
    return all(cells) and len(set(cells)) == len(cells) and not any(map(_NUMBER.fullmatch, cells))


def _delimiter_of(line: str) -> str:
    plain = _QUOTED.sub("", line)
    return max(_DELIMITERS, key=plain.count)


def _chained(first: str, lines: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
    yield from lines


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
