"""What PostgreSQL and Neo4j hold of a tenant's graph, read page by page and side by side."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.database.repositories.graph.neo4j_rows import Stored
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.belief import StatedBelief
from agent_reminiscence.domain.graph import Entity, Relationship
from agent_reminiscence.services.graph.comparison import (
    BELIEF_TABLE,
    ENTITY_TABLE,
    PAGE_ROWS,
    RELATIONSHIP_TABLE,
    Difference,
    StoredState,
    differing,
    paged,
    read_stored,
    side_by_side,
)

Renew = Callable[[], Awaitable[None]]


class Ask(Protocol):
    """Puts a question to Neo4j, unless it is known to be unavailable."""

    async def __call__[T](self, question: Callable[[], Awaitable[T]]) -> T:
        """The answer."""
        ...


class GraphPages:
    """What Neo4j holds, read page by page, and its comparison with PostgreSQL.

    Everywhere, `renew` is awaited before each page is read from Neo4j.
    """

    def __init__(self, repositories: Repositories, graph: Neo4jGraph, ask: Ask) -> None:
        self._repository = repositories.graph
        self._beliefs = repositories.tables.beliefs
        self._graph = graph
        self._ask = ask

    async def differences(
        self, db: SqlExecutor, external_id: str, *, renew: Renew | None = None
    ) -> AsyncGenerator[Difference]:
        """The differences between the two stores, entities first, beliefs last, each kind by ascending id."""
        kinds: tuple[tuple[str, Callable[..., Any], Callable[..., Any]], ...] = (
            (ENTITY_TABLE, self._repository.read_entities, self.entities),
            (RELATIONSHIP_TABLE, self._repository.read_relationships, self.relationships),
            (BELIEF_TABLE, self._beliefs.read, self.beliefs),
        )
        for table, read_ours, read_theirs in kinds:
            ours = paged(partial(read_stored, read_ours, db, external_id))
            async with aclosing(side_by_side(ours, read_theirs(external_id, renew))) as pairs:
                async for key, our, their in pairs:
                    if our is None or their is None or differing(our, their) != ():
                        yield Difference(table, key, our, their)

    def entities(self, external_id: str, renew: Renew | None = None) -> AsyncIterator[Stored[Entity]]:
        """Entities."""
        return paged(self._page(self._graph.read_entities, external_id), before_page=renew)

    def strays(self, external_id: str, renew: Renew | None = None) -> AsyncIterator[Stored[Entity]]:
        """Entities that do not exist, although names lead to them."""
        return paged(self._page(self._graph.read_strays, external_id), before_page=renew)

    def relationships(self, external_id: str, renew: Renew | None = None) -> AsyncIterator[Stored[Relationship]]:
        """Relationships."""
        return paged(self._page(self._graph.read_relationships, external_id), before_page=renew)

    def beliefs(self, external_id: str, renew: Renew | None = None) -> AsyncIterator[Stored[StatedBelief]]:
        """Beliefs."""
        return paged(self._page(self._graph.beliefs.read_stored, external_id), before_page=renew)

    def unnamed(self, external_id: str, renew: Renew | None = None) -> AsyncIterator[Stored[StatedBelief]]:
        """Events that are no beliefs, and that no belief names."""
        return paged(self._page(self._graph.beliefs.read_unnamed, external_id), before_page=renew)

    def _page[T: StoredState](
        self, read: Callable[..., Awaitable[Sequence[T]]], external_id: str
    ) -> Callable[[str | None], Awaitable[Sequence[T]]]:
        """What reads a page of `PAGE_ROWS` after an id."""
        return lambda after: self._ask(partial(read, external_id, after=after, limit=PAGE_ROWS))
