"""The graph in a separate server that follows Postgres, which answers wherever that server does not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from agent_reminiscence.config.constants import MAX_GRAPH_ENTITIES
from agent_reminiscence.database.repositories.graph.store import (
    ANYTHING,
    GraphFilter,
    GraphHop,
    GraphOutline,
    GraphStore,
)
from agent_reminiscence.domain.belief import StatedBelief
from agent_reminiscence.domain.graph import Entity, GraphPath, GraphPattern, GraphTriple, Relationship, Subgraph
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.resilience.breaker import Breaker


class FollowedGraph:
    """`GraphStore` that asks a server first, and the tables it follows if it is away, too slow or unreadable.

    Both hold the same graph, so which of them answers shows only in how recent it is: a server may be a moment behind.

    Args:
        breaker: Says whether to call the server.
    """

    def __init__(self, server: GraphStore, tables: GraphStore, breaker: Breaker) -> None:
        self._server = server
        self._tables = tables
        self._breaker = breaker

    async def find_entities(
        self,
        external_id: str,
        *,
        ids: Sequence[UUID] | None = None,
        names: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        limit: int = MAX_GRAPH_ENTITIES,
    ) -> list[Entity]:
        """Like `GraphStore`."""
        return await self._ask(
            lambda graph: graph.find_entities(external_id, ids=ids, names=names, types=types, limit=limit)
        )

    async def find_alike(
        self, external_id: str, name: str, *, types: Sequence[str] | None = None, limit: int = 10
    ) -> list[tuple[Entity, float]]:
        """Like `GraphStore`."""
        return await self._ask(lambda graph: graph.find_alike(external_id, name, types=types, limit=limit))

    async def find_relationships(
        self, external_id: str, *, ids: Sequence[UUID] | None = None, entity_ids: Sequence[UUID] | None = None
    ) -> list[Relationship]:
        """Like `GraphStore`."""
        return await self._ask(lambda graph: graph.find_relationships(external_id, ids=ids, entity_ids=entity_ids))

    async def neighbourhood(
        self, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter = ANYTHING
    ) -> Subgraph:
        """Like `GraphStore`."""
        return await self._ask(lambda graph: graph.neighbourhood(external_id, entity_ids, hops=hops, where=where))

    async def outline(
        self, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter = ANYTHING
    ) -> GraphOutline:
        """Like `GraphStore`."""
        return await self._ask(lambda graph: graph.outline(external_id, entity_ids, hops=hops, where=where))

    async def shortest_path(
        self, external_id: str, from_id: UUID, to_id: UUID, *, max_hops: int, where: GraphFilter = ANYTHING
    ) -> GraphPath | None:
        """Like `GraphStore`."""
        return await self._ask(
            lambda graph: graph.shortest_path(external_id, from_id, to_id, max_hops=max_hops, where=where)
        )

    async def match(
        self, external_id: str, pattern: GraphPattern, *, where: GraphFilter = ANYTHING, limit: int = 100
    ) -> list[GraphTriple]:
        """Like `GraphStore`."""
        return await self._ask(lambda graph: graph.match(external_id, pattern, where=where, limit=limit))

    async def match_paths(
        self, external_id: str, hops: Sequence[GraphHop], *, where: GraphFilter = ANYTHING, limit: int = 100
    ) -> list[GraphPath]:
        """Like `GraphStore`."""
        return await self._ask(lambda graph: graph.match_paths(external_id, hops, where=where, limit=limit))

    async def read_beliefs(self, external_id: str) -> list[StatedBelief]:
        """Like `GraphStore`."""
        return await self._ask(lambda graph: graph.read_beliefs(external_id))

    async def _ask[Answer](self, read: Callable[[GraphStore], Awaitable[Answer]]) -> Answer:
        if self._breaker.allows():
            try:
                answer = await read(self._server)
            except StoreError as error:
                self._breaker.failed(error)
            else:
                self._breaker.succeeded()
                return answer
        return await read(self._tables)
