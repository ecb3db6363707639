"""How much one tenant stores: counts from the database, and tokens counted in a thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from agent_reminiscence.config.constants import SCHEDULER_ROLE, TIERS, Tier
from agent_reminiscence.database.repositories.totals import LiveText
from agent_reminiscence.domain.usage import MemoryUsage, ModelSpending, RecallDay, TenantOverview, TierUsage
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.graph.follower import GraphFollower
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.upkeep.pricing import ModelPrices
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.text.tokens import count_tokens_batch

# How many chunk texts are in memory at a time; counting their tokens takes some 50 ms.
_PAGE_CHUNKS = 1_000


class UsageService:
    """Adds up what one `external_id` stores.

    Args:
        follower: The store that follows the graph; None without Neo4j, and then there is no lag.
        prices: What models cost.
    """

    def __init__(
        self,
        runtime: Runtime,
        embedding: EmbeddingService,
        follower: GraphFollower | None,
        prices: ModelPrices,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._embedding = embedding
        self._queue = runtime.repositories.queue
        self._usage = runtime.repositories.totals
        self._recalls = runtime.repositories.recalls
        self._clock = runtime.clock
        self._progress = runtime.repositories.graph_progress
        self._follower = follower
        self._prices = prices

    async def usage(self, external_id: str) -> MemoryUsage:
        """Return all counts as of one moment; tokens are counted afterwards, over the chunks live by then."""
        counted = await repeated(lambda: self._count(external_id), operation="usage", external_id=external_id)
        tokens = await self._count_tokens(external_id)
        changed: dict[str, Any] = {
            tier: getattr(counted, tier).model_copy(update={"tokens": tokens[tier]}) for tier in TIERS
        }
        # In a thread: the first model may have a list of prices read.
        models = await asyncio.to_thread(lambda: tuple(map(self._prices.price, counted.models)))
        return counted.model_copy(update=changed | {"models": models})

    async def recalls(self, external_id: str, days: int) -> list[RecallDay]:
        """Return the questions of the last days, the oldest first."""
        since = self._clock().astimezone(UTC).date() - timedelta(days=days - 1)

        async def read() -> list[RecallDay]:
            async with self._store.transaction(external_id, read_only=True) as db:
                return await self._recalls.read(db, external_id, since=since)

        return await repeated(read, operation="recalls", external_id=external_id)

    async def tenants(self, after: str | None, limit: int) -> list[TenantOverview]:
        """Return one page of all that have events."""

        async def read() -> list[TenantOverview]:
            async with self._store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
                # Every id is greater than the empty text, which is none.
                return await self._ledger.list_tenants(db, after=after or "", limit=limit)

        return await repeated(read, operation="tenants", external_id="")

    async def _count(self, external_id: str) -> MemoryUsage:
        follower = self._follower
        async with self._store.transaction(external_id, read_only=True) as db:
            tiers = await self._usage.count_chunks(db, external_id)
            memories = await self._usage.count_memories(db, external_id)
            graph = await self._usage.count_graph(db, external_id)
            progress = await self._progress.read(db, external_id)
            work = Counter(job.state for job in await self._queue.jobs(db, external_id))
            return MemoryUsage(
                external_id=external_id,
                active=tiers.get("active", TierUsage()),
                shortterm=tiers.get("shortterm", TierUsage()),
                longterm=tiers.get("longterm", TierUsage()),
                active_memories=memories.active_memories,
                archived_memories=memories.archived_memories,
                shortterm_memories=memories.shortterm_memories,
                profiles=memories.profiles,
                events=await self._ledger.head(db, external_id),
                vectors_missing=await self._embedding.count_missing(db, external_id),
                entities=graph.entities,
                relationships=graph.relationships,
                graph_lag=progress.lag(follower.store_id) if follower is not None and progress is not None else 0,
                graph_store=progress.graph_store if follower is not None and progress is not None else None,
                work_waiting=work["waiting"],
                work_running=work["running"],
                work_failed=work["failed"],
                models=tuple(
                    ModelSpending(**one.model_dump()) for one in await self._usage.sum_model_usage(db, external_id)
                ),
            )

    async def _count_tokens(self, external_id: str) -> Counter[Tier]:
        tokens: Counter[Tier] = Counter()
        after: UUID | None = None
        while True:
            page = await repeated(
                partial(self._read_page, external_id, after), operation="usage", external_id=external_id
            )
            counts = await asyncio.to_thread(count_tokens_batch, [chunk.content for chunk in page])
            for chunk, count in zip(page, counts, strict=True):
                tokens[chunk.tier] += count
            if len(page) < _PAGE_CHUNKS:
                return tokens
            after = page[-1].chunk_id

    async def _read_page(self, external_id: str, after: UUID | None) -> list[LiveText]:
        async with self._store.transaction(external_id, read_only=True) as db:
            return await self._usage.read_live_texts(db, external_id, after=after, limit=_PAGE_CHUNKS)
