"""An MCP server of a mill, over standard input and output: `python mcp_mill.py`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("mill")


@server.tool()
def weather(place: str) -> str:
    """The weather at a place."""
    return f"It rains in {place}."


@server.tool()
def grind(grain: str) -> str:
    """Grind grain."""
    raise ToolError(f"There is no {grain}.")


@server.tool(meta={"group": ["office"]})
def ledger() -> str:
    """Read the mill's ledger."""
    return "Two sacks are owed."


@server.tool()
def process() -> str:
    """Say which process this is."""
    return str(os.getpid())


@server.tool()
async def wait(file: str) -> str:
    """Make a file, and wait for ever."""
    await asyncio.to_thread(Path(file).touch)
    await asyncio.Event().wait()
    return "never"


@server.tool()
def burn_down() -> str:
    """End the server at once."""
    os._exit(1)


if __name__ == "__main__":
    server.run("stdio")
