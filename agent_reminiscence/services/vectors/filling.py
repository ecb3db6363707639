"""Embeds queries and fills in missing vectors, with a cache per tenant."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.config.constants import BACKFILL_CHUNKS, EMBEDDING_BATCH_TEXTS
from agent_reminiscence.database.connection import Deferred, SqlExecutor
from agent_reminiscence.database.generations import current_generation
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.chunk_vector import (
    BEFORE_ALL,
    EmbeddedText,
    Filled,
    MissingVector,
)
from agent_reminiscence.database.repositories.replay_tables import StoredMass
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.embedders.checked import CheckedEmbedder
from agent_reminiscence.embedders.halving import embeds_word
from agent_reminiscence.exceptions import EmbedderAwayError, EmbeddingError, StoreError
from agent_reminiscence.projections.indexed_text import embedded_text, fact_text, heading_text
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.vectors.cells import wants_sorting
from agent_reminiscence.services.vectors.generations import Generations, NoEmbedderError
from agent_reminiscence.services.vectors.questions import QuestionVectors
from agent_reminiscence.services.vectors.renewal import NormRenewal
from agent_reminiscence.services.vectors.told import tell_of_vectors
from agent_reminiscence.text.tokens import count_tokens_batch

_logger = logging.getLogger("agent_reminiscence.embedding")

# Vectors can be recomputed from the texts, so their transaction need not wait for the disk.
_VECTOR_SETTINGS = {"synchronous_commit": "off"}
# It is not known in advance how many chunks are read to find those without vectors. See `SqlExecutor.plan_for`.
_SEARCH_SETTINGS = {"plan_cache_mode": "force_custom_plan"}

# Vectors by the SHA-256 of their texts.
Vectors = dict[bytes, NDArray[np.float32]]

# More characters are tokenized in a thread so that other tasks can run meanwhile.
_INLINE_CHARACTERS = 2_000


class _GenerationChangedError(Exception):
    """Another generation became current while vectors were being made."""


@dataclass(frozen=True, slots=True)
class MissingBatch:
    """Chunks and headings without vectors, by ascending number.

    Attributes:
        texts: The texts to embed, by number; without rows whose text no longer matches their index entry.
        masses: The token count of each text, by number.
    """

    rows: list[MissingVector]
    texts: dict[int, str] = field(default_factory=dict)
    masses: dict[int, int] = field(default_factory=dict)

    @property
    def chunks(self) -> int:
        """How many of them are chunks."""
        return sum(row.number > 0 for row in self.rows)

    @property
    def uncached(self) -> dict[int, str]:
        """The texts whose vectors are not in the cache, by number."""
        return {
            row.number: self.texts[row.number] for row in self.rows if not row.is_cached and row.number in self.texts
        }

    def embedded(self) -> list[EmbeddedText]:
        """The rows that may get vectors."""
        return [
            EmbeddedText(row.number, row.text_hash, self.masses[row.number])
            for row in self.rows
            if row.number in self.texts
        ]

    def memories(self, numbers: frozenset[int]) -> set[UUID]:
        """The memories that some of the rows belong to."""
        return {row.memory_id for row in self.rows if row.number in numbers}


class EmbeddingService:
    """Runs embedders in batches, checks their vectors, and fills in missing ones.

    Args:
        retry_seconds: How soon after a write whose vectors could not be made a worker tries again.
        review_within_seconds: How soon after a write a worker reviews what expires; None if nothing does.
    """

    def __init__(
        self,
        store: PostgresManager,
        repositories: Repositories,
        generations: Generations,
        norms: NormRenewal,
        *,
        retry_seconds: float,
        review_within_seconds: float | None = None,
    ) -> None:
        self._store = store
        self._ledger = repositories.events
        self._queue = repositories.queue
        self._vectors = repositories.vectors
        self._generations = generations
        self._norms = norms
        self._retry_seconds = retry_seconds
        self._review_within_seconds = review_within_seconds
        self._questions = QuestionVectors(self._embed_questions)

    @property
    def generations(self) -> Generations:
        """The current vector generation, and the embedders."""
        return self._generations

    async def embed_question(self, external_id: str, text: str, generation: Generation) -> list[float]:
        """The unit vector of a question; questions asked at the same moment go out in one request.

        Args:
            external_id: Who asks; a question that the same tenant asks again is not embedded again.
            generation: Whose model to use.

        Raises:
            EmbeddingError: There is no embedder for that model, or it gave no usable vector.
        """
        return await self._questions.get(external_id, text, generation)

    async def _embed_questions(self, generation: Generation, texts: Sequence[str]) -> list[list[float]]:
        return await (await self._embedder(generation)).embed_queries(texts)

    async def embeds_locally(self, generation: Generation) -> bool:
        """Whether a question is embedded in this process, and may wait until the tenant's texts have been read.

        Raises:
            EmbeddingError: There is no embedder for the generation's model.
        """
        return (await self._generations.embedder(generation)).is_local

    async def get_weighted(
        self, text: str, weigh: Callable[[str], float], generation: Generation
    ) -> list[float] | None:
        """The unit vector of a question, weighted towards its rare words; None if the embedder does not support it.

        Raises:
            EmbeddingError: As `embed_question`.
        """
        return await (await self._embedder(generation)).embed_weighted(text, weigh)

    async def _embedder(self, generation: Generation) -> CheckedEmbedder:
        return CheckedEmbedder(await self._generations.embedder(generation))

    async def vectors_of(self, external_id: str, chunk_ids: Sequence[UUID]) -> dict[UUID, tuple[float, ...]]:
        """The current vectors of chunks by their ids; chunks that have none, or do not exist, are left out."""

        async def read() -> dict[UUID, tuple[float, ...]]:
            async with self._store.transaction(external_id, read_only=True) as db:
                generation = await current_generation(db)
                return await self._vectors.read_of_chunks(db, external_id, generation.number, chunk_ids)

        return await repeated(read, operation="read vectors", external_id=external_id)

    async def fill_missing(
        self,
        external_id: str,
        memory_ids: Sequence[UUID] | None = None,
        *,
        written_at: datetime | None = None,
        strict: bool = False,
    ) -> tuple[int, int]:
        """Make the current vectors that chunks lack; those that cannot be made stay missing and are counted.

        No transaction is open while the embedder works. Chunks without vectors are found by their words until a later
        call fills them in. What failed is noted with its reason, and a worker is to try again.

        Args:
            memory_ids: Only chunks of these memories; None is all of the tenant's.
            written_at: When the write was recorded, if these vectors are all the work it left.
            strict: Whether to raise an embedder failure at the end, to a caller that schedules the next attempt itself.

        Returns:
            How many chunks got vectors, and how many still lack them because the embedder failed or their text was
            changed meanwhile.

        Raises:
            EmbeddingError: With `strict`: the embedder failed for some texts. Vectors that could be made are stored.
        """
        while True:
            try:
                filled, missing, failure = await self._fill_current(external_id, memory_ids, written_at)
            except _GenerationChangedError:
                # The other memories' missing vectors are not counted here.
                continue
            # Not after each write that goes well: the note is brought up to date by the work that it leaves.
            if failure is not None or (filled and written_at is None):
                await self._note_missing(external_id, failure, is_retried=failure is not None and not strict)
            if strict and failure is not None:
                raise failure
            return filled, missing

    async def _note_missing(self, external_id: str, failure: EmbeddingError | None, *, is_retried: bool) -> None:
        """Record how many of the tenant's chunks lack vectors, and queue another attempt if asked to."""
        error = None if failure is None else f"{type(failure).__name__}: {failure}"
        async with self._store.transaction(external_id, settings=_SEARCH_SETTINGS) as db:
            # Nobody changes chunks or vectors between the count and its record.
            await self._ledger.lock(db, external_id)
            state = await self._queue.read(db, external_id)
            if failure is None and (state is None or state.vectors_missing_since is None):
                return
            # This reads all of the tenant's chunks.
            chunks = await self.count_missing(db, external_id)
            await self._queue.note_missing_vectors(db, external_id, chunks, error)
            if is_retried:
                await self._queue.enqueue(db, delay_seconds=self._retry_seconds)

    async def ask_whether_lacking(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, generation: Generation
    ) -> Deferred[bool]:
        """Whether `fill_missing` would find something to do for a memory.

        Args:
            generation: The current one, as this transaction reads it.
        """
        self._generations.follow(generation)
        return await self._vectors.ask_whether_lacking(db, external_id, generation.number, memory_id)

    async def _fill_current(
        self, external_id: str, memory_ids: Sequence[UUID] | None, written_at: datetime | None
    ) -> tuple[int, int, EmbeddingError | None]:
        filled = missing = 0
        failure: EmbeddingError | None = None
        generation: Generation | None = None
        last, lacks_any = BEFORE_ALL, False
        while True:
            async with self._store.transaction(external_id, settings=_SEARCH_SETTINGS) as db:
                generation = await self._look(db, generation)
                rows = await self._vectors.find_missing(
                    db, external_id, generation, memory_ids, after=last, limit=BACKFILL_CHUNKS
                )
                if written_at is not None and not rows and not lacks_any:
                    await self.settle(db, external_id, written_at)
            if not rows:
                break
            found = await read_batch(rows)
            made, failed = await self._try_to_embed(external_id, generation, found)
            if failure is None or (failed is not None and _passes(failed)):
                failure = failed
            try:
                async with self._store.transaction(external_id, settings=_VECTOR_SETTINGS) as db:
                    # A handler that changes the same chunks must run entirely before or after this.
                    await self._ledger.lock(db, external_id)
                    await db.plan_for(len(rows))
                    stored = await self.store(db, external_id, generation, found, made)
                    if len(stored.numbers) < len(rows):
                        lacks_any = True
                        await self._look(db, generation)
                    if written_at is not None and len(rows) < BACKFILL_CHUNKS and not lacks_any:
                        # In the same transaction: if it is lost with its vectors, the note that they are due is not.
                        await self.settle(db, external_id, written_at)
            except StoreError:
                # A slow embedder may return after the table for its vectors was dropped.
                if (await self._generations.refresh()).number != generation.number:
                    raise _GenerationChangedError from None
                raise
            filled += stored.chunks
            missing += found.chunks - stored.chunks
            last = rows[-1].number
            if len(rows) < BACKFILL_CHUNKS:
                break
        return filled, missing, failure

    async def store(
        self, db: SqlExecutor, external_id: str, generation: Generation, found: MissingBatch, made: Vectors
    ) -> Filled:
        """Store vectors and what depends on them, in a transaction that holds the stream's lock."""
        stored = await self._vectors.fill(db, external_id, generation, found.embedded(), made)
        if stored.numbers:
            memory_ids = found.memories(stored.numbers)
            await self._norms.renew_generation(db, external_id, generation.number, memory_ids, numbers=stored.numbers)
            # For another generation, its builder does this.
            if generation.state == "current" and wants_sorting(stored.text_chunks, stored.cells):
                await self._queue.enqueue(db)
        return stored

    async def _look(self, db: SqlExecutor, before: Generation | None) -> Generation:
        """The current generation; it must be the same as `before`, if given."""
        generation = await current_generation(db)
        self._generations.follow(generation)
        if before is not None and generation.number != before.number:
            raise _GenerationChangedError
        return generation

    async def fill_generation(
        self, external_id: str, generation: Generation, *, note: Callable[[int], None]
    ) -> tuple[int, int, int]:
        """Make the vectors that chunks lack in `generation`, which need not be the current one.

        A text that the embedder refuses while it embeds others is logged and left without a vector.

        Args:
            note: Called after each batch with the number of chunks that got vectors.

        Returns:
            How many chunks got vectors, how many lack them because a text was refused, and how many because they were
            changed meanwhile.

        Raises:
            EmbeddingError: The embedder is unavailable or fails for everything; vectors made before stay.
        """
        filled = refused = changed = 0
        last = BEFORE_ALL
        while True:
            async with self._store.transaction(external_id, read_only=True, settings=_SEARCH_SETTINGS) as db:
                rows = await self._vectors.find_missing(
                    db, external_id, generation, None, after=last, limit=BACKFILL_CHUNKS
                )
            if not rows:
                if generation.state == "current":
                    # Of the vectors that another model has refused, this one may have made all.
                    await self._note_missing(external_id, None, is_retried=False)
                return filled, refused, changed
            found = await read_batch(rows)
            made, failure = await self._try_to_embed(external_id, generation, found)
            async with self._store.transaction(external_id, settings=_VECTOR_SETTINGS) as db:
                await self._ledger.lock(db, external_id)
                await db.plan_for(len(rows))
                stored = await self.store(db, external_id, generation, found, made)
            note(stored.chunks)
            if failure is not None:
                await self._raise_unless_refused(generation, failure, has_made=bool(made))
            without = sum(number > 0 and sha256(text.encode()) not in made for number, text in found.uncached.items())
            filled += stored.chunks
            refused += without
            changed += max(0, found.chunks - stored.chunks - without)
            last = rows[-1].number

    async def _raise_unless_refused(self, generation: Generation, failure: EmbeddingError, *, has_made: bool) -> None:
        """Raise `failure` unless a text is to blame."""
        if await self.is_at_fault(generation, failure, has_made=has_made):
            raise failure

    async def is_at_fault(self, generation: Generation, failure: EmbeddingError, *, has_made: bool) -> bool:
        """Whether the embedder failed, so that the same call may succeed later, and no text is to blame.

        Args:
            has_made: Whether it has embedded other texts of the same call; if not, it is tried with a test word.
        """
        return _passes(failure) or not (has_made or await embeds_word((await self._embedder(generation)).embed))

    async def count_chunks(self, external_id: str, generation: Generation) -> tuple[int, int]:
        """How many chunks there are, and how many of them lack vectors in `generation`."""
        async with self._store.transaction(external_id, read_only=True) as db:
            return await self._vectors.count_chunks(db, external_id, generation)

    async def forget_cached(self, external_id: str, generation: Generation) -> None:
        """Delete the cached vectors of the generation's model."""
        async with self._store.transaction(external_id) as db:
            await self._vectors.delete_cached(db, external_id, generation)

    @property
    def settles_reviews(self) -> bool:
        """Whether chunks expire, so that finishing a write's work schedules their review."""
        return self._review_within_seconds is not None

    async def settle(self, db: SqlExecutor, external_id: str, written_at: datetime) -> None:
        """Record that the work of the write recorded at `written_at` is done."""
        await self._queue.settle_write(db, external_id, written_at, review_within_seconds=self._review_within_seconds)

    async def count_missing(self, db: SqlExecutor, external_id: str, memory_ids: Sequence[UUID] | None = None) -> int:
        """How many chunks lack current vectors, of these memories or of all."""
        return await self._vectors.count_missing(db, external_id, await current_generation(db), memory_ids)

    async def _try_to_embed(
        self, external_id: str, generation: Generation, found: MissingBatch
    ) -> tuple[Vectors, EmbeddingError | None]:
        """The vectors of uncached texts that could be made, and a failure if there was one.

        Returns:
            Of several failures, a temporary one if there is any.
        """
        uncached = found.uncached
        made, failed = await self.embed_texts(generation, uncached.values())
        if not failed:
            return made, None
        failure = next((error for error in failed.values() if _passes(error)), None)
        if failure is None:
            # An index within a call means nothing later; the chunk's id does, and it reveals none of the text.
            row = next(row for row in found.rows if row.number in uncached and uncached[row.number] in failed)
            subject = f"heading of memory {row.memory_id}" if row.chunk_id is None else f"chunk {row.chunk_id}"
            failure = EmbeddingError(f"{subject} has no vector: {failed[uncached[row.number]]}")
        # Without a traceback: a client's error may quote the texts.
        _logger.warning(
            "vectors are missing until they are filled in: %s",
            failure,
            extra={"external_id": external_id, "texts": len(failed), "model_name": generation.model_name},
        )
        return made, failure

    async def embed_texts(
        self, generation: Generation, asked: Iterable[str]
    ) -> tuple[Vectors, dict[str, EmbeddingError]]:
        """Vectors of texts by the hash of each, and why any are missing."""
        made: Vectors = {}
        failed: dict[str, EmbeddingError] = {}
        texts = list(dict.fromkeys(asked))
        for start in range(0, len(texts), EMBEDDING_BATCH_TEXTS):
            batch = texts[start : start + EMBEDDING_BATCH_TEXTS]
            try:
                results = await (await self._embedder(generation)).embed_each(batch)
            except EmbeddingError as error:
                # There is no embedder.
                results = [error] * len(batch)
            for text, result in zip(batch, results, strict=True):
                if isinstance(result, EmbeddingError):
                    failed[text] = result
                else:
                    made[sha256(text.encode())] = np.array(result, dtype=np.float32)
            tell_of_vectors(len(batch))
        return made, failed

    async def embed_and_weigh(
        self, generation: Generation, texts: Sequence[str]
    ) -> tuple[Vectors, dict[str, EmbeddingError], list[int]]:
        """The same for distinct texts, with the mass of each, as in `count_masses`."""
        made, failed = await self.embed_texts(generation, texts)
        return made, failed, await count_masses(texts)


async def read_batch(rows: list[MissingVector]) -> MissingBatch:
    """The texts to embed for chunks and headings without vectors."""
    batch = MissingBatch(rows)
    for row in rows:
        text = text_of(row)
        # A row changed by hand is for verify() to find; it must not get the vector of a different text.
        if sha256(text.encode()) == row.text_hash:
            batch.texts[row.number] = text
    batch.masses.update(zip(batch.texts, await count_masses(list(batch.texts.values())), strict=True))
    return batch


def text_of(row: MissingVector | StoredMass) -> str:
    """The text of a chunk, fact or heading as it is embedded."""
    if row.day is not None:
        return heading_text(row.content, row.day)
    return embedded_text(row.content) if row.stated_on is None else fact_text(row.content, row.stated_on)


async def count_masses(texts: Sequence[str]) -> list[int]:
    """The weight of each text in a window's vector: its tokens, at least 1."""
    if sum(map(len, texts)) > _INLINE_CHARACTERS:
        counts = await asyncio.to_thread(count_tokens_batch, texts)
    else:
        counts = count_tokens_batch(texts)
    return [max(1, count) for count in counts]


def _passes(error: EmbeddingError) -> bool:
    """Whether the failure is temporary, not a text's fault: the same call may succeed later, here or elsewhere."""
    return isinstance(error, EmbedderAwayError | NoEmbedderError)
