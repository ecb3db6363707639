"""`memory.ended`: passages of a memory end: unused for long, too many, contradicted or replaced by what is newer."""

from __future__ import annotations

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.domain.event import Event, MemoryEnded
from agent_reminiscence.projections.tables import Change, Tables
from agent_reminiscence.projections.texts import lay_out


async def apply_ended(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """End the chunks, and with them those that repeat them; the memory and the layout of its text stay as they are.

    A repetition ends for good here: until now its memory said it through the chunk that it repeats. What is not true
    any more takes along what was concluded from it; what was merely not used does not.
    """
    payload = MemoryEnded.model_validate(event.payload)
    ending = [*payload.chunks, *(duplicate.id for duplicate in payload.duplicates)]
    ended = await tables.chunks.end(
        db, event.external_id, ending, recorded_at=event.recorded_at, ended_at=event.occurred_at
    )
    if payload.reason in {"contradicted", "replaced"}:
        ended += await tables.chunks.end_facts(
            db,
            event.external_id,
            ending,
            recorded_at=event.recorded_at,
            ended_at=event.occurred_at,
        )
    await tables.graph.end_mentions(
        db,
        event.external_id,
        ending,
        ended_at=event.occurred_at,
        recorded_at=event.recorded_at,
        position=event.position,
    )
    return await lay_out(db, tables, event, ended.memory_ids, live_chunks=-ended.live)
