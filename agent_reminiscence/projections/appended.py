"""`memory.appended`: a memory's text grows at its end; nothing that stood there changes."""

from __future__ import annotations

from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.active_memory import AppendedText
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.canonical import beside
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import ChunkEntry, MemoryAppended, read_payload
from agent_reminiscence.domain.trust import least_trusted
from agent_reminiscence.domain.turn import turn_ids
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.created import index_entries
from agent_reminiscence.projections.texts import Reading, add_texts, lay_out, reread


async def apply_appended(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Store the new version; only what it adds is indexed, unless its language has changed."""
    payload = await read_payload(MemoryAppended, ChunkEntry, event)
    external_id, memory_id = event.external_id, payload.memory_id
    before = await tables.active.get_outline(db, external_id, memory_id)
    language = payload.language or before.language
    segment = await tables.active.append(
        db,
        external_id,
        before,
        AppendedText(
            version=payload.version,
            content=payload.content,
            turns=payload.turns,
            language=language,
            language_origin=payload.language_origin or before.language_origin,
            source=least_trusted([before.source, event.source]),
            actor=event.actor,
            conversation_id=event.conversation_id or before.conversation_id,
            occurred_at=event.occurred_at,
            updated_at=event.recorded_at,
            is_due=payload.consolidation_due,
            chunk_ids=tuple(chunk.id for chunk in payload.chunks),
            chunk_starts=tuple(chunk.start for chunk in payload.chunks),
        ),
    )
    await tables.turns.add(db, external_id, memory_id, before.key, turn_ids(payload.turns))
    if language != before.language:
        zone = stored_zone(before.timezone)
        await reread(db, tables, event, memory_id, before=Reading(before.language, zone), after=Reading(language, zone))
    white_space = payload.content[: payload.chunks[0].start - payload.start]
    if white_space and before.last_chunk_id is not None:
        await tables.chunks.extend(db, external_id, before.last_chunk_id, white_space)

    indexed = await beside(
        lambda: index_entries(
            event,
            payload.chunks,
            payload.content,
            language=language,
            zone=stored_zone(before.timezone),
            start=payload.start,
            order=before.chunks,
        ),
        value=payload.content,
    )
    await tables.chunks.add(
        db,
        external_id,
        memory_id,
        [chunk for chunk, _ in indexed],
        memory_version=payload.version,
        recorded_at=event.recorded_at,
    )
    days = {chunk.day for chunk, _ in indexed}
    await add_texts(
        db,
        tables,
        event,
        memory_id,
        title=before.title,
        language=language,
        days=days - await tables.index.find_heading_days(db, external_id, memory_id, before.title),
        chunks=[posted for _, posted in indexed],
    )
    return await lay_out(
        db,
        tables,
        event,
        [memory_id],
        live_chunks=len(indexed),
        language=language,
        # In another language, all of it has other terms.
        from_segment=segment if language == before.language else 0,
    )
