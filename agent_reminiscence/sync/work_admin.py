# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.admin.work.WorkAdmin`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from agent_reminiscence.domain.lifecycle import LifecycleReport
from agent_reminiscence.domain.memory import ConsolidationReport
from agent_reminiscence.domain.work import Health, Job, WorkReport
from agent_reminiscence.sync.lifecycle import Twin

if TYPE_CHECKING:
    from agent_reminiscence.admin.work import WorkAdmin as AsyncWorkAdmin


class WorkAdmin(Twin):
    """Consolidation, review and the work that is due: done now, by a worker, or given up."""

    _wrapped: AsyncWorkAdmin

    def consolidate(
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
        return self._thread.call(
            lambda: self._wrapped.consolidate(external_id, memory_id, importance=importance, dry_run=dry_run)
        )

    def review(self, external_id: str | int | UUID) -> LifecycleReport:
        """Do now what a worker does regularly: promote often-recalled chunks, end expired and surplus ones.

        Ended chunks leave current searches through an event of their own. No text changes, and a search `as_of` an
        earlier time finds them. Without `max_chunks`, times to live and memories that expire, nothing ends.

        With `retention="erase"`, expired memories, and memories without a live passage, are then erased:
        all of them in this call, with one receipt for each 5,000. Otherwise nothing is deleted.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable; completed work is kept, and a second call does the rest.
        """
        return self._thread.call(lambda: self._wrapped.review(external_id))

    def run_due(self, external_id: str | int | UUID) -> WorkReport:
        """Do the due work of `external_id` in this call, like a worker: consolidate, promote, fill in vectors.

        For programs without a worker, and for tests. What is not due is left alone.

        Returns:
            What was done. A failure is in `error`, and its work is queued again, as by a worker.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable; the work stays due.
        """
        return self._thread.call(lambda: self._wrapped.run_due(external_id))

    def run_worker(self, *, until_idle: bool = False) -> None:
        """Work for all tenants in this call, alongside any number of other workers.

        Args:
            until_idle: Return once nothing is waiting, instead of running until Ctrl-C. Jobs waiting
                for a retry are left waiting.

        Raises:
            InvalidInputError: An argument is invalid.
            ConfigurationError: `postgres_dsn` leads through a connection pooler in transaction mode, and `session_dsn`
                is not set.
            StoreError: The store is unavailable; only with `until_idle`, otherwise the worker waits for its return.
        """
        self._thread.call(lambda: self._wrapped.run_worker(until_idle=until_idle))

    def health(self, *, timeout_seconds: float = 5.0) -> Health:
        """Whether the store answers and the work that follows writes gets done, as this process sees it.

        Cheap enough to be asked every few seconds. A store that is away is an answer, not an error.

        Args:
            timeout_seconds: How long the store may take to answer.

        Raises:
            InvalidInputError: An argument is invalid.
        """
        return self._thread.call(lambda: self._wrapped.health(timeout_seconds=timeout_seconds))

    def jobs(self, external_id: str | int | UUID | None = None) -> list[Job]:
        """Jobs that are waiting, running, or given up after too many failures, with their errors.

        Args:
            external_id: Only this one's; None is all.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.jobs(external_id))

    def retry_jobs(self, external_id: str | int | UUID | None = None) -> int:
        """Queue given-up work again.

        Args:
            external_id: Only this one's; None is all.

        Returns:
            The number of streams whose work was queued.

        Raises:
            InvalidInputError: The id is invalid.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.retry_jobs(external_id))

    def wait_until_idle(self, external_id: str | int | UUID | None = None, timeout_seconds: float = 30.0) -> list[Job]:
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
        return self._thread.call(lambda: self._wrapped.wait_until_idle(external_id, timeout_seconds))
