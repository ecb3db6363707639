"""Keeps the norms of windows consistent with vectors and layouts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, batched, groupby
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.generations import list_generations
from agent_reminiscence.database.repositories.chunk_norms import ChunkNormsRepository, LaidOutSegment, SegmentKey
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository, StoredVectors
from agent_reminiscence.domain.canonical import beside_many, sha256
from agent_reminiscence.domain.index import FACTS_SEGMENT, FIRST, LAYOUT_DTYPE, REACH
from agent_reminiscence.services.vectors.norms import INLINE_CHUNKS, window_norms

# Texts are read this many at a time, or up to this many chunks, so that no statement takes long.
_BATCH_MEMORIES: Final = 32
_BATCH_CHUNKS: Final = 4_096


@dataclass(frozen=True, slots=True)
class SegmentInText:
    """A segment with the entries that the windows of its own reach.

    Attributes:
        entries: `LAYOUT_DTYPE` records: its own, and at most `REACH` of the text before and after them.
        before: How many of them stand before its own.
        length: How many are its own.
        stored_hash: The hash that its norms were stored with; None if it has none.
    """

    key: SegmentKey
    entries: bytes
    before: int
    length: int
    stored_hash: bytes | None

    @property
    def layout(self) -> NDArray[np.void]:
        """Shape (n,), `LAYOUT_DTYPE`."""
        return np.frombuffer(self.entries, LAYOUT_DTYPE)

    @property
    def layout_hash(self) -> bytes:
        """The hash that its norms are stored with; it also tells where its own entries begin and end."""
        start, end = (count * LAYOUT_DTYPE.itemsize for count in (self.before, self.before + self.length))
        return sha256(self.entries[:start] + sha256(self.entries[start:end]) + self.entries[end:])

    def is_stale(self, numbers: NDArray[np.int64]) -> bool:
        """Whether its norms belong to another layout, or rest on one of these chunks and headings."""
        if self.layout_hash != self.stored_hash:
            return True
        layout = self.layout
        return len(numbers) > 0 and bool(
            np.isin(layout["number"], numbers).any() or np.isin(layout["heading"], numbers).any()
        )


class NormRenewal:
    """Computes the norms of memories whose texts or vectors have changed.

    This runs under the stream's lock, so a change to a layout or vector comes entirely before or after it.
    """

    def __init__(self, norms: ChunkNormsRepository, vectors: ChunkVectorRepository) -> None:
        self._norms = norms
        self._vectors = vectors

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
        numbers: Collection[int] = (),
        is_forced: bool = False,
    ) -> None:
        """Renew norms of one generation.

        Args:
            memory_ids: Only these memories; None is all of the tenant.
            numbers: Also norms that rest on these chunks and headings, whose vectors are new.
            is_forced: All norms, because any vector may have changed.
        """
        changed = np.fromiter(numbers, np.int64, len(numbers))
        batches: Iterable[Sequence[UUID]]
        if memory_ids is None:
            batches = by_size(await self._norms.list_memories(db, external_id, generation))
        else:
            batches = batched(sorted(memory_ids), _BATCH_MEMORIES)
        for batch in batches:
            found = await self._norms.read_layouts(db, external_id, generation, batch)

            def stale(found: Sequence[LaidOutSegment] = found) -> list[SegmentInText]:
                return [segment for segment in in_texts(found) if is_forced or segment.is_stale(changed)]

            segments = await beside_many(stale, items=sum(len(row.entries) for row in found) // LAYOUT_DTYPE.itemsize)
            computed = await self.compute(db, external_id, generation, segments)
            hashes = {segment.key: segment.layout_hash for segment in segments}
            await self._norms.put(db, external_id, generation, computed, hashes)
            gone = [
                segment.key for segment in segments if segment.key not in computed and segment.stored_hash is not None
            ]
            gone += [(row.memory_id, row.segment) for row in found if not row.entries]
            await self._norms.delete(db, external_id, generation, gone)

    async def compute(
        self, db: SqlExecutor, external_id: str, generation: int, segments: Sequence[SegmentInText]
    ) -> dict[SegmentKey, bytes]:
        """The norms of some segments, from the stored vectors; none for segments without vectors."""
        if not segments:
            return {}
        layout = np.concatenate([segment.layout for segment in segments])
        numbers = np.unique(np.concatenate([layout["number"], layout["heading"]]).astype(np.int64))
        stored = await self._vectors.read(db, external_id, generation, numbers[numbers != 0])
        if len(layout) > INLINE_CHUNKS:
            return await asyncio.to_thread(_compute_norms, segments, stored)
        return _compute_norms(segments, stored)


def in_texts(rows: Iterable[LaidOutSegment]) -> list[SegmentInText]:
    """Segments with their neighbours, without those of which only norms are left.

    Args:
        rows: Whole memories, each in the order of its text.
    """
    found = []
    size = LAYOUT_DTYPE.itemsize
    # Facts stand alone: what is before them does not matter to their windows.
    for _, group in groupby(
        (row for row in rows if row.entries), key=lambda row: (row.memory_id, row.segment == FACTS_SEGMENT)
    ):
        segments = list(group)
        text = b"".join(row.entries for row in segments)
        ends = accumulate(len(row.entries) for row in segments)
        for row, end in zip(segments, ends, strict=True):
            start = end - len(row.entries)
            first = max(0, start - REACH * size)
            found.append(
                SegmentInText(
                    (row.memory_id, row.segment),
                    text[first : end + REACH * size],
                    before=(start - first) // size,
                    length=len(row.entries) // size,
                    stored_hash=row.layout_hash,
                )
            )
    return found


def _compute_norms(segments: Sequence[SegmentInText], stored: StoredVectors) -> dict[SegmentKey, bytes]:
    layout = np.concatenate([segment.layout for segment in segments])
    starts = [0, *accumulate(len(segment.layout) for segment in segments)]
    # So that no window reaches into the segment that stands before it here; its own windows do not reach its edges,
    # unless the text begins or ends there.
    layout["flags"][starts[:-1]] |= FIRST
    norms = window_norms(layout, stored.numbers, stored.masses, stored.vectors)
    computed = {}
    for segment, start in zip(segments, starts, strict=False):
        own = norms[start + segment.before : start + segment.before + segment.length].tobytes()
        if any(own):
            computed[segment.key] = own
    return computed


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
