"""Whether a memory may be read and written: deployment, user and conversation must all allow it."""

from __future__ import annotations

import asyncio

from agent_reminiscence.core import AgentMem
from agent_reminiscence.exceptions import UsageError
from agent_reminiscence.react.config import MemoryMode
from agent_reminiscence.react.registry import Registry


class MemoryOffError(UsageError):
    """A memory is switched off: nothing is read and nothing written."""


class Permission:
    """Asked by each service before it reads or writes; never remembered, because another process may switch.

    Args:
        memory_mode: What the deployment allows at most.
    """

    def __init__(self, memory: AgentMem, memory_mode: MemoryMode = "write") -> None:
        self._registry = Registry(memory)
        self._mode = memory_mode
        # Looks at users' switches that have not begun.
        self._looks: dict[str, asyncio.Task[bool]] = {}

    async def to_read(self, user: str, collection: str, conversation_id: str | None = None) -> None:
        """Let the caller read, or raise.

        Args:
            conversation_id: The conversation that is read; None for what belongs to none.

        Raises:
            MemoryOffError: It is switched off.
            StoreError: Whether it is cannot be found out.
        """
        if self._mode == "off":
            raise MemoryOffError("the memory is off (memory_mode); set it to read or write")
        await self._check(user, collection, conversation_id)

    async def to_write(self, user: str, collection: str, conversation_id: str | None = None) -> None:
        """Let the caller write, or raise, as `to_read` does.

        Args:
            conversation_id: The conversation that what is written comes from; None if from none.
        """
        if self._mode != "write":
            raise MemoryOffError(f"nothing may be written (memory_mode is {self._mode}); set it to write")
        await self._check(user, collection, conversation_id)

    async def _check(self, user: str, collection: str, conversation_id: str | None) -> None:
        if not await self._is_on(user):
            raise MemoryOffError("the user's memory is switched off; Lifecycle.set_memory switches it on again")
        if conversation_id is not None and not await self._registry.is_conversation_enabled(
            user, collection, conversation_id
        ):
            raise MemoryOffError(
                "the memory of this conversation is switched off; Lifecycle.set_memory with its conversation_id"
                " switches it on again"
            )

    async def _is_on(self, user: str) -> bool:
        """Whether a user's memory is on. Services that are asked at once look once, and go on at the same time."""
        look = self._looks.get(user)
        if look is None:
            look = self._looks[user] = asyncio.create_task(self._look(user))
            look.add_done_callback(lambda done: self._close(user, done))
        return await asyncio.shield(look)

    def _close(self, user: str, look: asyncio.Task[bool]) -> None:
        # One that was cancelled before it began is still there.
        if self._looks.get(user) is look:
            del self._looks[user]
        # Nobody may be left to hear of its error.
        if not look.cancelled():
            look.exception()

    async def _look(self, user: str) -> bool:
        # Who asks from now on gets a look of their own: a switch may come after this one has begun.
        del self._looks[user]
        return await self._registry.is_enabled(user)
