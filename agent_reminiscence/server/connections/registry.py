"""Which connections are open, and which of them makes room for another."""

from __future__ import annotations

from typing import Literal, Protocol

from agent_reminiscence.server.metrics import Metrics

type Reason = Literal["head-too-slow", "crowded-out", "answer-not-read"]
"""Why the server closed a connection that its client had left open."""


class Connection(Protocol):
    """What a registry has to know of a connection."""

    @property
    def is_of_stranger(self) -> bool:
        """Whether its request has shown no valid credential."""
        ...

    def abort(self) -> None:
        """Close it at once."""
        ...


class Connections:
    """The open connections of a process.

    When there are as many as allowed, the one that has been idle for longest makes room for a new one: it has sent
    nothing, or half a head, or is kept for a next request. If none is idle, the oldest goes whose request has shown no
    valid credential, such as a form of signing in that arrives slowly. A request with a valid credential is never given
    up for a new connection; then new ones wait.

    Args:
        most: Connections at a time.
        metrics: Where connections, and those that are closed, are counted.
    """

    def __init__(self, metrics: Metrics, *, most: int) -> None:
        self.metrics = metrics
        self._most = most
        # All that are open, and those that are idle, each for longest first. Dicts, because they keep their order.
        self._open: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}
        # Accepted, and not yet connected to a protocol.
        self.coming = 0

    def make_room(self) -> bool:
        """Whether there is room for one more; one that may be closed is closed for it."""
        return len(self._open) + self.coming < self._most or self.close_one()

    def close_one(self) -> bool:
        """Close the connection that can best be spared; False if there is none."""
        spared = next(iter(self._idle), None) or next((one for one in self._open if one.is_of_stranger), None)
        if spared is None:
            return False
        self.close(spared, "crowded-out")
        return True

    def close(self, connection: Connection, reason: Reason) -> None:
        """Close a connection at once, and count it."""
        self.metrics.connection_closed(reason)
        self.lost(connection)
        connection.abort()

    def opened(self, connection: Connection) -> None:
        """Remember a connection, which is idle until a request has come."""
        self._open[connection] = None
        self.idle(connection)
        self._tell()

    def idle(self, connection: Connection) -> None:
        """Note that a connection has nothing to do from now on."""
        if connection in self._open:
            self._idle.pop(connection, None)
            self._idle[connection] = None

    def busy(self, connection: Connection) -> None:
        """Note that a connection has a request."""
        self._idle.pop(connection, None)

    def lost(self, connection: Connection) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)
        self._idle.pop(connection, None)
        self._tell()

    def _tell(self) -> None:
        self.metrics.connections_open.set(len(self._open))
