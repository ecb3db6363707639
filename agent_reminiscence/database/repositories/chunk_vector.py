"""Vectors of chunks and the cache they come from. Both can be made again from the chunks' texts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.queries import load_queries


class ChunkVectorRepository:
    """Rows of `chunk_vector_<generation>` and `embedding_cache`; a missing vector is a missing row."""

    def __init__(self, generation: int, model_name: str) -> None:
        queries = load_queries("sql", "chunk_vector")
        self._sql = {name: sql.replace("{generation}", str(generation)) for name, sql in queries.items()}
        self._model_name = model_name

    async def find_missing(
        self,
        db: SqlExecutor,
        external_id: str,
        memory_ids: Sequence[UUID] | None,
        *,
        after: UUID | None,
        limit: int,
    ) -> dict[UUID, list[str]]:
        """Chunks without vectors, in order of their ids, and those of their texts that are not in the cache.

        Args:
            memory_ids: Only chunks of these memories; None is all of them.
            after: Only chunks behind this one.
        """
        params = {
            "external_id": external_id,
            "memory_ids": None if memory_ids is None else list(memory_ids),
            "after": after,
            "model_name": self._model_name,
            "limit": limit,
        }
        rows = await db.fetch_all(self._sql["find_missing"], params)
        return {UUID(row["chunk_id"]): row["texts"] for row in rows}

    async def add_to_cache(
        self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID], vectors: Mapping[bytes, list[float]]
    ) -> None:
        """Keep vectors by the SHA-256 of their texts, where these are still texts of the chunks."""
        if not vectors:
            return
        params = {
            "external_id": external_id,
            "model_name": self._model_name,
            "chunk_ids": list(chunk_ids),
            # As hexadecimal text: the driver takes bytes in an array for a nested array.
            "hashes": [text_hash.hex() for text_hash in vectors],
            # In a thread: some 400,000 numbers become text here at a time.
            "vectors": await asyncio.to_thread(_as_text, list(vectors.values())),
        }
        await db.execute(self._sql["add_cached_vectors"], params)

    async def fill(self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID]) -> int:
        """Give vectors to those of the chunks whose texts are cached; returns how many got theirs."""
        params = {"external_id": external_id, "chunk_ids": list(chunk_ids), "model_name": self._model_name}
        return len(await db.fetch_all(self._sql["fill_vectors"], params))

    async def count_missing(self, db: SqlExecutor, external_id: str, memory_ids: Sequence[UUID] | None = None) -> int:
        """How many chunks have no vectors, of these memories or of all."""
        params = {"external_id": external_id, "memory_ids": None if memory_ids is None else list(memory_ids)}
        row = await db.fetch_one(self._sql["count_missing"], params)
        return 0 if row is None else int(row["chunks"])


def _as_text(vectors: Sequence[Sequence[float]]) -> list[str]:
    """Vectors in PostgreSQL's notation: the driver cannot send an array of halfvec."""
    return ["[" + ",".join(map(repr, vector)) + "]" for vector in vectors]
