"""The graph as users see it: entities, relationships, their neighbourhoods, and corrections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, overload
from uuid import UUID

from agent_reminiscence.config.constants import MAX_GRAPH_ENTITIES, MAX_GRAPH_RELATIONSHIPS, MAX_RESULTS
from agent_reminiscence.database.repositories.graph.store import GraphFilter, GraphHop, GraphStore
from agent_reminiscence.domain.graph import (
    ANY_TYPE,
    Entity,
    GraphPath,
    GraphPattern,
    GraphStep,
    GraphTriple,
    Property,
    Relationship,
    Subgraph,
)
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services import validation
from agent_reminiscence.services.graph import checks
from agent_reminiscence.services.graph.correcting import (
    EndRelationshipRequest,
    GraphCorrections,
    MergeRequest,
    UnmergeRequest,
)
from agent_reminiscence.services.graph.naming import only_one
from agent_reminiscence.services.graph.stating import GraphStatements
from agent_reminiscence.services.ledger.expiry import Expiry
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import StateEntityRequest, StateRelationshipRequest
from agent_reminiscence.services.runtime import Runtime

# How far a neighbourhood or a path may reach.
MAX_GRAPH_HOPS: Final = 6


class MemoryGraph:
    """`memory.admin.graph`: the entities that memories name, and how they are related.

    Consolidations fill it. Entity arguments take an id or one of the entity's names; a name shared by several entities
    is refused, and the error lists their ids. Reads go to Neo4j if it is configured, which may be a moment behind, and
    to PostgreSQL, which holds the same graph, while Neo4j is unavailable. The application's clock decides what has
    ended, whichever store is read.
    """

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        graph: GraphStore,
        expiry: Expiry,
    ) -> None:
        self._store = runtime.store
        self._memories = runtime.repositories.tables.active
        self._repository = runtime.repositories.graph
        self._graph = graph
        self._expiry = expiry
        self._clock = runtime.clock
        self._statements = GraphStatements(runtime, projector)
        self._corrections = GraphCorrections(runtime, projector)

    async def entities(
        self,
        external_id: str | int | UUID,
        *,
        name: str | None = None,
        alike: str | None = None,
        types: Iterable[str] | None = None,
        limit: int = 100,
    ) -> list[Entity]:
        """Entities, those named by the most live chunks first.

        By name it is a lookup. By type, or without a filter, it reads the mentions of all entities of `external_id`,
        and with `alike` 10,000 names as well: some tenths of a second with 100,000 entities.

        Args:
            name: Only entities with this name, their own or that of an entity merged into them; case, accents, titles
                and spaces are ignored.
            alike: Only entities with a name spelled like this one, the most similar first.
            types: Only these types, such as `person`; an entity of type `other` takes the type of the first entity
                merged into it that has another one.
            limit: Return at most this many, from 1 to 500.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        wanted = checks.graph_types(types)
        most = validation.whole_number("limit", limit, minimum=1, maximum=MAX_GRAPH_ENTITIES)
        if alike is not None:
            if name is not None:
                raise InvalidInputError("entities() takes name or alike, not both")
            spelling = checks.entity_name("alike", alike)
            found = await self._read(
                "find_alike", tenant, lambda: self._graph.find_alike(tenant, spelling, types=wanted, limit=most)
            )
            return [entity for entity, _ in found]
        names = None if name is None else [checks.entity_name("name", name)]
        return await self._read(
            "find_entities",
            tenant,
            lambda: self._graph.find_entities(tenant, names=names, types=wanted, limit=most),
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
        """The neighbourhood of an entity; relationships are followed in both directions.

        At most 50 relationships of each entity are followed, the strongest first, and at most 2,000 are returned;
        `is_truncated` says whether that or `limit` left something out.

        Args:
            entity: Its id, or one of its names.
            hops: How far, from 1 to 6.
            types: Only relationships of these types, such as `works_for`.
            at: Relationships that were true in the world at that moment; None means those that have not ended.
            min_confidence: Only relationships with at least this confidence, 0 to 1.
            limit: At most this many entities, from 1 to 500.

        Raises:
            InvalidInputError: An argument is refused, or several entities have the name.
            EntityNotFoundError: `external_id` has no such entity.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        start = checks.entity("entity", entity)
        far = validation.whole_number("hops", hops, minimum=1, maximum=MAX_GRAPH_HOPS)
        where = self._filter(types, at, min_confidence, limit)

        async def read() -> Subgraph:
            found = await self._resolve(tenant, start)
            return await self._graph.neighbourhood(tenant, [found.id], hops=far, where=where)

        return await self._read("neighbourhood", tenant, read)

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
        """A shortest path between two entities, following relationships in both directions; None if there is none.

        Of several, the one whose entity ids, in order, sort first.

        Args:
            max_hops: The longest path, from 1 to 6 relationships.
            types: As in `neighbourhood`, like the arguments not described here.

        Raises:
            InvalidInputError: An argument is refused, several entities share a name, or so much lies between the two
                that the search was given up: ask for fewer hops, or name types.
            EntityNotFoundError: `external_id` has no such entity.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        start, end = checks.entity("from_entity", from_entity), checks.entity("to_entity", to_entity)
        far = validation.whole_number("max_hops", max_hops, minimum=1, maximum=MAX_GRAPH_HOPS)
        where = self._filter(types, at, min_confidence)

        async def read() -> GraphPath | None:
            first, last = await self._resolve(tenant, start), await self._resolve(tenant, end)
            return await self._graph.shortest_path(tenant, first.id, last.id, max_hops=far, where=where)

        return await self._read("shortest_path", tenant, read)

    @overload
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
        path: None = None,
        at: datetime | None = None,
        min_confidence: float = 0.0,
        limit: int = 100,
    ) -> list[GraphTriple]: ...

    @overload
    async def match(
        self,
        external_id: str | int | UUID,
        *,
        path: Sequence[GraphStep | tuple[str | None, str | None, str | None]],
        at: datetime | None = None,
        min_confidence: float = 0.0,
        limit: int = 100,
    ) -> list[GraphPath]: ...

    @overload
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
        path: Sequence[GraphStep | tuple[str | None, str | None, str | None]] | None = None,
        at: datetime | None = None,
        min_confidence: float = 0.0,
        limit: int = 100,
    ) -> list[GraphTriple] | list[GraphPath]: ...

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
        path: Sequence[GraphStep | tuple[str | None, str | None, str | None]] | None = None,
        at: datetime | None = None,
        min_confidence: float = 0.0,
        limit: int = 100,
    ) -> list[GraphTriple] | list[GraphPath]:
        """Relationships that match a pattern, with both ends, strongest first; with `path`, paths of several.

        Reads all relationships of the given type, or every relationship if none is given. With `path`, reads those that
        fit the first step, or the last if only that names an entity, and then what is reached from there.

        Args:
            from_type: Type of the entity the relationship starts from; None is any. The other two types likewise.
            from_properties: Top-level values that its metadata must have, by name; 1 and 1.0 are equal, True is
                neither. The other properties likewise.
            path: 1 to 4 steps, in place of the arguments before: `GraphStep` objects, or a tuple (from_type,
                relationship_type, to_type) each. No entity stands twice on a path. Those whose first relationship is
                strongest come first, then the second decides, and so on. Several relationships between the same two
                make several paths.
            at: As in `neighbourhood`, like `min_confidence`.
            limit: At most this many, from 1 to 200.

        Raises:
            InvalidInputError: An argument is refused; several entities share a name; or more than 20,000 relationships
                fit the steps, or putting them together takes more than 100,000: name an entity, or more types.
            EntityNotFoundError: With `path`: `external_id` has no such entity.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        pattern = GraphPattern(
            from_type=checks.graph_type("from_type", from_type),
            relationship_type=checks.graph_type("relationship_type", relationship_type),
            to_type=checks.graph_type("to_type", to_type),
            from_properties=checks.properties("from_properties", from_properties),
            relationship_properties=checks.properties("relationship_properties", relationship_properties),
            to_properties=checks.properties("to_properties", to_properties),
        )
        where = self._filter(None, at, min_confidence)
        most = validation.whole_number("limit", limit, minimum=1, maximum=MAX_RESULTS)
        if path is None:
            return await self._read(
                "match", tenant, lambda: self._graph.match(tenant, pattern, where=where, limit=most)
            )
        steps = checks.path(path)
        if pattern != GraphPattern():
            raise InvalidInputError("match() takes path or the types and properties of one relationship, not both")

        async def read() -> list[GraphPath]:
            hops = [await self._hop(tenant, step) for step in steps]
            return await self._graph.match_paths(tenant, hops, where=where, limit=most)

        return await self._read("match_paths", tenant, read)

    async def _hop(self, external_id: str, step: GraphStep) -> GraphHop:
        """A step, with the entities that it names."""

        async def ids(named: UUID | str | None) -> list[UUID] | None:
            return None if named is None else [(await self._resolve(external_id, named)).id]

        return GraphHop(
            relationship_types=step.relationship_types,
            along=step.direction != "in",
            against=step.direction != "out",
            from_type=step.from_type,
            to_type=step.to_type,
            from_ids=await ids(step.from_entity),
            to_ids=await ids(step.to_entity),
        )

    async def subgraph(self, external_id: str | int | UUID, memory_id: UUID | str) -> Subgraph:
        """The entities that a memory's live chunks name, and how they are related today.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is unavailable.
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

        return await self._read("subgraph", tenant, read)

    async def state_entity(
        self,
        external_id: str | int | UUID,
        name: str,
        entity_type: str = ANY_TYPE,
        *,
        memory_id: UUID | str | None = None,
        key: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        actor: str | None = None,
        source: Source = "user",
        idempotency_key: str | None = None,
    ) -> Entity:
        """State that a memory is about an entity, whether its text shows that or not.

        Each passage that the memory has now counts as naming it. The statement holds until the last of them ends: by an
        update that rewrites it, by `archive(end_chunks=True)`, or with an erasure of the memory, which erases the
        statement as well. After an update, state it again for what is new.

        Args:
            name: A known entity with this name and a fitting type is meant; otherwise it is a new one. At most 500
                characters.
            entity_type: Such as `person`, spelled in lower case with underscores; `other` fits any. A known entity
                keeps its type, unless that is `other`.
            memory_id: The memory; or pass `key`.
            key: The key of an active memory, in place of `memory_id`.
            description: What it is, in a sentence. It does not replace one that is trusted more.
            metadata: A JSON object, added to what is known.
            actor: Who says so.
            source: How far that is trusted; no further than the memory's most trusted passage.
            idempotency_key: A second call with the same key and request writes nothing.

        Returns:
            The entity, with everything that is known of it.

        Raises:
            InvalidInputError: An argument is refused, the name looks like a secret, or no passage of the memory stands.
            MemoryNotFoundError: `external_id` has no such memory, or no active memory has the key.
            RedactionError: Your redactor failed; nothing is written.
            IdempotencyConflictError: The key was used for a different request.
            StoreError: The store is unavailable.
        """
        named_id, named_key = validation.memory_name(memory_id, key)
        return await self._statements.state_entity(
            StateEntityRequest(
                external_id=validation.external_id(external_id),
                memory_id=named_id,
                key=named_key,
                name=checks.new_entity_name("name", name),
                entity_type=checks.new_graph_type("entity_type", entity_type),
                description=validation.description(description),
                metadata=validation.metadata(metadata),
                actor=validation.optional_identifier("actor", actor),
                source=validation.source(source),
                idempotency_key=validation.optional_identifier("idempotency_key", idempotency_key),
            )
        )

    async def state_relationship(
        self,
        external_id: str | int | UUID,
        from_entity: UUID | str,
        relationship_type: str,
        to_entity: UUID | str,
        *,
        from_type: str = ANY_TYPE,
        to_type: str = ANY_TYPE,
        memory_id: UUID | str | None = None,
        key: str | None = None,
        description: str | None = None,
        start_date: datetime | None = None,
        end_date: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        actor: str | None = None,
        source: Source = "user",
        idempotency_key: str | None = None,
    ) -> Relationship:
        """State that two entities are related, as a memory says.

        It rests on the passages of the memory that have both names; on all of them if none has. It holds, and is taken
        back, like `state_entity`; to say that it was true and is over, use `end_relationship`.

        Args:
            from_entity: A name, or an id. A name that no entity has becomes a new entity. An id takes the name that
                another memory has given; erasing that memory erases the statement as well.
            relationship_type: Such as `works_for`, spelled in lower case with underscores.
            to_entity: As `from_entity`.
            from_type: Of several entities with the name, the one of this type is meant; a new one gets it.
            to_type: As `from_type`.
            start_date: Since when it is true in the world; None is when the first of the passages was said.
            end_date: When it ceased to be true; None means that it still is.
            description: As in `state_entity`, like all arguments not described here.

        Returns:
            The relationship. A known one between the same two, of the same type, is added to, unless the statement is
            about another period, or is trusted too little to change the known one's: then it is a separate one.

        Raises:
            InvalidInputError: An argument is refused, several entities share a name, both arguments mean the same
                entity, or no passage of the memory stands.
            EntityNotFoundError: `external_id` has no entity with such an id.
            MemoryNotFoundError: `external_id` has no such memory, or no active memory has the key.
            RedactionError: Your redactor failed; nothing is written.
            IdempotencyConflictError: The key was used for a different request.
            StoreError: The store is unavailable.
        """
        named_id, named_key = validation.memory_name(memory_id, key)
        since, until = checks.period(start_date, end_date)
        return await self._statements.state_relationship(
            StateRelationshipRequest(
                external_id=validation.external_id(external_id),
                memory_id=named_id,
                key=named_key,
                from_entity=checks.new_or_known_entity("from_entity", from_entity),
                relationship_type=checks.new_graph_type("relationship_type", relationship_type),
                to_entity=checks.new_or_known_entity("to_entity", to_entity),
                from_type=checks.new_graph_type("from_type", from_type),
                to_type=checks.new_graph_type("to_type", to_type),
                description=validation.description(description),
                start_date=since,
                end_date=until,
                metadata=validation.metadata(metadata),
                actor=validation.optional_identifier("actor", actor),
                source=validation.source(source),
                idempotency_key=validation.optional_identifier("idempotency_key", idempotency_key),
            )
        )

    async def merge(
        self,
        external_id: str | int | UUID,
        survivor: UUID | str,
        merged: UUID | str,
        *,
        actor: str | None = None,
        source: Source = "user",
    ) -> Entity:
        """Merge two entities that are the same. From now on the survivor represents both; `unmerge` can undo it.

        The call rewrites every relationship of the merged entity while other writers of this `external_id` wait: some
        seconds for 40,000 relationships. `unmerge` costs as much. If only one of the two is a hub, make it the
        survivor.

        Args:
            survivor: The entity that stays; its id, or one of its names.
            merged: The entity that becomes part of it, with everything merged into it before.
            actor: Who says so.
            source: How far that is trusted.

        Returns:
            The survivor. If the two are already merged, nothing is written.

        Raises:
            InvalidInputError: An argument is refused, several entities share a name, or both arguments mean the same
                entity, such as its id and its name.
            EntityNotFoundError: `external_id` has no such entity.
            StoreError: The store is unavailable.
        """
        return await self._corrections.merge(
            MergeRequest(
                external_id=validation.external_id(external_id),
                survivor=checks.entity("survivor", survivor),
                merged=checks.entity("merged", merged),
                actor=validation.optional_identifier("actor", actor),
                source=validation.source(source),
            )
        )

    async def unmerge(
        self,
        external_id: str | int | UUID,
        entity_id: UUID | str,
        *,
        actor: str | None = None,
        source: Source = "user",
    ) -> Entity:
        """Undo a merge: the entity is separate again, with everything that had been merged into it before.

        Args:
            entity_id: The merged entity's id, as listed in the survivor's `merged_ids`.
            actor: Who says so.
            source: How far that is trusted.

        Returns:
            The entity. If it was not merged, nothing is written.

        Raises:
            InvalidInputError: An argument is refused.
            EntityNotFoundError: `external_id` has no such entity.
            StoreError: The store is unavailable.
        """
        return await self._corrections.unmerge(
            UnmergeRequest(
                external_id=validation.external_id(external_id),
                entity_id=checks.entity_id("entity_id", entity_id),
                actor=validation.optional_identifier("actor", actor),
                source=validation.source(source),
            )
        )

    async def end_relationship(
        self,
        external_id: str | int | UUID,
        relationship_id: UUID | str,
        *,
        end_date: datetime | None = None,
        actor: str | None = None,
        source: Source = "user",
    ) -> Relationship:
        """Set until when a relationship was true. Reads `at` an earlier time still find it.

        It becomes true again when another memory states it for a later time.

        Args:
            end_date: World time, replacing any previous end; None means now, and does not change one that has ended.
            actor: Who says so.
            source: How far that is trusted.

        Returns:
            The relationship. If it already has this end, nothing is written.

        Raises:
            InvalidInputError: An argument is refused, or the end lies before the start.
            RelationshipNotFoundError: `external_id` has no such relationship.
            StoreError: The store is unavailable.
        """
        return await self._corrections.end_relationship(
            EndRelationshipRequest(
                external_id=validation.external_id(external_id),
                relationship_id=checks.relationship_id(relationship_id),
                end_date=validation.optional_moment("end_date", end_date),
                actor=validation.optional_identifier("actor", actor),
                source=validation.source(source),
            )
        )

    def _filter(
        self, types: Iterable[str] | None, at: datetime | None, min_confidence: float, limit: int = MAX_GRAPH_ENTITIES
    ) -> GraphFilter:
        return GraphFilter(
            relationship_types=checks.graph_types(types),
            at=validation.optional_moment("at", at),
            min_confidence=validation.share("min_confidence", min_confidence),
            max_entities=validation.whole_number("limit", limit, minimum=1, maximum=MAX_GRAPH_ENTITIES),
            now=self._clock(),
        )

    async def _read[T](self, operation: str, external_id: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the graph, once what has expired supports nothing in it: it has no clock of its own."""
        await self._expiry.record_due(external_id)
        return await repeated(ask, operation=operation, external_id=external_id)

    async def _resolve(self, external_id: str, entity: UUID | str) -> Entity:
        """The entity with an id or name, from the store that serves reads."""
        if isinstance(entity, UUID):
            found = await self._graph.find_entities(external_id, ids=[entity])
        else:
            found = await self._graph.find_entities(external_id, names=[entity])
        return only_one(found, external_id, entity)
