"""The tags that frame memory for models are registered at once, before any text is framed."""

from __future__ import annotations

from pathlib import Path

import agent_reminiscence
from agent_reminiscence.agents import framing_tags

_PACKAGE = Path(agent_reminiscence.__file__).parent


def test_no_other_module_registers_a_tag() -> None:
    """Pydantic AI warns of a tag that comes late: the text of an earlier request would now be escaped otherwise."""
    registering = {path for path in _PACKAGE.rglob("*.py") if "register_tag(" in path.read_text(encoding="utf-8")}

    assert registering == {Path(framing_tags.__file__)}
