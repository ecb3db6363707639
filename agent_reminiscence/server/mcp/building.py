"""Which tools a server offers.

A kind of server is one entry in `_BUILDERS`: a function that makes an MCP server on what it stands on (`Backing`).
The command `mcp` takes the name of a kind, and over HTTP each has a path of its own. Most servers are a list of `Tool`s
for `serve_tools`; whatever else the protocol has, such as resources, is added to the server that it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from mcp.server import Server

from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.server.mcp.knowledge_graph.server import build_knowledge_graph
from agent_reminiscence.server.mcp.native import build_native
from agent_reminiscence.server.mcp.tools import Backing

type Builder = Callable[[Backing], Server[Any]]

NATIVE: Final = "native"
KNOWLEDGE_GRAPH: Final = "knowledge-graph"

_BUILDERS: Final = MappingProxyType[str, Builder](
    {
        NATIVE: build_native,
        KNOWLEDGE_GRAPH: build_knowledge_graph,
    }
)

KINDS: Final = tuple(_BUILDERS)


def build_server(kind: str, backing: Backing) -> Server[Any]:
    """An MCP server of a kind.

    Raises:
        InvalidInputError: There is no such kind.
    """
    builder = _BUILDERS.get(kind)
    if builder is None:
        raise InvalidInputError(f"tools {kind!r} are unknown; choose one of {', '.join(KINDS)}")
    return builder(backing)
