"""`memory.admin`: what is not daily work."""

from __future__ import annotations

from uuid import UUID

from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.domain.memory import ActiveMemory, ConsolidationReport
from agent_reminiscence.projections import Tables
from agent_reminiscence.services import validation
from agent_reminiscence.services.consolidation import ConsolidationService
from agent_reminiscence.services.memory_manager import MemoryManager
from agent_reminiscence.services.requests import ArchiveRequest


class MemoryAdmin:
    """Maintenance of one database's memories."""

    def __init__(
        self, store: PostgresManager, tables: Tables, manager: MemoryManager, consolidation: ConsolidationService
    ) -> None:
        self._store = store
        self._tables = tables
        self._manager = manager
        self._consolidation = consolidation

    async def consolidate(
        self, external_id: str | int | UUID, memory_id: UUID | str | None = None
    ) -> list[ConsolidationReport]:
        """Consolidate now what would be consolidated later, fill in missing vectors, and promote what is important.

        Args:
            memory_id: One memory; None is all of the tenant's, archived ones too, oldest first.

        Returns:
            What was done, one report for each memory. A version that was consolidated before is not again.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is away; what was done until then stays done.
        """
        tenant = validation.external_id(external_id)
        if memory_id is not None:
            return [await self._consolidation.consolidate(tenant, validation.memory_id(memory_id))]
        async with self._store.transaction(tenant, read_only=True) as db:
            memory_ids = await self._tables.active.find_ids(db, tenant)
        return [await self._consolidation.consolidate(tenant, found) for found in memory_ids]

    async def archive(self, external_id: str | int | UUID, memory_id: UUID | str) -> ActiveMemory:
        """Finish an active memory: it leaves the active list and takes no update; its chunks stay searchable.

        Raises:
            InvalidInputError: An argument is refused.
            MemoryNotFoundError: `external_id` has no such memory.
            StoreError: The store is away.
        """
        request = ArchiveRequest(
            external_id=validation.external_id(external_id), memory_id=validation.memory_id(memory_id)
        )
        return await self._manager.archive(request)
