"""Lets in so many at a time, and lets so many others wait, but not for long."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress


class Gate:
    """Places for calls, and a queue for them.

    A queue without a bound turns too much load into waiting: everyone is served, and everyone too late, for work that
    its clients have long given up.

    Args:
        places: Calls at a time.
        queue: Calls that may wait for a place.
        wait_seconds: How long each may wait.
    """

    def __init__(self, places: int, *, queue: int, wait_seconds: float) -> None:
        self.taken = 0
        self._places = places
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._waiting: deque[asyncio.Future[bool]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def enter(self) -> bool:
        """Take a place, and `leave` it later; False if there was none, and none became free in time."""
        if self.taken < self._places and not self._waiting:
            self.taken += 1
            return True
        if len(self._waiting) >= self._queue:
            return False
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(turn)
        expiry = loop.call_later(self._wait_seconds, self._expire, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):
                    self._waiting.remove(turn)
            elif turn.result():
                # It was given a place at the moment of its end.
                self.leave()
            raise
        finally:
            expiry.cancel()

    def leave(self) -> None:
        """Give a place back, to whoever has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self.taken -= 1

    def _expire(self, turn: asyncio.Future[bool]) -> None:
        if not turn.done():
            self._waiting.remove(turn)
            turn.set_result(False)
