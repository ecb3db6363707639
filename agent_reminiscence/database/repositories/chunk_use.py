"""How often recall has returned chunks. Soft state: not a projection, and a crash may lose some of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array

_SQL = load_queries("sql", "chunk_use")


class UsedChunk(NamedTuple):
    """A live shortterm chunk that was used since its importance was decided.

    Attributes:
        touched_at: When it was added or last used, whichever is later.
    """

    chunk_id: UUID
    memory_id: UUID
    importance: float
    uses: int
    touched_at: datetime


class ChunkUseRepository:
    """Rows of `chunk_use`."""

    async def add(
        self,
        db: SqlExecutor,
        external_id: str,
        uses: Mapping[UUID, tuple[int, datetime]],
        *,
        review_within_seconds: float,
    ) -> None:
        """Count uses and schedule a review of the stream; chunks that no longer exist are ignored.

        Args:
            uses: The number of uses and the time of the last, by chunk id.
            review_within_seconds: The latest time until a worker reviews the stream.
        """
        review = {"external_id": external_id, "delay_seconds": review_within_seconds}
        if await db.fetch_one(_SQL["schedule_review"], review) is None:
            return
        params = {
            "external_id": external_id,
            "chunk_ids": list(uses),
            "uses": [count for count, _ in uses.values()],
            "last_used_at": [moment for _, moment in uses.values()],
        }
        await db.defer(_SQL["add_uses"], params)

    async def reset(self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID]) -> None:
        """Restart the count for chunks that were decided on, in a transaction that has locked the stream."""
        if chunk_ids:
            await db.defer(_SQL["reset_uses"], {"external_id": external_id, "chunk_ids": uuid_array(chunk_ids)})

    async def touch_repetitions(
        self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID], *, moment: datetime
    ) -> None:
        """Mark the repetitions of some chunks, which are about to end, as used."""
        params = {"external_id": external_id, "chunk_ids": uuid_array(chunk_ids), "moment": moment}
        await db.defer(_SQL["touch_repetitions"], params)

    async def forget_gone(self, db: SqlExecutor, external_id: str) -> None:
        """Delete the use counts of chunks that no longer exist, for example after an erasure."""
        await db.defer(_SQL["delete_uses_of_gone_chunks"], {"external_id": external_id})

    async def find_used(self, db: SqlExecutor, external_id: str, *, after: UUID | None, limit: int) -> list[UsedChunk]:
        """Return live shortterm chunks that were used, at most `limit` after `after`, in order of their ids."""
        params = {"external_id": external_id, "after": after, "limit": limit}
        rows = await db.fetch_all(_SQL["find_used"], params)
        return [
            UsedChunk(**row | {"chunk_id": UUID(row["chunk_id"]), "memory_id": UUID(row["memory_id"])}) for row in rows
        ]
