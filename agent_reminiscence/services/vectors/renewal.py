"""Keeps the norms of windows consistent with vectors and layouts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from itertools import batched
from typing import Final
from uuid import UUID

import numpy as np

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.generations import list_generations
from agent_reminiscence.database.repositories.chunk_norms import ChunkNormsRepository, LaidOutVectors
from agent_reminiscence.services.vectors.norms import INLINE_CHUNKS, window_norms

# Texts are read this many at a time, or up to this many chunks, so that no statement takes long.
_BATCH_MEMORIES: Final = 32
_BATCH_CHUNKS: Final = 4_096


class NormRenewal:
    """Computes the norms of memories whose texts or vectors have changed.

    This runs under the stream's lock, so a change to a layout or vector comes entirely before or after it.
    """

    def __init__(self, norms: ChunkNormsRepository) -> None:
        self._norms = norms

    async def renew(self, db: SqlExecutor, external_id: str, memory_ids: Collection[UUID] | None) -> None:
        """Renew norms that are missing or belong to another layout, in every generation.

        Args:
            memory_ids: Only these memories; None is all of the tenant.
        """
        for generation in await list_generations(db):
            await self.renew_generation(db, external_id, generation.number, memory_ids)

    async def renew_generation(
        self,
        db: SqlExecutor,
        external_id: str,
        generation: int,
        memory_ids: Collection[UUID] | None,
        *,
        is_forced: bool = False,
    ) -> None:
        """Renew norms of one generation.

        Args:
            memory_ids: Only these memories; None is all of the tenant.
            is_forced: Also of memories with unchanged layouts, because their vectors have changed.
        """
        batches: Iterable[Sequence[UUID]]
        if memory_ids is None:
            await self._norms.delete_orphaned(db, external_id, generation)
            list_them = self._norms.list_memories if is_forced else self._norms.list_stale
            batches = by_size(await list_them(db, external_id, generation))
        else:
            batches = batched(sorted(memory_ids), _BATCH_MEMORIES)
        for batch in batches:
            await self._renew_batch(db, external_id, generation, batch, is_forced=is_forced)

    async def _renew_batch(
        self, db: SqlExecutor, external_id: str, generation: int, memory_ids: Sequence[UUID], *, is_forced: bool
    ) -> None:
        texts = await self._norms.read_layouts(db, external_id, generation, memory_ids, is_forced=is_forced)
        stale = [text for text in texts if not text.is_current and text.entries]
        if sum(len(text.layout) for text in stale) > INLINE_CHUNKS:
            computed = await asyncio.to_thread(compute_norms, stale)
        else:
            computed = compute_norms(stale)
        layouts = {text.memory_id: text.entries for text in stale}
        await self._norms.put(db, external_id, generation, computed, layouts=layouts)
        gone = [
            text.memory_id
            for text in texts
            if text.has_norms and not text.is_current and text.memory_id not in computed
        ]
        await self._norms.delete(db, external_id, generation, gone)


def compute_norms(texts: Sequence[LaidOutVectors]) -> dict[UUID, bytes]:
    """The norms of each text, by memory; none for texts without vectors."""
    texts = [text for text in texts if len(text.stored.numbers)]
    if not texts:
        return {}
    norms = window_norms(
        np.concatenate([text.layout for text in texts]),
        np.concatenate([text.stored.numbers for text in texts]),
        np.concatenate([text.stored.masses for text in texts]),
        np.concatenate([text.stored.vectors for text in texts]),
    )
    ends = np.cumsum([len(text.layout) for text in texts])
    return {text.memory_id: part.tobytes() for text, part in zip(texts, np.split(norms, ends[:-1]), strict=True)}


def by_size(memories: Iterable[tuple[UUID, int]]) -> Iterable[list[UUID]]:
    """Group memories into batches limited by their total number of chunks; a larger one forms its own batch."""
    batch: list[UUID] = []
    chunks = 0
    for memory_id, count in memories:
        if batch and chunks + count > _BATCH_CHUNKS:
            yield batch
            batch, chunks = [], 0
        batch.append(memory_id)
        chunks += count
    if batch:
        yield batch
