"""Reads SQL and Cypher files, from the wheel or from the checkout, and their named queries."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def statement_folder(language: str) -> Path:
    """The folder of `language` (`sql` or `cypher`): inside the package in a wheel, beside it in a checkout."""
    packaged = _PACKAGE / language
    return packaged if packaged.is_dir() else _PACKAGE.parent / language


@cache
def load_queries(language: str, stem: str) -> dict[str, str]:
    """The named queries of `queries/<stem>.<language>`, by name.

    A query begins with a line `-- name: <name>` and runs up to the next one. Names are unique in a file.

    Raises:
        ValueError: A name occurs twice.
    """
    text = (statement_folder(language) / "queries" / f"{stem}.{language}").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    queries: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if name in queries:
            raise ValueError(f"{stem}.{language} names {name!r} twice")
        queries[name] = body.strip().removesuffix(";")
    return queries


def all_query_files(language: str) -> list[str]:
    """Stems of all files of named queries, sorted."""
    return sorted(path.stem for path in (statement_folder(language) / "queries").glob(f"*.{language}"))
