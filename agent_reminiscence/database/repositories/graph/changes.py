"""What events change in the graph: entities, their names, relationships, and which chunks say them.

Each change takes a few statements over all of its rows, whose cost does not grow with earlier mentions of a name; only
a merge and its reversal touch every relationship of the entity that moves. Unchanged rows are not written; changed rows
get the position of the event.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from agent_reminiscence.database.connection import Deferred, Row, SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array
from agent_reminiscence.domain.payloads import ChunkCut, EntityEntry, GraphChanges, RelationshipEntry
from agent_reminiscence.text.folding import name_key

_SQL = load_queries("sql", "graph_changes")


class GraphChangesRepository:
    """Writes `entity`, `entity_name`, `relationship` and `graph_mention`, for the handlers of events.

    Things named by an event but missing, because the event that introduced them was erased, are skipped.
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
        """Apply a plan's entities and relationships, each of which it names once.

        For known ones, confidence and importance only rise, a type changes only if it was unknown, and names and
        metadata are added.

        Args:
            chunk_ids: The plan's chunks, to whose indices its entries refer; they are already stored.
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
        """Drop what ended chunks said, unless they ended as repetitions of another.

        A relationship that nothing says any more ends at `ended_at`, unless it has already ended.
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

    async def copy_mentions(
        self, db: SqlExecutor, external_id: str, cuts: Sequence[ChunkCut], *, recorded_at: datetime, position: int
    ) -> None:
        """Make the pieces of chunks say what these say, before the chunks end."""
        pieces = [(cut.chunk, piece) for cut in cuts for piece in cut.pieces]
        params = {
            "external_id": external_id,
            "old_ids": uuid_array([chunk_id for chunk_id, _ in pieces]),
            "new_ids": uuid_array([piece.id for _, piece in pieces]),
            "items": ["{" + ",".join(map(str, piece.items)) + "}" for _, piece in pieces],
            "recorded_at": recorded_at,
            "position": position,
        }
        roots = await db.fetch_all(_SQL["copy_mentions"], params)
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
        """Move what promoted chunks say to longterm.

        Args:
            importances: By chunk id; chunks that are not longterm are ignored.
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
        """Make the survivor, or its canonical entity, represent the other one and all that this one represented."""
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
        """Make a merged entity represent itself again, with what was merged into it."""
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
        """End a relationship at `end_date`, replacing any earlier end; never before it began."""
        params = {
            "external_id": external_id,
            "relationship_id": relationship_id,
            "end_date": end_date,
            "recorded_at": recorded_at,
            "position": position,
        }
        await db.defer(_SQL["end_relationship"], params)

    async def _touch(self, db: SqlExecutor, external_id: str, roots: Sequence[Row], position: int) -> None:
        """Record that canonical entities have changed with those they represent."""
        if roots:
            entity_ids = [UUID(str(row["canonical_id"])) for row in roots]
            params = {"external_id": external_id, "entity_ids": entity_ids, "position": position}
            await db.defer(_SQL["touch_roots"], params)


def _entity_params(entities: Sequence[EntityEntry], chunk_ids: Sequence[UUID]) -> dict[str, object]:
    # An entity that no chunk names is not stored, so neither are its names.
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
        "guesses": [entry.is_guess for entry in entities],
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
        "places": [_subscripts(entry.chunks, len(chunk_ids)) for entry in entries],
        "chunk_ids": uuid_array(chunk_ids),
    }


def _subscripts(chunks: Sequence[int], count: int) -> str:
    """Indices in a plan as a PostgreSQL array of subscripts, which count from 1; each once.

    Raises:
        ValueError: The plan has no such chunk.
    """
    if any(not 0 <= index < count for index in chunks):
        raise ValueError(f"an entry names a chunk that its plan does not have; the plan has {count}")
    return "{" + ",".join(str(index + 1) for index in sorted(set(chunks))) + "}"
