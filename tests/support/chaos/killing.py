"""SIGKILL for the embedded server of a data folder, and what is looked at afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from agent_reminiscence import AgentMem, Event
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.embedded import EmbeddedPostgres
from tests.support.processes import wait_until_ended


def kill_server(data_dir: Path, *, with_children: bool = True) -> bool:
    """SIGKILL for the postmaster, whose processes then end by themselves, or for all of them at once.

    Returns when these have ended, whoever has started another server meanwhile.

    Returns:
        Whether there was a server to kill.
    """
    processes = _server_processes(data_dir)
    for pid in processes if with_children else processes[:1]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until_ended(processes)
    return bool(processes)


def _server_processes(data_dir: Path) -> list[int]:
    """The postmaster of a data folder, first, and the processes that it has made."""
    try:
        postmaster = int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
        return []
    return [postmaster, *map(int, children)]


@asynccontextmanager
async def administrator(data_dir: Path) -> AsyncIterator[SqlExecutor]:
    """The superuser of the embedded server of a data folder."""
    server = EmbeddedPostgres(data_dir)
    address = await server.start()
    db = await open_connection(
        ConnectionSettings(host=address.host, port=address.port, user=address.superuser, database="reminiscence")
    )
    try:
        await db.execute_script("SET search_path = reminiscence, public")
        yield db
    finally:
        db.close()
        await server.stop()


async def read_all(memory: AgentMem, tenant: str) -> list[Event]:
    """All events of a tenant, in order."""
    events: list[Event] = []
    while page := await memory.ledger.read(tenant, after=len(events), limit=1_000):
        events += page
    return events
