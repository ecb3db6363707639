"""`memory.entities_unmerged`: a merge is undone."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import EntitiesUnmerged
from agent_reminiscence.projections.change import Change


async def apply_entities_unmerged(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Separate the entity again, with everything that had been merged into it."""
    payload = EntitiesUnmerged.model_validate(event.payload)
    await tables.graph.unmerge(
        db, event.external_id, payload.entity_id, recorded_at=event.recorded_at, position=event.position
    )
    return Change()
