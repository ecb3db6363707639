"""Ends answers that outlast the credential they were asked for with."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from starlette.datastructures import Headers
from starlette.types import Message, Send

from agent_reminiscence.server.access.authenticators import Authenticator
from agent_reminiscence.server.access.grants import Grant
from agent_reminiscence.server.guards.failures import BrokenOffError
from agent_reminiscence.server.problems import ProblemError

_logger = logging.getLogger("agent_reminiscence.server")


class WatchedAnswer:
    """An answer on its way to a client, whose credential is checked again for as long as it lasts.

    What has begun to be worked on before a credential ends is answered. An answer that is still being sent when it
    expires is ended then, and when it is revoked, with the next check. Most answers are complete long before one.

    Args:
        secret: The credential.
        grant: What it allowed when the request came.
        check_seconds: How often it is checked.
    """

    def __init__(
        self, send: Send, authenticator: Authenticator, secret: str, grant: Grant, *, check_seconds: float
    ) -> None:
        self.was_ended = False
        self._send = send
        self._authenticator = authenticator
        self._secret = secret
        self._grant = grant
        self._check_seconds = check_seconds
        self._is_event_stream = False
        self._is_over = False
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self._check: asyncio.Task[None] | None = None

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on."""
        if message["type"] == "http.response.start":
            content_type = Headers(raw=list(message.get("headers", ()))).get("content-type", "")
            self._is_event_stream = content_type.startswith("text/event-stream")
            self._wait()
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.stop()
        await self._send(message)

    def stop(self) -> None:
        """Check no more: the answer is complete, or given up."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._check is not None:
            self._check.cancel()

    async def finish(self) -> None:
        """End an answer in whose middle the credential has ended.

        A stream of events ends whole: its client connects again, and is told why it may not. Anything else would look
        complete, and is broken off.

        Raises:
            BrokenOffError: It cannot be ended otherwise.
        """
        _logger.info("an answer was ended: its credential has expired or was revoked")
        if not self._is_event_stream:
            raise BrokenOffError("an answer was broken off: its credential has expired or was revoked")
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _wait(self) -> None:
        seconds = self._check_seconds
        if self._grant.expires_at is not None:
            seconds = min(seconds, max(0.0, (self._grant.expires_at - datetime.now(UTC)).total_seconds()))
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin_check)

    def _begin_check(self) -> None:
        self._check = asyncio.create_task(self._look(), name="agent_reminiscence credential")

    async def _look(self) -> None:
        if await self._is_valid():
            self._wait()
        elif not self._is_over and self._task is not None:
            self._is_over = self.was_ended = True
            self._task.cancel()

    async def _is_valid(self) -> bool:
        """Whether the credential still allows what it allowed."""
        if self._grant.expires_at is not None and self._grant.expires_at <= datetime.now(UTC):
            return False
        try:
            found = await self._authenticator.authenticate(self._secret)
        except ProblemError as problem:
            # Who cannot be asked has refused nothing; the next check may be answered.
            return problem.status >= 500
        return (
            found is not None
            and found.external_id == self._grant.external_id
            and found.scopes >= self._grant.scopes
            and set(found.also_reads) >= set(self._grant.also_reads)
        )
