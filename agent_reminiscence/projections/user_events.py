"""Users' own kinds of events: they change no tier, and are indexed by what they say."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_text import EVENT_LANGUAGE, indexed_event_text
from agent_reminiscence.domain.index import chunk_number
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.indexed_text import index_chunk
from agent_reminiscence.text.folding import fold_name


async def apply_user_event(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Index what an event says."""
    actor_key = None if event.actor is None else fold_name(event.actor)
    text = index_chunk(
        indexed_event_text(event), language=EVENT_LANGUAGE, said_at=event.occurred_at, speaker_key=actor_key
    )
    await tables.event_index.add(
        db,
        event,
        text.posted(chunk_number(event.position, 0)),
        actor_key=actor_key,
        text_flags=text.flags,
        text_hash=text.text_hash,
    )
    return Change()
