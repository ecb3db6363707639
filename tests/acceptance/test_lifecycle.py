"""The life of an `AgentMem`: opened, used, closed, opened again, forgotten."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from agent_reminiscence import AgentMem, Config, NotInitializedError, StoreError
from tests.support.servers import SECOND_SERVER_THOROUGHLY
from tests.support.steps import texts

_ROOT = Path(__file__).parents[2]

CALLS: dict[str, Callable[[AgentMem], Awaitable[object]]] = {
    "create": lambda memory: memory.create_active_memory("agent-1", "Plan", "Ship on Friday"),
    "get": lambda memory: memory.get_active_memories("agent-1"),
    "update": lambda memory: memory.update_active_memory("agent-1", uuid4(), content="x"),
    "retrieve": lambda memory: memory.retrieve_memories("agent-1", "when?"),
}


async def test_use_before_it_is_opened_or_after_it_was_closed_is_refused(config: Callable[..., Config]) -> None:
    """The message says which of the two, and what to do."""
    memory = AgentMem(config())
    for state in ("is not initialized", "was closed"):
        for call in CALLS.values():
            with pytest.raises(NotInitializedError, match=rf"{state}; use `async with AgentMem\(\)`"):
                await call(memory)
        for name in ("ledger", "admin"):
            with pytest.raises(NotInitializedError, match=state):
                getattr(memory, name)
        await memory.initialize()
        await memory.close()


@SECOND_SERVER_THOROUGHLY
async def test_opening_and_closing_again_does_nothing(config: Callable[..., Config]) -> None:
    """Whoever is not sure may call either once more, also at the same time."""
    memory = AgentMem(config())
    await memory.close()
    await asyncio.gather(*(memory.initialize() for _ in range(5)))
    await memory.create_active_memory("agent-1", "Plan", "Ship on Friday")
    await memory.initialize()
    assert len(await memory.get_active_memories("agent-1")) == 1
    await asyncio.gather(*(memory.close() for _ in range(5)))
    await memory.close()


@SECOND_SERVER_THOROUGHLY
async def test_a_closed_object_can_be_opened_again(config: Callable[..., Config]) -> None:
    """What was stored is there."""
    memory = AgentMem(config())
    async with memory:
        await memory.create_active_memory("agent-1", "Plan", "Ship on Friday")
    async with memory as again:
        assert again is memory
        assert texts(await memory.retrieve_memories("agent-1", "when do we ship?")) == ["Ship on Friday"]


async def test_an_object_that_was_never_closed_warns(config: Callable[..., Config]) -> None:
    """Who forgets to close hears of it, and how to do it."""

    async def forget() -> None:
        await AgentMem(config()).initialize()
        gc.collect()

    with pytest.warns(ResourceWarning, match="an AgentMem was never closed; use `async with AgentMem"):
        await forget()


async def test_an_object_that_was_closed_or_never_opened_does_not_warn(
    config: Callable[..., Config], recwarn: pytest.WarningsRecorder
) -> None:
    """Nothing is left behind, so there is nothing to say."""
    memory = AgentMem(config())
    async with memory:
        pass
    del memory
    AgentMem(config())
    gc.collect()

    assert [warning for warning in recwarn if "AgentMem" in str(warning.message)] == []


async def test_what_failed_to_open_is_not_open(config: Callable[..., Config]) -> None:
    """A failed start leaves nothing behind, and the same object may try again."""
    memory = AgentMem(config(postgres_dsn="postgresql://nobody@127.0.0.1:1/nowhere"))

    for _ in range(2):
        with pytest.raises(StoreError, match="cannot connect to PostgreSQL"):
            await memory.initialize()
        with pytest.raises(NotInitializedError, match="is not initialized"):
            await memory.get_active_memories("agent-1")


async def test_an_error_inside_the_block_closes_it(config: Callable[..., Config]) -> None:
    """`async with` closes whatever happens, and hides nothing."""
    memory = AgentMem(config())

    with pytest.raises(ZeroDivisionError):
        async with memory:
            raise ZeroDivisionError

    with pytest.raises(NotInitializedError, match="was closed"):
        await memory.get_active_memories("agent-1")


@SECOND_SERVER_THOROUGHLY
def test_each_event_loop_has_an_object_of_its_own(config: Callable[..., Config], database: str) -> None:
    """One loop after the other, and a closed object in another loop than its first."""
    memory = AgentMem(config())

    async def write(number: int) -> int:
        async with memory:
            await memory.create_active_memory("agent-1", "Note", f"Note {number}.")
            return len(await memory.get_active_memories("agent-1"))

    assert [asyncio.run(write(number)) for number in range(3)] == [1, 2, 3]


@pytest.mark.thorough
@SECOND_SERVER_THOROUGHLY
async def test_closing_lets_calls_under_way_finish_or_fail_cleanly(config: Callable[..., Config]) -> None:
    """Each call has its result or an error of the package's, and every result is stored."""
    memory = AgentMem(config(postgres_pool_size=3))
    await memory.initialize()
    calls = [
        asyncio.create_task(memory.create_active_memory("agent-1", "Note", f"Note {number}.")) for number in range(20)
    ]
    await asyncio.sleep(0.05)
    await memory.close()

    results = await asyncio.gather(*calls, return_exceptions=True)

    assert {type(result) for result in results if isinstance(result, BaseException)} <= {StoreError}
    stored = {result.content for result in results if not isinstance(result, BaseException)}
    async with memory:
        assert stored <= {note.content for note in await memory.get_active_memories("agent-1")}


@pytest.mark.thorough
def test_importing_the_package_reads_no_settings_and_opens_nothing(tmp_path: Path) -> None:
    """An import is no start: wrong settings and a missing home folder do not matter to it, nor ever does a `.env`."""
    (tmp_path / ".env").write_text("REMINISCENCE_NONSENSE=1\n")
    script = """
import socket, subprocess, sys, os

def refuse(*arguments, **keywords):
    raise AssertionError("the import opened something")

socket.socket.connect = refuse
subprocess.Popen.__init__ = refuse
before = set(os.listdir("."))
import agent_reminiscence
from agent_reminiscence import *
assert set(os.listdir(".")) == before
assert "torch" not in sys.modules and "requests" not in sys.modules, "a heavy import"
try:
    agent_reminiscence.Config()
except agent_reminiscence.ConfigurationError as error:
    assert "postgres_dsn" in str(error) and "NONSENSE" not in str(error), error
else:
    raise AssertionError("the settings were not read when they were asked for")
"""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(_ROOT),
        "REMINISCENCE_POSTGRES_POOL_SIZE": "many",
        "REMINISCENCE_POSTGRES_DSN": "mysql://nonsense",
        "HOME": "/nonexistent",
    }

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
