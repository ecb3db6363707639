"""What the ledger says of memories at other moments than now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.event_ledger import event_from_row
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.search import SearchRequest

_SQL = load_queries("sql", "history")


class HistoryRepository:
    """Reads the ledger by memory and by time."""

    async def read_memories(
        self, db: SqlExecutor, external_id: str, *, known_at: datetime | None, after: int, limit: int
    ) -> list[Event]:
        """Return at most `limit` events of all memories after position `after`, recorded until `known_at`, in order."""
        params = {"external_id": external_id, "known_at": known_at, "after": after, "limit": limit}
        rows = await db.fetch_all(_SQL["read_memory_events_of_stream"], params)
        return [event_from_row(row) for row in rows]

    async def name_as_then(self, db: SqlExecutor, request: SearchRequest, rows: Sequence[Row]) -> None:
        """Give the rows of a search of another moment the titles and metadata that their memories had then.

        Rows of any other search keep theirs.
        """
        if request.as_of is None or not rows:
            return
        params = {
            "external_id": request.external_id,
            "memory_ids": sorted({str(row["memory_id"]) for row in rows}),
            "as_of": request.as_of,
            "known_at": request.known_at,
        }
        then = {UUID(row["memory_id"]): row for row in await db.fetch_all(_SQL["read_past_memories"], params)}
        for row in rows:
            past = then.get(row["memory_id"])
            if past is None:
                continue
            row["title"] = past["title"] or row["title"]
            metadata = json.loads(past["metadata"] or "{}") or {}
            row["memory_metadata"] = {name: value for name, value in metadata.items() if name != "turns"}

    async def find_titles(
        self, db: SqlExecutor, external_id: str, memory_ids: Sequence[UUID], *, as_of: datetime, known_at: datetime
    ) -> dict[UUID, str]:
        """Return the titles of memories at `as_of`, by what was known at `known_at`."""
        params = {
            "external_id": external_id,
            "memory_ids": sorted(map(str, memory_ids)),
            "as_of": as_of,
            "known_at": known_at,
        }
        return {UUID(row["memory_id"]): row["title"] for row in await db.fetch_all(_SQL["find_titles"], params)}
