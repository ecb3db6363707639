"""Fills a separate database: rows by COPY, then the embedding cache, then the cells of large tenants."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_DATABASE, EMBEDDED_LOGIN
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres, ServerAddress
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.vector_cell import VectorCellRepository
from agent_reminiscence.services.vectors.cells import CELL_MIN_CHUNKS, CellService
from benchmarks.scale.corpus import Tenant, in_batches, write_batch

# Connections, and processes that make rows. More than the machine has cores gain nothing.
_WORKERS = 2
# For the load only; what is measured afterwards is a server with the settings that the package gives it.
_LOAD_SETTINGS = {
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "8GB",
    "shared_buffers": "2GB",
    "synchronous_commit": "off",
    "work_mem": "256MB",
}
_SEARCH_PATH = "SET search_path = reminiscence, public; SET jit = off"
_PARTITIONS = """
SELECT c.relname AS chunks, replace(c.relname, 'memory_chunk', 'chunk_vector_1') AS vectors,
    replace(c.relname, 'memory_chunk', 'memory_heading') AS headings
FROM pg_inherits AS h
JOIN pg_class AS c ON c.oid = h.inhrelid
WHERE h.inhparent = 'memory_chunk'::regclass
ORDER BY c.relname
"""
_FILL_CACHE = """
INSERT INTO embedding_cache (external_id, model_name, text_hash, vector)
SELECT v.external_id, g.model_name, t.text_hash, v.vector
FROM {vectors} AS v
JOIN (
    SELECT external_id, number, text_hash FROM {chunks}
    UNION ALL
    SELECT external_id, number, text_hash FROM {headings}
) AS t USING (external_id, number)
JOIN embedding_generation AS g ON g.state = 'current'
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Phase:
    """What took how long, and how busy the machine was before and after (load average over a minute)."""

    name: str
    seconds: float
    load_before: float
    load_after: float


@dataclass(slots=True)
class Phases:
    """Takes times and shows what is going on."""

    done: list[Phase] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a block."""
        before, started = os.getloadavg()[0], time.perf_counter()
        yield
        self.done.append(Phase(name, round(time.perf_counter() - started, 2), before, os.getloadavg()[0]))
        say(f"  {name}: {self.done[-1].seconds:,.1f} s (load {before:.1f} to {self.done[-1].load_after:.1f})")

    def seconds(self, name: str) -> float:
        """How long something took."""
        return sum(phase.seconds for phase in self.done if phase.name == name)


def say(line: str) -> None:
    """Tell who waits; the tables alone go to standard output."""
    print(line, file=sys.stderr, flush=True)


def administrator(address: ServerAddress) -> ConnectionSettings:
    """The server's superuser, whom no policy keeps from any row."""
    return ConnectionSettings(host=address.host, port=address.port, user=address.superuser, database=EMBEDDED_DATABASE)


@asynccontextmanager
async def administration(address: ServerAddress) -> AsyncIterator[SqlExecutor]:
    """A connection as superuser."""
    admin = await open_connection(administrator(address))
    try:
        await admin.execute_script(_SEARCH_PATH)
        yield admin
    finally:
        admin.close()


async def fill(data_folder: Path, files: Path, tenants: Sequence[Tenant], phases: Phases) -> None:
    """Make a database and fill it; its server is stopped afterwards.

    Args:
        files: A folder that the server can read from.
    """
    server = EmbeddedPostgres(data_folder, settings=_LOAD_SETTINGS)
    address = await server.start()
    try:
        async with AgentMem(Config(data_dir=data_folder, embedding_provider="wordllama", worker=False)):
            pass  # the schema is there now
        async with administration(address) as admin:
            partitions = await admin.fetch_all(_PARTITIONS)
            with phases.phase("rows made, embedded and copied"):
                await _copy(admin, files, tenants)
            with phases.phase("embedding cache"):
                await _run_all(address, [_FILL_CACHE.format(**partition) for partition in partitions])
            with phases.phase("vacuum and analyse"):
                await admin.execute_script("VACUUM (ANALYZE)")
        with phases.phase("vectors sorted into cells"):
            await _sort(address, [tenant for tenant in tenants if tenant.chunks >= CELL_MIN_CHUNKS])
        with phases.phase("what was moved is cleared away"):
            async with administration(address) as admin:
                # As autovacuum would within minutes; here it is switched off.
                await admin.execute_script("VACUUM (ANALYZE)")
        with phases.phase("server stopped"):
            await server.stop()
    finally:
        await server.stop()


async def _copy(admin: SqlExecutor, files: Path, tenants: Sequence[Tenant]) -> None:
    """Make rows in other processes and copy what is ready."""
    loop = asyncio.get_running_loop()
    copying, in_flight = asyncio.Lock(), asyncio.Semaphore(_WORKERS + 1)
    total, copied = sum(tenant.chunks for tenant in tenants), 0
    # Not forked: a copy of this process would own its connections, too.
    context = multiprocessing.get_context("spawn")

    async def one(number: int, batch: Sequence[Tenant]) -> None:
        nonlocal copied
        async with in_flight:
            made = await loop.run_in_executor(pool, write_batch, number, batch, files)
            async with copying:
                for file in made:
                    await admin.execute_script(file.statement())
                    file.path.unlink()
                before, copied = copied, copied + sum(tenant.chunks for tenant in batch)
                if before * 10 // total < copied * 10 // total:
                    say(f"    {copied:,} of {total:,} chunks")

    with ProcessPoolExecutor(_WORKERS, mp_context=context) as pool:
        async with asyncio.TaskGroup() as group:
            for number, batch in enumerate(in_batches(tenants), start=1):
                group.create_task(one(number, batch))


async def _sort(address: ServerAddress, tenants: Sequence[Tenant]) -> None:
    """Sort the vectors of large tenants, as a worker would."""
    login = ConnectionSettings(host=address.host, port=address.port, user=EMBEDDED_LOGIN, database=EMBEDDED_DATABASE)
    store = PostgresManager(login, pool_size=1, pool_timeout_seconds=10, statement_timeout_seconds=600)
    await store.initialize()
    cells = CellService(store, EventLedger(), ChunkVectorRepository(), VectorCellRepository())
    for tenant in tenants:
        await cells.sort(tenant.external_id)
    await store.close()


async def _run_all(address: ServerAddress, statements: Sequence[str]) -> None:
    """Run statements on several connections, in any order."""
    left = list(reversed(statements))

    async def work() -> None:
        async with administration(address) as admin:
            while left:
                await admin.execute_script(left.pop())

    async with asyncio.TaskGroup() as group:
        for _ in range(_WORKERS):
            group.create_task(work())
