"""The example, and the page of the guide, run as a reader runs them."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from tests.support.command_line import CHECKOUT
from tests.support.examples import EXAMPLES, new_data_dir, run_example


def test_the_example_says_what_it_should() -> None:
    """The second thread knows what the first one found out; run again, the first one knows it, too."""
    with new_data_dir() as folder:
        first, again = (run_example(EXAMPLES / "research_graph.py", folder) for _ in range(2))

    assert first.splitlines() == [
        "known: []",
        "answer: The lighthouse of Borkum was built in 1817.",
        "known: ['The lighthouse of Borkum was built in 1817.']",
        "answer: It is 60 metres tall.",
        "recalled: The lighthouse of Borkum was built in 1817.",
    ]
    assert again.splitlines()[0] == "known: ['The lighthouse of Borkum was built in 1817.', 'It is 60 metres tall.']"


def test_the_page_of_the_guide_says_what_is_so(tmp_path: Path) -> None:
    """All its blocks, one after the other, as a reader runs them who follows it from top to bottom."""
    page = (CHECKOUT / "docs" / "guide" / "langgraph.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^<!--- skip: next -->\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    script = tmp_path / "page.py"
    body = textwrap.indent("\n".join(blocks), "    ")
    script.write_text(f"import asyncio\n\nasync def read():\n{body}\n\nasyncio.run(read())\n", encoding="utf-8")

    with new_data_dir() as folder:
        run_example(script, folder)

    assert len(blocks) == 6


def test_the_example_is_short() -> None:
    """At most 80 lines."""
    assert len((EXAMPLES / "research_graph.py").read_text(encoding="utf-8").splitlines()) <= 80
