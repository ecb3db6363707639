"""The server with the tools of the reference server, and with its resource."""

from __future__ import annotations

from typing import Any

from mcp.server import Server

from agent_reminiscence.server.mcp.dispatch import serve_tools
from agent_reminiscence.server.mcp.knowledge_graph.resource import RESOURCE_URI, add_resource
from agent_reminiscence.server.mcp.knowledge_graph.subscribers import Subscribers
from agent_reminiscence.server.mcp.knowledge_graph.tools import knowledge_graph_tools
from agent_reminiscence.server.mcp.knowledge_graph.wording import WORDING
from agent_reminiscence.server.mcp.tools import Backing


def build_knowledge_graph(backing: Backing) -> Server[Any]:
    """An MCP server with the tools of the reference server."""
    subscribers = Subscribers(RESOURCE_URI)
    server = serve_tools(knowledge_graph_tools(subscribers), backing, wording=WORDING)
    add_resource(server, backing, subscribers)
    return server
