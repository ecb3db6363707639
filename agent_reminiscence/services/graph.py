"""The graph as users see it: entities and relationships, what lies around them, and putting right what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agent_reminiscence.config.constants import (
    MAX_GRAPH_ENTITIES,
    MAX_GRAPH_HOPS,
    MAX_GRAPH_RELATIONSHIPS,
    MAX_RESULTS,
    Source,
)
from agent_reminiscence.database.postgres_manager import PostgresManager, SqlExecutor
from agent_reminiscence.database.repositories.active_memory import ActiveMemoryRepository
from agent_reminiscence.database.repositories.entity_graph import EntityGraphRepository, GraphFilter, GraphStore
from agent_reminiscence.domain.event import EntitiesMerged, EntitiesUnmerged, EventKind, RelationshipEnded
from agent_reminiscence.domain.graph import (
    Entity,
    GraphPath,
    GraphPattern,
    GraphTriple,
    Relationship,
    Subgraph,
    name_key,
)
from agent_reminiscence.exceptions import EntityNotFoundError, InvalidInputError, RelationshipNotFoundError
from agent_reminiscence.services import validation
from agent_reminiscence.services.projector import Projector
from agent_reminiscence.services.redaction import Scrubber
from agent_reminiscence.services.requests import WriteRequest
from agent_reminiscence.services.retries import repeated

# How many entities of one name a message lists.
_LISTED = 5

Property = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest(WriteRequest):
    """Two entities, by ids or names, are one."""

    survivor: UUID | str
    merged: UUID | str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmergeRequest(WriteRequest):
    """An entity that was merged into another one stands for itself."""

    entity_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRelationshipRequest(WriteRequest):
    """A relationship is not true any more."""

    relationship_id: UUID
    end_date: datetime | None


class MemoryGraph:
    """`memory.admin.graph`: the entities that memories name, and what they have to do with each other.

    Consolidations fill it. Wherever an entity is asked for, its id or one of its names will do; a name that several
    have is refused with their ids. What is read comes from Neo4j where one is configured, which may be a moment behind.
    What has not ended is decided by the clock of the application, whichever store is read.
    """

    def __init__(
        self,
        store: PostgresManager,
        projector: Projector,
        memories: ActiveMemoryRepository,
        repository: EntityGraphRepository,
        graph: GraphStore,
        scrubber: Scrubber,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._projector = projector
        self._scrubber = scrubber
        self._memories = memories
        self._repository = repository
        self._graph = graph
        self._clock = clock

    async def entities(
        self,
        external_id: str | int | UUID,
        *,
        name: str | None = None,
        alike: str | None = None,
        types: Iterable[str] | None = None,
        limit: int = 100,
    ) -> list[Entity]:
        """Entities, those that most live chunks name first.

        By name it is a look-up. By type, or without either, the mentions of all entities of `external_id` are read, and
        with `alike` 10,000 names on top: some tenths of a second where there are 100,000 entities.

        Args:
            name: Only those called so, or called so by something that was merged into them; case, accents, titles and
                spaces do not count.
            alike: Only those with a name spelled like this one, the most alike first.
            types: Only these, such as `person`; an entity that is `other` by itself has the type of the first that was
                merged into it and has one.
            limit: At most so many, from 1 to 500.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is away.
        """
        tenant = validation.external_id(external_id)
        wanted = validation.graph_types(types)
        most = validation.whole_number("limit", limit, minimum=1, maximum=MAX_GRAPH_ENTITIES)
        if alike is not None:
            if name is not None:
                raise InvalidInputError("entities() takes one of name and alike")
            spelling = validation.entity_name("alike", alike)
            found = await repeated(
                lambda: self._graph.find_alike(tenant, spelling, types=wanted, limit=most),
                operation="find_alike",
                external_id=tenant,
            )
            return [entity for entity, _ in found]
        names = None if name is None else [validation.entity_name("name", name)]
        return await repeated(
            lambda: self._graph.find_entities(tenant, names=names, types=wanted, limit=most),
            operation="find_entities",
            external_id=tenant,
        )

    async def neighbourhood(
        self,
        external_id: str | int | UUID,
        entity: UUID | str,
        *,
        hops: int = 1,
        types: Iterable[str] | None = None,
        at: datetime | None = None,
        min_confidence: float = 0.0,
        limit: int = MAX_GRAPH_ENTITIES,
    ) -> Subgraph:
        """What lies around an entity, whichever way relationships point.

        Of each entity at most 50 relationships are followed, the strongest first, and at most 2,000 are returned;
        `is_truncated` says whether that, or `limit`, has left something out.

        Args:
            entity: Its id, or one of its names.
            hops: How far, from 1 to 6.
            types: Only relationships of these types, such as `works_for`.
            at: Those that were true in the world at that moment; None is those that have not ended.
            min_confidence: Only relationships at least so sure, 0 to 1.
            limit: At most so many entities, from 1 to 500.

        Raises:
            InvalidInputError: An argument is refused, or several entities have the name.
            EntityNotFoundError: `external_id` has no such entity.
            StoreError: The store is away.
        """
        tenant = validation.external_id(external_id)
        start = validation.entity("entity", entity)
        far = validation.whole_number("hops", hops, minimum=1, maximum=MAX_GRAPH_HOPS)
        where = GraphFilter(
            relationship_types=validation.graph_types(types),
            at=validation.optional_moment("at", at),
            min_confidence=validation.share("min_confidence", min_confidence),
            max_entities=validation.whole_number("limit", limit, minimum=1, maximum=MAX_GRAPH_ENTITIES),
            now=self._clock(),
        )

        async def read() -> Subgraph:
            found = await self._resolve(tenant, start)
            return await self._graph.neighbourhood(tenant, [found.id], hops=far, where=where)

        return await repeated(read, operation="neighbourhood", external_id=tenant)

    async def shortest_path(
        self,
        external_id: str | int | UUID,
        from_entity: UUID | str,
        to_entity: UUID | str,
        *,
        max_hops: int = 4,
        types: Iterable[str] | None = None,
        at: datetime | None = None,
        min_confidence: float = 0.0,
    ) -> GraphPath | None:
        """A shortest way from one entity to another, whichever way relationships point; None where there is none.

        Of several the one whose entity ids, in order, come first.

        Args:
            max_hops: How long it may be, from 1 to 6 relationships.
            types: As in `neighbourhood`, and so the arguments not described here.

        Raises:
            InvalidInputError: An argument is refused, several entities have a name, or so much lies between the two
                that the search was given up: ask for fewer hops, or name types.
            EntityNotFoundError: `external_id` has no such entity.
            StoreError: The store is away.
        """
        tenant = validation.external_id(external_id)
        start, end = validation.entity("from_entity", from_entity), validation.entity("to_entity", to_entity)
        far = validation.whole_number("max_hops", max_hops, minimum=1, maximum=MAX_GRAPH_HOPS)
        where = GraphFilter(
            relationship_types=validation.graph_types(types),
            at=validation.optional_moment("at", at),
            min_confidence=validation.share("min_confidence", min_confidence),
            now=self._clock(),
        )

        async def read() -> GraphPath | None:
            first, last = await self._resolve(tenant, start), await self._resolve(tenant, end)
            return await self._graph.shortest_path(tenant, first.id, last.id, max_hops=far, where=where)

        return await repeated(read, operation="shortest_path", external_id=tenant)

    async def match(
        self,
        external_id: str | int | UUID,
        from_type: str | None = None,
        relationship_type: str | None = None,
        to_type: str | None = None,
        *,
        from_properties: Mapping[str, Property] | None = None,
        relationship_properties: Mapping[str, Property] | None = None,
        to_properties: Mapping[str, Property] | None = None,
        at: datetime | None = None,
        min_confidence: float = 0.0,
        limit: int = 100,
    ) -> list[GraphTriple]:
        """Relationships that fit a pattern, with their ends in their direction, strongest first.

        The type of the relationship is looked up; all relationships of it are read, and without one all there are.

        Args:
            from_type: Type of the entity that the relationship leads away from; None is any, and so for the other two.
            from_properties: Values that its metadata has to hold, by name, at the top; 1 and 1.0 are the same, True is
                neither. The others likewise.
            at: As in `neighbourhood`, and so `min_confidence`.
            limit: At most so many, from 1 to 200.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is away.
        """
        tenant = validation.external_id(external_id)
        pattern = GraphPattern(
            from_type=validation.graph_type("from_type", from_type),
            relationship_type=validation.graph_type("relationship_type", relationship_type),
            to_type=validation.graph_type("to_type", to_type),
            from_properties=validation.properties("from_properties", from_properties),
            relationship_properties=validation.properties("relationship_properties", relationship_properties),
            to_properties=validation.properties("to_properties", to_properties),
        )
        where = GraphFilter(
            at=validation.optional_moment("at", at),
            min_confidence=validation.share("min_confidence", min_confidence),
            now=self._clock(),
        )
        most = validation.whole_number("limit", limit, minimum=1, maximum=MAX_RESULTS)
        return await repeated(
            lambda: self._graph.match(tenant, pattern, where=where, limit=most), operation="match", external_id=tenant
        )

    async def subgraph(self, external_id: str | int | UUID, memory_id: UUID | str) -> Subgraph:
        """The entities that a memory's live chunks name, and what they have to do with each other today.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is away.
        """
        tenant, memory = validation.external_id(external_id), validation.memory_id(memory_id)
        now = self._clock()

        async def read() -> Subgraph:
            async with self._store.transaction(tenant, read_only=True) as db:
                await self._memories.get_by_id(db, tenant, memory)
                ids = await self._repository.find_mentioned(db, tenant, memory)
            entities = await self._graph.find_entities(tenant, ids=ids)
            relationships = await self._graph.find_relationships(tenant, entity_ids=[entity.id for entity in entities])
            return Subgraph(
                entities=tuple(entities),
                relationships=tuple(
                    relationship
                    for relationship in relationships
                    if relationship.end_date is None or relationship.end_date > now
                ),
                distances={entity.id: 0 for entity in entities},
                is_truncated=len(ids) > len(entities) or len(relationships) == MAX_GRAPH_RELATIONSHIPS,
            )

        return await repeated(read, operation="subgraph", external_id=tenant)

    async def merge(
        self,
        external_id: str | int | UUID,
        survivor: UUID | str,
        merged: UUID | str,
        *,
        actor: str | None = None,
        source: Source = "user",
    ) -> Entity:
        """Say that two entities are one. From now on the survivor speaks for both, and `unmerge` can undo it.

        The call rewrites every relationship of the one that is merged, while others who write for this `external_id`
        wait: some seconds where it has 40,000. `unmerge` does it again. Where only one of the two is a hub, let it be
        the survivor.

        Args:
            survivor: The one that stays; its id, or one of its names.
            merged: The one that becomes part of it, with all that was merged into it before.
            actor: Who says so.
            source: How far that is trusted.

        Returns:
            The survivor. Where the two have been merged already, nothing is written.

        Raises:
            InvalidInputError: An argument is refused, several entities have a name, or both mean the same entity, as an
                id and a name of it do.
            EntityNotFoundError: `external_id` has no such entity.
            StoreError: The store is away.
        """
        asked = MergeRequest(
            external_id=validation.external_id(external_id),
            survivor=validation.entity("survivor", survivor),
            merged=validation.entity("merged", merged),
            actor=validation.optional_identifier("actor", actor),
            source=validation.source(source),
        )
        if asked.survivor == asked.merged:
            raise InvalidInputError(f"an entity cannot be merged into itself, as {str(asked.merged)!r} would be")
        request = await self._scrubber.scrub(asked)
        # Repeatable without a key: what was merged stays so.
        return await repeated(
            lambda: self._merge(request), operation="merge", external_id=request.external_id, repeatable=True
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
        """Of two that are one: whether they can be two that were merged, and are not the same one from the beginning.

        Raises:
            InvalidInputError: They are the same.
        """
        first, second = [
            await self._stated_ids(db, request.external_id, entity) for entity in (request.survivor, request.merged)
        ]
        if len(first | second) == 1:
            raise InvalidInputError(
                f"an entity cannot be merged into itself: {str(request.survivor)!r} and {str(request.merged)!r} mean"
                " the same one"
            )

    async def _stated_ids(self, db: SqlExecutor, external_id: str, entity: UUID | str) -> set[UUID]:
        """The entities that an id or a name means, whatever they were merged into."""
        if isinstance(entity, UUID):
            return {entity}
        return {known.entity_id for known in await self._repository.known_names(db, external_id, [name_key(entity)])}

    async def unmerge(
        self,
        external_id: str | int | UUID,
        entity_id: UUID | str,
        *,
        actor: str | None = None,
        source: Source = "user",
    ) -> Entity:
        """Undo a merge: an entity stands for itself again, with all that was merged into it before.

        Args:
            entity_id: Of the one that was merged; `merged_ids` of the other one has it.
            actor: Who says so.
            source: How far that is trusted.

        Returns:
            The entity. Where it was not merged, nothing is written.

        Raises:
            InvalidInputError: An argument is refused.
            EntityNotFoundError: `external_id` has no such entity.
            StoreError: The store is away.
        """
        asked = UnmergeRequest(
            external_id=validation.external_id(external_id),
            entity_id=validation.entity_id("entity_id", entity_id),
            actor=validation.optional_identifier("actor", actor),
            source=validation.source(source),
        )
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._unmerge(request), operation="unmerge", external_id=request.external_id, repeatable=True
        )

    async def _unmerge(self, request: UnmergeRequest) -> Entity:
        async with self._store.transaction(request.external_id) as db:
            await self._projector.begin(db, request)
            place = await self._repository.find_place(db, request.external_id, request.entity_id)
            if place is not None and place.is_merged:
                payload = EntitiesUnmerged(entity_id=request.entity_id)
                await self._projector.record(
                    db, request.event(EventKind.ENTITIES_UNMERGED, payload.model_dump(mode="json"), self._clock())
                )
            return await self._find(db, request.external_id, request.entity_id)

    async def end_relationship(
        self,
        external_id: str | int | UUID,
        relationship_id: UUID | str,
        *,
        end_date: datetime | None = None,
        actor: str | None = None,
        source: Source = "user",
    ) -> Relationship:
        """Say until when a relationship was true. Readings `at` an earlier time still find it.

        It lives again when another memory says it of a later time.

        Args:
            end_date: In the world's time, in place of any end it had; None is now, and leaves alone what has ended.
            actor: Who says so.
            source: How far that is trusted.

        Returns:
            The relationship. Where it had this end already, nothing is written.

        Raises:
            InvalidInputError: An argument is refused, or the end lies before the start.
            RelationshipNotFoundError: `external_id` has no such relationship.
            StoreError: The store is away.
        """
        asked = EndRelationshipRequest(
            external_id=validation.external_id(external_id),
            relationship_id=validation.relationship_id(relationship_id),
            end_date=validation.optional_moment("end_date", end_date),
            actor=validation.optional_identifier("actor", actor),
            source=validation.source(source),
        )
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._end_relationship(request),
            operation="end_relationship",
            external_id=request.external_id,
            repeatable=True,
        )

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
            # One that only begins later ends as it begins.
            now = max(self._clock(), relationship.start_date)
            return now if relationship.end_date is None else min(now, relationship.end_date)
        if asked < relationship.start_date:
            raise InvalidInputError(
                f"end_date {asked.isoformat()} lies before the relationship began, at"
                f" {relationship.start_date.isoformat()}"
            )
        return asked

    async def _find_relationship(self, db: SqlExecutor, external_id: str, relationship_id: UUID) -> Relationship:
        found = await self._repository.find_relationships(db, external_id, ids=[relationship_id])
        if not found:
            raise RelationshipNotFoundError(external_id, relationship_id)
        return found[0]

    async def _find(self, db: SqlExecutor, external_id: str, entity: UUID | str) -> Entity:
        """The entity of an id or a name as PostgreSQL has it, which is never behind."""
        if isinstance(entity, UUID):
            found = await self._repository.find_entities(db, external_id, ids=[entity])
        else:
            found = await self._repository.find_entities(db, external_id, names=[entity])
        return _only(found, external_id, entity)

    async def _resolve(self, external_id: str, entity: UUID | str) -> Entity:
        """The entity of an id or a name as the store that is read has it."""
        if isinstance(entity, UUID):
            found = await self._graph.find_entities(external_id, ids=[entity])
        else:
            found = await self._graph.find_entities(external_id, names=[entity])
        return _only(found, external_id, entity)


def _only(found: list[Entity], external_id: str, entity: UUID | str) -> Entity:
    if not found:
        raise EntityNotFoundError(external_id, entity)
    if len(found) > 1:
        listed = ", ".join(f"{one.id} ({one.type})" for one in found[:_LISTED])
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise InvalidInputError(
            f"{entity!r} is the name of {len(found)} entities; choose one by its id: {listed}{more}"
        )
    return found[0]
