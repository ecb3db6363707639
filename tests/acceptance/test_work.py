"""Work that follows writes: queued with them, done by any worker, tried again, given up, and never forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config, InvalidInputError, Job, WorkTimeoutError
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.database.schema import JOBS_SCHEMA_NAME
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.exceptions import EmbeddingError, StoreError
from agent_reminiscence.services.work import jobs as jobs_module
from tests.acceptance.conftest import Server
from tests.conftest import TEST_DIMENSION
from tests.support.servers import BOTH_SERVERS
from tests.support.steps import all_events, in_turn, only_memory, refusing, streams_held

LONG = "The harbour of Lisbon opens at nine on Monday. " * 50
_DUE = "UPDATE reminiscence.memory_stream SET work_at = {} WHERE external_id = 'agent-1' RETURNING external_id"
NO_CONSOLIDATION = "kind <> 'memory.consolidated' OR external_id <> 'agent-1'"


async def _consolidated(memory: AgentMem, external_id: str = "agent-1") -> list[int]:
    """The versions that were consolidated, in order of their events."""
    events = await all_events(memory, external_id)
    return [event.payload["version"] for event in events if event.kind == "memory.consolidated"]


def _states(jobs: Sequence[Job]) -> list[str]:
    return [job.state for job in jobs]


async def _rows(server: Server, database: str, statement: str) -> list[dict[str, Any]]:
    db = await open_connection(server.superuser(database))
    try:
        return await db.fetch_all(statement)
    finally:
        db.close()


async def _no_job_is_left(server: Server, database: str) -> bool:
    return not await _rows(
        server, database, "SELECT id FROM reminiscence_jobs.procrastinate_jobs WHERE task_name = 'work_stream'"
    )


async def _until(condition: Callable[[], Any], *, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the server has no event to wait for
            await asyncio.sleep(0.02)


@BOTH_SERVERS
async def test_the_worker_in_the_process_does_what_a_write_makes_due(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """Without any configuration, a long text is in shortterm soon after its write, and no job is left."""
    async with AgentMem(config(worker=True)) as memory:
        note = await memory.create_active_memory("agent-1", "Harbour", LONG)
        assert note.write is not None
        assert (note.write.consolidation_queued, note.consolidated_version) == (True, 0)

        assert await memory.admin.wait_until_idle("agent-1", 30) == []

        assert (await only_memory(memory, "agent-1")).consolidated_version == 1
        assert await memory.admin.jobs("agent-1") == []
        assert await _no_job_is_left(server, database)
        assert (await memory.admin.verify("agent-1")).ok


async def test_work_waits_until_there_is_a_worker(config: Callable[..., Config]) -> None:
    """Queued with the write, it is seen as waiting; a process that starts later does it."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Harbour", LONG)
        await memory.create_active_memory("agent-1", "Quay", LONG)
        (job,) = await memory.admin.jobs("agent-1")
        assert (job.state, job.external_id, job.failed_attempts, job.error) == ("waiting", "agent-1", 0, None)
        assert await memory.admin.jobs() == [job]
        assert await memory.admin.jobs("agent-2") == []
        with pytest.raises(WorkTimeoutError, match="'agent-1' is not done: 1 waiting, 0 running; is a worker running"):
            await memory.admin.wait_until_idle("agent-1", 0.1)

    async with AgentMem(config(worker=True)) as memory:
        await memory.admin.wait_until_idle(timeout_seconds=30)
        assert [note.consolidated_version for note in await memory.get_active_memories("agent-1")] == [1, 1]


async def test_a_write_that_makes_nothing_due_queues_nothing(memory: AgentMem) -> None:
    """Its vectors are made in the call; nothing is left for a worker to look at."""
    note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
    await memory.update_active_memory("agent-1", note.id, content="Ship on Monday.")

    assert await memory.admin.jobs("agent-1") == []
    assert await memory.admin.wait_until_idle("agent-1", 0) == []


async def test_a_write_whose_work_cannot_be_queued_is_no_write(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """The write and its job share a transaction, so a crash cannot leave one without the other."""
    async with AgentMem(config(active_memory_update_threshold=1)) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        before = await all_events(memory, "agent-1")
        async with refusing(server.superuser(database), "procrastinate_jobs", "false", schema=JOBS_SCHEMA_NAME):
            with pytest.raises(StoreError, match="of_a_test"):
                await memory.create_active_memory("agent-1", "Harbour", LONG)
            with pytest.raises(StoreError, match="of_a_test"):
                await memory.update_active_memory("agent-1", note.id, content="Ship on Monday.")

        assert await all_events(memory, "agent-1") == before
        stored = await only_memory(memory, "agent-1")
        assert (stored.version, stored.content) == (1, "Ship on Friday.")
        updated = await memory.update_active_memory("agent-1", note.id, content="Ship on Monday.")
        assert (updated.version, _states(await memory.admin.jobs("agent-1"))) == (2, ["waiting"])


@pytest.mark.thorough
async def test_a_worker_of_the_callers_own_ends_when_nothing_waits(memory: AgentMem) -> None:
    """`run_worker(until_idle=True)` is what a scheduled run needs: all tenants, then the end."""
    for number in range(5):
        await memory.create_active_memory(f"agent-{number}", "Harbour", LONG)

    await memory.admin.run_worker(until_idle=True)

    assert await memory.admin.jobs() == []
    assert [await _consolidated(memory, f"agent-{number}") for number in range(5)] == [[1]] * 5
    with pytest.raises(InvalidInputError, match="until_idle"):
        await memory.admin.run_worker(until_idle="yes")  # type: ignore[arg-type]


@pytest.mark.promise
async def test_many_workers_consolidate_a_version_once(config: Callable[..., Config]) -> None:
    """Two processes' workers, calls and requests for the same memory at once: each version has one event at most."""
    async with (
        AgentMem(config(worker=True, active_memory_update_threshold=1)) as memory,
        AgentMem(config(worker=True, active_memory_update_threshold=1)) as other,
    ):
        note = await memory.create_active_memory("agent-1", "Plan", "Version 1 of the plan.")
        for number in range(2, 12):
            await memory.update_active_memory("agent-1", note.id, content=f"Version {number} of the plan.")
            await asyncio.gather(other.admin.run_due("agent-1"), other.admin.consolidate("agent-1", note.id))
        assert await memory.admin.wait_until_idle("agent-1", 30) == []

        versions = await _consolidated(memory)
        assert versions == sorted(set(versions))
        assert versions[-1] == 11
        assert (await memory.admin.verify("agent-1")).ok


async def test_a_plan_for_an_older_version_is_dropped(memory: AgentMem, server: Server, database: str) -> None:
    """A memory that is updated while its consolidation is planned keeps its work: the newer version is consolidated."""
    note = await memory.create_active_memory("agent-1", "Harbour", LONG)
    _, (report,) = await in_turn(
        server.superuser(database),
        lambda: memory.update_active_memory("agent-1", note.id, content=f"{LONG}\n\nAnd more."),
        lambda: memory.admin.consolidate("agent-1", note.id),
    )

    assert (report.version, report.consolidated) == (1, False)
    assert await _consolidated(memory) == []
    assert _states(await memory.admin.jobs("agent-1")) == ["waiting"]
    await memory.admin.run_due("agent-1")
    assert await _consolidated(memory) == [2]


@pytest.mark.thorough
async def test_a_memory_that_never_rests_is_consolidated(config: Callable[..., Config]) -> None:
    """Its plans are dropped again and again; in the end its writers wait for a moment."""
    async with AgentMem(config(active_memory_update_threshold=1)) as memory:
        note = await memory.create_active_memory("agent-1", "Harbour", LONG)
        is_over = asyncio.Event()

        async def never_rest() -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                await memory.update_active_memory("agent-1", note.id, content=f"{LONG}\n\nVersion {number}.")

        writers = [asyncio.create_task(never_rest()) for _ in range(3)]
        report = await memory.admin.run_due("agent-1")
        is_over.set()
        await asyncio.gather(*writers)

        assert (report.error, report.consolidated) == (None, (note.id,))
        assert await _consolidated(memory) != []
        await memory.admin.run_due("agent-1")
        assert (await only_memory(memory, "agent-1")).consolidated_version == (
            await only_memory(memory, "agent-1")
        ).version


async def test_a_memory_may_be_archived_during_its_consolidation(
    memory: AgentMem, server: Server, database: str
) -> None:
    """What ended with the archiving stays ended; the consolidation does not bring it back."""
    note = await memory.create_active_memory("agent-1", "Harbour", LONG)
    await in_turn(
        server.superuser(database),
        lambda: memory.admin.archive("agent-1", note.id, end_chunks=True),
        lambda: memory.admin.consolidate("agent-1", note.id),
    )
    report = await memory.admin.run_due("agent-1")

    assert report.error is None
    assert (await memory.retrieve_memories("agent-1", "harbour")).hits == ()
    assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_a_memory_may_be_erased_during_its_consolidation(memory: AgentMem, server: Server, database: str) -> None:
    """Nothing of it comes back, and the work counts as done."""
    note = await memory.create_active_memory("agent-1", "Harbour", LONG)
    receipt, report = await in_turn(
        server.superuser(database),
        lambda: memory.admin.erase("agent-1", memory_id=note.id),
        lambda: memory.admin.run_due("agent-1"),
    )

    assert (report.error, report.consolidated) == (None, ())
    assert (await memory.admin.verify_erased(receipt, text="harbour of Lisbon")).ok
    await memory.admin.run_worker(until_idle=True)
    assert await memory.admin.jobs("agent-1") == []
    assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_work_that_always_fails_is_given_up_and_keeps_nobody_waiting(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """Tried as often as configured, then visible with its error; other tenants, and this one's later work, go on."""
    settings = config(worker=True, job_max_attempts=3, job_retry_seconds=0.05)
    async with AgentMem(settings) as memory:
        async with refusing(server.superuser(database), "memory_event", NO_CONSOLIDATION):
            await memory.create_active_memory("agent-1", "Harbour", LONG)
            await memory.create_active_memory("agent-2", "Harbour", LONG)
            assert await memory.admin.wait_until_idle("agent-2", 30) == []
            (given_up,) = await memory.admin.wait_until_idle("agent-1", 60)

            assert (given_up.state, given_up.failed_attempts) == ("failed", 3)
            assert given_up.error is not None
            assert "StoreError" in given_up.error
            assert "harbour" not in given_up.error.lower()
            assert given_up.failed_at is not None
            assert await memory.admin.jobs() == [given_up]
            assert await _consolidated(memory, "agent-2") == [1]
            # Nothing of it runs, and nothing of it is locked: the row of a job that failed is not left in its way.
            assert await _no_job_is_left(server, database)

            # A later write is not held up by it: its work is tried at once, and fails once more.
            await memory.create_active_memory("agent-1", "Quay", LONG)
            (given_up,) = await memory.admin.wait_until_idle("agent-1", 30)
            assert given_up.failed_attempts == 4

        assert await memory.admin.retry_jobs("agent-2") == 0
        assert await memory.admin.retry_jobs("agent-1") == 1
        assert await memory.admin.wait_until_idle("agent-1", 30) == []
        assert len(await _consolidated(memory)) == 2


class _Slow(HashEmbedder):
    """An embedder that keeps whoever asks it waiting, once it is told to."""

    def __init__(self) -> None:
        super().__init__(TEST_DIMENSION)
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        await self.may_go_on.wait()
        return await super().embed(texts)


async def test_a_successor_starts_though_the_job_before_it_failed(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """Queued while its predecessor runs, which then fails: neither runs for ever, and the successor's time comes.

    With Procrastinate's own locks and retries it would not: the failed job cannot go back into a queue in which its
    successor holds the place.
    """
    slow = _Slow()
    async with AgentMem(config()) as writer, refusing(server.superuser(database), "memory_event", NO_CONSOLIDATION):
        await writer.create_active_memory("agent-1", "Harbour", LONG)
        # Without its vectors, so that the job asks the embedder first.
        await _rows(server, database, "DELETE FROM reminiscence.chunk_vector_1 RETURNING number")
        await _rows(server, database, "DELETE FROM reminiscence.embedding_cache RETURNING 1 AS row")
        slow.may_go_on.clear()
        async with AgentMem(config(worker=True, worker_concurrency=1, job_retry_seconds=3600), embedder=slow):

            async def states() -> list[str]:
                return _states(await writer.admin.jobs("agent-1"))

            async def is_running() -> bool:
                return await states() == ["running"]

            await _until(is_running)
            await writer.create_active_memory("agent-1", "Quay", LONG)
            assert await states() == ["running", "waiting"]
            slow.may_go_on.set()

            async def both_have_failed() -> bool:
                jobs = await writer.admin.jobs("agent-1")
                return [(job.state, job.failed_attempts) for job in jobs] == [("waiting", 2)]

            # The second did not wait for the first one's pause of an hour.
            await _until(both_have_failed)


async def test_one_memory_that_fails_keeps_no_other_of_its_tenant_from_its_consolidation(
    memory: AgentMem, server: Server, database: str
) -> None:
    """Each memory is tried by itself; the report and the job name the one that failed."""
    bad = await memory.create_active_memory("agent-1", "Bad", LONG)
    good = await memory.create_active_memory("agent-1", "Good", LONG)
    condition = f"kind <> 'memory.consolidated' OR payload ->> 'memory_id' <> '{bad.id}'"
    async with refusing(server.superuser(database), "memory_event", condition):
        report = await memory.admin.run_due("agent-1")

        assert report.consolidated == (good.id,)
        assert report.error is not None
        assert str(bad.id) in report.error
        (job,) = await memory.admin.jobs("agent-1")
        assert (job.state, job.failed_attempts, job.error) == ("waiting", 1, report.error)

    assert (await memory.admin.run_due("agent-1")).consolidated == (bad.id,)
    (job,) = await memory.admin.jobs("agent-1")
    assert (job.failed_attempts, job.error) == (0, None)


async def test_a_statement_that_takes_too_long_is_a_failure_and_no_outage(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """The server lives, so that the work would take too long for ever: it is given up after its attempts."""
    blocker = await open_connection(server.superuser(database))
    try:
        async with AgentMem(config(statement_timeout_seconds=1.5, job_max_attempts=2)) as memory:
            await memory.create_active_memory("agent-1", "Harbour", LONG)
            await blocker.execute_script("BEGIN; LOCK reminiscence.graph_mention")

            first = await memory.admin.run_due("agent-1")
            (failed,) = await memory.admin.jobs("agent-1")
            await memory.admin.run_due("agent-1")
            # The job of the first attempt waits beside it.
            given_up = [job for job in await memory.admin.jobs("agent-1") if job.state == "failed"]
    finally:
        blocker.close()

    assert first.error_type == "StoreTimeoutError"
    assert (failed.state, failed.failed_attempts) == ("waiting", 1)
    assert [job.failed_attempts for job in given_up] == [2]


class _Moody(HashEmbedder):
    """An embedder that is away until it is told to come back."""

    def __init__(self) -> None:
        super().__init__(TEST_DIMENSION)
        self.is_away = False

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.is_away:
            raise EmbeddingError("the embedder is away")
        return await super().embed(texts)


async def test_vectors_that_could_not_be_made_are_made_later(config: Callable[..., Config]) -> None:
    """An embedder that is away costs a write nothing but time; when it is back, a worker fills in what is missing."""
    embedder = _Moody()
    async with AgentMem(config(), embedder=embedder) as memory:
        embedder.is_away = True
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        assert note.write is not None
        assert note.write.vectors_missing == 1
        report = await memory.admin.run_due("agent-1")
        assert (report.error_type, report.vectors_filled) == ("EmbeddingError", 0)

        embedder.is_away = False
        report = await memory.admin.run_due("agent-1")

        assert (report.error, report.vectors_filled) == (None, 1)
        (stream,) = (await memory.admin.verify("agent-1")).streams
        assert stream.missing_vectors == 0


@pytest.mark.parametrize("grace", [30.0, 0.1], ids=["finished", "stopped"])
async def test_what_is_under_way_at_the_close_is_finished_or_queued_again(
    config: Callable[..., Config], server: Server, database: str, monkeypatch: pytest.MonkeyPatch, grace: float
) -> None:
    """`close` waits for it, for a while; either way nothing stays marked as running, and the next start does it."""
    monkeypatch.setattr(jobs_module, "WORKER_GRACE_SECONDS", grace)
    async with AgentMem(config()) as waiting:
        await waiting.create_active_memory("agent-1", "Harbour", LONG)
        memory = AgentMem(config(worker=True))
        async with streams_held(server.superuser(database)):
            await memory.initialize()

            async def is_running() -> bool:
                return _states(await waiting.admin.jobs("agent-1")) == ["running"]

            await _until(is_running)
            closing = asyncio.create_task(memory.close())
            await asyncio.sleep(0.5)
        await closing

        assert "running" not in _states(await waiting.admin.jobs("agent-1"))
        if grace > 1:
            assert await _consolidated(waiting) == [1]
        async with AgentMem(config(worker=True)) as memory:
            assert await memory.admin.wait_until_idle("agent-1", 30) == []
            assert await _consolidated(memory) == [1]


@pytest.mark.parametrize("milliseconds", [0, 5, 20, 100])
async def test_a_memory_may_be_closed_as_soon_as_it_is_open(
    config: Callable[..., Config], server: Server, database: str, milliseconds: int
) -> None:
    """A worker that is still connecting leaves neither a task nor a connection behind."""
    async with AgentMem(config(worker=True)):
        await asyncio.sleep(milliseconds / 1000)

    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert [task.get_name() for task in others if "pool" in task.get_name() or "worker" in task.get_name()] == []

    async def has_left() -> bool:
        return not await _rows(
            server, database, "SELECT pid FROM pg_stat_activity WHERE application_name = 'agent_reminiscence worker'"
        )

    await _until(has_left)


async def test_who_gives_up_on_closing_cuts_no_job_short(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """The cancellation reaches the caller at once, and what is under way ends as it would have."""
    async with AgentMem(config()) as waiting:
        await waiting.create_active_memory("agent-1", "Harbour", LONG)
        memory = AgentMem(config(worker=True))
        async with streams_held(server.superuser(database)) as queued:
            await memory.initialize()
            await queued(1)
            closing = asyncio.create_task(memory.close())
            await asyncio.sleep(0.2)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing

        async def is_done() -> bool:
            return "running" not in _states(await waiting.admin.jobs("agent-1"))

        await _until(is_done)
        await waiting.admin.run_worker(until_idle=True)
        assert await _consolidated(waiting) == [1]


async def test_asking_for_the_work_of_nobody_makes_nobody(memory: AgentMem) -> None:
    """An id that was never used stays so."""
    report = await memory.admin.run_due("nobody")

    assert (report.error, report.consolidated) == (None, ())
    assert await memory.admin.jobs("nobody") == []
    assert await memory.admin.wait_until_idle("nobody", 0) == []
    assert [stream.external_id for stream in (await memory.admin.verify()).streams] == []


async def test_a_due_update_that_changes_no_text_is_due_all_the_same(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """Whatever becomes of its job: what is due stands in the stream's own row."""
    async with AgentMem(config(active_memory_update_threshold=1)) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        await memory.update_active_memory("agent-1", note.id, description="Of the ship.")
        await _rows(server, database, "TRUNCATE reminiscence_jobs.procrastinate_jobs CASCADE")

        await memory.admin.run_worker(until_idle=True)

        assert await _consolidated(memory) == [2]


async def test_a_worker_that_runs_already_finds_what_has_no_job(
    config: Callable[..., Config], server: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody writes and nobody starts: it looks around every few seconds, here every second."""
    monkeypatch.setattr(jobs_module, "SWEEP_SECONDS", 1)
    async with AgentMem(config()) as writer:
        await writer.create_active_memory("agent-1", "Harbour", LONG)
        await _rows(server, database, "TRUNCATE reminiscence_jobs.procrastinate_jobs CASCADE")
        # Not due yet, so that the worker's beginning has nothing to do with it.
        await _rows(server, database, _DUE.format("clock_timestamp() + interval '1 day'"))
        async with AgentMem(config(worker=True)):
            await writer.create_active_memory("agent-2", "Harbour", LONG)

            async def is_consolidated(external_id: str) -> bool:
                return await _consolidated(writer, external_id) == [1]

            await _until(lambda: is_consolidated("agent-2"))
            await _rows(server, database, _DUE.format("clock_timestamp() - interval '1 day'"))
            # Not `wait_until_idle`, which queues what is due itself.
            await _until(lambda: is_consolidated("agent-1"))


async def test_what_has_no_job_though_it_is_due_gets_one(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """A job that vanished is no work that vanished: what is due stands in the stream's own row."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Harbour", LONG)
        await _rows(server, database, "TRUNCATE reminiscence_jobs.procrastinate_jobs CASCADE")
        assert await memory.admin.jobs() == []

        await memory.admin.run_worker(until_idle=True)

        assert await _consolidated(memory) == [1]


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan"), "1", None, True])
async def test_a_time_that_is_none_is_refused(memory: AgentMem, seconds: Any) -> None:
    """Waiting takes a number of seconds."""
    with pytest.raises(InvalidInputError, match="timeout_seconds"):
        await memory.admin.wait_until_idle("agent-1", seconds)
