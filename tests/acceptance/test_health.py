"""Whether a memory says that it works, and what does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config, Health, InvalidInputError, JobCounts
from agent_reminiscence.database.connection import open_connection
from tests.acceptance.conftest import Server
from tests.support.servers import BOTH_SERVERS
from tests.support.steps import refusing

LONG = "The harbour of Lisbon opens at nine on Monday. " * 50
_NO_CONSOLIDATION = "kind <> 'memory.consolidated' OR external_id <> 'agent-1'"


async def _until(memory: AgentMem, holds: Callable[[Health], bool]) -> Health:
    """The first health for which something holds."""
    async with asyncio.timeout(60):
        while not holds(health := await memory.admin.health(timeout_seconds=30)):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.02)
        return health


def _is_ready(health: Health) -> bool:
    return health.is_ready


@asynccontextmanager
async def _closed_to_all(server: Server, database: str) -> AsyncIterator[None]:
    """A database that takes no connections and has ended those that it had."""
    db = await open_connection(server.superuser("postgres"))
    try:
        await db.execute_script(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        await db.fetch_all(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $(name)p::text", {"name": database}
        )
        yield
    finally:
        await db.execute_script(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
        db.close()


@BOTH_SERVERS
async def test_a_memory_without_a_worker_is_well_if_its_store_answers(memory: AgentMem) -> None:
    """The settings want no worker here, so that none is missed; what waits is counted."""
    assert await memory.admin.health(timeout_seconds=30) == Health(worker="off", jobs=JobCounts())

    await memory.create_active_memory("agent-1", "Harbour", LONG)
    await memory.create_active_memory("agent-2", "Harbour", LONG)
    first = await memory.admin.health(timeout_seconds=30)
    await asyncio.sleep(0.01)
    second = await memory.admin.health(timeout_seconds=30)

    assert first.is_ready
    assert first.jobs is not None
    assert second.jobs is not None
    assert (first.jobs.waiting, first.jobs.running, first.jobs.failed) == (2, 0, 0)
    # Nobody works.
    assert 0 < first.jobs.next_waits_seconds < second.jobs.next_waits_seconds


async def test_a_worker_that_starts_is_well_once_it_takes_jobs(config: Callable[..., Config]) -> None:
    """Until then the process is not ready."""
    async with AgentMem(config(worker=True)) as memory:
        first = await memory.admin.health(timeout_seconds=30)
        assert first.worker in ("starting", "working")
        assert first.problems == (("worker",) if first.worker == "starting" else ())
        assert (await _until(memory, _is_ready)).worker == "working"


async def test_work_that_fails_is_no_health_until_it_is_done(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """The error names its class and place, and no text; the next attempt, which a write causes, ends it."""
    async with AgentMem(config(worker=True, job_retry_seconds=3600)) as memory:
        async with refusing(server.superuser(database), "memory_event", _NO_CONSOLIDATION):
            await memory.create_active_memory("agent-1", "Harbour", LONG)
            failing = await _until(memory, lambda health: health.work_error is not None)
            assert failing.problems == ("work",)
            assert failing.work_error is not None
            assert "StoreError" in failing.work_error
            assert "Lisbon" not in failing.model_dump_json()

        await memory.create_active_memory("agent-1", "Quay", LONG)
        well = await _until(memory, _is_ready)
        assert well.jobs is not None
        assert well.jobs.failed == 0


async def test_work_that_was_given_up_is_counted_and_ends_nobody_s_service(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """One tenant's text must not take the process away from all others; for an operator there is the number."""
    async with (
        AgentMem(config(worker=True, job_retry_seconds=0.05, job_max_attempts=2)) as memory,
        refusing(server.superuser(database), "memory_event", _NO_CONSOLIDATION),
    ):
        await memory.create_active_memory("agent-1", "Harbour", LONG)
        await memory.admin.wait_until_idle("agent-1", 60)
        health = await _until(memory, _is_ready)
        assert health.jobs is not None
        assert health.jobs.failed == 1


async def test_another_process_that_does_the_work_ends_the_failure(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """A process whose last job failed does not stay unready because others have all the work."""
    async with (
        AgentMem(config(worker=True, job_retry_seconds=3600)) as memory,
        AgentMem(config()) as other,
    ):
        async with refusing(server.superuser(database), "memory_event", _NO_CONSOLIDATION):
            await memory.create_active_memory("agent-1", "Harbour", LONG)
            await _until(memory, lambda health: health.problems == ("work",))
        assert (await other.admin.health(timeout_seconds=30)).is_ready
        assert (await other.admin.run_due("agent-1")).error is None
        assert (await memory.admin.health(timeout_seconds=30)).is_ready


@pytest.mark.thorough
async def test_a_store_that_is_away_is_an_answer(config: Callable[..., Config], server: Server, database: str) -> None:
    """Neither an error nor a wait; the worker says so too, and both come back."""
    async with AgentMem(config(worker=True)) as memory:
        await _until(memory, _is_ready)
        async with _closed_to_all(server, database):
            away = await _until(memory, lambda health: health.problems == ("store", "worker"))
            assert away.worker == "restarting"
            assert away.worker_error is not None
            assert away.jobs is None
        assert (await _until(memory, _is_ready)).worker_error is None


async def test_a_store_that_does_not_answer_in_time_is_away(memory: AgentMem, server: Server, database: str) -> None:
    """Whoever asks has an answer in time; the memory works again as soon as its store does."""
    db = await open_connection(server.superuser(database))
    try:
        await db.execute_script("BEGIN; LOCK TABLE reminiscence.memory_stream IN ACCESS EXCLUSIVE MODE")
        health = await memory.admin.health(timeout_seconds=0.2)
        await db.execute_script("ROLLBACK")
    finally:
        db.close()
    assert health.store_error == "no answer within 0.2 s"
    assert (await memory.admin.health(timeout_seconds=30)).is_ready


@pytest.mark.parametrize("seconds", [-1, float("nan"), "5", None])
async def test_a_time_that_is_none_is_refused(memory: AgentMem, seconds: Any) -> None:
    """Before the store is asked."""
    with pytest.raises(InvalidInputError, match="timeout_seconds"):
        await memory.admin.health(timeout_seconds=seconds)
