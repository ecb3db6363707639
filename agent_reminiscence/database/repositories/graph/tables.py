"""The graph of entities and relationships: one protocol for reading it, from Postgres or from Neo4j.

Both hold the same graph, as projections of the ledger: handlers write the tables here in the transaction of the event,
and Neo4j is sent the states of what has changed (`services/graph/follower.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from agent_reminiscence.config.constants import (
    ALIKE_COMPARED_NAMES,
    GRAPH_EVIDENCE_CHUNKS,
    MAX_GRAPH_ENTITIES,
    MAX_GRAPH_RELATIONSHIPS,
)
from agent_reminiscence.database.connection import Deferred, Row, SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.graph.path_match import MatchedIds
from agent_reminiscence.database.repositories.graph.store import (
    ANYTHING,
    EntityOutline,
    GraphDelta,
    GraphFilter,
    RelationshipOutline,
)
from agent_reminiscence.domain.graph import (
    Entity,
    GraphPattern,
    Relationship,
    strength,
)
from agent_reminiscence.domain.trust import SOURCES, Source
from agent_reminiscence.text.folding import name_key

_SQL = load_queries("sql", "graph")
# The type of an entity about which nothing is known.
_ANY_TYPE = "other"


@dataclass(frozen=True, slots=True)
class KnownEntityName:
    """A name of an entity. `entity_id` was given the name; `canonical_id` is the entity after all merges.

    `name` and `mentions` belong to the canonical one; `type` is what is known of all that were merged into it, and
    `is_guess` whether it comes from rules only, so that one that is stated replaces it.
    """

    key: str
    entity_id: UUID
    canonical_id: UUID
    name: str
    type: str
    mentions: int
    is_guess: bool = False


class KnownRelationship(NamedTuple):
    """A relationship with its ends as stated."""

    relationship_id: UUID
    stated_from_id: UUID
    stated_to_id: UUID
    observations: int


@dataclass(frozen=True, slots=True)
class StatedRelationship:
    """A current relationship between two entities, as shown to someone.

    Attributes:
        last_observed: When it was last said, in the world's time.
        sources: The labels of the chunks that say it, plus the most trusted one if not all of them were checked.
        seen: The labels of the chunks that were checked.
        memory_ids: The memories that say it, and those that introduced the two names.
    """

    relationship_id: UUID
    type: str
    from_id: UUID
    from_name: str
    to_id: UUID
    to_name: str
    start_date: datetime
    last_observed: datetime
    sources: tuple[Source, ...]
    seen: tuple[Source, ...]
    memory_ids: frozenset[UUID]


class KnownPeriod(NamedTuple):
    """When a relationship between two entities, as stated, holds, and who says so.

    Attributes:
        end_is_stated: Whether its end was stated; otherwise it ended with the last chunk that said it.
        last_observed: When it was last said, in the world's time.
        sources: As in `StatedRelationship`.
    """

    relationship_id: UUID
    from_id: UUID
    to_id: UUID
    type: str
    start_date: datetime
    end_date: datetime | None
    end_is_stated: bool
    last_observed: datetime
    sources: tuple[Source, ...]


class MergeState(NamedTuple):
    """Whether an entity was merged into another, and the canonical one; that is the entity itself if it was not."""

    is_merged: bool
    canonical_id: UUID


class EntityOrigin(NamedTuple):
    """What a canonical entity is called itself, and the memory that named it so first."""

    entity_id: UUID
    name: str
    memory_id: UUID


class ReachedEntities(NamedTuple):
    """What a walk through the graph reaches with one hop.

    Attributes:
        is_cut: Whether something was left out on the way.
    """

    hop: int
    ids: Sequence[UUID]
    is_cut: bool


class EntityGraphRepository:
    """Reads the tables of the graph. Results are canonical: merges are resolved, and what they closed is left out."""

    async def find_entities(
        self,
        db: SqlExecutor,
        external_id: str,
        *,
        ids: Sequence[UUID] | None = None,
        names: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        limit: int = MAX_GRAPH_ENTITIES,
    ) -> list[Entity]:
        """Like `GraphStore.find_entities`."""
        params: dict[str, Any] = {
            "external_id": external_id,
            "types": _listed(types),
            "limit": limit,
            "evidence_chunks": GRAPH_EVIDENCE_CHUNKS,
        }
        given = []
        if ids is not None:
            given.append("id")
            params["ids"] = list(ids)
        if names is not None:
            given.append("key")
            params["keys"] = list(dict.fromkeys(key for key in map(name_key, names) if key))
        statement = _SQL[f"find_entities_by_{'_and_'.join(given)}" if given else "list_entities"]
        return [_entity(row) for row in await db.fetch_all(statement, params)]

    async def find_names(
        self, db: SqlExecutor, external_id: str, *, types: Sequence[str] | None, limit: int = ALIKE_COMPARED_NAMES
    ) -> list[tuple[UUID, str, int]]:
        """Return canonical entities with the key of each name and their mentions; those with most mentions first."""
        params = {"external_id": external_id, "types": _listed(types), "limit": limit}
        rows = await db.fetch_all(_SQL["find_names"], params)
        return [(UUID(row["id"]), row["key"], row["mentions"]) for row in rows]

    async def find_relationships(
        self,
        db: SqlExecutor,
        external_id: str,
        *,
        ids: Sequence[UUID] | None = None,
        entity_ids: Sequence[UUID] | None = None,
        where: GraphFilter | None = None,
        limit: int = MAX_GRAPH_RELATIONSHIPS,
        evidence_chunks: int = GRAPH_EVIDENCE_CHUNKS,
    ) -> list[Relationship]:
        """Like `GraphStore.find_relationships`.

        Args:
            where: Filters those between entities; None includes ended ones.
            evidence_chunks: How many of the chunks that say a relationship are named with it, newest first.
        """
        wanted = None if ids is None else list(ids)
        params: dict[str, Any] = {
            "external_id": external_id,
            "ids": wanted,
            "limit": limit,
            "evidence_chunks": evidence_chunks,
        }
        if entity_ids is not None:
            params |= _among_params(entity_ids, where)
            rows = await db.fetch_all(_SQL["find_relationships_among"], params)
        elif wanted is not None:
            rows = await db.fetch_all(_SQL["find_relationships"], params)
        else:
            rows = []
        return [_relationship(row) for row in rows]

    async def walk(
        self, db: SqlExecutor, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter
    ) -> list[ReachedEntities]:
        """Walk from some entities, hop by hop; the first step returns those of the entities that exist."""
        params = _filter_params(where) | {
            "external_id": external_id,
            "entity_ids": list(entity_ids),
            "hops": hops,
            "fan_out": where.fan_out,
            "max_entities": where.max_entities,
        }
        return [
            ReachedEntities(row["hop"], [UUID(entity_id) for entity_id in row["reached"]], row["is_cut"])
            for row in await db.fetch_all(_SQL["walk"], params)
        ]

    async def outline_entities(
        self, db: SqlExecutor, external_id: str, entity_ids: Iterable[UUID]
    ) -> list[EntityOutline]:
        """Return how often some canonical entities are mentioned; most mentions first, then by id."""
        params = {"external_id": external_id, "ids": list(entity_ids)}
        rows = await db.fetch_all(_SQL["count_mentions"], params)
        return [EntityOutline(UUID(row["id"]), row["mentions"]) for row in rows]

    async def outline_relationships(
        self, db: SqlExecutor, external_id: str, entity_ids: Iterable[UUID], *, where: GraphFilter, limit: int
    ) -> list[RelationshipOutline]:
        """Return the relationships that `find_relationships` finds between some canonical entities."""
        params = _among_params(entity_ids, where) | {"external_id": external_id, "ids": None, "limit": limit}
        rows = await db.fetch_all(_SQL["strongest_among"], params)
        return [
            RelationshipOutline(
                UUID(row["id"]), UUID(row["from_id"]), UUID(row["to_id"]), strength(row["observations"])
            )
            for row in rows
        ]

    async def find_neighbours(
        self, db: SqlExecutor, external_id: str, entity_ids: Sequence[UUID], *, where: GraphFilter, limit: int
    ) -> list[tuple[UUID, UUID]]:
        """Return each of some canonical entities with each of its neighbours, at most `limit` pairs."""
        params = _filter_params(where) | {
            "external_id": external_id,
            "entity_ids": list(entity_ids),
            "limit": limit,
        }
        rows = await db.fetch_all(_SQL["find_neighbours"], params)
        return [(UUID(row["id"]), UUID(row["other_id"])) for row in rows]

    async def find_strongest(
        self, db: SqlExecutor, external_id: str, pairs: Sequence[tuple[UUID, UUID]], *, where: GraphFilter
    ) -> list[UUID]:
        """Return the strongest relationship between each pair of canonical entities, in order of the pairs."""
        params = _filter_params(where) | {
            "external_id": external_id,
            "first_ids": [first for first, _ in pairs],
            "second_ids": [second for _, second in pairs],
        }
        return [UUID(row["id"]) for row in await db.fetch_all(_SQL["find_strongest"], params)]

    async def match(
        self,
        db: SqlExecutor,
        external_id: str,
        pattern: GraphPattern,
        *,
        from_ids: Sequence[UUID] | None = None,
        to_ids: Sequence[UUID] | None = None,
        where: GraphFilter,
        limit: int,
    ) -> list[MatchedIds]:
        """Return relationships that match a pattern; strongest first, then by id.

        Args:
            from_ids: Only those from these canonical entities; None is any.
            to_ids: Only those to these.
        """
        known: dict[UUID, str] = {}
        if pattern.from_type is not None or pattern.to_type is not None:
            rows = await db.fetch_all(_SQL["find_known_types"], {"external_id": external_id})
            known = {UUID(row["id"]): row["type"] for row in rows}
        params = _filter_params(where) | {
            "external_id": external_id,
            "from_ids": None if from_ids is None else list(from_ids),
            "to_ids": None if to_ids is None else list(to_ids),
            "from_type": pattern.from_type,
            "more_from_ids": [entity_id for entity_id, type_ in known.items() if type_ == pattern.from_type],
            "less_from_ids": list(known) if pattern.from_type == _ANY_TYPE else [],
            "relationship_type": pattern.relationship_type,
            "to_type": pattern.to_type,
            "more_to_ids": [entity_id for entity_id, type_ in known.items() if type_ == pattern.to_type],
            "less_to_ids": list(known) if pattern.to_type == _ANY_TYPE else [],
            "from_properties": _contained(pattern.from_properties),
            "relationship_properties": _contained(pattern.relationship_properties),
            "to_properties": _contained(pattern.to_properties),
            "limit": limit,
        }
        return [
            MatchedIds(UUID(row["relationship_id"]), UUID(row["from_id"]), UUID(row["to_id"]), row["observations"])
            for row in await db.fetch_all(_SQL["match"], params)
        ]

    async def find_mentioned(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> list[UUID]:
        """Return the canonical entities that the live chunks of a memory name."""
        params = {"external_id": external_id, "memory_id": memory_id}
        return [UUID(row["id"]) for row in await db.fetch_all(_SQL["find_mentioned"], params)]

    async def find_merge_state(self, db: SqlExecutor, external_id: str, entity_id: UUID) -> MergeState | None:
        """Return whether an entity was merged into another; None if it does not exist."""
        row = await db.fetch_one(_SQL["find_place"], {"external_id": external_id, "entity_id": entity_id})
        if row is None:
            return None
        return MergeState(row["merged_into"] is not None, UUID(row["canonical_id"]))

    async def find_origin(self, db: SqlExecutor, external_id: str, entity_id: UUID) -> EntityOrigin | None:
        """Return the canonical entity of an id, with where its name comes from; None if it does not exist."""
        row = await db.fetch_one(_SQL["find_origin"], {"external_id": external_id, "entity_id": entity_id})
        if row is None:
            return None
        return EntityOrigin(UUID(row["id"]), row["name"], UUID(row["shortterm_memory_id"]))

    async def known_names(self, db: SqlExecutor, external_id: str, keys: Sequence[str]) -> list[KnownEntityName]:
        """Return names by their keys; in key order, those of the most mentioned entities first, then by id."""
        return await (await self.ask_for_names(db, external_id, keys)).result()

    async def ask_for_names(
        self, db: SqlExecutor, external_id: str, keys: Sequence[str]
    ) -> Deferred[list[KnownEntityName]]:
        """Like `known_names`, but deferred."""
        params = {"external_id": external_id, "keys": list(dict.fromkeys(keys))}
        return await db.ask(_SQL["known_names"], params, lambda rows: [_known_name(row) for row in rows])

    async def list_names(
        self, db: SqlExecutor, external_id: str, *, beginnings: Iterable[str], limit: int
    ) -> list[KnownEntityName]:
        """Return names to compare with: at most this many, those of the newest entities, in order of their keys.

        Args:
            beginnings: Only names whose key begins with one of these characters, ignoring `the`.
        """
        params = {"external_id": external_id, "beginnings": sorted(set(beginnings)), "limit": limit}
        return [_known_name(row) for row in await db.fetch_all(_SQL["list_names"], params)]

    async def ask_for_last_change(self, db: SqlExecutor, external_id: str) -> Deferred[int]:
        """Return the position of the last event that changed an entity; 0 if none did."""
        return await db.ask(
            _SQL["last_entity_change"],
            {"external_id": external_id},
            lambda rows: int(rows[0]["position"]) if rows else 0,
        )

    async def find_between(
        self, db: SqlExecutor, external_id: str, pairs: Sequence[tuple[UUID, UUID]], type_: str
    ) -> list[KnownRelationship]:
        """Return relationships of one type between pairs of entities as stated, in either direction, by id.

        Includes ended ones.
        """
        params = {
            "external_id": external_id,
            "first_ids": [first for first, _ in pairs],
            "second_ids": [second for _, second in pairs],
            "type": type_,
        }
        return [
            KnownRelationship(
                relationship_id=UUID(row["relationship_id"]),
                stated_from_id=UUID(row["stated_from_id"]),
                stated_to_id=UUID(row["stated_to_id"]),
                observations=row["observations"],
            )
            for row in await db.fetch_all(_SQL["find_between"], params)
        ]

    async def find_stated(
        self, db: SqlExecutor, external_id: str, stated: Sequence[tuple[UUID, UUID, str]], *, evidence_chunks: int
    ) -> list[KnownPeriod]:
        """Return what is known from one entity to another, by type; those without an end first, then by id.

        Args:
            stated: Each with both ends as stated, and a type.
            evidence_chunks: How many of the chunks that say it are checked, newest first.
        """
        wanted = list(dict.fromkeys(stated))
        params = {
            "external_id": external_id,
            "from_ids": [from_id for from_id, _, _ in wanted],
            "to_ids": [to_id for _, to_id, _ in wanted],
            "types": [type_ for _, _, type_ in wanted],
            "evidence_chunks": evidence_chunks,
        }
        return [
            KnownPeriod(
                relationship_id=UUID(row["relationship_id"]),
                from_id=UUID(row["stated_from_id"]),
                to_id=UUID(row["stated_to_id"]),
                type=row["type"],
                start_date=row["start_date"],
                end_date=row["end_date"],
                end_is_stated=row["end_is_stated"],
                last_observed=row["last_observed"],
                sources=_labels(row, evidence_chunks),
            )
            for row in await db.fetch_all(_SQL["find_stated"], params)
        ]

    async def find_known_relationships(
        self,
        db: SqlExecutor,
        external_id: str,
        entity_ids: Sequence[UUID],
        *,
        except_type: str,
        now: datetime,
        evidence_chunks: int,
        limit: int,
    ) -> list[StatedRelationship]:
        """Return what is known of some canonical entities and holds at `now`, strongest first.

        Args:
            except_type: A type to leave out.
            evidence_chunks: How many of the chunks that say it are checked, newest first.
        """
        params = {
            "external_id": external_id,
            "entity_ids": list(entity_ids),
            "except_type": except_type,
            "now": now,
            "evidence_chunks": evidence_chunks,
            "limit": limit,
        }
        return [
            StatedRelationship(
                relationship_id=UUID(row["relationship_id"]),
                type=row["type"],
                from_id=UUID(row["from_id"]),
                from_name=row["from_name"],
                to_id=UUID(row["to_id"]),
                to_name=row["to_name"],
                start_date=row["start_date"],
                last_observed=row["last_observed"],
                sources=_labels(row, evidence_chunks),
                seen=tuple(row["sources"]),
                memory_ids=frozenset(UUID(str(memory_id)) for memory_id in row["memory_ids"]),
            )
            for row in await db.fetch_all(_SQL["find_known_relationships"], params)
        ]

    async def read_changes(self, db: SqlExecutor, external_id: str, *, after: int) -> GraphDelta:
        """Return the current state of everything that changed after a position, in one snapshot."""
        params = {"external_id": external_id, "after": after}
        with_evidence = params | {"evidence_chunks": GRAPH_EVIDENCE_CHUNKS}
        entities = await db.fetch_all(_SQL["read_changed_entities"], with_evidence)
        relationships = await db.fetch_all(_SQL["read_changed_relationships"], with_evidence)
        merged_away = await db.fetch_all(_SQL["find_merged_away"], params)
        closed = await db.fetch_all(_SQL["find_closed_in"], params)
        return GraphDelta(
            entities=[_entity(row) for row in entities],
            relationships=[_relationship(row) for row in relationships],
            removed_entities=[UUID(row["id"]) for row in merged_away],
            removed_relationships=[UUID(row["id"]) for row in closed],
        )

    async def read_entities(self, db: SqlExecutor, external_id: str, *, after: UUID | None, limit: int) -> list[Entity]:
        """Return a page of all entities after `after`, in order of their ids."""
        return [_entity(row) for row in await self._page(db, "read_entities", external_id, after, limit)]

    async def read_relationships(
        self, db: SqlExecutor, external_id: str, *, after: UUID | None, limit: int
    ) -> list[Relationship]:
        """Return a page of all relationships after `after`, in order of their ids."""
        return [_relationship(row) for row in await self._page(db, "read_relationships", external_id, after, limit)]

    async def _page(self, db: SqlExecutor, query: str, external_id: str, after: UUID | None, limit: int) -> list[Row]:
        params = {
            "external_id": external_id,
            "after": after,
            "limit": limit,
            "evidence_chunks": GRAPH_EVIDENCE_CHUNKS,
        }
        return await db.fetch_all(_SQL[query], params)


def _filter_params(where: GraphFilter) -> dict[str, Any]:
    return {
        "relationship_types": _listed(where.relationship_types),
        "min_confidence": where.min_confidence,
        "at": where.at,
        "now": where.now,
    }


def _among_params(entity_ids: Iterable[UUID], where: GraphFilter | None) -> dict[str, Any]:
    return _filter_params(where or ANYTHING) | {
        "entity_ids": list(dict.fromkeys(entity_ids)),
        "with_any": where is None,
    }


def _listed(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)


def _contained(properties: Mapping[str, Any]) -> str | None:
    # Without properties no condition at all: the planner cannot estimate how much an empty one matches.
    return json.dumps(properties) if properties else None


def _entity(row: Row) -> Entity:
    return Entity.model_validate(row | {"metadata": json.loads(row["metadata"])})


def _relationship(row: Row) -> Relationship:
    return Relationship.model_validate(
        row | {"metadata": json.loads(row["metadata"]), "strength": strength(row["observations"])}
    )


def _labels(row: Row, looked_at: int) -> tuple[Source, ...]:
    """The labels of the chunks that say it; if not all were checked, the most trusted one may be among the rest."""
    more: list[Source] = [SOURCES[0]] if row["observations"] > looked_at else []
    return tuple(dict.fromkeys([*more, *row["sources"]]))


def _known_name(row: Row) -> KnownEntityName:
    return KnownEntityName(
        key=row["key"],
        entity_id=UUID(row["entity_id"]),
        canonical_id=UUID(row["canonical_id"]),
        name=row["name"],
        type=row["type"],
        mentions=row["mentions"],
        is_guess=row["is_guess"],
    )
