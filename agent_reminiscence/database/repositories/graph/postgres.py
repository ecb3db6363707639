"""The graph in PostgreSQL: as current as the last write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Final
from uuid import UUID

from agent_reminiscence.config.constants import MAX_GRAPH_ENTITIES
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.graph.beliefs import BeliefRepository
from agent_reminiscence.database.repositories.graph.path_match import (
    EdgePattern,
    MatchedIds,
    as_paths,
    entity_ids,
    match_paths,
    relationship_ids,
)
from agent_reminiscence.database.repositories.graph.store import ANYTHING, GraphFilter, GraphHop, GraphOutline
from agent_reminiscence.database.repositories.graph.tables import EntityGraphRepository
from agent_reminiscence.domain.belief import StatedBelief
from agent_reminiscence.domain.graph import Entity, GraphPath, GraphPattern, GraphTriple, Relationship, Subgraph
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.likeness import rank_alike

# Steps a shortest-path search examines before it gives up.
MAX_PATH_NEIGHBOURS: Final = 50_000

# A generic plan uses no index if a filter may be absent. JIT compilation takes longer than one of these statements
# runs.
_SETTINGS: Mapping[str, str] = {"jit": "off", "plan_cache_mode": "force_custom_plan"}


class PostgresGraph:
    """`GraphStore` on the graph tables; each call reads one snapshot, except `find_alike`, which reads two.

    Args:
        deadline_seconds: Time limit of one statement; None is the store's own limit.
    """

    def __init__(
        self, store: PostgresManager, repository: EntityGraphRepository, *, deadline_seconds: float | None = None
    ) -> None:
        self._store = store
        self._repository = repository
        self._beliefs = BeliefRepository()
        self._settings = dict(_SETTINGS)
        if deadline_seconds is not None:
            self._settings["statement_timeout"] = f"{max(1, round(deadline_seconds * 1000))}ms"

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
        async with self._read_transaction(external_id) as db:
            return await self._repository.find_entities(db, external_id, ids=ids, names=names, types=types, limit=limit)

    async def find_alike(
        self, external_id: str, name: str, *, types: Sequence[str] | None = None, limit: int = 10
    ) -> list[tuple[Entity, float]]:
        """Like `GraphStore`."""
        async with self._read_transaction(external_id) as db:
            candidates = await self._repository.find_names(db, external_id, types=types)
        ranked = await asyncio.to_thread(rank_alike, name, candidates, limit)
        async with self._read_transaction(external_id) as db:
            found = await self._repository.find_entities(db, external_id, ids=[entity_id for entity_id, _ in ranked])
        by_id = {entity.id: entity for entity in found}
        # What was merged in between is found under another id, and left out.
        return [(by_id[entity_id], score) for entity_id, score in ranked if entity_id in by_id]

    async def find_relationships(
        self, external_id: str, *, ids: Sequence[UUID] | None = None, entity_ids: Sequence[UUID] | None = None
    ) -> list[Relationship]:
        """Like `GraphStore`."""
        async with self._read_transaction(external_id) as db:
            return await self._repository.find_relationships(db, external_id, ids=ids, entity_ids=entity_ids)

    async def neighbourhood(
        self, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter = ANYTHING
    ) -> Subgraph:
        """Like `GraphStore`."""
        async with self._read_transaction(external_id) as db:
            distances, is_cut = await self._reach(db, external_id, entity_ids, hops=hops, where=where)
            entities = await self._repository.find_entities(
                db, external_id, ids=list(distances), limit=where.max_entities
            )
            relationships = await self._repository.find_relationships(
                db, external_id, entity_ids=list(distances), where=where, limit=where.max_relationships + 1
            )
        return Subgraph(
            # A stable sort: within a distance, most mentions first.
            entities=tuple(sorted(entities, key=lambda entity: distances[entity.id])),
            relationships=tuple(relationships[: where.max_relationships]),
            distances=distances,
            is_truncated=is_cut or len(relationships) > where.max_relationships,
        )

    async def outline(
        self, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter = ANYTHING
    ) -> GraphOutline:
        """Like `GraphStore`."""
        async with self._read_transaction(external_id) as db:
            distances, is_cut = await self._reach(db, external_id, entity_ids, hops=hops, where=where)
            entities = await self._repository.outline_entities(db, external_id, distances)
            relationships = await self._repository.outline_relationships(
                db, external_id, distances, where=where, limit=where.max_relationships + 1
            )
        return GraphOutline(
            # A stable sort, as in `neighbourhood`.
            entities=sorted(entities, key=lambda entity: distances[entity.id]),
            relationships=relationships[: where.max_relationships],
            distances=distances,
            is_truncated=is_cut or len(relationships) > where.max_relationships,
        )

    async def shortest_path(
        self, external_id: str, from_id: UUID, to_id: UUID, *, max_hops: int, where: GraphFilter = ANYTHING
    ) -> GraphPath | None:
        """Like `GraphStore`.

        Raises:
            InvalidInputError: More than `MAX_PATH_NEIGHBOURS` steps would have to be checked.
        """
        async with self._read_transaction(external_id) as db:
            first, last = [
                await self._repository.find_merge_state(db, external_id, entity_id) for entity_id in (from_id, to_id)
            ]
            if first is None or last is None:
                return None
            search = _PathSearch(first.canonical_id, last.canonical_id)
            looked_at = 0
            while not search.is_over and search.hops < max_hops:
                limit = MAX_PATH_NEIGHBOURS - looked_at
                steps = await self._repository.find_neighbours(
                    db, external_id, search.frontier, where=where, limit=limit + 1
                )
                if len(steps) > limit:
                    raise InvalidInputError(
                        f"more than {MAX_PATH_NEIGHBOURS:,} steps lie between the two entities within max_hops="
                        f"{max_hops}; ask for fewer hops, or limit the types of relationships"
                    )
                looked_at += len(steps)
                search.take(steps)
            path = search.first_path()
            if path is None:
                return None
            strongest = await self._repository.find_strongest(db, external_id, list(pairwise(path)), where=where)
            entities = await self._repository.find_entities(db, external_id, ids=path)
            relationships = await self._repository.find_relationships(db, external_id, ids=strongest)
        return GraphPath(
            entities=tuple(sorted(entities, key=lambda entity: path.index(entity.id))),
            relationships=tuple(sorted(relationships, key=lambda relationship: strongest.index(relationship.id))),
        )

    async def match(
        self, external_id: str, pattern: GraphPattern, *, where: GraphFilter = ANYTHING, limit: int = 100
    ) -> list[GraphTriple]:
        """Like `GraphStore`."""
        async with self._read_transaction(external_id) as db:
            matched = await self._repository.match(db, external_id, pattern, where=where, limit=limit)
            ends = {end for ids in matched for end in (ids.from_id, ids.to_id)}
            entities = await self._repository.find_entities(db, external_id, ids=list(ends), limit=len(ends))
            relationships = await self._repository.find_relationships(
                db, external_id, ids=[ids.relationship_id for ids in matched], limit=len(matched)
            )
        by_id = {entity.id: entity for entity in entities}
        return [
            GraphTriple(source=by_id[relationship.from_id], relationship=relationship, target=by_id[relationship.to_id])
            for relationship in relationships
        ]

    async def match_paths(
        self, external_id: str, hops: Sequence[GraphHop], *, where: GraphFilter = ANYTHING, limit: int = 100
    ) -> list[GraphPath]:
        """Like `GraphStore`."""
        async with self._read_transaction(external_id) as db:

            async def read(edges: EdgePattern, most: int) -> list[MatchedIds]:
                return await self._repository.match(
                    db,
                    external_id,
                    edges.pattern,
                    from_ids=edges.from_ids,
                    to_ids=edges.to_ids,
                    where=edges.where,
                    limit=most,
                )

            found = await match_paths(read, hops, where=where, limit=limit)
            ids, edge_ids = entity_ids(found), relationship_ids(found)
            entities = await self._repository.find_entities(db, external_id, ids=ids, limit=len(ids))
            relationships = await self._repository.find_relationships(
                db, external_id, ids=edge_ids, limit=len(edge_ids)
            )
        return as_paths(found, entities, relationships)

    async def read_beliefs(self, external_id: str) -> list[StatedBelief]:
        """Like `GraphStore`."""
        async with self._read_transaction(external_id) as db:
            return await self._beliefs.read_after(db, external_id, after=0)

    async def _reach(
        self, db: SqlExecutor, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter
    ) -> tuple[dict[UUID, int], bool]:
        """The entities within this many hops, each with its distance; and whether something was left out."""
        levels = await self._repository.walk(db, external_id, entity_ids, hops=hops, where=where)
        distances = {entity_id: level.hop for level in levels for entity_id in level.ids}
        return distances, any(level.is_cut for level in levels)

    @asynccontextmanager
    async def _read_transaction(self, external_id: str) -> AsyncIterator[SqlExecutor]:
        async with self._store.transaction(external_id, read_only=True, settings=self._settings) as db:
            yield db


class _Side:
    """One of the two ends from which a path is searched."""

    def __init__(self, entity_id: UUID) -> None:
        self.distances = {entity_id: 0}
        self.frontier = [entity_id]
        # For each entity, all entities one step nearer to the end.
        self.nearer: dict[UUID, list[UUID]] = {}

    def take(self, steps: Iterable[tuple[UUID, UUID]]) -> None:
        hop = self.distances[self.frontier[0]] + 1
        frontier = []
        for near, far in steps:
            if far not in self.distances:
                self.distances[far] = hop
                frontier.append(far)
            if self.distances[far] == hop:
                self.nearer.setdefault(far, []).append(near)
        self.frontier = frontier


class _PathSearch:
    """Searches the shortest paths between two entities from both ends, one hop at a time, on the smaller side."""

    def __init__(self, from_id: UUID, to_id: UUID) -> None:
        self._from = _Side(from_id)
        self._to = _Side(to_id)
        self._meeting = {from_id} & {to_id}
        self.hops = 0

    @property
    def is_over(self) -> bool:
        """Whether the sides have met, or one of them is exhausted."""
        return bool(self._meeting) or not self._from.frontier or not self._to.frontier

    @property
    def frontier(self) -> list[UUID]:
        """The entities whose neighbours are checked next."""
        return self._smaller().frontier

    def take(self, steps: Iterable[tuple[UUID, UUID]]) -> None:
        """Advance by one hop: each entity of `frontier` with each of its neighbours."""
        self._smaller().take(steps)
        self.hops += 1
        # Every path of this many hops passes through one of these, so all of the shortest ones are known.
        self._meeting = set(self._from.frontier) & set(self._to.frontier)

    def _smaller(self) -> _Side:
        return self._from if len(self._from.frontier) <= len(self._to.frontier) else self._to

    def first_path(self) -> list[UUID] | None:
        """The shortest path whose ids, in order, come first."""
        if not self._meeting:
            return None
        farther: dict[UUID, set[UUID]] = {}
        layer = self._meeting
        while layer:
            nearer = set()
            for far in layer:
                for near in self._from.nearer.get(far, ()):
                    farther.setdefault(near, set()).add(far)
                    nearer.add(near)
            layer = nearer
        path = [next(entity_id for entity_id, hop in self._from.distances.items() if hop == 0)]
        while path[-1] not in self._meeting:
            path.append(min(farther[path[-1]]))
        while nexts := self._to.nearer.get(path[-1]):
            path.append(min(nexts))
        return path
