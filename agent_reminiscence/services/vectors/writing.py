"""The vectors of a write, stored in its own transaction: it is found by meaning as soon as it is there.

Only an embedder that computes in this process is asked before the transaction; a write never waits for a server.
Whatever goes wrong here costs a vector and never the write: what is missing is filled in afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import batched
from typing import Final
from uuid import UUID

import numpy as np

from agent_reminiscence.config.constants import BACKFILL_CHUNKS
from agent_reminiscence.database.generations import ask_for_tables
from agent_reminiscence.database.postgres_manager import Deferred, PostgresManager, SqlExecutor
from agent_reminiscence.database.repositories.chunk_norms import ChunkNormsRepository
from agent_reminiscence.database.repositories.chunk_vector import BEFORE_ALL, ChunkVectorRepository, EmbeddedText
from agent_reminiscence.database.repositories.work_queue import WorkQueue
from agent_reminiscence.domain.canonical import beside_many, sha256
from agent_reminiscence.domain.event import Event, MemoryCreated
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.index import FIRST, LAYOUT_DTYPE, chunk_number
from agent_reminiscence.projections.indexed_text import embedded_text, heading_text
from agent_reminiscence.projections.texts import day_of
from agent_reminiscence.services.embedding import EmbeddingService, Vectors, read_batch
from agent_reminiscence.services.generations import NoEmbedderError
from agent_reminiscence.services.vectors.cells import wants_sorting
from agent_reminiscence.services.vectors.norms import INLINE_CHUNKS, window_norms

# One statement stores so many vectors: no statement takes long.
_BATCH_VECTORS: Final = 1_000


@dataclass(frozen=True, slots=True)
class MadeVectors:
    """Vectors and masses of texts, by the SHA-256 of each.

    Attributes:
        is_complete: Whether there is one of every text that was asked for.
    """

    generation: Generation
    vectors: Vectors
    masses: dict[bytes, int]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class _Created:
    """A new memory: what its text is made of, in order."""

    memory_id: UUID
    heading: EmbeddedText
    chunks: list[EmbeddedText]


class WriteVectors:
    """Makes vectors before a write's transaction, and stores them in it."""

    def __init__(
        self,
        store: PostgresManager,
        embedding: EmbeddingService,
        vectors: ChunkVectorRepository,
        norms: ChunkNormsRepository,
        queue: WorkQueue,
    ) -> None:
        self._store = store
        self._embedding = embedding
        self._vectors = vectors
        self._norms = norms
        self._queue = queue

    async def make_for(self, payloads: Sequence[MemoryCreated], moments: Sequence[datetime]) -> MadeVectors | None:
        """The vectors of new memories.

        Args:
            moments: When each happens; its heading names the day.

        Returns:
            None where the embedder is a server's: its vectors follow the write.
        """
        texts = await beside_many(
            lambda: [
                text
                for payload, moment in zip(payloads, moments, strict=True)
                for text in (
                    heading_text(payload.title, day_of(moment)),
                    *(embedded_text(payload.content[chunk.start : chunk.end]) for chunk in payload.chunks),
                )
            ],
            items=sum(len(payload.chunks) for payload in payloads),
        )
        return await self.make(texts)

    async def is_local(self) -> bool:
        """Whether this process computes the current vectors itself."""
        generations = self._embedding.generations
        try:
            embedder = await generations.embedder(generations.current)
        except NoEmbedderError:
            return False
        return bool(getattr(embedder, "is_local", False))

    async def make_uncached(self, external_id: str, texts: Sequence[str]) -> MadeVectors | None:
        """The same of those texts that the tenant's cache does not hold."""
        by_hash = dict(zip(await _hashes_of(texts), texts, strict=True))
        generation = self._embedding.generations.current
        async with self._store.transaction(external_id, read_only=True) as db:
            await db.plan_for(len(by_hash))
            uncached = await self._vectors.find_uncached(db, external_id, generation, list(by_hash))
        return await self.make([by_hash[text_hash] for text_hash in uncached])

    async def make(self, asked: Sequence[str]) -> MadeVectors | None:
        """The vectors of texts, as far as there are any.

        Returns:
            None where the embedder is a server's: its vectors follow the write.
        """
        if not await self.is_local():
            return None
        generation = self._embedding.generations.current
        texts = list(dict.fromkeys(asked))
        # What fails is tried once more after the write, and told there.
        made, failed, masses = await self._embedding.embed_and_weigh(generation, texts)
        hashes = await _hashes_of(texts)
        return MadeVectors(generation, made, dict(zip(hashes, masses, strict=True)), is_complete=not failed)

    def leaves_work(self, made: MadeVectors | None) -> bool:
        """Whether something is expected to be left to do after a write, or to be noted at the end of its work."""
        return made is None or not made.is_complete or self._embedding.settles_reviews

    async def settle(self, db: SqlExecutor, event: Event, *, is_work: bool, is_complete: bool) -> None:
        """Note in the write's transaction what is left to do after it.

        Args:
            is_work: Whether the event was recorded as one that makes work.
            is_complete: Whether everything got its vector.
        """
        if is_complete and is_work:
            await self._embedding.settle(db, event.external_id, event.recorded_at)
        elif not is_complete and not is_work:
            await self._queue.note_work(db, event.external_id, event.recorded_at)

    async def look_for_tables(self, db: SqlExecutor, made: MadeVectors | None) -> Deferred[bool] | None:
        """Ask, at the beginning of a transaction, whether the generation that vectors were made for is still there.

        Another process may have changed the model meanwhile. A statement about tables that are gone would take the
        write with it.
        """
        return None if made is None else await ask_for_tables(db, made.generation.number)

    async def keep_storable(self, made: MadeVectors | None, has_tables: Deferred[bool] | None) -> MadeVectors | None:
        """`made`, or None where its generation is gone: then others follow the write."""
        return made if has_tables is not None and await has_tables.result() else None

    async def store_created(
        self, db: SqlExecutor, external_id: str, made: MadeVectors, events: Sequence[tuple[Event, MemoryCreated]]
    ) -> bool:
        """Store the vectors and norms of memories that this transaction has created.

        Returns:
            Whether everything got its vector.
        """
        created = await beside_many(
            lambda: [_texts_of(event, payload, made) for event, payload in events],
            items=sum(len(payload.chunks) for _, payload in events),
        )
        texts = [text for one in created for text in (one.heading, *one.chunks)]
        stored: set[int] = set()
        sorts = False
        for batch in batched([text for text in texts if text.text_hash in made.vectors], _BATCH_VECTORS):
            vectors = {text.text_hash: made.vectors[text.text_hash] for text in batch}
            filled = await self._vectors.fill(db, external_id, made.generation, batch, vectors)
            stored |= filled.numbers
            sorts = wants_sorting(filled.text_chunks, filled.cells)
        if not stored:
            return False
        if sum(len(one.chunks) for one in created) > INLINE_CHUNKS:
            norms = await asyncio.to_thread(_norms_of, created, stored, made.vectors)
        else:
            norms = _norms_of(created, stored, made.vectors)
        await self._norms.put(db, external_id, made.generation.number, norms)
        if sorts:
            await self._queue.enqueue(db)
        return len(stored) == len(texts)

    async def store_updated(self, db: SqlExecutor, external_id: str, made: MadeVectors, memory_id: UUID) -> bool:
        """Store the vectors that chunks and headings of a memory lack, as far as they are made or cached.

        Returns:
            Whether everything got its vector.
        """
        last, is_complete = BEFORE_ALL, True
        while True:
            rows = await self._vectors.find_missing(
                db, external_id, made.generation, [memory_id], after=last, limit=BACKFILL_CHUNKS
            )
            if not rows:
                return is_complete
            batch = await read_batch(rows)
            wanted = {row.text_hash for row in rows}
            vectors = {text_hash: vector for text_hash, vector in made.vectors.items() if text_hash in wanted}
            filled = await self._embedding.store(db, external_id, made.generation, batch, vectors)
            is_complete &= len(filled.numbers) == len(rows)
            if len(rows) < BACKFILL_CHUNKS:
                return is_complete
            last = rows[-1].number


async def _hashes_of(texts: Sequence[str]) -> list[bytes]:
    """The SHA-256 of each text."""
    return await beside_many(lambda: [sha256(text.encode()) for text in texts], items=len(texts))


def _texts_of(event: Event, payload: MemoryCreated, made: MadeVectors) -> _Created:
    """What a new memory's text is made of, with the numbers that its handler gives."""

    def numbered(number: int, text: str) -> EmbeddedText:
        text_hash = sha256(text.encode())
        return EmbeddedText(number, text_hash, made.masses.get(text_hash, 1))

    return _Created(
        payload.memory_id,
        numbered(-chunk_number(event.position, 0), heading_text(payload.title, day_of(event.occurred_at))),
        [
            numbered(chunk_number(event.position, place), embedded_text(payload.content[chunk.start : chunk.end]))
            for place, chunk in enumerate(payload.chunks)
        ],
    )


def _norms_of(created: Sequence[_Created], stored: set[int], vectors: Vectors) -> dict[UUID, bytes]:
    """The norms of each new memory, by its id; none of those that have no vector."""
    created = [one for one in created if any(text.number in stored for text in (one.heading, *one.chunks))]
    rows = [
        (chunk.number, one.heading.number, 0, 0, 0, 0 if place else FIRST, 0)
        for one in created
        for place, chunk in enumerate(one.chunks)
    ]
    texts = [text for one in created for text in (one.heading, *one.chunks) if text.number in stored]
    norms = window_norms(
        np.array(rows, dtype=LAYOUT_DTYPE),
        np.array([text.number for text in texts], dtype=np.int64),
        np.array([text.mass for text in texts], dtype=np.float32),
        # As they are stored.
        np.stack([vectors[text.text_hash] for text in texts]).astype(np.float16).astype(np.float32),
    )
    ends = np.cumsum([len(one.chunks) for one in created])
    return {one.memory_id: part.tobytes() for one, part in zip(created, np.split(norms, ends[:-1]), strict=True)}
