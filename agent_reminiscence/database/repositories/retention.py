"""Which memories are over, so that `retention="erase"` erases them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.erasure import RetentionRules

_SQL = load_queries("sql", "retention")


class OverMemory(NamedTuple):
    """A memory that is over.

    Attributes:
        setting: What ended it: `expires_at`, or the name of a setting.
    """

    memory_id: UUID
    setting: str


class RetentionRepository:
    """Reads over all memories of a stream."""

    async def find_over(
        self,
        db: SqlExecutor,
        external_id: str,
        rules: RetentionRules,
        *,
        memory_ids: Collection[UUID] | None = None,
        limit: int | None = None,
    ) -> list[OverMemory]:
        """Return memories that are over, those first that have been for the longest.

        Args:
            memory_ids: Only these; None is all.
        """
        ids = None if memory_ids is None else [str(memory_id) for memory_id in memory_ids]
        params = _params(external_id, rules) | {"now": rules.now, "memory_ids": ids, "limit": limit}
        rows = await db.fetch_all(_SQL["find_over"], params)
        return [OverMemory(UUID(row["memory_id"]), row["setting"]) for row in rows]

    async def find_next_over(self, db: SqlExecutor, external_id: str, rules: RetentionRules) -> datetime | None:
        """Return when the next memory is over, if nothing else happens to it; None if none ever is."""
        row = await db.fetch_one(_SQL["find_next_over"], _params(external_id, rules))
        return None if row is None else row["over_at"]

    async def find_last_erasure(self, db: SqlExecutor, external_id: str) -> tuple[datetime | None, int]:
        """Return when something was last erased, None if nothing ever was, and how many events the stream has."""
        row = await db.fetch_one(_SQL["find_last_erasure"], {"external_id": external_id})
        return (None, 0) if row is None else (row["erased_at"], row["events"])


def _params(external_id: str, rules: RetentionRules) -> dict[str, object]:
    return {
        "external_id": external_id,
        "tiers": list(rules.ttl_days),
        "days": list(rules.ttl_days.values()),
        "is_limited": rules.is_limited,
    }
