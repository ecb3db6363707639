"""`memory.consolidated`: a memory's chunks become shortterm, rated as the plan in the payload says."""

from __future__ import annotations

from agent_reminiscence.config.constants import Source
from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.database.repositories.memory_chunk import NewFact
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.event import Event, FactEntry, MemoryConsolidated
from agent_reminiscence.domain.memory import ShorttermMemory
from agent_reminiscence.projections.forms import fact_form, fold_text
from agent_reminiscence.projections.tables import Tables

# Trusted least of all, whoever said what it is made of.
FACT_SOURCE: Source = "model"


async def apply_consolidated(db: SqlExecutor, tables: Tables, event: Event) -> int:
    """Move the plan's chunks to shortterm, end those that repeat others, store its summary and facts, add to the graph.

    Returns:
        By how many the stream's live chunks changed.
    """
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
    await tables.chunks.add_facts(
        db,
        event.external_id,
        payload.memory_id,
        [_new_fact(fact, payload) for fact in payload.facts],
        memory_version=payload.version,
        source=FACT_SOURCE,
        recorded_at=event.recorded_at,
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
    return len(payload.facts) - ended


def _new_fact(fact: FactEntry, payload: MemoryConsolidated) -> NewFact:
    return NewFact(
        chunk_id=fact.id,
        derived_from=tuple(payload.chunks[place].id for place in fact.chunks),
        span_start=fact.start,
        span_end=fact.end,
        content=fact.content,
        folded_hash=sha256(fold_text(fact.content).encode()),
        indexed_text=fact_form(fact.content, fact.start_date),
        importance=fact.importance,
        confidence=fact.confidence,
        start_date=fact.start_date,
        end_date=fact.end_date,
    )
