"""Fills a graph as the application does: by memories and events, and in no second way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence import AgentMem
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.payloads import (
    ChunkRating,
    EntityEntry,
    GraphChanges,
    MemoryConsolidated,
    MemoryPromoted,
    Promotion,
    RelationshipEntry,
)
from tests.support.factories import LONG_AGO, record_event


def day(number: int) -> datetime:
    """So many days after `LONG_AGO`."""
    return LONG_AGO + timedelta(days=number)


class GraphScene:
    """The graph of one tenant. Memories are one chunk long and name nothing by themselves; plans are a test's own."""

    def __init__(self, memory: AgentMem, external_id: str) -> None:
        self.memory = memory
        self.external_id = external_id
        self.entities: dict[UUID, EntityEntry] = {}
        self.relationships: dict[UUID, RelationshipEntry] = {}
        self._memories = 0

    @property
    def store(self) -> PostgresManager:
        """What the memory's own connections come from."""
        return self.memory._ready().stores.postgres

    def entity(self, name: str, type: str = "person", **changes: Any) -> UUID:
        """An entity that the next `tell` may name; nothing is stored yet."""
        fields: dict[str, Any] = {"confidence": 0.5, "importance": 0.5, "chunks": (0,)}
        entry = EntityEntry(id=uuid7(), name=name, type=type, **(fields | changes))
        self.entities[entry.id] = entry
        return entry.id

    def relationship(self, from_id: UUID, to_id: UUID, type: str = "knows", **changes: Any) -> UUID:
        """A relationship that the next `tell` may name; nothing is stored yet."""
        fields: dict[str, Any] = {"confidence": 0.5, "importance": 0.5, "chunks": (0,)}
        entry = RelationshipEntry(id=uuid7(), from_id=from_id, to_id=to_id, type=type, **(fields | changes))
        self.relationships[entry.id] = entry
        return entry.id

    async def tell(self, *items: UUID, times: int = 1, on: datetime = LONG_AGO) -> list[UUID]:
        """Have so many new memories name some entities, and say some relationships with both of their ends.

        Returns:
            The memories.
        """
        said = [self.relationships[item] for item in items if item in self.relationships]
        named = [item for item in items if item in self.entities]
        for entry in said:
            named += [entry.from_id, entry.to_id]
        changes = GraphChanges(
            entities=tuple(self.entities[item] for item in dict.fromkeys(named)), relationships=tuple(said)
        )
        return [await self._remember(changes, on) for _ in range(times)]

    async def _remember(self, changes: GraphChanges, on: datetime) -> UUID:
        self._memories += 1
        made = await self.memory.create_active_memory(
            self.external_id, "House", f"the plant on shelf {self._memories} needs water", occurred_at=on
        )
        plan = MemoryConsolidated(
            memory_id=made.id,
            version=1,
            title="House",
            summary="",
            chunks=tuple(ChunkRating(id=id_, importance=0.5, confidence=0.5) for id_ in await self.chunks(made.id)),
            embedding_generation=1,
            graph=changes,
        )
        await record_event(self.memory, self.external_id, EventKind.CONSOLIDATED, plan, occurred_at=on)
        return made.id

    async def chunks(self, *memory_ids: UUID) -> list[UUID]:
        """The chunks of some memories, in order."""
        found: list[UUID] = []
        for memory_id in memory_ids:
            history = await self.memory.admin.history(self.external_id, memory_id)
            found += [chunk.id for chunk in history.versions[-1].chunks]
        return found

    async def join(self, *pairs: tuple[UUID, UUID]) -> list[UUID]:
        """Relationships between some entities, each said once, in the order of their ids."""
        edges = [self.relationship(from_id, to_id) for from_id, to_id in pairs]
        await self.tell(*edges)
        return edges

    async def people(self, *names: str) -> list[UUID]:
        """Entities of which each was named once, in the order of their ids."""
        found = [self.entity(name) for name in names]
        await self.tell(*found)
        return found

    async def promote(self, memory_ids: Sequence[UUID]) -> None:
        """Make the chunks of some memories longterm."""
        for memory_id in memory_ids:
            promotions = tuple(
                Promotion(id=chunk_id, importance=0.9, confidence=0.9, start_date=LONG_AGO)
                for chunk_id in await self.chunks(memory_id)
            )
            plan = MemoryPromoted(memory_id=memory_id, threshold=0.7, chunks=promotions)
            await record_event(self.memory, self.external_id, EventKind.PROMOTED, plan)

    async def end_chunks(self, memory_id: UUID, *, on: datetime) -> None:
        """What a memory says is no longer true."""
        await self.memory.admin.archive(self.external_id, memory_id, end_chunks=True, occurred_at=on)

    async def erase(self, memory_id: UUID) -> None:
        """Erase a memory."""
        await self.memory.admin.erase(self.external_id, memory_id=memory_id)
