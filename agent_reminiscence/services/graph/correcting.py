"""Corrections of the graph: what is the same after all, or is not, or is no longer true."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.graph import Entity, Relationship
from agent_reminiscence.domain.payloads import EntitiesMerged, EntitiesUnmerged, RelationshipEnded
from agent_reminiscence.exceptions import InvalidInputError, RelationshipNotFoundError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.graph.naming import only_one
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.text.folding import name_key


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest(WriteRequest):
    """Two entities, by ids or names, are the same."""

    survivor: UUID | str
    merged: UUID | str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmergeRequest(WriteRequest):
    """An entity that was merged into another one is separate after all."""

    entity_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRelationshipRequest(WriteRequest):
    """A relationship is no longer true."""

    relationship_id: UUID
    end_date: datetime | None


class GraphCorrections:
    """Records corrections. Each can be repeated without a key: the second time, it changes nothing."""

    def __init__(self, runtime: Runtime, projector: Projector) -> None:
        self._store = runtime.store
        self._projector = projector
        self._scrubber = runtime.scrubber
        self._repository = runtime.repositories.graph
        self._clock = runtime.clock

    async def merge(self, asked: MergeRequest) -> Entity:
        """Append `memory.entities_merged`, unless that is so already; returns the survivor.

        Raises:
            InvalidInputError: Both are the same entity, or several share a name.
            EntityNotFoundError: There is no such entity.
        """
        if asked.survivor == asked.merged:
            raise InvalidInputError(f"an entity cannot be merged into itself; both are {str(asked.merged)!r}")
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._merge(request), operation="merge", external_id=request.external_id, repeatable=True
        )

    async def unmerge(self, asked: UnmergeRequest) -> Entity:
        """Append `memory.entities_unmerged`, unless the entity is separate; returns it.

        Raises:
            EntityNotFoundError: There is no such entity.
        """
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._unmerge(request), operation="unmerge", external_id=request.external_id, repeatable=True
        )

    async def end_relationship(self, asked: EndRelationshipRequest) -> Relationship:
        """Append `memory.relationship_ended`, unless it ended then; returns it.

        Raises:
            InvalidInputError: The end lies before the start.
            RelationshipNotFoundError: There is no such relationship.
        """
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._end_relationship(request),
            operation="end_relationship",
            external_id=request.external_id,
            repeatable=True,
        )

    async def _merge(self, request: MergeRequest) -> Entity:
        async with self._store.transaction(request.external_id) as db:
            await self._projector.begin(db, request)
            survivor = await self._find(db, request.external_id, request.survivor)
            merged = await self._find(db, request.external_id, request.merged)
            if survivor.id == merged.id:
                await self._require_two(db, request)
                return survivor
            payload = EntitiesMerged(survivor_id=survivor.id, merged_id=merged.id, reason="asked")
            await self._projector.record(
                db, request.event(EventKind.ENTITIES_MERGED, payload.model_dump(mode="json"), self._clock())
            )
            return await self._find(db, request.external_id, survivor.id)

    async def _require_two(self, db: SqlExecutor, request: MergeRequest) -> None:
        """Check that two names of one entity mean two merged entities, not the same entity from the start.

        Raises:
            InvalidInputError: They are the same.
        """
        first, second = [
            await self._stated_ids(db, request.external_id, entity) for entity in (request.survivor, request.merged)
        ]
        if len(first | second) == 1:
            raise InvalidInputError(
                f"an entity cannot be merged into itself: {str(request.survivor)!r} and {str(request.merged)!r} mean"
                " the same entity"
            )

    async def _stated_ids(self, db: SqlExecutor, external_id: str, entity: UUID | str) -> set[UUID]:
        """The entities that an id or a name means, regardless of merges."""
        if isinstance(entity, UUID):
            return {entity}
        return {known.entity_id for known in await self._repository.known_names(db, external_id, [name_key(entity)])}

    async def _unmerge(self, request: UnmergeRequest) -> Entity:
        async with self._store.transaction(request.external_id) as db:
            await self._projector.begin(db, request)
            state = await self._repository.find_merge_state(db, request.external_id, request.entity_id)
            if state is not None and state.is_merged:
                payload = EntitiesUnmerged(entity_id=request.entity_id)
                await self._projector.record(
                    db, request.event(EventKind.ENTITIES_UNMERGED, payload.model_dump(mode="json"), self._clock())
                )
            return await self._find(db, request.external_id, request.entity_id)

    async def _end_relationship(self, request: EndRelationshipRequest) -> Relationship:
        async with self._store.transaction(request.external_id) as db:
            await self._projector.begin(db, request)
            relationship = await self._find_relationship(db, request.external_id, request.relationship_id)
            end_date = self._end_date(relationship, request.end_date)
            if end_date == relationship.end_date:
                return relationship
            payload = RelationshipEnded(relationship_id=relationship.id, end_date=end_date)
            await self._projector.record(
                db, request.event(EventKind.RELATIONSHIP_ENDED, payload.model_dump(mode="json"), end_date)
            )
            return await self._find_relationship(db, request.external_id, relationship.id)

    def _end_date(self, relationship: Relationship, asked: datetime | None) -> datetime:
        if asked is None:
            # One that starts in the future ends when it starts.
            now = max(self._clock(), relationship.start_date)
            return now if relationship.end_date is None else min(now, relationship.end_date)
        if asked < relationship.start_date:
            raise InvalidInputError(
                f"end_date {asked.isoformat()} is before the relationship began, at"
                f" {relationship.start_date.isoformat()}"
            )
        return asked

    async def _find_relationship(self, db: SqlExecutor, external_id: str, relationship_id: UUID) -> Relationship:
        found = await self._repository.find_relationships(db, external_id, ids=[relationship_id])
        if not found:
            raise RelationshipNotFoundError(external_id, relationship_id)
        return found[0]

    async def _find(self, db: SqlExecutor, external_id: str, entity: UUID | str) -> Entity:
        """The entity with an id or name, from PostgreSQL, which is never behind."""
        if isinstance(entity, UUID):
            found = await self._repository.find_entities(db, external_id, ids=[entity])
        else:
            found = await self._repository.find_entities(db, external_id, names=[entity])
        return only_one(found, external_id, entity)
