"""What callers state of entities and relationships: recorded as if a consolidation had read it in a memory.

A statement rests on passages of one memory, as everything in the graph does. So it ends, is trusted and is erased like
what was read there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.config import constants
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.graph import ANY_TYPE, Entity, Relationship
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import EntityEntry, GraphChanges, GraphStated, RelationshipEntry
from agent_reminiscence.domain.trust import SOURCE_TRUST, Source, least_trusted, most_trusted
from agent_reminiscence.exceptions import (
    EntityNotFoundError,
    InvalidInputError,
    MemoryNotFoundError,
    RelationshipNotFoundError,
)
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.graph.naming import find_fitting, list_ids
from agent_reminiscence.services.graph.periods import Statement, restates
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import StateEntityRequest, StateRelationshipRequest, StateRequest
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.text.folding import fold_text, name_key, snake_case


class _Named(NamedTuple):
    """An entity that a statement names; a new one represents itself.

    Attributes:
        named_by: The memory that its name was taken from; None if the caller gave it.
    """

    entity_id: UUID
    canonical_id: UUID
    name: str
    type: str
    is_new: bool = False
    named_by: UUID | None = None


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The passages of a memory that stand, and the label of the statement that is to rest on them."""

    memory_id: UUID
    passages: Sequence[StoredChunk]
    source: Source

    def naming(self, names: Sequence[str]) -> _Evidence:
        """Only the passages that have all the names; all of them if none has."""
        sought = [fold_text(name) for name in names]
        found = [one for one in self.passages if all(name in fold_text(one.content) for name in sought)]
        return _Evidence(self.memory_id, found or self.passages, self.source)

    @property
    def label(self) -> Source:
        """How far the statement is trusted: no further than the most trusted passage."""
        return least_trusted([self.source, most_trusted([one.source for one in self.passages])])

    @property
    def support(self) -> dict[str, Any]:
        """What an entry of the payload says of its evidence."""
        return {
            "confidence": SOURCE_TRUST[self.label],
            "importance": max(one.importance for one in self.passages),
            "chunks": tuple(range(len(self.passages))),
        }

    def stated(self, changes: GraphChanges, request: StateRequest, named: Sequence[_Named]) -> GraphStated:
        """The payload of the event."""
        others = {one.named_by for one in named if one.named_by is not None} - {self.memory_id}
        return GraphStated(
            memory_id=self.memory_id,
            chunks=tuple(one.chunk_id for one in self.passages),
            graph=changes,
            rests_on=tuple(sorted(others)),
            redactions=dict(request.redactions or {}),
        )


class GraphStatements:
    """Records statements about the graph."""

    def __init__(self, runtime: Runtime, projector: Projector) -> None:
        self._store = runtime.store
        self._active = runtime.repositories.tables.active
        self._chunks = runtime.repositories.tables.chunks
        self._graph = runtime.repositories.graph
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._projector = projector

    async def state_entity(self, asked: StateEntityRequest) -> Entity:
        """Append `memory.entity_stated`, and return the entity as it is now."""
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._state_entity(request),
            operation="state_entity",
            external_id=request.external_id,
            repeatable=request.idempotency_key is not None,
        )

    async def _state_entity(self, request: StateEntityRequest) -> Entity:
        external_id = request.external_id
        async with self._store.transaction(external_id) as db:
            retried = await self._projector.begin(db, request)
            if retried is None:
                evidence = await self._read_evidence(db, request)
                known = await self._graph.known_names(db, external_id, [name_key(request.name)])
                entity = _known_or_new(request.name, snake_case(request.entity_type), known)
                entry = _entry(entity, evidence, description=request.description, metadata=request.metadata)
                stated = evidence.stated(GraphChanges(entities=(entry,)), request, [entity])
                await self._record(db, EventKind.ENTITY_STATED, stated, request)
            else:
                stated = GraphStated.model_validate(retried.payload)
            [entry] = stated.graph.entities
            return await self._get_entity(db, external_id, entry.id)

    async def state_relationship(self, asked: StateRelationshipRequest) -> Relationship:
        """Append `memory.relationship_stated`, and return the relationship as it is now."""
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._state_relationship(request),
            operation="state_relationship",
            external_id=request.external_id,
            repeatable=request.idempotency_key is not None,
        )

    async def _state_relationship(self, request: StateRelationshipRequest) -> Relationship:
        external_id = request.external_id
        async with self._store.transaction(external_id) as db:
            retried = await self._projector.begin(db, request)
            if retried is None:
                evidence = await self._read_evidence(db, request)
                source = await self._find_end(db, external_id, request.from_entity, snake_case(request.from_type))
                target = await self._find_end(db, external_id, request.to_entity, snake_case(request.to_type))
                if _are_same(source, target):
                    raise InvalidInputError(
                        f"{str(request.from_entity)!r} and {str(request.to_entity)!r} mean the same entity, and a"
                        " relationship is between two"
                    )
                evidence = evidence.naming([source.name, target.name])
                relationship = await self._plan(db, request, source, target, evidence)
                changes = GraphChanges(
                    entities=(_entry(source, evidence), _entry(target, evidence)), relationships=(relationship,)
                )
                stated = evidence.stated(changes, request, [source, target])
                await self._record(db, EventKind.RELATIONSHIP_STATED, stated, request)
            else:
                stated = GraphStated.model_validate(retried.payload)
            [relationship] = stated.graph.relationships
            found = await self._graph.find_relationships(db, external_id, ids=[relationship.id])
            if not found:
                raise RelationshipNotFoundError(external_id, relationship.id)
            return found[0]

    async def _record(self, db: SqlExecutor, kind: EventKind, stated: GraphStated, request: StateRequest) -> None:
        await self._projector.record(db, request.event(kind, stated.model_dump(mode="json"), self._clock()))

    async def _read_evidence(self, db: SqlExecutor, request: StateRequest) -> _Evidence:
        """The passages of the memory that have not ended.

        Raises:
            MemoryNotFoundError: There is no such memory.
            InvalidInputError: All its passages have ended.
        """
        external_id = request.external_id
        if request.memory_id is not None:
            memory = await self._active.get_outline(db, external_id, request.memory_id)
        else:
            assert request.key is not None, "a request names a memory by its id or its key"
            found = await self._active.find_outline_by_key(db, external_id, request.key)
            if found is None or found.has_expired(self._clock()):
                raise MemoryNotFoundError(external_id, key=request.key)
            memory = found
        await db.plan_for(memory.chunks)
        layout = await self._chunks.get_layout(db, external_id, memory.memory_id)
        passages = [] if memory.has_expired(self._clock()) else [one for one in layout if not one.has_ended]
        if not passages:
            raise InvalidInputError(
                f"memory {str(memory.memory_id)!r} has no passage that still stands, so it supports no statement; name"
                " one that has"
            )
        return _Evidence(memory.memory_id, passages, request.source)

    async def _find_end(self, db: SqlExecutor, external_id: str, entity: UUID | str, type_: str) -> _Named:
        """The entity that one end of a relationship means; a name that nothing has is that of a new one.

        Raises:
            EntityNotFoundError: No entity has the id.
            InvalidInputError: Several have the name.
        """
        if isinstance(entity, UUID):
            found = await self._graph.find_origin(db, external_id, entity)
            if found is None:
                raise EntityNotFoundError(external_id, entity)
            return _Named(found.entity_id, found.entity_id, found.name, ANY_TYPE, named_by=found.memory_id)
        known = await self._graph.known_names(db, external_id, [name_key(entity)])
        canonical = {row.canonical_id: row.type for row in known}
        if type_ == ANY_TYPE and len(canonical) > 1:
            raise InvalidInputError(
                f"{entity!r} is the name of {len(canonical)} entities; choose one by its type or its id:"
                f" {list_ids(canonical)}"
            )
        return _known_or_new(entity, type_, known)

    async def _plan(
        self,
        db: SqlExecutor,
        request: StateRelationshipRequest,
        source: _Named,
        target: _Named,
        evidence: _Evidence,
    ) -> RelationshipEntry:
        """The known relationship that the statement concerns, or a new one."""
        said = [date for one in evidence.passages for date in one.said_dates]
        statement = Statement(evidence.label, said, request.start_date or min(said), request.end_date)
        type_ = snake_case(request.relationship_type)
        wanted = (source.entity_id, target.entity_id, type_)
        known = await self._graph.find_stated(
            db, request.external_id, [wanted], evidence_chunks=constants.KNOWN_RELATIONSHIP_MEMORIES
        )
        restated = next((one.relationship_id for one in known if restates(statement, one)), None)
        return RelationshipEntry(
            id=restated or uuid7(),
            from_id=source.entity_id,
            to_id=target.entity_id,
            type=type_,
            description=request.description,
            start_date=request.start_date,
            end_date=request.end_date,
            metadata=request.metadata,
            **evidence.support,
        )

    async def _get_entity(self, db: SqlExecutor, external_id: str, entity_id: UUID) -> Entity:
        found = await self._graph.find_entities(db, external_id, ids=[entity_id])
        if not found:
            raise EntityNotFoundError(external_id, entity_id)
        return found[0]


def _known_or_new(name: str, type_: str, known: Sequence[KnownEntityName]) -> _Named:
    """The known entity with this name and a fitting type, else a new one."""
    row = find_fitting(type_, known)
    if row is None:
        entity_id = uuid7()
        return _Named(entity_id, entity_id, name, type_, is_new=True)
    # Not with the type it has: that is what another memory said, which may be erased.
    return _Named(row.entity_id, row.canonical_id, name, type_)


def _are_same(source: _Named, target: _Named) -> bool:
    """Whether both ends are one entity; two new ones are if they have one name and no different types."""
    if not (source.is_new and target.is_new):
        return source.canonical_id == target.canonical_id
    is_one_type = source.type == target.type or ANY_TYPE in (source.type, target.type)
    return is_one_type and name_key(source.name) == name_key(target.name)


def _entry(
    entity: _Named, evidence: _Evidence, *, description: str | None = None, metadata: dict[str, Any] | None = None
) -> EntityEntry:
    return EntityEntry(
        id=entity.entity_id,
        name=entity.name,
        type=entity.type,
        description=description,
        metadata=metadata or {},
        **evidence.support,
    )
