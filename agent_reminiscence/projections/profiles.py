"""`memory.profile_defined`, `memory.profile_written`, `memory.profile_removed`: the states of standing summaries."""

from __future__ import annotations

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import ProfileDefined, ProfileRemoved, ProfileWritten
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.projections.change import Change


async def apply_profile_defined(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Begin a profile, or change it. Its text stays if the question does: it still answers it."""
    payload = ProfileDefined.model_validate(event.payload)
    former = await tables.profiles.find(db, event.external_id, payload.name)
    state = Profile(
        name=payload.name,
        question=payload.question,
        refresh=payload.refresh,
        max_tokens=payload.max_tokens,
        refresh_tokens=payload.refresh_tokens,
        definition=event.position,
        defined_at=event.recorded_at,
        recorded_at=event.recorded_at,
    )
    if former is not None and former.question == payload.question:
        state = state.model_copy(update={name: getattr(former, name) for name in Profile.FIELDS_OF_TEXT})
    await tables.profiles.end(db, event.external_id, payload.name, recorded_at=event.recorded_at)
    await tables.profiles.add(db, event.external_id, event.position, state)
    return Change()


async def apply_profile_written(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Give a profile a new text; nothing happens if its definition has been erased or replaced."""
    payload = ProfileWritten.model_validate(event.payload)
    former = await tables.profiles.find(db, event.external_id, payload.name)
    if former is None or former.definition != payload.definition:
        return Change()
    written = {
        "text": payload.content,
        "citations": payload.citations,
        "made_by": payload.made_by,
        "model": payload.model,
        "source": event.source,
        "cited_source": payload.cited_source,
        "written_from": payload.written_from,
        "written_at": event.occurred_at,
    }
    await tables.profiles.end(db, event.external_id, payload.name, recorded_at=event.recorded_at)
    state = former.model_copy(update=written | {"recorded_at": event.recorded_at})
    await tables.profiles.add(db, event.external_id, event.position, state)
    return Change()


async def apply_profile_removed(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """End a profile; its earlier states stay."""
    payload = ProfileRemoved.model_validate(event.payload)
    await tables.profiles.end(db, event.external_id, payload.name, recorded_at=event.recorded_at)
    return Change()
