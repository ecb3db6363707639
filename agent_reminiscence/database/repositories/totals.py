"""Counts what one tenant stores."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.config.constants import Tier
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.payloads import ModelUsage
from agent_reminiscence.domain.usage import TierUsage

_SQL = load_queries("sql", "totals")


class MemoryCounts(NamedTuple):
    """How many memories and profiles there are."""

    active_memories: int
    archived_memories: int
    shortterm_memories: int
    profiles: int


class GraphCounts(NamedTuple):
    """The size of the graph."""

    entities: int
    relationships: int


class LiveText(NamedTuple):
    """The text of a live chunk."""

    chunk_id: UUID
    tier: Tier
    content: str


class TotalsRepository:
    """Counts over all tables of one tenant."""

    async def count_chunks(self, db: SqlExecutor, external_id: str) -> dict[Tier, TierUsage]:
        """Return chunks and bytes by tier; tokens must still be counted."""
        rows = await db.fetch_all(_SQL["count_chunks"], {"external_id": external_id})
        return {row.pop("tier"): TierUsage.model_validate(row) for row in rows}

    async def count_memories(self, db: SqlExecutor, external_id: str) -> MemoryCounts:
        """Return the number of memories by state, and of profiles."""
        row = await db.fetch_one(_SQL["count_memories"], {"external_id": external_id})
        return MemoryCounts(0, 0, 0, 0) if row is None else MemoryCounts(**row)

    async def count_graph(self, db: SqlExecutor, external_id: str) -> GraphCounts:
        """Return the numbers of entities, counting merged ones once, and of relationships, including past ones."""
        row = await db.fetch_one(_SQL["count_graph"], {"external_id": external_id})
        return GraphCounts(0, 0) if row is None else GraphCounts(**row)

    async def read_live_texts(
        self, db: SqlExecutor, external_id: str, *, after: UUID | None, limit: int
    ) -> list[LiveText]:
        """Return live chunks, at most `limit` after `after`, in order of their ids."""
        params = {"external_id": external_id, "after": after, "limit": limit}
        rows = await db.fetch_all(_SQL["read_live_texts"], params)
        return [LiveText(**row | {"chunk_id": UUID(row["chunk_id"])}) for row in rows]

    async def sum_tokens_today(self, db: SqlExecutor, external_id: str) -> int:
        """Return how many tokens models have read and written for the tenant since midnight UTC."""
        row = await db.fetch_one(_SQL["sum_tokens_today"], {"external_id": external_id})
        return 0 if row is None else int(row["tokens"])

    async def sum_model_usage(self, db: SqlExecutor, external_id: str) -> tuple[ModelUsage, ...]:
        """Return the total use of each model."""
        rows = await db.fetch_all(_SQL["sum_model_usage"], {"external_id": external_id})
        return tuple(ModelUsage.model_validate(row) for row in rows)
