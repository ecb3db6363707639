"""Synthetic entities and relationships with a few hubs, in the order memories would name them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.config.constants import ENTITY_TYPES, RELATIONSHIP_TYPES
from agent_reminiscence.domain.payloads import EntityEntry, GraphChanges, RelationshipEntry

# People and places are named more often than documents; the types stand in that order.
_TYPE_WEIGHTS = tuple(1 / rank for rank in range(1, len(ENTITY_TYPES) + 1))
_COLOURS = ("red", "green", "blue", "white")
_ALIAS_SHARE = 0.1
_METADATA_SHARE = 0.1
# Of the relationships that a batch says, so many more were said before.
_SAID_AGAIN_SHARE = 0.05
_SYLLABLES = tuple(consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou")


class World:
    """The entities of one tenant. Each newcomer has to do with some that are there, mostly with those that have most.

    So a few become hubs (preferential attachment). The structure comes from a seed, the ids do not.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._entities: dict[UUID, EntityEntry] = {}
        self._relationships: list[RelationshipEntry] = []
        self._names: set[str] = set()
        # Every entity as often as it is the end of a relationship.
        self._ends: list[UUID] = []

    def grow(self, entities: int, relationships: int, *, chunks: int) -> GraphChanges:
        """What a memory of so many chunks says that names so many new entities and so many new relationships.

        Some relationships are said again, and all ends of relationships are named, so old entities are in it, too.
        """
        new = [self._make_entity() for _ in range(entities)]
        said = [self._make_relationship(new[index % len(new)]) for index in range(relationships)]
        if self._relationships:
            again = self._random.sample(
                self._relationships, k=min(len(self._relationships), round(relationships * _SAID_AGAIN_SHARE))
            )
            said += again
        self._relationships += said[:relationships]
        told = [entry.model_copy(update={"chunks": (self._random.randrange(chunks),)}) for entry in said]
        return GraphChanges(entities=tuple(self._named(new, told, chunks)), relationships=tuple(told))

    def _named(self, new: Iterable[UUID], told: Iterable[RelationshipEntry], chunks: int) -> Iterable[EntityEntry]:
        """Those that are new and the ends of what is told, each with the chunks that name it."""
        passages: dict[UUID, set[int]] = {entity_id: set() for entity_id in new}
        for entry in told:
            for end in (entry.from_id, entry.to_id):
                passages.setdefault(end, set()).update(entry.chunks)
        for entity_id, found in passages.items():
            where = tuple(sorted(found)) or (self._random.randrange(chunks),)
            yield self._entities[entity_id].model_copy(update={"chunks": where})

    def _make_entity(self) -> UUID:
        name = self._make_name()
        entry = EntityEntry(
            id=uuid7(),
            name=name,
            type=self._random.choices(ENTITY_TYPES, weights=_TYPE_WEIGHTS)[0],
            confidence=round(self._random.uniform(0.3, 0.9), 3),
            importance=round(self._random.random(), 3),
            aliases=(self._make_name(),) if self._random.random() < _ALIAS_SHARE else (),
            metadata={"colour": self._random.choice(_COLOURS)} if self._random.random() < _METADATA_SHARE else {},
            chunks=(),
        )
        self._entities[entry.id] = entry
        return entry.id

    def _make_name(self) -> str:
        while True:
            words = ["".join(self._random.choices(_SYLLABLES, k=self._random.randint(2, 3))) for _ in range(2)]
            name = " ".join(words).title()
            if name not in self._names:
                self._names.add(name)
                return name

    def _make_relationship(self, newcomer: UUID) -> RelationshipEntry:
        other = newcomer
        while other == newcomer:
            # The first ones have nobody to choose from by what they have.
            other = self._random.choice(self._ends or list(self._entities))
        ends = [newcomer, other]
        self._ends += ends
        self._random.shuffle(ends)
        return RelationshipEntry(
            id=uuid7(),
            from_id=ends[0],
            to_id=ends[1],
            type=self._random.choice(RELATIONSHIP_TYPES),
            confidence=round(self._random.uniform(0.2, 0.9), 3),
            importance=round(self._random.random(), 3),
            chunks=(),
        )

    @property
    def entities(self) -> int:
        """How many entities there are."""
        return len(self._entities)

    @property
    def relationships(self) -> int:
        """How many relationships there are."""
        return len(self._relationships)

    def hubs(self, count: int) -> list[UUID]:
        """The entities with most relationships."""
        return [entity_id for entity_id, _ in Counter(self._ends).most_common(count)]

    def degrees(self, entity_ids: Iterable[UUID]) -> list[int]:
        """How many relationships each of some entities has."""
        counted = Counter(self._ends)
        return [counted[entity_id] for entity_id in entity_ids]

    def some(self, count: int) -> list[UUID]:
        """So many entities, those with many relationships more often."""
        return self._random.choices(self._ends, k=count)

    def names_of(self, entity_ids: Iterable[UUID]) -> list[str]:
        """The names of some entities."""
        return [self._entities[entity_id].name for entity_id in entity_ids]

    def types_of(self, entity_ids: Iterable[UUID]) -> list[str]:
        """The types of some entities."""
        return [self._entities[entity_id].type for entity_id in entity_ids]

    def misspelled(self, entity_ids: Iterable[UUID]) -> list[str]:
        """The names of some entities, each with one letter in the middle left out."""
        return [name[: len(name) // 2] + name[len(name) // 2 + 1 :] for name in self.names_of(entity_ids)]

    def unknown_names(self, count: int) -> Sequence[str]:
        """Names that nobody has."""
        return [self._make_name() for _ in range(count)]
