"""The active memories of one database: the writes and reads behind the facade's methods."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from agent_reminiscence.agents.plans import LabelledText
from agent_reminiscence.database.connection import PLANNED_ONCE, SqlExecutor
from agent_reminiscence.database.repositories.memory_chunk import PassageLabels
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import ActiveMemory, MemorySelection
from agent_reminiscence.domain.transfer import AddedMemory
from agent_reminiscence.domain.trust import SOURCES
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.expiry import Expiry
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import (
    AppendTextRequest,
    ArchiveRequest,
    CreateRequest,
    UnarchiveRequest,
    UpdateRequest,
)
from agent_reminiscence.services.memories.admission import list_memories
from agent_reminiscence.services.memories.appends import MemoryAppends
from agent_reminiscence.services.memories.authorship import label_passages
from agent_reminiscence.services.memories.creation import MemoryCreation
from agent_reminiscence.services.memories.restoring import MemoryRestoring
from agent_reminiscence.services.memories.talks import Talks
from agent_reminiscence.services.memories.updates import MemoryUpdates
from agent_reminiscence.services.memories.writes import MemoryRules, MemoryWrites
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.services.vectors.writing import WriteVectors


class MemoryManager:
    """Creates, reads, updates and archives the active memories of one database."""

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        embedding: EmbeddingService,
        vectors: WriteVectors,
        rules: MemoryRules,
        expiry: Expiry,
    ) -> None:
        self._store = runtime.store
        self._tables = runtime.repositories.tables
        self._filters = runtime.repositories.filters
        self._clock = runtime.clock
        self._projector = projector
        self._writes = MemoryWrites(runtime, embedding, rules)
        self._updates = MemoryUpdates(runtime, projector, vectors, self._writes)
        self._appends = MemoryAppends(runtime, projector, vectors, self._writes)
        self._creation = MemoryCreation(runtime, projector, vectors, self._writes, self._updates, self._appends, expiry)
        self._restoring = MemoryRestoring(runtime, projector, self._writes, self._updates, expiry)
        self.talks = Talks(runtime, projector, vectors, self._writes, self._creation, self._appends)

    async def create(self, request: CreateRequest) -> ActiveMemory:
        """Create a memory; see `MemoryCreation.create`."""
        return await self._creation.create(request)

    async def add_new(self, requests: Sequence[CreateRequest]) -> tuple[list[AddedMemory], int]:
        """Create many memories in one transaction; see `MemoryCreation.add_new`."""
        return await self._creation.add_new(requests)

    async def update(self, request: UpdateRequest) -> ActiveMemory:
        """Store a memory's next version; see `MemoryUpdates.update`."""
        return await self._updates.update(request)

    async def append(self, request: AppendTextRequest) -> ActiveMemory:
        """Add to the end of a memory's text; see `MemoryAppends.append`."""
        return await self._appends.append(request)

    async def archive(self, request: ArchiveRequest) -> ActiveMemory:
        """Archive a memory; see `MemoryUpdates.archive`."""
        return await self._updates.archive(request)

    async def unarchive(self, request: UnarchiveRequest) -> ActiveMemory:
        """Take an archived memory back; see `MemoryRestoring.unarchive`."""
        return await self._restoring.unarchive(request)

    async def restore_version(self, request: UpdateRequest, version: int) -> ActiveMemory:
        """Store an earlier version as the next one; see `MemoryRestoring.restore_version`."""
        return await self._restoring.restore_version(request, version)

    def updates_left(self, version: int, consolidated_version: int) -> int:
        """How many more updates a memory at `version` takes before it is consolidated."""
        return self._writes.updates_left(version, consolidated_version)

    async def get(
        self, external_id: str, selection: MemorySelection, *, where: Filter | None = None
    ) -> list[ActiveMemory]:
        """Return the selected memories that are neither archived nor expired, oldest first.

        Args:
            where: Only those that this admits; None is all.

        Raises:
            MemoryNotFoundError: The memory that the selection begins after does not exist.
        """

        async def select(db: SqlExecutor) -> list[ActiveMemory]:
            admitted, now = None, self._clock()
            if where is not None:
                admitted = await list_memories(db, self._filters, external_id, where, now=now)
            found = await self._tables.active.select(db, external_id, selection, now=now, among=admitted)
            return [self._writes.to_active(memory) for memory in found]

        async def read() -> list[ActiveMemory]:
            # A filter, and what a page begins after, are looked up first.
            if where is None and selection.after is None:
                is_lookup = any(one is not None for one in (selection.ids, selection.keys, selection.key_prefix))
                return await self._store.read_once(external_id, select, settings=PLANNED_ONCE if is_lookup else None)
            async with self._store.transaction(external_id, read_only=True) as db:
                return await select(db)

        return await repeated(read, operation="get_active_memories", external_id=external_id)

    async def get_passages(
        self, external_id: str, memories: Sequence[ActiveMemory]
    ) -> dict[UUID, tuple[LabelledText, ...]]:
        """The texts of memories, cut where their trust labels change.

        A memory that was changed or erased after it was read is one passage, with the memory's own label.
        """
        # The label of a memory is its least trusted one, so all of a user's memory is the user's.
        mixed = [memory.id for memory in memories if memory.source != SOURCES[0]]

        async def read() -> dict[UUID, PassageLabels]:
            return await self._store.read_once(
                external_id, lambda db: self._tables.chunks.find_labels(db, external_id, mixed)
            )

        labels = await repeated(read, operation="get_active_memories", external_id=external_id) if mixed else {}
        return {memory.id: label_passages(memory, labels.get(memory.id)) for memory in memories}
