"""Reads SQL and Cypher files, from the wheel or the checkout, and their named queries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Self, SupportsIndex

_PACKAGE = Path(__file__).parent.parent
# A comment starts with two dashes in SQL, with two slashes in Cypher.
_HEADING = re.compile(r"^(?:--|//) (name|part): (\w+)$", re.MULTILINE)
_INCLUDE = re.compile(r"\{include ([^}]*)\}")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PARAMETER = re.compile(r"\$\((\w+)\)p")
_FIRST_WORD = re.compile(r"(?:\s|(?:--|//)[^\n]*\n)*(\w*)")


class NamedQuery(str):
    """The text of a query that knows its name, even after `fill` and `replace`."""

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

    def fill(self, **values: object) -> NamedQuery:
        """Replace each placeholder `{name}` by its value, which becomes part of the statement.

        A value is a number, one of our own names, or quoted by `literals`.

        Raises:
            ValueError: The query has no such placeholder.
        """
        if missing := values.keys() - set(_PLACEHOLDER.findall(self)):
            raise ValueError(f"the query {self.name!r} has no placeholder {', '.join(sorted(missing))}")
        # In one pass: a value may itself look like a placeholder.
        text = _PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), self)
        return NamedQuery(text, self.name)


def statement_name(statement: str) -> str:
    """The name of a named query; of any other statement only the first word, such as `COMMIT`."""
    if isinstance(statement, NamedQuery):
        return statement.name
    found = _FIRST_WORD.match(statement)
    return found[1].upper() if found else ""


@lru_cache(maxsize=1024)
def with_numbered_parameters(statement: str) -> tuple[str, tuple[str, ...]]:
    """Replace parameters `$(name)p` by the server's `$1`; returns the statement and the names in that order.

    Each name has one number, however often it occurs. The driver would do this on every call, and send repeated
    parameters repeatedly.
    """
    numbers: dict[str, int] = {}
    text = _PARAMETER.sub(lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", statement)
    return text, tuple(numbers)


def statement_folder(language: str) -> Path:
    """The folder of `language` (`sql` or `cypher`): inside the package in a wheel, beside it in a checkout."""
    packaged = _PACKAGE / language
    return packaged if packaged.is_dir() else _PACKAGE.parent / language


def load_queries(language: str, stem: str) -> Mapping[str, NamedQuery]:
    """Return the statements of `queries/<stem>.<language>`, by name.

    A statement begins with a line `-- name: <name>`, in Cypher `// name: <name>`, and ends before the next one. What
    statements have in common is a part, `-- part: <name>`, and no statement by itself. `{include <part>}` puts it in;
    `{include <part> name=<other>}` also puts `<other>` in the part's placeholder `{name}`. Every other placeholder is
    filled at run time, by `NamedQuery.fill`.

    Raises:
        ValueError: A name occurs twice, or an include names no query of the file, leads back to itself or fills a
            placeholder that is not there.
    """
    statements, _ = _read(language, stem)
    return statements


def load_parts(language: str, stem: str) -> Mapping[str, NamedQuery]:
    """Return the parts of `queries/<stem>.<language>`, by name, for a statement that chooses one at run time.

    Raises:
        ValueError: As `load_queries`.
    """
    _, parts = _read(language, stem)
    return parts


@cache
def _read(language: str, stem: str) -> tuple[Mapping[str, NamedQuery], Mapping[str, NamedQuery]]:
    file = f"{stem}.{language}"
    text = (statement_folder(language) / "queries" / file).read_text(encoding="utf-8")
    statements, parts = parse_queries(text, file)
    # Everyone who asks gets the same two.
    return MappingProxyType(statements), MappingProxyType(parts)


def parse_queries(text: str, file: str) -> tuple[dict[str, NamedQuery], dict[str, NamedQuery]]:
    """Return the statements and the parts in the text of `file`, by name, with all includes resolved.

    Raises:
        ValueError: As `load_queries`.
    """
    _, *pieces = _HEADING.split(text)
    bodies: dict[str, str] = {}
    parts: set[str] = set()
    for kind, name, body in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        if name in bodies:
            raise ValueError(f"{file} names {name!r} twice")
        bodies[name] = body.strip().removesuffix(";")
        if kind == "part":
            parts.add(name)
    queries = {name: NamedQuery(_complete(name, bodies, file), name) for name in bodies}
    return (
        {name: query for name, query in queries.items() if name not in parts},
        {name: query for name, query in queries.items() if name in parts},
    )


def _complete(name: str, bodies: Mapping[str, str], file: str, within: tuple[str, ...] = ()) -> str:
    """The text of the query `name`, which those of `within` include, with everything that it includes itself."""
    if name not in bodies:
        raise ValueError(f"{file} has no query {name!r}, which {within[-1]!r} includes")
    if name in within:
        raise ValueError(f"{file} includes {name!r} in itself: {' > '.join((*within, name))}")

    def included(found: re.Match[str]) -> str:
        part, *fillings = found[1].split()
        pairs = (filling.partition("=") for filling in fillings)
        texts = {placeholder: text_of(other) for placeholder, _, other in pairs}
        return NamedQuery(text_of(part), part).fill(**texts)

    def text_of(part: str) -> str:
        return _complete(part, bodies, file, (*within, name))

    return _INCLUDE.sub(included, bodies[name])


@cache
def vector_query(stem: str, name: str, generation: int) -> NamedQuery:
    """Return the query `name` of `queries/<stem>.sql` for the vector table of `generation`."""
    return load_queries("sql", stem)[name].fill(generation=generation)


def all_query_files(language: str) -> list[str]:
    """Return the stems of all files of named queries, sorted."""
    return sorted(path.stem for path in (statement_folder(language) / "queries").glob(f"*.{language}"))
