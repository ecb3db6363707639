"""What is due for a stream, and the queue that workers take it from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.work import Job, JobCounts, MissingVectors

_SQL = load_queries("sql", "work_queue")


class WorkState(NamedTuple):
    """What a stream's own row says of its work."""

    work_at: datetime | None
    is_due: bool
    failed_attempts: int
    failed_error: str | None
    failed_at: datetime | None
    vectors_missing: int
    vectors_missing_since: datetime | None
    vectors_error: str | None


class Failure(NamedTuple):
    """How many times in a row a stream's work has failed, and whether it is now given up."""

    failed_attempts: int
    is_final: bool


class WorkQueue:
    """Queues work in the transaction that makes it due; Procrastinate's workers take it from there.

    Methods without an `external_id` need a transaction as scheduler or worker, who see all tenants' ids.
    """

    async def enqueue(self, db: SqlExecutor, *, delay_seconds: float | None = None) -> bool:
        """Queue the work of the transaction's stream; a rollback undoes it.

        Args:
            delay_seconds: The minimum delay; None is none.

        Returns:
            False if a job was already waiting, which will also do this work.
        """
        row = await db.fetch_one(_SQL["enqueue_work"], {"delay_seconds": delay_seconds})
        return row is not None and bool(row["queued"])

    async def enqueue_idle(self, db: SqlExecutor) -> bool:
        """Queue the work of the transaction's stream unless a job for it waits or runs."""
        row = await db.fetch_one(_SQL["enqueue_idle_work"])
        return row is not None and bool(row["queued"])

    async def read(self, db: SqlExecutor, external_id: str) -> WorkState | None:
        """Return the work state in the stream's row; None for an unknown stream."""
        row = await db.fetch_one(_SQL["read_work"], {"external_id": external_id})
        return None if row is None else WorkState(**row)

    async def jobs(self, db: SqlExecutor, external_id: str) -> list[Job]:
        """Return the stream's waiting and running jobs, and work that was given up."""
        state = await self.read(db, external_id)
        rows = await db.fetch_all(_SQL["list_work"])
        return _jobs(external_id, rows, state)

    async def claim_reading(self, db: SqlExecutor, external_id: str, reader: UUID, *, seconds: float) -> bool:
        """Let `reader` alone ask a model about the stream's new passages for so long; False while another one does."""
        params = {"external_id": external_id, "reader": reader, "seconds": seconds}
        return await db.fetch_one(_SQL["claim_reading"], params) is not None

    async def release_reading(self, db: SqlExecutor, external_id: str, reader: UUID) -> None:
        """Let others read, if `reader` still holds the claim."""
        await db.execute(_SQL["release_reading"], {"external_id": external_id, "reader": reader})

    async def find_due_memories(self, db: SqlExecutor, external_id: str) -> list[UUID]:
        """Return memories waiting for consolidation, oldest first."""
        rows = await db.fetch_all(_SQL["find_due_memories"], {"external_id": external_id})
        return [UUID(row["memory_id"]) for row in rows]

    async def finish(self, db: SqlExecutor, external_id: str, *, review_at: datetime | None) -> None:
        """Record that nothing is due, and when to review the stream next; earlier failures are forgotten."""
        await db.defer(_SQL["finish_work"], {"external_id": external_id, "review_at": review_at})

    async def review_by(self, db: SqlExecutor, external_id: str, moment: datetime) -> None:
        """Let a worker review the stream at this time at the latest."""
        await db.defer(_SQL["review_by"], {"external_id": external_id, "moment": moment})

    async def note_work(self, db: SqlExecutor, external_id: str, recorded_at: datetime) -> None:
        """Record that the write of this time leaves work, if that was not known when it was recorded."""
        await db.defer(_SQL["note_work"], {"external_id": external_id, "recorded_at": recorded_at})

    async def settle_write(
        self, db: SqlExecutor, external_id: str, recorded_at: datetime, *, review_within_seconds: float | None
    ) -> None:
        """Record that the work of the write of this time is done, if it was the only open one.

        Args:
            review_within_seconds: The latest time until a worker reviews the stream; None is not at all.
        """
        params = {
            "external_id": external_id,
            "recorded_at": recorded_at,
            "review_within_seconds": review_within_seconds,
        }
        await db.defer(_SQL["settle_write"], params)

    async def fail(
        self, db: SqlExecutor, external_id: str, *, error: str, max_attempts: int, counts: bool = True
    ) -> Failure | None:
        """Record one more failure; None for an unknown stream.

        Args:
            counts: Whether it uses up an attempt.
        """
        params = {"external_id": external_id, "error": error, "max_attempts": max_attempts, "counts": counts}
        row = await db.fetch_one(_SQL["fail_work"], params)
        return None if row is None else Failure(**row)

    async def allow_retry(self, db: SqlExecutor, external_id: str) -> bool:
        """Reset work that was given up so that it is tried again; False if there was none."""
        return await db.fetch_one(_SQL["allow_retry"], {"external_id": external_id}) is not None

    async def list_due_streams(self, db: SqlExecutor, *, grace_seconds: float, after: str, limit: int) -> list[str]:
        """Return streams with work due for this long, at most `limit` after `after`, in order. As scheduler."""
        params = {"grace_seconds": grace_seconds, "after": after, "limit": limit}
        return [row["external_id"] for row in await db.fetch_all(_SQL["list_due_streams"], params)]

    async def list_busy(self, db: SqlExecutor) -> set[str]:
        """Return streams with a waiting or running job. As worker."""
        return {row["external_id"] for row in await db.fetch_all(_SQL["list_busy_streams"])}

    async def list_failing(self, db: SqlExecutor) -> dict[str, WorkState]:
        """Return streams whose last attempt failed, or that lack vectors. As scheduler."""
        rows = await db.fetch_all(_SQL["list_failing_streams"])
        return {row.pop("external_id"): WorkState(work_at=None, is_due=True, **row) for row in rows}

    async def count_given_up(self, db: SqlExecutor) -> int:
        """Return of how many streams the work was given up. As scheduler."""
        row = await db.fetch_one(_SQL["count_given_up"])
        return 0 if row is None else int(row["failed"])

    async def note_missing_vectors(self, db: SqlExecutor, external_id: str, chunks: int, error: str | None) -> None:
        """Record how many chunks of a stream lack vectors.

        Args:
            error: Why some could not be made just now; None if none failed, and only an earlier note is to be updated.
        """
        await db.execute(_SQL["note_missing_vectors"], {"external_id": external_id, "chunks": chunks, "error": error})

    async def count_missing_vectors(self, db: SqlExecutor) -> MissingVectors | None:
        """Return how many chunks of all streams lack vectors; None if none do. As scheduler."""
        row = await db.fetch_one(_SQL["count_missing_vectors"])
        return MissingVectors.model_validate(row) if row is not None and row["external_ids"] else None

    async def count_work(self, db: SqlExecutor, *, failed: int) -> JobCounts:
        """Return how many jobs wait and run, beside how many streams' work was given up. As worker."""
        row = await db.fetch_one(_SQL["count_work"])
        assert row is not None
        waits = row["next_waits_seconds"]
        return JobCounts(
            waiting=row["waiting"], running=row["running"], failed=failed, next_waits_seconds=max(0.0, waits or 0.0)
        )

    async def list_all(self, db: SqlExecutor, failing: dict[str, WorkState]) -> list[Job]:
        """Return all tenants' waiting and running jobs, and what was given up. As worker."""
        rows: defaultdict[str, list[dict[str, object]]] = defaultdict(list)
        for row in await db.fetch_all(_SQL["list_all_work"]):
            rows[row["external_id"]].append(row)
        return [
            job
            for tenant in sorted(rows.keys() | failing.keys())
            for job in _jobs(tenant, rows.get(tenant, []), failing.get(tenant))
        ]


def _jobs(external_id: str, rows: Sequence[dict[str, object]], state: WorkState | None) -> list[Job]:
    if state is None:
        return [Job.model_validate({**row, "external_id": external_id}) for row in rows]
    common: dict[str, object] = {
        "external_id": external_id,
        "failed_attempts": state.failed_attempts,
        "error": state.failed_error,
        "vectors_missing": state.vectors_missing,
        "vectors_missing_since": state.vectors_missing_since,
        "vectors_error": state.vectors_error,
    }
    found = [Job.model_validate({**row, **common}) for row in rows]
    if state.failed_at is not None:
        found.append(Job.model_validate({**common, "state": "failed", "failed_at": state.failed_at}))
    if not found and state.vectors_missing_since is not None:
        # Its job was lost with a process; a worker's sweep queues another one.
        found.append(Job.model_validate({**common, "state": "waiting"}))
    return found
