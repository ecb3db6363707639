"""Reflections: users' events that are also beliefs of the agent that wrote them."""

from __future__ import annotations

from pydantic import ValidationError

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.repositories import Tables
from agent_reminiscence.domain.belief import Reflection
from agent_reminiscence.domain.event import Event
from agent_reminiscence.projections.change import Change
from agent_reminiscence.projections.user_events import apply_user_event


async def apply_reflected(db: SqlExecutor, tables: Tables, event: Event) -> Change:
    """Index a reflection like any event, and store the belief that it states.

    An event of this kind that says something else, or that nobody wrote, is only indexed. Whether a belief counts is
    decided when it is read: it depends on which kinds of events everybody sees, and a handler reads no configuration.
    """
    change = await apply_user_event(db, tables, event)
    if event.actor is None:
        return change
    try:
        reflection = Reflection.model_validate(event.payload)
    except ValidationError:
        return change
    await tables.beliefs.add(db, event, reflection)
    return Change(states_belief=True)
