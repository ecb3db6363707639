"""The examples in docstrings, of which `tests/support/documents.py` names the modules."""

from __future__ import annotations

import re

from tests.support.documents import MODULES_WITH_EXAMPLES, ROOT

_EXAMPLE = re.compile(r"^\s*(?:>>> |```\s*python\s*$)", re.MULTILINE)


def test_every_module_with_an_example_in_a_docstring_is_named() -> None:
    """An example in another module would look tested and be run by nobody."""
    package = ROOT / "agent_reminiscence"
    found = [
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*.py")
        if _EXAMPLE.search(path.read_text(encoding="utf-8"))
    ]
    assert sorted(found) == sorted(MODULES_WITH_EXAMPLES)
