"""Takes archived memories back, and earlier versions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.canonical import beside
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.memory import ActiveMemory, StoredChunk, StoredMemory
from agent_reminiscence.domain.payloads import ChunkEntry, LanguageOrigin, MemoryUnarchived, MemoryUpdated
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import InvalidInputError, MemoryExistsError, MemoryNotFoundError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.expiry import Expiry
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import UnarchiveRequest, UpdateRequest
from agent_reminiscence.services.memories.first_said import date_entries
from agent_reminiscence.services.memories.fold import fold
from agent_reminiscence.services.memories.layout import same_entries
from agent_reminiscence.services.memories.updates import MemoryUpdates, check_expiry, check_unexpired
from agent_reminiscence.services.memories.writes import MemoryWrites, Written
from agent_reminiscence.services.runtime import Runtime

_VERSIONS = frozenset({EventKind.CREATED, EventKind.UPDATED, EventKind.APPENDED})
_LAST_POSITION = 2**63 - 1


class MemoryRestoring:
    """Appends `memory.unarchived`, and updates that repeat an earlier version."""

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        writes: MemoryWrites,
        updates: MemoryUpdates,
        expiry: Expiry,
    ) -> None:
        self._store = runtime.store
        self._tables = runtime.repositories.tables
        self._ledger = runtime.repositories.events
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._projector = projector
        self._writes = writes
        self._updates = updates
        self._expiry = expiry

    async def unarchive(self, asked: UnarchiveRequest) -> ActiveMemory:
        """Append `memory.unarchived`; a memory that is not archived is returned as it is.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
            InvalidInputError: It has expired.
            MemoryExistsError: Another memory has its key by now.
            QuotaExceededError: There would be too many active memories.
        """
        request = await self._scrubber.scrub(asked)
        # Repeatable without an idempotency key: a memory that is back stays so.
        return await repeated(
            lambda: self._unarchive(request), operation="unarchive", external_id=request.external_id, repeatable=True
        )

    async def _unarchive(self, request: UnarchiveRequest) -> ActiveMemory:
        external_id, memory_id = request.external_id, request.memory_id
        async with self._store.transaction(external_id) as db:
            await self._projector.begin(db, request)
            memory = await self._tables.active.get_by_id(db, external_id, memory_id)
            now = self._clock()
            check_unexpired(memory, now=now)
            if memory.archived_at is None:
                return self._writes.to_active(memory)
            await self._check_key(db, memory)
            self._writes.check_room(external_id, await self._writes.count_active(db, external_id))
            occurred_at = request.occurred_at or max(now, memory.occurred_at)
            check_expiry(memory.expires_at, occurred_at=occurred_at, now=now)
            payload = MemoryUnarchived(memory_id=memory_id, version=memory.version)
            await self._projector.record(
                db, request.event(EventKind.UNARCHIVED, payload.model_dump(mode="json"), occurred_at)
            )
            written = await self._bring_back(db, memory, request, occurred_at)
            memory = await self._tables.active.get_by_id(db, external_id, memory_id)
        return self._writes.to_active(memory) if written is None else await self._writes.finish(written)

    async def _check_key(self, db: SqlExecutor, memory: StoredMemory) -> None:
        if memory.key is None:
            return
        holder = await self._expiry.find_holder(db, memory.external_id, memory.key)
        if holder is not None:
            raise MemoryExistsError(memory.external_id, memory.key, holder.memory_id, archived_id=memory.memory_id)

    async def _bring_back(
        self, db: SqlExecutor, memory: StoredMemory, request: UnarchiveRequest, occurred_at: datetime
    ) -> Written | None:
        """Say again what ended with the memory, as its next version; None if archiving has ended nothing.

        A chunk that has ended stays so, as what was known in between. Its words come back in a new one.
        """
        ended = await self._tables.chunks.find_ended_by_archiving(db, memory.external_id, memory.memory_id)
        if ended.isdisjoint(memory.chunk_ids):
            return None
        layout = await self._tables.chunks.get_layout(db, memory.external_id, memory.memory_id)
        payload = MemoryUpdated(
            memory_id=memory.memory_id,
            version=memory.version + 1,
            changes={},
            chunks=await beside(
                lambda: _returning(memory, layout, ended, writer=request.source, occurred_at=occurred_at), value=layout
            ),
            # Facts, entities and ratings ended with the old chunks, and are drawn from the new ones again.
            consolidation_due=memory.consolidated_version > 0
            or memory.due_version > 0
            or self._writes.updates_left(memory.version + 1, memory.consolidated_version) == 0,
        )
        return await self._updates.store(db, memory, request, payload, None, occurred_at=occurred_at)

    async def restore_version(self, request: UpdateRequest, version: int) -> ActiveMemory:
        """Store title, text, description, metadata and zone of an earlier version as the next one.

        Args:
            request: Names the memory by its id, and changes nothing yet.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
            VersionConflictError: The memory is not at the request's `expected_version`.
            InvalidInputError: It has no such version, or is archived.
        """
        memory_id = request.memory_id
        assert memory_id is not None, "a version is restored by the memory's id"

        async def read() -> list[Event]:
            return await self._store.read_once(
                request.external_id,
                lambda db: self._ledger.read_memory(db, request.external_id, memory_id, position=_LAST_POSITION),
            )

        events = await repeated(read, operation="restore_version", external_id=request.external_id)
        if not events:
            raise MemoryNotFoundError(request.external_id, memory_id)
        return await self._updates.update(await beside(lambda: _restoring(request, events, version), value=events))


def _restoring(request: UpdateRequest, events: Sequence[Event], version: int) -> UpdateRequest:
    """The update that makes a memory say what it said at `version`."""
    places = [place for place, event in enumerate(events) if event.kind in _VERSIONS]
    if version > len(places):
        raise InvalidInputError(
            f"version must be one of the memory's {len(places)}, from 1 on, not {version}; history() shows them"
        )
    until = events[: places[version - 1] + 1]
    earlier = fold(until, lambda _version, _consolidated: 0)
    return UpdateRequest(
        external_id=request.external_id,
        memory_id=request.memory_id,
        changes={
            "title": earlier.title,
            "content": earlier.content,
            "description": earlier.description,
            "metadata": earlier.metadata,
        },
        # One that was only assumed is read from the text again.
        language=None if _language_origin(until) == "default" else earlier.language,
        timezone=earlier.timezone,
        # Whoever restores a text does not vouch for it.
        source=earlier.source,
        occurred_at=request.occurred_at,
        actor=request.actor,
        expected_version=request.expected_version,
        idempotency_key=request.idempotency_key,
    )


def _language_origin(events: Sequence[Event]) -> LanguageOrigin:
    origins = [event.payload.get("language_origin") for event in events if event.kind in _VERSIONS]
    return next((origin for origin in reversed(origins) if origin is not None), "default")


def _returning(
    memory: StoredMemory,
    layout: Sequence[StoredChunk],
    ended: Collection[UUID],
    *,
    writer: Source,
    occurred_at: datetime,
) -> tuple[ChunkEntry, ...]:
    """The chunks of a text of which some come back: with new ids, with their labels, and said when they were said."""
    entries = [
        # A chunk that holds only from a later time on would leave a gap until then.
        ChunkEntry(
            **dict(entry) | {"id": uuid7(), "new": True, "source": None if chunk.source == writer else chunk.source}
        )
        if chunk.chunk_id in ended or chunk.start_date > occurred_at
        else entry
        for entry, chunk in zip(same_entries(layout, memory.chunk_starts), layout, strict=True)
    ]
    return date_entries(memory.content, entries, layout, occurred_at)
