"""Checks that every test with a mark is where the `make` target of the mark looks for it; a plugin of `conftest.py`.

To find the tests of a mark among all tests costs more than to run some of them. So `tests/paths/neo4j.txt` names the
files and folders that hold the tests with the mark `neo4j`, and the target passes `@tests/paths/neo4j.txt` to pytest.
A test elsewhere would never run, so it ends the collection; that of `make test` sees all tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[2]


def read_paths() -> dict[str, tuple[str, ...]]:
    """For each mark the files and folders of its tests, relative to the checkout; a folder ends with a slash."""
    paths = {
        file.stem: tuple(
            f"{line}/" if (_ROOT / line).is_dir() else line for line in file.read_text(encoding="utf-8").splitlines()
        )
        for file in (_ROOT / "tests" / "paths").glob("*.txt")
    }
    # One target runs both.
    return paths | {"chaos": paths["thorough"]}


def is_named(file: str, paths: Sequence[str]) -> bool:
    """Whether a file of tests is one of these paths, or in one of them."""
    return any(file.startswith(path) if path.endswith("/") else file == path for path in paths)


def find_misplaced(marks: Mapping[str, set[str]], paths: Mapping[str, Sequence[str]]) -> list[str]:
    """A sentence for each file that holds tests with a mark, and that the paths of the mark do not name.

    Args:
        marks: For each file the marks of its tests.
        paths: For each mark the paths that are named.
    """
    return [
        f"{file} holds tests with the mark {mark}: add it to tests/paths/{'thorough' if mark == 'chaos' else mark}.txt"
        for file, names in marks.items()
        for mark in sorted(names & paths.keys())
        if not is_named(file, paths[mark])
    ]


# After the hooks with `tryfirst`, which add marks, and before pytest's own, which selects by them.
@pytest.hookimpl
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test with a mark that the mark's target would not find."""
    marks: dict[str, set[str]] = {}
    for item in items:
        marks.setdefault(item.nodeid.partition("::")[0], set()).update(mark.name for mark in item.iter_markers())
    if misplaced := find_misplaced(marks, read_paths()):
        raise pytest.UsageError("; ".join(misplaced))
