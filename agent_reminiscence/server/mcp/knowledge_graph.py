"""A drop-in for MCP's reference server of a knowledge graph, `@modelcontextprotocol/server-memory`.

Its nine tools with their names, schemas, results and messages, and its resource. What differs: two clients lose
nothing, names are unique within a call, and secrets are redacted.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import anyio
from mcp import types
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from agent_reminiscence.config.installation import installed_version
from agent_reminiscence.core import AgentMem
from agent_reminiscence.exceptions import (
    InvalidInputError,
    QuotaExceededError,
    RedactionError,
    ReminiscenceError,
)
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.mcp import knowledge_graph_models as models
from agent_reminiscence.server.mcp.knowledge_graph_store import KnowledgeGraph, UnknownEntityError
from agent_reminiscence.server.mcp.knowledge_graph_subscribers import Subscribers
from agent_reminiscence.server.mcp.tools import SERVER_NAME, CallerOf, Context, PlainSchema, failed
from agent_reminiscence.server.problems import ProblemError

RESOURCE_URI: Final = "memory://knowledge-graph"

_logger = logging.getLogger("agent_reminiscence.mcp")

_MEDIA_TYPE: Final = "application/json"
_RESOURCE: Final = types.Resource(
    uri=RESOURCE_URI,
    name="knowledge-graph",
    title="Knowledge Graph",
    description="The full knowledge graph with all entities and relations",
    mime_type=_MEDIA_TYPE,
)
# A list may have as many as it has items.
_SHOWN_FAULTS: Final = 5
# How the reference server tells of arguments that it cannot read.
_INVALID: Final = f"MCP error {types.INVALID_PARAMS}:"


@dataclass(frozen=True, kw_only=True)
class _Tool[ArgumentsT: BaseModel]:
    """One tool.

    Attributes:
        text: Of a result, for models; None is the result itself, as JSON.
    """

    name: str
    title: str
    description: str
    arguments: type[ArgumentsT]
    result: type[BaseModel]
    run: Callable[[KnowledgeGraph, ArgumentsT], Coroutine[Any, Any, BaseModel]]
    text: Callable[[Any], str] | None = None
    is_reading: bool = False
    is_destructive: bool = False

    @property
    def scope(self) -> Scope:
        """What a credential must be allowed to do."""
        return Scope.READ if self.is_reading else Scope.WRITE

    @cached_property
    def listed(self) -> types.Tool:
        """As `tools/list` shows it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=_schema(self.arguments),
            output_schema=_schema(self.result),
            annotations=types.ToolAnnotations(
                read_only_hint=self.is_reading,
                destructive_hint=self.is_destructive,
                idempotent_hint=self.is_reading or self.is_destructive,
                open_world_hint=False,
            ),
        )

    async def call(self, graph: KnowledgeGraph, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Carry it out.

        Raises:
            ValidationError: The arguments do not fit.
        """
        result = await self.run(graph, self.arguments.model_validate(arguments))
        structured = result.model_dump(by_alias=True)
        text = _as_text(structured) if self.text is None else self.text(structured)
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structured)


async def _create_entities(graph: KnowledgeGraph, asked: models.CreateEntities) -> models.CreateEntities:
    return models.CreateEntities(entities=await graph.create_entities(asked.entities))


async def _create_relations(graph: KnowledgeGraph, asked: models.CreateRelations) -> models.CreateRelations:
    return models.CreateRelations(relations=await graph.create_relations(asked.relations))


async def _add_observations(graph: KnowledgeGraph, asked: models.AddObservations) -> models.AddedObservations:
    return models.AddedObservations(results=await graph.add_observations(asked.observations))


async def _delete_entities(graph: KnowledgeGraph, asked: models.DeleteEntities) -> models.Done:
    await graph.delete_entities(asked.entity_names)
    return models.Done(success=True, message="Entities deleted successfully")


async def _delete_observations(graph: KnowledgeGraph, asked: models.DeleteObservations) -> models.Done:
    await graph.delete_observations(asked.deletions)
    return models.Done(success=True, message="Observations deleted successfully")


async def _delete_relations(graph: KnowledgeGraph, asked: models.DeleteRelations) -> models.Done:
    await graph.delete_relations(asked.relations)
    return models.Done(success=True, message="Relations deleted successfully")


async def _read_graph(graph: KnowledgeGraph, asked: models.ReadGraph) -> models.Graph:
    del asked
    return await graph.read()


async def _search_nodes(graph: KnowledgeGraph, asked: models.SearchNodes) -> models.Graph:
    return await graph.search(asked.query)


async def _open_nodes(graph: KnowledgeGraph, asked: models.OpenNodes) -> models.Graph:
    return await graph.open(asked.names)


def _as_text(value: Any) -> str:
    """A JSON value as the reference server shows it to models."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def _of(field: str) -> Callable[[Any], str]:
    return lambda structured: _as_text(structured[field])


def _message(structured: Any) -> str:
    return str(structured["message"])


_TOOLS: Final[tuple[_Tool[Any], ...]] = (
    _Tool(
        name="create_entities",
        title="Create Entities",
        description="Create multiple new entities in the knowledge graph",
        arguments=models.CreateEntities,
        result=models.CreateEntities,
        run=_create_entities,
        text=_of("entities"),
    ),
    _Tool(
        name="create_relations",
        title="Create Relations",
        description="Create multiple new relations between entities in the knowledge graph. Relations should be in"
        " active voice",
        arguments=models.CreateRelations,
        result=models.CreateRelations,
        run=_create_relations,
        text=_of("relations"),
    ),
    _Tool(
        name="add_observations",
        title="Add Observations",
        description="Add new observations to existing entities in the knowledge graph",
        arguments=models.AddObservations,
        result=models.AddedObservations,
        run=_add_observations,
        text=_of("results"),
    ),
    _Tool(
        name="delete_entities",
        title="Delete Entities",
        description="Delete multiple entities and their associated relations from the knowledge graph",
        arguments=models.DeleteEntities,
        result=models.Done,
        run=_delete_entities,
        text=_message,
        is_destructive=True,
    ),
    _Tool(
        name="delete_observations",
        title="Delete Observations",
        description="Delete specific observations from entities in the knowledge graph",
        arguments=models.DeleteObservations,
        result=models.Done,
        run=_delete_observations,
        text=_message,
        is_destructive=True,
    ),
    _Tool(
        name="delete_relations",
        title="Delete Relations",
        description="Delete multiple relations from the knowledge graph",
        arguments=models.DeleteRelations,
        result=models.Done,
        run=_delete_relations,
        text=_message,
        is_destructive=True,
    ),
    _Tool(
        name="read_graph",
        title="Read Graph",
        description="Read the entire knowledge graph",
        arguments=models.ReadGraph,
        result=models.Graph,
        run=_read_graph,
        is_reading=True,
    ),
    _Tool(
        name="search_nodes",
        title="Search Nodes",
        description="Search for nodes in the knowledge graph based on a query",
        arguments=models.SearchNodes,
        result=models.Graph,
        run=_search_nodes,
        is_reading=True,
    ),
    _Tool(
        name="open_nodes",
        title="Open Nodes",
        description="Open specific nodes in the knowledge graph by their names",
        arguments=models.OpenNodes,
        result=models.Graph,
        run=_open_nodes,
        is_reading=True,
    ),
)


def build_knowledge_graph(memory: AgentMem, caller_of: CallerOf) -> Server[Any]:
    """An MCP server with the tools of the reference server.

    Args:
        memory: Open while the server runs.
        caller_of: Tells who makes a request, from its context.
    """
    return _Served(memory, caller_of).server()


class _Served:
    """Answers the requests of one server."""

    def __init__(self, memory: AgentMem, caller_of: CallerOf) -> None:
        self._memory = memory
        self._caller_of = caller_of
        self._tools: Mapping[str, _Tool[Any]] = {tool.name: tool for tool in _TOOLS}
        self._subscribers = Subscribers(RESOURCE_URI)

    def server(self) -> Server[Any]:
        """The server."""
        return Server(
            SERVER_NAME,
            version=installed_version() or "",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            get_tool_input_schema=self._input_schema,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_resource_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
        )

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self._tools.get(name)
        return None if tool is None else tool.listed.input_schema

    async def _list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        del params
        caller = self._caller_of(context)
        return types.ListToolsResult(tools=[tool.listed for tool in _TOOLS if caller.may(tool.scope)])

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            return failed(f"{_INVALID} Tool {params.name} not found")
        try:
            caller = self._caller_of(context)
            tenant = caller.tenant(tool.scope)
            graph = KnowledgeGraph(self._memory, tenant, actor=caller.grant.subject)
            result = await _to_its_end(tool.call(graph, params.arguments or {}))
        except ValidationError as error:
            return failed(
                f"{_INVALID} Input validation error: Invalid arguments for tool {tool.name}: {_faults(error)}"
            )
        except UnknownEntityError as error:
            return failed(str(error))
        except (ProblemError, ReminiscenceError) as error:
            return failed(_told(error))
        except Exception as error:  # noqa: BLE001 - the SDK would log its text, which may quote a memory
            _logger.error("the tool %s failed: %s", tool.name, type(error).__name__)
            return failed("that failed for a reason that only the server's log names")
        if not tool.is_reading:
            await self._subscribers.notify(tenant)
        return result

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        del params
        is_readable = self._caller_of(context).may(Scope.READ)
        return types.ListResourcesResult(resources=[_RESOURCE] if is_readable else [])

    async def _list_resource_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        del context, params
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        tenant = self._reader(context)
        if str(params.uri) != RESOURCE_URI:
            raise MCPError(types.INVALID_PARAMS, f"Resource {params.uri} not found")
        try:
            graph = await KnowledgeGraph(self._memory, tenant).read()
        except ReminiscenceError as error:
            raise MCPError(types.INTERNAL_ERROR, _told(error)) from None
        text = _as_text(graph.model_dump(by_alias=True))
        content = types.TextResourceContents(uri=RESOURCE_URI, mime_type=_MEDIA_TYPE, text=text)
        return types.ReadResourceResult(contents=[content])

    async def _subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._subscribers.add(self._reader(context), context.session, str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._subscribers.remove(context.session, str(params.uri))
        return types.EmptyResult()

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        return await self._subscribers.listen(self._reader(context), context, params)

    def _reader(self, context: Context) -> str:
        """The tenant whose graph a request reads.

        Raises:
            MCPError: The credential may not read it, or names no tenant.
        """
        try:
            return self._caller_of(context).tenant(Scope.READ)
        except ProblemError as problem:
            raise MCPError(types.INVALID_REQUEST, problem.detail) from None


async def _to_its_end[T](work: Coroutine[Any, Any, T]) -> T:
    """Await a call that goes on if the client gives it up, so that no list of changes stops in the middle.

    The SDK cancels as anyio does, at each `await`, which would cut short a transaction's own end as well.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task})
        # Nobody reads its error any more.
        if not task.cancelled():
            task.exception()
        raise


def _told(error: ProblemError | ReminiscenceError) -> str:
    """What a model is told of an error, without any text of a memory."""
    match error:
        case ProblemError(detail=detail):
            return detail
        case InvalidInputError() | QuotaExceededError():
            return str(error)
        case RedactionError():
            return "the text could not be searched for secrets, so nothing was written"
        case _:
            return "the memory is not available at the moment; try again later"


def _faults(error: ValidationError) -> str:
    """What is wrong with arguments, without their values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{one['msg']} at {'.'.join(map(str, one['loc']))}" for one in found[:_SHOWN_FAULTS])


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model, without the names and docstrings of our classes."""
    return model.model_json_schema(schema_generator=PlainSchema)
