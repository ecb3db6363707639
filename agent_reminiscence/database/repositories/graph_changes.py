"""What events change in the graph: entities, their names, relationships, and which chunks say them.

Each change is a few statements over all of its rows, whose cost does not grow with how often a name has been mentioned
before; only a merge and its undoing touch every relationship of the entity that moves. A row that does not change is
not written, and one that does carries the position of the event.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from agent_reminiscence.database.postgres_manager import Deferred, Row, SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array
from agent_reminiscence.domain.event import EntityEntry, GraphChanges, RelationshipEntry
from agent_reminiscence.domain.graph import name_key

_SQL = load_queries("sql", "graph_changes")


class GraphChangesRepository:
    """Writes `entity`, `entity_name`, `relationship` and `graph_mention`, for the handlers of events.

    What an event names and what is not there, because the event that brought it in was erased, is passed over.
    """

    async def record(
        self,
        db: SqlExecutor,
        external_id: str,
        changes: GraphChanges,
        *,
        chunk_ids: Sequence[UUID],
        memory_id: UUID,
        position: int,
        recorded_at: datetime,
    ) -> None:
        """Take over what a plan says of entities and relationships, each of which it names once.

        Of what is known, confidence and importance only rise, a type changes only where it was not known, and names and
        metadata are added to.

        Args:
            chunk_ids: The plan's chunks, to whose places its entries refer; they are stored already.
        """
        scope: dict[str, object] = {"external_id": external_id, "memory_id": memory_id, "position": position}
        roots: Deferred[list[Row]] | None = None
        if changes.entities:
            params = _entity_params(changes.entities, chunk_ids)
            roots = await db.ask(_SQL["record_entities"], params | scope, list)
        if changes.relationships:
            params = _relationship_params(changes.relationships, chunk_ids)
            await db.defer(_SQL["record_relationships"], params | scope | {"recorded_at": recorded_at})
        if roots is not None:
            await self._touch(db, external_id, await roots.result(), position)

    async def end_mentions(
        self,
        db: SqlExecutor,
        external_id: str,
        chunk_ids: Sequence[UUID],
        *,
        ended_at: datetime,
        recorded_at: datetime,
        position: int,
    ) -> None:
        """Let go of what was said by those of some chunks that have ended; one that repeats another has not.

        A relationship that nothing says any more ends at `ended_at`, unless it has ended already.
        """
        if not chunk_ids:
            return
        params = {
            "external_id": external_id,
            "chunk_ids": uuid_array(chunk_ids),
            "ended_at": ended_at,
            "recorded_at": recorded_at,
            "position": position,
        }
        roots = await db.fetch_all(_SQL["end_mentions"], params)
        await self._touch(db, external_id, roots, position)

    async def promote(
        self,
        db: SqlExecutor,
        external_id: str,
        importances: Mapping[UUID, float],
        *,
        recorded_at: datetime,
        position: int,
    ) -> None:
        """Move to longterm what promoted chunks say.

        Args:
            importances: Of the chunks, by id; one that is not longterm counts for nothing.
        """
        if not importances:
            return
        params = {
            "external_id": external_id,
            "chunk_ids": uuid_array(list(importances)),
            "importances": list(importances.values()),
            "recorded_at": recorded_at,
            "position": position,
        }
        roots = await db.fetch_all(_SQL["promote_items"], params)
        await self._touch(db, external_id, roots, position)

    async def merge(
        self,
        db: SqlExecutor,
        external_id: str,
        *,
        survivor_id: UUID,
        merged_id: UUID,
        recorded_at: datetime,
        position: int,
    ) -> None:
        """Let the survivor, or what it was merged into, speak for the other one and for all that this one spoke for."""
        params = {
            "external_id": external_id,
            "survivor_id": survivor_id,
            "merged_id": merged_id,
            "recorded_at": recorded_at,
            "position": position,
        }
        await db.defer(_SQL["merge_entities"], params)

    async def unmerge(
        self, db: SqlExecutor, external_id: str, entity_id: UUID, *, recorded_at: datetime, position: int
    ) -> None:
        """Let a merged entity stand for itself again, with what was merged into it."""
        params = {
            "external_id": external_id,
            "entity_id": entity_id,
            "recorded_at": recorded_at,
            "position": position,
        }
        await db.defer(_SQL["unmerge_entity"], params)

    async def end_relationship(
        self,
        db: SqlExecutor,
        external_id: str,
        relationship_id: UUID,
        *,
        end_date: datetime,
        recorded_at: datetime,
        position: int,
    ) -> None:
        """Let a relationship end at `end_date`, in place of any end it had; never before it began."""
        params = {
            "external_id": external_id,
            "relationship_id": relationship_id,
            "end_date": end_date,
            "recorded_at": recorded_at,
            "position": position,
        }
        await db.defer(_SQL["end_relationship"], params)

    async def _touch(self, db: SqlExecutor, external_id: str, roots: Sequence[Row], position: int) -> None:
        """Note that entities which speak for others have changed with them."""
        if roots:
            entity_ids = [UUID(str(row["canonical_id"])) for row in roots]
            params = {"external_id": external_id, "entity_ids": entity_ids, "position": position}
            await db.defer(_SQL["touch_roots"], params)


def _entity_params(entities: Sequence[EntityEntry], chunk_ids: Sequence[UUID]) -> dict[str, object]:
    # An entity that no chunk names is not stored, so its names are not either.
    entities = [entry for entry in entities if entry.chunks]
    names = {
        (entry.id, key): spelling
        for entry in entities
        # Reversed, so that of several spellings the first one stays.
        for spelling in reversed((entry.name, *entry.aliases))
        if (key := name_key(spelling))
    }
    return {
        "entity_ids": [entry.id for entry in entities],
        "names": [entry.name for entry in entities],
        "types": [entry.type for entry in entities],
        "named_ids": [entity_id for entity_id, _ in names],
        "keys": [key for _, key in names],
        "spellings": list(names.values()),
        **_common_params(entities, chunk_ids),
    }


def _relationship_params(relationships: Sequence[RelationshipEntry], chunk_ids: Sequence[UUID]) -> dict[str, object]:
    return {
        "relationship_ids": [entry.id for entry in relationships],
        "from_ids": [entry.from_id for entry in relationships],
        "to_ids": [entry.to_id for entry in relationships],
        "types": [entry.type for entry in relationships],
        "start_dates": [entry.start_date for entry in relationships],
        "end_dates": [entry.end_date for entry in relationships],
        **_common_params(relationships, chunk_ids),
    }


def _common_params(
    entries: Sequence[EntityEntry] | Sequence[RelationshipEntry], chunk_ids: Sequence[UUID]
) -> dict[str, object]:
    return {
        "descriptions": [entry.description for entry in entries],
        "confidences": [entry.confidence for entry in entries],
        "importances": [entry.importance for entry in entries],
        "metadata": [json.dumps(entry.metadata, ensure_ascii=False) for entry in entries],
        "places": [_places(entry.chunks, len(chunk_ids)) for entry in entries],
        "chunk_ids": uuid_array(chunk_ids),
    }


def _places(chunks: Sequence[int], count: int) -> str:
    """Places in a plan as an array of PostgreSQL, which counts from 1; each once.

    Raises:
        ValueError: The plan has no such chunk.
    """
    if any(not 0 <= place < count for place in chunks):
        raise ValueError(f"an entry names a chunk that its plan does not have; it has {count}")
    return "{" + ",".join(str(place + 1) for place in sorted(set(chunks))) + "}"
