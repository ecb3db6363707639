"""`memory.promoted`: chunks that proved important become longterm."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import MemoryPromoted, Promotion, read_payload
from agent_reminiscence.projections.change import Change


async def apply_promoted(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Change the chunks' tier, validity and confidence, and the tier of what they say; the rows stay the same."""
    payload = await read_payload(MemoryPromoted, Promotion, event)
    await tables.longterm.promote(db, event.external_id, payload.chunks)
    await tables.graph.promote(
        db,
        event.external_id,
        {chunk.id: chunk.importance for chunk in payload.chunks},
        recorded_at=event.recorded_at,
        position=event.position,
    )
    return Change()
