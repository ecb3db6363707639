"""`memory.unarchived`: an archived memory is back on the active list."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import MemoryUnarchived
from agent_reminiscence.projections.change import Change


async def apply_unarchived(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Take the mark off; chunks that archiving ended stay ended, and the next version brings their text back."""
    payload = MemoryUnarchived.model_validate(event.payload)
    await tables.active.unarchive(db, event.external_id, payload.memory_id)
    return Change()
