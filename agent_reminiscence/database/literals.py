"""Identifiers and literals of statements that take no parameters."""

from __future__ import annotations


def identifier(name: str) -> str:
    """A name, quoted as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text, quoted as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def optional_literal(text: str | None) -> str:
    """A text, quoted as a literal of SQL; `NULL` for None."""
    return "NULL" if text is None else literal(text)
