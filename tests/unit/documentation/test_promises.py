"""The promises of README.md, held against the tests that it names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_TABLE = (
    (_ROOT / "README.md").read_text(encoding="utf-8").partition("[start:promises]")[2].partition("[end:promises]")[0]
)
_ROWS = re.findall(r"^\| (.+) \| ((?:`[\w/]+\.py`(?:, )?)+) \|$", _TABLE, re.MULTILINE)
_NAMED = sorted({name for _, tests in _ROWS for name in re.findall(r"`([^`]+)`", tests)})


def test_every_promise_names_its_tests() -> None:
    """A row of another form would be checked by nobody."""
    rows = [line for line in _TABLE.splitlines() if line.startswith("|")]
    assert len(_ROWS) == len(rows) - len(("head", "rule"))
    assert len({promise for promise, _ in _ROWS}) == len(_ROWS) > 20


@pytest.mark.parametrize("name", _NAMED)
def test_what_a_promise_names_holds_tests_that_run_every_day(name: str) -> None:
    """A module that was moved or emptied shows nothing, and one that is `thorough` throughout shows it too seldom."""
    module = ast.parse((_ROOT / "tests" / name).read_text(encoding="utf-8"))
    tests = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert [test.name for test in tests if "thorough" not in "".join(map(ast.unparse, test.decorator_list))]
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            assert "thorough" not in ast.unparse(node.value)
