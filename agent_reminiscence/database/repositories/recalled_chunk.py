"""What was recalled in which run, and how the runs ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array

_SQL = load_queries("sql", "recalled_chunk")


class ReportedRun(NamedTuple):
    """A run in which something was recalled.

    Attributes:
        outcome: Position of the event that reported how it ended; None: not reported yet.
        success: How it ended.
        reported_at: When that was recorded.
        chunks: For how many chunks the outcome counts; without one, how many were recalled.
    """

    outcome: int | None
    success: bool | None
    reported_at: datetime | None
    chunks: int


class RecalledChunkRepository:
    """Rows of `recalled_chunk`."""

    async def find_new(
        self, db: SqlExecutor, external_id: str, run_id: str, chunk_ids: Sequence[UUID]
    ) -> tuple[UUID, ...]:
        """Return which of some chunks exist and were not recalled in the run yet, in their order."""
        params = {"external_id": external_id, "run_id": run_id, "chunk_ids": uuid_array(chunk_ids)}
        return tuple(UUID(row["chunk_id"]) for row in await db.fetch_all(_SQL["find_new"], params))

    async def add(
        self, db: SqlExecutor, external_id: str, run_id: str, chunk_ids: Sequence[UUID], *, position: int
    ) -> None:
        """Record that the event at `position` says these chunks were recalled; those that are gone are left out."""
        params = {
            "external_id": external_id,
            "run_id": run_id,
            "chunk_ids": uuid_array(chunk_ids),
            "position": position,
        }
        await db.defer(_SQL["add_recalled"], params)

    async def set_outcome(
        self,
        db: SqlExecutor,
        external_id: str,
        run_id: str,
        *,
        success: bool,
        memory_ids: Sequence[UUID] | None = None,
        position: int,
        reported_at: datetime,
    ) -> None:
        """Record that the event at `position` says how the run ended; nothing happens if it recalled nothing.

        Args:
            memory_ids: Whose passages it counts for; None: all that the run recalled.
        """
        params = {
            "external_id": external_id,
            "run_id": run_id,
            "success": success,
            "memory_ids": None if memory_ids is None else uuid_array(memory_ids),
            "position": position,
            "reported_at": reported_at,
        }
        await db.defer(_SQL["set_outcome"], params)

    async def find_run(self, db: SqlExecutor, external_id: str, run_id: str) -> ReportedRun | None:
        """Return what is known of a run; None if nothing was recalled in it."""
        rows = await db.fetch_all(_SQL["read_run"], {"external_id": external_id, "run_id": run_id})
        # What was recalled after the outcome, without one, comes last.
        return ReportedRun(**rows[0]) if rows else None
