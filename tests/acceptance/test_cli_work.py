"""`worker`, `jobs` and `jobs retry` on the command line."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from agent_reminiscence import AgentMem, Config
from tests.acceptance.command_line import CHECKOUT, CommandLine, clean_environment, command_line, environment
from tests.acceptance.conftest import Server
from tests.acceptance.steps import refusing

LONG = "The harbour of Lisbon opens at nine on Monday. " * 50


@pytest.fixture
def cli(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line with this test's database in the environment."""
    return command_line(config(), monkeypatch, capsys)


def _remember(settings: Config, *tenants: str) -> None:
    async def fill() -> None:
        async with AgentMem(settings) as memory:
            for tenant in tenants:
                await memory.create_active_memory(tenant, "Harbour", LONG)

    asyncio.run(fill())


def test_a_worker_ends_when_nothing_waits(cli: CommandLine, config: Callable[..., Config]) -> None:
    """`worker --until-idle` does what is queued for every tenant, and `jobs` shows it before and not after."""
    _remember(config(), "crew", "guests")

    waiting = cli("jobs")
    assert cli.code == 0
    assert waiting.splitlines()[-1] == "2 waiting, 0 running, 0 given up."
    assert "crew" in waiting
    assert "crew" not in cli("jobs", "--external-id", "guests")

    cli("worker", "--until-idle", "--concurrency", "2")

    assert (cli.code, cli.out) == (0, "")
    assert cli("jobs") == "0 waiting, 0 running, 0 given up.\n"
    (memory,) = cli.json("memories", "--external-id", "crew")
    assert memory["consolidated_version"] == 1


def test_work_that_was_given_up_is_named_and_can_be_retried(
    cli: CommandLine, config: Callable[..., Config], server: Server, database: str
) -> None:
    """`jobs` says why and exits with 1; `jobs retry` begins anew."""
    _remember(config(), "crew")

    async def fail() -> None:
        async with (
            refusing(server.superuser(database), "memory_event", "kind <> 'memory.consolidated'"),
            AgentMem(config(job_max_attempts=1)) as memory,
        ):
            await memory.admin.run_worker(until_idle=True)

    asyncio.run(fail())

    shown = cli("jobs")
    assert cli.code == 1
    assert shown.splitlines()[-1] == "0 waiting, 0 running, 1 given up."
    assert "1 attempt failed; the last one: memory" in shown
    assert "StoreError" in shown
    assert "harbour" not in shown.lower()
    found = cli.json("jobs", "--external-id", "crew")
    assert (cli.code, found["failed"], found["jobs"][0]["state"]) == (1, 1, "failed")

    assert cli("jobs", "retry") == "Queued the work of 1 external_id.\n"
    cli("worker", "--until-idle")
    assert cli.json("jobs") == {"failed": 0, "jobs": []}
    assert cli.code == 0
    assert cli.json("jobs", "retry") == {"queued": 0}


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_of_its_own_process_works_until_it_is_asked_to_stop(
    config: Callable[..., Config], stop: signal.Signals
) -> None:
    """It does what other processes make due, and ends gracefully, with a word and without an error."""
    settings = config()
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_reminiscence.cli", "worker"],
        env=clean_environment() | environment(settings),
        cwd=CHECKOUT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:

        async def use() -> None:
            async with AgentMem(settings) as memory:
                await memory.create_active_memory("crew", "Harbour", LONG)
                assert await memory.admin.wait_until_idle("crew", 60) == []
                (note,) = await memory.get_active_memories("crew")
                assert note.consolidated_version == 1

        asyncio.run(use())
        os.kill(process.pid, stop)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0, said
    assert said.splitlines()[-1] == "agent-reminiscence: ended; what was not finished stays queued"
    assert "Traceback" not in said


def test_a_worker_takes_a_sensible_concurrency(cli: CommandLine) -> None:
    """The message names the setting and its range."""
    cli("worker", "--concurrency", "0", "--until-idle")

    assert cli.code == 2
    assert "worker_concurrency" in cli.err


def test_listing_jobs_does_none_of_them(cli: CommandLine, config: Callable[..., Config]) -> None:
    """A command opens no worker: what it shows as waiting is not done behind its back."""
    _remember(config(), "crew")
    cli("jobs")
    time.sleep(0.2)

    assert cli("jobs").splitlines()[-1] == "1 waiting, 0 running, 0 given up."
