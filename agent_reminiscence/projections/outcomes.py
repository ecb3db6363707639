"""`memory.recalled`, `memory.outcome`: what runs were given, and how they ended."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import MemoryRecalled, RunOutcomeReported
from agent_reminiscence.projections.change import Change


async def apply_recalled(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Note what a run was given, except chunks of memories that have been erased."""
    payload = MemoryRecalled.model_validate(event.payload)
    await tables.recalled.add(db, event.external_id, payload.run_id, payload.chunks, position=event.position)
    return Change()


async def apply_outcome(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Count the end of a run for what it was given before; nothing happens if all of that has been erased."""
    payload = RunOutcomeReported.model_validate(event.payload)
    await tables.recalled.set_outcome(
        db,
        event.external_id,
        payload.run_id,
        success=payload.success,
        memory_ids=payload.memory_ids,
        position=event.position,
        reported_at=event.recorded_at,
    )
    return Change()
