"""`memory.archived`: a memory is finished and leaves the active list."""

from __future__ import annotations

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.domain.event import Event, MemoryArchived
from agent_reminiscence.projections.tables import Tables


async def apply_archived(db: SqlExecutor, tables: Tables, event: Event) -> int:
    """Mark the memory as archived; its chunks stay searchable."""
    payload = MemoryArchived.model_validate(event.payload)
    await tables.active.archive(db, event.external_id, payload.memory_id, archived_at=event.recorded_at)
    return 0
