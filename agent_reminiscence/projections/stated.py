"""`memory.entity_stated` and `memory.relationship_stated`: what a caller says of the graph, on the word of a memory."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import GraphStated
from agent_reminiscence.projections.change import Change


async def apply_stated(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Add to the graph as a consolidation of the memory would; the memory does not change."""
    payload = GraphStated.model_validate(event.payload)
    await tables.graph.record(
        db,
        event.external_id,
        payload.graph,
        chunk_ids=payload.chunks,
        memory_id=payload.memory_id,
        position=event.position,
        recorded_at=event.recorded_at,
    )
    return Change()
