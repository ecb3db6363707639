"""How often recall has returned chunks. Soft state: no projection, and a crash may lose some of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array

_SQL = load_queries("sql", "chunk_use")


@dataclass(frozen=True, slots=True)
class UsedChunk:
    """A live shortterm chunk that was used since its importance was decided.

    Attributes:
        touched_at: When it came in, or was used last, whichever is later.
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
        """Count uses, and have a worker look at the stream; chunks that are gone are left out.

        Args:
            uses: How many, and the time of the last, by chunk id.
            review_within_seconds: When a worker looks at the stream at the latest.
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
        """Begin to count anew for chunks about which was decided, in a transaction in which the stream is locked."""
        if chunk_ids:
            await db.defer(_SQL["reset_uses"], {"external_id": external_id, "chunk_ids": uuid_array(chunk_ids)})

    async def touch_repetitions(
        self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID], *, moment: datetime
    ) -> None:
        """Note that what repeats some chunks, which are about to end, comes back into use."""
        params = {"external_id": external_id, "chunk_ids": uuid_array(chunk_ids), "moment": moment}
        await db.defer(_SQL["touch_repetitions"], params)

    async def forget_gone(self, db: SqlExecutor, external_id: str) -> None:
        """Delete what is known of the use of chunks that are gone, as after an erasure."""
        await db.defer(_SQL["delete_uses_of_gone_chunks"], {"external_id": external_id})

    async def find_used(self, db: SqlExecutor, external_id: str, *, after: UUID | None, limit: int) -> list[UsedChunk]:
        """Live shortterm chunks that were used, at most `limit` behind `after`, in order of their ids."""
        params = {"external_id": external_id, "after": after, "limit": limit}
        rows = await db.fetch_all(_SQL["find_used"], params)
        return [
            UsedChunk(**row | {"chunk_id": UUID(row["chunk_id"]), "memory_id": UUID(row["memory_id"])}) for row in rows
        ]
