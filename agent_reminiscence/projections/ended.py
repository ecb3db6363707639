"""`memory.ended`: passages of a memory end: long unused, too many, contradicted, or replaced by newer ones."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import MemoryEnded
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.texts import lay_out


async def apply_ended(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """End the chunks and those that repeat them; the memory and the layout of its text do not change.

    A repetition ends for good: its memory was found through the chunk it repeats. Chunks that are no longer true take
    the facts drawn from them along; chunks that were merely unused do not.
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
