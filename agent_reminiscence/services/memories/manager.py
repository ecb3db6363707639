"""Operations on active memories: plan a write, append it as one event, return the outcome."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from agent_reminiscence.database.connection import PLANNED_ONCE, SqlExecutor
from agent_reminiscence.domain.canonical import beside, beside_many
from agent_reminiscence.domain.event import (
    ChunkEntry,
    Event,
    EventKind,
    MemoryArchived,
    MemoryCreated,
    MemoryUpdated,
    NewEvent,
    write_payload,
)
from agent_reminiscence.domain.memory import ActiveMemory, StoredMemory, WriteOutcome
from agent_reminiscence.domain.transfer import AddedMemory
from agent_reminiscence.domain.trust import Source, least_trusted
from agent_reminiscence.exceptions import (
    InvalidInputError,
    MemoryNotFoundError,
    QuotaExceededError,
    StoreError,
    VersionConflictError,
)
from agent_reminiscence.projections.created import created_memory
from agent_reminiscence.projections.indexed_text import heading_text
from agent_reminiscence.projections.texts import day_of
from agent_reminiscence.projections.updated import dropped_chunks
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import ArchiveRequest, CreateRequest, UpdateRequest
from agent_reminiscence.services.memories.fold import fold, outcome_of
from agent_reminiscence.services.memories.languages import TenantLanguage
from agent_reminiscence.services.memories.layout import chunked, match, new_texts, plan_creations, same_entries
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.services.vectors.writing import MadeVectors, WriteVectors

_logger = logging.getLogger("agent_reminiscence.memory")


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """What the settings say of active memories.

    Attributes:
        update_threshold: From how many updates on a memory is due for consolidation.
        language: Of texts that name none; None leaves it to each text.
        chunks_expire: Whether a chunk of any tier has a limited life.
        max_chunks: How many live chunks a stream may have; None is any number.
        max_active_memories: How many active memories a stream may have; None is any number.
    """

    update_threshold: int
    language: str | None = None
    chunks_expire: bool = False
    max_chunks: int | None = None
    max_active_memories: int | None = None


class MemoryManager:
    """Creates, reads, updates and archives the active memories of one database."""

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        embedding: EmbeddingService,
        vectors: WriteVectors,
        rules: MemoryRules,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._projector = projector
        self._tables = runtime.repositories.tables
        self._embedding = embedding
        self._vectors = vectors
        self._queue = runtime.repositories.queue
        self._uses = runtime.repositories.uses
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._update_threshold = rules.update_threshold
        self._language = rules.language
        self._chunks_expire = rules.chunks_expire
        self._max_chunks = rules.max_chunks
        self._max_active_memories = rules.max_active_memories

    async def create(self, asked: CreateRequest) -> ActiveMemory:
        """Append `memory.created` and store the memory with its chunks."""
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._create(request),
            operation="create",
            external_id=request.external_id,
            repeatable=request.idempotency_key is not None,
        )

    async def _create(self, request: CreateRequest) -> ActiveMemory:
        (payload,) = await plan_creations([request], self._language)
        made = await self._vectors.make_for([payload], [request.occurred_at or self._clock()])
        async with self._store.transaction(request.external_id, settings=PLANNED_ONCE) as db:
            has_tables = await self._vectors.look_for_tables(db, made)
            retried = await self._projector.begin(db, request)
            if retried is not None:
                return await self._first_result(db, retried)
            made = await self._vectors.keep_storable(made, has_tables)
            active = await self._count_active(db, request.external_id)
            payload = await TenantLanguage(db, self._tables.active, request.external_id).settle(payload)
            is_work = self._vectors.leaves_work(made)
            event = await self._record_creation(db, request, payload, active=active, makes_work=is_work)
            has_vectors = await self._store_vectors(db, made, [(event, payload)], is_work=is_work)
            asked_memory = None
            if payload.metadata:
                # jsonb normalises numbers, and a retry returns them as stored.
                asked_memory = await self._tables.active.ask_by_id(db, request.external_id, payload.memory_id)
            await self._queue_work(db, request.external_id, is_due=payload.consolidation_due)
            memory = created_memory(event, payload) if asked_memory is None else await asked_memory.result()
        outcome = outcome_of(event, payload.chunks, 0, due=payload.consolidation_due)
        return await self._finish(memory, outcome, event, has_vectors=has_vectors)

    async def add_new(self, asked: Sequence[CreateRequest]) -> tuple[list[AddedMemory], int]:
        """Create the memories whose idempotency key is new, in one transaction; the others stay unchanged.

        Args:
            asked: All of one `external_id`, each with a key. At most one batch of `services.bulk`: other writers of the
                stream have to wait. What a known key was used for is not checked.

        Returns:
            The outcome of each, in order, and how many chunks of all of them lack vectors.
        """
        if not asked:
            return [], 0
        requests = [await self._scrubber.scrub(request) for request in asked]
        external_id = requests[0].external_id
        payloads = await plan_creations(requests, self._language)
        made = await self._vectors.make_for(payloads, [one.occurred_at or self._clock() for one in requests])
        added, written_at, has_vectors = await repeated(
            lambda: self._add_new(requests, payloads, made),
            operation="add_new",
            external_id=external_id,
            repeatable=True,
        )
        if has_vectors and all(one.added for one in added):
            return added, 0
        # Also for memories that already existed: an interrupted import may have left them without vectors.
        memory_ids = list(dict.fromkeys(one.memory_id for one in added if one.memory_id is not None))
        lacking = sum(one.chunks_added for one in added)
        return added, await self._fill_vectors(external_id, memory_ids, written_at, lacking=lacking)

    async def _add_new(
        self, requests: Sequence[CreateRequest], payloads: Sequence[MemoryCreated], made: MadeVectors | None
    ) -> tuple[list[AddedMemory], datetime | None, bool]:
        """Return the outcome of each, when the first new one was recorded, and whether all new chunks have vectors.

        The time is None if all keys were known.
        """
        external_id = requests[0].external_id
        added: list[AddedMemory] = []
        created: list[tuple[Event, MemoryCreated]] = []
        is_due = False
        async with self._store.transaction(external_id, settings=PLANNED_ONCE) as db:
            has_tables = await self._vectors.look_for_tables(db, made)
            known = await self._projector.begin_many(db, external_id, requests)
            made = await self._vectors.keep_storable(made, has_tables)
            leaves_work = self._vectors.leaves_work(made)
            active = await self._count_active(db, external_id)
            language = TenantLanguage(db, self._tables.active, external_id)
            for request, planned in zip(requests, payloads, strict=True):
                assert request.idempotency_key is not None, "add_new() needs an idempotency key"
                if request.idempotency_key in known:
                    memory_id = known[request.idempotency_key]
                    # A known key is still ours if an earlier attempt wrote it.
                    is_ours = memory_id == planned.memory_id
                    chunks = len(planned.chunks) if is_ours else 0
                    added.append(
                        AddedMemory(
                            memory_id=memory_id,
                            added=is_ours,
                            chunks_added=chunks,
                            redactions=dict(request.redactions or {}),
                        )
                    )
                    continue
                payload = await language.settle(planned)
                # The first event marks the work for the whole batch, which is also settled at once.
                is_work = leaves_work and not created
                event = await self._record_creation(db, request, payload, active=active, makes_work=is_work)
                created.append((event, payload))
                active += 1
                is_due |= payload.consolidation_due
                known[request.idempotency_key] = payload.memory_id
                added.append(
                    AddedMemory(
                        memory_id=payload.memory_id,
                        added=True,
                        chunks_added=len(payload.chunks),
                        redactions=payload.redactions,
                    )
                )
            has_vectors = await self._store_vectors(db, made, created, is_work=leaves_work)
            await self._queue_work(db, external_id, is_due=is_due)
        return added, created[0][0].recorded_at if created else None, has_vectors

    async def _store_vectors(
        self,
        db: SqlExecutor,
        made: MadeVectors | None,
        created: Sequence[tuple[Event, MemoryCreated]],
        *,
        is_work: bool,
    ) -> bool:
        """Store the vectors made for new memories; returns whether none of their chunks lacks one.

        Args:
            is_work: Whether the first of the events was recorded as making work, on behalf of all.
        """
        if made is None or not created:
            return not created
        first, _ = created[0]
        is_complete = await self._vectors.store_created(db, first.external_id, made, created)
        await self._vectors.settle(db, first, is_work=is_work, is_complete=is_complete)
        return is_complete

    async def _record_creation(
        self, db: SqlExecutor, request: CreateRequest, payload: MemoryCreated, *, active: int, makes_work: bool
    ) -> Event:
        self._check_room(request.external_id, active)
        self._check_length(request.external_id, payload.chunks)
        event = await _event(request, EventKind.CREATED, payload, self._clock())
        return await self._projector.record(db, event, makes_work=makes_work)

    async def update(self, asked: UpdateRequest) -> ActiveMemory:
        """Append `memory.updated` and store the next version.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
            VersionConflictError: The memory is not at the request's `expected_version`.
            InvalidInputError: The memory is archived.
        """
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._update(request),
            operation="update",
            external_id=request.external_id,
            repeatable=request.idempotency_key is not None,
        )

    async def _update(self, request: UpdateRequest) -> ActiveMemory:
        made = await self._make_for_update(request)
        async with self._store.transaction(request.external_id) as db:
            has_tables = await self._vectors.look_for_tables(db, made)
            retried = await self._projector.begin(db, request)
            if retried is not None:
                return await self._first_result(db, retried)
            made = await self._vectors.keep_storable(made, has_tables)
            before = await self._tables.active.get_by_id(db, request.external_id, request.memory_id)
            _check_writable(before, request.expected_version)
            await db.plan_for(len(before.chunk_ids))
            # An update without a time holds from now on, but never from before the version it replaces: clocks differ.
            occurred_at = request.occurred_at or max(self._clock(), before.occurred_at)
            payload = await self._plan_update(db, before, request, occurred_at=occurred_at)
            if "content" in payload.changes:
                self._check_length(request.external_id, payload.chunks)
            if self._chunks_expire:
                dropped = await beside_many(
                    lambda: dropped_chunks(before.chunk_ids, payload.chunks), items=len(before.chunk_ids)
                )
                await self._touch_repetitions(db, request.external_id, dropped)
            is_work = _makes_work(payload) and self._vectors.leaves_work(made)
            event = await self._projector.record(
                db, await _event(request, EventKind.UPDATED, payload, occurred_at), makes_work=is_work
            )
            has_vectors = made is not None and await self._vectors.store_updated(
                db, request.external_id, made, request.memory_id
            )
            if made is not None:
                await self._vectors.settle(db, event, is_work=is_work, is_complete=has_vectors)
            await self._queue_work(db, request.external_id, is_due=payload.consolidation_due)
            memory = await self._tables.active.get_by_id(db, request.external_id, request.memory_id)
        outcome = outcome_of(event, payload.chunks, len(before.chunk_ids), due=payload.consolidation_due)
        return await self._finish(memory, outcome, event, has_vectors=has_vectors)

    async def _make_for_update(self, request: UpdateRequest) -> MadeVectors | None:
        """Make the vectors of an update's new text, as far as it is known before the stream is locked."""
        if not await self._vectors.is_local():
            return None
        try:
            async with self._store.transaction(request.external_id, read_only=True) as db:
                before = await self._tables.active.get_by_id(db, request.external_id, request.memory_id)
        except MemoryNotFoundError:
            # The write itself raises this, unless it is a retry.
            return None
        new = before.model_copy(update=_changes(before, request.changes))
        texts: list[str] = []
        if new.content != before.content:
            texts = await beside(lambda: new_texts(before, new), value=[before.content, new.content, new.metadata])
        occurred_at = request.occurred_at or max(self._clock(), before.occurred_at)
        return await self._vectors.make_uncached(
            request.external_id,
            [heading_text(new.title, day_of(occurred_at)), *texts],
        )

    async def get_all(self, external_id: str) -> list[ActiveMemory]:
        """Return all memories that are not archived, oldest first."""
        return await repeated(
            lambda: self._get_all(external_id), operation="get_active_memories", external_id=external_id
        )

    async def _get_all(self, external_id: str) -> list[ActiveMemory]:
        async with self._store.transaction(external_id, read_only=True) as db:
            return [self._active(memory) for memory in await self._tables.active.get_all(db, external_id)]

    async def get_all_labelled(self, external_id: str) -> list[ActiveMemory]:
        """Like `get_all`, for showing whole memories: `source` is the least trusted of all writers of each memory.

        A memory's own source is that of its last writer, but its title and most of its text may be someone else's.
        """
        memories = await self.get_all(external_id)

        async def find_writers() -> dict[UUID, list[Source]]:
            async with self._store.transaction(external_id, read_only=True) as db:
                return await self._ledger.find_writers(db, external_id, [memory.id for memory in memories])

        # Read after the memories: a write in between can only lower the trust.
        writers = await repeated(find_writers, operation="get_active_memories", external_id=external_id)
        return [
            memory.model_copy(update={"source": least_trusted([memory.source, *writers.get(memory.id, ())])})
            for memory in memories
        ]

    async def archive(self, asked: ArchiveRequest) -> ActiveMemory:
        """Append `memory.archived`; archiving again only ends chunks that are still live.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        request = await self._scrubber.scrub(asked)
        # Repeatable without a key: an archived memory stays archived.
        return await repeated(
            lambda: self._archive(request), operation="archive", external_id=request.external_id, repeatable=True
        )

    async def _archive(self, request: ArchiveRequest) -> ActiveMemory:
        async with self._store.transaction(request.external_id) as db:
            await self._projector.begin(db, request)
            memory = await self._tables.active.get_by_id(db, request.external_id, request.memory_id)
            if memory.archived_at is None or (
                request.end_chunks and await self._tables.chunks.count_live(db, request.external_id, request.memory_id)
            ):
                payload = MemoryArchived(
                    memory_id=request.memory_id, version=memory.version, end_chunks=request.end_chunks
                )
                moment = max(self._clock(), memory.occurred_at)
                if request.end_chunks:
                    await self._touch_repetitions(db, request.external_id, memory.chunk_ids)
                await self._projector.record(
                    db, request.event(EventKind.ARCHIVED, payload.model_dump(mode="json"), moment)
                )
                memory = await self._tables.active.get_by_id(db, request.external_id, request.memory_id)
        return self._active(memory)

    async def _plan_update(
        self, db: SqlExecutor, memory: StoredMemory, request: UpdateRequest, *, occurred_at: datetime
    ) -> MemoryUpdated:
        """Decide which chunks stay. Runs under the stream's lock, so the planned version is the latest."""
        changed = _changes(memory, request.changes)
        new = memory.model_copy(update=changed)
        layout = await self._tables.chunks.get_layout(db, memory.external_id, memory.memory_id)
        # A chunk that holds from a later time than this version cannot represent its text from then on.
        stale = {chunk.chunk_id for chunk in layout if chunk.start_date > occurred_at}
        if stale or "content" in changed or "metadata" in changed:
            reusable = [chunk for chunk in layout if chunk.chunk_id not in stale]
            entries = await beside(
                lambda: match(new.content, chunked(new.content, new.metadata), reusable),
                value=[new.content, new.metadata, reusable],
            )
        else:
            entries = await beside_many(lambda: same_entries(layout, memory.chunk_starts), items=len(layout))
        tenant = TenantLanguage(db, self._tables.active, memory.external_id)
        read = await tenant.settle_update(memory, new.content, asked=request.language, setting=self._language)
        return MemoryUpdated(
            memory_id=memory.memory_id,
            version=memory.version + 1,
            changes=changed,
            language=None if read.language == memory.language else read.language,
            language_origin=None if read.origin == memory.language_origin else read.origin,
            chunks=entries,
            # What was due before and failed becomes due again.
            consolidation_due=memory.due_version > memory.consolidated_version
            or self.updates_left(memory.version + 1, memory.consolidated_version) == 0,
            redactions=dict(request.redactions or {}),
        )

    async def _touch_repetitions(self, db: SqlExecutor, external_id: str, ending: Sequence[UUID]) -> None:
        """Revive repetitions of chunks that end, and restart their time to live.

        Not done by a handler: a replay leaves soft state alone.
        """
        if self._chunks_expire and ending:
            await self._uses.touch_repetitions(db, external_id, ending, moment=self._clock())

    async def _count_active(self, db: SqlExecutor, external_id: str) -> int:
        """Number of active memories, if there is a limit. Exact under the stream's lock."""
        return 0 if self._max_active_memories is None else await self._tables.active.count_active(db, external_id)

    def _check_room(self, external_id: str, active: int) -> None:
        """Refuse to exceed the limit of active memories."""
        if self._max_active_memories is not None and active >= self._max_active_memories:
            raise QuotaExceededError(
                external_id,
                "max_active_memories",
                self._max_active_memories,
                active + 1,
                "archive finished memories (memory.admin.archive), or raise the limit",
            )

    def _check_length(self, external_id: str, chunks: Sequence[ChunkEntry]) -> None:
        """Refuse a text with more chunks than the limit allows: part of it would be ended at once."""
        if self._max_chunks is not None and len(chunks) > self._max_chunks:
            raise QuotaExceededError(
                external_id,
                "max_chunks",
                self._max_chunks,
                len(chunks),
                "split the text, shorten it, or raise the limit",
            )

    async def _queue_work(self, db: SqlExecutor, external_id: str, *, is_due: bool) -> None:
        """Queue the work that this transaction makes due; it becomes visible with the commit.

        Args:
            is_due: Whether a consolidation is due. Chunks beyond the limit are work, too.
        """
        if is_due:
            await self._ledger.mark_due(db, external_id)
        if is_due or await self._is_too_full(db, external_id):
            await self._queue.enqueue(db)

    async def _is_too_full(self, db: SqlExecutor, external_id: str) -> bool:
        return self._max_chunks is not None and await self._ledger.live_chunks(db, external_id) > self._max_chunks

    async def _fill_vectors(
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

    async def _finish(
        self, memory: StoredMemory, outcome: WriteOutcome, event: Event, *, has_vectors: bool
    ) -> ActiveMemory:
        """Finish a committed write: make the vectors that it has not stored itself.

        The write is safe either way; if this fails, the work stays due and a worker does it.
        """
        written = self._active(memory)
        if has_vectors:
            return written.model_copy(update={"write": outcome})
        missing = await self._fill_vectors(
            memory.external_id, [memory.memory_id], event.recorded_at, lacking=outcome.chunks_added
        )
        return written.model_copy(update={"write": outcome.model_copy(update={"vectors_missing": missing})})

    async def _first_result(self, db: SqlExecutor, event: Event) -> ActiveMemory:
        """Return the ledger's result of the first call with this idempotency key; missing vectors are counted now."""
        memory_id = UUID(event.payload["memory_id"])
        events = await self._ledger.read_memory(db, event.external_id, memory_id, position=event.position)
        memory = fold(events, self.updates_left)
        missing = await self._embedding.count_missing(db, event.external_id, [memory_id])
        assert memory.write is not None
        return memory.model_copy(update={"write": memory.write.model_copy(update={"vectors_missing": missing})})

    def _active(self, memory: StoredMemory) -> ActiveMemory:
        return ActiveMemory(
            id=memory.memory_id,
            updates_until_consolidation=self.updates_left(memory.version, memory.consolidated_version),
            **memory.model_dump(exclude={"memory_id", "due_version", "chunk_ids", "chunk_starts"}),
        )

    def updates_left(self, version: int, consolidated_version: int) -> int:
        """How many more updates a memory at `version` takes before it is consolidated."""
        # The first version is not an update.
        return max(0, self._update_threshold - (version - max(consolidated_version, 1)))


def _makes_work(payload: MemoryUpdated) -> bool:
    """Whether this update leaves something without a vector: new chunks, or a heading with a new title."""
    return not payload.changes.keys().isdisjoint({"title", "content"}) or any(chunk.new for chunk in payload.chunks)


def _changes(memory: StoredMemory, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a memory that get a new value."""
    changed = {name: value for name, value in asked.items() if value != getattr(memory, name)}
    if "content" in changed and "metadata" not in asked and "turns" in memory.metadata:
        # Offsets into the old text.
        changed["metadata"] = {key: value for key, value in memory.metadata.items() if key != "turns"}
    return changed


def _check_writable(memory: StoredMemory, expected_version: int | None) -> None:
    if expected_version is not None and memory.version != expected_version:
        raise VersionConflictError(memory.external_id, memory.memory_id, expected_version, memory.version)
    if memory.archived_at is not None:
        raise InvalidInputError(
            f"memory {str(memory.memory_id)!r} was archived on {memory.archived_at.isoformat()} and cannot be updated;"
            " create a new memory"
        )


async def _event(
    request: CreateRequest | UpdateRequest, kind: EventKind, payload: MemoryCreated | MemoryUpdated, now: datetime
) -> NewEvent:
    """Build the event of a write, in a thread if the text is long."""
    content = await write_payload(payload, payload.chunks)
    asked = request.content if isinstance(request, CreateRequest) else request.changes
    return await beside(lambda: request.event(kind, content, now), value=asked)
