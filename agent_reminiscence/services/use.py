"""Counts which chunks recall returns, without slowing it: in memory first, and to the database every few seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from agent_reminiscence.config import constants
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.chunk_use import ChunkUseRepository
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.retries import repeated
from agent_reminiscence.telemetry import detached

_logger = logging.getLogger("agent_reminiscence.use")

# A crash of the server may lose the last of what was counted; nobody waits for the disk for that.
_SETTINGS = {"synchronous_commit": "off"}


class UseRecorder:
    """Counts uses of chunks and writes them in the background.

    Uses are soft state: what a crash loses, or what comes when too much is waiting, is not counted. No error reaches a
    caller.

    Args:
        write_seconds: How long uses are collected before they are written.
        max_pending_chunks: How many chunks are counted at most until then.
    """

    def __init__(
        self,
        store: PostgresManager,
        uses: ChunkUseRepository,
        *,
        clock: Callable[[], datetime],
        write_seconds: float = constants.USE_WRITE_SECONDS,
        max_pending_chunks: int = constants.USE_MAX_PENDING_CHUNKS,
    ) -> None:
        self._store = store
        self._uses = uses
        self._clock = clock
        self._write_seconds = write_seconds
        self._max_pending_chunks = max_pending_chunks
        # By external_id and chunk: how many, and when the last was.
        self._pending: dict[str, dict[UUID, tuple[int, datetime]]] = {}
        self._pending_chunks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._is_closed = False

    def note(self, external_id: str, chunk_ids: Sequence[UUID]) -> None:
        """Count one use of each chunk; only within an event loop."""
        if self._is_closed or not chunk_ids:
            return
        now = self._clock()
        pending = self._pending.setdefault(external_id, {})
        for chunk_id in chunk_ids:
            counted = pending.get(chunk_id)
            if counted is not None:
                pending[chunk_id] = (counted[0] + 1, now)
            elif self._pending_chunks < self._max_pending_chunks:
                pending[chunk_id] = (1, now)
                self._pending_chunks += 1
        self._set_timer()

    def _set_timer(self) -> None:
        # A timer and no task that waits for ever: who forgets to close leaves nothing running behind. And one writer at
        # a time: what comes while it is at it waits for the next.
        if self._timer is None and self._task is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(
                self._write_seconds, self._begin_write, context=detached()
            )

    def _begin_write(self) -> None:
        self._timer = None
        self._task = asyncio.create_task(self._write_in_background(), name="agent_reminiscence uses")

    async def _write_in_background(self) -> None:
        try:
            await self.write()
        finally:
            self._task = None
            if self._pending:
                self._set_timer()

    async def write(self) -> None:
        """Write what was counted until now; what the store does not take is forgotten."""
        async with self._writing:
            counted, self._pending, self._pending_chunks = self._pending, {}, 0
            for external_id, uses in counted.items():
                try:
                    await self._write(external_id, uses)
                except StoreError as error:
                    # Without a traceback: it says nothing more, and this is no reason for alarm.
                    _logger.warning(
                        "uses of %d chunks are not counted: %s", len(uses), error, extra={"external_id": external_id}
                    )

    async def _write(self, external_id: str, uses: dict[UUID, tuple[int, datetime]]) -> None:
        async def add() -> None:
            async with self._store.transaction(external_id, settings=_SETTINGS) as db:
                await self._uses.add(db, external_id, uses, review_within_seconds=constants.USE_REVIEW_SECONDS)

        if uses:
            await repeated(add, operation="write uses", external_id=external_id)

    async def close(self) -> None:
        """Write what is left, for no longer than a moment; further uses are not counted."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        writing = self._task
        try:
            async with asyncio.timeout(constants.USE_CLOSE_SECONDS):
                await self.write()
        except TimeoutError:
            _logger.warning("closed before all uses were counted")
            if writing is not None:
                writing.cancel()
                await asyncio.wait([writing])
