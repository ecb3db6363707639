"""The active tier: whole texts being worked on."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from agent_reminiscence.database.connection import Deferred, Row, SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.arrays import int_array, uuid_array
from agent_reminiscence.domain.memory import StoredMemory
from agent_reminiscence.exceptions import MemoryNotFoundError, VersionConflictError

_SQL = load_queries("sql", "active_memory")


class ActiveMemoryRepository:
    """Rows of `active_memory`."""

    async def create(self, db: SqlExecutor, memory: StoredMemory) -> None:
        """Store a new memory."""
        await db.defer(_SQL["create_active_memory"], _params(memory))

    async def get_by_id(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> StoredMemory:
        """Return the memory, archived or not.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        return await (await self.ask_by_id(db, external_id, memory_id)).result()

    async def ask_by_id(self, db: SqlExecutor, external_id: str, memory_id: UUID) -> Deferred[StoredMemory]:
        """Like `get_by_id`, but deferred."""

        def read(rows: list[Row]) -> StoredMemory:
            if not rows:
                raise MemoryNotFoundError(external_id, memory_id)
            return _memory(rows[0])

        return await db.ask(_SQL["get_active_memory"], {"external_id": external_id, "memory_id": memory_id}, read)

    async def get_all(self, db: SqlExecutor, external_id: str) -> list[StoredMemory]:
        """Return all memories that are not archived, oldest first."""
        return [
            _memory(row) for row in await db.fetch_all(_SQL["get_all_active_memories"], {"external_id": external_id})
        ]

    async def count_active(self, db: SqlExecutor, external_id: str) -> int:
        """Return how many memories are not archived."""
        row = await db.fetch_one(_SQL["count_active_memories"], {"external_id": external_id})
        return 0 if row is None else int(row["memories"])

    async def find_told_language(self, db: SqlExecutor, external_id: str) -> str | None:
        """Return the latest recognised or given language among the last hundred memories; None if there is none."""
        row = await db.fetch_one(_SQL["find_told_language"], {"external_id": external_id})
        return None if row is None else str(row["language"])

    async def is_to_consolidate(self, db: SqlExecutor, external_id: str, memory_id: UUID, *, version: int) -> bool:
        """Whether a memory still has this version and the version is not consolidated."""
        row = await db.fetch_one(_SQL["get_versions"], {"external_id": external_id, "memory_id": memory_id})
        return row is not None and row["version"] == version and row["consolidated_version"] < version

    async def ask_whether_to_consolidate(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, *, version: int
    ) -> Deferred[bool]:
        """Like `is_to_consolidate`, but deferred; raises MemoryNotFoundError if the memory does not exist."""

        def read(rows: list[Row]) -> bool:
            if not rows:
                raise MemoryNotFoundError(external_id, memory_id)
            return bool(rows[0]["version"] == version and rows[0]["consolidated_version"] < version)

        return await db.ask(_SQL["get_versions"], {"external_id": external_id, "memory_id": memory_id}, read)

    async def are_there(self, db: SqlExecutor, external_id: str, memory_ids: Collection[UUID]) -> bool:
        """Whether all of these memories exist, archived or not."""
        if not memory_ids:
            return True
        params = {"external_id": external_id, "memory_ids": list(memory_ids)}
        row = await db.fetch_one(_SQL["count_memories"], params)
        return row is not None and row["memories"] == len(memory_ids)

    async def find_ids(self, db: SqlExecutor, external_id: str) -> list[UUID]:
        """Return the ids of all memories, including archived ones, oldest first."""
        rows = await db.fetch_all(_SQL["find_memory_ids"], {"external_id": external_id})
        return [UUID(row["memory_id"]) for row in rows]

    async def update(self, db: SqlExecutor, memory: StoredMemory, *, expected_version: int) -> None:
        """Store `memory` in place of its version `expected_version`.

        Raises:
            VersionConflictError: Another writer was first; read again and decide again.
        """
        rows = await db.fetch_all(
            _SQL["update_active_memory"], _params(memory) | {"expected_version": expected_version}
        )
        if not rows:
            stored = await self.get_by_id(db, memory.external_id, memory.memory_id)
            raise VersionConflictError(memory.external_id, memory.memory_id, expected_version, stored.version)

    async def archive(self, db: SqlExecutor, external_id: str, memory_id: UUID, *, archived_at: datetime) -> None:
        """Take the memory off the active list; its text and chunks stay.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        params = {"external_id": external_id, "memory_id": memory_id, "archived_at": archived_at}
        if not await db.fetch_all(_SQL["archive_active_memory"], params):
            raise MemoryNotFoundError(external_id, memory_id)

    async def mark_consolidated(
        self, db: SqlExecutor, external_id: str, memory_id: UUID, *, version: int
    ) -> Deferred[None]:
        """Record `version` as the last one that was consolidated.

        Returns:
            A deferred None; it raises MemoryNotFoundError if `external_id` has no such memory.
        """

        def check(rows: list[Row]) -> None:
            if not rows:
                raise MemoryNotFoundError(external_id, memory_id)

        params = {"external_id": external_id, "memory_id": memory_id, "version": version}
        return await db.ask(_SQL["mark_consolidated"], params, check)


def _params(memory: StoredMemory) -> dict[str, Any]:
    return memory.model_dump(exclude={"chunk_ids", "chunk_starts"}) | {
        "metadata": json.dumps(memory.metadata, ensure_ascii=False),
        "chunk_ids": uuid_array(memory.chunk_ids),
        "chunk_starts": int_array(memory.chunk_starts),
    }


def _memory(row: Row) -> StoredMemory:
    return StoredMemory.model_validate(row | {"metadata": json.loads(row["metadata"])})
