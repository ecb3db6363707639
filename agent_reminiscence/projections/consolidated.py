"""`memory.consolidated`: a memory's chunks become shortterm, rated as the plan in the payload says."""

from __future__ import annotations

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.domain.event import Event, MemoryConsolidated
from agent_reminiscence.domain.memory import ShorttermMemory
from agent_reminiscence.projections.tables import Tables


async def apply_consolidated(db: SqlExecutor, tables: Tables, event: Event) -> int:
    """Move the plan's chunks to shortterm, end those that repeat others, store its summary, and add to the graph."""
    payload = MemoryConsolidated.model_validate(event.payload)
    await tables.active.mark_consolidated(db, event.external_id, payload.memory_id, version=payload.version)
    await tables.shortterm.put(
        db,
        ShorttermMemory(
            external_id=event.external_id,
            memory_id=payload.memory_id,
            version=payload.version,
            title=payload.title,
            summary=payload.summary,
            last_updated=event.recorded_at,
        ),
    )
    await tables.chunks.rate(db, event.external_id, payload.chunks, tier="shortterm")
    await tables.chunks.rate(db, event.external_id, payload.reinforced, tier=None)
    ended = await tables.chunks.end_duplicates(
        db, event.external_id, payload.duplicates, recorded_at=event.recorded_at, ended_at=event.occurred_at
    )
    # After the chunks: whether they are live decides what a mention in them counts.
    await tables.graph.record(
        db,
        event.external_id,
        payload.graph,
        chunk_ids=[chunk.id for chunk in payload.chunks],
        memory_id=payload.memory_id,
        position=event.position,
        recorded_at=event.recorded_at,
    )
    return -ended
