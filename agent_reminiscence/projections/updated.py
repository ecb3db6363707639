"""`memory.updated`: a new version; equal chunks stay, changed ones supersede, removed ones end.

A version in another language reindexes the whole memory in it: the former language was a mistake or a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, tzinfo
from typing import Any, NamedTuple
from uuid import UUID

from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.canonical import beside, beside_many
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.memory import StoredChunk, StoredMemory
from agent_reminiscence.domain.payloads import ChunkEntry, MemoryUpdated, read_payload
from agent_reminiscence.domain.trust import Source, least_trusted
from agent_reminiscence.domain.turn import turn_ids, turns_of
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.created import index_entries
from agent_reminiscence.projections.texts import Reading, add_texts, lay_out, reread
from agent_reminiscence.text.days import day_of


class _Kept(NamedTuple):
    """What a new version keeps of the previous one.

    Attributes:
        days: The days on which the chunks of the new text were first said.
        touched: New content and metadata, by the id of a chunk that stays.
        dropped: Chunks that do not stay.
        source: The least trusted label of the chunks of the new text.
    """

    days: set[date]
    source: Source
    touched: dict[UUID, tuple[str, dict[str, Any]]]
    dropped: list[UUID]


async def apply_updated(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Store the new version; only what it adds is indexed, unless its language has changed."""
    payload = await read_payload(MemoryUpdated, ChunkEntry, event)
    external_id, memory_id = event.external_id, payload.memory_id
    before = await tables.active.get_by_id(db, external_id, memory_id)
    stays = await _find_kept(db, tables, event, payload, before)
    expires_at = changed_expiry(payload, before.expires_at)
    after = before.model_copy(
        update={
            **payload.changes,
            "expires_at": expires_at,
            "had_expiry": before.had_expiry or expires_at is not None,
            "language": payload.language or before.language,
            "language_origin": payload.language_origin or before.language_origin,
            "timezone": payload.timezone or before.timezone,
            "version": payload.version,
            "source": stays.source,
            "actor": event.actor,
            # A write that names no conversation leaves the memory in its own.
            "conversation_id": event.conversation_id or before.conversation_id,
            "occurred_at": event.occurred_at,
            "updated_at": event.recorded_at,
            "text_version": payload.version,
            "due_version": payload.version if payload.consolidation_due else before.due_version,
            "chunk_ids": tuple(chunk.id for chunk in payload.chunks),
            "chunk_starts": tuple(chunk.start for chunk in payload.chunks),
        }
    )
    await tables.active.update(db, after, expected_version=before.version)
    if turn_ids(turns_of(after.metadata)) != turn_ids(turns_of(before.metadata)):
        await tables.turns.replace(db, external_id, memory_id, before.key, turn_ids(turns_of(after.metadata)))
    read_before, read_after = Reading.of(before), Reading.of(after)
    headings = 0
    if read_before != read_after:
        headings = await reread(db, tables, event, memory_id, before=read_before, after=read_after)

    indexed = await beside(
        lambda: index_entries(event, payload.chunks, after.content, language=after.language, zone=read_after.zone),
        value=after.content,
    )
    await tables.chunks.add(
        db,
        external_id,
        memory_id,
        [chunk for chunk, _ in indexed],
        memory_version=payload.version,
        recorded_at=event.recorded_at,
    )
    await add_texts(
        db,
        tables,
        event,
        memory_id,
        title=after.title,
        language=after.language,
        days=stays.days - await tables.index.find_heading_days(db, external_id, memory_id, after.title),
        chunks=[posted for _, posted in indexed],
        first=headings,
    )

    await tables.chunks.retouch(db, external_id, stays.touched)
    dropped = stays.dropped
    ended = await tables.chunks.end(db, external_id, dropped, recorded_at=event.recorded_at, ended_at=event.occurred_at)
    ended += await tables.chunks.end_facts(
        db, external_id, dropped, recorded_at=event.recorded_at, ended_at=event.occurred_at
    )
    if expires_at is not None and before.expires_at is None:
        # What repeats this memory does not go with it.
        ended += await tables.chunks.revive_duplicates(db, external_id, after.chunk_ids)
    await tables.graph.end_mentions(
        db,
        external_id,
        dropped,
        ended_at=event.occurred_at,
        recorded_at=event.recorded_at,
        position=event.position,
    )
    if dropped or event.occurred_at < before.occurred_at:
        # A late correction: this version holds from its date on, whatever was thought true in between.
        await tables.chunks.correct_end_dates(
            db,
            external_id,
            memory_id,
            kept=after.chunk_ids,
            recorded_at=event.recorded_at,
            ended_at=event.occurred_at,
        )
    return await lay_out(
        db,
        tables,
        event,
        ended.memory_ids | {memory_id},
        live_chunks=len(indexed) - ended.live,
        language=after.language,
    )


async def _find_kept(
    db: SqlExecutor, tables: Tables, event: Event, payload: MemoryUpdated, before: StoredMemory
) -> _Kept:
    """Read the previous text and compare; released here because freeing a large text takes time too."""
    content = payload.changes.get("content", before.content)
    layout = await tables.chunks.get_layout(db, event.external_id, before.memory_id)
    zone = stored_zone(payload.timezone or before.timezone)
    return await beside_many(
        lambda: _compare(event, payload.chunks, content, before, layout, zone), items=len(payload.chunks) + len(layout)
    )


def _compare(
    event: Event,
    entries: Sequence[ChunkEntry],
    content: str,
    before: StoredMemory,
    layout: Sequence[StoredChunk],
    zone: tzinfo,
) -> _Kept:
    """Which chunks of a text stay.

    Args:
        entries: The entries of the new text, `content`.
        layout: The chunks of the previous text.
        zone: Of the new one.
    """
    old_chunks = {chunk.chunk_id: chunk for chunk in layout}
    moments = {entry.first_said(event.occurred_at) if entry.new else old_chunks[entry.id].said_at for entry in entries}
    sources = [entry.source or event.source if entry.new else old_chunks[entry.id].source for entry in entries]
    touched = {}
    for entry in entries:
        if not entry.new:
            text, old = content[entry.start : entry.end], old_chunks[entry.id]
            if (text, entry.metadata) != (old.content, old.metadata):
                touched[entry.id] = (text, entry.metadata)
    return _Kept(
        days={day_of(moment, zone) for moment in moments},
        source=least_trusted(sources or [event.source]),
        touched=touched,
        dropped=dropped_chunks(before.chunk_ids, entries),
    )


def changed_expiry(payload: MemoryUpdated, before: datetime | None) -> datetime | None:
    """When a memory expires after an update; as before if the update does not say."""
    if "expires_at" not in payload.changes:
        return before
    # As JSON has it.
    said = payload.changes["expires_at"]
    return datetime.fromisoformat(said) if isinstance(said, str) else said


def dropped_chunks(before: Sequence[UUID], entries: Sequence[ChunkEntry]) -> list[UUID]:
    """The chunks of a text that are not among the next version's entries."""
    kept = {entry.id for entry in entries}
    return [chunk_id for chunk_id in before if chunk_id not in kept]
