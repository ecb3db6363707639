"""`memory.created`: a new active memory and its chunks."""

from __future__ import annotations

from agent_reminiscence.config.constants import SOURCE_TRUST
from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.repositories.memory_chunk import IndexedForms, NewChunk
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.event import ChunkEntry, Event, MemoryCreated
from agent_reminiscence.domain.memory import StoredMemory
from agent_reminiscence.projections.forms import (
    PlacedChunk,
    fold_name,
    fold_text,
    indexed_forms,
    without_speaker,
)
from agent_reminiscence.projections.tables import Tables

# What a chunk is worth until a consolidation rates it.
_UNRATED_IMPORTANCE = 0.5


async def apply_created(db: SqlExecutor, tables: Tables, event: Event) -> int:
    """Store the memory at version 1 with its chunks in the active tier."""
    payload = MemoryCreated.model_validate(event.payload)
    await tables.active.create(
        db,
        StoredMemory(
            external_id=event.external_id,
            memory_id=payload.memory_id,
            version=1,
            title=payload.title,
            content=payload.content,
            description=payload.description,
            metadata=payload.metadata,
            source=event.source,
            actor=event.actor,
            conversation_id=event.conversation_id,
            occurred_at=event.occurred_at,
            created_at=event.recorded_at,
            updated_at=event.recorded_at,
            archived_at=None,
            consolidated_version=0,
            due_version=1 if payload.consolidation_due else 0,
            chunk_ids=tuple(chunk.id for chunk in payload.chunks),
            chunk_starts=tuple(chunk.start for chunk in payload.chunks),
        ),
    )
    placed = [PlacedChunk(c.id, payload.content[c.start : c.end], event.occurred_at) for c in payload.chunks]
    await tables.chunks.add(
        db,
        event.external_id,
        payload.memory_id,
        [
            new_chunk(event, entry, order, placed[order].content, indexed_forms(payload.title, placed, order))
            for order, entry in enumerate(payload.chunks)
        ],
        memory_version=1,
        source=event.source,
        start_date=event.occurred_at,
        recorded_at=event.recorded_at,
    )
    return len(payload.chunks)


def new_chunk(event: Event, entry: ChunkEntry, order: int, content: str, forms: IndexedForms) -> NewChunk:
    """The chunk that `entry` describes, not yet rated; its confidence is the trust in the event's source."""
    return NewChunk(
        chunk_id=entry.id,
        order=order,
        span_start=entry.start,
        span_end=entry.end,
        content=content,
        folded_hash=sha256(fold_text(without_speaker(content, entry.speaker)).encode()),
        speaker=entry.speaker,
        speaker_key=None if entry.speaker is None else fold_name(entry.speaker),
        metadata=entry.metadata,
        importance=_UNRATED_IMPORTANCE,
        confidence=SOURCE_TRUST[event.source],
        forms=forms,
    )
