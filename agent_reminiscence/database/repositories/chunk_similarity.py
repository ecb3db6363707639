"""Which stored chunks mean nearly the same as some others, by their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agent_reminiscence.database.connection import Deferred, SqlExecutor
from agent_reminiscence.database.queries import vector_query
from agent_reminiscence.domain.trust import Source


@dataclass(frozen=True, slots=True)
class NearChunk:
    """A stored chunk with a meaning similar to a new one's."""

    chunk_id: UUID
    memory_id: UUID
    content: str
    speaker: str | None
    source: Source
    start_date: datetime
    first_said: datetime | None = None

    @property
    def said_at(self) -> datetime:
        """When most of its words were first said."""
        return self.first_said or self.start_date


class ChunkSimilarityRepository:
    """Comparisons of chunks in one vector generation."""

    async def ask_how_many_similar(
        self,
        db: SqlExecutor,
        external_id: str,
        memory_id: UUID,
        chunk_ids: Sequence[UUID],
        *,
        generation: int,
        similarity: float,
        limit: int,
        compared: int,
    ) -> Deferred[dict[UUID, int]]:
        """Count how often what some chunks of a memory say was said elsewhere.

        Counted are live consolidated chunks of other memories with at least `similarity` (cosine), at most `limit` for
        each, and chunks that have ended as duplicates of it.

        Args:
            generation: The vector generation to compare.
            compared: With at most how many chunks of other memories each is compared, newest first.
        """
        params = {
            "external_id": external_id,
            "memory_id": memory_id,
            "chunk_ids": list(chunk_ids),
            "similarity": similarity,
            "limit": limit,
            "compared": compared,
        }
        return await db.ask(
            vector_query("chunk_similarity", "count_similar", generation),
            params,
            lambda rows: {UUID(row["chunk_id"]): row["near"] + row["duplicates"] for row in rows},
        )

    async def find_near(
        self,
        db: SqlExecutor,
        external_id: str,
        chunk_ids: Sequence[UUID],
        *,
        sources: Sequence[Source],
        generation: int,
        similarity: float,
        per_chunk: int,
        compared: int,
        limit: int,
    ) -> list[NearChunk]:
        """Return live consolidated chunks of any memory that are most similar to some chunks, nearest first.

        Args:
            sources: Only those with these labels.
            generation: The vector generation to compare; a chunk without a vector is near nothing.
            similarity: The minimum cosine similarity.
            per_chunk: The maximum number for each chunk.
            compared: With at most how many chunks each is compared, newest first.
            limit: The maximum number in total.
        """
        params = {
            "external_id": external_id,
            "chunk_ids": list(chunk_ids),
            "sources": list(sources),
            "similarity": similarity,
            "limit": per_chunk,
            "compared": compared,
            "total": limit,
        }
        rows = await db.fetch_all(vector_query("chunk_similarity", "find_near", generation), params)
        return [
            NearChunk(**row | {"chunk_id": UUID(row["chunk_id"]), "memory_id": UUID(row["memory_id"])}) for row in rows
        ]
