"""Users' own kinds of events: they change no tier, and are indexed by what they say."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_text import event_text
from agent_reminiscence.domain.index import chunk_number
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.indexed_text import embedded_text, index_chunk
from agent_reminiscence.text.folding import fold_name

# A longer text is cut.
MAX_INDEXED_CHARACTERS = 10_000
# Events do not say in which language they are written.
_LANGUAGE = "en"


def indexed_event_text(event: Event) -> str:
    """The text of an event as it is indexed and embedded."""
    return embedded_text(event_text(event)[:MAX_INDEXED_CHARACTERS])


async def apply_user_event(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Index what an event says."""
    actor_key = None if event.actor is None else fold_name(event.actor)
    text = index_chunk(indexed_event_text(event), language=_LANGUAGE, said_at=event.occurred_at, speaker_key=actor_key)
    await tables.event_index.add(
        db,
        event,
        text.posted(chunk_number(event.position, 0)),
        actor_key=actor_key,
        text_flags=text.flags,
        text_hash=text.text_hash,
    )
    return Change()
