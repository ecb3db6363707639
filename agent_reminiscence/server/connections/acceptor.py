"""Takes connections as they come, as long as there is room for them."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from agent_reminiscence.server.connections.registry import Connections

_logger = logging.getLogger("agent_reminiscence.server")

# Until others have their turn; asyncio itself takes as many at a time as may queue up, which is a thousand.
_AT_A_TIME: Final = 16
_OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS: Final = 0.1
_SILENT_SECONDS: Final = 60.0


class Acceptor:
    """Accepts the connections of one socket, in place of asyncio's own loop.

    That one has no bound, takes whatever has queued up before anything else has its turn, and when no more files can be
    opened logs each attempt, some thousands at a time.

    It has what uvicorn asks of a server.

    Args:
        listening: The socket.
        make_protocol: Called for each connection.
        connections: Say whether there is room.
    """

    def __init__(
        self, listening: socket.socket, make_protocol: Callable[[], asyncio.Protocol], connections: Connections
    ) -> None:
        listening.setblocking(False)
        self.sockets = (listening,)
        self._listening = listening
        self._make_protocol = make_protocol
        self._connections = connections
        self._complained_at: float | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept(), name="agent_reminiscence connections")

    def close(self) -> None:
        """Take no more."""
        self._accepting.cancel()
        self._listening.close()

    async def wait_closed(self) -> None:
        """Wait until it takes no more."""
        with suppress(asyncio.CancelledError):
            await self._accepting
        await asyncio.gather(*self._connecting, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            for _ in range(_AT_A_TIME):
                accepted = await self._next()
                if accepted is not None:
                    await self._wait_for_room(accepted)
                    self._connect(accepted)
            await asyncio.sleep(0)

    async def _next(self) -> socket.socket | None:
        """The next connection; None if it could not be taken."""
        try:
            accepted, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        except OSError as error:
            if error.errno in _OUT_OF_FILES:
                self._complain(error)
                self._connections.close_one()
                await asyncio.sleep(_PAUSE_SECONDS)
            # Else it was gone before its turn.
            return None
        return accepted

    async def _wait_for_room(self, accepted: socket.socket) -> None:
        """Wait as long as all others are busy with requests of callers who have shown who they are."""
        try:
            while not self._connections.make_room():  # noqa: ASYNC110 - any of them may end
                await asyncio.sleep(_PAUSE_SECONDS)
        except asyncio.CancelledError:
            accepted.close()
            raise

    def _connect(self, accepted: socket.socket) -> None:
        self._connections.coming += 1
        task = asyncio.create_task(self._make_connection(accepted))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _make_connection(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._make_protocol, accepted)
        except OSError:
            accepted.close()
        finally:
            self._connections.coming -= 1

    def _complain(self, error: OSError) -> None:
        """Say it once in a while."""
        now = asyncio.get_running_loop().time()
        if self._complained_at is None or now - self._complained_at >= _SILENT_SECONDS:
            self._complained_at = now
            _logger.error(
                "no connection can be taken: %s; idle ones are closed. Raise the limit on open files, or lower"
                " AGENT_REMINISCENCE_SERVER_MAX_CONNECTIONS",
                error.strerror,
            )
