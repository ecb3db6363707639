"""Bounds how long a body is, and how long it may take to arrive."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_reminiscence.server.guards.refusal import refuse
from agent_reminiscence.server.paths import FORMS_OF_STRANGERS, UPLOADS, is_under, path_of
from agent_reminiscence.server.problems import ProblemError

# Of a form that anybody may send: a credential, and where to go with it.
_STRANGERS_BYTES: Final = 20_000


class Bodies:
    """Refuses a body that is too long, as soon as that is known: by its Content-Length, or while it arrives.

    A form that anybody may send, without a credential, is read here to its end, and within one pause. Whoever sends it
    slowly would otherwise take the places of calls, and keep everybody else out.

    Args:
        max_bytes: Of a body.
        max_upload_bytes: Of a file, where one is taken.
        pause_seconds: How long a client may send nothing while there is more to come.
        bytes_per_second: How fast a body has to come on the whole, after the first `pause_seconds`: a byte now and then
            is no pause.
    """

    def __init__(
        self, app: ASGIApp, *, max_bytes: int, max_upload_bytes: int, pause_seconds: float, bytes_per_second: int
    ) -> None:
        self._app = app
        self._bytes_per_second = bytes_per_second
        self._max_bytes = max_bytes
        self._max_upload_bytes = max_upload_bytes
        self._pause_seconds = pause_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request whose body fits."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(receive, send, self._bound(path_of(scope)), self._pause_seconds, self._bytes_per_second)
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > body.max_bytes:
            await refuse(body.too_large(), scope, receive, send)
            return
        if is_under(path_of(scope), FORMS_OF_STRANGERS):
            await body.read()
        try:
            if body.problem is None:
                await self._app(scope, body.receive, body.send)
        except Exception:
            # What came of it that the client seemed to have gone.
            if body.problem is None or body.has_begun:
                raise
        if body.problem is not None and not body.has_begun:
            await refuse(body.problem, scope, receive, send)

    def _bound(self, path: str) -> int:
        if is_under(path, FORMS_OF_STRANGERS):
            return min(self._max_bytes, _STRANGERS_BYTES)
        return self._max_upload_bytes if is_under(path, UPLOADS) else self._max_bytes


class _Body:
    """One request's body, on its way to the application.

    The application is told that the client has gone, which every application understands; what it then answers is
    dropped for what is to be said.
    """

    def __init__(
        self, receive: Receive, send: Send, max_bytes: int, pause_seconds: float, bytes_per_second: int
    ) -> None:
        self.max_bytes = max_bytes
        self.problem: ProblemError | None = None
        self.has_begun = False
        self._receive = receive
        self._send = send
        self._pause_seconds = pause_seconds
        self._bytes_per_second = bytes_per_second
        # Spent waiting for the client: what the application does in between is not the client's fault.
        self._waited_seconds = 0.0
        self._bytes = 0
        self._is_complete = False
        self._read: Message | None = None

    async def read(self) -> None:
        """Wait for the whole body, and keep it."""
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self._pause_seconds):
                while self.problem is None and not self._is_complete:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        self._read = message
                        return
                    parts.append(message.get("body", b""))
        except TimeoutError:
            self.problem = self.too_slow()
        self._read = {"type": "http.request", "body": b"".join(parts), "more_body": False}

    async def receive(self) -> Message:
        """The next part of the body."""
        if self.problem is not None:
            return {"type": "http.disconnect"}
        if self._read is not None:
            read, self._read = self._read, None
            return read
        if self._is_complete:
            # Nothing but the end of the connection can come.
            return await self._receive()
        began_at = time.monotonic()
        try:
            async with asyncio.timeout(min(self._pause_seconds, self._seconds_left())):
                message = await self._receive()
        except TimeoutError:
            self.problem = self.too_slow()
            return {"type": "http.disconnect"}
        self._waited_seconds += time.monotonic() - began_at
        self._bytes += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._bytes > self.max_bytes:
            self.problem = self.too_large()
            return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        """Pass an answer on, unless another one is to be given."""
        if self.problem is None or self.has_begun:
            self.has_begun = True
            await self._send(message)

    def _seconds_left(self) -> float:
        """How long the next part may take, so that the body comes fast enough on the whole."""
        return self._pause_seconds + self._bytes / self._bytes_per_second - self._waited_seconds

    def too_slow(self) -> ProblemError:
        """What is said of a body that does not arrive."""
        return ProblemError(
            408,
            "body-too-slow",
            f"the body did not come: nothing for {self._pause_seconds:g} s, or fewer than {self._bytes_per_second:,}"
            " bytes a second; send it again",
        )

    def too_large(self) -> ProblemError:
        """What is said of a body that is too long."""
        return ProblemError(413, "too-large", f"the body is longer than {self.max_bytes:,} bytes, which is the limit")
