"""Promotes shortterm chunks whose importance reaches the threshold to longterm, with validity and confidence."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.shortterm_memory import Candidate
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.payloads import MemoryPromoted, Promotion, write_payload
from agent_reminiscence.domain.trust import least_trusted
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.importance import effective_importance


class PromotionService:
    """Promotes chunks of one memory at a time."""

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        *,
        threshold: float,
    ) -> None:
        self._projector = projector
        self._tables = runtime.repositories.tables
        self._uses = runtime.repositories.uses
        self._clock = runtime.clock
        self._threshold = threshold

    async def promote(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> int:
        """Promote the memory's important shortterm chunks to longterm; returns how many.

        A chunk is important if it was rated so or has become so by being recalled. A promoted chunk is valid from when
        it was added until something ends it; a fact, for as long as it states. Its uses are counted from zero again.

        Args:
            db: A transaction that has locked the stream.
        """
        now = self._clock()
        candidates = await self._tables.shortterm.find_promotable(db, external_id, memory_id, threshold=self._threshold)
        chosen = [
            (candidate, promotion)
            for candidate in candidates
            if (promotion := _promotion(candidate, now)).importance >= self._threshold
        ]
        if chosen:
            request = WriteRequest(
                external_id=external_id, source=least_trusted(candidate.source for candidate, _ in chosen)
            )
            plan = MemoryPromoted(
                memory_id=memory_id, threshold=self._threshold, chunks=tuple(promotion for _, promotion in chosen)
            )
            payload = await write_payload(plan, plan.chunks)
            await self._projector.record(db, request.event(EventKind.PROMOTED, payload, now))
            await self._uses.reset(db, external_id, [promotion.id for promotion in plan.chunks])
        return len(chosen)

    @property
    def threshold(self) -> float:
        """The importance from which a chunk becomes longterm."""
        return self._threshold

    def is_reached(self, importance: float, *, uses: int, touched_at: datetime) -> bool:
        """Whether a recalled chunk would now be promoted."""
        now = self._clock()
        return effective_importance(importance, uses=uses, touched_at=touched_at, now=now) >= self._threshold


def _promotion(candidate: Candidate, now: datetime) -> Promotion:
    """The promotion of a chunk; one that was rated important stays so, however long ago."""
    by_use = effective_importance(candidate.importance, uses=candidate.uses, touched_at=candidate.touched_at, now=now)
    return Promotion(
        id=candidate.chunk_id,
        importance=max(candidate.importance, by_use),
        confidence=candidate.confidence,
        start_date=candidate.start_date,
        end_date=candidate.end_date,
        uses=candidate.uses if by_use > candidate.importance else 0,
    )
