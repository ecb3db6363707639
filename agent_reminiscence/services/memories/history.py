"""Memories through time, from the ledger alone: every version of one, and all of them as they were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.history import Derivation, MemoryHistory, MemoryVersion
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.payloads import (
    ChunkEntry,
    GraphStated,
    MemoryAppended,
    MemoryConsolidated,
    MemoryCreated,
    MemoryCut,
    MemoryEnded,
    MemoryOutdated,
    MemoryPromoted,
    MemoryUpdated,
)
from agent_reminiscence.exceptions import MemoryNotFoundError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.memories.fold import fold
from agent_reminiscence.services.runtime import Runtime

# Payloads may be of several MB.
_PAGE_EVENTS = 50
_LAST_POSITION = 2**63 - 1


_VERSIONS = frozenset({EventKind.CREATED, EventKind.UPDATED, EventKind.APPENDED})
_STANDINGS = frozenset({EventKind.ARCHIVED, EventKind.UNARCHIVED})


class HistoryService:
    """Answers questions about other moments than now."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        updates_left: Callable[[int, int], int],
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._repository = runtime.repositories.history
        self._clock = runtime.clock
        self._updates_left = updates_left

    async def history(self, external_id: str, memory_id: UUID) -> MemoryHistory:
        """Every version of one memory.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory, or has it no more.
        """

        async def read() -> list[Event]:
            return await self._store.read_once(
                external_id,
                lambda db: self._ledger.read_memory(db, external_id, memory_id, position=_LAST_POSITION),
            )

        events = await repeated(read, operation="history", external_id=external_id)
        if not events:
            raise MemoryNotFoundError(external_id, memory_id)
        return build_history(events)

    async def active_memories(
        self, external_id: str, *, as_of: datetime | None, known_at: datetime | None, key: str | None = None
    ) -> list[ActiveMemory]:
        """The active list as it was known at `known_at` to be at `as_of`, oldest first; with `key`, only its holder."""
        streams = await repeated(
            lambda: self._read_all(external_id, known_at), operation="active_memories", external_id=external_id
        )
        moment = as_of if as_of is not None else known_at
        at_moment = (memory_at(events, moment, self._updates_left) for events in streams.values())
        now = self._clock() if moment is None else moment
        memories = [
            memory
            for memory in at_moment
            if memory is not None
            and memory.archived_at is None
            and (memory.expires_at is None or memory.expires_at > now)
        ]
        holders = {memory.key: memory.id for memory in memories if memory.key is not None}
        return [
            memory
            for memory in memories
            if (memory.key is None or holders[memory.key] == memory.id) and (key is None or memory.key == key)
        ]

    async def _read_all(self, external_id: str, known_at: datetime | None) -> dict[str, list[Event]]:
        """The events of every memory, by its id."""
        streams: defaultdict[str, list[Event]] = defaultdict(list)
        after = 0
        async with self._store.transaction(external_id, read_only=True) as db:
            while True:
                page = await self._repository.read_memories(
                    db, external_id, known_at=known_at, after=after, limit=_PAGE_EVENTS
                )
                for event in page:
                    # What is said of entities and relationships is of no memory.
                    if "memory_id" in event.payload:
                        streams[event.payload["memory_id"]].append(event)
                if len(page) < _PAGE_EVENTS:
                    return streams
                after = page[-1].position


def memory_at(
    events: Sequence[Event], moment: datetime | None, updates_left: Callable[[int, int], int]
) -> ActiveMemory | None:
    """One memory as `events` say it was at `moment`, in the world's time; None where it had not begun.

    Of its versions the last that had begun counts, whatever was said before it of later times.
    """
    begun = [event for event in events if event.kind in _VERSIONS and (moment is None or event.occurred_at <= moment)]
    if not begun:
        return None
    last, version = begun[-1].position, begun[-1].payload.get("version", 1)
    told = [
        event
        for event in events
        # Being archived is no part of a version: what had been said of that by then counts.
        if (
            moment is None or event.occurred_at <= moment
            if event.kind in _STANDINGS
            # What came after a version belongs to it only where it consolidated it.
            else event.position <= last
            or (event.kind == EventKind.CONSOLIDATED and event.payload["version"] <= version)
        )
    ]
    return fold(told, updates_left).model_copy(update={"write": None})


def build_history(events: Sequence[Event]) -> MemoryHistory:
    """The history that `events`, all of one memory and in order, add up to."""
    created = MemoryCreated.model_validate(events[0].payload)
    fields: dict[str, Any] = {
        "title": created.title,
        "content": created.content,
        "description": created.description,
        "metadata": created.metadata,
        "timezone": created.timezone,
        "pinned": created.pinned,
        "expires_at": created.expires_at,
    }
    versions = [_version(events[0], 1, fields, created.chunks, before=0)]
    appends: list[MemoryAppended] = []
    archived_at: datetime | None = None
    for event in events[1:]:
        match event.kind:
            case EventKind.UPDATED:
                updated = MemoryUpdated.model_validate(event.payload)
                fields, appends = _with_appends(fields, appends) | updated.changes, []
                fields["timezone"] = updated.timezone or fields["timezone"]
                before = _live_chunks(versions)
                versions.append(_version(event, updated.version, fields, updated.chunks, before=before))
            case EventKind.APPENDED:
                appended = MemoryAppended.model_validate(event.payload)
                # Only what it adds: whole texts of all versions would grow with the square of their number.
                added = fields | {"content": appended.content, "metadata": {"turns": [*appended.turns]}}
                versions.append(_version(event, appended.version, added, appended.chunks, before=0, is_append=True))
                appends.append(appended)
            case EventKind.CONSOLIDATED:
                consolidated = MemoryConsolidated.model_validate(event.payload)
                _derive(
                    versions,
                    consolidated.version,
                    _derivation(
                        event,
                        chunk_ids=tuple(rating.id for rating in consolidated.chunks),
                        duplicates={pair.id: pair.duplicate_of for pair in consolidated.duplicates},
                        summary=consolidated.summary,
                        facts=tuple(fact.content for fact in consolidated.facts),
                        usage=consolidated.usage,
                        fallback=consolidated.fallback,
                    ),
                )
            case EventKind.PROMOTED:
                promoted = MemoryPromoted.model_validate(event.payload)
                chunk_ids = tuple(promotion.id for promotion in promoted.chunks)
                _derive(versions, versions[-1].version, _derivation(event, chunk_ids=chunk_ids))
            case EventKind.ENDED:
                ended = MemoryEnded.model_validate(event.payload)
                derivation = _derivation(
                    event,
                    chunk_ids=ended.chunks,
                    duplicates={pair.id: pair.duplicate_of for pair in ended.duplicates},
                    reason=ended.reason,
                    ended_by=ended.by,
                    why=ended.why,
                )
                _derive(versions, versions[-1].version, derivation)
            case EventKind.CUT:
                cut = MemoryCut.model_validate(event.payload)
                chunk_ids = tuple(one.chunk for one in cut.cuts)
                _derive(versions, versions[-1].version, _derivation(event, chunk_ids=chunk_ids, cuts=cut.cuts))
            case EventKind.OUTDATED:
                outdated = MemoryOutdated.model_validate(event.payload)
                derivation = _derivation(
                    event,
                    chunk_ids=tuple(dict.fromkeys(part.chunk for part in outdated.parts)),
                    ended_by=(outdated.by,),
                    why=outdated.why,
                )
                _derive(versions, versions[-1].version, derivation)
            case EventKind.ENTITY_STATED | EventKind.RELATIONSHIP_STATED:
                stated = GraphStated.model_validate(event.payload)
                _derive(versions, versions[-1].version, _derivation(event, chunk_ids=stated.chunks))
            case EventKind.ARCHIVED:
                archived_at = archived_at or event.recorded_at
            case EventKind.UNARCHIVED:
                archived_at = None
    return MemoryHistory(
        external_id=events[0].external_id,
        memory_id=created.memory_id,
        key=created.key,
        versions=tuple(versions),
        archived_at=archived_at,
    )


def _with_appends(fields: dict[str, Any], appends: Sequence[MemoryAppended]) -> dict[str, Any]:
    """The fields of the last whole version with all that was appended to it since."""
    content = "".join([fields["content"], *(one.content for one in appends)])
    metadata = fields["metadata"]
    if turns := [turn for one in appends for turn in one.turns]:
        metadata = metadata | {"turns": [*(metadata.get("turns") or []), *turns]}
    return fields | {"content": content, "metadata": metadata}


def _live_chunks(versions: Sequence[MemoryVersion]) -> int:
    """How many chunks the text of the last version has, with what was appended to the last whole text, and cut."""
    total = 0
    for version in reversed(versions):
        total += len(version.chunks)
        total += sum(len(cut.pieces) - 1 for derivation in version.derived for cut in derivation.cuts)
        if not version.is_append:
            break
    return total


def _version(
    event: Event,
    version: int,
    fields: dict[str, Any],
    chunks: tuple[ChunkEntry, ...],
    *,
    before: int,
    is_append: bool = False,
) -> MemoryVersion:
    return MemoryVersion(
        **fields,
        version=version,
        source=event.source,
        actor=event.actor,
        conversation_id=event.conversation_id,
        occurred_at=event.occurred_at,
        recorded_at=event.recorded_at,
        event_id=event.event_id,
        position=event.position,
        chunks=chunks,
        is_append=is_append,
        chunks_ended=0 if is_append else before - sum(not chunk.new for chunk in chunks),
    )


def _derivation(event: Event, **found: Any) -> Derivation:
    """What an event made of a version, as `found` says."""
    return Derivation(
        kind=EventKind(event.kind),
        event_id=event.event_id,
        position=event.position,
        occurred_at=event.occurred_at,
        recorded_at=event.recorded_at,
        source=event.source,
        **found,
    )


def _derive(versions: list[MemoryVersion], number: int, derivation: Derivation) -> None:
    """Note what was made of version `number`."""
    version = versions[number - 1]
    versions[number - 1] = version.model_copy(update={"derived": (*version.derived, derivation)})
