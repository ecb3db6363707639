"""The table on the first page of the documentation: each line of code names what there is."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_reminiscence
from agent_reminiscence import AgentMem, integrations, react, views
from agent_reminiscence.cli import _app
from agent_reminiscence.react.lifecycle import Lifecycle

_PAGE = (Path(__file__).parents[2] / "docs" / "index.md").read_text(encoding="utf-8")
_TABLE = _PAGE.partition("| you want to | begin here | for example |\n")[2].partition("\n\n")[0]
_EXAMPLES = re.findall(r"\| `([^`]+)` \|$", _TABLE, re.MULTILINE)
_COMMAND = "agent-reminiscence "
_COMMANDS = set(_app)
_HARD_TO_FIND = (
    *("memory.admin.remember", "BaseEmbedder", "memory_index_from_env", "ReactMemService", "lifecycle.run"),
    *("memory.admin.beliefs", "memory.admin.graph.shortest_path", "agent-reminiscence worker"),
)


@pytest.mark.parametrize("name", _HARD_TO_FIND)
def test_what_is_hard_to_find_is_in_the_table(name: str) -> None:
    """With a line of code, as somebody would search for it."""
    assert any(name in example for example in _EXAMPLES)


async def test_each_line_of_the_table_names_what_there_is(memory: AgentMem) -> None:
    """A method, class, function or command that was renamed fails here."""
    assert len(_EXAMPLES) > len(_HARD_TO_FIND)
    for example in _EXAMPLES:
        if example.startswith(_COMMAND):
            assert example.split()[1] in _COMMANDS
            continue
        names = list(_names(ast.parse(example)))
        assert names
        for name in names:
            assert _exists(name, memory), name


def _names(tree: ast.AST) -> Iterator[str]:
    """The dotted names that a line calls or inherits from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)
        elif isinstance(node, ast.ClassDef):
            yield from map(ast.unparse, node.bases)


def _exists(name: str, memory: AgentMem) -> bool:
    first, *rest = name.split(".")
    if name.startswith("agent.lifecycle."):
        found: object = Lifecycle
        rest = rest[1:]
    elif first == "memory":
        found = memory
    elif first == "asyncio":
        found = asyncio
    else:
        return any(hasattr(module, first) for module in (agent_reminiscence, integrations, react, views))
    for part in rest:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True
