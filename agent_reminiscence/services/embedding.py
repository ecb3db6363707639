"""Embeds queries and fills in missing vectors, through a cache of each tenant's own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from agent_reminiscence.config.constants import BACKFILL_CHUNKS, EMBEDDING_BATCH_TEXTS
from agent_reminiscence.database.postgres_manager import PostgresManager, SqlExecutor
from agent_reminiscence.database.repositories.chunk_vector import ChunkVectorRepository
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.exceptions import EmbeddingError
from agent_reminiscence.services.embedders import Embedder, check_vectors

_logger = logging.getLogger("agent_reminiscence.embedding")

# Vectors can be made again from the texts, so their transaction need not wait for the disk.
_VECTOR_SETTINGS = {"synchronous_commit": "off"}


class EmbeddingService:
    """The embedder, checked and in batches, and the vectors it fills in."""

    def __init__(
        self, store: PostgresManager, ledger: EventLedger, vectors: ChunkVectorRepository, embedder: Embedder
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._vectors = vectors
        self._embedder = embedder

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
                check_vectors(
                    made, count=len(batch), dimension=self._embedder.dimension, model_name=self._embedder.model_name
                )
            except EmbeddingError:
                raise
            except Exception as error:
                # An embedder of the user's own may raise, or return, anything.
                raise EmbeddingError(
                    f"embedder {self._embedder.model_name!r} failed: {type(error).__name__}"
                ) from error
            # A client's array is a list here, and its numbers are floats.
            vectors += [list(map(float, vector)) for vector in made]
        return vectors

    async def fill_missing(self, external_id: str, memory_id: UUID | None = None) -> tuple[int, int]:
        """Make the vectors that chunks lack; what cannot be made stays missing and is counted.

        No transaction is open while the embedder works, and none of its failures reaches the caller: the chunks are
        stored, and found by their words until this is called again.

        Args:
            memory_id: Only this memory's chunks; None is all of the tenant's.

        Returns:
            How many chunks got vectors, and how many still lack them.
        """
        filled = missing = 0
        last: UUID | None = None
        while True:
            async with self._store.transaction(external_id) as db:
                found = await self._vectors.find_missing(db, external_id, memory_id, after=last, limit=BACKFILL_CHUNKS)
            if not found:
                return filled, missing
            texts = dict.fromkeys(text for uncached in found.values() for text in uncached)
            made = await self._try_to_embed(external_id, list(texts))
            async with self._store.transaction(external_id, settings=_VECTOR_SETTINGS) as db:
                # A handler that changes the same chunks must come wholly before or after this.
                await self._ledger.lock(db, external_id)
                await self._vectors.add_to_cache(db, external_id, list(found), made)
                progress = await self._vectors.fill(db, external_id, list(found))
            filled += progress
            missing += len(found) - progress
            *_, last = found
            if len(found) < BACKFILL_CHUNKS:
                return filled, missing

    async def count_missing(self, db: SqlExecutor, external_id: str, memory_id: UUID | None = None) -> int:
        """How many chunks lack vectors."""
        return await self._vectors.count_missing(db, external_id, memory_id)

    async def _try_to_embed(self, external_id: str, texts: Sequence[str]) -> dict[bytes, list[float]]:
        """Vectors by hash of their text; those of a batch that fails are left out."""
        made: dict[bytes, list[float]] = {}
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
                continue
            made |= {sha256(text.encode()): vector for text, vector in zip(batch, vectors, strict=True)}
        return made
