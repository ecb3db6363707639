"""`memory.entities_merged`: two entities turn out to be one."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import EntitiesMerged
from agent_reminiscence.projections.change import Change


async def apply_entities_merged(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Let one of the two represent both; each keeps its own rows, names and mentions."""
    payload = EntitiesMerged.model_validate(event.payload)
    await tables.graph.merge(
        db,
        event.external_id,
        survivor_id=payload.survivor_id,
        merged_id=payload.merged_id,
        recorded_at=event.recorded_at,
        position=event.position,
    )
    return Change()
