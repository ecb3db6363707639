"""An HTTP server that answers as a test says: what no real Ollama does on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Self

Request = dict[str, Any]
Answer = tuple[int, Any]
"""Status and body."""


class FakeOllama:
    """Listens on a port of 127.0.0.1, keeps what it was asked, and answers by a function.

    Args:
        answer: Of a path and a request's JSON; None as its answer says nothing, and keeps the connection open.
    """

    def __init__(self, answer: Callable[[str, Request], Answer | None]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self.requests: list[tuple[str, Request]] = []
        self.headers: list[str] = []
        self.waiting = 0
        self.most_waiting = 0
        self.seconds = 0.0

    @property
    def url(self) -> str:
        """For a client."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def embedded(self) -> list[list[str]]:
        """The texts of each request for vectors."""
        return [request["input"] for path, request in self.requests if path == "/api/embed"]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, half a minute at most."""
        async with asyncio.timeout(30):
            while not is_so():  # noqa: ASYNC110 - what is waited for happens at the other end of a socket
                await asyncio.sleep(0.01)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for link in list(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer_one(head.decode(), reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            return
        finally:
            self._links.discard(task)
            writer.transport.abort()

    async def _answer_one(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lengths = [line.split(":")[1] for line in head.splitlines() if line.lower().startswith("content-length:")]
        body = await reader.readexactly(int(lengths[0])) if lengths else b"{}"
        path = head.split(" ", 2)[1]
        request = json.loads(body)
        self.requests.append((path, request))
        self.headers.append(head)
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            answer = self._answer(path, request)
            if answer is None:
                # Until the client goes away.
                await reader.read()
                raise ConnectionResetError
            await asyncio.sleep(self.seconds)
        finally:
            self.waiting -= 1
        status, content = answer
        payload = json.dumps(content).encode()
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n".encode()
        )
        writer.write(payload)
        await writer.drain()
