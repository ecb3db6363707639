"""The nine tools of the reference server, with its names, descriptions, results and texts."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp import types
from pydantic import BaseModel

from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.mcp.knowledge_graph import models
from agent_reminiscence.server.mcp.knowledge_graph.store import KnowledgeGraph, UnknownEntityError
from agent_reminiscence.server.mcp.knowledge_graph.subscribers import Subscribers
from agent_reminiscence.server.mcp.knowledge_graph.wording import as_text
from agent_reminiscence.server.mcp.tools import Call, Tool, ToolRefusedError


@dataclass(frozen=True, kw_only=True)
class _GraphTool[ArgumentsT: BaseModel]:
    """A tool as it acts on one tenant's graph.

    Attributes:
        text: Of a result, for models.
    """

    name: str
    title: str
    description: str
    arguments: type[ArgumentsT]
    result: type[BaseModel]
    run: Callable[[KnowledgeGraph, ArgumentsT], Coroutine[Any, Any, BaseModel]]
    text: Callable[[Any], str] = as_text
    is_reading: bool = False
    is_destructive: bool = False

    def served(self, subscribers: Subscribers) -> Tool[ArgumentsT, BaseModel]:
        """The same as a server offers it: on the caller's graph, and subscribers hear of each change."""
        scope = Scope.READ if self.is_reading else Scope.WRITE

        async def run(call: Call, asked: ArgumentsT) -> tuple[BaseModel, str]:
            tenant = call.tenant(scope)
            try:
                result = await self.run(KnowledgeGraph(call.memory, tenant, actor=call.actor), asked)
            except UnknownEntityError as error:
                raise ToolRefusedError(str(error)) from None
            if not self.is_reading:
                await subscribers.notify(tenant)
            return result, self.text(result.model_dump(by_alias=True))

        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            arguments=self.arguments,
            result=self.result,
            scopes=frozenset({scope}),
            annotations=types.ToolAnnotations(
                read_only_hint=self.is_reading,
                destructive_hint=self.is_destructive,
                idempotent_hint=self.is_reading or self.is_destructive,
                open_world_hint=False,
            ),
            run=run,
            # No list of changes stops in the middle.
            is_always_finished=not self.is_reading,
        )


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


def _of(field: str) -> Callable[[Any], str]:
    return lambda structured: as_text(structured[field])


def _message(structured: Any) -> str:
    return str(structured["message"])


_TOOLS: Final[tuple[_GraphTool[Any], ...]] = (
    _GraphTool(
        name="create_entities",
        title="Create Entities",
        description="Create multiple new entities in the knowledge graph",
        arguments=models.CreateEntities,
        result=models.CreateEntities,
        run=_create_entities,
        text=_of("entities"),
    ),
    _GraphTool(
        name="create_relations",
        title="Create Relations",
        description="Create multiple new relations between entities in the knowledge graph. Relations should be in"
        " active voice",
        arguments=models.CreateRelations,
        result=models.CreateRelations,
        run=_create_relations,
        text=_of("relations"),
    ),
    _GraphTool(
        name="add_observations",
        title="Add Observations",
        description="Add new observations to existing entities in the knowledge graph",
        arguments=models.AddObservations,
        result=models.AddedObservations,
        run=_add_observations,
        text=_of("results"),
    ),
    _GraphTool(
        name="delete_entities",
        title="Delete Entities",
        description="Delete multiple entities and their associated relations from the knowledge graph",
        arguments=models.DeleteEntities,
        result=models.Done,
        run=_delete_entities,
        text=_message,
        is_destructive=True,
    ),
    _GraphTool(
        name="delete_observations",
        title="Delete Observations",
        description="Delete specific observations from entities in the knowledge graph",
        arguments=models.DeleteObservations,
        result=models.Done,
        run=_delete_observations,
        text=_message,
        is_destructive=True,
    ),
    _GraphTool(
        name="delete_relations",
        title="Delete Relations",
        description="Delete multiple relations from the knowledge graph",
        arguments=models.DeleteRelations,
        result=models.Done,
        run=_delete_relations,
        text=_message,
        is_destructive=True,
    ),
    _GraphTool(
        name="read_graph",
        title="Read Graph",
        description="Read the entire knowledge graph",
        arguments=models.ReadGraph,
        result=models.Graph,
        run=_read_graph,
        is_reading=True,
    ),
    _GraphTool(
        name="search_nodes",
        title="Search Nodes",
        description="Search for nodes in the knowledge graph based on a query",
        arguments=models.SearchNodes,
        result=models.Graph,
        run=_search_nodes,
        is_reading=True,
    ),
    _GraphTool(
        name="open_nodes",
        title="Open Nodes",
        description="Open specific nodes in the knowledge graph by their names",
        arguments=models.OpenNodes,
        result=models.Graph,
        run=_open_nodes,
        is_reading=True,
    ),
)


def knowledge_graph_tools(subscribers: Subscribers) -> Sequence[Tool[Any, Any]]:
    """All of them, in the order of the reference server."""
    return [tool.served(subscribers) for tool in _TOOLS]
