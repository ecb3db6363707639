"""A process frozen within a write, as by SIGSTOP or a paused container, holds up its tenant for seconds only."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem, Config, ReminiscenceError, StoreTimeoutError
from agent_reminiscence.database.connection import SqlExecutor
from tests.conftest import TestServer
from tests.support.chaos.watching import watching
from tests.support.command_line import CHECKOUT, clean_environment, environment
from tests.support.factories import superuser

MakeConfig = Callable[..., Config]
Call = Callable[[AgentMem, str, UUID], Awaitable[Any]]

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]

_LINES = tuple(f"Ana: Line {number} is about pears and boats in Lisbon." for number in range(6))
_PATIENCE_SECONDS = 120.0
_CALLS: dict[str, Call] = {
    "create": lambda memory, tenant, note_id: memory.create_active_memory(
        tenant, "New", "\n".join(_LINES), idempotency_key=f"new beside {note_id}"
    ),
    "update": lambda memory, tenant, note_id: memory.update_active_memory(
        tenant, note_id, content="Lou: And plums.", idempotency_key=f"changed {note_id}"
    ),
    "erase": lambda memory, tenant, note_id: memory.admin.erase(tenant, memory_id=note_id),
}


async def frozen_within(call: str, tenant: str, note_id: UUID, at: int) -> str:
    """Make a call and stop this process before its statement `at`; returns how the call ended.

    Args:
        at: Of the statements, each counted when it is first sent, from 0. An erasure repeats most of them.
    """
    seen: list[str] = []

    async def stop(db: SqlExecutor, name: str) -> None:
        if name not in seen:
            seen.append(name)
            if len(seen) == at + 1:
                os.kill(os.getpid(), signal.SIGSTOP)

    async with AgentMem(Config(worker=False)) as memory:
        with watching(stop):
            try:
                await _CALLS[call](memory, tenant, note_id)
            except ReminiscenceError as error:
                return type(error).__name__
    return "done" if len(seen) > at else "too few statements"


# Imports once and forks for each line that it reads, before any memory is opened: each child says how its call ended.
_CHILDREN = """
import asyncio, os, sys
from uuid import UUID
import agent_reminiscence.assembly, agent_reminiscence.projections  # what an opening would import, in each child
from tests.chaos.test_frozen_writers import frozen_within

for line in sys.stdin:
    call, tenant, note_id, at = line.split()
    child = os.fork()
    if child == 0:
        ended = asyncio.run(frozen_within(call, tenant, UUID(note_id), int(at)))
        os.write(1, f"{at} ended {ended}\\n".encode())
        os._exit(0)
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.write(1, f"{at} stopped {child}\\n".encode())
        break
"""


class _Children:
    """Processes that are frozen within a call, each at another statement."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.stopped: dict[int, int] = {}

    async def freeze(self, call: str, tenant: str, note_id: UUID, at: int) -> bool:
        """Have one begin and stop before statement `at`; False if its call had fewer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{call} {tenant} {note_id} {at}\n".encode())
        _, word, rest = await self._line()
        if word == "stopped":
            self.stopped[at] = int(rest)
        else:
            assert rest == "too few statements"
        return word == "stopped"

    async def wake(self) -> dict[int, str]:
        """Let all go on; returns how each call ended."""
        for process in self.stopped.values():
            os.kill(process, signal.SIGCONT)
        ended = [await self._line() for _ in self.stopped]
        return {int(at): rest for at, _, rest in ended}

    async def _line(self) -> tuple[str, str, str]:
        assert self._process.stdout is not None
        async with asyncio.timeout(_PATIENCE_SECONDS):
            at, word, rest = (await self._process.stdout.readline()).decode().strip().split(" ", 2)
        return at, word, rest

    async def end(self) -> None:
        """Leave none behind, frozen or not."""
        for process in self.stopped.values():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()


@pytest.mark.parametrize("call", _CALLS)
async def test_a_frozen_writer_holds_up_its_tenant_for_seconds_only(
    config: MakeConfig, call: str, tmp_path: Path
) -> None:
    """Frozen before any of its statements, it stays frozen while others write, and loses or doubles nothing later."""
    settings = config()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _CHILDREN,
        env=clean_environment() | environment(settings) | {"PYTHONPATH": str(CHECKOUT)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    children = _Children(process)
    try:
        async with AgentMem(settings) as memory:
            notes = {}
            for at in count():
                notes[at] = (await memory.create_active_memory(f"frozen-{at}", "Old", "Ana: A note.")).id
                if not await children.freeze(call, f"frozen-{at}", notes[at], at):
                    break

            # Each within the default statement timeout, which would end it otherwise.
            await asyncio.gather(*[_write_beside(memory, at) for at in children.stopped])

            ended = await children.wake()
            assert set(ended) == set(children.stopped)
            assert len(ended) > 3
            for at, how in ended.items():
                # Not told of a success that was none: repeated with its key, it is made once.
                assert how in ("done", "CommitUnknownError", "StoreUnavailableError"), (at, how)
                if how != "done":
                    await _CALLS[call](memory, f"frozen-{at}", notes[at])
                await _assert_once(memory, call, f"frozen-{at}")
    finally:
        await children.end()


# Receives answers that are larger than what lies between it and the server, for ever: in a write that holds a stream's
# lock, in a transaction of another program that has written too, or in one of this package that holds no lock of ours.
_RECEIVING = """
import asyncio, sys
from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import ConnectionSettings, open_connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger

async def receive(db):
    (row,) = await db.fetch_all("SELECT pg_backend_pid() AS pid")
    print(row["pid"], flush=True)
    while True:
        await db.fetch_all("SELECT repeat('x', 10000000) AS x FROM generate_series(1, 20)")

async def write():
    async with AgentMem(Config(worker=False)) as memory:
        store = memory._parts.services.ledger._store
        assert isinstance(store, PostgresManager)
        async with store.transaction("frozen") as db:
            await EventLedger().lock(db, "frozen")
            await receive(db)

async def stand_beside(name):
    db = await open_connection(ConnectionSettings.from_dsn(Config().postgres_dsn.get_secret_value()))
    if name == "another":
        await db.execute_script("SET application_name = 'another program'")
    await db.execute_script("BEGIN; SELECT pg_current_xact_id()")
    await receive(db)

asyncio.run(write() if sys.argv[1] == "writer" else stand_beside(sys.argv[1]))
"""
_SESSION = """
SELECT wait_event, backend_xid IS NOT NULL AS writes, query_start::text AS began,
    query_start < clock_timestamp() - interval '10 s' AS is_old
FROM pg_stat_activity
WHERE pid = $(pid)p::int
"""


class _Receiver:
    """A process that is frozen while it receives an answer.

    Attributes:
        session: Its session on the server.
    """

    def __init__(self, process: asyncio.subprocess.Process, session: int) -> None:
        self._process = process
        self.session = session

    @classmethod
    async def start(cls, kind: str, settings: Config) -> _Receiver:
        """Begin to receive."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _RECEIVING,
            kind,
            env=clean_environment() | environment(settings) | {"PYTHONPATH": str(CHECKOUT)},
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return cls(process, int(await process.stdout.readline()))
        except BaseException:
            process.kill()
            raise

    async def freeze(self, db: SqlExecutor) -> None:
        """Stop it where the server waits for it to take more of an answer, and make sure that it goes on waiting."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                if await self._waits_for_client(db):
                    os.kill(self._process.pid, signal.SIGSTOP)
                    # The rest of the answer may fit into what lies between them; then another answer is tried.
                    before = await self._began(db)
                    await asyncio.sleep(0.5)
                    if await self._waits_for_client(db) and await self._began(db) == before:
                        return
                    os.kill(self._process.pid, signal.SIGCONT)
                await asyncio.sleep(0.001)

    async def _waits_for_client(self, db: SqlExecutor) -> bool:
        session = await self.look(db)
        assert session is not None
        return bool(session["wait_event"] == "ClientWrite")

    async def _began(self, db: SqlExecutor) -> object:
        session = await self.look(db)
        return None if session is None else session["began"]

    async def look(self, db: SqlExecutor) -> dict[str, Any] | None:
        """Its session as the server sees it; None if it has been ended."""
        return await db.fetch_one(_SESSION, {"pid": self.session})

    async def end(self) -> None:
        """Leave none behind, frozen or not."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.communicate()


async def test_one_that_is_frozen_while_it_receives_an_answer_is_ended_by_whoever_waited_in_vain(
    config: MakeConfig, test_server: TestServer, database: str
) -> None:
    """No timeout of the server ends it; the first call that times out does, and the next one succeeds.

    Nobody else is ended: neither another program that uses the same login, nor a session that holds no lock of ours.
    """
    settings = config(statement_timeout_seconds=12.0)
    receivers: dict[str, _Receiver] = {}
    async with AgentMem(settings) as memory, superuser(test_server, database) as db:
        await memory.create_active_memory("frozen", "Old", "Ana: A note.")
        try:
            for kind in ("another", "lockless", "writer"):
                receivers[kind] = await _Receiver.start(kind, settings)
                await receivers[kind].freeze(db)

            with pytest.raises(StoreTimeoutError):
                await memory.create_active_memory("frozen", "Beside", "Ana: Written in vain.")
            await memory.create_active_memory("frozen", "Beside", "Ana: Written meanwhile.")

            assert await receivers["writer"].look(db) is None
            for kind in ("another", "lockless"):
                session = await receivers[kind].look(db)
                assert session is not None, kind
                # Otherwise it would prove nothing.
                assert (session["wait_event"], session["writes"], session["is_old"]) == ("ClientWrite", True, True)
        finally:
            for receiver in receivers.values():
                await receiver.end()
        assert {note.title for note in await memory.get_active_memories("frozen")} == {"Old", "Beside"}


def _write_beside(memory: AgentMem, at: int) -> Coroutine[Any, Any, Any]:
    return memory.create_active_memory(f"frozen-{at}", "Beside", "Ana: Written meanwhile.")


async def _assert_once(memory: AgentMem, call: str, tenant: str) -> None:
    expected = {"create": ["Beside", "New", "Old"], "update": ["Beside", "Old"], "erase": ["Beside"]}
    notes = await memory.get_active_memories(tenant)
    assert sorted(note.title for note in notes) == expected[call]
    if call == "update":
        assert [note.version for note in notes if note.title == "Old"] == [2]
    assert (await memory.admin.verify(tenant)).ok
