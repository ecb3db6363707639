"""Processes that fork, as gunicorn, Celery and `multiprocessing` do: each opens its own memory, or is told why not.

Every program here forks for real; what gunicorn and Celery do around that is copied from them in a few lines.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_reminiscence import Config
from agent_reminiscence.sync import AgentMem
from tests.support.command_line import CHECKOUT, clean_environment, environment

MakeConfig = Callable[..., Config]

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform == "win32", reason="forks"),
]

# What the programs begin with. `alarm` ends a child that waits in vain, as each did before.
_FORKING = """
import asyncio, os, signal, sys, time, warnings
import agent_reminiscence
from agent_reminiscence import Config, UsageError
from agent_reminiscence import sync

warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads forks
config = Config(worker=False)

def write_and_count(name):
    with sync.AgentMem(config) as memory:
        memory.create_active_memory(name, "Note", "The ferry leaves at nine.")
        return len(memory.get_active_memories(name))

async def count(name):
    async with agent_reminiscence.AgentMem(config) as memory:
        return len(await memory.get_active_memories(name))

def forked(act):
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    signal.alarm(60)
    try:
        print(act(), flush=True)
    except UsageError as error:
        print(f"UsageError: {error}", flush=True)
    os._exit(0)

def wait(*children):
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
"""

_AFTER_THE_PARENT = """
def open_in_each():
    for act in (lambda: write_and_count("child"), lambda: asyncio.run(count("child"))):
        wait(forked(act))

with sync.AgentMem(config) as opened:
    open_in_each()
open_in_each()
asyncio.run(count("parent"))
open_in_each()
"""

_WITH_THE_PARENTS_OBJECT = """
async def main():
    async with agent_reminiscence.AgentMem(config) as memory:
        ledger, conversation = memory.ledger, memory.conversation("ana", "chat")
        async def closed():
            await memory.close()
            return "nothing was closed"
        calls = [
            lambda: memory.get_active_memories("ana"),
            lambda: memory.retrieve_memories("ana", "When does the ferry leave?"),
            lambda: ledger.head("ana"),
            lambda: conversation.add("user", "The ferry leaves at ten."),
            memory.initialize,
            closed,
        ]
        for call in calls:
            # A fork within a coroutine inherits that a loop is running; what drives this one is a loop of its own.
            def act(call=call):
                asyncio._set_running_loop(None)
                return asyncio.new_event_loop().run_until_complete(call())
            wait(forked(act))
        await memory.create_active_memory("ana", "Note", "The ferry leaves at nine.")
        print("parent:", len(await memory.get_active_memories("ana")))

asyncio.run(main())
"""

_PRELOADED = """
# gunicorn with preload_app: the arbiter imports the application, then forks its workers; each runs the lifespan.
memory = agent_reminiscence.AgentMem(config)

async def serve(name):
    async with memory:
        await memory.create_active_memory(name, "Note", "The ferry leaves at nine.")
        return name, len(await memory.get_active_memories(name))

workers = [forked(lambda name=name: asyncio.run(serve(name))) for name in ("worker-1", "worker-2")]
wait(*workers)
# One that has ended is replaced by another, forked from the same arbiter.
wait(forked(lambda: asyncio.run(serve("worker-3"))))
"""

_PREFORKED = """
# Celery's prefork pool: the parent has imported the tasks; `worker_process_init` runs in each child, then its tasks.
memory = None

def worker_process_init():
    global memory
    memory = sync.AgentMem(config)
    memory.initialize()

def remember(name, text):
    return memory.create_active_memory(name, "Note", text).version

def child(name):
    worker_process_init()
    versions = [remember(name, f"Ferry number {number}.") for number in range(3)]
    memory.close()
    return name, len(versions)

wait(*[forked(lambda name=name: child(name)) for name in ("worker-1", "worker-2")])
"""

_POOLS = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

def main():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as early:
        print("forked before:", sorted(early.map(write_and_count, ["early-1", "early-2"], timeout=60)))
    write_and_count("parent")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as late:
        try:
            late.submit(write_and_count, "late").result(timeout=60)
        except UsageError as error:
            print("forked after: UsageError:", error)
    for method in ("spawn", "forkserver"):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as fresh:
            print(method, fresh.submit(write_and_count, method).result(timeout=60))

if __name__ == "__main__":
    main()
"""


def _ran(program: str, config: Config, folder: Path) -> list[str]:
    # A file, because a process that is spawned imports it again.
    script = folder / "forking.py"
    script.write_text(_FORKING + program)
    ran = subprocess.run(
        [sys.executable, script],
        env=clean_environment() | environment(config) | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def _assert_refused(line: str) -> None:
    assert "UsageError: " in line
    # Both ways out.
    assert 'multiprocessing.get_context("spawn")' in line
    assert "fork before the first AgentMem is opened" in line


def test_a_fork_of_a_process_that_has_opened_a_memory_is_refused_at_once(config: MakeConfig, tmp_path: Path) -> None:
    """Whether the parent's memory is open or closed, with or without `await`: it would wait for threads it lacks."""
    lines = _ran(_AFTER_THE_PARENT, config(), tmp_path)

    assert len(lines) == 6
    for line in lines:
        _assert_refused(line)


def test_the_parents_object_is_refused_in_a_fork_and_works_on_in_the_parent(config: MakeConfig, tmp_path: Path) -> None:
    """So are its parts, which were taken from it before; closing it there touches nothing of the parent's."""
    *refused, closed, parent = _ran(_WITH_THE_PARENTS_OBJECT, config(), tmp_path)

    assert len(refused) == 5
    for line in refused:
        _assert_refused(line)
    assert closed == "nothing was closed"
    assert parent == "parent: 1"


def test_a_preloaded_application_opens_its_memory_in_each_worker(config: MakeConfig, tmp_path: Path) -> None:
    """A memory that was made before the fork and opened after it works in every worker."""
    settings = config()

    lines = _ran(_PRELOADED, settings, tmp_path)

    assert sorted(lines) == [f"('worker-{number}', 1)" for number in (1, 2, 3)]
    with AgentMem(settings) as memory:
        assert [len(memory.get_active_memories(f"worker-{number}")) for number in (1, 2, 3)] == [1, 1, 1]


def test_each_process_of_a_prefork_pool_opens_its_own(config: MakeConfig, tmp_path: Path) -> None:
    """Opened when the process begins, it serves all its tasks."""
    lines = _ran(_PREFORKED, config(), tmp_path)

    assert sorted(lines) == ["('worker-1', 3)", "('worker-2', 3)"]


def test_pools_of_processes_work_by_spawn_or_when_forked_before_the_first_opening(
    config: MakeConfig, tmp_path: Path
) -> None:
    """One that forks afterwards hands the error to whoever asks for the result."""
    before, after, *fresh = _ran(_POOLS, config(), tmp_path)

    assert before == "forked before: [1, 1]"
    _assert_refused(after)
    assert fresh == ["spawn 1", "forkserver 1"]
