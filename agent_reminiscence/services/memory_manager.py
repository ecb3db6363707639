"""The operations on active memories: plan a write, append it as one event, and say what became of it."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.config.constants import LONG_TEXT_CHARACTERS, MAX_CHUNK_TOKENS
from agent_reminiscence.database.postgres_manager import PostgresManager, SqlExecutor
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.domain.event import (
    ChunkEntry,
    Event,
    EventKind,
    MemoryArchived,
    MemoryConsolidated,
    MemoryCreated,
    MemoryUpdated,
)
from agent_reminiscence.domain.memory import ActiveMemory, StoredChunk, StoredMemory, WriteOutcome
from agent_reminiscence.exceptions import InvalidInputError, MemoryNotFoundError, StoreError, VersionConflictError
from agent_reminiscence.projections import Tables
from agent_reminiscence.services.chunking import TextSpan, Turn, chunk_text
from agent_reminiscence.services.consolidation import ConsolidationService
from agent_reminiscence.services.embedding import EmbeddingService
from agent_reminiscence.services.projector import Projector
from agent_reminiscence.services.requests import ArchiveRequest, CreateRequest, UpdateRequest
from agent_reminiscence.services.retries import repeated

_logger = logging.getLogger("agent_reminiscence.memory")

Clock = Callable[[], datetime]

# Longer texts are chunked in a thread, so that other tasks go on meanwhile.
_THREAD_FROM_CHARACTERS = 20_000


class MemoryManager:
    """Creates, reads, updates and archives active memories of one database."""

    def __init__(
        self,
        store: PostgresManager,
        ledger: EventLedger,
        projector: Projector,
        tables: Tables,
        embedding: EmbeddingService,
        consolidation: ConsolidationService,
        *,
        clock: Clock,
        update_threshold: int,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._projector = projector
        self._tables = tables
        self._embedding = embedding
        self._consolidation = consolidation
        self._clock = clock
        self._update_threshold = update_threshold

    async def create(self, request: CreateRequest) -> ActiveMemory:
        """Append `memory.created` and store the memory with its chunks."""
        return await repeated(
            lambda: self._create(request),
            operation="create",
            external_id=request.external_id,
            repeatable=request.idempotency_key is not None,
        )

    async def _create(self, request: CreateRequest) -> ActiveMemory:
        spans = await _chunk(request.content, request.metadata)
        async with self._store.transaction(request.external_id) as db:
            retried = await self._projector.begin(db, request)
            if retried is not None:
                return await self._first_result(db, retried)
            payload = MemoryCreated(
                memory_id=uuid7(),
                title=request.title,
                content=request.content,
                description=request.description,
                metadata=request.metadata,
                chunks=_new_entries(spans, request.metadata),
                consolidation_due=len(request.content) > LONG_TEXT_CHARACTERS,
            )
            event = await self._projector.record(
                db, request.event(EventKind.CREATED, payload.model_dump(mode="json"), self._clock())
            )
            if payload.consolidation_due:
                await self._ledger.mark_due(db, request.external_id)
            memory = await self._tables.active.get_by_id(db, request.external_id, payload.memory_id)
        return await self._finish(memory, _outcome(event, payload.chunks, 0, due=payload.consolidation_due))

    async def update(self, request: UpdateRequest) -> ActiveMemory:
        """Append `memory.updated` and store the next version.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
            VersionConflictError: The memory is not at the request's `expected_version`.
            InvalidInputError: The memory is archived.
        """
        return await repeated(
            lambda: self._update(request),
            operation="update",
            external_id=request.external_id,
            repeatable=request.idempotency_key is not None,
        )

    async def _update(self, request: UpdateRequest) -> ActiveMemory:
        async with self._store.transaction(request.external_id) as db:
            retried = await self._projector.begin(db, request)
            if retried is not None:
                return await self._first_result(db, retried)
            before = await self._tables.active.get_by_id(db, request.external_id, request.memory_id)
            _check_writable(before, request.expected_version)
            # Said without a time it holds from now on, but never from before what it replaces: clocks differ.
            occurred_at = request.occurred_at or max(self._clock(), before.occurred_at)
            payload = await self._plan_update(db, before, request.changes, occurred_at=occurred_at)
            event = await self._projector.record(
                db, request.event(EventKind.UPDATED, payload.model_dump(mode="json"), occurred_at)
            )
            if payload.consolidation_due:
                await self._ledger.mark_due(db, request.external_id)
            memory = await self._tables.active.get_by_id(db, request.external_id, request.memory_id)
        outcome = _outcome(event, payload.chunks, len(before.chunk_ids), due=payload.consolidation_due)
        return await self._finish(memory, outcome)

    async def get_all(self, external_id: str) -> list[ActiveMemory]:
        """All memories that are not archived, oldest first."""
        return await repeated(
            lambda: self._get_all(external_id), operation="get_active_memories", external_id=external_id
        )

    async def _get_all(self, external_id: str) -> list[ActiveMemory]:
        async with self._store.transaction(external_id, read_only=True) as db:
            return [self._active(memory) for memory in await self._tables.active.get_all(db, external_id)]

    async def archive(self, request: ArchiveRequest) -> ActiveMemory:
        """Append `memory.archived`; archiving an archived memory changes nothing but what it ends for the first time.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        # Repeatable without a key: what is archived stays as it is.
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
                await self._projector.record(
                    db, request.event(EventKind.ARCHIVED, payload.model_dump(mode="json"), moment)
                )
                memory = await self._tables.active.get_by_id(db, request.external_id, request.memory_id)
        return self._active(memory)

    async def _plan_update(
        self, db: SqlExecutor, memory: StoredMemory, changes: Mapping[str, Any], *, occurred_at: datetime
    ) -> MemoryUpdated:
        """Decide which chunks stay. Under the stream's lock, so that the version it is planned for is the last."""
        changed = {name: value for name, value in changes.items() if value != getattr(memory, name)}
        if "content" in changed and "metadata" not in changes and "turns" in memory.metadata:
            # Offsets into the text that is being replaced.
            changed["metadata"] = {key: value for key, value in memory.metadata.items() if key != "turns"}
        new = memory.model_copy(update=changed)
        layout = await self._tables.chunks.get_layout(db, memory.external_id, memory.memory_id)
        # A chunk that holds from a later time than this version cannot stand for its text from then on.
        stale = {chunk.chunk_id for chunk in layout if chunk.start_date > occurred_at}
        if stale or "content" in changed or "metadata" in changed:
            spans = await _chunk(new.content, new.metadata)
            reusable = [chunk for chunk in layout if chunk.chunk_id not in stale]
            entries = _match(new.content, _new_entries(spans, new.metadata), reusable)
        else:
            entries = tuple(
                ChunkEntry(
                    id=c.chunk_id,
                    start=start,
                    end=start + len(c.content),
                    speaker=c.speaker,
                    metadata=c.metadata,
                    new=False,
                )
                for c, start in zip(layout, memory.chunk_starts, strict=True)
            )
        return MemoryUpdated(
            memory_id=memory.memory_id,
            version=memory.version + 1,
            changes=changed,
            chunks=entries,
            # What was due before and failed is due again.
            consolidation_due=memory.due_version > memory.consolidated_version
            or self.updates_left(memory.version + 1, memory.consolidated_version) == 0,
        )

    async def _finish(self, memory: StoredMemory, outcome: WriteOutcome) -> ActiveMemory:
        """What follows a write once it is safe: its vectors, and the consolidation that it made due.

        The write stands whatever becomes of these; what fails here stays due and is done by a later call.
        """
        written = self._active(memory)
        missing = outcome.chunks_added
        try:
            # Both look first at what is still to be done, so making them again does nothing twice.
            _, missing = await repeated(
                lambda: self._embedding.fill_missing(memory.external_id, memory.memory_id),
                operation="fill_missing",
                external_id=memory.external_id,
                repeatable=True,
            )
            if outcome.consolidation_due:
                await repeated(
                    lambda: self._consolidation.consolidate(memory.external_id, memory.memory_id),
                    operation="consolidate",
                    external_id=memory.external_id,
                    repeatable=True,
                )
        except MemoryNotFoundError:
            # Erased since it was written: nothing is left to follow.
            missing = 0
        except StoreError as error:
            # Without a traceback: the driver's error in it may quote a row.
            _logger.warning(
                "the write is stored, but what follows it failed and stays due: %s",
                error,
                extra={"external_id": memory.external_id, "memory_id": str(memory.memory_id)},
            )
        return written.model_copy(update={"write": outcome.model_copy(update={"vectors_missing": missing})})

    async def _first_result(self, db: SqlExecutor, event: Event) -> ActiveMemory:
        """What the first call with the same idempotency key returned, from the ledger."""
        memory_id = UUID(event.payload["memory_id"])
        events = await self._ledger.read_memory(db, event.external_id, memory_id, position=event.position)
        memory = fold(events, self.updates_left)
        missing = await self._embedding.count_missing(db, event.external_id, memory_id)
        assert memory.write is not None
        return memory.model_copy(update={"write": memory.write.model_copy(update={"vectors_missing": missing})})

    def _active(self, memory: StoredMemory) -> ActiveMemory:
        return ActiveMemory(
            id=memory.memory_id,
            updates_until_consolidation=self.updates_left(memory.version, memory.consolidated_version),
            **memory.model_dump(exclude={"memory_id", "due_version", "chunk_ids", "chunk_starts"}),
        )

    def updates_left(self, version: int, consolidated_version: int) -> int:
        """How many more updates of a memory at `version` until it is consolidated."""
        # The first version is no update.
        return max(0, self._update_threshold - (version - max(consolidated_version, 1)))


def fold(events: Sequence[Event], updates_left: Callable[[int, int], int]) -> ActiveMemory:
    """The memory that `events`, all of one memory and in order, add up to; `write` is that of the last one.

    Raises:
        ValueError: The first event does not create a memory.
    """
    first, *later = events
    if first.kind != EventKind.CREATED:
        raise ValueError(f"a memory begins with {EventKind.CREATED}, not {first.kind}")
    created = MemoryCreated.model_validate(first.payload)
    state: dict[str, Any] = {
        "id": created.memory_id,
        "external_id": first.external_id,
        "version": 1,
        "title": created.title,
        "content": created.content,
        "description": created.description,
        "metadata": created.metadata,
        "created_at": first.recorded_at,
        "archived_at": None,
        "consolidated_version": 0,
    }
    state |= _provenance(first)
    write = _outcome(first, created.chunks, 0, due=created.consolidation_due)
    live = len(created.chunks)
    for event in later:
        match event.kind:
            case EventKind.UPDATED:
                updated = MemoryUpdated.model_validate(event.payload)
                state |= {**updated.changes, "version": updated.version, **_provenance(event)}
                write = _outcome(event, updated.chunks, live, due=updated.consolidation_due)
                live = len(updated.chunks)
            case EventKind.ARCHIVED:
                state["archived_at"] = state["archived_at"] or event.recorded_at
            case EventKind.CONSOLIDATED:
                state["consolidated_version"] = MemoryConsolidated.model_validate(event.payload).version
    left = updates_left(state["version"], state["consolidated_version"])
    return ActiveMemory(**state, updates_until_consolidation=left, write=write)


def _provenance(event: Event) -> dict[str, Any]:
    return {
        "source": event.source,
        "actor": event.actor,
        "conversation_id": event.conversation_id,
        "occurred_at": event.occurred_at,
        "updated_at": event.recorded_at,
    }


def _outcome(event: Event, chunks: Sequence[ChunkEntry], before: int, *, due: bool) -> WriteOutcome:
    added = sum(chunk.new for chunk in chunks)
    kept = len(chunks) - added
    return WriteOutcome(
        event_id=event.event_id,
        position=event.position,
        chunks_added=added,
        chunks_kept=kept,
        chunks_ended=before - kept,
        vectors_missing=0,
        consolidation_due=due,
    )


def _check_writable(memory: StoredMemory, expected_version: int | None) -> None:
    if expected_version is not None and memory.version != expected_version:
        raise VersionConflictError(memory.external_id, memory.memory_id, expected_version, memory.version)
    if memory.archived_at is not None:
        raise InvalidInputError(
            f"memory {str(memory.memory_id)!r} was archived on {memory.archived_at.isoformat()} and takes no update;"
            " create a new memory"
        )


async def _chunk(content: str, metadata: Mapping[str, Any]) -> list[TextSpan]:
    """Cut `content` into spans that tile it, by the speakers that `metadata` names where it names any."""
    turns = [Turn(start=turn["start"], speaker=turn.get("speaker")) for turn in metadata.get("turns") or ()]
    speaker = metadata.get("speaker")
    arguments: dict[str, Any] = {
        "speaker": speaker if isinstance(speaker, str) and speaker.strip() else None,
        "turns": turns or None,
        "max_tokens": MAX_CHUNK_TOKENS,
    }
    if len(content) > _THREAD_FROM_CHARACTERS:
        return await asyncio.to_thread(chunk_text, content, **arguments)
    return chunk_text(content, **arguments)


def _new_entries(spans: Sequence[TextSpan], metadata: Mapping[str, Any]) -> tuple[ChunkEntry, ...]:
    """Entries with fresh ids; each carries what its turn says beside start and speaker."""
    turns = deque(metadata.get("turns") or ())
    said: dict[str, Any] = {}
    entries = []
    for span in spans:
        while turns and turns[0]["start"] <= span.start:
            said = {key: value for key, value in turns.popleft().items() if key not in {"start", "speaker"}}
        entries.append(
            ChunkEntry(id=uuid7(), start=span.start, end=span.end, speaker=span.speaker, metadata=said, new=True)
        )
    return tuple(entries)


def _match(content: str, entries: Sequence[ChunkEntry], layout: Sequence[StoredChunk]) -> tuple[ChunkEntry, ...]:
    """Give an entry the id of an old chunk with the same text and speaker, each at most once, in text order.

    White space around it does not count: what is appended behind a chunk puts a line break at its end.
    """
    old: defaultdict[tuple[str, str | None], deque[StoredChunk]] = defaultdict(deque)
    for chunk in layout:
        old[chunk.content.strip(), chunk.speaker].append(chunk)
    matched = []
    for entry in entries:
        same = old.get((content[entry.start : entry.end].strip(), entry.speaker))
        if same:
            chunk = same.popleft()
            matched.append(entry.model_copy(update={"id": chunk.chunk_id, "new": False}))
        else:
            matched.append(entry)
    return tuple(matched)
