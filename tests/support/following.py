"""A stream that is followed beside a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from agent_reminiscence import AgentMem, Event

PATIENCE_SECONDS = 120.0


class Follower:
    """A task that follows a stream and keeps what came."""

    def __init__(self, memory: AgentMem, external_id: str, **arguments: Any) -> None:
        self.events: list[Event] = []
        self._came = asyncio.Condition()
        self._task = asyncio.create_task(self._follow(memory, external_id, arguments))

    async def _follow(self, memory: AgentMem, external_id: str, arguments: dict[str, Any]) -> None:
        async with aclosing(memory.ledger.subscribe(external_id, **arguments)) as events:
            async for event in events:
                async with self._came:
                    self.events.append(event)
                    self._came.notify_all()

    @property
    def positions(self) -> list[int]:
        """Those of what came."""
        return [event.position for event in self.events]

    async def until(self, events: int) -> None:
        """Wait until so many came."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._came:
            await self._came.wait_for(lambda: len(self.events) >= events)

    async def ended(self) -> None:
        """Wait until it ends, and raise what ended it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._task

    async def leave(self) -> None:
        """End it."""
        self._task.cancel()
        await asyncio.wait({self._task})


@asynccontextmanager
async def following(memory: AgentMem, external_id: str, **arguments: Any) -> AsyncIterator[Follower]:
    """Follow a stream as long as the block lasts; `arguments` are those of `subscribe`."""
    follower = Follower(memory, external_id, **arguments)
    try:
        yield follower
    finally:
        await follower.leave()
