"""A process that is killed or stopped at a known place inside a write or a sorting: nobody else is in its way."""

# ruff: noqa: ASYNC110, ASYNC240 - processes are what is tested; nothing else is on the loop

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.connection import SqlExecutor
from tests.conftest import TestServer, dsn
from tests.support.chaos import doomed, writer
from tests.support.factories import stored_rows, superuser
from tests.support.processes import PATIENCE_SECONDS

pytestmark = pytest.mark.thorough

_ROOT = Path(__file__).parents[2]
_TENANT = "agent-1"
_NEIGHBOURS = tuple(f"neighbour-{number}" for number in range(5))


@asynccontextmanager
async def _working(
    server: TestServer, database: str, what: str, statement: str, time: int, ending: signal.Signals
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.chaos.doomed",
        dsn(server.login(database)), _TENANT, what, statement, str(time), ending.name,
        cwd=_ROOT,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _wait_for_one_client(db: SqlExecutor, database: str, memory: AgentMem) -> None:
    """Wait until the server has ended the killed process's connections and what it still did in its name."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            rows = await db.fetch_all(
                "SELECT pid FROM pg_stat_activity WHERE usename = $(login)p::text AND datname = $(database)p::text",
                {"login": EMBEDDED_LOGIN, "database": database},
            )
            if len(rows) <= len(memory._ready().stores.postgres._idle):
                return
            await asyncio.sleep(0.02)


async def _is_stopped(process: asyncio.subprocess.Process) -> bool:
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    assert state not in ("Z", "X"), "it has ended before it came to the statement"
    return state == "T"


@pytest.mark.parametrize(
    ("what", "statement"),
    [
        ("create", "append_event"),
        ("create", "add_chunks"),
        ("create", "add_layout"),
        ("create", "fill_vectors"),
        ("create", "COMMIT"),
        ("update", "update_active_memory"),
        ("update", "put_norms"),
    ],
)
async def test_a_process_that_is_killed_inside_a_write_leaves_nothing_of_it(
    memory: AgentMem, test_server: TestServer, database: str, what: str, statement: str
) -> None:
    """All rows are those of before, and the same call goes through afterwards."""
    await writer.create(memory, _TENANT, "before")
    async with superuser(test_server, database) as db:
        before = await stored_rows(db)

        async with _working(test_server, database, what, statement, 1, signal.SIGKILL) as process:
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await process.wait() == -signal.SIGKILL
        await _wait_for_one_client(db, database, memory)

        assert await stored_rows(db) == before
    assert (await memory.admin.verify(_TENANT)).ok
    await doomed.work(memory, _TENANT, what)
    [report] = (await memory.admin.verify(_TENANT)).streams
    assert (report.drift, report.faults, report.missing_vectors, report.head) == ((), (), 0, 2)


@pytest.mark.parametrize(
    ("statement", "time"), [("sample_numbers", 1), ("add_cells", 1), ("move_vectors", 1), ("move_vectors", 3),
                            ("recompute_cells", 1), ("COMMIT", 4)],
)  # fmt: skip
async def test_a_process_that_is_killed_while_it_sorts_vectors_leaves_a_tenant_in_order(
    memory: AgentMem, test_server: TestServer, database: str, statement: str, time: int
) -> None:
    """What was found before is found between and afterwards, and the next run ends what this one began."""
    for number in range(10):
        lines = [f"Ana: Lamp {number} burns in shade {line} of the pier." for line in range(9)]
        await memory.create_active_memory(_TENANT, f"Pier {number}", "\n".join(lines))
    question = "Lamp 3 burns in shade 7 of the pier"
    expected = [hit.chunk_id for hit in (await memory.retrieve_memories(_TENANT, question)).hits]
    async with superuser(test_server, database) as db:
        before = await stored_rows(db, with_ctid=False)

        async with _working(test_server, database, "sort", statement, time, signal.SIGKILL) as process:
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await process.wait() == -signal.SIGKILL
        await _wait_for_one_client(db, database, memory)

        between = await stored_rows(db, with_ctid=False)
        cells: dict[str, list[str]] = {"chunk_vector_1": [], "vector_cell_1": []}
        assert between | cells == before | cells
        assert len(between["chunk_vector_1"]) == len(before["chunk_vector_1"])
        assert (await memory.admin.verify(_TENANT)).ok
        assert [hit.chunk_id for hit in (await memory.retrieve_memories(_TENANT, question)).hits] == expected
        # What is written now finds a cell, too. It has words that others have, which weigh less now.
        late = await memory.create_active_memory(_TENANT, "Late", "Ana: The late boat is here.")
        expected = [hit.chunk_id for hit in (await memory.retrieve_memories(_TENANT, question)).hits]

        await doomed.sorter(memory).sort(_TENANT)

        unsorted = await db.fetch_all(
            "SELECT number FROM chunk_vector_1 AS v WHERE NOT EXISTS ("
            " SELECT FROM vector_cell_1 AS c WHERE c.external_id = v.external_id AND c.cell = v.cell)"
        )
        assert unsorted == []
    [found, *_] = (await memory.retrieve_memories(_TENANT, "Which late boat is here?")).hits
    assert found.memory_id == late.id
    assert not await doomed.sorter(memory).sort(_TENANT)
    assert (await memory.admin.verify(_TENANT)).ok
    assert [hit.chunk_id for hit in (await memory.retrieve_memories(_TENANT, question)).hits] == expected


@pytest.mark.parametrize("statement", ["append_event", "add_layout", "fill_vectors", "COMMIT"])
async def test_a_writer_that_is_stopped_inside_its_write_stops_nobody_else(
    memory: AgentMem, test_server: TestServer, database: str, statement: str
) -> None:
    """Others search and write, and its own tenant is searched; told to go on, it ends what it has begun."""
    for tenant in (_TENANT, *_NEIGHBOURS):
        await memory.create_active_memory(tenant, "Log", f"The keeper of {tenant} counted ships.")

    async with _working(test_server, database, "create", statement, 1, signal.SIGSTOP) as process:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await _is_stopped(process):
                await asyncio.sleep(0.02)

        for tenant in (_TENANT, *_NEIGHBOURS):
            found = await memory.retrieve_memories(tenant, "Who counted ships?")
            assert [hit.content for hit in found.hits] == [f"The keeper of {tenant} counted ships."]
        for tenant in _NEIGHBOURS:
            made = await memory.create_active_memory(tenant, "Log", f"Then {tenant} had tea.")
            assert made.write is not None
            found = await memory.retrieve_memories(tenant, "Who had tea?")
            assert f"Then {tenant} had tea." in [hit.content for hit in found.hits]
            await memory.admin.consolidate(tenant, made.id)
        assert await _is_stopped(process)

        process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            said, _ = await process.communicate()
        assert (said, process.returncode) == (b"done\n", 0)
    assert (await memory.admin.verify()).ok
    assert await memory.ledger.head(_TENANT) == 2
