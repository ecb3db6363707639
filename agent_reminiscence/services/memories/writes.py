"""What every write of a memory does around its event: limits, queued work, vectors, and the result."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence.config.constants import MAX_TEXT_CHUNKS
from agent_reminiscence.config.timezones import UTC_NAME
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.canonical import beside, beside_many
from agent_reminiscence.domain.event import Event, EventKind, NewEvent
from agent_reminiscence.domain.memory import ActiveMemory, StoredMemory, WriteOutcome
from agent_reminiscence.domain.payloads import (
    MemoryAppended,
    MemoryCreated,
    MemoryUpdated,
    write_payload,
)
from agent_reminiscence.exceptions import InvalidInputError, QuotaExceededError, StoreError
from agent_reminiscence.projections.updated import dropped_chunks
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.requests import (
    AppendTextRequest,
    CreateRequest,
    UnarchiveRequest,
    UpdateRequest,
)
from agent_reminiscence.services.memories.fold import fold
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.filling import EmbeddingService

_logger = logging.getLogger("agent_reminiscence.memory")


class MemoryRules(NamedTuple):
    """What the settings say of active memories.

    Attributes:
        update_threshold: From how many updates on a memory is due for consolidation.
        language: Of texts that name none; None leaves it to each text.
        timezone: Of memories whose write names none.
        chunks_expire: Whether a chunk of any tier has a limited life.
        max_chunks: How many live chunks a stream may have; None is any number.
        max_active_memories: How many active memories a stream may have; None is any number.
        remember_after_seconds: How long a conversation must pause before a model reads it.
    """

    update_threshold: int
    language: str | None = None
    timezone: str = UTC_NAME
    chunks_expire: bool = False
    max_chunks: int | None = None
    max_active_memories: int | None = None
    remember_after_seconds: float = 0.0


class Written(NamedTuple):
    """A write that its transaction has made.

    Attributes:
        has_vectors: Whether everything it wrote has its vector already.
    """

    memory: StoredMemory
    outcome: WriteOutcome
    event: Event
    has_vectors: bool


class MemoryWrites:
    """The steps that creations and updates share."""

    def __init__(
        self,
        runtime: Runtime,
        embedding: EmbeddingService,
        rules: MemoryRules,
    ) -> None:
        self._ledger = runtime.repositories.events
        self._tables = runtime.repositories.tables
        self._embedding = embedding
        self._queue = runtime.repositories.queue
        self._uses = runtime.repositories.uses
        self._clock = runtime.clock
        self.language = rules.language
        self.timezone = rules.timezone
        self._update_threshold = rules.update_threshold
        self._chunks_expire = rules.chunks_expire
        self._max_chunks = rules.max_chunks
        self._max_active_memories = rules.max_active_memories
        self.remember_after_seconds = rules.remember_after_seconds

    async def touch_repetitions_of(self, db: SqlExecutor, before: StoredMemory, payload: MemoryUpdated) -> None:
        """Do what `touch_repetitions` does for the chunks that an update drops."""
        if self._chunks_expire:
            dropped = await beside_many(
                lambda: dropped_chunks(before.chunk_ids, payload.chunks), items=len(before.chunk_ids)
            )
            await self.touch_repetitions(db, before.external_id, dropped)

    async def touch_repetitions(self, db: SqlExecutor, external_id: str, ending: Sequence[UUID]) -> None:
        """Revive repetitions of chunks that end, and restart their time to live.

        Not done by a handler: a replay leaves soft state alone.
        """
        if self._chunks_expire and ending:
            await self._uses.touch_repetitions(db, external_id, ending, moment=self._clock())

    async def count_active(self, db: SqlExecutor, external_id: str) -> int:
        """Number of active memories, if there is a limit. Exact under the stream's lock."""
        if self._max_active_memories is None:
            return 0
        return await self._tables.active.count_active(db, external_id, now=self._clock())

    def check_room(self, external_id: str, active: int) -> None:
        """Refuse to exceed the limit of active memories."""
        if self._max_active_memories is not None and active >= self._max_active_memories:
            raise QuotaExceededError(
                external_id,
                "max_active_memories",
                self._max_active_memories,
                active + 1,
                "archive finished memories (memory.admin.archive), or raise the limit",
            )

    def check_length(self, external_id: str, chunks: int) -> None:
        """Refuse a text with more chunks than the limits allow.

        With more than the tenant's limit, part of the text would be ended at once.
        """
        if chunks > MAX_TEXT_CHUNKS:
            raise InvalidInputError(
                f"the text would have {chunks:,} chunks; the limit is {MAX_TEXT_CHUNKS:,}. Begin a new memory"
            )
        if self._max_chunks is not None and chunks > self._max_chunks:
            raise QuotaExceededError(
                external_id,
                "max_chunks",
                self._max_chunks,
                chunks,
                "split the text, shorten it, or raise the limit",
            )

    async def queue_work(
        self, db: SqlExecutor, external_id: str, *, is_due: bool, expires_at: datetime | None = None
    ) -> None:
        """Queue the work that this transaction makes due; it becomes visible with the commit.

        Args:
            is_due: Whether a consolidation is due. Chunks beyond the limit are work, too.
            expires_at: When the written memory expires, which a worker is to record then.
        """
        if expires_at is not None:
            await self._queue.review_by(db, external_id, expires_at)
        if is_due:
            await self._ledger.mark_due(db, external_id)
        if is_due or await self._is_too_full(db, external_id):
            await self._queue.enqueue(db)

    async def queue_reading(self, db: SqlExecutor, external_id: str, *, delay_seconds: float) -> None:
        """Queue the reading of a conversation by a model; it becomes visible with the commit."""
        # If the job is lost, or does other work before it is time, a worker finds the stream by this.
        await self._queue.review_by(db, external_id, self._clock() + timedelta(seconds=delay_seconds))
        await self._queue.enqueue(db, delay_seconds=delay_seconds or None)

    async def _is_too_full(self, db: SqlExecutor, external_id: str) -> bool:
        return self._max_chunks is not None and await self._ledger.live_chunks(db, external_id) > self._max_chunks

    async def fill_vectors(
        self, external_id: str, memory_ids: Sequence[UUID], written_at: datetime | None, *, lacking: int
    ) -> int:
        """Make the vectors of stored memories; returns how many of their chunks still lack them.

        Args:
            written_at: When the first of the writes was recorded; None if nothing new was written.
            lacking: How many chunks are believed to lack vectors, returned if the store cannot be asked.
        """
        try:
            # It first checks what is missing, so repeating it does no harm.
            _, missing = await repeated(
                lambda: self._embedding.fill_missing(external_id, memory_ids, written_at=written_at),
                operation="fill_missing",
                external_id=external_id,
                repeatable=True,
            )
        except StoreError as error:
            # No traceback: the driver's error in it may quote a row.
            _logger.warning(
                "the write is stored, but its vectors are still missing and stay due: %s",
                error,
                extra={"external_id": external_id, "memory_id": ", ".join(map(str, memory_ids))},
            )
            return lacking
        return missing

    async def finish(self, *written: Written) -> ActiveMemory:
        """Finish committed writes of one stream: make the vectors that they have not stored themselves.

        The writes are safe either way; if this fails, the work stays due and a worker does it.

        Returns:
            The memory of the last of them.
        """
        last = written[-1]
        memory, outcome = self.to_active(last.memory), last.outcome
        lacking = [one for one in written if not one.has_vectors]
        if lacking:
            missing = await self.fill_vectors(
                memory.external_id,
                list(dict.fromkeys(one.memory.memory_id for one in lacking)),
                lacking[0].event.recorded_at,
                lacking=sum(one.outcome.chunks_added for one in lacking),
            )
            outcome = outcome.model_copy(update={"vectors_missing": missing})
        return memory.model_copy(update={"write": outcome})

    async def first_result(self, db: SqlExecutor, event: Event) -> ActiveMemory:
        """Return the ledger's result of the first call with this idempotency key; missing vectors are counted now."""
        memory_id = UUID(event.payload["memory_id"])
        events = await self._ledger.read_memory(db, event.external_id, memory_id, position=event.position)
        memory = fold(events, self.updates_left)
        missing = await self._embedding.count_missing(db, event.external_id, [memory_id])
        assert memory.write is not None
        return memory.model_copy(update={"write": memory.write.model_copy(update={"vectors_missing": missing})})

    def to_active(self, memory: StoredMemory) -> ActiveMemory:
        """A stored memory as callers get it."""
        return ActiveMemory(
            id=memory.memory_id,
            updates_until_consolidation=self.updates_left(memory.version, memory.consolidated_version),
            **memory.model_dump(
                exclude={"memory_id", "due_version", "chunk_ids", "chunk_starts", "expired_at", "had_expiry"}
            ),
        )

    def updates_left(self, version: int, consolidated_version: int) -> int:
        """How many more updates a memory at `version` takes before it is consolidated."""
        # The first version is not an update.
        return max(0, self._update_threshold - (version - max(consolidated_version, 1)))


async def write_event(
    request: CreateRequest | UpdateRequest | AppendTextRequest | UnarchiveRequest,
    kind: EventKind,
    payload: MemoryCreated | MemoryUpdated | MemoryAppended,
    now: datetime,
) -> NewEvent:
    """Build the event of a write, in a thread if the text is long."""
    content = await write_payload(payload, payload.chunks)
    match request:
        case CreateRequest():
            asked: object = request.content
        case UpdateRequest():
            asked = request.changes
        case UnarchiveRequest():
            asked = content["chunks"]
        case AppendTextRequest():
            asked = payload.content if isinstance(payload, MemoryAppended) else request.text
    return await beside(lambda: request.event(kind, content, now), value=asked)
