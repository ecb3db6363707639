"""Takes jobs until it is stopped, and survives the server's absence."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from agent_reminiscence.config.constants import (
    WORKER_FAREWELL_SECONDS,
    WORKER_GRACE_SECONDS,
    WORKER_MAX_RESTART_SECONDS,
    WORKER_RESTART_SECONDS,
)
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.services.work import WorkService, describe_error
from agent_reminiscence.telemetry import Telemetry, detached

if TYPE_CHECKING:
    from agent_reminiscence.services.jobs import JobQueue

_logger = logging.getLogger("agent_reminiscence.jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """What a worker works with.

    Attributes:
        concurrency: Streams whose work it does at a time.
        heartbeat_seconds: How often it says that it lives.
    """

    store: PostgresManager
    work: WorkService
    telemetry: Telemetry
    concurrency: int
    heartbeat_seconds: float


class Worker:
    """Does streams' work, in a task beside the caller's own or in the caller's."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._setup = setup
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Work in a task beside the caller's own; `stop` ends it."""
        if self._task is None:
            self._task = asyncio.create_task(self.run(), name="agent_reminiscence worker", context=detached())

    async def stop(self) -> None:
        """Take no further job, and end when those under way have finished or their time is over.

        What did not finish in time is undone; it stays due, and another worker or the next start does it.
        """
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        # Not awaited itself: a caller who loses patience must not cut the farewell short, and a server that does not
        # answer must not keep the caller.
        await asyncio.wait({task}, timeout=WORKER_GRACE_SECONDS + WORKER_FAREWELL_SECONDS)
        if not task.done():
            task.cancel()
            _logger.warning("the worker does not end, because its server does not answer; it is left behind")

    async def run(self) -> None:
        """Work until this task is cancelled."""
        pause = WORKER_RESTART_SECONDS
        while True:
            started = asyncio.get_running_loop().time()
            try:
                # Has an embedded server started again that was killed, and tells where it is then.
                await self._setup.store.ping()
                await self._serve(until_idle=False)
            except Exception as error:  # noqa: BLE001 - whatever it is, work must not stay undone without a word
                level = logging.WARNING if isinstance(error, ReminiscenceError) else logging.ERROR
                _logger.log(level, "the worker begins again in %.0f s: %s", pause, describe_error(error))
            else:
                _logger.warning("the worker has lost its connection and begins again in %.0f s", pause)
            if (task := asyncio.current_task()) is not None and task.cancelling():
                # What failed was the end itself, in which Procrastinate takes its leave of the server.
                raise asyncio.CancelledError
            # It was there for longer than it was waited for.
            if asyncio.get_running_loop().time() - started > pause:
                pause = WORKER_RESTART_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, WORKER_MAX_RESTART_SECONDS)

    async def run_until_idle(self) -> None:
        """Do what is waiting now, and what has no job though it is due, and end; a retry that waits is left waiting.

        Raises:
            StoreError: The server is away.
        """
        await self._setup.work.enqueue_due(grace_seconds=0)
        await self._setup.work.enqueue_behind()
        await self._serve(until_idle=True)

    async def _serve(self, *, until_idle: bool) -> None:
        # Only who works needs Procrastinate and its driver; importing them takes a fifth of a second, so in a thread.
        jobs = await asyncio.to_thread(import_module, "agent_reminiscence.services.jobs")
        queue: JobQueue = jobs.JobQueue(self._setup)
        await queue.serve(until_idle=until_idle)
