"""Ages chunks: by use and age some are promoted and some end. Nothing is ever deleted here.

Candidates are read without a lock. Each batch is then checked again under the stream's lock, and only chunks that are
still live and still due end; so a review may run at any time, alongside writers and other reviews.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import batched
from typing import Final
from uuid import UUID

from agent_reminiscence.config.constants import Tier
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.live_chunks import LiveChunk
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.lifecycle import LifecycleReport
from agent_reminiscence.domain.payloads import MemoryEnded
from agent_reminiscence.domain.trust import least_trusted
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.expiry import Expiry
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.importance import effective_importance
from agent_reminiscence.services.tiers.promotion import PromotionService

# Maximum chunks one review transaction ends, because the tenant's writers wait for it; and maximum chunks chosen per
# pass over all of them.
REVIEW_BATCH_CHUNKS: Final = 50
REVIEW_PASS_CHUNKS: Final = 10_000

# Chooses, from the chunks checked under the lock and the stream's number of live chunks, those that end.
_Choice = Callable[[Sequence[LiveChunk], int], Sequence[LiveChunk]]
# Whether a chunk is unrated, and its effective importance.
_Rank = tuple[bool, float]
# The event for some chunks of one memory.
_Payload = Callable[[UUID], MemoryEnded]


class LifecycleService:
    """Reviews the chunks of one stream at a time.

    Args:
        max_chunks: How many live chunks a stream may have; None is any number.
        ttl_days: How long an untouched chunk lives, by tier; a tier that is not listed has no limit.
        grace: How much longer it lives, because uses that another process has counted are written late.
    """

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        promotion: PromotionService,
        expiry: Expiry,
        *,
        max_chunks: int | None,
        ttl_days: Mapping[Tier, float],
        grace: timedelta = timedelta(0),
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._projector = projector
        self._promotion = promotion
        self._expiry = expiry
        self._uses = runtime.repositories.uses
        self._lifecycle = runtime.repositories.live_chunks
        self._clock = runtime.clock
        self._max_chunks = max_chunks
        self._ttl_days = dict(ttl_days)
        self._grace = grace

    async def review(self, external_id: str) -> LifecycleReport:
        """End what has expired; promote chunks recalled often; end chunks untouched for too long, or over the limit.

        If interrupted, the next call continues where it stopped.
        """
        memories_expired = await self._expiry.record_due(external_id)
        promoted = await self._promote(external_id)
        expired = 0
        first = await self._next_expiry_at(external_id)
        if first is not None and first <= self._clock():
            for tier, ttl_days in self._ttl_days.items():
                expired += await self._expire(external_id, tier, ttl_days)
        return LifecycleReport(
            external_id=external_id,
            promoted=promoted,
            expired=expired,
            pruned=await self._prune(external_id),
            memories_expired=memories_expired,
        )

    async def record_expired(self, external_id: str) -> int:
        """Record the memories that have expired, so that nothing is made of them; returns how many."""
        return await self._expiry.record_due(external_id)

    async def next_review_at(self, external_id: str) -> datetime | None:
        """When the next memory expires, or the next chunk if nothing touches it; None if none ever does."""
        moments = [await self._next_expiry_at(external_id), await self._expiry.next_at(external_id)]
        return min((moment for moment in moments if moment is not None), default=None)

    async def _next_expiry_at(self, external_id: str) -> datetime | None:
        """When the next chunk expires if nothing touches it; None if none ever does."""
        if not self._ttl_days:
            return None
        async with self._store.transaction(external_id, read_only=True) as db:
            touched = await self._lifecycle.find_first_touched(db, external_id, list(self._ttl_days))
        return min(
            (touched_at + timedelta(days=self._ttl_days[tier]) + self._grace for tier, touched_at in touched.items()),
            default=None,
        )

    async def _promote(self, external_id: str) -> int:
        promoted = 0
        for memory_id in await self._find_promotable(external_id):
            # A promoted chunk is not found again.
            promoted += await repeated(
                partial(self._promote_memory, external_id, memory_id),
                operation="promote",
                external_id=external_id,
                repeatable=True,
            )
        return promoted

    async def _find_promotable(self, external_id: str) -> list[UUID]:
        """Memories with chunks that use has made important enough; only use can raise importance."""
        memory_ids: dict[UUID, None] = {}
        after: UUID | None = None
        while True:
            async with self._store.transaction(external_id, read_only=True) as db:
                page = await self._uses.find_used(db, external_id, after=after, limit=REVIEW_PASS_CHUNKS)
            for chunk in page:
                if self._promotion.is_reached(chunk.importance, uses=chunk.uses, touched_at=chunk.touched_at):
                    memory_ids.setdefault(chunk.memory_id)
            if len(page) < REVIEW_PASS_CHUNKS:
                return list(memory_ids)
            after = page[-1].chunk_id

    async def _promote_memory(self, external_id: str, memory_id: UUID) -> int:
        async with self._store.transaction(external_id) as db:
            await self._projector.begin(db, WriteRequest(external_id=external_id))
            return await self._promotion.promote(db, external_id, memory_id)

    async def _expire(self, external_id: str, tier: Tier, ttl_days: float) -> int:
        moment = self._clock() - timedelta(days=ttl_days) - self._grace

        def choose(chunks: Sequence[LiveChunk], live: int) -> Sequence[LiveChunk]:
            return [chunk for chunk in chunks if chunk.tier == tier and chunk.touched_at <= moment]

        def payload(memory_id: UUID) -> MemoryEnded:
            return MemoryEnded(memory_id=memory_id, reason="expired", chunks=(), tier=tier, ttl_days=ttl_days)

        expired = 0
        after: UUID | None = None
        while True:
            async with self._store.transaction(external_id, read_only=True) as db:
                found = await self._lifecycle.find_untouched(
                    db, external_id, tier, moment=moment, after=after, limit=REVIEW_PASS_CHUNKS
                )
            for batch in batched(found, REVIEW_BATCH_CHUNKS):
                expired += await self._end(external_id, batch, choose, payload)
            if len(found) < REVIEW_PASS_CHUNKS:
                return expired
            after = found[-1]

    async def _prune(self, external_id: str) -> int:
        """End the least important chunks until no more than `max_chunks` are live."""
        if self._max_chunks is None:
            return 0
        limit = self._max_chunks

        def payload(memory_id: UUID) -> MemoryEnded:
            return MemoryEnded(memory_id=memory_id, reason="pruned", chunks=(), limit=limit)

        pruned = 0
        while True:
            now = self._clock()
            async with self._store.transaction(external_id, read_only=True) as db:
                excess = await self._ledger.live_chunks(db, external_id) - limit
                if excess <= 0:
                    return pruned
                found = await self._lifecycle.find_least_important(
                    db, external_id, now=now, limit=min(excess, REVIEW_PASS_CHUNKS)
                )
                highest = await self._highest(db, external_id, found[-1:], now)
            choose = partial(_least_important, limit=limit, highest=highest, now=now)
            ended = 0
            # Least important first, so that the result is right wherever this is interrupted.
            for batch in batched(found, REVIEW_BATCH_CHUNKS):
                ended += await self._end(external_id, batch, choose, payload)
            pruned += ended
            if not ended:
                # Others have changed everything that was found; their writes schedule another review.
                return pruned

    async def _highest(self, db: SqlExecutor, external_id: str, last: Sequence[UUID], now: datetime) -> _Rank:
        """The rank of the last chunk that is to end."""
        return max(
            (_rank(chunk, now) for chunk in await self._lifecycle.read_live(db, external_id, last)),
            default=(False, 0.0),
        )

    async def _end(self, external_id: str, chunk_ids: Sequence[UUID], choose: _Choice, payload: _Payload) -> int:
        """End the chunks that `choose` picks under the lock, with one event per memory; returns how many."""
        return await repeated(
            partial(self._end_batch, external_id, chunk_ids, choose, payload),
            operation="end chunks",
            external_id=external_id,
            # A chunk that has ended is not chosen again.
            repeatable=True,
        )

    async def _end_batch(self, external_id: str, chunk_ids: Sequence[UUID], choose: _Choice, payload: _Payload) -> int:
        async with self._store.transaction(external_id) as db:
            await self._projector.begin(db, WriteRequest(external_id=external_id))
            live = await self._ledger.live_chunks(db, external_id)
            chosen = choose(await self._lifecycle.read_live(db, external_id, chunk_ids), live)
            ending: defaultdict[UUID, list[LiveChunk]] = defaultdict(list)
            for chunk in chosen:
                ending[chunk.memory_id].append(chunk)
            for memory_id, chunks in ending.items():
                await self._record_end(db, external_id, payload(memory_id), chunks)
        return len(chosen)

    async def _record_end(
        self, db: SqlExecutor, external_id: str, payload: MemoryEnded, chunks: Sequence[LiveChunk]
    ) -> None:
        ids = sorted(chunk.chunk_id for chunk in chunks)
        repetitions = await self._lifecycle.find_repetitions(db, external_id, ids)
        plan = payload.model_copy(update={"chunks": tuple(ids), "duplicates": tuple(repetitions)})
        request = WriteRequest(external_id=external_id, source=least_trusted(chunk.source for chunk in chunks))
        await self._projector.record(db, request.event(EventKind.ENDED, plan.model_dump(mode="json"), self._clock()))


def _least_important(
    chunks: Sequence[LiveChunk], live: int, *, limit: int, highest: _Rank, now: datetime
) -> Sequence[LiveChunk]:
    """The chunks over the limit, least important first, without those used since they were found."""
    found = [chunk for chunk in chunks if _rank(chunk, now) <= highest]
    found.sort(key=lambda chunk: (_rank(chunk, now), chunk.recorded_at, chunk.chunk_id))
    return found[: max(0, live - limit)]


def _rank(chunk: LiveChunk, now: datetime) -> _Rank:
    """Chunks that end later rank higher: unrated ones, then those that have become more important."""
    effective = effective_importance(chunk.importance, uses=chunk.uses, touched_at=chunk.used_at, now=now)
    return chunk.tier == "active", effective
