"""Consolidation, review and the work that is due: done now, by a worker, or given up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from agent_reminiscence.admin.topic import Topic
from agent_reminiscence.domain.lifecycle import LifecycleReport
from agent_reminiscence.domain.memory import ConsolidationReport
from agent_reminiscence.domain.work import Health, Job, WorkReport
from agent_reminiscence.exceptions import MemoryNotFoundError, StoreError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services import validation

_logger = logging.getLogger("agent_reminiscence.work")


class WorkAdmin(Topic):
    """Consolidation, review and the work that is due: done now, by a worker, or given up."""

    async def consolidate(
        self,
        external_id: str | int | UUID,
        memory_id: UUID | str | None = None,
        *,
        importance: float | None = None,
        dry_run: bool = False,
    ) -> list[ConsolidationReport]:
        """Consolidate now instead of later, fill in missing vectors, and promote what is important.

        If a memorizer model is configured, it reads what is new, and the parts of its plan that pass validation are
        carried out; `fallback` of each report says why rules decided the rest.

        Args:
            memory_id: One memory; None is all of the tenant's, oldest first, including archived ones.
            importance: Your own estimate, 0 to 1, of how important the passages are that no model estimates. It counts
                as a model's would: for half, limited by the trust in their source.
            dry_run: Only report what would be done, in `plan` and `ends`; vectors are filled in. The model is still
                called, and its usage recorded.

        Returns:
            One report for each memory. A version that was already consolidated is skipped.

        Raises:
            InvalidInputError: An argument is invalid.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is unavailable; completed work is kept.
        """
        tenant = validation.external_id(external_id)
        is_dry_run = validation.flag("dry_run", dry_run)
        estimate = None if importance is None else validation.share("importance", importance)
        if not is_dry_run:
            await self._services.review.record_expired(tenant)
        if memory_id is not None:
            report = await self._consolidate(
                tenant, validation.memory_id(memory_id), importance=estimate, is_dry_run=is_dry_run
            )
            await self._queue_profiles(tenant, [report])
            return [report]
        async with self._services.runtime.store.transaction(tenant, read_only=True) as db:
            memory_ids = await self._services.runtime.repositories.tables.active.find_ids(db, tenant)
        reports = []
        for found in memory_ids:
            # The caller did not name it, so one erased meanwhile is not an error.
            with suppress(MemoryNotFoundError):
                reports.append(await self._consolidate(tenant, found, importance=estimate, is_dry_run=is_dry_run))
        await self._queue_profiles(tenant, reports)
        return reports

    async def _queue_profiles(self, external_id: str, reports: Sequence[ConsolidationReport]) -> None:
        """Queue work for profiles that are due after consolidations; a job that consolidates writes them itself.

        The consolidations are recorded, and have marked the stream as having work: if the store is away now, a worker
        finds it later.
        """
        if not any(report.consolidated for report in reports):
            return

        async def queue() -> None:
            if await self._services.refresher.find_due(external_id):
                await self._services.work.enqueue(external_id)

        try:
            await repeated(queue, operation="queue profiles", external_id=external_id, repeatable=True)
        except StoreError as error:
            _logger.warning("profiles are written later: %s", error, extra={"external_id": external_id})

    async def _consolidate(
        self, external_id: str, memory_id: UUID, *, importance: float | None, is_dry_run: bool
    ) -> ConsolidationReport:
        # Repeatable, because a version is consolidated only once.
        return await repeated(
            lambda: self._services.consolidation.consolidate(
                external_id, memory_id, importance=importance, is_dry_run=is_dry_run
            ),
            operation="consolidate",
            external_id=external_id,
            repeatable=True,
        )

    async def review(self, external_id: str | int | UUID) -> LifecycleReport:
        """Do now what a worker does regularly: promote often-recalled chunks, end expired and surplus ones.

        Ended chunks leave current searches through an event of their own. No text changes, and a search `as_of` an
        earlier time finds them. Without `max_chunks`, times to live and memories that expire, nothing ends.

        With `retention="erase"`, expired memories, and memories without a live passage, are then erased:
        all of them in this call, with one receipt for each 5,000. Otherwise nothing is deleted.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable; completed work is kept, and a second call does the rest.
        """
        return await self._services.retention.review(validation.external_id(external_id))

    async def run_due(self, external_id: str | int | UUID) -> WorkReport:
        """Do the due work of `external_id` in this call, like a worker: consolidate, promote, fill in vectors.

        For programs without a worker, and for tests. What is not due is left alone.

        Returns:
            What was done. A failure is in `error`, and its work is queued again, as by a worker.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable; the work stays due.
        """
        return await self._services.work.run(validation.external_id(external_id))

    async def run_worker(self, *, until_idle: bool = False) -> None:
        """Work for all tenants in this call, alongside any number of other workers.

        Args:
            until_idle: Return once nothing is waiting, instead of running until the task is cancelled. Jobs waiting
                for a retry are left waiting.

        Raises:
            InvalidInputError: An argument is invalid.
            ConfigurationError: `postgres_dsn` leads through a connection pooler in transaction mode, and `session_dsn`
                is not set.
            StoreError: The store is unavailable; only with `until_idle`, otherwise the worker waits for its return.
        """
        if validation.flag("until_idle", until_idle):
            await self._services.worker.run_until_idle()
        else:
            await self._services.worker.run()

    async def health(self, *, timeout_seconds: float = 5.0) -> Health:
        """Whether the store answers and the work that follows writes gets done, as this process sees it.

        Cheap enough to be asked every few seconds. A store that is away is an answer, not an error.

        Args:
            timeout_seconds: How long the store may take to answer.

        Raises:
            InvalidInputError: An argument is invalid.
        """
        return await self._services.health.look(timeout_seconds=validation.seconds("timeout_seconds", timeout_seconds))

    async def jobs(self, external_id: str | int | UUID | None = None) -> list[Job]:
        """Jobs that are waiting, running, or given up after too many failures, with their errors.

        Args:
            external_id: Only this one's; None is all.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable.
        """
        return await self._services.work.jobs(None if external_id is None else validation.external_id(external_id))

    async def retry_jobs(self, external_id: str | int | UUID | None = None) -> int:
        """Queue given-up work again.

        Args:
            external_id: Only this one's; None is all.

        Returns:
            The number of streams whose work was queued.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable.
        """
        return await self._services.work.retry(None if external_id is None else validation.external_id(external_id))

    async def wait_until_idle(
        self, external_id: str | int | UUID | None = None, timeout_seconds: float = 30.0
    ) -> list[Job]:
        """Wait until the work that follows writes is done; a worker must be running, here or elsewhere.

        Args:
            external_id: Only this one's; None is all.
            timeout_seconds: Maximum time to wait.

        Returns:
            Jobs that were given up, with their errors; empty if nothing was given up.

        Raises:
            InvalidInputError: An argument is invalid.
            WorkTimeoutError: Work is still waiting or running; it continues.
            StoreError: The store is unavailable.
        """
        return await self._services.work.wait_until_idle(
            None if external_id is None else validation.external_id(external_id),
            timeout_seconds=validation.seconds("timeout_seconds", timeout_seconds),
        )
