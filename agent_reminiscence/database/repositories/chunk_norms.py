"""Norms of the windows around chunks, one blob for each memory's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import vector_query
from agent_reminiscence.database.repositories.chunk_vector import StoredVectors, stored_vectors
from agent_reminiscence.domain.canonical import beside_many, sha256
from agent_reminiscence.domain.index import LAYOUT_DTYPE


@dataclass(frozen=True, slots=True)
class LaidOutVectors:
    """The text of one memory, and the vectors of its chunks and headings.

    Attributes:
        entries: Of `memory_layout`, as stored; empty if the memory has no layout.
        has_norms: Whether there are norms.
        is_current: Whether the norms are up to date; then `stored` is empty.
    """

    memory_id: UUID
    entries: bytes
    has_norms: bool
    is_current: bool
    stored: StoredVectors

    @property
    def layout(self) -> NDArray[np.void]:
        """Shape (n,), `LAYOUT_DTYPE`."""
        return np.frombuffer(self.entries, LAYOUT_DTYPE)


class ChunkNormsRepository:
    """Rows of `chunk_norms_<generation>`."""

    async def list_stale(self, db: SqlExecutor, external_id: str, generation: int) -> list[tuple[UUID, int]]:
        """Return memories whose norms are missing or belong to another layout, with their number of chunks."""
        rows = await db.fetch_all(_sql("list_stale_norms", generation), {"external_id": external_id})
        return [(UUID(row["memory_id"]), row["chunks"]) for row in rows]

    async def list_memories(self, db: SqlExecutor, external_id: str, generation: int) -> list[tuple[UUID, int]]:
        """Return all memories that have a text or norms, with their number of chunks."""
        rows = await db.fetch_all(_sql("list_memories", generation), {"external_id": external_id})
        return [(UUID(row["memory_id"]), row["chunks"]) for row in rows]

    async def read(
        self, db: SqlExecutor, external_id: str, generation: int, memory_ids: Sequence[UUID]
    ) -> dict[UUID, tuple[bytes, bytes]]:
        """Return the norms of those memories that have any, preceded by the hash of the layout they belong to."""
        params = {"external_id": external_id, "memory_ids": list(memory_ids)}
        rows = await db.fetch_all(_sql("read_norms", generation), params)
        return {UUID(row["memory_id"]): (row["layout_hash"], row["norms"]) for row in rows}

    async def read_layouts(
        self, db: SqlExecutor, external_id: str, generation: int, memory_ids: Sequence[UUID], *, is_forced: bool
    ) -> list[LaidOutVectors]:
        """Return the texts of some memories, and the vectors of those whose norms are to be computed.

        Args:
            is_forced: Whether to compute norms even if they belong to the memory's current layout.
        """
        params = {"external_id": external_id, "memory_ids": list(memory_ids), "is_forced": is_forced}
        rows = await db.fetch_all(_sql("read_layout_vectors", generation), params)
        return await beside_many(
            lambda: [
                LaidOutVectors(
                    UUID(row["memory_id"]),
                    row["entries"] or b"",
                    has_norms=row["has_norms"],
                    is_current=row["is_current"],
                    stored=stored_vectors(row),
                )
                for row in rows
            ],
            items=sum(len(row["entries"] or b"") for row in rows) // LAYOUT_DTYPE.itemsize,
        )

    async def put(
        self,
        db: SqlExecutor,
        external_id: str,
        generation: int,
        norms: Mapping[UUID, bytes],
        *,
        layouts: Mapping[UUID, bytes] | None = None,
    ) -> None:
        """Store the norms of some memories.

        Args:
            layouts: The entries that each was computed for; None uses the stored ones.
        """
        if not norms:
            return
        lengths = [len(blob) for blob in norms.values()]
        params: dict[str, object] = {
            "external_id": external_id,
            "memory_ids": list(norms),
            "lengths": lengths,
            "firsts": [1 + sum(lengths[:index]) for index in range(len(lengths))],
            # One value for all: the driver takes bytes in an array for a nested array.
            "norms": b"".join(norms.values()),
        }
        if layouts is None:
            await db.defer(_sql("put_new_norms", generation), params)
            return
        hashes = [sha256(layouts[memory_id]).hex() for memory_id in norms]
        await db.defer(_sql("put_norms", generation), params | {"layout_hashes": hashes})

    async def delete(self, db: SqlExecutor, external_id: str, generation: int, memory_ids: Sequence[UUID]) -> None:
        """Delete the norms of some memories."""
        if memory_ids:
            params = {"external_id": external_id, "memory_ids": list(memory_ids)}
            await db.defer(_sql("delete_norms", generation), params)

    async def delete_orphaned(self, db: SqlExecutor, external_id: str, generation: int) -> None:
        """Delete the norms of memories that no longer have a layout."""
        await db.execute(_sql("delete_orphaned_norms", generation), {"external_id": external_id})


def _sql(name: str, generation: int) -> str:
    return vector_query("chunk_norms", name, generation)
