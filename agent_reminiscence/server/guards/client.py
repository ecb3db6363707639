"""The client of a request that is kept waiting: whether it is still there."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

# Of a body that arrives while its client is kept waiting. Whoever sends more is waited for without being watched.
_MOST_KEPT_BYTES: Final = 65_536

type Wait = Callable[[float], Awaitable[None]]
"""Waits for so many seconds, or less if that is no use any more."""


class Client:
    """Waits on behalf of a request for as long as its client does, and keeps what arrives meanwhile.

    ASGI tells that a client has gone only to whoever receives, after the whole body.

    Args:
        receive: From here on, messages come from `Client.receive`.
        stopping: Set when the server begins to stop; then nothing is waited for.
    """

    def __init__(self, scope: Scope, receive: Receive, stopping: asyncio.Event) -> None:
        self.is_gone = False
        self._receive = receive
        self._stopping = stopping
        # To receive would invite a body that may not be wanted.
        self._is_asking = "expect" in Headers(scope=scope)
        self._kept: deque[Message] = deque()
        self._kept_bytes = 0
        self._coming: asyncio.Task[Message] | None = None

    async def wait(self, seconds: float) -> None:
        """Wait, but no longer than until the client has gone or the server stops."""
        if self.is_gone or self._stopping.is_set():
            return
        ends: set[asyncio.Future[Any]] = {asyncio.ensure_future(self._stopping.wait())}
        if not self._is_asking:
            ends.add(asyncio.ensure_future(self._until_gone()))
        try:
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    async def receive(self) -> Message:
        """The next message, of those that were kept first."""
        if self._kept:
            return self._kept.popleft()
        return await (self._receive() if self._coming is None else self._next())

    def close(self) -> None:
        """Receive no more."""
        if self._coming is not None:
            self._coming.cancel()

    async def _until_gone(self) -> bool:
        while not self.is_gone and self._kept_bytes < _MOST_KEPT_BYTES:
            message = await self._next()
            self._kept.append(message)
            self._kept_bytes += len(message.get("body", b""))
            self.is_gone = message["type"] == "http.disconnect"
        # Until it is cancelled, if nobody knows.
        return self.is_gone or await asyncio.Event().wait()

    async def _next(self) -> Message:
        """The next message; whoever is cancelled in here leaves it to the next one."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._receive())
        coming = self._coming
        await asyncio.wait({coming})
        if self._coming is coming:
            self._coming = None
        return coming.result()
