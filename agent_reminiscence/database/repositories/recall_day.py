"""How many questions were answered each day, and how quickly. Soft state: a crash may lose the last seconds of it."""

from __future__ import annotations

from datetime import date, timedelta

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.usage import KEPT_DAYS, RecallDay

_SQL = load_queries("sql", "recall_day")


class RecallDayRepository:
    """Rows of `recall_day`."""

    async def add(self, db: SqlExecutor, external_id: str, day: RecallDay) -> None:
        """Add to what was counted of a day; days older than `KEPT_DAYS` are deleted."""
        params = {"external_id": external_id, **day.model_dump(exclude={"durations"}), "durations": list(day.durations)}
        await db.defer(_SQL["add_recalls"], params)
        before = day.day - timedelta(days=KEPT_DAYS)
        await db.defer(_SQL["delete_old_recalls"], {"external_id": external_id, "before": before})

    async def read(self, db: SqlExecutor, external_id: str, *, since: date) -> list[RecallDay]:
        """Return the days with questions, the oldest first."""
        rows = await db.fetch_all(_SQL["read_recalls"], {"external_id": external_id, "since": since})
        return [RecallDay.model_validate(row) for row in rows]

    async def forget(self, db: SqlExecutor, external_id: str) -> None:
        """Delete all of them; needs a transaction as the eraser."""
        await db.defer(_SQL["delete_recalls"], {"external_id": external_id})
