"""The ids of the turns that memories hold."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.turn import turn_scope

_SQL = load_queries("sql", "memory_turn")


class MemoryTurnRepository:
    """Rows of `memory_turn`."""

    async def add(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, key: str | None, turn_ids: Sequence[str]
    ) -> None:
        """Record that the memory with this key holds these turns."""
        if turn_ids:
            params = {
                "external_id": external_id,
                "scope": turn_scope(memory_id, key),
                "memory_id": memory_id,
                "turn_ids": list(turn_ids),
            }
            await db.defer(_SQL["add_turns"], params)

    async def replace(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, key: str | None, turn_ids: Sequence[str]
    ) -> None:
        """Record that the memory with this key holds these turns and no others."""
        await db.defer(_SQL["delete_turns"], {"external_id": external_id, "memory_id": memory_id})
        await self.add(db, external_id, memory_id, key, turn_ids)

    async def find_known(self, db: SqlExecutor, external_id: str, scope: UUID, turn_ids: Sequence[str]) -> set[str]:
        """Return which of these turns are stored in a scope: a memory, or all memories of a conversation."""
        if not turn_ids:
            return set()
        params = {"external_id": external_id, "scope": scope, "turn_ids": list(turn_ids)}
        return {row["turn_id"] for row in await db.fetch_all(_SQL["find_turns"], params)}
