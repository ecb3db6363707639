"""`memory.archived`: a memory is finished, or has expired, and leaves the active list."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import MemoryArchived
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.texts import lay_out


async def apply_archived(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Mark the memory as archived; its chunks stay searchable, or end if the event says so."""
    payload = MemoryArchived.model_validate(event.payload)
    external_id, memory_id = event.external_id, payload.memory_id
    if payload.expired:
        await tables.active.expire(db, external_id, memory_id, recorded_at=event.recorded_at)
    else:
        await tables.active.archive(db, external_id, memory_id, archived_at=event.recorded_at)
    if not payload.end_chunks:
        return Change()
    memory = await tables.active.get_by_id(db, external_id, memory_id)
    ended = await tables.chunks.end(
        db, external_id, memory.chunk_ids, recorded_at=event.recorded_at, ended_at=event.occurred_at
    )
    ended += await tables.chunks.end_facts(
        db, external_id, memory.chunk_ids, recorded_at=event.recorded_at, ended_at=event.occurred_at
    )
    await tables.chunks.correct_end_dates(
        db, external_id, memory_id, kept=(), recorded_at=event.recorded_at, ended_at=event.occurred_at
    )
    await tables.graph.end_mentions(
        db,
        external_id,
        memory.chunk_ids,
        ended_at=event.occurred_at,
        recorded_at=event.recorded_at,
        position=event.position,
    )
    return await lay_out(db, tables, event, ended.memory_ids, live_chunks=-ended.live)
