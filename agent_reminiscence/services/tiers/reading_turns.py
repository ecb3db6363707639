"""One reader of a stream's new passages at a time, so that no passage is paid for twice.

A worker and `admin.consolidate`, or two processes, may begin with the same memory. Whoever comes second waits, and then
finds it consolidated. Within a process a lock decides. Between processes it is a lease in the stream's row, which ends
when its holder dies.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import uuid4
from weakref import WeakValueDictionary

from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.services.runtime import Runtime

_logger = logging.getLogger("agent_reminiscence.models")

# How long a claim holds, and how often its holder renews it.
CLAIM_SECONDS: Final = 60.0
_RENEW_SECONDS = CLAIM_SECONDS / 4
# How often those who wait look: often at first, later less.
_FIRST_LOOK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 2.0


class ReadingTurns:
    """Takes turns at asking a model about a stream; one for all that ask in this process."""

    def __init__(self, runtime: Runtime) -> None:
        self._store = runtime.store
        self._queue = runtime.repositories.queue
        # The same for all claims: one that could not be given back, because the store was away, keeps out others only.
        self._reader = uuid4()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, external_id: str) -> AsyncIterator[None]:
        """Wait until nobody else reads the stream, and keep others waiting meanwhile.

        Raises:
            StoreError: The store is unavailable.
        """
        async with self._locks.setdefault(external_id, asyncio.Lock()):
            pause = _FIRST_LOOK_SECONDS
            while not await self._claim(external_id):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_LOOK_SECONDS)
            renewing = asyncio.create_task(self._renew(external_id))
            try:
                yield
            finally:
                renewing.cancel()
                # A renewal under way must not come after the release.
                await asyncio.wait({renewing})
                # If the store is away, the claim ends by itself.
                with suppress(StoreError):
                    async with self._store.transaction(external_id) as db:
                        await self._queue.release_reading(db, external_id, self._reader)

    async def _claim(self, external_id: str) -> bool:
        async with self._store.transaction(external_id) as db:
            return await self._queue.claim_reading(db, external_id, self._reader, seconds=CLAIM_SECONDS)

    async def _renew(self, external_id: str) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await self._claim(external_id)
            except StoreError as error:
                _logger.debug("a claim was not renewed: %s", error, extra={"external_id": external_id})
