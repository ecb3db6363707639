"""`memory.relationship_ended`: a relationship of two entities is over."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import RelationshipEnded
from agent_reminiscence.projections.change import Change


async def apply_relationship_ended(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Set the relationship's end; the chunks that say it stay."""
    payload = RelationshipEnded.model_validate(event.payload)
    await tables.graph.end_relationship(
        db,
        event.external_id,
        payload.relationship_id,
        end_date=payload.end_date,
        recorded_at=event.recorded_at,
        position=event.position,
    )
    return Change()
