"""Takes jobs until it is stopped, and survives outages of the server."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from agent_reminiscence.config.constants import WORKER_GRACE_SECONDS
from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.services.work.stream_work import WorkerSetup, describe_error
from agent_reminiscence.services.work.watch import WorkerWatch
from agent_reminiscence.telemetry import detached

if TYPE_CHECKING:
    from agent_reminiscence.domain.work import WorkerState
    from agent_reminiscence.services.work.jobs import JobQueue

_logger = logging.getLogger("agent_reminiscence.jobs")

# How long the sign-off from the server may take when a worker stops.
WORKER_FAREWELL_SECONDS: Final = 5.0
# The first and the longest pause before a worker that failed starts again.
WORKER_RESTART_SECONDS: Final = 1.0
WORKER_MAX_RESTART_SECONDS: Final = 30.0


class Worker:
    """Works on streams, in a background task or in the caller's task."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._setup = setup
        self._task: asyncio.Task[None] | None = None

    @property
    def watch(self) -> WorkerWatch:
        """How it goes."""
        return self._setup.watch

    @property
    def state(self) -> WorkerState:
        """What the background task is doing."""
        if self._task is None:
            return "off"
        if self._task.done():
            return "stopped"
        if self.watch.trouble is not None:
            return "restarting"
        return "working" if self.watch.is_connected else "starting"

    def start(self) -> None:
        """Start working in a background task; `stop` ends it."""
        if self._task is None:
            self._task = asyncio.create_task(self.run(), name="agent_reminiscence worker", context=detached())

    async def stop(self) -> None:
        """Take no further jobs, and end when the running ones have finished or timed out.

        Unfinished work is rolled back; it stays due, and another worker or the next start does it.
        """
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        # Not awaited directly: an impatient caller must not interrupt the shutdown, and an unresponsive server must not
        # block the caller.
        await asyncio.wait({task}, timeout=WORKER_GRACE_SECONDS + WORKER_FAREWELL_SECONDS)
        if not task.done():
            task.cancel()
            _logger.warning("the worker cannot stop because its server does not respond; it is abandoned")

    async def run(self) -> None:
        """Work until this task is cancelled.

        Raises:
            ConfigurationError: It would share its session with other clients of a connection pooler.
        """
        self._setup.store.sessions_for("A worker")
        pause = WORKER_RESTART_SECONDS
        while True:
            started = asyncio.get_running_loop().time()
            try:
                # Restarts an embedded server that was killed, and then returns its address.
                await self._setup.store.ping()
                await self._serve(until_idle=False)
            except Exception as error:  # noqa: BLE001 - whatever it is, work must not silently stop
                self.watch.lost(describe_error(error))
                level = logging.WARNING if isinstance(error, ReminiscenceError) else logging.ERROR
                _logger.log(level, "the worker restarts in %.0f s: %s", pause, describe_error(error))
            else:
                self.watch.lost("it has lost its connection")
                _logger.warning("the worker lost its connection and restarts in %.0f s", pause)
            if (task := asyncio.current_task()) is not None and task.cancelling():
                # What failed was the shutdown itself, in which Procrastinate deregisters from the server.
                raise asyncio.CancelledError
            # The connection lasted longer than the last pause.
            if asyncio.get_running_loop().time() - started > pause:
                pause = WORKER_RESTART_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, WORKER_MAX_RESTART_SECONDS)

    async def run_until_idle(self) -> None:
        """Do the work that is waiting now, or due without a job, then return; pending retries are left waiting.

        Raises:
            ConfigurationError: It would share its session with other clients of a connection pooler.
            StoreError: The server is unavailable.
        """
        self._setup.store.sessions_for("A worker")
        await self._setup.work.enqueue_due(grace_seconds=0)
        await self._setup.work.enqueue_behind()
        await self._serve(until_idle=True)

    async def _serve(self, *, until_idle: bool) -> None:
        # Only a worker needs Procrastinate and its driver; importing them takes a fifth of a second, so in a thread.
        queue_class = await asyncio.to_thread(_job_queue)
        await queue_class(self._setup).serve(until_idle=until_idle)


def _job_queue() -> type[JobQueue]:
    from agent_reminiscence.services.work.jobs import JobQueue

    return JobQueue
