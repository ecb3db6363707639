"""What an agent has seen and believes, read from the ledger: which events count is decided by the views."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.event_ledger import event_from_row, events_from_rows
from agent_reminiscence.domain.belief import REFLECTED, needed_to_read
from agent_reminiscence.domain.event import Event

_SQL = load_queries("sql", "reflection")

# Larger than any position.
ANY_POSITION: Final = 2**63 - 1
# Payloads may have a MiB each.
_MAX_BYTES: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Onlooker:
    """An agent that shares a ledger with others.

    Attributes:
        name: The `actor` of its own events.
        kinds: The kinds that it sees whoever wrote them.
    """

    external_id: str
    name: str
    kinds: tuple[str, ...]

    def params(self, **others: Any) -> dict[str, Any]:
        """Parameters of a statement about what it sees."""
        return {"external_id": self.external_id, "actor": self.name, "kinds": list(self.kinds), **others}


class Counts(NamedTuple):
    """How many events an agent has seen, each counted up to a number that was asked for.

    Attributes:
        events: Those that are no reflections.
        own: Its own reflections.
        others: Reflections of others, whether or not it sees what they rest on.
    """

    events: int
    own: int
    others: int


class ReflectionRepository:
    """Reads the ledger with an agent's eyes."""

    async def find_last(
        self, db: SqlExecutor, onlooker: Onlooker, *, most: int, before: int = ANY_POSITION
    ) -> tuple[Event | None, Counts]:
        """Return the agent's last reflection before a position, valid or not, and how many events it has seen since.

        Args:
            most: Where to stop counting.
        """
        rows = await db.fetch_all(_SQL["find_last"], onlooker.params(most=most, before=before))
        seen = Counts(*(int(rows[0].pop(name)) for name in Counts._fields))
        return (None if rows[0]["position"] is None else event_from_row(rows[0])), seen

    async def find_asked(
        self, db: SqlExecutor, onlooker: Onlooker, *, after: int, most: int
    ) -> tuple[int, Counts] | None:
        """Return up to where a model was last asked in vain, and how many events the agent has seen since; or None.

        Args:
            after: Look only after this position.
            most: Where to stop counting.
        """
        row = await db.fetch_one(_SQL["find_asked"], onlooker.params(after=after, most=most))
        return None if row is None else (int(row["until"]), Counts(*(int(row[name]) for name in Counts._fields)))

    async def read_seen(self, db: SqlExecutor, onlooker: Onlooker, *, after: int, limit: int) -> list[Event]:
        """Return the last events that the agent has seen after a position, in order, as fit comfortably into memory.

        Other agents' reflections are left out: whether the agent sees one depends on what that rests on.
        """
        params = onlooker.params(after=after, limit=limit, max_bytes=_MAX_BYTES)
        return await events_from_rows(await db.fetch_all(_SQL["read_seen"], params))

    async def read_own(
        self, db: SqlExecutor, onlooker: Onlooker, *, limit: int, before: int = ANY_POSITION
    ) -> list[Event]:
        """Return the last reflections of the agent before a position, the newest first."""
        params = {"external_id": onlooker.external_id, "actor": onlooker.name, "limit": limit, "before": before}
        return await events_from_rows(await db.fetch_all(_SQL["read_own"], params))

    async def read_others(self, db: SqlExecutor, onlooker: Onlooker, *, limit: int) -> list[Event]:
        """Return the last reflections of all others, the newest first."""
        params = {"external_id": onlooker.external_id, "actor": onlooker.name, "limit": limit}
        return await events_from_rows(await db.fetch_all(_SQL["read_others"], params))

    async def read_heads(self, db: SqlExecutor, external_id: str, event_ids: Collection[UUID]) -> list[Event]:
        """Return some events, reflections with their payloads and others without; those not there are left out."""
        if not event_ids:
            return []
        params = {"external_id": external_id, "event_ids": sorted(event_ids)}
        return await events_from_rows(await db.fetch_all(_SQL["read_heads"], params))

    async def read_grounds(self, db: SqlExecutor, external_id: str, event_ids: Collection[UUID]) -> list[Event]:
        """Return some events, and of reflections all that they rest on and replace, and so on along the line.

        So it can be told who sees them. They are as `read_heads` returns them, in no order.
        """
        known: list[Event] = []
        looked: set[UUID] = set()
        left = set(event_ids)
        while left:
            looked |= left
            found = await self.read_heads(db, external_id, left)
            known += found
            reflections = (event for event in found if event.kind == REFLECTED)
            left = {one for event in reflections for one in needed_to_read(event.payload)} - looked
        return known

    async def are_there(self, db: SqlExecutor, external_id: str, event_ids: Collection[UUID]) -> bool:
        """Whether all of some events are there, and none is erased."""
        params = {"external_id": external_id, "event_ids": sorted(event_ids)}
        row = await db.fetch_one(_SQL["count_held"], params)
        return row is not None and int(row["held"]) == len(set(event_ids))
