"""The shortterm tier: the results of consolidating active memories."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.memory import ShorttermMemory
from agent_reminiscence.domain.trust import Source

_SQL = load_queries("sql", "shortterm_memory")


class Candidate(NamedTuple):
    """A live shortterm chunk that is important, or was used since its importance was decided.

    Attributes:
        end_date: Until when it is true, if that was known from the beginning.
        touched_at: When it was added or last used, whichever is later.
    """

    chunk_id: UUID
    importance: float
    confidence: float
    start_date: datetime
    end_date: datetime | None
    source: Source
    uses: int
    touched_at: datetime


class ShorttermMemoryRepository:
    """Rows of `shortterm_memory`, and the chunks of that tier that are ready for promotion."""

    async def put(self, db: SqlExecutor, memory: ShorttermMemory) -> None:
        """Store `memory` in place of an earlier consolidation of the same active memory."""
        await db.defer(_SQL["put_shortterm_memory"], memory.model_dump())

    async def find(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> ShorttermMemory | None:
        """Return the consolidation of an active memory, if there is one."""
        row = await db.fetch_one(_SQL["get_shortterm_memory"], {"external_id": external_id, "memory_id": memory_id})
        return None if row is None else ShorttermMemory.model_validate(row)

    async def find_promotable(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, *, threshold: float
    ) -> list[Candidate]:
        """Return live chunks of one memory with importance of at least `threshold`, or that were used, by id."""
        params = {"external_id": external_id, "memory_id": memory_id, "threshold": threshold}
        rows = await db.fetch_all(_SQL["find_promotable"], params)
        return [Candidate(**row | {"chunk_id": UUID(row["chunk_id"])}) for row in rows]
