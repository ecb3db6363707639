"""The longterm tier: chunks that proved important, with validity dates and confidence."""

from __future__ import annotations

from collections.abc import Sequence

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.payloads import Promotion

_SQL = load_queries("sql", "longterm_memory")


class LongtermMemoryRepository:
    """Chunks of the longterm tier."""

    async def promote(self, db: SqlExecutor, external_id: str, promotions: Sequence[Promotion]) -> None:
        """Move live chunks to longterm."""
        if not promotions:
            return
        params = {
            "external_id": external_id,
            "chunk_ids": [p.id for p in promotions],
            "importances": [p.importance for p in promotions],
            "confidences": [p.confidence for p in promotions],
            "start_dates": [p.start_date for p in promotions],
            "end_dates": [p.end_date for p in promotions],
        }
        await db.defer(_SQL["promote_chunks"], params)
