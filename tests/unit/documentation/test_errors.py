"""The tree and the table of docs/guide/errors.md, held against the exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import agent_reminiscence
from agent_reminiscence.exceptions import ReminiscenceError

_PAGE = (Path(__file__).parents[3] / "docs" / "guide" / "errors.md").read_text(encoding="utf-8")
_NODE = re.compile(r"[│├└─ ]*(\w+Error)")
_ROW = re.compile(r"^\| `(\w+Error)` \|", re.MULTILINE)
_INDENT = 4


def _documented() -> Iterator[tuple[str, str]]:
    """Each error of the tree with the one that it stands below."""
    tree = _PAGE.partition("```text\n")[2].partition("```")[0]
    above: list[str] = []
    for line in tree.splitlines():
        match = _NODE.match(line)
        assert match is not None, line
        del above[match.start(1) // _INDENT :]
        if above:
            yield match[1], above[-1]
        above.append(match[1])


def _raised(error: type[ReminiscenceError]) -> Iterator[tuple[str, str]]:
    """Each error of the module of exceptions with its parent; those of other modules are not a caller's concern."""
    for child in error.__subclasses__():
        if child.__module__ == error.__module__:
            yield child.__name__, error.__name__
            yield from _raised(child)


def test_the_page_shows_each_error_in_its_place() -> None:
    """Who catches one of them sees what else it catches."""
    assert sorted(_documented()) == sorted(_raised(ReminiscenceError))


def test_the_page_says_of_each_error_what_to_do() -> None:
    """Of what is only a kind of others, these say it."""
    kinds = {"ReminiscenceError", "UsageError"}

    assert {*_ROW.findall(_PAGE)} == {name for name, _ in _raised(ReminiscenceError)} - kinds


def test_each_error_can_be_imported_from_the_package() -> None:
    """As the page says."""
    for name, _ in _raised(ReminiscenceError):
        assert name in agent_reminiscence.__all__
