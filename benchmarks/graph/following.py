"""Measures Neo4j's lag: while it is filled, under steady writes, and after an outage."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.database.neo4j_manager import Neo4jManager
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.redaction.redactor import DefaultRedactor
from agent_reminiscence.resilience.breaker import Breaker
from agent_reminiscence.services.graph.follower import GraphFollower
from agent_reminiscence.services.ledger.scrubber import Scrubber
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.telemetry import Telemetry
from benchmarks.common import Timing
from benchmarks.graph.world import World
from benchmarks.graph.writing import GraphWriter, Pace
from benchmarks.jobs import Server, Texts
from tests.support.neo4j_server import Neo4jAddress, Neo4jServer

# How often Neo4j is asked for its position: what is measured is so much too long at most.
_LOOK_SECONDS = 0.01
_PATIENCE_SECONDS = 300.0
# A small memory: half of the entities it names are new.
_NAMED = 10
_SAID = 10

_COMMITS = """
SELECT position, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 AS at
FROM reminiscence.memory_event
WHERE external_id = $(tenant)p AND kind = 'memory.consolidated' AND position > $(after)p::bigint
ORDER BY position
"""


@asynccontextmanager
async def connected(address: Neo4jAddress, manager: type[Neo4jManager] = Neo4jManager) -> AsyncIterator[Neo4jManager]:
    """Connections to Neo4j."""
    opened = manager(
        address.uri,
        user=address.user,
        password=address.password,
        database=address.database,
        pool_size=4,
        timeout_seconds=30,
    )
    await opened.initialize()
    try:
        yield opened
    finally:
        await opened.close()


def follower_of(store: PostgresManager, neo4j: Neo4jManager) -> GraphFollower:
    """Brings this Neo4j up to PostgreSQL, when it is told to."""
    return GraphFollower(
        Runtime(store, Repositories(), lambda: datetime.now(UTC), Scrubber(DefaultRedactor()), Telemetry()),
        Neo4jGraph(neo4j),
        Breaker("Neo4j"),
    )


@dataclass(slots=True)
class _Watch:
    """Notes when Neo4j has reached which position, by the clock of the machine."""

    graph: Neo4jGraph
    tenant: str
    seen: list[tuple[int, float]] = field(default_factory=list)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Look until the end of the block."""
        task = asyncio.create_task(self._look())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            try:
                position = await self.graph.position(self.tenant)
            except StoreError:
                position = None
            # Below zero somebody is at work for longer than one transaction.
            if position is not None and position >= 0 and (not self.seen or position > self.seen[-1][0]):
                self.seen.append((position, time.time()))
                self._moved.set()
            await asyncio.sleep(_LOOK_SECONDS)

    async def reaches(self, position: int) -> float:
        """Wait until Neo4j is there, and say when that was."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not self.seen or self.seen[-1][0] < position:
                await self._moved.wait()
                self._moved.clear()
        return self.applied_at(position)

    def applied_at(self, position: int) -> float:
        """When Neo4j was first seen at `position` or behind it."""
        return self.seen[bisect_left(self.seen, (position, 0.0))][1]


@dataclass(slots=True)
class Steady:
    """Writes at a steady rate with a worker in the process, and what Neo4j makes of it."""

    server: Server
    database: str
    store: PostgresManager
    neo4j: Neo4jServer
    graph: Neo4jGraph
    texts: Texts
    tenant: str
    world: World

    async def measure_lag(self, pace: Pace) -> dict[str, Any]:
        """From each commit until Neo4j holds it, and how many consolidations it is behind at each commit."""
        async with self._memory_with_worker() as writer:
            watch = _Watch(self.graph, self.tenant)
            async with watch.going_on():
                # The first one waits for the worker's own start.
                first = await self._write(writer)
                await watch.reaches(first)
                started = time.perf_counter()
                last = await self._write_steadily(writer, pace)
                seconds = time.perf_counter() - started
                await watch.reaches(last)
        commits = await self._commits(first)
        applied = [watch.applied_at(position) for position, _ in commits]
        lags = [there - committed for there, (_, committed) in zip(applied, commits, strict=True)]
        behind = [
            sum(there > committed for there in applied[: number + 1]) for number, (_, committed) in enumerate(commits)
        ]
        return {
            "consolidations": len(commits),
            "per_second": round(len(commits) / seconds, 2),
            "lag": Timing.of(lags),
            "max_ms": round(1000 * max(lags)),
            "events_p50": sorted(behind)[len(behind) // 2],
            "events_p95": sorted(behind)[int(len(behind) * 0.95)],
            "events_max": max(behind),
        }

    async def measure_outage(self, pace: Pace) -> dict[str, Any]:
        """How long Neo4j takes to hold what was written while it was away."""
        async with self._memory_with_worker() as writer:
            watch = _Watch(self.graph, self.tenant)
            async with watch.going_on():
                await watch.reaches(await self._write(writer))
                await asyncio.to_thread(self.neo4j.stop)
                last = await self._write_steadily(writer, pace)
                starting = time.time()
                await asyncio.to_thread(self.neo4j.start)
                started = time.time()
                caught_up = await watch.reaches(last)
        return {
            "away_seconds": pace.seconds,
            "start_seconds": round(started - starting, 1),
            "caught_up_seconds": round(caught_up - started, 1),
        }

    @asynccontextmanager
    async def _memory_with_worker(self) -> AsyncIterator[GraphWriter]:
        address = self.neo4j.address
        settings: dict[str, Any] = {
            "neo4j_uri": address.uri,
            "neo4j_user": address.user,
            "neo4j_password": address.password,
            "neo4j_database": address.database,
        }
        async with self.server.memory(self.database, worker=True, **settings) as memory:
            yield GraphWriter(memory, self.store, self.texts, graph_follows=True)

    async def _write(self, writer: GraphWriter) -> int:
        event, _, _ = await writer.write(
            self.tenant, self.world, entities=_NAMED // 2, relationships=_SAID, is_long=False
        )
        return event.position

    async def _write_steadily(self, writer: GraphWriter, pace: Pace) -> int:
        last = 0
        async for _ in pace.beats():
            last = await self._write(writer)
        return last

    async def _commits(self, after: int) -> list[tuple[int, float]]:
        """Positions of the consolidations behind `after`, and when each was committed."""
        admin = await open_connection(self.server.administrator(self.database))
        try:
            rows = await admin.fetch_all(_COMMITS, {"tenant": self.tenant, "after": after})
        finally:
            admin.close()
        return [(row["position"], row["at"]) for row in rows]
