"""Vectors of chunks and the cache they come from. Both can be made again from the chunks' texts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.queries import vector_query
from agent_reminiscence.domain.generation import Generation


class ChunkVectorRepository:
    """Rows of `chunk_vector_<generation>` and `embedding_cache`; a missing vector is a missing row."""

    async def find_missing(
        self,
        db: SqlExecutor,
        external_id: str,
        generation: Generation,
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
            "model_name": generation.model_name,
            "limit": limit,
        }
        rows = await db.fetch_all(_sql("find_missing", generation), params)
        return {UUID(row["chunk_id"]): row["texts"] for row in rows}

    async def add_to_cache(
        self,
        db: SqlExecutor,
        external_id: str,
        generation: Generation,
        chunk_ids: Sequence[UUID],
        vectors: Mapping[bytes, list[float]],
    ) -> None:
        """Keep vectors by the SHA-256 of their texts, where these are still texts of the chunks."""
        if not vectors:
            return
        params = {
            "external_id": external_id,
            "model_name": generation.model_name,
            "chunk_ids": list(chunk_ids),
            # As hexadecimal text: the driver takes bytes in an array for a nested array.
            "hashes": [text_hash.hex() for text_hash in vectors],
            # In a thread: some 400,000 numbers become text here at a time.
            "vectors": await asyncio.to_thread(_as_text, list(vectors.values())),
        }
        await db.execute(_sql("add_cached_vectors", generation), params)

    async def fill(self, db: SqlExecutor, external_id: str, generation: Generation, chunk_ids: Sequence[UUID]) -> int:
        """Give vectors to those of the chunks whose texts are cached; returns how many got theirs.

        None does where the generation is not in the state that `generation` says any more.
        """
        params = {
            "external_id": external_id,
            "chunk_ids": list(chunk_ids),
            "model_name": generation.model_name,
            "state": generation.state,
        }
        return len(await db.fetch_all(_sql("fill_vectors", generation), params))

    async def count_missing(
        self, db: SqlExecutor, external_id: str, generation: Generation, memory_ids: Sequence[UUID] | None = None
    ) -> int:
        """How many chunks have no vectors, of these memories or of all."""
        params = {"external_id": external_id, "memory_ids": None if memory_ids is None else list(memory_ids)}
        row = await db.fetch_one(_sql("count_missing", generation), params)
        return 0 if row is None else int(row["chunks"])

    async def count_chunks(self, db: SqlExecutor, external_id: str, generation: Generation) -> tuple[int, int]:
        """How many chunks there are, and how many of them have no vectors."""
        row = await db.fetch_one(_sql("count_chunks", generation), {"external_id": external_id})
        return (0, 0) if row is None else (int(row["chunks"]), int(row["missing"]))

    async def delete_cached(self, db: SqlExecutor, external_id: str, generation: Generation) -> None:
        """Delete what the cache holds of the generation's model."""
        params = {"external_id": external_id, "model_name": generation.model_name}
        await db.execute(_sql("delete_cached_vectors", generation), params)


def _sql(name: str, generation: Generation) -> str:
    return vector_query("chunk_vector", name, generation.number)


def _as_text(vectors: Sequence[Sequence[float]]) -> list[str]:
    """Vectors in PostgreSQL's notation: the driver cannot send an array of halfvec."""
    return ["[" + ",".join(map(repr, vector)) + "]" for vector in vectors]
