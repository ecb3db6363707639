"""Only docs/guide/installation.md says how to install the package; every other page points to it."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_OURS = re.compile(r"pip install[^\n]*(?:agent-reminiscence|agent_reminiscence|\[[a-z0-9,-]+\]\"?$|\.\[)", re.MULTILINE)
# What the first lines of a clone's reader are, and the page itself.
_IN_A_CLONE = ("README.md", "docs/index.md", "docs/guide/installation.md", "docs/contributing.md")


def test_no_other_page_installs_the_package_by_a_name_that_no_index_has() -> None:
    """By its name alone, `pip` finds nothing, or another project's package."""
    pages = [path for path in (_ROOT / "docs").rglob("*.md") if path.name != "changelog.md" and "adr" not in path.parts]

    found = {
        path.relative_to(_ROOT).as_posix(): line
        for path in pages
        for line in path.read_text(encoding="utf-8").splitlines()
        if _OURS.search(line) and "pydantic-ai-slim" not in line
    }

    assert len(pages) > 50
    assert {page: line for page, line in found.items() if page not in _IN_A_CLONE} == {}
    assert "docs/guide/installation.md" in found
