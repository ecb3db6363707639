"""Marks what is probably out of date, as the ledger records it."""

from __future__ import annotations

from datetime import datetime

from agent_reminiscence import AgentMem, SearchHit
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.payloads import MemoryOutdated, OutdatedPart
from tests.support.factories import record_event


async def mark(
    memory: AgentMem, external_id: str, older: str, by: str, *, since: datetime, part: str | None = None
) -> Event:
    """Record that the chunk that says `older`, or only its words `part`, is out of date since the one that says `by`.

    Args:
        older: Words that only this chunk says; likewise `by`.
    """
    old, new = await _hit(memory, external_id, older), await _hit(memory, external_id, by)
    start = None if part is None else old.content.index(part)
    end = None if part is None or start is None else start + len(part)
    payload = MemoryOutdated(
        memory_id=old.memory_id,
        parts=(OutdatedPart(chunk=old.chunk_id, start=start, end=end),),
        by=new.chunk_id,
        rests_on=() if new.memory_id == old.memory_id else (new.memory_id,),
    )
    return await record_event(memory, external_id, EventKind.OUTDATED, payload, occurred_at=since)


async def _hit(memory: AgentMem, external_id: str, words: str) -> SearchHit:
    found = await memory.retrieve_memories(external_id, words, limit=100)
    return next(hit for hit in found.hits if words in hit.content)
