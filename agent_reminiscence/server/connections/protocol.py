"""uvicorn's protocol, with deadlines for what its clients leave undone."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from agent_reminiscence.server.connections.registry import Connections
from agent_reminiscence.server.guards.admission import IS_SPARE, SUBJECT
from agent_reminiscence.server.guards.refusal import HANG_UP

# What uvicorn would log for each request that nobody can read; they are counted.
_MALFORMED: Final = "Invalid HTTP request received."
_TOO_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
# How long the last bytes of an answer have to be taken.
_FAREWELL_SECONDS: Final = 5.0

_logger = logging.getLogger("agent_reminiscence.server.http")
_logger.addFilter(lambda record: record.msg != _MALFORMED)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a client may take.

    Attributes:
        head_seconds: For the head of a first request from the beginning of a connection, and for that of each further
            one from its first byte.
        answer_pause_seconds: To take no more of an answer.
    """

    head_seconds: float
    answer_pause_seconds: float


class BoundedProtocol(H11Protocol):
    """A connection that is closed when its client is too slow, or when another one needs its place.

    uvicorn itself has a deadline only between two requests (`timeout_keep_alive`), and takes it back with each byte.

    Args:
        connections: Of this process.
        deadlines: Of each connection.
        given: What uvicorn makes a protocol with.
    """

    def __init__(self, connections: Connections, deadlines: Deadlines, **given: Any) -> None:
        super().__init__(**given)
        self.logger = _logger
        self._registry = connections
        self._deadlines = deadlines
        self._is_idle = True
        self._has_sent = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    @property
    def is_of_stranger(self) -> bool:
        """Whether its request has shown no valid credential."""
        return self.scope is None or "caller" not in self.scope["state"]

    @property
    def subject(self) -> str | None:
        """Whose share its request takes; None while it is nobody's."""
        return None if self.scope is None else self.scope["state"].get(SUBJECT)

    @property
    def is_spare(self) -> bool:
        """Whether its request only waits to be refused, or for a body that comes slowly."""
        return self.scope is not None and bool(self.scope["state"].get(IS_SPARE))

    def abort(self) -> None:
        """Close it at once; a request that is being worked on sees that its client is gone."""
        self.transport.abort()

    # What happens to a connection --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head."""
        super().connection_made(transport)
        self._registry.opened(self)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        for timer in (self._head_timer, self._answer_timer):
            if timer is not None:
                timer.cancel()
        self._registry.lost(self)

    def data_received(self, data: bytes) -> None:
        """Take what has come, and give the rest of a head its deadline, which no further byte takes back."""
        if self._is_idle and self._head_timer is None:
            self._expect_head()
        self._has_sent = True
        super().data_received(data)

    def handle_events(self) -> None:
        """Begin requests whose heads are there."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and not self.cycle.response_complete:
            # Before it is worked on: its task has not begun.
            extensions: Any = {HANG_UP: self._hang_up}
            self.cycle.scope["extensions"] = extensions
            self._is_idle = False
            self._registry.busy(self)
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    def on_response_complete(self) -> None:
        """Be idle, until a next request comes."""
        self._is_idle = True
        self._has_sent = False
        self._registry.idle(self)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Give a client that reads nothing of its answer a deadline."""
        super().pause_writing()
        if self._answer_timer is None:
            self._answer_timer = self.loop.call_later(
                self._deadlines.answer_pause_seconds, self._registry.close, self, "answer-not-read"
            )

    def resume_writing(self) -> None:
        """Go on sending."""
        super().resume_writing()
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and count it."""
        self._registry.metrics.malformed()
        # Whoever works on the request, whose body is what cannot be read, has nobody to answer.
        self._forsake_request()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            # In the middle of an answer.
            self.transport.close()
        self._close_soon()

    def _forsake_request(self) -> None:
        """Let whoever works on a request see that its client is gone."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _hang_up(self) -> None:
        """Close it at once, whatever is still answered."""
        self._forsake_request()
        self.transport.abort()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing of it: any client may ask, and is answered as if it had not."""

    # Deadlines ---------------------------------------------------------------------------------------------------

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self._deadlines.head_seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        if self._has_sent and self.conn.our_state is h11.IDLE:
            self.transport.write(_TOO_LATE)
        self._registry.metrics.connection_closed("head-too-slow")
        self.transport.close()
        self._close_soon()

    def _close_soon(self) -> None:
        """Close a connection whose client does not even take the rest."""
        self.loop.call_later(_FAREWELL_SECONDS, self.transport.abort)
