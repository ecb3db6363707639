"""`memory.created`: a new active memory and its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, tzinfo

import numpy as np

from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.memory_chunk import NewChunk
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.database.repositories.text_index import NewHeading, PostedText, TextTotals
from agent_reminiscence.domain.canonical import beside, beside_many, sha256
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.index import FIRST, LAYOUT_DTYPE, MAX_HEADING_LENGTH, chunk_number, speaker_hash
from agent_reminiscence.domain.memory import StoredMemory
from agent_reminiscence.domain.payloads import ChunkEntry, MemoryCreated, read_payload
from agent_reminiscence.domain.said_times import QUARTER_SHIFT, quarter_of
from agent_reminiscence.domain.trust import SOURCE_TRUST
from agent_reminiscence.domain.turn import turn_ids, turns_of
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.indexed_text import IndexedText, index_chunk
from agent_reminiscence.projections.texts import add_texts
from agent_reminiscence.text.days import day_of, other_day_in
from agent_reminiscence.text.folding import fold_name, fold_text, without_speaker

# A chunk's importance until a consolidation rates it.
_UNRATED_IMPORTANCE = 0.5
_EPOCH = date(1970, 1, 1)


async def apply_created(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Store the memory at version 1 with its chunks in the active tier."""
    payload = await read_payload(MemoryCreated, ChunkEntry, event)
    await tables.active.create(db, created_memory(event, payload))
    await tables.turns.add(db, event.external_id, payload.memory_id, payload.key, turn_ids(turns_of(payload.metadata)))
    if payload.completes is not None:
        await tables.active.make_due(db, event.external_id, payload.completes)
    indexed = await beside(
        lambda: index_entries(
            event, payload.chunks, payload.content, language=payload.language, zone=stored_zone(payload.timezone)
        ),
        value=payload.content,
    )
    await tables.chunks.add(
        db,
        event.external_id,
        payload.memory_id,
        [chunk for chunk, _ in indexed],
        memory_version=1,
        recorded_at=event.recorded_at,
    )
    headings = await add_texts(
        db,
        tables,
        event,
        payload.memory_id,
        title=payload.title,
        language=payload.language,
        days={chunk.day for chunk, _ in indexed},
        chunks=[posted for _, posted in indexed],
    )
    above = {heading.day: min(heading.words, MAX_HEADING_LENGTH) for heading in headings}
    totals = TextTotals(len(indexed), sum(chunk.words + above[chunk.day] for chunk, _ in indexed))
    if indexed:
        entries = await beside_many(lambda: _layout(headings, [chunk for chunk, _ in indexed]), items=len(indexed))
        await tables.index.add_layout(db, event.external_id, payload.memory_id, entries, totals)
    return Change(len(indexed), totals.chunks, totals.words, payload.language)


def _layout(headings: Sequence[NewHeading], chunks: Sequence[NewChunk]) -> bytes:
    """The layout of a new memory, built without any lookup."""
    by_day = {heading.day: heading for heading in headings}
    days = [chunk.day for chunk in chunks]
    speakers = {key: speaker_hash(key) for key in {chunk.speaker_key for chunk in chunks} if key is not None}
    layout = np.zeros(len(chunks), dtype=LAYOUT_DTYPE)
    layout["number"] = [chunk.number for chunk in chunks]
    layout["heading"] = [by_day[day].number for day in days]
    layout["day"] = [(day_of(chunk.said_at) - _EPOCH).days for chunk in chunks]
    layout["speaker"] = [0 if chunk.speaker_key is None else speakers[chunk.speaker_key] for chunk in chunks]
    layout["length"] = [chunk.words for chunk in chunks]
    layout["flags"] = [chunk.text_flags | quarter_of(chunk.said_at) << QUARTER_SHIFT for chunk in chunks]
    layout["flags"][0] |= FIRST
    layout["heading_length"] = [min(by_day[day].words, MAX_HEADING_LENGTH) for day in days]
    return layout.tobytes()


def created_memory(event: Event, payload: MemoryCreated) -> StoredMemory:
    """The memory that `memory.created` makes."""
    return StoredMemory(
        external_id=event.external_id,
        memory_id=payload.memory_id,
        key=payload.key,
        version=1,
        title=payload.title,
        content=payload.content,
        description=payload.description,
        metadata=payload.metadata,
        language=payload.language,
        language_origin=payload.language_origin,
        timezone=payload.timezone,
        source=event.source,
        actor=event.actor,
        conversation_id=event.conversation_id,
        occurred_at=event.occurred_at,
        created_at=event.recorded_at,
        updated_at=event.recorded_at,
        archived_at=None,
        consolidated_version=0,
        due_version=1 if payload.consolidation_due else 0,
        text_version=1,
        chunk_ids=tuple(chunk.id for chunk in payload.chunks),
        chunk_starts=tuple(chunk.start for chunk in payload.chunks),
        pinned=payload.pinned,
        expires_at=payload.expires_at,
        had_expiry=payload.expires_at is not None,
    )


def index_entries(
    event: Event,
    entries: Sequence[ChunkEntry],
    content: str,
    *,
    language: str,
    zone: tzinfo,
    start: int = 0,
    order: int = 0,
) -> list[tuple[NewChunk, PostedText]]:
    """The chunks that an event adds, each with its terms.

    Args:
        entries: Those of `content`; entries that are not new are skipped.
        start: Where `content` begins in the memory's text, which the entries' positions refer to.
        order: How many chunks the text has before `content`.
    """
    made = []
    for index, entry in enumerate(entries):
        if entry.new:
            text = content[entry.start - start : entry.end - start]
            speaker_key = None if entry.speaker is None else fold_name(entry.speaker)
            said_at = entry.first_said(event.occurred_at)
            indexed = index_chunk(
                text,
                language=language,
                zone=zone,
                said_at=said_at,
                said_lines=entry.said_lines,
                speaker_key=speaker_key,
            )
            number = chunk_number(event.position, index)
            said_on = other_day_in(said_at, zone)
            chunk = _new_chunk(event, entry, order + index, text, number, speaker_key, indexed, said_on)
            made.append((chunk, indexed.posted(number)))
    return made


def _new_chunk(
    event: Event,
    entry: ChunkEntry,
    order: int,
    content: str,
    number: int,
    speaker_key: str | None,
    indexed: IndexedText,
    said_on: date | None,
) -> NewChunk:
    """The chunk that `entry` describes, not yet rated; its confidence is the trust in its source."""
    source = entry.source or event.source
    return NewChunk(
        chunk_id=entry.id,
        number=number,
        order=order,
        span_start=entry.start,
        span_end=entry.end,
        content=content,
        folded_hash=sha256(fold_text(without_speaker(content, entry.speaker)).encode()),
        text_hash=indexed.text_hash,
        speaker=entry.speaker,
        speaker_key=speaker_key,
        metadata=entry.metadata,
        words=indexed.words,
        text_flags=indexed.flags,
        importance=_UNRATED_IMPORTANCE,
        source=source,
        confidence=SOURCE_TRUST[source],
        start_date=entry.start_date or event.occurred_at,
        first_said=entry.said_at,
        said_on=said_on,
        said_lines=entry.said_lines,
    )
