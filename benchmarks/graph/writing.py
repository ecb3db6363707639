"""Writes a synthetic graph as the application does: as memories and events, through their handlers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from agent_reminiscence import AgentMem
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.payloads import ChunkRating, GraphChanges, MemoryConsolidated
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest
from benchmarks.graph.world import World
from benchmarks.jobs import Server, Texts

_GENERATION = 1


@asynccontextmanager
async def open_store(server: Server, database: str) -> AsyncIterator[PostgresManager]:
    """The application's connections to `database`."""
    settings = ConnectionSettings(
        host=server.address.host, port=server.address.port, user=EMBEDDED_LOGIN, database=database
    )
    store = PostgresManager(settings, pool_size=4, pool_timeout_seconds=60, statement_timeout_seconds=120)
    await store.initialize()
    try:
        yield store
    finally:
        await store.close()


async def _keep_norms(db: SqlExecutor, external_id: str, memory_ids: Collection[UUID]) -> None:
    """A consolidation whose plan states no facts changes no text."""


class GraphWriter:
    """Records consolidations whose plans are made up; everything else is as in the application.

    Args:
        memory: Creates the memories that say what the plans contain.
        graph_follows: Whether each is work for a worker, because a store of graphs follows.
    """

    def __init__(self, memory: AgentMem, store: PostgresManager, texts: Texts, *, graph_follows: bool) -> None:
        self._memory = memory
        self._store = store
        self._texts = texts
        self._projector = Projector(Repositories(), _keep_norms, graph_follows=graph_follows)

    async def write(
        self, tenant: str, world: World, *, entities: int, relationships: int, is_long: bool = True
    ) -> tuple[Event, float, GraphChanges]:
        """One memory and its consolidation, and how many seconds the latter took, from the plan to the commit."""
        text = self._texts.long() if is_long else self._texts.short()
        made = await self._memory.create_active_memory(tenant, "Notes", text)
        history = await self._memory.admin.history(tenant, made.id)
        chunks = [chunk.id for chunk in history.versions[-1].chunks]
        changes = world.grow(entities, relationships, chunks=len(chunks))
        plan = MemoryConsolidated(
            memory_id=made.id,
            version=made.version,
            title="Notes",
            summary="",
            chunks=tuple(ChunkRating(id=chunk_id, importance=0.5, confidence=0.5) for chunk_id in chunks),
            embedding_generation=_GENERATION,
            graph=changes,
        )
        started = time.perf_counter()
        event = await self._record(tenant, plan)
        return event, time.perf_counter() - started, changes

    async def _record(self, tenant: str, plan: MemoryConsolidated) -> Event:
        now = datetime.now(UTC)
        request = WriteRequest(external_id=tenant, occurred_at=now)
        async with self._store.transaction(tenant) as db:
            await self._projector.begin(db, request)
            event = request.event(EventKind.CONSOLIDATED, plan.model_dump(mode="json"), now)
            return await self._projector.record(db, event)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one event of a load added, what it named in all, and how long it took."""

    entities: int
    relationships: int
    named_entities: int
    named_relationships: int
    seconds: float


async def load(
    writer: GraphWriter, tenant: str, world: World, *, entities: int, relationships: int, batch: int
) -> list[Batch]:
    """Fill a tenant's graph, so many new entities in each event, with their share of the relationships."""
    batches: list[Batch] = []
    while world.entities < entities:
        new = min(batch, entities - world.entities)
        joined = round(relationships * (world.entities + new) / entities) - world.relationships
        _, seconds, changes = await writer.write(tenant, world, entities=new, relationships=joined)
        batches.append(Batch(new, joined, len(changes.entities), len(changes.relationships), seconds))
        if len(batches) % 10 == 0:
            print(f"  {world.entities:,} entities: {summarise(batches[-10:])}", flush=True)
    return batches


def summarise(batches: list[Batch]) -> dict[str, Any]:
    """How fast some batches were written."""
    seconds = sum(batch.seconds for batch in batches)
    return {
        "seconds": round(seconds, 1),
        "new_per_second": round(sum(batch.entities + batch.relationships for batch in batches) / seconds),
        "named_per_second": round(sum(batch.named_entities + batch.named_relationships for batch in batches) / seconds),
    }


@dataclass(slots=True)
class Pace:
    """Writes at a steady rate: a write that is late does not make the next one late."""

    per_second: float
    seconds: float

    async def beats(self) -> AsyncIterator[int]:
        """Numbers from 0, each when its time has come, until the time is over."""
        started = time.perf_counter()
        for number in range(round(self.per_second * self.seconds)):
            await asyncio.sleep(max(0.0, started + number / self.per_second - time.perf_counter()))
            yield number
