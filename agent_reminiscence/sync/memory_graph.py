# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.services.graph.memory_graph.MemoryGraph`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, overload
from uuid import UUID

from agent_reminiscence.config.constants import MAX_GRAPH_ENTITIES
from agent_reminiscence.domain.graph import (
    ANY_TYPE,
    Entity,
    GraphPath,
    GraphStep,
    GraphTriple,
    Property,
    Relationship,
    Subgraph,
)
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.sync.lifecycle import Twin

if TYPE_CHECKING:
    from agent_reminiscence.services.graph.memory_graph import MemoryGraph as AsyncMemoryGraph


class MemoryGraph(Twin):
    """`memory.admin.graph`: the entities that memories name, and how they are related.

    Consolidations fill it. Entity arguments take an id or one of the entity's names; a name shared by several entities
    is refused, and the error lists their ids. Reads go to Neo4j if it is configured, which may be a moment behind, and
    to PostgreSQL, which holds the same graph, while Neo4j is unavailable. The application's clock decides what has
    ended, whichever store is read.
    """

    _wrapped: AsyncMemoryGraph

    def entities(
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
        return self._thread.call(
            lambda: self._wrapped.entities(external_id, name=name, alike=alike, types=types, limit=limit)
        )

    def neighbourhood(
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
        return self._thread.call(
            lambda: self._wrapped.neighbourhood(
                external_id, entity, hops=hops, types=types, at=at, min_confidence=min_confidence, limit=limit
            )
        )

    def shortest_path(
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
        return self._thread.call(
            lambda: self._wrapped.shortest_path(
                external_id,
                from_entity,
                to_entity,
                max_hops=max_hops,
                types=types,
                at=at,
                min_confidence=min_confidence,
            )
        )

    @overload
    def match(
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
    def match(
        self,
        external_id: str | int | UUID,
        *,
        path: Sequence[GraphStep | tuple[str | None, str | None, str | None]],
        at: datetime | None = None,
        min_confidence: float = 0.0,
        limit: int = 100,
    ) -> list[GraphPath]: ...

    @overload
    def match(
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

    def match(
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
        return self._thread.call(
            lambda: self._wrapped.match(
                external_id,
                from_type,
                relationship_type,
                to_type,
                from_properties=from_properties,
                relationship_properties=relationship_properties,
                to_properties=to_properties,
                path=path,
                at=at,
                min_confidence=min_confidence,
                limit=limit,
            )
        )

    def subgraph(self, external_id: str | int | UUID, memory_id: UUID | str) -> Subgraph:
        """The entities that a memory's live chunks name, and how they are related today.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.subgraph(external_id, memory_id))

    def state_entity(
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
        return self._thread.call(
            lambda: self._wrapped.state_entity(
                external_id,
                name,
                entity_type,
                memory_id=memory_id,
                key=key,
                description=description,
                metadata=metadata,
                actor=actor,
                source=source,
                idempotency_key=idempotency_key,
            )
        )

    def state_relationship(
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
        return self._thread.call(
            lambda: self._wrapped.state_relationship(
                external_id,
                from_entity,
                relationship_type,
                to_entity,
                from_type=from_type,
                to_type=to_type,
                memory_id=memory_id,
                key=key,
                description=description,
                start_date=start_date,
                end_date=end_date,
                metadata=metadata,
                actor=actor,
                source=source,
                idempotency_key=idempotency_key,
            )
        )

    def merge(
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
        return self._thread.call(lambda: self._wrapped.merge(external_id, survivor, merged, actor=actor, source=source))

    def unmerge(
        self, external_id: str | int | UUID, entity_id: UUID | str, *, actor: str | None = None, source: Source = "user"
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
        return self._thread.call(lambda: self._wrapped.unmerge(external_id, entity_id, actor=actor, source=source))

    def end_relationship(
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
        return self._thread.call(
            lambda: self._wrapped.end_relationship(
                external_id, relationship_id, end_date=end_date, actor=actor, source=source
            )
        )
