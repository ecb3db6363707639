"""The tables of docs/guide/rest.md, held against the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from agent_reminiscence.server.rest import openapi
from agent_reminiscence.server.rest.problems import TABLE

_ROOT = Path(__file__).parents[3]
_PAGE = (_ROOT / "docs" / "guide" / "rest.md").read_text(encoding="utf-8")
_SERVER = _ROOT / "agent_reminiscence" / "server"
_PROBLEM = re.compile(r"^\| (\d{3}) \| `([a-z-]+)` \| \S", re.MULTILINE)
_OPERATION = re.compile(r"^\| (`[A-Z].*`) \| .* \| (.*) \|$", re.MULTILINE)
# They answer pages and tools, not programs of REST.
_OTHER_ROOMS = ("inspector", "mcp")

type Kind = tuple[int, str]


def _raised(*folders: Path) -> Iterator[Kind]:
    """The problems that code raises, each with its status."""
    for folder in folders:
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ProblemError":
                    status, kind = node.args[:2]
                    if isinstance(status, ast.Constant) and isinstance(kind, ast.Constant):
                        assert isinstance(status.value, int)
                        yield status.value, str(kind.value)


def _documented() -> tuple[set[Kind], set[Kind]]:
    """The problems of operations, and those before all operations."""
    of_operations, _, before = _PAGE.partition("These stand before all operations:")
    of_one, of_all = (
        [(int(status), kind) for status, kind in _PROBLEM.findall(part)] for part in (of_operations, before)
    )
    assert len(set(of_one + of_all)) == len(of_one + of_all), "each stands once"
    return set(of_one), set(of_all)


def test_the_page_has_each_problem_of_an_operation() -> None:
    """And none that there is not."""
    # The header's own kinds are looked up, not written where they are raised.
    promises = {(400, "idempotency-unsupported"), (400, "precondition-unsupported")}
    raised = {(how.status, how.kind) for how in TABLE.values()} | set(_raised(_SERVER / "rest")) | promises
    assert _documented()[0] == raised


def test_the_page_has_each_problem_that_stands_before_all() -> None:
    """Of credentials and of guards."""
    rooms = [path for path in _SERVER.iterdir() if path.stem not in (*_OTHER_ROOMS, "rest", "__pycache__")]
    of_one, of_all = _documented()
    assert set(_raised(*rooms)) - of_one <= of_all


def test_the_document_names_only_problems_of_the_page() -> None:
    """Each with its status."""
    of_one, of_all = _documented()
    for path, item in openapi()["paths"].items():
        for method, operation in item.items():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    kinds = re.findall(r"`([a-z-]+)`", response["description"])
                    assert kinds, (method, path, status)
                    assert {(int(status), kind) for kind in kinds} <= of_one | of_all, (method, path)


def _operations(cell: str) -> Iterator[tuple[str, str]]:
    """The operations of a row's first cell: `GET`, `PATCH /one` are two of one path, and `/two` is one more of them."""
    methods: list[str] = []
    waiting: list[str] = []
    for code in re.findall(r"`([^`]+)`", cell):
        method, _, path = code.rpartition(" ")
        if not path.startswith("/"):
            waiting.append(path)
            continue
        if method:
            methods, waiting = [*waiting, method], []
        yield from ((one.lower(), path.partition("?")[0]) for one in methods)


def test_the_page_has_each_operation_with_its_scope() -> None:
    """And none that there is not. A row that has several operations has the scopes of all."""
    listed = {
        operation: set(re.findall(r"`(memory:\w+)`", scopes))
        for cell, scopes in _OPERATION.findall(_PAGE)
        for operation in _operations(cell)
    }
    document = {
        (method, path): set(operation["security"][0]["bearer"])
        for path, item in openapi()["paths"].items()
        for method, operation in item.items()
    }
    assert listed.keys() == document.keys()
    for operation, needed in document.items():
        assert needed <= listed[operation], operation
