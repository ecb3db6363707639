"""The shortterm tier: what consolidations made of active memories."""

from __future__ import annotations

from uuid import UUID

from agent_reminiscence.config.constants import Source
from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.event import Promotion
from agent_reminiscence.domain.memory import ShorttermMemory

_SQL = load_queries("sql", "shortterm_memory")


class ShorttermMemoryRepository:
    """Rows of `shortterm_memory`, and the chunks of that tier that are ready for the next one."""

    async def put(self, db: SqlExecutor, memory: ShorttermMemory) -> None:
        """Store `memory` in place of an earlier consolidation of the same active memory."""
        await db.execute(_SQL["put_shortterm_memory"], memory.model_dump())

    async def find(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> ShorttermMemory | None:
        """The consolidation of an active memory, if there was one."""
        row = await db.fetch_one(_SQL["get_shortterm_memory"], {"external_id": external_id, "memory_id": memory_id})
        return None if row is None else ShorttermMemory.model_validate(row)

    async def find_promotable(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, *, threshold: float
    ) -> tuple[list[Promotion], set[Source]]:
        """Live chunks of one memory whose importance is at least `threshold`.

        Returns:
            The chunks as they would be promoted, in order of their ids, and the trust labels among them.
        """
        params = {"external_id": external_id, "memory_id": memory_id, "threshold": threshold}
        rows = await db.fetch_all(_SQL["find_promotable"], params)
        sources = {row.pop("source") for row in rows}
        return [Promotion(id=UUID(row.pop("chunk_id")), **row) for row in rows], sources
