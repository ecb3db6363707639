"""`memory.promoted`: chunks that proved important become longterm."""

from __future__ import annotations

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.domain.event import Event, MemoryPromoted
from agent_reminiscence.projections.tables import Tables


async def apply_promoted(db: SqlExecutor, tables: Tables, event: Event) -> int:
    """Change the chunks' tier, validity and confidence; they stay the rows they are."""
    payload = MemoryPromoted.model_validate(event.payload)
    await tables.longterm.promote(db, event.external_id, payload.chunks)
    return 0
