"""Maintains a memory again and again, in the background of a service; never twice at once in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakKeyDictionary

from agent_reminiscence.core import AgentMem
from agent_reminiscence.telemetry import detached

# One for each memory of this process: several services may have the same one.
_LOCKS: Final[WeakKeyDictionary[AgentMem, asyncio.Lock]] = WeakKeyDictionary()


def one_at_a_time(memory: AgentMem) -> asyncio.Lock:
    """What a maintenance of all users of a memory holds while it runs."""
    return _LOCKS.setdefault(memory, asyncio.Lock())


class Maintenance:
    """Runs in the background from `start` to `stop`.

    Args:
        work: Does what is due.
        seconds: The pause before each run, also before the first; None: it never runs.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], seconds: float | None) -> None:
        self._work = work
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; a second call does nothing."""
        if self._task is None and self._seconds is not None:
            self._task = asyncio.create_task(
                self._run(self._seconds), name="agent_reminiscence react maintenance", context=detached()
            )

    async def stop(self) -> None:
        """End, in the middle of a run if one is under way; the next one does the rest."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            # Raises only if the caller is cancelled, which is to end as well.
            await asyncio.wait({task})

    async def _run(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self._work()
