"""Records that memories have expired.

No search waits for this: from its `expires_at` on, a memory is not found, by the clock of whoever asks. The event makes
the rest follow, which has no clock: chunks end, the graph loses what rested on them, and the key is free for others.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.memory import StoredMemory
from agent_reminiscence.domain.payloads import MemoryArchived
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest

# One transaction's share, because the stream's writers wait for it.
_BATCH_MEMORIES: Final = 20


class Expiry:
    """Appends `memory.archived` for memories whose `expires_at` has come."""

    def __init__(
        self, store: PostgresManager, repositories: Repositories, projector: Projector, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._active = repositories.tables.active
        self._ledger = repositories.events
        self._projector = projector
        self._clock = clock

    async def record(self, db: SqlExecutor, memory: StoredMemory) -> None:
        """Record that a memory has expired, at its `expires_at`, in a transaction that has locked the stream."""
        assert memory.expires_at is not None, "a memory without expires_at does not expire"
        payload = MemoryArchived(memory_id=memory.memory_id, version=memory.version, end_chunks=True, expired=True)
        request = WriteRequest(external_id=memory.external_id, source=memory.source)
        await self._projector.record(
            db, request.event(EventKind.ARCHIVED, payload.model_dump(mode="json"), memory.expires_at)
        )
        # It may have been the only memory to consolidate.
        await self._ledger.clear_due(db, memory.external_id)

    async def find_holder(self, db: SqlExecutor, external_id: str, key: str) -> StoredMemory | None:
        """The active memory that has a key, in a transaction that has locked the stream.

        One that has expired gives its key up: its expiry is recorded.
        """
        holder = await self._active.find_by_key(db, external_id, key)
        if holder is not None and holder.has_expired(self._clock()):
            await self.record(db, holder)
            return None
        return holder

    async def record_due(self, external_id: str) -> int:
        """Record all expiries of a stream whose time has come; returns how many.

        May run at any time, any number of times and concurrently: each is checked again under the stream's lock.
        """
        recorded = 0
        while True:
            found = await repeated(
                partial(self._find, external_id, limit=_BATCH_MEMORIES), operation="expire", external_id=external_id
            )
            if not found:
                return recorded
            recorded += await repeated(
                partial(self._record_all, external_id, found),
                operation="expire",
                external_id=external_id,
                # What has been recorded is not found again.
                repeatable=True,
            )

    async def _find(self, external_id: str, *, limit: int) -> list[UUID]:
        now = self._clock()
        return await self._store.read_once(
            external_id, lambda db: self._active.find_expired(db, external_id, now=now, limit=limit)
        )

    async def _record_all(self, external_id: str, memory_ids: list[UUID]) -> int:
        async with self._store.transaction(external_id) as db:
            await self._projector.begin(db, WriteRequest(external_id=external_id))
            expired = set(
                await self._active.find_expired(db, external_id, now=self._clock(), limit=2 * _BATCH_MEMORIES)
            )
            chosen = [memory_id for memory_id in memory_ids if memory_id in expired]
            for memory_id in chosen:
                await self.record(db, await self._active.get_by_id(db, external_id, memory_id))
        return len(chosen)

    async def next_at(self, external_id: str) -> datetime | None:
        """When the next memory expires whose expiry is not recorded; None if none does."""
        return await self._store.read_once(external_id, lambda db: self._active.find_next_expiry(db, external_id))
