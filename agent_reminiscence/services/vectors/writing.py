"""Vectors of a write, stored in its own transaction, so that it can be found by meaning at once.

Only an embedder that computes in this process is called before the transaction; a write never waits for a server.
A failure here costs a vector, never the write: missing vectors are filled in later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date, datetime
from itertools import batched
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np

from agent_reminiscence.config.constants import BACKFILL_CHUNKS
from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.connection import Deferred, SqlExecutor
from agent_reminiscence.database.generations import ask_for_tables
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.chunk_vector import BEFORE_ALL, EmbeddedText
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.canonical import beside_many, sha256
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.domain.index import FIRST, LAYOUT_DTYPE, chunk_number
from agent_reminiscence.domain.payloads import MemoryCreated
from agent_reminiscence.projections.indexed_text import embedded_text, heading_text
from agent_reminiscence.services.vectors.cells import wants_sorting
from agent_reminiscence.services.vectors.filling import EmbeddingService, Vectors, read_batch
from agent_reminiscence.services.vectors.generations import NoEmbedderError
from agent_reminiscence.services.vectors.norms import INLINE_CHUNKS, window_norms
from agent_reminiscence.text.days import day_of

# How many vectors one statement stores, so that no statement takes long.
_BATCH_VECTORS: Final = 1_000


class MadeVectors(NamedTuple):
    """Vectors and masses of texts, by the SHA-256 of each text.

    Attributes:
        is_complete: Whether every requested text has one.
    """

    generation: Generation
    vectors: Vectors
    masses: dict[bytes, int]
    is_complete: bool


class _Created(NamedTuple):
    """The parts of a new memory's text, in order.

    Attributes:
        above: The number of each chunk's heading.
    """

    memory_id: UUID
    headings: list[EmbeddedText]
    chunks: list[EmbeddedText]
    above: list[int]


class WriteVectors:
    """Makes vectors before a write's transaction, and stores them in it."""

    def __init__(
        self,
        store: PostgresManager,
        repositories: Repositories,
        embedding: EmbeddingService,
    ) -> None:
        self._store = store
        self._embedding = embedding
        self._vectors = repositories.vectors
        self._norms = repositories.norms
        self._queue = repositories.queue

    async def make_for(self, payloads: Sequence[MemoryCreated], moments: Sequence[datetime]) -> MadeVectors | None:
        """Make the vectors of new memories.

        Args:
            moments: When each occurs; its heading names the day.

        Returns:
            None if the embedder calls a server: its vectors are made after the write.
        """
        texts = await beside_many(
            lambda: [
                text
                for payload, moment in zip(payloads, moments, strict=True)
                for text in (
                    *(heading_text(payload.title, day) for day in _days_of(payload, moment)),
                    *(embedded_text(payload.content[chunk.start : chunk.end]) for chunk in payload.chunks),
                )
            ],
            items=sum(len(payload.chunks) for payload in payloads),
        )
        return await self.make(texts)

    async def is_local(self) -> bool:
        """Whether this process itself computes the current vectors."""
        generations = self._embedding.generations
        try:
            embedder = await generations.embedder(generations.current)
        except NoEmbedderError:
            return False
        return embedder.is_local

    async def make_uncached(self, external_id: str, texts: Sequence[str]) -> MadeVectors | None:
        """Like `make`, for those texts that are not in the tenant's cache."""
        by_hash = dict(zip(await _hashes_of(texts), texts, strict=True))
        generation = self._embedding.generations.current
        async with self._store.transaction(external_id, read_only=True) as db:
            await db.plan_for(len(by_hash))
            uncached = await self._vectors.find_uncached(db, external_id, generation, list(by_hash))
        return await self.make([by_hash[text_hash] for text_hash in uncached])

    async def make(self, asked: Sequence[str]) -> MadeVectors | None:
        """Make the vectors of texts, as far as possible.

        Returns:
            None if the embedder calls a server: its vectors are made after the write.
        """
        if not await self.is_local():
            return None
        generation = self._embedding.generations.current
        texts = list(dict.fromkeys(asked))
        # Failures are retried once after the write, and reported there.
        made, failed, masses = await self._embedding.embed_and_weigh(generation, texts)
        hashes = await _hashes_of(texts)
        return MadeVectors(generation, made, dict(zip(hashes, masses, strict=True)), is_complete=not failed)

    def leaves_work(self, made: MadeVectors | None) -> bool:
        """Whether work is likely to remain after a write."""
        return made is None or not made.is_complete or self._embedding.settles_reviews

    async def settle(self, db: SqlExecutor, event: Event, *, is_work: bool, is_complete: bool) -> None:
        """Record in the write's transaction what work is left after it.

        Args:
            is_work: Whether the event was recorded as making work.
            is_complete: Whether everything has its vector.
        """
        if is_complete and is_work:
            await self._embedding.settle(db, event.external_id, event.recorded_at)
        elif not is_complete and not is_work:
            await self._queue.note_work(db, event.external_id, event.recorded_at)

    async def look_for_tables(self, db: SqlExecutor, made: MadeVectors | None) -> Deferred[bool] | None:
        """Check, at the beginning of a transaction, whether the vectors' generation still exists.

        Another process may have changed the model meanwhile. A statement on dropped tables would make the write fail.
        """
        return None if made is None else await ask_for_tables(db, made.generation.number)

    async def keep_storable(self, made: MadeVectors | None, has_tables: Deferred[bool] | None) -> MadeVectors | None:
        """Return `made`, or None if its generation was dropped: then vectors are made after the write."""
        return made if has_tables is not None and await has_tables.result() else None

    async def store_created(
        self, db: SqlExecutor, external_id: str, made: MadeVectors, events: Sequence[tuple[Event, MemoryCreated]]
    ) -> bool:
        """Store the vectors and norms of memories that this transaction has created.

        Returns:
            Whether everything has its vector.
        """
        created = await beside_many(
            lambda: [_texts_of(event, payload, made) for event, payload in events],
            items=sum(len(payload.chunks) for _, payload in events),
        )
        texts = [text for one in created for text in (*one.headings, *one.chunks)]
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
        await self._norms.put_new(db, external_id, made.generation.number, norms)
        if sorts:
            await self._queue.enqueue(db)
        return len(stored) == len(texts)

    async def store_updated(self, db: SqlExecutor, external_id: str, made: MadeVectors, memory_id: UUID) -> bool:
        """Store the missing vectors of a memory's chunks and headings, as far as they are made or cached.

        Returns:
            Whether everything has its vector.
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
    """The parts of a new memory's text, numbered as its handler numbers them."""

    def numbered(number: int, text: str) -> EmbeddedText:
        text_hash = sha256(text.encode())
        return EmbeddedText(number, text_hash, made.masses.get(text_hash, 1))

    zone = stored_zone(payload.timezone)
    days = _days_of(payload, event.occurred_at)
    above = {day: -chunk_number(event.position, index) for index, day in enumerate(days)}
    return _Created(
        payload.memory_id,
        [numbered(number, heading_text(payload.title, day)) for day, number in above.items()],
        [
            numbered(chunk_number(event.position, index), embedded_text(payload.content[chunk.start : chunk.end]))
            for index, chunk in enumerate(payload.chunks)
        ],
        [above[day_of(chunk.start_date or event.occurred_at, zone)] for chunk in payload.chunks],
    )


def _days_of(payload: MemoryCreated, moment: datetime) -> list[date]:
    """The days on which a new memory's chunks begin, each of which has a heading, in order.

    Args:
        moment: When the memory occurs.
    """
    zone = stored_zone(payload.timezone)
    return sorted({day_of(chunk.start_date or moment, zone) for chunk in payload.chunks})


def _norms_of(created: Sequence[_Created], stored: set[int], vectors: Vectors) -> dict[UUID, bytes]:
    """The norms of each new memory, by id; none for memories without vectors."""
    created = [one for one in created if any(text.number in stored for text in (*one.headings, *one.chunks))]
    rows = [
        (chunk.number, heading, 0, 0, 0, 0 if index else FIRST, 0)
        for one in created
        for index, (chunk, heading) in enumerate(zip(one.chunks, one.above, strict=True))
    ]
    texts = [text for one in created for text in (*one.headings, *one.chunks) if text.number in stored]
    norms = window_norms(
        np.array(rows, dtype=LAYOUT_DTYPE),
        np.array([text.number for text in texts], dtype=np.int64),
        np.array([text.mass for text in texts], dtype=np.float32),
        # In stored precision.
        np.stack([vectors[text.text_hash] for text in texts]).astype(np.float16).astype(np.float32),
    )
    ends = np.cumsum([len(one.chunks) for one in created])
    return {one.memory_id: part.tobytes() for one, part in zip(created, np.split(norms, ends[:-1]), strict=True)}
