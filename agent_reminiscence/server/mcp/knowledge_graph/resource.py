"""The resource `memory://knowledge-graph`: the whole graph, and who wants to hear of its changes."""

from __future__ import annotations

from typing import Any, Final

from mcp import types
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.mcp.knowledge_graph.store import KnowledgeGraph
from agent_reminiscence.server.mcp.knowledge_graph.subscribers import Subscribers
from agent_reminiscence.server.mcp.knowledge_graph.wording import as_text, told
from agent_reminiscence.server.mcp.tools import Backing, Context
from agent_reminiscence.server.problems import ProblemError

RESOURCE_URI: Final = "memory://knowledge-graph"

_MEDIA_TYPE: Final = "application/json"
_RESOURCE: Final = types.Resource(
    uri=RESOURCE_URI,
    name="knowledge-graph",
    title="Knowledge Graph",
    description="The full knowledge graph with all entities and relations",
    mime_type=_MEDIA_TYPE,
)


def add_resource(server: Server[Any], backing: Backing, subscribers: Subscribers) -> None:
    """Let a server have the resource.

    Args:
        subscribers: Those who ask for it are added, and told by whoever changes the graph.
    """
    resource = _GraphResource(backing, subscribers)
    server.add_request_handler("resources/list", types.PaginatedRequestParams, resource.list_all)
    server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, resource.list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, resource.read)
    server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, resource.listen)
    if backing.has_sessions:
        # Elsewhere a subscription would end with the request that makes it, so the server does not claim to take any.
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, resource.subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, resource.unsubscribe)


class _GraphResource:
    """Answers what is asked about the resource."""

    def __init__(self, backing: Backing, subscribers: Subscribers) -> None:
        self._backing = backing
        self._subscribers = subscribers

    async def list_all(self, context: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
        """The resource, for those who may read it."""
        del params
        is_readable = self._backing.caller_of(context).may(Scope.READ)
        return types.ListResourcesResult(resources=[_RESOURCE] if is_readable else [])

    async def list_templates(
        self, context: Context, params: types.PaginatedRequestParams
    ) -> types.ListResourceTemplatesResult:
        """None."""
        del context, params
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def read(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """The graph, as JSON."""
        tenant = self._reader(context)
        if str(params.uri) != RESOURCE_URI:
            raise MCPError(types.INVALID_PARAMS, f"Resource {params.uri} not found")
        try:
            graph = await KnowledgeGraph(self._backing.memory, tenant).read()
        except ReminiscenceError as error:
            raise MCPError(types.INTERNAL_ERROR, told(error)) from None
        text = as_text(graph.model_dump(by_alias=True))
        content = types.TextResourceContents(uri=RESOURCE_URI, mime_type=_MEDIA_TYPE, text=text)
        return types.ReadResourceResult(contents=[content])

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Tell a client of changes, by the handshake revisions."""
        self._subscribers.add(self._reader(context), context.session, str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """The reverse."""
        self._subscribers.remove(context.session, str(params.uri))
        return types.EmptyResult()

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Tell a client of changes, by the later revisions."""
        return await self._subscribers.listen(self._reader(context), context, params)

    def _reader(self, context: Context) -> str:
        """The tenant whose graph a request reads.

        Raises:
            MCPError: The credential may not read it, or names no tenant.
        """
        try:
            return self._backing.caller_of(context).tenant(Scope.READ)
        except ProblemError as problem:
            raise MCPError(types.INVALID_REQUEST, problem.detail) from None
