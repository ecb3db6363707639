"""The chunks of all tiers, and what their vectors carry of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from agent_reminiscence.config.constants import Source, Tier
from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.queries import load_queries, vector_query
from agent_reminiscence.domain.event import ChunkRating, Duplicate
from agent_reminiscence.domain.memory import StoredChunk

_SQL = load_queries("sql", "memory_chunk")


@dataclass(frozen=True, slots=True)
class IndexedForms:
    """A chunk as it is indexed: alone, with the chunks before it, with those around it."""

    text: str
    before: str
    around: str


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk that comes in with a version of its memory."""

    chunk_id: UUID
    order: int
    span_start: int
    span_end: int
    content: str
    folded_hash: bytes
    speaker: str | None
    speaker_key: str | None
    metadata: dict[str, Any]
    importance: float
    confidence: float
    forms: IndexedForms


@dataclass(frozen=True, slots=True)
class NewFact:
    """A statement made of some chunks of a memory, by their ids."""

    chunk_id: UUID
    derived_from: tuple[UUID, ...]
    span_start: int
    span_end: int
    content: str
    folded_hash: bytes
    indexed_text: str
    importance: float
    confidence: float
    start_date: datetime
    end_date: datetime | None


@dataclass(frozen=True, slots=True)
class Twin:
    """An older chunk that says word for word what `chunk_id` says."""

    chunk_id: UUID
    twin_id: UUID
    memory_id: UUID
    importance: float
    confidence: float


@dataclass(frozen=True, slots=True)
class NearChunk:
    """A stored chunk that says something like what a new one says."""

    chunk_id: UUID
    memory_id: UUID
    content: str
    speaker: str | None
    source: Source
    start_date: datetime


class MemoryChunkRepository:
    """Rows of `memory_chunk`. A trigger keeps what a search filters by the same beside the vectors."""

    async def add(
        self,
        db: SqlExecutor,
        external_id: str,
        memory_id: UUID,
        chunks: Sequence[NewChunk],
        *,
        memory_version: int,
        source: Source,
        start_date: datetime,
        recorded_at: datetime,
    ) -> None:
        """Store chunks of the active tier."""
        if not chunks:
            return
        params = {
            "external_id": external_id,
            "memory_id": memory_id,
            "memory_version": memory_version,
            "source": source,
            "start_date": start_date,
            "recorded_at": recorded_at,
            "chunk_ids": [c.chunk_id for c in chunks],
            "orders": [c.order for c in chunks],
            "starts": [c.span_start for c in chunks],
            "ends": [c.span_end for c in chunks],
            "contents": [c.content for c in chunks],
            # As hexadecimal text: the driver takes bytes in an array for a nested array.
            "folded_hashes": [c.folded_hash.hex() for c in chunks],
            "speakers": [c.speaker for c in chunks],
            "speaker_keys": [c.speaker_key for c in chunks],
            "metadata": [json.dumps(c.metadata, ensure_ascii=False) for c in chunks],
            "texts": [c.forms.text for c in chunks],
            "befores": [c.forms.before for c in chunks],
            "arounds": [c.forms.around for c in chunks],
            "importances": [c.importance for c in chunks],
            "confidences": [c.confidence for c in chunks],
        }
        await db.execute(_SQL["add_chunks"], params)

    async def add_facts(
        self,
        db: SqlExecutor,
        external_id: str,
        memory_id: UUID,
        facts: Sequence[NewFact],
        *,
        memory_version: int,
        source: Source,
        recorded_at: datetime,
    ) -> None:
        """Store facts in the shortterm tier, beside the chunks that they rest on."""
        if not facts:
            return
        params = {
            "external_id": external_id,
            "memory_id": memory_id,
            "memory_version": memory_version,
            "source": source,
            "recorded_at": recorded_at,
            "chunk_ids": [f.chunk_id for f in facts],
            "starts": [f.span_start for f in facts],
            "ends": [f.span_end for f in facts],
            "contents": [f.content for f in facts],
            "folded_hashes": [f.folded_hash.hex() for f in facts],
            "texts": [f.indexed_text for f in facts],
            "importances": [f.importance for f in facts],
            "confidences": [f.confidence for f in facts],
            "start_dates": [f.start_date for f in facts],
            "end_dates": [f.end_date for f in facts],
            # As text: an array of arrays would have to be of one length.
            "derived_from": ["{" + ",".join(map(str, f.derived_from)) + "}" for f in facts],
        }
        await db.execute(_SQL["add_facts"], params)

    async def end_facts(
        self,
        db: SqlExecutor,
        external_id: str,
        chunk_ids: Sequence[UUID],
        *,
        recorded_at: datetime,
        ended_at: datetime,
    ) -> int:
        """End the facts that rest on one of these chunks; returns how many were live."""
        if not chunk_ids:
            return 0
        params = {
            "external_id": external_id,
            "chunk_ids": list(chunk_ids),
            "recorded_at": recorded_at,
            "ended_at": ended_at,
        }
        rows = await db.fetch_all(_SQL["end_facts"], params)
        return int(rows[0]["chunks"])

    async def find_known_texts(
        self, db: SqlExecutor, external_id: str, moments: Mapping[bytes, datetime], *, ignored: Sequence[UUID] = ()
    ) -> set[bytes]:
        """Which of some folded hashes are those of live chunks.

        Args:
            moments: By hash, the moment at which a chunk still has to hold that says it.
            ignored: Chunks that do not count.
        """
        params = {
            "external_id": external_id,
            "folded_hashes": [digest.hex() for digest in moments],
            "moments": list(moments.values()),
            "ignored": list(ignored),
        }
        rows = await db.fetch_all(_SQL["find_known_texts"], params)
        return {bytes.fromhex(row["folded_hash"]) for row in rows}

    async def get_layout(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> list[StoredChunk]:
        """The chunks that tile the memory's text, in text order."""
        rows = await db.fetch_all(_SQL["layout_chunks"], {"external_id": external_id, "memory_id": memory_id})
        return [StoredChunk.model_validate(row | {"metadata": json.loads(row["metadata"])}) for row in rows]

    async def retouch(
        self, db: SqlExecutor, external_id: str, touched: Mapping[UUID, tuple[str, dict[str, Any]]]
    ) -> None:
        """Store other white space around chunks that stay, and other metadata; nothing is indexed anew.

        Args:
            touched: New content and metadata by chunk id.
        """
        if touched:
            params = {
                "external_id": external_id,
                "chunk_ids": list(touched),
                "contents": [content for content, _ in touched.values()],
                "metadata": [json.dumps(metadata, ensure_ascii=False) for _, metadata in touched.values()],
            }
            await db.execute(_SQL["retouch_chunks"], params)

    async def reform(self, db: SqlExecutor, external_id: str, forms: Mapping[UUID, IndexedForms]) -> None:
        """Store new indexed forms of chunks that stay; their vectors are missing until they are made again."""
        if not forms:
            return
        params = {
            "external_id": external_id,
            "chunk_ids": list(forms),
            "texts": [form.text for form in forms.values()],
            "befores": [form.before for form in forms.values()],
            "arounds": [form.around for form in forms.values()],
        }
        await db.execute(_SQL["reform_chunks"], params)

    async def end(
        self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID], *, recorded_at: datetime, ended_at: datetime
    ) -> int:
        """End chunks, and let live again what repeated them and is not among them.

        Returns:
            How many fewer chunks are live; negative when more are.
        """
        if not chunk_ids:
            return 0
        params = {
            "external_id": external_id,
            "chunk_ids": list(chunk_ids),
            "recorded_at": recorded_at,
            "ended_at": ended_at,
        }
        ended = await db.fetch_all(_SQL["end_chunks"], params)
        await db.execute(_SQL["forget_duplicates"], params)
        revived = await db.fetch_all(
            _SQL["revive_duplicates"], {"external_id": external_id, "chunk_ids": list(chunk_ids)}
        )
        return int(ended[0]["chunks"]) - int(revived[0]["chunks"])

    async def correct_end_dates(
        self,
        db: SqlExecutor,
        external_id: str,
        memory_id: UUID,
        *,
        kept: Sequence[UUID],
        recorded_at: datetime,
        ended_at: datetime,
    ) -> None:
        """Move the ends of a memory's ended chunks to `ended_at` where they were thought to have ended later.

        Args:
            kept: Chunks of the text as it is now, whose validity goes on.
        """
        params = {
            "external_id": external_id,
            "memory_id": memory_id,
            "kept": list(kept),
            "recorded_at": recorded_at,
            "ended_at": ended_at,
        }
        await db.execute(_SQL["correct_end_dates"], params)

    async def count_live(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> int:
        """How many of the memory's chunks a search sees now, or would see if what they repeat were to end."""
        row = await db.fetch_one(_SQL["count_live"], {"external_id": external_id, "memory_id": memory_id})
        return 0 if row is None else int(row["chunks"])

    async def end_duplicates(
        self,
        db: SqlExecutor,
        external_id: str,
        duplicates: Sequence[Duplicate],
        *,
        recorded_at: datetime,
        ended_at: datetime,
    ) -> int:
        """End chunks that repeat others; returns how many were live."""
        if not duplicates:
            return 0
        params = {
            "external_id": external_id,
            "chunk_ids": [d.id for d in duplicates],
            "duplicates_of": [d.duplicate_of for d in duplicates],
            "recorded_at": recorded_at,
            "ended_at": ended_at,
        }
        rows = await db.fetch_all(_SQL["end_duplicates"], params)
        return int(rows[0]["chunks"])

    async def rate(
        self, db: SqlExecutor, external_id: str, ratings: Sequence[ChunkRating], *, tier: Tier | None
    ) -> None:
        """Store importance, confidence and a new estimate; with `tier`, move chunks there unless they are longterm."""
        if not ratings:
            return
        params = {
            "external_id": external_id,
            "tier": tier,
            "chunk_ids": [r.id for r in ratings],
            "importances": [r.importance for r in ratings],
            "confidences": [r.confidence for r in ratings],
            "estimates": [r.estimate for r in ratings],
        }
        await db.execute(_SQL["rate_chunks"], params)

    async def count_similar(
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
    ) -> dict[UUID, int]:
        """How often what some chunks of a memory say was said elsewhere.

        Counted are live consolidated chunks of other memories with at least `similarity` (cosine), at most `limit` for
        each, and chunks that have ended as duplicates of it.

        Args:
            generation: Whose vectors are compared.
            compared: With how many chunks of other memories each is compared at most, newest first.
        """
        params = {
            "external_id": external_id,
            "memory_id": memory_id,
            "chunk_ids": list(chunk_ids),
            "similarity": similarity,
            "limit": limit,
            "compared": compared,
        }
        rows = await db.fetch_all(vector_query("memory_chunk", "count_similar", generation), params)
        return {UUID(row["chunk_id"]): row["near"] + row["duplicates"] for row in rows}

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
        """Live consolidated chunks, of any memory, that are most like some chunks, nearest first.

        Args:
            sources: Of which labels.
            generation: Whose vectors are compared; a chunk without one is near nothing.
            similarity: From which cosine similarity on.
            per_chunk: How many for each chunk at most.
            compared: With how many chunks each is compared at most, newest first.
            limit: How many in all.
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
        rows = await db.fetch_all(vector_query("memory_chunk", "find_near", generation), params)
        return [
            NearChunk(**row | {"chunk_id": UUID(row["chunk_id"]), "memory_id": UUID(row["memory_id"])}) for row in rows
        ]

    async def find_twins(self, db: SqlExecutor, external_id: str, memory_id: UUID, *, moment: datetime) -> list[Twin]:
        """For each active chunk of a memory, the oldest consolidated chunk elsewhere with the same text and speaker.

        One that is trusted less is no twin: it must not stand in for what is trusted more. Neither is one that holds
        only from later on.

        Args:
            moment: From when on the twin would stand for the chunk.
        """
        params = {"external_id": external_id, "memory_id": memory_id, "moment": moment}
        rows = await db.fetch_all(_SQL["find_twins"], params)
        return [
            Twin(
                chunk_id=UUID(row["chunk_id"]),
                twin_id=UUID(row["twin_id"]),
                memory_id=UUID(row["memory_id"]),
                importance=row["importance"],
                confidence=row["confidence"],
            )
            for row in rows
        ]
