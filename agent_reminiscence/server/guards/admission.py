"""Bounds how much the server does at a time: calls that are answered soon, and answers that take long."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_reminiscence.server.access.grants import Caller
from agent_reminiscence.server.access.limiter import network_of
from agent_reminiscence.server.guards.client import Client
from agent_reminiscence.server.guards.gate import Gate
from agent_reminiscence.server.guards.refusal import Patience, refuse
from agent_reminiscence.server.paths import PROBES, QUESTIONS, STATIC, UPLOADS, is_under, path_of
from agent_reminiscence.server.problems import ProblemError

# They are asked for when everything else is at its limit, and cost little.
_NEVER_QUEUED: Final = (*PROBES, "/metrics", *STATIC)
_EVENTS: Final = "text/event-stream"
_LONG_BYTES: Final = 1_000_000
# More places than any share has.
_ALL: Final = 1_000_000
_WITHOUT_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
# A client that has sent no more of its body for so long keeps no call waiting.
_PROMPT_SECONDS: Final = 0.5
# In a request's state, for whoever has to find room for another connection.
SUBJECT: Final = "subject"
"""Whose share a request takes, while it is worked on."""
IS_SPARE: Final = "is_spare"
"""Whether a request only waits to be refused, or for a body that comes slowly."""
# How long a stream may take to end by itself when the server stops.
_FAREWELL_SECONDS: Final = 1.0


class Load:
    """What the server is doing at the moment.

    Args:
        calls: Places for calls.
        max_streams: How many streams may be open, and how many bodies may be waited for that come slowly.
        max_streams_per_subject: Of these, for one subject; None is all.
        max_requests_per_subject: Of whatever kind that one subject may have at a time, those that wait or are about to
            be refused among them; None is any number.
        stopping: Set when the server begins to stop. Event streams should then end by themselves, with whatever they
            have to say last; those that do not are ended soon after. All other answers are finished.
    """

    def __init__(
        self,
        calls: Gate,
        *,
        max_streams: int,
        max_streams_per_subject: int | None = None,
        max_requests_per_subject: int | None = None,
        stopping: asyncio.Event,
    ) -> None:
        self.calls = calls
        self.stopping = stopping
        self.streams: set[_Answer] = set()
        self._streams = _Shares(max_streams, max_streams_per_subject or max_streams)
        self.max_requests_per_subject = max_requests_per_subject
        self._requests: Counter[str] = Counter()
        self._slow_bodies = _Shares(max_streams, max_streams_per_subject or max_streams)

    @contextmanager
    def request(self, subject: str) -> Generator[bool]:
        """Have one more request of a subject; False if it has its share of them."""
        most = self.max_requests_per_subject
        has_room = most is None or self._requests[subject] < most
        self._requests[subject] += 1
        try:
            yield has_room
        finally:
            self._requests[subject] -= 1
            if not self._requests[subject]:
                del self._requests[subject]

    def open_stream(self, stream: _Answer) -> bool:
        """Take the place of a stream; False if there is none, or its subject has its share of them."""
        if stream in self.streams:
            return True
        if not self._streams.take(stream.subject):
            return False
        self.streams.add(stream)
        return True

    def may_stream(self, subject: str) -> bool:
        """Whether there is a place of a stream for a subject."""
        return self._streams.has(subject)

    def close_stream(self, stream: _Answer) -> None:
        """Give the place of a stream back, if it has one."""
        if stream in self.streams:
            self.streams.remove(stream)
            self._streams.give_back(stream.subject)

    @contextmanager
    def slow_body(self, subject: str) -> Generator[bool]:
        """Wait aside for a body that comes slowly; False if too many do."""
        may_wait = self._slow_bodies.take(subject)
        try:
            yield may_wait
        finally:
            if may_wait:
                self._slow_bodies.give_back(subject)

    async def end_streams(self) -> None:
        """When the server stops, end the streams that are still open soon after; runs until it is cancelled."""
        await self.stopping.wait()
        while True:
            await asyncio.sleep(_FAREWELL_SECONDS)
            for stream in tuple(self.streams):
                if stream.has_no_end:
                    stream.end()


class _Shares:
    """Places that nobody waits for, and each subject's share of them."""

    def __init__(self, places: int, share: int) -> None:
        self._places = places
        self._share = share
        self._held: Counter[str] = Counter()
        self._taken = 0

    def has(self, subject: str) -> bool:
        """Whether there is one for a subject."""
        return self._taken < self._places and self._held[subject] < self._share

    def take(self, subject: str) -> bool:
        """Take one; False if there is none for this subject."""
        if not self.has(subject):
            return False
        self._taken += 1
        self._held[subject] += 1
        return True

    def give_back(self, subject: str) -> None:
        """Give one back."""
        self._taken -= 1
        self._held[subject] -= 1
        if not self._held[subject]:
            del self._held[subject]


class Admission:
    """Gives each request a place, or refuses it with 503 when there has been none for too long.

    Places are shared between subjects: a key, a token's subject, each tenant that a backend's key names, or where no
    credential is asked for, an address. A long question takes several places of its subject's share.

    A request takes the place of a call. Once its answer turns out to be a stream, which is one of unknown length or a
    long one, it gives that place up and takes one of a stream, for which nobody waits. An upload is a stream from the
    beginning. So a thousand open streams keep no call waiting, and neither is without a bound. Nor does a client that
    sends its body slowly: until more of it arrives, its place is somebody else's.

    Each request has a connection, and those have a bound, too. So a subject has only its share of requests, whatever
    they do or wait for, and each further one is refused at once, and its connection closed.
    """

    def __init__(
        self,
        app: ASGIApp,
        load: Load,
        *,
        retry_after_seconds: float,
        refusal_delay_seconds: float,
        question_bytes_per_place: int,
    ) -> None:
        self._app = app
        self._load = load
        self._patience = Patience(refusal_delay_seconds)
        self._bytes_per_place = question_bytes_per_place
        self._retry_after = {"Retry-After": str(max(1, math.ceil(retry_after_seconds)))}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when it has a place."""
        if scope["type"] != "http" or is_under(path_of(scope), _NEVER_QUEUED):
            await self._app(scope, receive, send)
            return
        subject = _subject_of(scope)
        state = scope.setdefault("state", {})
        with self._load.request(subject) as has_room:
            if not has_room:
                await refuse(self._too_many_requests(), scope, receive, send)
                return
            state[SUBJECT] = subject
            await self._admit(scope, receive, send, subject)

    async def _admit(self, scope: Scope, receive: Receive, send: Send, subject: str) -> None:
        answer = _Answer(
            self._load,
            receive,
            send,
            subject=subject,
            state=scope["state"],
            price=self._price(scope),
            is_head=scope["method"] == "HEAD",
        )
        if is_under(path_of(scope), UPLOADS):
            if not answer.become_stream():
                await self._refuse(self._too_many_streams(), scope, receive, send)
                return
        elif _asks_for_stream(scope) and not self._load.may_stream(answer.subject):
            # Its answer would be refused in the end, after all that a route does until then.
            await self._refuse(self._too_many_streams(), scope, receive, send)
            return
        elif not await answer.take_place():
            await self._refuse(self._overloaded(), scope, receive, send)
            return
        try:
            await self._app(scope, answer.receive, answer.send)
        except asyncio.CancelledError:
            if not answer.was_ended:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        except NoStreamError:
            pass
        except Exception:
            if not answer.is_refused:
                raise
        finally:
            answer.leave()
        if answer.is_refused:
            problem = self._overloaded() if answer.is_crowded_out else self._too_many_streams()
            await self._refuse(problem, scope, receive, send)
        elif answer.was_ended:
            await answer.finish()

    def _price(self, scope: Scope) -> int:
        """How many places of its subject's share a request takes."""
        if not is_under(path_of(scope), QUESTIONS):
            return 1
        headers = Headers(scope=scope)
        declared = headers.get("content-length", "")
        if "transfer-encoding" in headers or (declared and not declared.isdecimal()):
            # It may become as long as it likes.
            return _ALL
        return max(1, (int(declared or 0) + len(scope.get("query_string", b""))) // self._bytes_per_place)

    async def _refuse(self, problem: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, but not at once."""
        scope["state"][IS_SPARE] = True
        client = Client(scope, receive, self._load.stopping)
        try:
            if not await self._patience.wait(_subject_of(scope), client.wait):
                problem.headers["Connection"] = "close"
        finally:
            client.close()
        await refuse(problem, scope, receive, send)

    def _too_many_requests(self) -> ProblemError:
        return ProblemError(
            503,
            "overloaded",
            "this credential has as many requests open as the server allows it; make fewer at a time",
            headers=self._retry_after | {"Connection": "close"},
        )

    def _overloaded(self) -> ProblemError:
        return ProblemError(
            503,
            "overloaded",
            "the server has too much to do, or too many calls of this credential wait; repeat the call later",
            headers=self._retry_after,
        )

    def _too_many_streams(self) -> ProblemError:
        if self._load.stopping.is_set():
            return ProblemError(503, "stopping", "the server is stopping; repeat the call", headers=self._retry_after)
        return ProblemError(
            503,
            "too-many-streams",
            "as many streams are open as the server allows, in all or for this credential; close some, or repeat the"
            " call later",
            headers=self._retry_after,
        )


def _asks_for_stream(scope: Scope) -> bool:
    """Whether a request wants events and nothing else. Clients of MCP, which POST, take either."""
    return scope["method"] == "GET" and Headers(scope=scope).get("accept", "").strip().lower() == _EVENTS


def _subject_of(scope: Scope) -> str:
    """Whose share a request takes a place of."""
    caller: Caller | None = scope.get("state", {}).get("caller")
    if caller is None:
        client = scope.get("client")
        return f"address {network_of('' if client is None else str(client[0]))}"
    if caller.grant.external_id is None and caller.external_id is not None:
        # A backend's tenants share as if each had a key of its own.
        return f"{caller.grant.subject} for {caller.external_id}"
    return caller.grant.subject


class NoStreamError(OSError):
    """There is no place for this answer. An OSError, because that is what a client that has gone is to a response."""


class _Answer:
    """One request's place, the rest of its body, and its answer."""

    def __init__(
        self,
        load: Load,
        receive: Receive,
        send: Send,
        *,
        subject: str,
        state: MutableMapping[str, Any],
        price: int,
        is_head: bool,
    ) -> None:
        self.subject = subject
        self._state = state
        self._price = price
        self.is_refused = False
        self.is_crowded_out = False
        self.was_ended = False
        self.has_no_end = False
        self._load = load
        self._receive = receive
        self._send = send
        self._is_head = is_head
        self._has_place = False
        self._is_received = False
        self._has_begun = False
        self._is_finished = False
        self._task = asyncio.current_task()

    async def take_place(self) -> bool:
        """Take the place of a call; False if there is none."""
        self._has_place = await self._load.calls.enter(self.subject, self._price)
        return self._has_place

    def become_stream(self) -> bool:
        """Take the place of a stream instead; False if there is none."""
        if not self._load.open_stream(self):
            return False
        self._leave_call()
        return True

    def leave(self) -> None:
        """Give up whatever place it has."""
        self._leave_call()
        self._load.close_stream(self)

    def _leave_call(self) -> None:
        if self._has_place:
            self._has_place = False
            self._load.calls.leave(self.subject, self._price)

    def end(self) -> None:
        """End a stream that has not ended by itself: what was sent is all that comes, and complete."""
        if self._task is not None and not self.was_ended:
            self.was_ended = True
            self._task.cancel()

    async def receive(self) -> Message:
        """The next part of the body. The place is given up while it does not come, and taken again."""
        if not self._has_place or self._is_received:
            return await self._receive()
        coming = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait({coming}, timeout=_PROMPT_SECONDS)
            if not coming.done() and not await self._stood_aside(coming):
                self.is_refused = self.is_crowded_out = True
                # What every application understands; nothing that it answers is sent.
                return {"type": "http.disconnect"}
            message = await coming
        finally:
            coming.cancel()
        self._is_received = not message.get("more_body", False)
        return message

    async def _stood_aside(self, coming: asyncio.Future[Message]) -> bool:
        """Wait for a part of the body without a place; False if there is none any more when it is there."""
        with self._load.slow_body(self.subject) as may_wait:
            if may_wait:
                # Else that many wait aside already, and this one waits where it is.
                self.leave()
            self._state[IS_SPARE] = True
            try:
                await asyncio.wait({coming})
            finally:
                self._state[IS_SPARE] = False
        return not may_wait or await self.take_place()

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on.

        Raises:
            NoStreamError: It turns out to be a stream, and there is no place for one; or its place is lost.
        """
        if self.is_refused:
            raise NoStreamError("there is no place for this answer")
        if message["type"] == "http.response.start":
            self._look_at(message)
            if self.is_refused:
                raise NoStreamError("there is no place for a stream")
            self._has_begun = True
        elif message["type"] == "http.response.body":
            self._is_finished = not message.get("more_body", False)
        await self._send(message)

    async def finish(self) -> None:
        """Send the end of an answer that was ended."""
        if self._has_begun and not self._is_finished:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _look_at(self, start: Message) -> None:
        """Find out what kind of answer it is, and whether there is a place for that."""
        if self._is_head or start["status"] in _WITHOUT_BODY:
            return
        headers = Headers(raw=start["headers"])
        self.has_no_end = headers.get("content-type", "").startswith(_EVENTS)
        length = headers.get("content-length")
        is_long = length is None or int(length) > _LONG_BYTES
        if self.has_no_end and self._load.stopping.is_set():
            self.is_refused = True
        elif is_long and self not in self._load.streams:
            self.is_refused = not self.become_stream()
