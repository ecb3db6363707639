"""What a store of the graph answers, whichever database holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from agent_reminiscence.config.constants import MAX_GRAPH_ENTITIES, MAX_GRAPH_RELATIONSHIPS
from agent_reminiscence.domain.belief import StatedBelief
from agent_reminiscence.domain.graph import (
    Entity,
    GraphPath,
    GraphPattern,
    GraphTriple,
    Relationship,
    Subgraph,
)

# How many of an entity's relationships a query follows, strongest first.
GRAPH_FAN_OUT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFilter:
    """Which relationships a read follows, and how many.

    Attributes:
        relationship_types: Only these; None is any.
        at: Only those true in the world at that moment; None is those that have not ended by `now`.
        now: The caller's present; None uses the store's clock.
        min_confidence: Only those with at least this confidence, 0 to 1.
        fan_out: How many relationships of one entity are followed per hop, the strongest first.
    """

    relationship_types: Sequence[str] | None = None
    at: datetime | None = None
    now: datetime | None = None
    min_confidence: float = 0.0
    fan_out: int = GRAPH_FAN_OUT
    max_entities: int = MAX_GRAPH_ENTITIES
    max_relationships: int = MAX_GRAPH_RELATIONSHIPS


ANYTHING = GraphFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphHop:
    """One step of a path: what fits it, in the direction of the path. None is any.

    Attributes:
        along: Whether relationships that point along the path fit.
        against: Whether those that point against it do.
        from_ids: Canonical entities it may start from.
        to_ids: Canonical entities it may lead to.
    """

    relationship_types: Sequence[str] | None = None
    along: bool = True
    against: bool = False
    from_type: str | None = None
    to_type: str | None = None
    from_ids: Sequence[UUID] | None = None
    to_ids: Sequence[UUID] | None = None


@dataclass(frozen=True, slots=True)
class GraphDelta:
    """Changes for a store that follows: the states of what has changed, and the ids of what is gone."""

    entities: Sequence[Entity] = ()
    relationships: Sequence[Relationship] = ()
    removed_entities: Sequence[UUID | str] = ()
    removed_relationships: Sequence[UUID | str] = ()
    beliefs: Sequence[StatedBelief] = ()
    removed_beliefs: Sequence[UUID | str] = ()

    @property
    def rows(self) -> int:
        """How many states and ids there are."""
        return self.sent + self.removed

    @property
    def sent(self) -> int:
        """How many states there are."""
        return len(self.entities) + len(self.relationships) + len(self.beliefs)

    @property
    def removed(self) -> int:
        """How many ids of what is gone there are."""
        return len(self.removed_entities) + len(self.removed_relationships) + len(self.removed_beliefs)


@dataclass(frozen=True, slots=True)
class EntityOutline:
    """A canonical entity, with only its number of live mentions."""

    id: UUID
    mentions: int


@dataclass(frozen=True, slots=True)
class RelationshipOutline:
    """A relationship, with only its canonical ends and its strength, 0 to 1."""

    id: UUID
    from_id: UUID
    to_id: UUID
    strength: float


@dataclass(frozen=True, slots=True)
class GraphOutline:
    """What a `Subgraph` holds, in the same order, reduced to what its ranking needs."""

    entities: Sequence[EntityOutline]
    relationships: Sequence[RelationshipOutline]
    distances: Mapping[UUID, int]
    is_truncated: bool = False


class GraphStore(Protocol):
    """Reads the graph of one `external_id` at a time. Every list has the same order in every store."""

    async def find_entities(
        self,
        external_id: str,
        *,
        ids: Sequence[UUID] | None = None,
        names: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        limit: int = MAX_GRAPH_ENTITIES,
    ) -> list[Entity]:
        """Find entities by id (of a merged one: its canonical entity), by name or alias, and by type.

        All given criteria must match; None matches anything, an empty list nothing. Names are compared as folded by
        `name_key`. Most mentions first, then by id. Without ids and names, the mentions of all entities are read.
        """
        ...

    async def find_alike(
        self, external_id: str, name: str, *, types: Sequence[str] | None = None, limit: int = 10
    ) -> list[tuple[Entity, float]]:
        """Find entities with a name or alias similar to `name`, with the similarity by `rank_alike`.

        At most `ALIKE_COMPARED_NAMES` names are compared, those of the entities with most mentions.
        """
        ...

    async def find_relationships(
        self, external_id: str, *, ids: Sequence[UUID] | None = None, entity_ids: Sequence[UUID] | None = None
    ) -> list[Relationship]:
        """Find relationships by id, or between any two of some canonical entities; strongest first, then by id.

        None matches anything, but one of the two must be given. Includes ended ones; returns at most
        `MAX_GRAPH_RELATIONSHIPS`.
        """
        ...

    async def neighbourhood(
        self, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter = ANYTHING
    ) -> Subgraph:
        """Find what lies within this many hops of some entities, whichever way relationships point.

        An entity is added with the hop that first reaches it; all relationships between added entities are returned. If
        there are more than `max_entities`, those with the strongest relationships are added, then by id. The result
        also counts as truncated if an entity has more relationships than are followed, wherever they lead.
        """
        ...

    async def outline(
        self, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter = ANYTHING
    ) -> GraphOutline:
        """Select the same as `neighbourhood`, without the states, which take most of its time."""
        ...

    async def shortest_path(
        self, external_id: str, from_id: UUID, to_id: UUID, *, max_hops: int, where: GraphFilter = ANYTHING
    ) -> GraphPath | None:
        """Find a shortest path between two entities, whichever way relationships point; None if none is this short.

        Of several, the one whose entity ids, in order, come first; between two entities the strongest relationship,
        then by id. The caps and the fan-out of `where` do not apply.

        Raises:
            InvalidInputError: There are too many paths to check all of them.
        """
        ...

    async def match(
        self, external_id: str, pattern: GraphPattern, *, where: GraphFilter = ANYTHING, limit: int = 100
    ) -> list[GraphTriple]:
        """Find relationships that match a pattern, with their ends in their direction; strongest first, then by id."""
        ...

    async def match_paths(
        self, external_id: str, hops: Sequence[GraphHop], *, where: GraphFilter = ANYTHING, limit: int = 100
    ) -> list[GraphPath]:
        """Find paths of as many relationships as there are `hops`, on each of which no entity stands twice.

        Those whose first relationship is strongest come first, of equal ones that with the smaller id; then the second
        relationship decides, and so on. The fan-out and the types of `where` do not apply.

        Raises:
            InvalidInputError: Too many relationships, or too many paths, would have to be looked at.
        """
        ...

    async def read_beliefs(self, external_id: str) -> list[StatedBelief]:
        """Read everything that agents' reflections state, whether or not it counts; in order of position."""
        ...
