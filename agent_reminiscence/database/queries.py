"""Reads SQL and Cypher files, from the wheel or the checkout, and their named queries."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Self, SupportsIndex

_PACKAGE = Path(__file__).parent.parent
# A comment starts with two dashes in SQL, with two slashes in Cypher.
_NAME = re.compile(r"^(?:--|//) name: (\w+)$", re.MULTILINE)
_PARAMETER = re.compile(r"\$\((\w+)\)p")
_FIRST_WORD = re.compile(r"(?:\s|(?:--|//)[^\n]*\n)*(\w*)")


class NamedQuery(str):
    """The text of a query that knows its name, even after `replace`."""

    __slots__ = ("name",)

    name: str

    def __new__(cls, text: str, name: str) -> Self:
        """Create the query `text` with the name `name`."""
        query = super().__new__(cls, text)
        query.name = name
        return query

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> NamedQuery:
        """Like `str.replace`, keeping the name."""
        return NamedQuery(super().replace(old, new, count), self.name)


def statement_name(statement: str) -> str:
    """The name of a named query; of any other statement only the first word, such as `COMMIT`."""
    if isinstance(statement, NamedQuery):
        return statement.name
    found = _FIRST_WORD.match(statement)
    return found[1].upper() if found else ""


@lru_cache(maxsize=1024)
def with_places(statement: str) -> tuple[str, tuple[str, ...]]:
    """Replace parameters `$(name)p` by the server's `$1`; returns the statement and the names in that order.

    Each name has one place, however often it occurs. The driver would do this on every call, and send repeated
    parameters repeatedly.
    """
    places: dict[str, int] = {}
    text = _PARAMETER.sub(lambda found: f"${places.setdefault(found[1], len(places) + 1)}", statement)
    return text, tuple(places)


def statement_folder(language: str) -> Path:
    """The folder of `language` (`sql` or `cypher`): inside the package in a wheel, beside it in a checkout."""
    packaged = _PACKAGE / language
    return packaged if packaged.is_dir() else _PACKAGE.parent / language


@cache
def load_queries(language: str, stem: str) -> dict[str, NamedQuery]:
    """Return the named queries of `queries/<stem>.<language>`, by name.

    A query begins with a line `-- name: <name>`, in Cypher `// name: <name>`, and ends before the next one. Names are
    unique in a file.

    Raises:
        ValueError: A name occurs twice.
    """
    text = (statement_folder(language) / "queries" / f"{stem}.{language}").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    queries: dict[str, NamedQuery] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in queries:
            raise ValueError(f"{stem}.{language} names {name!r} twice")
        queries[name] = NamedQuery(body.strip().removesuffix(";"), name)
    return queries


@cache
def vector_query(stem: str, name: str, generation: int) -> NamedQuery:
    """Return the query `name` of `queries/<stem>.sql` for the vector table of `generation`."""
    return load_queries("sql", stem)[name].replace("{generation}", str(generation))


def all_query_files(language: str) -> list[str]:
    """Return the stems of all files of named queries, sorted."""
    return sorted(path.stem for path in (statement_folder(language) / "queries").glob(f"*.{language}"))
