"""What a process supervisor does to a command: SIGTERM ends it in order, and leaves no server running."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import EMBEDDED_DATABASE
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from tests.support.command_line import CHECKOUT, clean_environment
from tests.support.processes import is_running, wait_until_ended
from tests.support.steps import wait_until_blocked

_PATIENCE_SECONDS = 60.0


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A place for data that is not there yet."""
    # Not pytest's own folder: the server runs as another user when the tests run as root.
    with tempfile.TemporaryDirectory(prefix="reminiscence-terminated-") as folder:
        yield Path(folder) / "data"


def _command(*words: str | Path, ignores_interrupts: bool = False) -> subprocess.Popen[str]:
    """A command as a supervisor or a shell starts it."""

    def ignore_interrupts() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    return subprocess.Popen(
        [sys.executable, "-m", "agent_reminiscence.cli", *words],
        env=clean_environment() | {"REMINISCENCE_EMBEDDING_PROVIDER": "hash"},
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ignore_interrupts if ignores_interrupts else None,  # noqa: PLW1509 - this process has one thread
    )


def _postmaster(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])


@pytest.mark.thorough
def test_a_terminated_worker_leaves_no_server(data_dir: Path) -> None:
    """It is the only user of its server, which it stops before it ends."""
    worker = _command("worker", "--data-dir", data_dir)
    try:
        assert worker.stderr is not None
        # On a slow machine, after a line that says what is being waited for.
        while "working" not in (line := worker.stderr.readline()):
            assert "still starting" in line
        server = _postmaster(data_dir)
        worker.terminate()
        _, said = worker.communicate(timeout=_PATIENCE_SECONDS)
    finally:
        worker.kill()
        worker.wait()

    assert (worker.returncode, said) == (0, "agent-reminiscence: stopped; unfinished work stays queued\n")
    wait_until_ended([server])
    assert not (data_dir / "postgres" / "postmaster.pid").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("ignores_interrupts", [False, True], ids=["foreground", "background"])
async def test_a_terminated_command_closes_what_it_has_open(data_dir: Path, ignores_interrupts: bool) -> None:
    """Wherever it is, it ends with the code that stands for SIGTERM; a background job of a shell ignores SIGINT."""
    async with AgentMem(Config(data_dir=data_dir, embedding_provider="hash", worker=False)) as memory:
        await memory.create_active_memory("ana", "Plan", "We ship on Friday.")
        server = _postmaster(data_dir)
        async with _locked(memory) as db:
            command = _command(
                "memories", "--data-dir", data_dir, "--external-id", "ana", ignores_interrupts=ignores_interrupts
            )
            try:
                await wait_until_blocked(db)
                command.terminate()
                out, said = await asyncio.to_thread(command.communicate, timeout=_PATIENCE_SECONDS)
            finally:
                command.kill()
                command.wait()

        assert (command.returncode, out, said) == (143, "", "agent-reminiscence: terminated\n")
        # This process still uses it.
        assert is_running(server)
    wait_until_ended([server])


@asynccontextmanager
async def _locked(memory: AgentMem) -> AsyncIterator[SqlExecutor]:
    """No active memory can be read meanwhile."""
    assert memory._parts is not None
    login: ConnectionSettings = memory._parts.stores.postgres.settings
    db = await open_connection(replace(login, user="postgres", database=EMBEDDED_DATABASE))
    try:
        await db.execute_script("BEGIN; LOCK TABLE reminiscence.active_memory IN ACCESS EXCLUSIVE MODE")
        yield db
        await db.execute_script("ROLLBACK")
    finally:
        db.close()
