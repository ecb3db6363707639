"""Whether the store answers, and whether what follows writes is done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent_reminiscence.config.constants import SCHEDULER_ROLE, WORKER_ROLE
from agent_reminiscence.domain.work import Health, JobCounts, MissingVectors
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.work.stream_work import describe_error

if TYPE_CHECKING:
    from agent_reminiscence.services.work.worker import Worker


class HealthService:
    """Looks after one memory in one process."""

    def __init__(self, runtime: Runtime, worker: Worker) -> None:
        self._store = runtime.store
        self._queue = runtime.repositories.queue
        self._worker = worker

    async def look(self, *, timeout_seconds: float) -> Health:
        """How the memory is; a store that has not answered within the timeout counts as away."""
        counts, vectors, store_error, work_error = None, None, None, None
        try:
            async with asyncio.timeout(timeout_seconds):
                counts, vectors = await self._count()
                work_error = await self._find_work_error()
        except StoreError as error:
            store_error = describe_error(error)
        except TimeoutError:
            store_error = f"no answer within {timeout_seconds:g} s"
        return Health(
            store_error=store_error,
            worker=self._worker.state,
            worker_error=self._worker.watch.trouble,
            work_error=work_error,
            jobs=counts,
            vectors=vectors,
        )

    async def _count(self) -> tuple[JobCounts, MissingVectors | None]:
        async with self._store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
            failed = await self._queue.count_given_up(db)
            vectors = await self._queue.count_missing_vectors(db)
        async with self._store.transaction("", role=WORKER_ROLE, read_only=True) as db:
            return await self._queue.count_work(db, failed=failed), vectors

    async def _find_work_error(self) -> str | None:
        """Why the last run failed; None once another run or process has done that work, or it was given up.

        What was given up is counted instead: if it made this process unready, one tenant's work would end the service
        for all others, and nothing would ever come that could succeed.
        """
        if (external_id := self._worker.watch.failing) is None:
            return None
        async with self._store.transaction(external_id, read_only=True) as db:
            state = await self._queue.read(db, external_id)
        if state is None or not state.failed_attempts or state.failed_at is not None:
            return None
        return state.failed_error
