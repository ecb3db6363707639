"""The work queue in the database: what is queued with a write, who may reach it, and that it says nothing of memories.

`enqueue_work` and `list_work` are the application's only ways to it; Procrastinate works it off as a role of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from procrastinate import App, PsycopgConnector
from procrastinate.jobs import Status

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.config.constants import APP_ROLE, MAX_ID_CHARACTERS, SCHEDULER_ROLE, SCHEMA_NAME, WORKER_ROLE
from agent_reminiscence.database.connection import ConnectionSettings, Row, SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.schema import JOBS_SCHEMA_NAME
from agent_reminiscence.database.text_columns import TEXT_COLUMNS, Holds
from agent_reminiscence.exceptions import EmbeddingError, StoreError
from tests.conftest import TEST_DIMENSION, TestServer
from tests.support.factories import SECRET, fill_tenant, stored_rows, superuser

_TENANT = "agent-1"
_NEIGHBOUR = "agent-2"
# A session of this database waits for another one's lock.
_BLOCKED = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
"""
_LATER = datetime.now(UTC) + timedelta(hours=1)
_EARLIER = datetime.now(UTC) - timedelta(hours=1)


async def _enqueue(db: SqlExecutor, run_at: datetime | None = None) -> bool:
    """Queue the work of the transaction's stream, for now or for later; whether a job came of it."""
    row = await db.fetch_one("SELECT enqueue_work($(run_at)p::timestamptz) AS queued", {"run_at": run_at})
    assert row is not None
    return bool(row["queued"])


async def _enqueue_for(store: PostgresManager, external_id: str, run_at: datetime | None = None) -> bool:
    async with store.transaction(external_id) as db:
        return await _enqueue(db, run_at)


async def _listed(store: PostgresManager, external_id: str) -> list[Row]:
    async with store.transaction(external_id, read_only=True) as db:
        return await db.fetch_all("SELECT * FROM list_work()")


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module, whose queue each test finds empty."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture(autouse=True)
async def administrator(test_server: TestServer, database: str) -> AsyncIterator[SqlExecutor]:
    """Somebody who sees everything, in both schemas."""
    async with superuser(test_server, database) as db:
        await db.execute_script(
            f"SET search_path = {SCHEMA_NAME}, {JOBS_SCHEMA_NAME}, public;"
            "TRUNCATE chunk_use, procrastinate_jobs, procrastinate_events, procrastinate_workers,"
            " procrastinate_periodic_defers"
        )
        yield db


async def _until(db: SqlExecutor, statement: str) -> None:
    """Wait until a statement finds something."""
    async with asyncio.timeout(60):
        while True:
            if await db.fetch_all(statement):
                return
            await asyncio.sleep(0.02)


async def _jobs(administrator: SqlExecutor) -> list[Row]:
    return await administrator.fetch_all(
        "SELECT id, args ->> 'external_id' AS external_id, status::text AS status, scheduled_at"
        " FROM procrastinate_jobs ORDER BY id"
    )


async def _set_status(administrator: SqlExecutor, status: str) -> None:
    """What a worker does to the jobs that wait, without a worker."""
    await administrator.execute(
        "UPDATE procrastinate_jobs SET status = $(status)p::text::procrastinate_job_status WHERE status = 'todo'",
        {"status": status},
    )


async def _write_and_enqueue(db: SqlExecutor, digit: int) -> bool:
    """A write to a row of its own, and the work that it makes due."""
    await db.execute(
        "INSERT INTO chunk_use (external_id, chunk_id, uses, last_used_at)"
        " VALUES ('agent-1', $(chunk_id)p::text::uuid, 1, now())",
        {"chunk_id": f"00000000-0000-0000-0000-00000000000{digit}"},
    )
    return await _enqueue(db)


async def _write(store: PostgresManager, digit: int) -> bool:
    async with store.transaction(_TENANT) as db:
        return await _write_and_enqueue(db, digit)


async def _count_writes(administrator: SqlExecutor) -> int:
    return len(await administrator.fetch_all("SELECT chunk_id FROM chunk_use"))


# With the write ---------------------------------------------------------------------------------------------------


async def test_work_is_queued_with_the_transaction_that_makes_it_due(
    store: PostgresManager, administrator: SqlExecutor
) -> None:
    """Both happen or neither: before the commit nobody sees the job, and afterwards it is there."""
    async with store.transaction(_TENANT) as db:
        assert await _write_and_enqueue(db, 1)
        assert await _jobs(administrator) == []

    [job] = await _jobs(administrator)
    assert (job["external_id"], job["status"], job["scheduled_at"]) == (_TENANT, "todo", None)
    assert await _count_writes(administrator) == 1


async def test_work_of_a_transaction_that_is_rolled_back_was_never_queued(
    store: PostgresManager, administrator: SqlExecutor
) -> None:
    """A write that did not happen makes no work, and what it would have replaced still waits."""
    await _enqueue_for(store, _TENANT, _LATER)
    before = await _jobs(administrator)

    with suppress(ZeroDivisionError):
        async with store.transaction(_TENANT) as db:
            assert await _write_and_enqueue(db, 1)
            raise ZeroDivisionError

    assert await _jobs(administrator) == before
    assert await _count_writes(administrator) == 0


async def test_a_job_names_its_stream_and_says_nothing_else(store: PostgresManager, administrator: SqlExecutor) -> None:
    """Whatever is due when it starts is done, so there is nothing to say; and nothing that an erasure had to reach."""
    await _enqueue_for(store, _TENANT)

    [row] = await administrator.fetch_all("SELECT to_jsonb(j)::text AS job FROM procrastinate_jobs j")
    job = json.loads(row["job"])
    assert job.pop("id") > 0
    assert job == {
        "queue_name": "reminiscence",
        "task_name": "work_stream",
        "priority": 0,
        # A lock would leave a successor waiting for ever behind a job that never ended.
        "lock": None,
        "queueing_lock": "stream:agent-1",
        "args": {"external_id": _TENANT},
        "status": "todo",
        "scheduled_at": None,
        "attempts": 0,
        "abort_requested": False,
        "worker_id": None,
    }


async def test_one_waiting_job_is_enough(store: PostgresManager, administrator: SqlExecutor) -> None:
    """It does whatever is due when it starts, so writes that follow each other quickly make one."""
    async with store.transaction(_TENANT) as db:
        assert [await _enqueue(db) for _ in range(3)] == [True, False, False]
    assert not await _enqueue_for(store, _TENANT)

    assert len(await _jobs(administrator)) == 1


@pytest.mark.parametrize("status", ["doing", "failed", "succeeded", "cancelled", "aborted"])
async def test_a_job_that_waits_no_longer_keeps_no_other_from_being_queued(
    store: PostgresManager, administrator: SqlExecutor, status: str
) -> None:
    """What becomes due while a job runs, or after it has ended in any way, needs a job of its own."""
    await _enqueue_for(store, _TENANT)
    await _set_status(administrator, status)

    assert await _enqueue_for(store, _TENANT)

    assert [job["status"] for job in await _jobs(administrator)] == [status, "todo"]


async def test_a_retry_that_waits_is_replaced_by_work_for_now(
    store: PostgresManager, administrator: SqlExecutor
) -> None:
    """A new write must not wait for the pause that an earlier failure has made."""
    assert await _enqueue_for(store, _TENANT, _LATER)
    [retry] = await _jobs(administrator)

    assert await _enqueue_for(store, _TENANT)

    [job] = await _jobs(administrator)
    assert job["id"] != retry["id"]
    assert job["scheduled_at"] is None
    [listed] = await _listed(store, _TENANT)
    assert listed["job_id"] == job["id"]


async def test_a_retry_whose_time_has_come_is_work_for_now(store: PostgresManager, administrator: SqlExecutor) -> None:
    """It is about to be fetched; replacing it would gain nothing."""
    await _enqueue_for(store, _TENANT, _EARLIER)
    before = await _jobs(administrator)

    assert not await _enqueue_for(store, _TENANT)

    assert await _jobs(administrator) == before


@pytest.mark.parametrize("waiting", [None, _EARLIER, _LATER], ids=["for now", "since an hour", "in an hour"])
async def test_a_retry_is_not_added_to_a_job_that_waits(
    store: PostgresManager, administrator: SqlExecutor, waiting: datetime | None
) -> None:
    """Whatever waits does the work; a failure must never put off what a write has asked for meanwhile."""
    await _enqueue_for(store, _TENANT, waiting)
    before = await _jobs(administrator)

    assert not await _enqueue_for(store, _TENANT, _LATER + timedelta(hours=1))

    assert await _jobs(administrator) == before


@pytest.mark.parametrize("retry_waits", [False, True], ids=["nothing waits", "a retry waits"])
@pytest.mark.parametrize("commits", [True, False], ids=["the first commits", "the first rolls back"])
async def test_a_write_that_meets_anothers_uncommitted_job_takes_effect(
    store: PostgresManager, administrator: SqlExecutor, retry_waits: bool, commits: bool
) -> None:
    """One of both queues the job, and the unique index that settles it aborts neither write."""
    if retry_waits:
        await _enqueue_for(store, _TENANT, _LATER)
    with suppress(ZeroDivisionError):
        async with store.transaction(_TENANT) as db:
            assert await _enqueue(db)
            second = asyncio.create_task(_write(store, 2))
            await _until(administrator, _BLOCKED)
            if not commits:
                raise ZeroDivisionError

    async with asyncio.timeout(60):
        assert await second is not commits
    [job] = await _jobs(administrator)
    assert (job["status"], job["scheduled_at"]) == ("todo", None)
    assert await _count_writes(administrator) == 1


async def test_many_writers_at_once_make_one_job_and_lose_no_write(
    store: PostgresManager, administrator: SqlExecutor
) -> None:
    """The same with as many at a time as there are connections."""
    async with asyncio.timeout(60):
        queued = await asyncio.gather(*(_write(store, digit) for digit in range(10)))

    assert sum(queued) == 1
    assert len(await _jobs(administrator)) == 1
    assert await _count_writes(administrator) == 10


# Whose ------------------------------------------------------------------------------------------------------------


async def test_without_an_external_id_nothing_is_queued_and_nothing_listed(
    store: PostgresManager, administrator: SqlExecutor
) -> None:
    """Code that forgets to say whose work it means is told, instead of making a job that nobody can do."""
    await _enqueue_for(store, _TENANT)

    with pytest.raises(StoreError, match="none is set"):
        await _enqueue_for(store, "")
    assert await _listed(store, "") == []
    with pytest.raises(StoreError, match="none is set"):
        await administrator.execute("SELECT enqueue_work(NULL)")

    assert len(await _jobs(administrator)) == 1


@pytest.mark.parametrize(
    "neighbour", [_NEIGHBOUR, "agent-1 ", "Agent-1", "stream:agent-1", "agent-_", "agent-%", "'; --", "é", "e\u0301"]
)
async def test_a_tenant_neither_lists_nor_queues_nor_replaces_anothers_work(
    store: PostgresManager, administrator: SqlExecutor, neighbour: str
) -> None:
    """Their ids may look alike; both have their own job, and each sees and replaces its own."""
    await _enqueue_for(store, neighbour, _LATER)
    [theirs] = await _jobs(administrator)

    assert await _listed(store, _TENANT) == []
    assert await _enqueue_for(store, _TENANT)
    assert not await _enqueue_for(store, neighbour, _LATER)

    kept, ours = await _jobs(administrator)
    assert kept == theirs
    assert (theirs["external_id"], ours["external_id"]) == (neighbour, _TENANT)
    assert [row["job_id"] for row in await _listed(store, _TENANT)] == [ours["id"]]
    assert [row["job_id"] for row in await _listed(store, neighbour)] == [theirs["id"]]


async def test_the_longest_id_can_be_queued(store: PostgresManager, administrator: SqlExecutor) -> None:
    """An index entry holds some 2,700 bytes, and an id may have 256 characters of four bytes each."""
    external_id = "".join(chr(0x1F300 + number) for number in range(MAX_ID_CHARACTERS))

    assert await _enqueue_for(store, external_id)
    assert not await _enqueue_for(store, external_id)

    [job] = await _jobs(administrator)
    assert job["external_id"] == external_id
    assert len(await _listed(store, external_id)) == 1


async def test_a_table_of_the_callers_own_does_not_stand_in_for_the_queue(
    store: PostgresManager, administrator: SqlExecutor
) -> None:
    """The functions run with their owner's rights, so a caller must not decide which tables they mean."""
    async with store.transaction(_TENANT) as db:
        await db.execute_script(
            "CREATE TEMPORARY TABLE procrastinate_jobs (id bigint, queueing_lock text, status text,"
            " scheduled_at timestamptz) ON COMMIT DROP;"
            "CREATE TEMPORARY TABLE procrastinate_events (job_id bigint, type text, at timestamptz) ON COMMIT DROP;"
            "INSERT INTO procrastinate_jobs VALUES (-1, 'stream:agent-1', 'todo', NULL);"
            "SET LOCAL search_path = pg_temp, reminiscence"
        )
        assert await _enqueue(db)
        listed = await db.fetch_all("SELECT job_id FROM list_work()")

    [job] = await _jobs(administrator)
    assert listed == [{"job_id": job["id"]}]


async def test_what_is_listed_tells_how_long_work_waits_and_runs(
    store: PostgresManager, administrator: SqlExecutor
) -> None:
    """A job that runs and its waiting successor; what has ended is not listed."""
    await _enqueue_for(store, _TENANT)
    await _set_status(administrator, "succeeded")
    await _enqueue_for(store, _TENANT)
    await _set_status(administrator, "doing")
    await _enqueue_for(store, _TENANT, _LATER)

    running, waiting = await _listed(store, _TENANT)

    assert (running["state"], waiting["state"]) == ("running", "waiting")
    assert (running["scheduled_at"], waiting["scheduled_at"]) == (None, _LATER)
    assert running["queued_at"] <= running["started_at"]
    assert running["queued_at"] < waiting["queued_at"] < _LATER
    assert waiting["started_at"] is None


# Worked off ---------------------------------------------------------------------------------------------------------


async def _take_role(connection: psycopg.AsyncConnection[Any]) -> None:
    await connection.execute(f"SET ROLE {WORKER_ROLE}")
    await connection.execute(f"SET search_path = {JOBS_SCHEMA_NAME}")
    await connection.commit()


@asynccontextmanager
async def _worker(settings: ConnectionSettings) -> AsyncIterator[App]:
    """Procrastinate with all that it brings, as the login that has taken the worker's role."""
    parameters = {
        "host": settings.host,
        "port": settings.port,
        "user": settings.user,
        "dbname": settings.database,
        "sslmode": "disable",
    }
    app = App(connector=PsycopgConnector(conninfo="", kwargs=parameters, configure=_take_role, min_size=1, max_size=3))
    async with app.open_async():
        yield app


@pytest.fixture
async def procrastinate(test_server: TestServer, database: str) -> AsyncIterator[App]:
    """The app of a worker on this test's database."""
    async with _worker(test_server.login(database)) as app:
        yield app


async def test_a_worker_does_what_was_queued(
    store: PostgresManager, administrator: SqlExecutor, procrastinate: App
) -> None:
    """Procrastinate's own loop finds the job, hands the id to the task, and notes its end."""
    seen: list[str] = []

    @procrastinate.task(name="work_stream", queue="reminiscence")
    async def work_stream(external_id: str) -> None:
        assert [row["state"] for row in await _listed(store, external_id)] == ["running"]
        seen.append(external_id)

    await _enqueue_for(store, _TENANT)
    await _enqueue_for(store, "'; --")
    await _enqueue_for(store, _NEIGHBOUR, _LATER)

    await procrastinate.run_worker_async(
        queues=["reminiscence"], wait=False, install_signal_handlers=False, delete_jobs="successful"
    )

    assert sorted(seen) == ["'; --", _TENANT]
    assert [(job["external_id"], job["status"]) for job in await _jobs(administrator)] == [(_NEIGHBOUR, "todo")]
    workers = await administrator.fetch_all("SELECT id FROM procrastinate_workers")
    assert workers == [], "a worker that has ended is not listed"


async def test_a_waiting_worker_hears_of_new_work_at_once(
    store: PostgresManager, administrator: SqlExecutor, procrastinate: App
) -> None:
    """It is told by the commit and need not look: here it looks every ten minutes only."""
    done = asyncio.Event()

    @procrastinate.task(name="work_stream", queue="reminiscence")
    async def work_stream(external_id: str) -> None:
        done.set()

    worker = asyncio.create_task(
        procrastinate.run_worker_async(
            queues=["reminiscence"], install_signal_handlers=False, fetch_job_polling_interval=600
        )
    )
    try:
        # Once it listens there is a connection of it that waits for nothing but news.
        await _until(
            administrator,
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN %' AND state = 'idle'",
        )
        # What is enqueued while it looks for the first time is missed: it forgets the news of that time.
        async with asyncio.timeout(60):
            while not done.is_set():
                await _enqueue_for(store, f"{_TENANT}-{uuid4()}")
                with suppress(TimeoutError):
                    await asyncio.wait_for(done.wait(), 2)
    finally:
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker


async def test_the_worker_may_do_all_that_procrastinate_does(
    store: PostgresManager, administrator: SqlExecutor, procrastinate: App
) -> None:
    """Register and live, fetch, fail, repeat, cancel, take over from the dead, clear up, and queue by the clock."""
    manager = procrastinate.job_manager
    first = await manager.register_worker()
    await manager.update_heartbeat(first)
    assert await manager.check_connection_async()

    await _enqueue_for(store, _TENANT)
    job = await manager.fetch_job(queues=["reminiscence"], worker_id=first)
    assert job is not None
    assert (job.task_name, job.task_kwargs) == ("work_stream", {"external_id": _TENANT})
    assert list(await manager.get_stalled_jobs(seconds_since_heartbeat=60)) == []
    await manager.retry_job(job)
    assert await manager.fetch_job(queues=["reminiscence"], worker_id=first) is not None

    # A worker that has not been heard of for an hour.
    await administrator.execute_script("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
    [stalled] = await manager.get_stalled_jobs(seconds_since_heartbeat=60)
    assert stalled.id == job.id
    assert await manager.prune_stalled_workers(seconds_since_heartbeat=60) == [first]
    assert [stalled.id for stalled in await manager.get_stalled_jobs(seconds_since_heartbeat=60)] == [job.id]
    assert job.id is not None
    await manager.finish_job_by_id_async(job.id, Status.FAILED, delete_job=False)
    assert await manager.get_job_status_async(job.id) is Status.FAILED
    await manager.delete_old_jobs(nb_hours=0, queue="reminiscence", include_failed=True)
    assert await _jobs(administrator) == []

    @procrastinate.periodic(cron="* * * * *")
    @procrastinate.task(name="sweep", queue="reminiscence", queueing_lock="sweep")
    async def sweep(timestamp: int) -> None:
        raise AssertionError("not to be run here")

    job_of_the_minute = sweep.configure(task_kwargs={"timestamp": 60}).job
    deferred, again = [
        await manager.defer_periodic_job(job=job_of_the_minute, periodic_id="", defer_timestamp=60) for _ in range(2)
    ]
    assert deferred is not None
    assert again is None, "of several workers one queues what the clock asks for"
    assert await manager.cancel_job_by_id_async(deferred, delete_job=True)
    second = await manager.register_worker()
    await manager.unregister_worker(second)
    assert await _jobs(administrator) == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT external_id FROM reminiscence.memory_stream",
        "SELECT content FROM reminiscence.active_memory",
        "SELECT chunk_id FROM reminiscence.chunk_use",
        "SELECT value FROM reminiscence.schema_parameter",
        "SELECT reminiscence.enqueue_work(NULL)",
        "DROP TABLE procrastinate_events",
        "CREATE TABLE mine (x int)",
    ],
)
async def test_a_workers_connection_reaches_no_memory(procrastinate: App, statement: str) -> None:
    """Arguments hold ids, and with an id alone there is nothing to be read."""
    connector = procrastinate.connector
    assert isinstance(connector, PsycopgConnector)
    async with connector.pool.connection() as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute(statement)


# What it says -----------------------------------------------------------------------------------------------------


class _QuotingEmbedder:
    """Fails with the text that it was given in its message, as a provider's client may; off at first."""

    model_name = f"hash-{TEST_DIMENSION}"
    dimension = TEST_DIMENSION
    error: type[Exception] | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.error is not None:
            raise self.error(f"cannot embed {texts[0]!r}")
        return [[1.0] + [0.0] * (TEST_DIMENSION - 1) for _ in texts]


async def _queue_rows(administrator: SqlExecutor) -> list[str]:
    rows: list[str] = []
    for table in sorted({column.table for column in TEXT_COLUMNS if column.table.startswith("procrastinate_")}):
        found = await administrator.fetch_all(f"SELECT t::text AS row FROM {table} AS t")  # noqa: S608
        assert found, f"{table} without rows shows nothing"
        rows += [row["row"] for row in found]
    return rows


@pytest.mark.thorough
@pytest.mark.parametrize("error", [ValueError, EmbeddingError])
async def test_nothing_that_a_memory_says_gets_into_the_queue_or_beside_it(
    administrator: SqlExecutor, config: Callable[..., Config], error: type[Exception]
) -> None:
    """A life of memory with a worker beside it, in which work fails with the text in its error.

    No scan and no erasure looks at these columns, so they must never hold what a memory says.
    """
    embedder = _QuotingEmbedder()
    tenant = f"failing by {error.__name__}"
    secret = SECRET.removesuffix(".")
    async with AgentMem(config(worker=True), embedder=embedder) as memory:
        await fill_tenant(memory, f"before {error.__name__}")
        embedder.error = error
        note = await memory.create_active_memory(tenant, secret, f"{secret}. " * 60, actor=secret)
        for number in range(6):
            await memory.update_active_memory(tenant, note.id, content=f"{secret}, {number}. " * 60)
        await _until(
            administrator,
            f"SELECT FROM memory_stream WHERE external_id = '{tenant}' AND failed_error IS NOT NULL",
        )
        await _until(administrator, "SELECT id FROM procrastinate_periodic_defers")
        queue = await _queue_rows(administrator)

    labels = {(column.table, column.name) for column in TEXT_COLUMNS if column.holds is Holds.LABEL}
    assert ("memory_stream", "failed_error") in labels
    streams = (await stored_rows(administrator, tenant))["memory_stream"]
    # By its words: the digits of the secret may also stand in a time's microseconds.
    assert [row for row in (*queue, *streams) if "safe" in row or "cellar" in row] == []
    keys = await administrator.fetch_all(
        "SELECT DISTINCT task_name::text AS task, jsonb_object_keys(args) AS key FROM procrastinate_jobs"
    )
    assert {(row["task"], row["key"]) for row in keys} <= {("work_stream", "external_id"), ("sweep", "timestamp")}


@pytest.mark.parametrize("role", [APP_ROLE, SCHEDULER_ROLE])
async def test_the_queue_grows_by_enqueue_work_and_by_its_workers_only(store: PostgresManager, role: str) -> None:
    """Nobody who has a memory's text in his hands can put it there."""
    with pytest.raises(StoreError, match=f"permission denied for schema {JOBS_SCHEMA_NAME}"):
        async with store.transaction(_TENANT, role=role) as db:
            await db.execute(
                f"INSERT INTO {JOBS_SCHEMA_NAME}.procrastinate_jobs (queue_name, task_name, args)"  # noqa: S608
                " VALUES ('reminiscence', 'work_stream', '{\"text\": \"words\"}')"
            )
