"""Which connections are open, and which of them makes room for another."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from agent_reminiscence.server.metrics import Metrics, Reason

# For a head to come, and for its credential to be checked.
_FIRST_SECONDS: Final = 1.0


class Connection(Protocol):
    """What a registry has to know of a connection."""

    @property
    def is_of_stranger(self) -> bool:
        """Whether its request has shown no valid credential."""
        ...

    @property
    def subject(self) -> str | None:
        """Whose share its request takes; None while it is nobody's."""
        ...

    @property
    def is_spare(self) -> bool:
        """Whether its request only waits to be refused, or for a body that comes slowly."""
        ...

    def abort(self) -> None:
        """Close it at once."""
        ...


class Connections:
    """The open connections of a process.

    When there are as many as allowed, one that can be spared makes room for a new one: one that is idle, so that it has
    sent nothing, or half a head, or is kept for a next request; or one whose request has shown no valid credential,
    such as a forged key whose refusal waits, or a form of signing in that arrives slowly. Of all these the one goes
    that has been there for longest: since it was opened, or since its last request with a valid credential. Nothing
    else that a stranger does renews its time.

    Each has a second first, in which a head can come and a credential be checked: a flood of new connections would
    otherwise close those of everybody else before they have said who they are.

    If there is none of these that has had it, of the subject that has most requests the oldest goes that only waits: to
    be refused, or for a body that comes slowly. If there is none either, new ones wait. Any other request with a valid
    credential is never given up for a new connection.

    Args:
        most: Connections at a time.
        metrics: Where connections, and those that are closed, are counted.
        clock: Seconds that never go back.
    """

    def __init__(self, metrics: Metrics, *, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.metrics = metrics
        self._most = most
        self._clock = clock
        # All that are open, and since when each has been there, those for longest first. A dict keeps its order.
        self._open: dict[Connection, float] = {}
        self._idle: set[Connection] = set()
        # Those whose last request had a valid credential, until a next one begins.
        self._known: set[Connection] = set()
        # Accepted, and not yet connected to a protocol.
        self.coming = 0

    def make_room(self) -> bool:
        """Whether there is room for one more; one that may be closed is closed for it."""
        return len(self._open) + self.coming < self._most or self.close_one()

    def close_one(self) -> bool:
        """Close the connection that can best be spared; False if there is none."""
        spared = self._unknown() or self._spare()
        if spared is None:
            return False
        self.close(spared, "crowded-out")
        return True

    def _unknown(self) -> Connection | None:
        """The oldest that is idle, or of a stranger."""
        return next((one for one in self._settled() if one in self._idle or one.is_of_stranger), None)

    def _spare(self) -> Connection | None:
        """The oldest that only waits, of the subject that has most requests."""
        requests = Counter(one.subject for one in self._open if one not in self._idle)
        spare: dict[str | None, Connection] = {}
        for one in self._settled():
            if one not in self._idle and one.is_spare:
                spare.setdefault(one.subject, one)
        return spare[max(spare, key=lambda subject: requests[subject])] if spare else None

    def _settled(self) -> Iterator[Connection]:
        """Those that have had their first second, the oldest first."""
        now = self._clock()
        for connection, since in self._open.items():
            if now - since < _FIRST_SECONDS:
                # All others came later.
                return
            yield connection

    def close(self, connection: Connection, reason: Reason) -> None:
        """Close a connection at once, and count it."""
        self.metrics.connection_closed(reason)
        self.lost(connection)
        connection.abort()

    def opened(self, connection: Connection) -> None:
        """Remember a connection, which is idle until a request has come."""
        self._renew(connection)
        self._idle.add(connection)
        self._tell()

    def idle(self, connection: Connection) -> None:
        """Note that the request of a connection was answered."""
        if connection in self._open:
            self._idle.add(connection)
            if not connection.is_of_stranger:
                self._known.add(connection)
                self._renew(connection)

    def busy(self, connection: Connection) -> None:
        """Note that a connection has a request, whose credential is not known yet."""
        self._idle.discard(connection)
        if connection in self._known:
            # Once, so that it is not closed for its age while its next credential is checked.
            self._known.discard(connection)
            self._renew(connection)

    def lost(self, connection: Connection) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)
        self._idle.discard(connection)
        self._known.discard(connection)
        self._tell()

    def _renew(self, connection: Connection) -> None:
        """Begin its time again, behind all others."""
        self._open.pop(connection, None)
        self._open[connection] = self._clock()

    def _tell(self) -> None:
        self.metrics.connections_open.set(len(self._open))
