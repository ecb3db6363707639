"""Answers that go on: server-sent events, which end with their client, their source, or the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent_reminiscence.server.problems import as_response
from agent_reminiscence.server.rest.problems import problem_of

MEDIA_TYPE: Final = "text/event-stream"
# How long a stream is silent before it says that it is still there: proxies end connections on which nothing comes.
HEARTBEAT_SECONDS: Final = 15.0
_HEARTBEAT: Final = b": still here\n\n"


def is_stream_wanted(request: Request) -> bool:
    """Whether a request asks for events, instead of one answer."""
    accepted = request.headers.get("accept", "")
    return any(one.partition(";")[0].strip().lower() == MEDIA_TYPE for one in accepted.split(","))


def as_event(data: str, *, event: str | None = None, id: int | None = None) -> bytes:
    """One event of a stream; `data` is JSON on one line."""
    lines = [] if event is None else [f"event: {event}"]
    if id is not None:
        lines.append(f"id: {id}")
    return "\n".join([*lines, f"data: {data}", "", ""]).encode()


def as_start(id: int) -> bytes:
    """The position that a stream starts after: no event, but where a client resumes if it is cut off before one."""
    return f": starts here\nid: {id}\n\n".encode()


class EventStream[T](Response):
    """Server-sent events made of what a source yields; an error of the source is the last event, `problem`.

    Args:
        source: Closed when the answer ends, however that happens.
        encode: Makes an event of what it yields.
        stopping: Set when the server begins to stop, which waits for answers that have begun; this one ends then.
        first: Sent before all that the source yields.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self, source: AsyncGenerator[T], encode: Callable[[T], bytes], *, stopping: asyncio.Event, first: bytes = b""
    ) -> None:
        # Proxies that buffer would hold events back.
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._source = source
        self._encode = encode
        self._stopping = stopping
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until there are no more, the client goes, or the server stops."""
        # One at a time: a slow reader holds back its own source.
        upcoming: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        tasks: set[asyncio.Task[object]] = set()
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            producer = asyncio.create_task(self._produce(upcoming))
            ends = {
                asyncio.create_task(self._write(upcoming, send)),
                asyncio.create_task(_gone(receive)),
                asyncio.create_task(self._stopping.wait()),
            }
            tasks = {producer, *ends}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._source.aclose()
        # The client may be gone.
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, upcoming: asyncio.Queue[bytes | None], send: Send) -> None:
        event: bytes | None = self._first
        while event is not None:
            await send({"type": "http.response.body", "body": event, "more_body": True})
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    event = await upcoming.get()
            except TimeoutError:
                event = _HEARTBEAT

    async def _produce(self, upcoming: asyncio.Queue[bytes | None]) -> None:
        try:
            async for found in self._source:
                await upcoming.put(self._encode(found))
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            body = as_response(problem_of(error)).body
            await upcoming.put(as_event(bytes(body).decode(), event="problem"))
        await upcoming.put(None)


async def _gone(receive: Receive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
