"""How a memory and a result look in a console, and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from agent_reminiscence.text.invisible import INVISIBLE

# Of each text in a line.
_SHOWN_CHARACTERS: Final = 60
# Of each text in a notebook, which folds nothing.
_SHOWN_IN_TABLES: Final = 1_000


def one_line(kind: str, fields: Mapping[str, object]) -> str:
    """`kind(name=value, …)`: texts by their beginning, with control characters escaped."""
    return f"{kind}({', '.join(f'{name}={_value(value)}' for name, value in fields.items())})"


def as_table(rows: Iterable[Sequence[object]], *, head: Sequence[str] = ()) -> str:
    """An HTML table. Every text is escaped, so that no memory can bring markup or a script into a notebook.

    Args:
        rows: The values of each row.
        head: The names of the columns; without them, the first value of a row names it.
    """
    names = f"<thead><tr>{''.join(f'<th>{_html(name)}</th>' for name in head)}</tr></thead>" if head else ""
    body = "".join(_row(row, has_name=not head) for row in rows)
    return f"<table>{names}<tbody>{body}</tbody></table>"


def _row(row: Sequence[object], *, has_name: bool) -> str:
    cells = [f"<td style='text-align:left;white-space:pre-wrap'>{_html(value)}</td>" for value in row]
    if has_name:
        cells[0] = f"<th style='text-align:left'>{_html(row[0])}</th>"
    return f"<tr>{''.join(cells)}</tr>"


def _html(value: object) -> str:
    text = "" if value is None else INVISIBLE.sub("", str(value))
    return escape(text if len(text) <= _SHOWN_IN_TABLES else f"{text[: _SHOWN_IN_TABLES - 1]}…")


def _value(value: object) -> str:
    if isinstance(value, str) and len(value) > _SHOWN_CHARACTERS:
        return f"{value[: _SHOWN_CHARACTERS - 1] + '…'!r}"
    return f"{value:.3g}" if isinstance(value, float) else str(value) if not isinstance(value, str) else repr(value)
