"""Procrastinate's schema, in the version of the installed package."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path


def current_script() -> str:
    """The whole schema, for a database that has none; its names are unqualified."""
    return (_folder() / "schema.sql").read_text(encoding="utf-8")


def current_version() -> str:
    """The name of the last migration."""
    return _names()[-1]


def migrations_after(version: str) -> list[tuple[str, str]]:
    """Name and script of each migration after `version`, in order."""
    folder = _folder() / "migrations"
    return [(name, (folder / name).read_text(encoding="utf-8")) for name in _names() if name > version]


def _names() -> list[str]:
    # By release and step, because names sort in the order of both.
    return sorted(path.name for path in (_folder() / "migrations").glob("*.sql"))


@cache
def _folder() -> Path:
    # Located without importing the package, which only a worker needs and which takes a fifth of a second.
    spec = find_spec("procrastinate")
    if spec is None or spec.origin is None:
        raise RuntimeError("the package procrastinate is not installed")
    return Path(spec.origin).parent / "sql"
