"""Which live chunks should end: untouched for long, or the least important of too many."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import Tier
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.payloads import Duplicate
from agent_reminiscence.domain.trust import Source

_SQL = load_queries("sql", "live_chunks")


class LiveChunk(NamedTuple):
    """A live chunk, with everything that decides about its end.

    Attributes:
        used_at: When it was added or last used, whichever is later.
        touched_at: As `used_at`, or later if it was said again, or its memory was updated or consolidated.
    """

    chunk_id: UUID
    memory_id: UUID
    tier: Tier
    source: Source
    importance: float
    recorded_at: datetime
    uses: int
    used_at: datetime
    touched_at: datetime


class LiveChunksRepository:
    """Reads over all live chunks of a stream."""

    async def find_untouched(
        self, db: SqlExecutor, external_id: str, tier: Tier, *, moment: datetime, after: UUID | None, limit: int
    ) -> list[UUID]:
        """Return live chunks of `tier` untouched since `moment`, at most `limit` after `after`, in order."""
        params = {"external_id": external_id, "tier": tier, "moment": moment, "after": after, "limit": limit}
        return [UUID(row["chunk_id"]) for row in await db.fetch_all(_SQL["find_untouched"], params)]

    async def find_first_touched(
        self, db: SqlExecutor, external_id: str, tiers: Sequence[Tier]
    ) -> dict[Tier, datetime]:
        """Return, for each of `tiers` with live chunks, the touch that is longest ago."""
        params = {"external_id": external_id, "tiers": list(tiers)}
        rows = await db.fetch_all(_SQL["find_first_touched"], params)
        return {row["tier"]: row["touched_at"] for row in rows}

    async def find_least_important(self, db: SqlExecutor, external_id: str, *, now: datetime, limit: int) -> list[UUID]:
        """Return the live chunks whose importance is now the least, at most `limit`, the least first."""
        params = {
            "external_id": external_id,
            "now": now,
            "limit": limit,
            "use_share": constants.IMPORTANCE_USE,
            "use_half": constants.USE_HALF,
            "fade_share": constants.IMPORTANCE_FADE,
            "fade_half_life_days": constants.IMPORTANCE_FADE_HALF_LIFE_DAYS,
        }
        return [UUID(row["chunk_id"]) for row in await db.fetch_all(_SQL["find_least_important"], params)]

    async def read_live(self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID]) -> list[LiveChunk]:
        """Return those of the chunks that are live, in order of their ids."""
        params = {"external_id": external_id, "chunk_ids": list(chunk_ids)}
        return [
            LiveChunk(**row | {"chunk_id": UUID(row["chunk_id"]), "memory_id": UUID(row["memory_id"])})
            for row in await db.fetch_all(_SQL["read_live"], params)
        ]

    async def find_repetitions(
        self,
        db: SqlExecutor,
        external_id: str,
        chunk_ids: Sequence[UUID],
        *,
        said_by: datetime | None = None,
        sources: Sequence[Source] | None = None,
    ) -> list[Duplicate]:
        """Return chunks that ended because they repeat one of these.

        Args:
            said_by: Only those that hold from then on or earlier; None is all.
            sources: Only those with these labels; None is all.
        """
        params = {
            "external_id": external_id,
            "chunk_ids": list(chunk_ids),
            "said_by": said_by,
            "sources": None if sources is None else list(sources),
        }
        return [
            Duplicate(id=UUID(row["chunk_id"]), duplicate_of=UUID(row["duplicate_of"]))
            for row in await db.fetch_all(_SQL["find_repetitions"], params)
        ]
