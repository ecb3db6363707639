"""An `AgentMem` that is open while somebody uses it, and writes that outlive the run that began them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Self

from agent_reminiscence.core import AgentMem

_logger = logging.getLogger("agent_reminiscence.integrations")


class Seat:
    """Opens a memory for the first of its users and closes it after the last; one of the caller's it leaves alone.

    Args:
        is_owned: Whether the memory was made here, so that nobody else opens it.
    """

    def __init__(self, memory: AgentMem, *, is_owned: bool) -> None:
        self._memory = memory
        self._is_owned = is_owned
        self._users = 0
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        if self._is_owned:
            async with self._turn:
                if self._users == 0:
                    await self._memory.initialize()
                self._users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_owned:
            async with self._turn:
                self._users -= 1
                if self._users == 0:
                    await self._memory.close()


class Writes:
    """Writes that a cancellation of their run does not stop."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()

    async def run(self, write: Coroutine[Any, Any, None], what: str) -> None:
        """Carry out a write to its end, whether or not its caller is cancelled meanwhile.

        Args:
            what: What is written, for the log.
        """
        task = asyncio.create_task(_said_if_lost(write, what))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # From here on nobody waits for it.
            task.add_done_callback(partial(_say_if_failed, what))
            raise

    @property
    def are_open(self) -> bool:
        """Whether there is one that goes on."""
        return bool(self._open)

    async def settle(self) -> None:
        """Wait for the writes of this loop that go on."""
        loop = asyncio.get_running_loop()
        while going_on := [task for task in self._open if task.get_loop() is loop]:
            await asyncio.wait(going_on)


def _say_if_failed(what: str, task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        # Its text may quote a memory.
        _logger.warning("%s could not be written: %s", what, type(error).__name__)


async def _said_if_lost(write: Coroutine[Any, Any, None], what: str) -> None:
    try:
        await write
    except asyncio.CancelledError:
        _logger.warning("%s was cut off while it was being written, because its event loop ended; it may be lost", what)
        raise
