"""The knowledge graph of one tenant, over its memory.

What the tools read is in the memories alone, of which each write changes one: so two clients at once lose nothing, and
`items` says how they look. The memory's own graph is told the same, where it can hold it, for recall
and for whoever looks at it there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import batched
from typing import Final

from agent_reminiscence.config.constants import MAX_GRAPH_TYPE_CHARACTERS
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.filter import MAX_VALUES, Filter
from agent_reminiscence.domain.graph import ANY_TYPE
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import (
    InvalidInputError,
    MemoryExistsError,
    MemoryNotFoundError,
    VersionConflictError,
)
from agent_reminiscence.server.mcp.knowledge_graph import items
from agent_reminiscence.server.mcp.knowledge_graph.models import Added, Addition, Deletion, Entity, Graph, Relation

_SOURCE: Final[Source] = "agent"
# Each time, somebody else has changed the same entity: so many can hardly be in the way of one.
_ATTEMPTS: Final = 100


class UnknownEntityError(Exception):
    """There is no entity of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Entity with name {name} not found")


class KnowledgeGraph:
    """The knowledge graph of one tenant.

    Of several changes in one call, those before a failure stay; the call may be repeated.

    Args:
        actor: Who writes.
    """

    def __init__(self, memory: AgentMem, external_id: str, *, actor: str | None = None) -> None:
        self._memory = memory
        self._tenant = external_id
        self._actor = actor

    async def read(self) -> Graph:
        """All of it."""
        return items.graph_of(await self._memory.get_active_memories(self._tenant, key_prefix=items.KEY_PREFIX))

    async def search(self, query: str) -> Graph:
        """Entities with the query in their name, type or an observation, and all relations of these."""
        graph, sought = await self.read(), query.lower()
        entities = [
            entity
            for entity in graph.entities
            if any(sought in text.lower() for text in (entity.name, entity.entity_type, *entity.observations))
        ]
        names = {entity.name for entity in entities}
        relations = [one for one in graph.relations if one.from_ in names or one.to in names]
        return Graph(entities=entities, relations=relations)

    async def open(self, names: Sequence[str]) -> Graph:
        """Entities by their names, and all relations of these."""
        entities = items.graph_of(await self._find(names)).entities
        touching = await self._find_touching([entity.name for entity in entities])
        return Graph(entities=entities, relations=items.graph_of(touching).relations)

    async def create_entities(self, entities: Sequence[Entity]) -> list[Entity]:
        """Create those whose names are new; returned as they are stored."""
        created = []
        for entity in [await self._without_secrets(entity) for entity in entities]:
            try:
                memory = await self._memory.create_active_memory(
                    self._tenant,
                    items.title_of(entity.name),
                    items.entity_text(entity),
                    metadata=items.entity_metadata(entity),
                    actor=self._actor,
                    source=_SOURCE,
                    key=items.entity_key(entity.name),
                )
            except MemoryExistsError:
                continue
            await self._state_entity(memory, entity)
            created.append(entity)
        return created

    async def create_relations(self, relations: Sequence[Relation]) -> list[Relation]:
        """Create those that are new."""
        for relation in relations:
            await self._check_names(relation.from_, relation.to, relation.relation_type)
        types = await self._types_of(relations)
        created = []
        for relation in relations:
            try:
                memory = await self._memory.create_active_memory(
                    self._tenant,
                    items.title_of(relation.from_),
                    items.relation_text(relation),
                    metadata=items.relation_metadata(relation),
                    actor=self._actor,
                    source=_SOURCE,
                    key=items.relation_key(relation),
                )
            except MemoryExistsError:
                continue
            await self._state_relation(memory, relation, types)
            created.append(relation)
        return created

    async def add_observations(self, additions: Sequence[Addition]) -> list[Added]:
        """Add to each entity what it does not have yet.

        Raises:
            UnknownEntityError: One is of no entity; nothing is added. If somebody deletes it meanwhile, what was added
                to others before it stays.
        """
        stored = [one.model_copy(update={"contents": await self._redacted(one.contents)}) for one in additions]
        known = {entity.name for entity in items.graph_of(await self._find(one.entity_name for one in stored)).entities}
        if unknown := [one.entity_name for one in stored if one.entity_name not in known]:
            raise UnknownEntityError(unknown[0])
        added: dict[int, list[str]] = {}
        for name in dict.fromkeys(one.entity_name for one in stored):
            own = {place: one.contents for place, one in enumerate(stored) if one.entity_name == name}
            if not await self._change(name, partial(_extended, own, added)):
                raise UnknownEntityError(name)
        return [Added(entity_name=one.entity_name, added_observations=added[place]) for place, one in enumerate(stored)]

    async def delete_observations(self, deletions: Sequence[Deletion]) -> None:
        """Take observations from entities; what is not there is passed over."""
        for name in dict.fromkeys(one.entity_name for one in deletions):
            given = [text for one in deletions if one.entity_name == name for text in one.observations]
            gone = {*given, *await self._redacted(given)}
            await self._change(name, partial(_without, gone))

    async def delete_entities(self, names: Sequence[str]) -> None:
        """Delete entities, and all relations of these names."""
        for relation in await self._find_touching(names):
            await self._end(relation)
        for entity in await self._find(names):
            await self._end(entity)

    async def delete_relations(self, relations: Sequence[Relation]) -> None:
        """Delete relations; what is not there is passed over."""
        for relation in await self._read([items.relation_key(relation) for relation in relations]):
            await self._end(relation)

    async def _find(self, names: Iterable[str]) -> list[ActiveMemory]:
        """The memories of entities, in the order of their creation."""
        return await self._read([items.entity_key(name) for name in names])

    async def _read(self, keys: Sequence[str]) -> list[ActiveMemory]:
        found: list[ActiveMemory] = []
        for some in batched(dict.fromkeys(keys), MAX_VALUES):
            found += await self._memory.get_active_memories(self._tenant, keys=some)
        return _in_order(found)

    async def _find_touching(self, names: Sequence[str]) -> list[ActiveMemory]:
        """The memories of relations that have one of these names at an end."""
        found: dict[str, ActiveMemory] = {}
        for some in batched(dict.fromkeys(map(items.name_id, names)), MAX_VALUES):
            where = Filter(metadata={items.ENDS: {"$in": list(some)}})
            touching = await self._memory.get_active_memories(self._tenant, key_prefix=items.KEY_PREFIX, where=where)
            found |= {str(memory.id): memory for memory in touching}
        return _in_order(found.values())

    async def _change(self, name: str, change: Callable[[list[str]], list[str]]) -> bool:
        """Change the observations of an entity as it is by then; False if there is none.

        Args:
            change: Returns the new ones. It is called again if somebody else was faster.
        """
        for attempt in range(_ATTEMPTS):
            memory = next(iter(await self._find([name])), None)
            entity = None if memory is None else items.entity_of(memory)
            if memory is None or entity is None:
                return False
            changed = entity.model_copy(update={"observations": change(entity.observations)})
            if changed == entity:
                return True
            try:
                written = await self._memory.update_active_memory(
                    self._tenant,
                    memory.id,
                    content=items.entity_text(changed),
                    metadata=memory.metadata | items.entity_metadata(changed),
                    actor=self._actor,
                    source=_SOURCE,
                    expected_version=memory.version,
                )
            except (VersionConflictError, MemoryNotFoundError):
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            except InvalidInputError:
                if await self._is_current(memory):
                    raise
                # It was deleted meanwhile, and may have been created anew.
                continue
            await self._state_entity(written, changed)
            return True
        return False

    async def _is_current(self, memory: ActiveMemory) -> bool:
        return bool(await self._memory.get_active_memories(self._tenant, ids=[memory.id]))

    async def _end(self, memory: ActiveMemory) -> None:
        # It may be erased by now.
        with suppress(MemoryNotFoundError):
            await self._memory.admin.archive(self._tenant, memory.id, end_chunks=True, actor=self._actor)

    async def _without_secrets(self, entity: Entity) -> Entity:
        """An entity as it can be stored.

        Raises:
            InvalidInputError: Its name or type looks like a secret.
        """
        await self._check_names(entity.name, entity.entity_type)
        return entity.model_copy(update={"observations": await self._redacted(entity.observations)})

    async def _check_names(self, *names: str) -> None:
        if await self._redacted(names) != list(names):
            raise InvalidInputError(
                "a name or type looks like a secret, and they are what entities and relations are found by; use others,"
                " and put no secrets in them"
            )

    async def _redacted(self, texts: Sequence[str]) -> list[str]:
        """Texts without secrets, as the memory would store them; so that they can be compared with what it has."""
        if not texts:
            return []
        redacted = await self._memory.ledger.redacted({"texts": items.stored(list(texts))})
        found: list[str] = items.given(redacted["texts"])
        return found

    async def _state_entity(self, memory: ActiveMemory, entity: Entity) -> None:
        # The memory's graph refuses a name of more than 500 characters, for one; and somebody may have deleted it.
        with suppress(InvalidInputError, MemoryNotFoundError):
            await self._memory.admin.graph.state_entity(
                self._tenant,
                entity.name,
                _graph_type(entity.entity_type),
                memory_id=memory.id,
                actor=self._actor,
                source=_SOURCE,
            )

    async def _state_relation(self, memory: ActiveMemory, relation: Relation, types: dict[str, str]) -> None:
        with suppress(InvalidInputError, MemoryNotFoundError):
            await self._memory.admin.graph.state_relationship(
                self._tenant,
                relation.from_,
                relation.relation_type,
                relation.to,
                from_type=_graph_type(types.get(relation.from_, "")),
                to_type=_graph_type(types.get(relation.to, "")),
                memory_id=memory.id,
                actor=self._actor,
                source=_SOURCE,
            )

    async def _types_of(self, relations: Sequence[Relation]) -> dict[str, str]:
        """The types of the entities between which relations are, by their names."""
        found = await self._find(name for relation in relations for name in (relation.from_, relation.to))
        return {entity.name: entity.entity_type for entity in items.graph_of(found).entities}


def _extended(
    additions: Mapping[int, Sequence[str]], added: dict[int, list[str]], observations: list[str]
) -> list[str]:
    """Observations with some more.

    Args:
        added: Set to what each addition adds; what is twice in one is added twice, as the reference server does it.
    """
    for place, contents in additions.items():
        added[place] = [one for one in contents if one not in observations]
        observations = [*observations, *added[place]]
    return observations


def _without(gone: Container[str], observations: Sequence[str]) -> list[str]:
    return [one for one in observations if one not in gone]


def _in_order(memories: Iterable[ActiveMemory]) -> list[ActiveMemory]:
    """Memories as they are listed: oldest first."""
    return sorted(memories, key=lambda memory: (memory.created_at, memory.id))


def _graph_type(type_: str) -> str:
    """A type as the memory's graph takes it."""
    is_one = len(type_) <= MAX_GRAPH_TYPE_CHARACTERS and "\0" not in type_ and any(map(str.isalnum, type_))
    return type_ if is_one else ANY_TYPE
