"""Norms of the windows around chunks, one blob for each segment of a memory's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import vector_query

type SegmentKey = tuple[UUID, int]
"""A memory, and a segment of its layout."""


class LaidOutSegment(NamedTuple):
    """A segment of a memory's layout.

    Attributes:
        entries: Of `memory_layout`, as stored; empty if only norms are left of the segment.
        layout_hash: What its norms were computed for; None if it has none.
    """

    memory_id: UUID
    segment: int
    entries: bytes
    layout_hash: bytes | None


class ChunkNormsRepository:
    """Rows of `chunk_norms_<generation>`."""

    async def list_memories(self, db: SqlExecutor, external_id: str, generation: int) -> list[tuple[UUID, int]]:
        """Return all memories that have a text or norms, with their number of chunks."""
        rows = await db.fetch_all(_sql("list_memories", generation), {"external_id": external_id})
        return [(UUID(row["memory_id"]), row["chunks"]) for row in rows]

    async def read(
        self, db: SqlExecutor, external_id: str, generation: int, memory_ids: Sequence[UUID]
    ) -> dict[SegmentKey, tuple[bytes, bytes]]:
        """Return the norms of those memories that have any, preceded by the hash of the layout they belong to."""
        params = {"external_id": external_id, "memory_ids": list(memory_ids)}
        rows = await db.fetch_all(_sql("read_norms", generation), params)
        return {(UUID(row["memory_id"]), row["segment"]): (row["layout_hash"], row["norms"]) for row in rows}

    async def read_layouts(
        self, db: SqlExecutor, external_id: str, generation: int, memory_ids: Sequence[UUID]
    ) -> list[LaidOutSegment]:
        """Return the layouts of some memories, memory by memory in the order of the text."""
        params = {"external_id": external_id, "memory_ids": list(memory_ids)}
        rows = await db.fetch_all(_sql("read_layouts", generation), params)
        return [
            LaidOutSegment(UUID(row["memory_id"]), row["segment"], row["entries"] or b"", row["layout_hash"])
            for row in rows
        ]

    async def put(
        self,
        db: SqlExecutor,
        external_id: str,
        generation: int,
        norms: Mapping[SegmentKey, bytes],
        layout_hashes: Mapping[SegmentKey, bytes],
    ) -> None:
        """Store the norms of some segments.

        Args:
            layout_hashes: What each was computed for.
        """
        if norms:
            params = _params(external_id, [memory_id for memory_id, _ in norms], list(norms.values())) | {
                "segments": [segment for _, segment in norms],
                "layout_hashes": [layout_hashes[key].hex() for key in norms],
            }
            await db.defer(_sql("put_norms", generation), params)

    async def put_new(self, db: SqlExecutor, external_id: str, generation: int, norms: Mapping[UUID, bytes]) -> None:
        """Store the norms of memories that this transaction has created."""
        if norms:
            params = _params(external_id, list(norms), list(norms.values()))
            await db.defer(_sql("put_new_norms", generation), params)

    async def delete(self, db: SqlExecutor, external_id: str, generation: int, segments: Sequence[SegmentKey]) -> None:
        """Delete the norms of some segments."""
        if segments:
            params = {
                "external_id": external_id,
                "memory_ids": [memory_id for memory_id, _ in segments],
                "segments": [segment for _, segment in segments],
            }
            await db.defer(_sql("delete_norms", generation), params)


def _params(external_id: str, memory_ids: list[UUID], norms: list[bytes]) -> dict[str, object]:
    lengths = [len(blob) for blob in norms]
    return {
        "external_id": external_id,
        "memory_ids": memory_ids,
        "lengths": lengths,
        "firsts": [1 + first for first in accumulate(lengths[:-1], initial=0)],
        # One value for all: the driver takes bytes in an array for a nested array.
        "norms": b"".join(norms),
    }


def _sql(name: str, generation: int) -> str:
    return vector_query("chunk_norms", name, generation)
