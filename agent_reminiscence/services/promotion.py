"""shortterm → longterm: chunks whose importance reaches the threshold, with validity dates and confidence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from agent_reminiscence.config.constants import least_trusted
from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.domain.event import EventKind, MemoryPromoted
from agent_reminiscence.projections import Tables
from agent_reminiscence.services.projector import Projector
from agent_reminiscence.services.requests import WriteRequest


class PromotionService:
    """Promotes chunks of one memory at a time."""

    def __init__(
        self, projector: Projector, tables: Tables, *, clock: Callable[[], datetime], threshold: float
    ) -> None:
        self._projector = projector
        self._tables = tables
        self._clock = clock
        self._threshold = threshold

    async def promote(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> int:
        """Make the memory's important shortterm chunks longterm; returns how many there were.

        A promoted chunk is valid from when it came in until something ends it.

        Args:
            db: A transaction in which the stream is locked.
        """
        found, sources = await self._tables.shortterm.find_promotable(
            db, external_id, memory_id, threshold=self._threshold
        )
        if found:
            request = WriteRequest(external_id=external_id, source=least_trusted(sources))
            plan = MemoryPromoted(memory_id=memory_id, threshold=self._threshold, chunks=tuple(found))
            await self._projector.record(
                db, request.event(EventKind.PROMOTED, plan.model_dump(mode="json"), self._clock())
            )
        return len(found)
