"""`memory.consolidated`: a memory's chunks become shortterm, rated as the plan in the payload says."""

from __future__ import annotations

from datetime import date

from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.memory_chunk import NewFact
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.index import chunk_number
from agent_reminiscence.domain.memory import ShorttermMemory
from agent_reminiscence.domain.payloads import (
    ChunkRating,
    FactEntry,
    MemoryConsolidated,
    read_payload,
)
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.indexed_text import IndexedText, index_fact
from agent_reminiscence.projections.texts import lay_out
from agent_reminiscence.text.days import day_of, other_day_in
from agent_reminiscence.text.folding import fold_text

# The lowest trust, whoever said what it was made from.
FACT_SOURCE: Source = "model"


async def apply_consolidated(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Move the plan's chunks to shortterm, end repetitions, store summary and facts, and add to the graph."""
    payload = await read_payload(MemoryConsolidated, ChunkRating, event)
    marked = await tables.active.mark_consolidated(db, event.external_id, payload.memory_id, version=payload.version)
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
    if payload.facts:
        await _add_facts(db, tables, event, payload)
    # After the chunks: a mention counts only if its chunk is live.
    await tables.graph.record(
        db,
        event.external_id,
        payload.graph,
        chunk_ids=[chunk.id for chunk in payload.chunks],
        memory_id=payload.memory_id,
        position=event.position,
        recorded_at=event.recorded_at,
    )
    await marked.result()
    if not payload.facts and not ended:
        return Change()
    return await lay_out(db, tables, event, [payload.memory_id], live_chunks=len(payload.facts) - ended)


async def _add_facts(db: SqlExecutor, tables: Tables, event: Event, payload: MemoryConsolidated) -> None:
    memory = await tables.active.get_by_id(db, event.external_id, payload.memory_id)
    zone = stored_zone(memory.timezone)
    facts, posted = [], []
    for index, fact in enumerate(payload.facts):
        number = chunk_number(event.position, index)
        indexed = index_fact(fact.content, day_of(fact.start_date, zone), language=memory.language)
        said_on = other_day_in(fact.start_date, zone)
        facts.append(_new_fact(fact, payload, number, indexed, said_on))
        posted.append(indexed.posted(number))
    await tables.chunks.add_facts(
        db,
        event.external_id,
        payload.memory_id,
        facts,
        memory_version=payload.version,
        source=FACT_SOURCE,
        recorded_at=event.recorded_at,
    )
    await tables.index.add_texts(db, event.external_id, payload.memory_id, posted)


def _new_fact(
    fact: FactEntry, payload: MemoryConsolidated, number: int, indexed: IndexedText, said_on: date | None
) -> NewFact:
    return NewFact(
        chunk_id=fact.id,
        number=number,
        derived_from=tuple(payload.chunks[index].id for index in fact.chunks),
        span_start=fact.start,
        span_end=fact.end,
        content=fact.content,
        folded_hash=sha256(fold_text(fact.content).encode()),
        text_hash=indexed.text_hash,
        words=indexed.words,
        text_flags=indexed.flags,
        importance=fact.importance,
        confidence=fact.confidence,
        start_date=fact.start_date,
        end_date=fact.end_date,
        said_on=said_on,
    )
