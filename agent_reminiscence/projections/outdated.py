"""`memory.outdated`: passages are marked as probably out of date; they stay as they are."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.outdated import OutdatedMark
from agent_reminiscence.domain.payloads import MemoryOutdated
from agent_reminiscence.projections.change import Change


async def apply_outdated(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Mark the chunks that have not ended meanwhile; nothing else changes."""
    payload = MemoryOutdated.model_validate(event.payload)
    await tables.outdated.add(
        db,
        event.external_id,
        [
            OutdatedMark(
                part.chunk,
                None if part.start is None or part.end is None else (part.start, part.end),
                event.occurred_at,
                payload.by,
            )
            for part in payload.parts
        ],
        position=event.position,
        recorded_at=event.recorded_at,
    )
    return Change()
