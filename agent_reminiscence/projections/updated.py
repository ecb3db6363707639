"""`memory.updated`: a new version; equal chunks stay, changed ones supersede, vanished ones end."""

from __future__ import annotations

from agent_reminiscence.database.postgres_manager import SqlExecutor
from agent_reminiscence.domain.event import Event, MemoryUpdated
from agent_reminiscence.projections.created import new_chunk
from agent_reminiscence.projections.forms import PlacedChunk, indexed_forms, neighbourhood
from agent_reminiscence.projections.tables import Tables


async def apply_updated(db: SqlExecutor, tables: Tables, event: Event) -> int:
    """Store the new version; returns how many more chunks are live."""
    payload = MemoryUpdated.model_validate(event.payload)
    external_id, memory_id = event.external_id, payload.memory_id
    before = await tables.active.get_by_id(db, external_id, memory_id)
    old_chunks = {chunk.chunk_id: chunk for chunk in await tables.chunks.get_layout(db, external_id, memory_id)}
    after = before.model_copy(
        update={
            **payload.changes,
            "version": payload.version,
            "source": event.source,
            "actor": event.actor,
            "conversation_id": event.conversation_id,
            "occurred_at": event.occurred_at,
            "updated_at": event.recorded_at,
            "due_version": payload.version if payload.consolidation_due else before.due_version,
            "chunk_ids": tuple(chunk.id for chunk in payload.chunks),
            "chunk_starts": tuple(chunk.start for chunk in payload.chunks),
        }
    )
    await tables.active.update(db, after, expected_version=before.version)

    placed = [
        PlacedChunk(c.id, after.content[c.start : c.end], event.occurred_at if c.new else old_chunks[c.id].start_date)
        for c in payload.chunks
    ]
    new = [(order, entry) for order, entry in enumerate(payload.chunks) if entry.new]
    await tables.chunks.add(
        db,
        external_id,
        memory_id,
        [
            new_chunk(event, entry, order, placed[order].content, indexed_forms(after.title, placed, order))
            for order, entry in new
        ],
        memory_version=payload.version,
        source=event.source,
        start_date=event.occurred_at,
        recorded_at=event.recorded_at,
    )

    await tables.chunks.retouch(
        db,
        external_id,
        {
            entry.id: (placed[order].content, entry.metadata)
            for order, entry in enumerate(payload.chunks)
            if not entry.new
            and (placed[order].content, entry.metadata) != (old_chunks[entry.id].content, old_chunks[entry.id].metadata)
        },
    )
    # Only chunks whose windows or title changed are indexed again: at most two each side of an edit.
    old_places = {chunk_id: place for place, chunk_id in enumerate(before.chunk_ids)}
    await tables.chunks.reform(
        db,
        external_id,
        {
            entry.id: indexed_forms(after.title, placed, order)
            for order, entry in enumerate(payload.chunks)
            if not entry.new
            and (
                after.title != before.title
                or neighbourhood(after.chunk_ids, order) != neighbourhood(before.chunk_ids, old_places[entry.id])
            )
        },
    )

    kept = {entry.id for entry in payload.chunks}
    dropped = [chunk_id for chunk_id in before.chunk_ids if chunk_id not in kept]
    ended = await tables.chunks.end(db, external_id, dropped, recorded_at=event.recorded_at, ended_at=event.occurred_at)
    ended += await tables.chunks.end_facts(
        db, external_id, dropped, recorded_at=event.recorded_at, ended_at=event.occurred_at
    )
    await tables.graph.end_mentions(
        db,
        external_id,
        dropped,
        ended_at=event.occurred_at,
        recorded_at=event.recorded_at,
        position=event.position,
    )
    if dropped or event.occurred_at < before.occurred_at:
        # A late correction: from then on this version holds, whatever was thought to have been true in between.
        await tables.chunks.correct_end_dates(
            db,
            external_id,
            memory_id,
            kept=after.chunk_ids,
            recorded_at=event.recorded_at,
            ended_at=event.occurred_at,
        )
    return len(new) - ended
