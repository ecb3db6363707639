"""SIGKILL at any moment, of workers and of the server under them: all work that follows writes is done, and once."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem, Event
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.exceptions import CommitUnknownError, StoreError, StoreUnavailableError
from tests.chaos.conftest import Repetitions
from tests.conftest import TestServer, dsn
from tests.support.chaos import writer
from tests.support.chaos.killing import administrator, kill_server, read_all
from tests.support.factories import superuser
from tests.support.steps import streams_held

_ROOT = Path(__file__).parents[2]
_STARTED_SECONDS = 60.0
_DONE_SECONDS = 180.0
_TAKEN_OVER = "its worker died"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done, and how much is killed."""

    seconds: float
    tenants: int
    memories: int
    workers: int
    pause_seconds: tuple[float, float]


_FULL = Size(seconds=120, tenants=20, memories=10, workers=3, pause_seconds=(0.3, 2.5))
_REDUCED = Size(seconds=3, tenants=3, memories=4, workers=1, pause_seconds=(1.0, 1.5))


# --- Workers that are killed -----------------------------------------------------------------------------------------


class WorkerProcess:
    """A process that runs `worker.py` with some settings, again after each kill."""

    def __init__(self, dsn_or_folder: str, log: BinaryIO, **settings: float) -> None:
        self._arguments = [dsn_or_folder, json.dumps(settings)]
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it; it takes jobs a second or two later."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.support.chaos.worker",
            *self._arguments,
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            start_new_session=True,
        )

    async def kill(self) -> None:
        """SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            assert process.returncode is None, f"a worker ended by itself with {process.returncode}"
            process.kill()
            await process.wait()

    async def end(self) -> None:
        """Have it end as a worker does that is asked to."""
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(_STARTED_SECONDS):
            assert await process.wait() == 0


@asynccontextmanager
async def _worker(dsn_or_folder: str, log: BinaryIO, **settings: float) -> AsyncIterator[WorkerProcess]:
    worker = WorkerProcess(dsn_or_folder, log, **settings)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.kill()


# --- Writers that do not give up -------------------------------------------------------------------------------------


@dataclass
class Accepted:
    """What the library has returned, by idempotency key.

    Attributes:
        calls: The call and its result: memory, version, position.
        repeated: How often a call had to be made again, because the server was away.
    """

    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    repeated: int = 0

    async def insist(self, memory: AgentMem, tenant: str, call: dict[str, Any]) -> dict[str, Any]:
        """Make a call until it is accepted."""
        while True:
            try:
                result = await writer.repeat(memory, tenant, call)
            except (StoreUnavailableError, CommitUnknownError):
                self.repeated += 1
                await asyncio.sleep(0.1)
            else:
                self.calls[call["key"]] = call | result
                return result

    async def until_work_is_due(self) -> None:
        """Wait until a memory has had so many updates that it is consolidated, however long that takes here."""
        async with asyncio.timeout(_DONE_SECONDS):
            while True:
                writes = Counter(call["memory_id"] for call in self.calls.values())
                if any(count > writer.UPDATES_UNTIL_DUE for count in writes.values()):
                    return
                await asyncio.sleep(0.1)


async def _write(
    memory: AgentMem, tenant: str, memories: int, accepted: Accepted, dice: random.Random, stopped: asyncio.Event
) -> None:
    """Create a tenant's memories, then have two writers update them, each of them any memory."""
    ids = [
        (await accepted.insist(memory, tenant, {"key": f"{tenant}-{number}", "call": "create"}))["memory_id"]
        for number in range(memories)
    ]

    async def update(name: str) -> None:
        number = 0
        while not stopped.is_set():
            call = {"key": f"{tenant}-{name}-{number}", "call": "update", "memory_id": dice.choice(ids)}
            await accepted.insist(memory, tenant, call)
            number += 1
            await asyncio.sleep(dice.uniform(0, 0.4))

    async with asyncio.TaskGroup() as writers:
        writers.create_task(update("a"))
        writers.create_task(update("b"))


# --- Who kills -------------------------------------------------------------------------------------------------------


@dataclass
class Kills:
    """How many of each kind there were; `running` counts the workers that had work under way."""

    workers: int = 0
    servers: int = 0
    running: int = 0


async def _wait_for_running_work(memory: AgentMem) -> bool:
    """Whether work is under way, within a second: a kill hits more then."""
    for _ in range(10):
        with suppress(StoreError):
            if any(job.state == "running" for job in await memory.admin.jobs()):
                return True
        await asyncio.sleep(0.1)
    return False


async def _kill_at_random(
    data_dir: Path, memory: AgentMem, workers: Sequence[WorkerProcess], size: Size, dice: random.Random
) -> Kills:
    """Kill workers and the server, in turn at first and then by chance, and start the workers again.

    The server is started again by the first process that misses it.
    """
    kills = Kills()
    end = time.monotonic() + size.seconds
    targets = ["worker", "server"]
    while time.monotonic() < end or targets:
        await asyncio.sleep(dice.uniform(*size.pause_seconds))
        target = targets.pop(0) if targets else dice.choices(("worker", "server", "both"), (6, 2, 1))[0]
        if target != "server":
            kills.running += await _wait_for_running_work(memory)
            victim = dice.choice(workers)
            await victim.kill()
            kills.workers += 1
            await victim.start()
        if target != "worker":
            kills.servers += await asyncio.to_thread(kill_server, data_dir, with_children=dice.random() < 0.5)
    return kills


# --- What must be true afterwards ------------------------------------------------------------------------------------


@dataclass
class Story:
    """What the ledger says of one memory.

    Attributes:
        writers: The idempotency key of each version, the first one first.
        consolidated: Versions of which there is a consolidation event, in order.
        due: The last version that made a consolidation due.
    """

    writers: list[str] = field(default_factory=list)
    consolidated: list[int] = field(default_factory=list)
    due: int = 0


def _stories(events: Iterable[Event]) -> dict[str, Story]:
    """Retell each memory from its events alone; what they contradict each other in fails here."""
    stories: dict[str, Story] = {}
    for event in events:
        payload = event.payload
        match event.kind:
            case "memory.created" | "memory.updated":
                story = stories.setdefault(payload["memory_id"], Story())
                assert event.idempotency_key is not None
                story.writers.append(event.idempotency_key)
                assert payload.get("version", 1) == len(story.writers)
                if payload["consolidation_due"]:
                    story.due = len(story.writers)
            case "memory.consolidated":
                story = stories[payload["memory_id"]]
                assert payload["version"] == len(story.writers), "a plan for an older version was applied"
                story.consolidated.append(payload["version"])
            case _:
                assert event.kind == "memory.promoted"
    return stories


def _check_consolidated(stories: Iterable[Story]) -> None:
    """At most one consolidation of each version, and none outstanding."""
    for story in stories:
        assert [version for version, count in Counter(story.consolidated).items() if count > 1] == []
        assert max(story.consolidated, default=0) >= story.due


async def _check_written(
    memory: AgentMem, tenant: str, events: Sequence[Event], stories: dict[str, Story], accepted: Accepted
) -> None:
    """Each accepted call is one event, where and as which version it was returned, and the last one stands."""
    calls = {key: call for key, call in accepted.calls.items() if key.startswith(f"{tenant}-")}
    written = [event for event in events if event.idempotency_key is not None]
    assert Counter(event.idempotency_key for event in written) == Counter(calls.keys())
    for event in written:
        assert event.idempotency_key is not None
        call = calls[event.idempotency_key]
        assert (event.position, event.payload["memory_id"]) == (call["position"], call["memory_id"])
        assert stories[call["memory_id"]].writers[call["version"] - 1] == call["key"]
    stored = {found.id: found.content for found in await memory.get_active_memories(tenant)}
    assert stored == {UUID(id_): writer.text_of(story.writers[-1]) for id_, story in stories.items()}


async def _check_queue_is_empty(db: SqlExecutor) -> None:
    """No job waits or runs, not even one of a worker that is dead; sweeps come and go for as long as a worker lives."""
    async with asyncio.timeout(_STARTED_SECONDS):
        while True:
            left = await db.fetch_all(
                "SELECT status::text, task_name, args::text FROM reminiscence_jobs.procrastinate_jobs"
                " WHERE status = 'doing' OR status = 'todo' AND task_name = 'work_stream'"
            )
            if not left:
                return
            await asyncio.sleep(0.2)


async def _check_nothing_failed(memory: AgentMem, db: SqlExecutor) -> None:
    assert await memory.admin.jobs() == []
    failing = await db.fetch_all(
        "SELECT external_id, failed_error FROM memory_stream"
        " WHERE failed_attempts > 0 OR failed_at IS NOT NULL OR work_at <= clock_timestamp()"
    )
    assert failing == []


async def _check(memory: AgentMem, db: SqlExecutor, size: Size, accepted: Accepted) -> int:
    """Everything; returns how many consolidations there were."""
    await _check_nothing_failed(memory, db)
    audit = await memory.admin.verify()
    assert audit.ok
    assert [stream.external_id for stream in audit.streams if stream.missing_vectors] == []
    consolidations = 0
    for number in range(size.tenants):
        tenant = f"agent{number}"
        events = await read_all(memory, tenant)
        stories = _stories(events)
        assert len(stories) == size.memories
        _check_consolidated(stories.values())
        await _check_written(memory, tenant, events, stories, accepted)
        consolidations += sum(len(story.consolidated) for story in stories.values())
    return consolidations


# --- The tests -------------------------------------------------------------------------------------------------------


async def _wait_for_workers(db: SqlExecutor, count: int) -> None:
    """Wait until so many have told the server that they take jobs."""
    async with asyncio.timeout(_STARTED_SECONDS):
        while True:
            if len(await db.fetch_all("SELECT id FROM reminiscence_jobs.procrastinate_workers")) == count:
                return
            await asyncio.sleep(0.02)


async def _wait_for_consolidation(memory: AgentMem, tenant: str) -> None:
    """Wait for its event. Not with `wait_until_idle`, which queues what is due itself."""
    async with asyncio.timeout(_STARTED_SECONDS):
        while True:
            if await memory.ledger.read(tenant, kinds=["memory.consolidated"]):
                return
            await asyncio.sleep(0.05)


@pytest.mark.thorough
async def test_a_worker_that_runs_already_takes_over_from_one_that_dies(
    test_server: TestServer, database: str, tmp_path: Path
) -> None:
    """Nobody writes and nobody starts meanwhile: the other worker notices the death, and does the work once.

    Both are silent for so long that only the dead one's last heartbeat, which is made old, tells them apart.
    """
    silence = {"job_heartbeat_seconds": 600.0}
    server, log_path = dsn(test_server.login(database)), tmp_path / "workers.log"
    async with AsyncExitStack() as stack:
        memory = await stack.enter_async_context(AgentMem(writer.settings_for(server)))
        db = await stack.enter_async_context(superuser(test_server, database))
        log = stack.enter_context(log_path.open("ab"))
        await memory.create_active_memory("agent0", "Harbour", "The harbour opens at nine on Monday. " * 60)
        async with streams_held(test_server.administrator(database)) as queued:
            doomed = await stack.enter_async_context(_worker(server, log, **silence))
            await queued(1)
            assert [job.state for job in await memory.admin.jobs("agent0")] == ["running"]
            healthy = await stack.enter_async_context(_worker(server, log, **silence))
            await _wait_for_workers(db, 2)
            await doomed.kill()
        await db.execute(
            "UPDATE reminiscence_jobs.procrastinate_workers SET last_heartbeat = now() - interval '1 day' WHERE id = ("
            "SELECT worker_id FROM reminiscence_jobs.procrastinate_jobs WHERE task_name = 'work_stream')"
        )

        await _wait_for_consolidation(memory, "agent0")
        await _check_queue_is_empty(db)
        await healthy.end()
        kinds = [event.kind for event in await read_all(memory, "agent0")]
        assert kinds.count("memory.consolidated") == 1
        await _check_nothing_failed(memory, db)
    assert log_path.read_text().count(_TAKEN_OVER) == 1


@pytest.mark.promise
async def test_work_survives_kills_of_workers_and_server(
    data_dir: Path, tmp_path: Path, repetitions: Repetitions
) -> None:
    """Work is neither lost nor done twice nor stuck, though workers and server die under it while memories are updated.

    The calls go on meanwhile, each repeated with its idempotency key until it is accepted. Afterwards one worker that
    nobody kills does the rest.
    """
    size = _FULL if repetitions.is_full else _REDUCED
    dice, accepted, stopped = random.Random(5), Accepted(), asyncio.Event()
    log_path = tmp_path / "workers.log"
    with log_path.open("ab") as log:
        async with AgentMem(writer.settings_for(str(data_dir), **writer.HASTE)) as memory:
            async with AsyncExitStack() as stack:
                workers = [await stack.enter_async_context(_worker(str(data_dir), log)) for _ in range(size.workers)]
                async with asyncio.TaskGroup() as writers:
                    for number in range(size.tenants):
                        writers.create_task(_write(memory, f"agent{number}", size.memories, accepted, dice, stopped))
                    kills = await _kill_at_random(data_dir, memory, workers, size, dice)
                    await accepted.until_work_is_due()
                    stopped.set()
            # The last kill may have been the server's.
            await memory.get_active_memories("agent0")
            rested = time.monotonic()
            async with _worker(str(data_dir), log) as healthy, administrator(data_dir) as db:
                assert await memory.admin.wait_until_idle(timeout_seconds=_DONE_SECONDS) == []
                rested = time.monotonic() - rested
                await _check_queue_is_empty(db)
                await healthy.end()
                consolidations = await _check(memory, db, size, accepted)

    taken_over = log_path.read_text().count(_TAKEN_OVER)
    sys.stdout.write(
        f"\n{kills.workers} workers ({kills.running} with work under way) and {kills.servers} servers killed in"
        f" {size.seconds:g} s; {len(accepted.calls)} calls accepted, {accepted.repeated} made again by the writers;"
        f" {consolidations} consolidations, {taken_over} takeovers; the rest was done in {rested:.1f} s\n"
    )
    assert kills.servers > 0
    assert consolidations > 0
    if repetitions.is_full:
        assert taken_over > 0, "no work was taken over: the kills came at the wrong moments"
