"""Writes a memory, or sorts a tenant's vectors into cells, until it stops or kills itself before a statement.

Run as a script by `test_doomed.py`: a DSN, the external_id, what to do (`create`, `update` or `sort`), the statement,
the how-manieth time that it is sent, and the name of the signal. When a stopped one is told to go on, it ends its work
and says `done` on its standard output.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from agent_reminiscence import AgentMem
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.vector_cell import VectorCellRepository
from agent_reminiscence.services.vectors.cells import CellService
from tests.support.chaos import writer
from tests.support.chaos.watching import watching

# So small that a test's tenant is large, and a sorting takes several transactions.
CELL_MIN_CHUNKS = 40
BATCH_VECTORS = 20


def sorter(memory: AgentMem) -> CellService:
    """Sorts the tenants of a memory, though they are small."""
    return CellService(
        memory._ready().stores.postgres,
        EventLedger(),
        ChunkVectorRepository(),
        VectorCellRepository(),
        least=CELL_MIN_CHUNKS,
        batch_vectors=BATCH_VECTORS,
    )


async def work(memory: AgentMem, tenant: str, what: str) -> None:
    """What is interrupted; each can be done again."""
    match what:
        case "create":
            await writer.create(memory, tenant, "doomed")
        case "update":
            [note, *_] = await memory.get_active_memories(tenant)
            await writer.update(memory, tenant, "changed", str(note.id))
        case _:
            await sorter(memory).sort(tenant)


async def _main(dsn_or_folder: str, tenant: str, what: str, statement: str, time: int, name: str) -> None:
    times = 0

    async def end(db: SqlExecutor, sent: str) -> None:
        nonlocal times
        times += sent == statement
        if sent == statement and times == time:
            os.kill(os.getpid(), signal.Signals[name])

    async with AgentMem(writer.settings_for(dsn_or_folder)) as memory:
        with watching(end):
            await work(memory, tenant, what)
        print("done", flush=True)  # noqa: T201 - for whoever has started this


if __name__ == "__main__":
    _, dsn, external_id, task, before, how_manieth, ending = sys.argv
    asyncio.run(_main(dsn, external_id, task, before, int(how_manieth), ending))
