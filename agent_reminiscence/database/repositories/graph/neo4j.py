"""The graph in Neo4j: as current as the follower has made it (`services/graph/follower.py`).

No server policy separates tenants here. Every query of `cypher/queries/graph.cypher` starts from `external_id`,
and a test runs each of them beside another tenant.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from agent_reminiscence.config.constants import ALIKE_COMPARED_NAMES, MAX_GRAPH_ENTITIES, MAX_GRAPH_RELATIONSHIPS
from agent_reminiscence.database.neo4j_manager import (
    CypherExecutor,
    Neo4jManager,
    Params,
    Row,
    SchemaDropError,
    SchemaExistsError,
    SchemaNameTakenError,
)
from agent_reminiscence.database.queries import load_queries, statement_folder
from agent_reminiscence.database.repositories.graph.neo4j_beliefs import Neo4jBeliefs
from agent_reminiscence.database.repositories.graph.neo4j_matches import read_matching
from agent_reminiscence.database.repositories.graph.neo4j_reads import UnreadableError, fetch_single, read_settled
from agent_reminiscence.database.repositories.graph.neo4j_rows import (
    ENTITY_FIELDS,
    RELATIONSHIP_FIELDS,
    Stored,
    batches,
    entity_row,
    filter_params,
    found_names,
    listed,
    outlines,
    read_row,
    readable,
    relationship_row,
    texts,
)
from agent_reminiscence.database.repositories.graph.path_match import (
    EdgePattern,
    as_paths,
    entity_ids,
    match_paths,
    relationship_ids,
)
from agent_reminiscence.database.repositories.graph.store import (
    ANYTHING,
    GraphDelta,
    GraphFilter,
    GraphHop,
    GraphOutline,
)
from agent_reminiscence.domain.belief import StatedBelief
from agent_reminiscence.domain.graph import Entity, GraphPath, GraphPattern, GraphTriple, Relationship, Subgraph
from agent_reminiscence.text.folding import name_key
from agent_reminiscence.text.likeness import rank_alike

_CYPHER = load_queries("cypher", "graph")
# Deletions per transaction of an erasure.
_ERASED_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class StreamMark:
    """How far a stream has followed, as recorded by Neo4j itself.

    Attributes:
        position: The event up to which the graph is here; None if unknown.
        chain: The ledger's chain at that event, hexadecimal; it identifies the history.
        lease: Who holds the lease for a change of several transactions; None if there is none.
        lease_ends_at: When the lease ends unless it is renewed, by Neo4j's clock.
        lease_left_seconds: How long it had left when this was read; if negative, it was abandoned.
    """

    position: int | None = None
    chain: str | None = None
    lease: str | None = None
    lease_ends_at: str | None = None
    lease_left_seconds: float | None = field(default=None, compare=False)


class Lease(NamedTuple):
    """The exclusive right to a stream for longer than one transaction.

    Attributes:
        id: Unique.
        seconds: How long it is valid after each step. Only its owner knows how long the next one may take.
    """

    id: str
    seconds: float


class Neo4jGraph:
    """`GraphStore` on Neo4j, and what the follower needs to keep it up to date.

    All methods raise what `Neo4jManager.read` and `Neo4jManager.write` raise.

    Attributes:
        beliefs: The part of the graph that holds what agents believe.
    """

    def __init__(self, manager: Neo4jManager) -> None:
        self._manager = manager
        self.beliefs = Neo4jBeliefs(manager)

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

        async def work(db: CypherExecutor) -> list[Entity]:
            chosen: list[list[str]] = []
            if ids is not None:
                chosen.append(await _canonical_ids(db, external_id, ids))
            if names is not None:
                keys = [key for key in map(name_key, names) if key]
                chosen.append(await _ids(db, "find_ids_by_key", external_id, keys=keys))
            if not chosen:
                name = "find_all_ids" if types is None else "find_ids_by_type"
                chosen.append(await _ids(db, name, external_id, types=listed(types), limit=limit))
            wanted = set(chosen[0]).intersection(*chosen)
            return await _read_entities(db, external_id, wanted, types=types, limit=limit)

        return await self._read(work)

    async def find_alike(
        self, external_id: str, name: str, *, types: Sequence[str] | None = None, limit: int = 10
    ) -> list[tuple[Entity, float]]:
        """Like `GraphStore`."""

        async def find_names(db: CypherExecutor) -> list[tuple[UUID, str, int]]:
            params = {"types": listed(types), "limit": ALIKE_COMPARED_NAMES}
            rows = await fetch_single(db, "find_names", external_id, params)
            return found_names(rows["names"])

        candidates = await self._read(find_names)
        ranked = await asyncio.to_thread(rank_alike, name, candidates, limit)
        found = await self.find_entities(external_id, ids=[entity_id for entity_id, _ in ranked])
        by_id = {entity.id: entity for entity in found}
        # What was merged in between is found under another id, and left out.
        return [(by_id[entity_id], score) for entity_id, score in ranked if entity_id in by_id]

    async def find_relationships(
        self, external_id: str, *, ids: Sequence[UUID] | None = None, entity_ids: Sequence[UUID] | None = None
    ) -> list[Relationship]:
        """Like `GraphStore`."""

        async def work(db: CypherExecutor) -> list[Relationship]:
            if entity_ids is None:
                return await _read_relationships(db, external_id, texts(ids or ()), limit=MAX_GRAPH_RELATIONSHIPS)
            among = await _ids_among(db, external_id, texts(entity_ids), ids=ids, limit=MAX_GRAPH_RELATIONSHIPS)
            return await _read_relationships(db, external_id, among, limit=MAX_GRAPH_RELATIONSHIPS)

        return await self._read(work)

    async def neighbourhood(
        self, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter = ANYTHING
    ) -> Subgraph:
        """Like `GraphStore`."""

        async def work(db: CypherExecutor) -> Subgraph:
            distances, is_cut = await _reach(db, external_id, entity_ids, hops=hops, where=where)
            entities = await _read_entities(db, external_id, distances, limit=len(distances))
            among = await _ids_among(db, external_id, list(distances), where=where, limit=where.max_relationships + 1)
            relationships = await _read_relationships(
                db, external_id, among[: where.max_relationships], limit=where.max_relationships
            )
            there = {entity.id for entity in entities}
            return Subgraph(
                # A stable sort: within a distance, most mentions first.
                entities=tuple(sorted(entities, key=lambda entity: distances[str(entity.id)])),
                # The transaction also sees what is committed meanwhile.
                relationships=tuple(each for each in relationships if {each.from_id, each.to_id} <= there),
                distances={entity.id: distances[str(entity.id)] for entity in entities},
                is_truncated=is_cut or len(among) > where.max_relationships,
            )

        return await self._read(work)

    async def outline(
        self, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter = ANYTHING
    ) -> GraphOutline:
        """Like `GraphStore`."""

        async def work(db: CypherExecutor) -> GraphOutline:
            distances, is_cut = await _reach(db, external_id, entity_ids, hops=hops, where=where)
            params = _among_params(list(distances), where=where, limit=where.max_relationships + 1)
            row = await fetch_single(db, "outline", external_id, params)
            entities, relationships = outlines(row["entities"], row["relationships"][: where.max_relationships])
            there = {entity.id for entity in entities}
            return GraphOutline(
                # A stable sort, as in `neighbourhood`.
                entities=sorted(entities, key=lambda entity: distances[str(entity.id)]),
                relationships=[each for each in relationships if {each.from_id, each.to_id} <= there],
                distances={entity.id: distances[str(entity.id)] for entity in entities},
                is_truncated=is_cut or len(row["relationships"]) > where.max_relationships,
            )

        return await self._read(work)

    async def shortest_path(
        self, external_id: str, from_id: UUID, to_id: UUID, *, max_hops: int, where: GraphFilter = ANYTHING
    ) -> GraphPath | None:
        """Like `GraphStore`. If there are more than 10,000 shortest paths, only those found first are compared."""

        async def work(db: CypherExecutor) -> GraphPath | None:
            ends = [await _canonical_ids(db, external_id, [end]) for end in (from_id, to_id)]
            if not all(ends):
                return None
            [first], [last] = ends
            path = [first]
            if first != last:
                # The length of a path cannot be a parameter.
                query = _CYPHER["find_shortest_path"].fill(max_hops=int(max_hops))
                params = filter_params(where) | {"external_id": external_id, "from_id": first, "to_id": last}
                found = await db.fetch_one(query, params)
                if found is None:
                    return None
                path = found["ids"]
            strongest = await _ids(db, "find_strongest", external_id, **filter_params(where), ids=path)
            entities = await _read_entities(db, external_id, path, limit=len(path))
            relationships = await _read_relationships(db, external_id, strongest, limit=len(path))
            if len(entities) < len(path) or len(relationships) < len(path) - 1:
                # Part of it was removed meanwhile. There may be another way.
                raise UnreadableError("a path in Neo4j changed each time while it was read")
            return GraphPath(
                entities=tuple(sorted(entities, key=lambda entity: path.index(str(entity.id)))),
                relationships=tuple(
                    sorted(relationships, key=lambda relationship: strongest.index(str(relationship.id)))
                ),
            )

        return await self._read(work) if max_hops > 0 or from_id == to_id else None

    async def match(
        self, external_id: str, pattern: GraphPattern, *, where: GraphFilter = ANYTHING, limit: int = 100
    ) -> list[GraphTriple]:
        """Like `GraphStore`."""

        async def work(db: CypherExecutor) -> list[GraphTriple]:
            matched = await read_matching(db, external_id, EdgePattern(pattern, None, None, where), limit)
            ends = {str(end) for each in matched for end in (each.from_id, each.to_id)}
            entities = await _read_entities(db, external_id, ends, limit=len(ends))
            relationships = await _read_relationships(
                db, external_id, [str(each.relationship_id) for each in matched], limit=limit
            )
            by_id = {entity.id: entity for entity in entities}
            return [
                GraphTriple(source=by_id[each.from_id], relationship=each, target=by_id[each.to_id])
                for each in relationships
                # The transaction also sees what is committed meanwhile.
                if each.from_id in by_id and each.to_id in by_id
            ]

        return await self._read(work)

    async def match_paths(
        self, external_id: str, hops: Sequence[GraphHop], *, where: GraphFilter = ANYTHING, limit: int = 100
    ) -> list[GraphPath]:
        """Like `GraphStore`."""

        async def work(db: CypherExecutor) -> list[GraphPath]:
            found = await match_paths(partial(read_matching, db, external_id), hops, where=where, limit=limit)
            ids, edge_ids = texts(entity_ids(found)), texts(relationship_ids(found))
            entities = await _read_entities(db, external_id, ids, limit=len(ids))
            relationships = await _read_relationships(db, external_id, edge_ids, limit=len(edge_ids))
            # The transaction also sees what is committed meanwhile.
            return as_paths(found, entities, relationships)

        return await self._read(work)

    async def read_beliefs(self, external_id: str) -> list[StatedBelief]:
        """Like `GraphStore`."""
        return await self.beliefs.read(external_id)

    async def ensure_schema(self) -> None:
        """Create missing constraints and indexes, wait until they are ready, and give the store its id."""
        schema = (statement_folder("cypher") / "schema.cypher").read_text(encoding="utf-8")
        for statement in schema.split(";\n"):
            if statement.strip():
                await self._create(statement)
        await self._manager.write(_running(_CYPHER["await_indexes"], {"seconds": 300}))
        await self._manager.write(_running(_CYPHER["identify_store"]))

    async def _create(self, statement: str) -> None:
        """Create one constraint or index. What a server that died meanwhile left of a constraint is removed first."""
        try:
            # Several processes may open a new store at once.
            with suppress(SchemaExistsError):
                await self._manager.write(_running(statement))
        except SchemaNameTakenError:
            wanted = _index_of(statement)

            async def is_leftover(db: CypherExecutor) -> bool:
                return await db.fetch_one(_CYPHER["find_unowned_index"], wanted) is not None

            # Anybody else's index that happens to have this name is left alone.
            if not await self._manager.read(is_leftover, latest=True):
                raise
            # Another process may be a step ahead, and then either is refused for what it has created.
            with suppress(SchemaDropError):
                await self._manager.write(_running(_CYPHER["drop_index"], {"name": wanted["name"]}))
            with suppress(SchemaExistsError):
                await self._manager.write(_running(statement))

    async def find_store_id(self) -> str | None:
        """The id that this store gave itself, which changes when it is emptied or recreated; None if it has none."""

        async def work(db: CypherExecutor) -> str | None:
            row = await db.fetch_one(_CYPHER["find_store"])
            return None if row is None else str(row["id"])

        return await self._manager.read(work, latest=True)

    async def mark(self, external_id: str) -> StreamMark:
        """Return how far this tenant's graph has followed its stream, and who holds the lease."""

        async def work(db: CypherExecutor) -> StreamMark:
            return await _mark(db, external_id)

        return await self._manager.read(work, latest=True)

    async def position(self, external_id: str) -> int | None:
        """Return the stream position up to which this tenant's graph is here; None if unknown."""
        return (await self.mark(external_id)).position

    async def take_lease(self, external_id: str, lease: Lease, *, seen: StreamMark) -> bool:
        """Begin a change of several transactions; False if anything was changed since `seen` was read."""

        async def work(db: CypherExecutor) -> None:
            await _run(db, "lock_stream", external_id)
            if await _mark(db, external_id) != seen:
                raise _OtherwiseError
            await _renew(db, external_id, lease)

        return await self._changes(work)

    async def apply(
        self,
        external_id: str,
        delta: GraphDelta,
        *,
        expected: int | None,
        position: int | None,
        chain: str | None = None,
        lease: Lease | None = None,
    ) -> bool:
        """Apply changes, all of them or none; applying them twice does no harm.

        Args:
            expected: The position that was read before.
            position: The graph's position afterwards, which ends a lease; None leaves it unchanged.
            chain: The ledger's chain at `position`, hexadecimal.
            lease: The lease to renew; None if nobody may hold one.

        Returns:
            False, without any change, if the position or lease has changed, or if a relationship has an end that is
            neither here nor among the changes: then this store is not in the state the caller expects.
        """
        entities = [entity_row(external_id, entity) for entity in delta.entities]
        relationships = [relationship_row(external_id, relationship) for relationship in delta.relationships]

        async def work(db: CypherExecutor) -> None:
            await _check_lease(db, external_id, lease, expected=expected)
            await self.beliefs.apply(db, external_id, delta.beliefs, removed=delta.removed_beliefs)
            await _apply_entities(db, external_id, entities)
            await _apply_relationships(db, external_id, relationships, removed=texts(delta.removed_relationships))
            for ids in batches(texts(delta.removed_entities)):
                for query in ("delete_names_of", "delete_merges_of", "delete_entities"):
                    await _run(db, query, external_id, ids=ids)
            if position is not None:
                await _run(db, "set_position", external_id, position=position, chain=chain)
            elif lease is not None:
                await _renew(db, external_id, lease)

        return await self._changes(work)

    async def read_entities(self, external_id: str, *, after: str | None, limit: int) -> list[Stored[Entity]]:
        """Return a page of all entities after `after`, in order of their ids, with what they are found by."""

        async def work(db: CypherExecutor) -> list[Stored[Entity]]:
            ids = await _ids(db, "page_entity_ids", external_id, after=after or "", limit=limit)
            row = await fetch_single(db, "read_entities", external_id, {"ids": ids, "types": None, "limit": limit})
            states = {values[0]: readable(Entity, ENTITY_FIELDS, values) for values in row["states"]}
            row = await fetch_single(db, "read_names_of", external_id, {"ids": ids})
            held = {each: (frozenset(keys), frozenset(merged_ids)) for each, keys, merged_ids in row["held"]}
            nothing = frozenset[str](), frozenset[str]()
            return [Stored(each, states.get(each), *held.get(each, nothing)) for each in ids]

        return sorted(await self._manager.read(work, latest=True), key=lambda stored: stored.id)

    async def read_relationships(
        self, external_id: str, *, after: str | None, limit: int
    ) -> list[Stored[Relationship]]:
        """Return a page of all relationships after `after`, in order of ids; those with foreign ends are unreadable."""

        async def work(db: CypherExecutor) -> list[Stored[Relationship]]:
            ids = await _ids(db, "page_relationship_ids", external_id, after=after or "", limit=limit)
            row = await fetch_single(db, "read_relationships", external_id, {"ids": ids, "limit": limit})
            states = {values[0]: readable(Relationship, RELATIONSHIP_FIELDS, values) for values in row["states"]}
            return [Stored(each, states.get(each)) for each in ids]

        return sorted(await self._manager.read(work, latest=True), key=lambda stored: stored.id)

    async def read_strays(self, external_id: str, *, after: str | None, limit: int) -> list[Stored[Entity]]:
        """Return a page of ids of entities that do not exist here, although names or merged ids lead to them."""

        async def work(db: CypherExecutor) -> list[str]:
            return await _ids(db, "page_stray_ids", external_id, after=after or "", limit=limit)

        return [Stored(each, None) for each in await self._manager.read(work, latest=True)]

    async def erase(self, external_id: str, *, lease: Lease | None = None) -> bool:
        """Delete everything of a tenant, in transactions of bounded size; with a lease, everything but the lease.

        Returns:
            False if the lease has changed. Some data may be gone, so whoever follows must compare everything.
        """

        async def forget_position(db: CypherExecutor) -> None:
            await _run(db, "lock_stream", external_id)
            await _run(db, "set_position", external_id, position=None, chain=None)

        if lease is None:
            await self._manager.write(forget_position)
        for query in ("erase_relationships", "erase_entities", "erase_names", "erase_merges", "erase_beliefs"):
            deleted = _ERASED_ROWS

            async def erase_some(db: CypherExecutor, query: str = query) -> None:
                nonlocal deleted
                await _check_lease(db, external_id, lease)
                deleted = (await fetch_single(db, query, external_id, {"limit": _ERASED_ROWS}))["deleted"]
                if lease is not None:
                    await _renew(db, external_id, lease)

            while deleted == _ERASED_ROWS:
                if not await self._changes(erase_some):
                    return False

        if lease is None:
            await self._manager.write(_running(_CYPHER["erase_stream"], {"external_id": external_id}))
        return True

    async def _read[T](self, work: Callable[[CypherExecutor], Awaitable[T]]) -> T:
        """Run a read that others' changes may go on beside."""
        return await read_settled(lambda: self._manager.read(work))

    async def _changes(self, work: Callable[[CypherExecutor], Awaitable[None]]) -> bool:
        """Run `work`; returns False if the store was not in the expected state."""
        try:
            await self._manager.write(work)
        except _OtherwiseError:
            return False
        return True


class _OtherwiseError(Exception):
    """The store is not in the state the caller expects. Raising it rolls the transaction back."""


async def _ids(db: CypherExecutor, query: str, external_id: str, **params: Any) -> list[str]:
    row = await fetch_single(db, query, external_id, params)
    return list(row["ids"])


async def _run(db: CypherExecutor, query: str, external_id: str, **params: Any) -> None:
    await db.fetch_all(_CYPHER[query], {"external_id": external_id, **params})


def _running(statement: str, params: Mapping[str, Any] | None = None) -> Callable[[CypherExecutor], Awaitable[None]]:
    """One statement as the work of a transaction; schema statements need a transaction of their own."""

    async def work(db: CypherExecutor) -> None:
        await db.fetch_all(statement, params)

    return work


def _index_of(statement: str) -> Params:
    """Name, label or type, and properties of the index that a CREATE CONSTRAINT makes."""
    found = re.search(r"CREATE CONSTRAINT (\w+).*?:(\w+).*? REQUIRE (.*) IS UNIQUE", statement, re.DOTALL)
    assert found is not None, "only a constraint has an index of its own"
    return {"name": found[1], "label": found[2], "properties": re.findall(r"\.(\w+)", found[3])}


async def _mark(db: CypherExecutor, external_id: str) -> StreamMark:
    row = await db.fetch_one(_CYPHER["find_mark"], {"external_id": external_id})
    return StreamMark() if row is None else StreamMark(**row)


async def _renew(db: CypherExecutor, external_id: str, lease: Lease) -> None:
    await _run(db, "renew_lease", external_id, lease=lease.id, milliseconds=round(lease.seconds * 1000))


_ANY_POSITION = object()


async def _check_lease(
    db: CypherExecutor, external_id: str, lease: Lease | None, *, expected: object = _ANY_POSITION
) -> None:
    """Lock the stream, and leave the transaction if it is not as expected."""
    await _run(db, "lock_stream", external_id)
    mark = await _mark(db, external_id)
    if mark.lease != (lease and lease.id) or (expected is not _ANY_POSITION and mark.position != expected):
        raise _OtherwiseError


async def _canonical_ids(db: CypherExecutor, external_id: str, ids: Sequence[UUID]) -> list[str]:
    return await _ids(db, "find_canonical_ids", external_id, ids=texts(ids))


async def _reach(
    db: CypherExecutor, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter
) -> tuple[dict[str, int], bool]:
    """The entities within this many hops, each with its distance; and whether something was left out."""
    start = sorted(await _canonical_ids(db, external_id, entity_ids))
    frontier = start[: where.max_entities]
    is_cut = len(start) > len(frontier)
    distances = dict.fromkeys(frontier, 0)
    for hop in range(1, hops + 1):
        if not frontier:
            break
        room = where.max_entities - len(distances)
        reached = await fetch_single(
            db,
            "hop",
            external_id,
            filter_params(where)
            # One more than allowed, to see whether there are more.
            | {"ids": frontier, "seen": list(distances), "fan_out": where.fan_out, "limit": room + 1},
        )
        frontier = reached["ids"][:room]
        is_cut = is_cut or reached["is_cut"] or len(reached["ids"]) > room
        distances |= dict.fromkeys(frontier, hop)
    return distances, is_cut


async def _ids_among(
    db: CypherExecutor,
    external_id: str,
    entity_ids: Sequence[str],
    *,
    ids: Sequence[UUID] | None = None,
    where: GraphFilter | None = None,
    limit: int,
) -> list[str]:
    """The strongest relationships between any two of some canonical entities; without `where`, including ended ones."""
    params = _among_params(entity_ids, ids=ids, where=where, limit=limit)
    return await _ids(db, "find_ids_among", external_id, **params)


def _among_params(
    entity_ids: Sequence[str], *, ids: Sequence[UUID] | None = None, where: GraphFilter | None, limit: int
) -> Row:
    return filter_params(where or ANYTHING) | {
        "entity_ids": list(entity_ids),
        "ids": None if ids is None else texts(ids),
        "with_any": where is None,
        "limit": limit,
    }


async def _read_entities(
    db: CypherExecutor,
    external_id: str,
    ids: Iterable[str],
    *,
    types: Sequence[str] | None = None,
    limit: int,
) -> list[Entity]:
    params = {"ids": list(ids), "types": listed(types), "limit": limit}
    row = await fetch_single(db, "read_entities", external_id, params)
    return [read_row(Entity, ENTITY_FIELDS, values) for values in row["states"]]


async def _read_relationships(
    db: CypherExecutor, external_id: str, ids: Iterable[str], *, limit: int
) -> list[Relationship]:
    row = await fetch_single(db, "read_relationships", external_id, {"ids": list(ids), "limit": limit})
    return [read_row(Relationship, RELATIONSHIP_FIELDS, values) for values in row["states"]]


async def _apply_entities(db: CypherExecutor, external_id: str, rows: Sequence[Row]) -> None:
    for batch in batches(rows):
        names = [{"id": row["properties"]["id"], "keys": row["keys"]} for row in batch]
        merges = [{"id": row["properties"]["id"], "merged_ids": row["properties"]["merged_ids"]} for row in batch]
        await _run(db, "delete_stale_names", external_id, rows=names)
        await _run(db, "delete_stale_merges", external_id, rows=merges)
        await _run(db, "merge_entities", external_id, rows=batch)
        await _run(db, "merge_names", external_id, rows=names)
        await _run(db, "merge_merges", external_id, rows=merges)


async def _apply_relationships(
    db: CypherExecutor, external_id: str, rows: Sequence[Row], *, removed: Sequence[str]
) -> None:
    for ids in batches(removed):
        await _run(db, "delete_relationships", external_id, ids=ids)
    for batch in batches(rows):
        ends = [{"id": row["properties"]["id"], "from_id": row["from_id"], "to_id": row["to_id"]} for row in batch]
        await _run(db, "delete_moved_relationships", external_id, rows=ends)
        merged = await fetch_single(db, "merge_relationships", external_id, {"rows": batch})
        if merged["merged"] != len(batch):
            raise _OtherwiseError
