"""The command line of the MCP Inspector, which others write: it starts our program, or asks our server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.server import create_app
from tests.support.command_line import CHECKOUT, clean_environment, environment
from tests.support.mcp_clients import Keys, key_for
from tests.support.serving import serve

_PATIENCE_SECONDS: Final = 120.0
_TOOLS: Final = ["recall", "remember", "update_memory", "list_memories", "history", "forget"]


def _run(npm_tools: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [npm_tools / "node_modules" / ".bin" / "mcp-inspector", "--cli", *words],
        env=clean_environment(),
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_SECONDS,
    )


def _inspect(npm_tools: Path, *words: str) -> Any:
    """What the Inspector prints; fails if it complains."""
    finished = _run(npm_tools, *words)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def _program(variables: Mapping[str, str]) -> list[str]:
    """The words after the Inspector's own: which program to start, and with which variables."""
    passed = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    return [*passed, sys.executable, "-m", "agent_reminiscence.cli", "mcp", "--external-id", "ida"]


def test_it_lists_and_calls_the_tools_of_the_program(npm_tools: Path, config: Callable[..., Config]) -> None:
    """`--strict` fails on schemas that other clients cannot read."""
    program = _program(environment(config()) | {"PYTHONPATH": str(CHECKOUT)})

    listed = _inspect(npm_tools, "--method", "tools/list", "--strict", *program)
    _inspect(
        npm_tools, "--tool-name", "remember", "--tool-arg", "content=Ida sails.", "--method", "tools/call", *program
    )
    found = _inspect(
        npm_tools, "--tool-name", "recall", "--tool-arg", "query=Who sails?", "--method", "tools/call", *program
    )

    assert [tool["name"] for tool in listed["tools"]] == _TOOLS
    assert [hit["content"] for hit in found["structuredContent"]["hits"]] == ["Ida sails."]


async def test_it_lists_and_calls_the_tools_of_the_server(npm_tools: Path, config: Callable[..., Config]) -> None:
    """With a key in a header."""
    async with serve(create_app(AgentMem(config()), Keys(ida=key_for("ida")))) as served:

        async def ask(*words: str) -> Any:
            header = ("--header", "Authorization: Bearer ida")
            return await asyncio.to_thread(_inspect, npm_tools, f"{served.url}/mcp", *header, *words)

        listed = await ask("--method", "tools/list", "--strict")
        await ask("--method", "tools/call", "--tool-name", "remember", "--tool-arg", "content=Ida sails.")
        found = await ask("--method", "tools/call", "--tool-name", "recall", "--tool-arg", "query=Who sails?")

    assert [tool["name"] for tool in listed["tools"]] == _TOOLS
    assert [hit["content"] for hit in found["structuredContent"]["hits"]] == ["Ida sails."]


@pytest.mark.parametrize("key", ["joe", None])
async def test_without_a_key_it_is_refused(npm_tools: Path, config: Callable[..., Config], key: str | None) -> None:
    """It says so, and shows no tool."""
    async with serve(create_app(AgentMem(config()), Keys(ida=key_for("ida")))) as served:
        header = [] if key is None else ["--header", f"Authorization: Bearer {key}"]
        finished = await asyncio.to_thread(_run, npm_tools, f"{served.url}/mcp", *header, "--method", "tools/list")
    assert finished.returncode != 0
    assert "inputSchema" not in finished.stdout
