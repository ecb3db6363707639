"""Embeds queries and fills in missing vectors, through a cache of each tenant's own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from agent_reminiscence.config.constants import BACKFILL_CHUNKS, EMBEDDING_BATCH_TEXTS
from agent_reminiscence.database.postgres_manager import PostgresManager, SqlExecutor
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.work_queue import WorkQueue
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.exceptions import EmbeddingError
from agent_reminiscence.services.embedders import Embedder, check_vectors

_logger = logging.getLogger("agent_reminiscence.embedding")

# Vectors can be made again from the texts, so their transaction need not wait for the disk.
_VECTOR_SETTINGS = {"synchronous_commit": "off"}


class EmbeddingService:
    """The embedder, checked and in batches, and the vectors it fills in.

    Args:
        review_within_seconds: How soon after a write a worker is to look at what expires; None where nothing does.
    """

    def __init__(
        self,
        store: PostgresManager,
        ledger: EventLedger,
        queue: WorkQueue,
        vectors: ChunkVectorRepository,
        embedder: Embedder,
        *,
        review_within_seconds: float | None = None,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._queue = queue
        self._vectors = vectors
        self._embedder = embedder
        self._review_within_seconds = review_within_seconds

    async def get_embedding(self, text: str) -> list[float]:
        """The unit vector of one text, such as a query; not cached.

        Raises:
            EmbeddingError: The embedder gave no usable vector.
        """
        return (await self.get_embeddings_batch([text]))[0]

    async def get_embeddings_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """Unit vectors of `texts`, in order; shape (len(texts), dimension).

        Raises:
            EmbeddingError: The embedder gave no usable vector for one of them.
        """
        vectors: list[list[float]] = []
        for start in range(0, len(texts), EMBEDDING_BATCH_TEXTS):
            batch = texts[start : start + EMBEDDING_BATCH_TEXTS]
            try:
                made = await self._embedder.embed(batch)
            except Exception as error:
                # An embedder of the user's own may raise anything, and say anything in it.
                raise EmbeddingError(
                    f"embedder {self._embedder.model_name!r} failed: {type(error).__name__}"
                ) from error
            try:
                check_vectors(
                    made, count=len(batch), dimension=self._embedder.dimension, model_name=self._embedder.model_name
                )
            except EmbeddingError:
                raise
            except Exception as error:
                # What it returns may be anything, too.
                raise EmbeddingError(
                    f"embedder {self._embedder.model_name!r} returned no vectors: {type(error).__name__}"
                ) from error
            # A client's array is a list here, and its numbers are floats.
            vectors += [list(map(float, vector)) for vector in made]
        return vectors

    async def fill_missing(
        self,
        external_id: str,
        memory_ids: Sequence[UUID] | None = None,
        *,
        written_at: datetime | None = None,
        strict: bool = False,
    ) -> tuple[int, int]:
        """Make the vectors that chunks lack; what cannot be made stays missing and is counted.

        No transaction is open while the embedder works. The chunks are stored, and found by their words until this is
        called again.

        Args:
            memory_ids: Only chunks of these memories; None is all of the tenant's.
            written_at: When the write was recorded that these vectors are all the work of.
            strict: Whether a failure of the embedder is raised in the end, instead of only logged.

        Returns:
            How many chunks got vectors, and how many still lack them: for a failure of the embedder, or because their
            text was changed meanwhile.

        Raises:
            EmbeddingError: With `strict`: the embedder failed for some. What could be made is stored.
        """
        filled = missing = 0
        failure: EmbeddingError | None = None
        last: UUID | None = None
        while True:
            async with self._store.transaction(external_id) as db:
                found = await self._vectors.find_missing(db, external_id, memory_ids, after=last, limit=BACKFILL_CHUNKS)
                if written_at is not None and not found and not missing:
                    await self._settle(db, external_id, written_at)
            if not found:
                break
            texts = dict.fromkeys(text for uncached in found.values() for text in uncached)
            made, failed = await self._try_to_embed(external_id, list(texts))
            failure = failure or failed
            async with self._store.transaction(external_id, settings=_VECTOR_SETTINGS) as db:
                # A handler that changes the same chunks must come wholly before or after this.
                await self._ledger.lock(db, external_id)
                await self._vectors.add_to_cache(db, external_id, list(found), made)
                progress = await self._vectors.fill(db, external_id, list(found))
                is_done = len(found) < BACKFILL_CHUNKS and not missing and progress == len(found)
                if written_at is not None and is_done:
                    # In the transaction that may be lost with its vectors: then the note that they are due is not.
                    await self._settle(db, external_id, written_at)
            filled += progress
            missing += len(found) - progress
            *_, last = found
            if len(found) < BACKFILL_CHUNKS:
                break
        if strict and failure is not None:
            raise failure
        return filled, missing

    async def _settle(self, db: SqlExecutor, external_id: str, written_at: datetime) -> None:
        await self._queue.settle_write(db, external_id, written_at, review_within_seconds=self._review_within_seconds)

    async def count_missing(self, db: SqlExecutor, external_id: str, memory_ids: Sequence[UUID] | None = None) -> int:
        """How many chunks lack vectors, of these memories or of all."""
        return await self._vectors.count_missing(db, external_id, memory_ids)

    async def _try_to_embed(
        self, external_id: str, texts: Sequence[str]
    ) -> tuple[dict[bytes, list[float]], EmbeddingError | None]:
        """Vectors by hash of their text, those of a batch that fails left out; and the first failure."""
        made: dict[bytes, list[float]] = {}
        failure: EmbeddingError | None = None
        for start in range(0, len(texts), EMBEDDING_BATCH_TEXTS):
            batch = texts[start : start + EMBEDDING_BATCH_TEXTS]
            try:
                vectors = await self.get_embeddings_batch(batch)
            except EmbeddingError as error:
                # Without a traceback: what a client raises may quote the texts.
                _logger.warning(
                    "vectors are missing until they are filled in: %s",
                    error,
                    extra={"external_id": external_id, "texts": len(batch), "model_name": self._embedder.model_name},
                )
                failure = failure or error
                continue
            made |= {sha256(text.encode()): vector for text, vector in zip(batch, vectors, strict=True)}
        return made, failure
