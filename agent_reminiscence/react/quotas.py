"""How many memories of a kind a user and collection may have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent_reminiscence.core import AgentMem
from agent_reminiscence.exceptions import QuotaExceededError


class Quota:
    """A limit on the active memories whose keys begin alike.

    It holds among the stores of one process. Several processes may together exceed it by what they store at the same
    moment; maintenance archives the oldest.
    """

    def __init__(self, memory: AgentMem, prefix: str, name: str, limit: int | None) -> None:
        self._memory = memory
        self._prefix = prefix
        self._name = name
        self._limit = limit
        self._locks: dict[str, asyncio.Lock] = {}
        self._counts: dict[str, int] = {}

    @asynccontextmanager
    async def room(self, external_id: str, key: str) -> AsyncGenerator[None]:
        """Store a memory with this key inside: where there is a limit, one at a time.

        Raises:
            QuotaExceededError: There are as many as allowed, and this is a new one.
        """
        if self._limit is None:
            yield
            return
        async with self._locks.setdefault(external_id, asyncio.Lock()):
            # A list of all is read at first and at the limit; in between, every store counts as a new one.
            if self._counts.get(external_id, self._limit) >= self._limit:
                found = await self._memory.get_active_memories(external_id, key_prefix=self._prefix, limit=self._limit)
                self._counts[external_id] = len(found)
            is_full = self._counts[external_id] >= self._limit
            if is_full and not await self._memory.get_active_memories(external_id, keys=[key]):
                raise QuotaExceededError(
                    external_id, self._name, self._limit, self._limit + 1, "delete some, or raise the limit"
                )
            yield
            self._counts[external_id] += 1
