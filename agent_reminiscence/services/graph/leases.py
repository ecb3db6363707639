"""The lease of one process to send a tenant's changes to Neo4j."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from agent_reminiscence.database.repositories.graph.neo4j import Lease
from agent_reminiscence.database.repositories.graph.progress import GraphProgress
from agent_reminiscence.database.repositories.graph.store import GraphDelta
from agent_reminiscence.domain.belief import StatedBelief
from agent_reminiscence.domain.graph import Entity, Relationship
from agent_reminiscence.services.graph.comparison import BELIEF_TABLE, ENTITY_TABLE, Difference

# Half a second of work for a warm server; one that has just started is slower, and there is a timeout.
PART_ROWS = 500


class OvertakenError(Exception):
    """Neo4j is not in the expected state: another process has followed meanwhile, or something is missing there."""


@dataclass(slots=True)
class Batch:
    """What to send next."""

    entities: list[Entity] = field(default_factory=list)
    relationships: list[Relationship] = field(default_factory=list)
    removed_relationships: list[str] = field(default_factory=list)
    beliefs: list[StatedBelief] = field(default_factory=list)
    removed_beliefs: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many rows are to be sent."""
        return self._delta().rows

    def take(self) -> GraphDelta:
        """Everything in the batch, which is then empty."""
        delta = self._delta()
        self.entities, self.relationships, self.removed_relationships = [], [], []
        self.beliefs, self.removed_beliefs = [], []
        return delta

    def _delta(self) -> GraphDelta:
        return GraphDelta(
            entities=self.entities,
            relationships=self.relationships,
            removed_relationships=self.removed_relationships,
            beliefs=self.beliefs,
            removed_beliefs=self.removed_beliefs,
        )


class OpenLease:
    """A held lease under which parts are sent one after another."""

    def __init__(self, lease: Lease, apply: Callable[..., Awaitable[None]]) -> None:
        self.lease = lease
        self._apply = apply
        self._renewed = time.monotonic()

    async def send(self, delta: GraphDelta) -> None:
        """Apply some changes."""
        await self._apply(delta)
        self._renewed = time.monotonic()

    async def renew(self) -> None:
        """Renew the lease if the last renewal was long ago."""
        if time.monotonic() - self._renewed > self.lease.seconds / 3:
            await self.send(GraphDelta())

    async def end(self, delta: GraphDelta, seen: GraphProgress) -> None:
        """Apply the last changes and note how far Neo4j has followed."""
        await self._apply(delta, position=seen.head, chain=seen.chain)


def sort_in(batch: Batch, gone: list[str], difference: Difference) -> None:
    """Add to a batch what mends a difference; entities that are to go are added to `gone`."""
    ours = difference.ours
    if isinstance(ours, Entity):
        batch.entities.append(ours)
    elif isinstance(ours, Relationship):
        batch.relationships.append(ours)
    elif isinstance(ours, StatedBelief):
        batch.beliefs.append(ours)
    elif difference.table == BELIEF_TABLE:
        batch.removed_beliefs.append(difference.key)
    elif difference.table == ENTITY_TABLE:
        gone.append(difference.key)
    else:
        batch.removed_relationships.append(difference.key)


def parts_of(delta: GraphDelta) -> list[GraphDelta]:
    """A delta in parts of one transaction each; entities are added before relationships and deleted after them."""
    if delta.rows <= PART_ROWS:
        return [delta]
    return [
        *(GraphDelta(removed_beliefs=ids) for ids in slices(delta.removed_beliefs)),
        *(GraphDelta(beliefs=items) for items in slices(delta.beliefs)),
        *(GraphDelta(removed_relationships=ids) for ids in slices(delta.removed_relationships)),
        *(GraphDelta(entities=items) for items in slices(delta.entities)),
        *(GraphDelta(relationships=items) for items in slices(delta.relationships)),
        *(GraphDelta(removed_entities=ids) for ids in slices(delta.removed_entities)),
    ]


def slices[T](items: Sequence[T]) -> list[Sequence[T]]:
    """Items in parts of at most `PART_ROWS`."""
    return [items[start : start + PART_ROWS] for start in range(0, len(items), PART_ROWS)]
