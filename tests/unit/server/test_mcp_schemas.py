"""What `tools/list` costs, and says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_reminiscence.server.mcp.native import NATIVE_TOOLS
from agent_reminiscence.server.mcp.rendering import beginning, fenced
from agent_reminiscence.server.mcp.tools import Tool
from agent_reminiscence.text.tokens import count_tokens

# Every conversation of every client pays for them.
_MAX_TOKENS = 1_310


def _listed(tool: Tool[Any, Any]) -> dict[str, Any]:
    return tool.listed.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_what_a_model_reads_of_all_tools_is_short() -> None:
    """Names, descriptions and schemas of arguments; clients keep the rest to themselves."""
    read = [
        {name: value for name, value in _listed(tool).items() if name in ("name", "description", "inputSchema")}
        for tool in NATIVE_TOOLS
    ]
    assert count_tokens(json.dumps(read)) <= _MAX_TOKENS


@pytest.mark.parametrize("tool", NATIVE_TOOLS, ids=lambda tool: tool.name)
def test_schemas_hold_what_a_reader_needs(tool: Tool[Any, Any]) -> None:
    """No title repeats a name; arguments stand in place, and none of them names a tenant."""
    schema = _listed(tool)["inputSchema"]
    assert schema["type"] == "object"
    assert "$defs" not in schema
    for name, one in schema["properties"].items():
        assert one["type"] in ("string", "integer", "number", "boolean", "array", "object")
        assert "title" not in one
        assert one.get("default", "") is not None
        assert name not in ("external_id", "tenant", "user_id")
        if one["type"] == "string":
            assert (
                one.get("maxLength") or one.get("format") or name in ("as_of", "known_at", "occurred_at", "expires_at")
            )
        if one["type"] in ("integer", "number"):
            assert {"minimum", "maximum"} <= one.keys()


def test_a_fence_is_longer_than_any_that_it_encloses() -> None:
    """So nothing within can end it."""
    for run in range(8):
        opening, *_, closing = fenced("answer", f"a {'`' * run} b\n{'`' * run}").splitlines()
        assert closing == opening.removesuffix("answer")
        assert len(closing) == max(3, run + 1)


def test_the_beginning_of_a_text_is_marked_as_one() -> None:
    """A text that fits is left as it is."""
    assert beginning("Ida sails.", 10) == "Ida sails."
    assert beginning("Ida sails.", 4) == "Ida …"
