"""What the examples and the guide tell Claude's programs to start: it starts, and has the tools that they name."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from agent_reminiscence import Config
from tests.support.command_line import CHECKOUT, clean_environment, environment
from tests.support.examples import EXAMPLES
from tests.support.mcp_clients import call, remember

_ADDED = re.compile(r"claude mcp add memory -- ([^`\n]+)")


def _command_lines() -> dict[str, list[str]]:
    """What is started, by where it is said."""
    [server] = json.loads((EXAMPLES / "claude_mcp.json").read_text(encoding="utf-8"))["mcpServers"].values()
    found = {"claude_mcp.json": [server["command"], *server["args"]]}
    for path in (EXAMPLES / "claude_memory.py", CHECKOUT / "docs" / "guide" / "mcp.md"):
        for number, line in enumerate(_ADDED.findall(path.read_text(encoding="utf-8"))):
            found[f"{path.name} {number}"] = shlex.split(line)
    return found


_LINES = sorted({shlex.join(line) for line in _command_lines().values()})


# They differ in whom the memory is about.
@pytest.mark.thorough
@pytest.mark.parametrize("line", [_LINES[0], *(pytest.param(line, marks=pytest.mark.thorough) for line in _LINES[1:])])
async def test_what_claude_is_told_to_start_starts(line: str, config: Callable[..., Config]) -> None:
    """As it stands there, with the program that is installed beside this Python."""
    command, *words = shlex.split(line)
    assert command == "agent-reminiscence"
    parameters = StdioServerParameters(
        command=command,
        args=words,
        env=clean_environment()
        | environment(config())
        | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
        },
    )
    async with Client(parameters) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        await remember(client, "My boat is called Bura.")
        found, _ = await call(client, "recall", query="What is my boat called?")

    assert [hit["content"] for hit in found["hits"]] == ["My boat is called Bura."]
    assert {name.removeprefix("mcp__memory__") for name in _allowed()} < tools


def _allowed() -> list[str]:
    """The tools that the example lets Claude use; its framework is not installed here."""
    tree = ast.parse((EXAMPLES / "claude_memory.py").read_text(encoding="utf-8"))
    [value] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "ALLOWED"
    ]
    return [str(name) for name in ast.literal_eval(value)]


def test_the_examples_name_each_way_in() -> None:
    """A file for Claude's programs, and a command for Claude Code in the example and in the guide."""
    assert {"claude_mcp.json", "claude_memory.py 0", "mcp.md 0"} <= _command_lines().keys()
