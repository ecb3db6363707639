"""Beliefs in PostgreSQL: what reflections say, and what decides whether they count."""

from __future__ import annotations

import json
from uuid import UUID

from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array
from agent_reminiscence.domain.belief import Reflection, StatedBelief
from agent_reminiscence.domain.canonical import beside_many
from agent_reminiscence.domain.event import Event

_SQL = load_queries("sql", "belief")


class BeliefRepository:
    """Rows of `belief`."""

    async def add(self, db: SqlExecutor, event: Event, reflection: Reflection) -> None:
        """Store what the reflection of an agent says, for the handler of its event."""
        params = {
            "external_id": event.external_id,
            "position": event.position,
            "event_id": event.event_id,
            "actor": event.actor,
            "turn": event.turn,
            "text": reflection.belief,
            "based_on": uuid_array(reflection.based_on),
            "replaces": reflection.replaces,
            "contradicts": uuid_array(reflection.contradicts),
        }
        await db.defer(_SQL["add_belief"], params)

    async def read_after(self, db: SqlExecutor, external_id: str, *, after: int) -> list[StatedBelief]:
        """Return what is stated after a position, in order of position; 0 is everything."""
        params = {"external_id": external_id, "after": after}
        rows = await db.fetch_all(_SQL["read_beliefs_after"], params)
        return await beside_many(lambda: [_stated(row) for row in rows], items=len(rows))

    async def read(self, db: SqlExecutor, external_id: str, *, after: UUID | None, limit: int) -> list[StatedBelief]:
        """Return a page of everything stated after `after`, in order of ids."""
        params = {"external_id": external_id, "after": after, "limit": limit}
        return [_stated(row) for row in await db.fetch_all(_SQL["read_beliefs"], params)]


def _stated(row: Row) -> StatedBelief:
    named = json.loads(row["named"])
    rested = row["based_on"]
    contradicted = rested + row["contradicts"]
    replaced = named[contradicted:]
    links = {
        "based_on": named[:rested],
        "contradicts": named[rested:contradicted],
        "replaces": replaced[0] if replaced else None,
    }
    return StatedBelief.model_validate(row | links)
