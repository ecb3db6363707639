"""Changes active memories, and archives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.canonical import beside, beside_many
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.memory import ActiveMemory, MemoryOutline, StoredMemory
from agent_reminiscence.domain.payloads import MemoryArchived, MemoryUpdated
from agent_reminiscence.exceptions import InvalidInputError, MemoryNotFoundError, VersionConflictError
from agent_reminiscence.projections.indexed_text import heading_text
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import ArchiveRequest, CreateRequest, UnarchiveRequest, UpdateRequest
from agent_reminiscence.services.memories.authorship import version_entries
from agent_reminiscence.services.memories.first_said import date_entries
from agent_reminiscence.services.memories.fold import outcome_of
from agent_reminiscence.services.memories.languages import TenantLanguage
from agent_reminiscence.services.memories.layout import new_texts, same_entries
from agent_reminiscence.services.memories.writes import MemoryWrites, Written, write_event
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.writing import MadeVectors, WriteVectors
from agent_reminiscence.text.days import day_of


class MemoryUpdates:
    """Appends `memory.updated` and `memory.archived`."""

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        vectors: WriteVectors,
        writes: MemoryWrites,
    ) -> None:
        self._store = runtime.store
        self._tables = runtime.repositories.tables
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._projector = projector
        self._vectors = vectors
        self._writes = writes

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
                return await self._writes.first_result(db, retried)
            made = await self._vectors.keep_storable(made, has_tables)
            before = await self.find(db, request)
            check_writable(before, request.expected_version, now=self._clock())
            written = await self._record(db, before, request, request.changes, made)
        return await self._writes.finish(written)

    async def replace(
        self, db: SqlExecutor, before: StoredMemory, request: CreateRequest, made: MadeVectors | None
    ) -> Written:
        """Make `before`, which has the request's key, what the request would have created.

        For a transaction that has locked the stream.

        Args:
            made: Vectors of the request's title and text.
        """
        return await self._record(db, before, request, _wanted(request), made)

    @staticmethod
    def is_replaced(memory: StoredMemory, request: CreateRequest) -> bool:
        """Whether the memory is what the request would make of it already."""
        return not _changes(memory, _wanted(request)) and _reads_alike(memory, request)

    async def _record(
        self,
        db: SqlExecutor,
        before: StoredMemory,
        request: CreateRequest | UpdateRequest,
        asked: Mapping[str, Any],
        made: MadeVectors | None,
    ) -> Written:
        """Append the event of a new version with the `asked` values, and store it."""
        await db.plan_for(len(before.chunk_ids))
        # An update without a time holds from now on, but never from before the version it replaces: clocks differ.
        now = self._clock()
        occurred_at = request.occurred_at or max(now, before.occurred_at)
        check_expiry(asked.get("expires_at", before.expires_at), occurred_at=occurred_at, now=now)
        payload = await self._plan_update(db, before, request, asked, occurred_at=occurred_at)
        if "content" in payload.changes:
            self._writes.check_length(before.external_id, len(payload.chunks))
        return await self.store(db, before, request, payload, made, occurred_at=occurred_at)

    async def store(
        self,
        db: SqlExecutor,
        before: StoredMemory,
        request: CreateRequest | UpdateRequest | UnarchiveRequest,
        payload: MemoryUpdated,
        made: MadeVectors | None,
        *,
        occurred_at: datetime,
    ) -> Written:
        """Append the event of a planned version, and store it. For a transaction that has locked the stream.

        Args:
            made: Vectors of its new texts, as far as they are made.
        """
        external_id, memory_id = before.external_id, before.memory_id
        await self._writes.touch_repetitions_of(db, before, payload)
        expires_at = payload.changes.get("expires_at")
        if expires_at is not None:
            # What repeats this memory is found by itself from now on.
            await self._writes.touch_repetitions(db, external_id, before.chunk_ids)
        is_work = _makes_work(payload) and self._vectors.leaves_work(made)
        event = await self._projector.record(
            db, await write_event(request, EventKind.UPDATED, payload, occurred_at), makes_work=is_work
        )
        has_vectors = made is not None and await self._vectors.store_updated(db, external_id, made, memory_id)
        if made is not None:
            await self._vectors.settle(db, event, is_work=is_work, is_complete=has_vectors)
        await self._writes.queue_work(db, external_id, is_due=payload.consolidation_due, expires_at=expires_at)
        memory = await self._tables.active.get_by_id(db, external_id, memory_id)
        outcome = outcome_of(event, payload.chunks, len(before.chunk_ids), due=payload.consolidation_due)
        return Written(memory, outcome, event, has_vectors=has_vectors)

    async def find(self, db: SqlExecutor, request: UpdateRequest | ArchiveRequest) -> StoredMemory:
        """The memory that the request names.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory, or none that is active has the key.
        """
        if request.memory_id is not None:
            return await self._tables.active.get_by_id(db, request.external_id, request.memory_id)
        assert request.key is not None, "a request names a memory by its id or its key"
        memory = await self._tables.active.find_by_key(db, request.external_id, request.key)
        if memory is None or memory.has_expired(self._clock()):
            raise MemoryNotFoundError(request.external_id, key=request.key)
        return memory

    async def _make_for_update(self, request: UpdateRequest) -> MadeVectors | None:
        """Make the vectors of an update's new text, as far as it is known before the stream is locked."""
        if not await self._vectors.is_local():
            return None
        try:
            async with self._store.transaction(request.external_id, read_only=True) as db:
                before = await self.find(db, request)
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
            [heading_text(new.title, day_of(occurred_at, stored_zone(request.timezone or before.timezone))), *texts],
        )

    async def archive(self, asked: ArchiveRequest) -> ActiveMemory:
        """Append `memory.archived`; archiving again only ends chunks that are still live.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        request = await self._scrubber.scrub(asked)
        if request.key is not None:
            # Once: after an attempt of unknown outcome the key may be another memory's.
            memory_id = await repeated(
                lambda: self._id_of(request), operation="archive", external_id=request.external_id
            )
            request = replace(request, memory_id=memory_id, key=None)
        # Repeatable without an idempotency key: an archived memory stays archived.
        return await repeated(
            lambda: self._archive(request), operation="archive", external_id=request.external_id, repeatable=True
        )

    async def _id_of(self, request: ArchiveRequest) -> UUID:
        async with self._store.transaction(request.external_id, read_only=True) as db:
            return (await self.find(db, request)).memory_id

    async def _archive(self, request: ArchiveRequest) -> ActiveMemory:
        async with self._store.transaction(request.external_id) as db:
            await self._projector.begin(db, request)
            memory = await self.find(db, request)
            memory_id = memory.memory_id
            if memory.archived_at is None or (
                request.end_chunks and await self._tables.chunks.count_live(db, request.external_id, memory_id)
            ):
                payload = MemoryArchived(memory_id=memory_id, version=memory.version, end_chunks=request.end_chunks)
                moment = max(self._clock(), memory.occurred_at)
                if request.end_chunks:
                    await self._writes.touch_repetitions(db, request.external_id, memory.chunk_ids)
                await self._projector.record(
                    db, request.event(EventKind.ARCHIVED, payload.model_dump(mode="json"), moment)
                )
                memory = await self._tables.active.get_by_id(db, request.external_id, memory_id)
        return self._writes.to_active(memory)

    async def _plan_update(
        self,
        db: SqlExecutor,
        memory: StoredMemory,
        request: CreateRequest | UpdateRequest,
        asked: Mapping[str, Any],
        *,
        occurred_at: datetime,
    ) -> MemoryUpdated:
        """Decide which chunks stay. Runs under the stream's lock, so the planned version is the latest."""
        changed = _changes(memory, asked)
        new = memory.model_copy(update=changed)
        layout = await self._tables.chunks.get_layout(db, memory.external_id, memory.memory_id)
        is_stale = any(chunk.start_date > occurred_at for chunk in layout)
        if is_stale or "content" in changed or "metadata" in changed:
            entries = await beside(
                lambda: date_entries(
                    new.content,
                    version_entries(memory.content, new, layout, writer=request.source, occurred_at=occurred_at),
                    layout,
                    occurred_at,
                ),
                value=[new.content, new.metadata, layout],
            )
        else:
            entries = await beside_many(lambda: same_entries(layout, memory.chunk_starts), items=len(layout))
        tenant = TenantLanguage(db, self._tables.active, memory.external_id)
        read = await tenant.settle_update(memory, new.content, asked=request.language, setting=self._writes.language)
        return MemoryUpdated(
            memory_id=memory.memory_id,
            version=memory.version + 1,
            changes=changed,
            language=None if read.language == memory.language else read.language,
            language_origin=None if read.origin == memory.language_origin else read.origin,
            timezone=None if request.timezone in {None, memory.timezone} else request.timezone,
            chunks=entries,
            # What was due before and failed becomes due again.
            consolidation_due=memory.due_version > memory.consolidated_version
            or self._writes.updates_left(memory.version + 1, memory.consolidated_version) == 0,
            redactions=dict(request.redactions or {}),
        )


def _makes_work(payload: MemoryUpdated) -> bool:
    """Whether this update leaves something without a vector: new chunks, or a heading with a new title."""
    return not payload.changes.keys().isdisjoint({"title", "content"}) or any(chunk.new for chunk in payload.chunks)


def _reads_alike(memory: StoredMemory, request: CreateRequest) -> bool:
    return request.language in {None, memory.language} and request.timezone in {None, memory.timezone}


def _wanted(request: CreateRequest) -> dict[str, Any]:
    """The fields of the memory that a request creates."""
    return {
        "title": request.title,
        "content": request.content,
        "description": request.description,
        "metadata": request.metadata,
        **({} if request.pinned is None else {"pinned": request.pinned}),
        # Unlike a pin, which is only shown: kept, it would take along what was just written.
        "expires_at": request.expires_at,
    }


def _changes(memory: StoredMemory, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a memory that get a new value."""
    asked = dict(asked)
    if "metadata" in asked and "turns" in memory.metadata and asked.get("content", memory.content) == memory.content:
        # They belong to the text, and stay as long as it does.
        asked["metadata"] = {"turns": memory.metadata["turns"]} | asked["metadata"]
    changed = {name: value for name, value in asked.items() if value != getattr(memory, name)}
    if "content" in changed and "metadata" not in asked and "turns" in memory.metadata:
        # Offsets into the old text.
        changed["metadata"] = {key: value for key, value in memory.metadata.items() if key != "turns"}
    return changed


def check_writable(memory: StoredMemory | MemoryOutline, expected_version: int | None, *, now: datetime) -> None:
    """Refuse to change an archived or expired memory, or one that is not at the version that the caller has read."""
    if expected_version is not None and memory.version != expected_version:
        raise VersionConflictError(memory.external_id, memory.memory_id, expected_version, memory.version)
    check_unexpired(memory, now=now)
    if memory.archived_at is not None:
        raise InvalidInputError(
            f"memory {str(memory.memory_id)!r} was archived on {memory.archived_at.isoformat()} and cannot be updated;"
            " take it back with memory.admin.unarchive(), or create a new memory"
        )


def check_unexpired(memory: StoredMemory | MemoryOutline, *, now: datetime) -> None:
    """Refuse to change or take back a memory whose time is over."""
    if memory.has_expired(now):
        assert memory.expires_at is not None
        raise InvalidInputError(
            f"memory {str(memory.memory_id)!r} expired on {memory.expires_at.isoformat()} and cannot be updated;"
            " create a new memory, which may have its key"
        )


def check_expiry(expires_at: datetime | None, *, occurred_at: datetime, now: datetime) -> None:
    """Refuse to write what would not be there at once, or would have ended before it began.

    Not a check of arguments: a retry of a write that succeeded returns its result, also when its time is over.

    Args:
        occurred_at: From when on the version holds.

    Raises:
        InvalidInputError: `expires_at` is not after both.
    """
    if expires_at is None:
        return
    if expires_at <= now:
        raise InvalidInputError(
            f"expires_at {expires_at.isoformat()} is not in the future, it is {now.isoformat()}; pass a later moment,"
            " None for a memory that does not expire, or archive the memory with end_chunks to end it now"
        )
    if expires_at <= occurred_at:
        raise InvalidInputError(
            f"expires_at {expires_at.isoformat()} is not after occurred_at {occurred_at.isoformat()}, from when on this"
            " holds; pass a later expires_at, or an earlier occurred_at"
        )
