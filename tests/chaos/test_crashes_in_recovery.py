"""A crash within a crash: a process of the embedded server is killed, then the one that repairs the database.

PostgreSQL's postmaster may then be in recovery for ever (`agent_reminiscence/database/embedded/recovery.py`).
"""

# ruff: noqa: ASYNC110 - processes are what is tested; nothing else is on the loop

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config, ReminiscenceError
from agent_reminiscence.database.embedded import EmbeddedPostgres
from agent_reminiscence.services.upkeep.doctor import diagnose
from tests.chaos.conftest import Repetitions
from tests.support.processes import PATIENCE_SECONDS, is_running

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the server's processes in /proc"),
]

# How long a server may take to begin its recovery: it waits up to five seconds for its processes to end.
_BEGIN_SECONDS = 10.0
# After this time without one, a server that still refuses connections has no `startup` process and gets none: it is
# longer than a server waits for its processes to end.
_STUCK_SECONDS = 6.0
_ATTEMPTS = 80
_SURVIVED = "PostgreSQL survived each crash; is it still possible that it stays in recovery for ever?"


@pytest.fixture
def config(data_dir: Path) -> Config:
    """Settings with a data folder of the test's own."""
    return Config(data_dir=data_dir, worker=False, embedding_provider="hash", embedding_dimension=64)


def _postmaster(data_dir: Path) -> int | None:
    """The server's first process, if it runs."""
    with suppress(OSError, ValueError, IndexError):
        process = int((data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        return process if is_running(process) else None
    return None


def _processes(postmaster: int) -> dict[int, str]:
    """The other processes of a server, with what they call themselves."""
    named = {}
    with suppress(OSError):
        for process in map(int, Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()):
            with suppress(OSError):
                named[process] = Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ").strip()
    return named


def _startup(postmaster: int) -> int | None:
    return next((process for process, name in _processes(postmaster).items() if "startup" in name), None)


async def _kill_any(postmaster: int, randomness: random.Random) -> None:
    """Kill one of the server's processes. One that ends after it was listed, such as a backend, is replaced."""
    while is_running(postmaster):
        with suppress(ProcessLookupError, IndexError):
            os.kill(randomness.choice(list(_processes(postmaster))), signal.SIGKILL)
            return
        await asyncio.sleep(0)


async def _crash_twice(postmaster: int, randomness: random.Random) -> bool:
    """Kill any process of the server, then the one that repairs the database; returns whether it was met."""
    await _kill_any(postmaster, randomness)
    end = time.monotonic() + _BEGIN_SECONDS
    while time.monotonic() < end and is_running(postmaster):
        if (startup := _startup(postmaster)) is not None:
            await asyncio.sleep(randomness.uniform(0, 0.02))
            with suppress(ProcessLookupError):
                os.kill(startup, signal.SIGKILL)
                return True
            return False
        if any("walwriter" in name for name in _processes(postmaster).values()) and time.monotonic() > end - 8:
            return False  # it was over before it was seen
        await asyncio.sleep(0)
    return False


async def _is_stuck(postmaster: int) -> bool:
    """Whether the server still runs and is neither in use nor being repaired."""
    end = time.monotonic() + _STUCK_SECONDS
    while time.monotonic() < end:
        names = _processes(postmaster).values()
        if not is_running(postmaster) or any("startup" in name or "walwriter" in name for name in names):
            return False
        await asyncio.sleep(0.05)
    return True


class _Writer:
    """Writes again and again, and knows what was acknowledged."""

    def __init__(self, memory: AgentMem, tenant: str) -> None:
        self._memory = memory
        self._tenant = tenant
        self.acknowledged: set[str] = set()
        self.is_ending = False

    async def write(self) -> None:
        number = 0
        while not self.is_ending:
            number += 1
            await self._write(f"note {number}")

    async def _write(self, key: str) -> None:
        while not self.is_ending:
            with suppress(ReminiscenceError):
                await self._memory.create_active_memory(
                    self._tenant, key, "The ferry leaves at nine. " * 50, idempotency_key=key
                )
                self.acknowledged.add(key)
                return
            await asyncio.sleep(0.05)

    async def wait_for_another(self) -> None:
        """Wait until the server acknowledges something again."""
        before = len(self.acknowledged)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.acknowledged) == before:
                await asyncio.sleep(0.05)


async def test_nothing_acknowledged_is_lost_and_the_server_comes_back(
    config: Config, repetitions: Repetitions, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever process is killed first, and whenever the second one is.

    About every second pair of kills leaves the server in recovery for ever; it is repeated until enough of them have.
    """
    assert config.data_dir is not None
    randomness = random.Random(7)
    repeated = 0
    async with AgentMem(config) as memory:
        writer = _Writer(memory, "agent-1")
        writing = asyncio.create_task(writer.write())
        while repeated < repetitions(reduced=3, full=50) or _endings(caplog) < repetitions(reduced=2, full=10):
            assert repeated < _ATTEMPTS, _SURVIVED
            repeated += 1
            await writer.wait_for_another()
            await asyncio.sleep(randomness.uniform(0, 1))
            if (postmaster := _postmaster(config.data_dir)) is not None:
                await _crash_twice(postmaster, randomness)
            # The writer finds the server again, whether it was left in recovery or not.
            await writer.wait_for_another()
        writer.is_ending = True
        await writing

        assert {note.title for note in await memory.get_active_memories("agent-1")} >= writer.acknowledged
        assert (await memory.admin.verify("agent-1")).ok


def _endings(caplog: pytest.LogCaptureFixture) -> int:
    """How many servers were ended because they would have stayed in recovery."""
    return sum("would have stayed so" in record.message for record in caplog.records)


async def _left_in_recovery(config: Config) -> int:
    """A server that is in recovery for ever; returns its first process. A user of it must be left."""
    assert config.data_dir is not None
    randomness = random.Random(3)
    for _ in range(_ATTEMPTS):
        async with AgentMem(config) as memory:
            await memory.create_active_memory("agent-1", "Note", "The ferry leaves at nine. " * 2_000)
        postmaster = _postmaster(config.data_dir)
        assert postmaster is not None
        if await _crash_twice(postmaster, randomness) and await _is_stuck(postmaster):
            return postmaster
    raise AssertionError(_SURVIVED)


async def test_the_doctor_names_a_server_that_was_left_in_recovery(config: Config) -> None:
    """It ends that server and starts it anew, as each opening does, and says so."""
    assert config.data_dir is not None
    user = EmbeddedPostgres(config.data_dir)
    await user.start()
    postmaster = await _left_in_recovery(config)

    diagnosis = await diagnose(lambda: config)

    assert [(check.status, check.detail[:26]) for check in diagnosis.checks if check.name == "recovery"] == [
        ("warning", "the server was in recovery")
    ]
    assert not is_running(postmaster)
    again = await diagnose(lambda: config)
    assert not [check for check in again.checks if check.name == "recovery"]
    await user.stop()


async def test_the_last_user_ends_a_server_that_was_left_in_recovery(config: Config) -> None:
    """Such a server does not hear that it is to stop."""
    assert config.data_dir is not None
    user = EmbeddedPostgres(config.data_dir)
    await user.start()
    postmaster = await _left_in_recovery(config)

    await user.stop()

    assert not is_running(postmaster)
    async with AgentMem(config) as memory:
        assert await memory.get_active_memories("agent-1")
