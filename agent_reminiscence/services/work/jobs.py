"""Jobs in Procrastinate's queue: what they do, and how workers take over from those that died.

A job names a stream and covers whatever is due for it (`stream_work.py`). Jobs have a `queueing_lock`, so that at
most one per stream waits, but neither `lock` nor `retry`: together these leave a failed job running for ever, and its
successor never starts. A job that fails queues its own successor and ends as successful. A killed worker is noticed by
its missing heartbeat, and any other worker's sweep queues its jobs again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import ConnectorException, ProcrastinateException
from procrastinate.jobs import Job as ProcrastinateJob
from procrastinate.jobs import Status
from procrastinate.manager import JobManager

from agent_reminiscence.config.constants import (
    CONNECT_TIMEOUT_SECONDS,
    WORKER_GRACE_SECONDS,
)
from agent_reminiscence.database.listening import psycopg_parameters
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.work.stream_work import WorkerSetup, describe_error
from agent_reminiscence.telemetry import detached

if TYPE_CHECKING:
    from procrastinate.connector import BaseConnector
    from procrastinate.job_context import JobContext

    from agent_reminiscence.database.connection import ConnectionSettings

_logger = logging.getLogger("agent_reminiscence.jobs")

JOB_QUEUE: Final = "reminiscence"
# How often workers look for work without a job, which only a crash leaves behind, and its minimum age: younger work is
# most likely still being done by the call that created it.
SWEEP_SECONDS: Final = 30
SWEEP_GRACE_SECONDS: Final = 60.0
# After missing this many heartbeats, a worker counts as dead, and others take over its work.
MISSED_HEARTBEATS: Final = 3
# How often a worker polls for work: notifications are lost while it is not yet listening.
WORKER_POLL_SECONDS: Final = 1.0

_SQL = load_queries("sql", "jobs")

# How many streams may wait for each one being sent to Neo4j; more are left to others.
_FOLLOWED_PER_SLOT = 20
# How often to check whether Neo4j is back; its breaker decides how often it is called.
_AWAY_LOOK_SECONDS = 1.0


class JobQueue:
    """Procrastinate's side of a worker."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._store = setup.store
        self._work = setup.work
        self._telemetry = setup.telemetry
        self._watch = setup.watch
        self._concurrency = setup.concurrency
        self._heartbeat_seconds = setup.heartbeat_seconds
        # Neo4j's work runs beside the jobs: a Neo4j that does not answer must not hold up other work.
        self._behind: asyncio.Task[None] | None = None
        self._following: dict[str, asyncio.Task[None]] = {}
        self._asked_again: set[str] = set()
        self._follow_slots = asyncio.Semaphore(setup.concurrency)

    async def serve(self, *, until_idle: bool) -> None:
        """Take jobs until the connection is lost or, with `until_idle`, until none waits.

        When cancelled, it takes no further job and waits for running ones, within their grace period.

        Raises:
            StoreError: The server is unavailable.
        """
        try:
            await self._serve(until_idle=until_idle)
        except (ProcrastinateException, psycopg.Error) as error:
            raise StoreError(f"the worker lost its connection to the server ({type(error).__name__})") from error

    async def _serve(self, *, until_idle: bool) -> None:
        app = self._app()
        try:
            await app.open_async()
            self._watch.connected()
            if until_idle:
                # Before the first job is taken, so that this run does what a killed worker left behind.
                await self._sweep(app)
            else:
                self._look_behind()
            serving = asyncio.create_task(
                app.run_worker_async(
                    queues=[JOB_QUEUE],
                    name="agent_reminiscence",
                    concurrency=self._concurrency,
                    wait=not until_idle,
                    install_signal_handlers=False,
                    delete_jobs="successful",
                    fetch_job_polling_interval=WORKER_POLL_SECONDS,
                    shutdown_graceful_timeout=WORKER_GRACE_SECONDS,
                    update_heartbeat_interval=self._heartbeat_seconds,
                    stalled_worker_timeout=self._silence_seconds,
                )
            )
            # If this task is abandoned, its jobs end later, when nobody asks any more how.
            serving.add_done_callback(lambda done: done.cancelled() or done.exception())
            app.job_manager = _JobManager(app.connector, serving)
            try:
                await asyncio.wait({serving})
            finally:
                # When cancelled it waits for running jobs and tells the server that it leaves.
                serving.cancel()
                await asyncio.wait({serving})
            if not serving.cancelled():
                serving.result()
            if until_idle and self._following:
                await asyncio.wait(self._following.values())
        finally:
            try:
                await self._stop_following()
            finally:
                # Even if opening failed: the pool exists from the first attempt on.
                await app.close_async()

    @property
    def _silence_seconds(self) -> float:
        return MISSED_HEARTBEATS * self._heartbeat_seconds

    def _app(self) -> App:
        settings = self._store.sessions_for("A worker")
        app = App(connector=_connector(settings, pool_size=self._concurrency + 1))

        @app.task(name="work_stream", queue=JOB_QUEUE, pass_context=True)
        async def work_stream(context: JobContext, external_id: str) -> None:
            with _logged_without_cause():
                await self._do(external_id, context.job.id)

        # Every worker requests it, which makes a single job.
        @app.periodic(cron=f"* * * * * */{SWEEP_SECONDS}")
        @app.task(name="sweep", queue=JOB_QUEUE, queueing_lock="sweep", pass_context=True)
        async def sweep(context: JobContext, timestamp: int) -> None:
            with _logged_without_cause():
                await self._sweep(context.app)
                self._look_behind()

        return app

    def _look_behind(self) -> None:
        """Queue what Neo4j lacks, without waiting for its answer."""
        if (self._behind is None or self._behind.done()) and not self._is_backed_up:
            self._behind = asyncio.create_task(self._enqueue_behind(), name="agent_reminiscence graph")

    async def _enqueue_behind(self) -> None:
        try:
            queued = await self._work.enqueue_behind()
            # As soon as one call succeeds, the outage is over for all streams.
            while self._work.graph_is_away:
                await asyncio.sleep(_AWAY_LOOK_SECONDS)
                queued = await self._work.enqueue_behind()
        except Exception as error:  # noqa: BLE001 - the next sweep looks again
            _logger.warning("could not find out what Neo4j lacks: %s", describe_error(error))
            return
        if queued:
            _logger.info("queued the work of %d streams that Neo4j has not followed", queued)

    def _follow_soon(self, external_id: str) -> None:
        """Bring Neo4j up to what a job has done; if that is already running, once more afterwards."""
        if not self._work.has_follower or (self._is_backed_up and external_id not in self._following):
            # If it cannot keep up, a later sweep or another process finds what is left.
            return
        self._asked_again.add(external_id)
        if external_id not in self._following:
            self._following[external_id] = asyncio.create_task(
                self._follow(external_id), name="agent_reminiscence graph", context=detached()
            )

    @property
    def _is_backed_up(self) -> bool:
        return len(self._following) >= _FOLLOWED_PER_SLOT * self._concurrency

    async def _follow(self, external_id: str) -> None:
        try:
            while external_id in self._asked_again:
                async with self._follow_slots:
                    self._asked_again.discard(external_id)
                    with self._telemetry.job("follow_graph", external_id=external_id):
                        await self._work.follow(external_id)
        except Exception as error:  # noqa: BLE001 - the next sweep finds the stream
            _logger.warning(
                "Neo4j could not follow; a later sweep will retry: %s",
                describe_error(error),
                extra={"external_id": external_id},
            )
        finally:
            del self._following[external_id]
            self._asked_again.discard(external_id)

    async def _stop_following(self) -> None:
        """Stop; the next worker looks first for whatever Neo4j has not followed by now."""
        tasks = {*self._following.values(), *([] if self._behind is None else [self._behind])}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _do(self, external_id: str, job_id: int | None) -> None:
        attempt, delay = await self._describe(external_id, job_id)
        with self._telemetry.job("work_stream", external_id=external_id, attempt=attempt, delay_seconds=delay) as job:
            try:
                report = await self._work.run(external_id, follows=False)
                self._watch.ran(report)
            except asyncio.CancelledError:
                # Its grace period ended with this worker. The next one starts over at once.
                await asyncio.shield(self._work.enqueue(external_id))
                raise
            if report.error_type is not None:
                job.failed(report.error_type)
        self._follow_soon(external_id)
        _logger.debug(
            "did a stream's work: %d memories consolidated, %d chunks promoted, %d ended, vectors filled in for %d",
            len(report.consolidated),
            report.promoted,
            report.expired + report.pruned,
            report.vectors_filled,
            extra={"external_id": external_id},
        )

    async def _describe(self, external_id: str, job_id: int | None) -> tuple[int | None, float | None]:
        """A job's attempt number, and how many seconds it waited; for telemetry only, so None if unknown."""
        try:
            found = next((job for job in await self._work.jobs(external_id) if job.job_id == job_id), None)
        except StoreError:
            found = None
        if found is None or found.started_at is None or found.queued_at is None:
            return None, None
        # All three are by the server's clock.
        could_start = max(found.queued_at, found.scheduled_at or found.queued_at)
        return found.failed_attempts + 1, (found.started_at - could_start).total_seconds()

    async def _sweep(self, app: App) -> None:
        """Take over what dead workers left, and queue what is due and has no job."""
        await app.job_manager.prune_stalled_workers(self._silence_seconds)
        dead: set[str] = set()
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=self._silence_seconds):
            assert job.id is not None
            try:
                await app.job_manager.finish_job_by_id_async(job.id, Status.FAILED, delete_job=True)
            except ConnectorException:
                # Another sweep was faster.
                continue
            if isinstance(external_id := job.task_kwargs.get("external_id"), str):
                dead.add(external_id)
        # Counted as a failure, because work that kills its workers must eventually be given up. But only once, however
        # many of a stream's jobs died: each failure lengthens the pause.
        for external_id in sorted(dead):
            try:
                await self._work.fail(external_id, "its worker died", by_death=True)
            except StoreError as error:
                # The stream is locked. It is still due, so a later sweep finds it; the others must not wait for it.
                _logger.warning(
                    "could not requeue a dead worker's job yet; a later sweep will: %s",
                    describe_error(error),
                    extra={"external_id": external_id},
                )
        queued = await self._work.enqueue_due(grace_seconds=SWEEP_GRACE_SECONDS)
        if queued:
            _logger.info("queued overdue work of %d streams that had no job", queued)
        # Aborted and failed jobs can go: their streams are due again and have been queued.
        await app.job_manager.delete_old_jobs(
            nb_hours=1, queue=JOB_QUEUE, include_failed=True, include_cancelled=True, include_aborted=True
        )


class _JobManager(JobManager):
    """Ends its worker if the end of a job cannot be recorded.

    Procrastinate ignores that failure, and the job would count as running for as long as its worker lives. Once the
    worker is gone, another takes the job over.
    """

    def __init__(self, connector: BaseConnector, serving: asyncio.Task[None]) -> None:
        super().__init__(connector)
        self._serving = serving

    async def finish_job(self, job: ProcrastinateJob, status: Status, delete_job: bool) -> None:
        """Record the end of a job, with a second attempt on another connection."""
        try:
            await super().finish_job(job, status, delete_job)
        except ConnectorException:
            try:
                await super().finish_job(job, status, delete_job)
            except ConnectorException:
                _logger.warning("could not record the end of job %s; restarting the worker", job.id)
                self._serving.cancel()


class _JobError(Exception):
    """A job ended early because the store could not even record its outcome."""


@contextmanager
def _logged_without_cause() -> Iterator[None]:
    """Keep the driver's errors out of the traceback that Procrastinate logs: they may quote a row."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the work stays due and a sweep finds it
        raise _JobError(describe_error(error)) from None


def _connector(settings: ConnectionSettings, *, pool_size: int) -> PsycopgConnector:
    """Connections with the worker's role, which sees the queue but no memory."""
    return PsycopgConnector(
        conninfo="",
        kwargs=psycopg_parameters(settings, "agent_reminiscence worker"),
        configure=_take_role,
        min_size=1,
        max_size=pool_size,
        timeout=CONNECT_TIMEOUT_SECONDS,
        reconnect_timeout=CONNECT_TIMEOUT_SECONDS,
    )


async def _take_role(connection: psycopg.AsyncConnection[Any]) -> None:
    await connection.execute(_SQL["take_worker_role"].encode())
    if not connection.autocommit:
        await connection.commit()
