"""What is probably out of date."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import uuid_array
from agent_reminiscence.domain.outdated import OutdatedMark

_SQL = load_queries("sql", "outdated_chunk")


class OutdatedChunkRepository:
    """Rows of `outdated_chunk`."""

    async def add(
        self,
        db: SqlExecutor,
        external_id: str,
        marks: Sequence[OutdatedMark],
        *,
        position: int,
        recorded_at: datetime,
        only_live: bool = True,
    ) -> None:
        """Record that the event at `position` says so of these chunks; those that do not exist are left out.

        Args:
            only_live: Leave out chunks that have ended, too.
        """
        if not marks:
            return
        params = {
            "external_id": external_id,
            "position": position,
            "recorded_at": recorded_at,
            "only_live": only_live,
            "chunk_ids": uuid_array([mark.chunk_id for mark in marks]),
            "parts": list(range(len(marks))),
            "starts": [None if mark.span is None else mark.span[0] for mark in marks],
            "ends": [None if mark.span is None else mark.span[1] for mark in marks],
            "since": [mark.since for mark in marks],
            "by_chunks": uuid_array([mark.by for mark in marks]),
        }
        await db.defer(_SQL["add_marks"], params)

    async def read(self, db: SqlExecutor, external_id: str, chunk_ids: Sequence[UUID]) -> list[OutdatedMark]:
        """Return all marks that name one of these chunks, as older or as newer, whether they hold or not."""
        params = {"external_id": external_id, "chunk_ids": uuid_array(chunk_ids)}
        return [_mark(row) for row in await db.fetch_all(_SQL["read_marks"], params)]

    async def find(
        self,
        db: SqlExecutor,
        external_id: str,
        chunk_ids: Sequence[UUID],
        *,
        known_at: datetime,
        as_of: datetime | None = None,
    ) -> list[OutdatedMark]:
        """Return the marks of these chunks that hold, by chunk, the earliest first.

        Args:
            known_at: By what was known then; without `as_of` this is the present moment.
            as_of: The moment in the world; None is now.
        """
        params = {
            "external_id": external_id,
            "chunk_ids": uuid_array(chunk_ids),
            "as_of": as_of,
            "known_at": known_at,
        }
        return [_mark(row) for row in await db.fetch_all(_SQL["find_marks"], params)]


def _mark(row: Row) -> OutdatedMark:
    span = None if row["span_start"] is None else (row["span_start"], row["span_end"])
    return OutdatedMark(UUID(row["chunk_id"]), span, row["since"], UUID(row["by_chunk"]))
