"""How many memories of a kind a user and collection may have."""

from __future__ import annotations

from agent_reminiscence.core import AgentMem
from agent_reminiscence.exceptions import QuotaExceededError


class Quota:
    """A limit on the active memories whose keys begin alike.

    Counts are kept in this process and read anew at the limit. Several processes may together exceed it by what they
    store at the same moment; maintenance archives the oldest of what is too many.
    """

    def __init__(self, memory: AgentMem, prefix: str, name: str, limit: int | None) -> None:
        self._memory = memory
        self._prefix = prefix
        self._name = name
        self._limit = limit
        self._counts: dict[str, int] = {}

    async def check(self, external_id: str, key: str) -> None:
        """Make room in the count for a memory with this key.

        Raises:
            QuotaExceededError: There are as many as allowed, and this is a new one.
        """
        if self._limit is None:
            return
        if self._counts.get(external_id, self._limit) >= self._limit:
            self._counts[external_id] = await self._count(external_id, self._limit)
        if self._counts[external_id] >= self._limit and not await self._memory.get_active_memories(
            external_id, keys=[key]
        ):
            raise QuotaExceededError(
                external_id, self._name, self._limit, self._limit + 1, "delete some, or raise the limit"
            )
        self._counts[external_id] += 1

    async def _count(self, external_id: str, most: int) -> int:
        found = await self._memory.get_active_memories(external_id, key_prefix=self._prefix, limit=most)
        return len(found)
