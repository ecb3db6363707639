"""A server's socket with a fault in it: connections cut at any message, or left without an answer."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

from agent_reminiscence.database.connection import ConnectionSettings

# What is lost when a connection is cut: the client's message, or only the server's answer to it.
Loss = Literal["message", "answer"]

_READ_BYTES = 1 << 20
# What is sent last of a message of PostgreSQL's protocol: Query, Sync, Terminate, or a password.
_ENDS = frozenset(b"QSXp")
_CLOSE, _READY, _SYNC = b"CZS"
_NOTIFICATION = ord("A")


class _Frames:
    """Takes a stream of PostgreSQL's protocol apart; the first frame of a client has no type, and so gets 0."""

    def __init__(self, *, typed: bool) -> None:
        self._typed = typed
        self._rest = b""

    def feed(self, read: bytes) -> list[tuple[int, bytes]]:
        """Type and bytes of each frame that is whole now."""
        self._rest += read
        frames: list[tuple[int, bytes]] = []
        while True:
            begin = int(self._typed)
            end = begin + int.from_bytes(self._rest[begin : begin + 4])
            if len(self._rest) < begin + 4 or len(self._rest) < end:
                return frames
            frames.append((self._rest[0] if self._typed else 0, self._rest[:end]))
            self._rest, self._typed = self._rest[end:], True


class _SocketProxy(ABC):
    """Stands on a Unix socket between clients and a server.

    Args:
        server: The folder of the server's socket.
        port: Part of the socket's name.
    """

    def __init__(self, server: str, port: int) -> None:
        self._server = Path(server) / f".s.PGSQL.{port}"
        self._port = port
        self._folder = Path(tempfile.mkdtemp(prefix="reminiscence-proxy-"))
        self._links: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_unix_server(self._link, self._folder / f".s.PGSQL.{self._port}")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def settings(self, login: ConnectionSettings) -> ConnectionSettings:
        """`login`, by way of the proxy."""
        return ConnectionSettings(str(self._folder), self._port, login.user, login.database)

    @abstractmethod
    async def _link(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Serve one client."""


class FaultyProxy(_SocketProxy):
    """Cuts connections, or keeps what they send to itself.

    A message is what a client sends and waits for the answer to, whatever the kernel makes of it: frames up to a Sync,
    a Query of its own, or what begins a connection. The driver also tells the server of statements that it needs no
    more, in a thread of its own and without waiting. That is passed on and not counted: a count would depend on chance.
    """

    def __init__(self, server: str, port: int) -> None:
        super().__init__(server, port)
        self._messages_left = 0
        self._loss: Loss = "message"
        self._is_silent = False
        self.cuts = 0

    def cut_at(self, message: int, loss: Loss) -> None:
        """Cut a connection at the `message`-th message that any client sends from now on, counted from 1; once.

        Where the answer is lost, the server has done all that the message asks for when the connection is cut.
        """
        self._messages_left, self._loss, self.cuts = message, loss, 0

    def fall_silent(self) -> None:
        """Take every message from now on, pass none on, and answer nothing."""
        self._is_silent = True

    def speak(self) -> None:
        """Serve new connections again; what was swallowed stays so."""
        self._is_silent = False

    async def _link(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        server, to_server = await asyncio.open_unix_connection(self._server)
        answers = _Answers(server, to_client)
        passing = asyncio.create_task(answers.pass_on())
        try:
            async for types, message in _messages(client):
                if self._is_silent:
                    await asyncio.Event().wait()
                is_cut = self._is_cut_at(types)
                if is_cut and self._loss == "message":
                    return
                answers.expected += types[-1] in (_SYNC, *b"Q")
                answers.are_lost = is_cut
                to_server.write(message)
                if is_cut:
                    await answers.all_came()
                    return
        except (asyncio.CancelledError, ConnectionError):
            return
        finally:
            passing.cancel()
            to_server.transport.abort()
            to_client.transport.abort()
            self._links.discard(task)

    def _is_cut_at(self, types: list[int]) -> bool:
        """Whether a message is the one to be cut at; it is counted if a client waits for its answer."""
        if self._messages_left == 0 or types in ([_CLOSE, _SYNC], list(b"X")):
            return False
        self._messages_left -= 1
        self.cuts += self._messages_left == 0
        return self._messages_left == 0


async def _messages(client: asyncio.StreamReader) -> AsyncIterator[tuple[list[int], bytes]]:
    """What a client sends, message by message: the types of its frames, and all of its bytes."""
    frames = _Frames(typed=False)
    types: list[int] = []
    message = b""
    while read := await client.read(_READ_BYTES):
        for kind, frame in frames.feed(read):
            types.append(kind)
            message += frame
            if kind == 0 or kind in _ENDS:
                yield types, message
                types, message = [], b""


class _Answers:
    """Passes a server's answers on to a client until they are lost, and knows when the last one came."""

    def __init__(self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._server = server
        self._to_client = to_client
        self._frames = _Frames(typed=True)
        self._came = asyncio.Condition()
        # How often the server has to say that it is ready; once for what begins a connection.
        self.expected = 1
        self.are_lost = False

    async def pass_on(self) -> None:
        """Until the server ends the connection, which is its last answer."""
        while answer := await self._server.read(_READ_BYTES):
            if not self.are_lost:
                self._to_client.write(answer)
            await self._count(sum(kind == _READY for kind, _ in self._frames.feed(answer)))
        self._to_client.close()
        await self._count(self.expected)

    async def _count(self, ready: int) -> None:
        async with self._came:
            self.expected -= ready
            self._came.notify_all()

    async def all_came(self) -> None:
        """Wait until the server has done all that it was asked for."""
        async with self._came:
            await self._came.wait_for(lambda: self.expected == 0)


class DeafeningProxy(_SocketProxy):
    """Passes on all but notifications, like a pooler."""

    def __init__(self, server: str, port: int) -> None:
        super().__init__(server, port)
        self.passes_notifications = False
        self.withheld = 0

    async def _link(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        server, to_server = await asyncio.open_unix_connection(self._server)
        answering = asyncio.create_task(self._answer(server, to_client))
        try:
            while asked := await client.read(_READ_BYTES):
                to_server.write(asked)
        except (asyncio.CancelledError, ConnectionError):
            return
        finally:
            answering.cancel()
            to_server.transport.abort()
            to_client.transport.abort()
            self._links.discard(task)

    async def _answer(self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        frames = _Frames(typed=True)
        while answer := await server.read(_READ_BYTES):
            for kind, frame in frames.feed(answer):
                if kind == _NOTIFICATION and not self.passes_notifications:
                    self.withheld += 1
                else:
                    to_client.write(frame)
        to_client.close()


class TcpSwitch:
    """Stands on a TCP port between clients and a server of this machine, and can be switched off, or fall silent.

    Args:
        port: Where the server listens on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._links: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._is_on = True
        self._speaks = asyncio.Event()
        self._speaks.set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._link, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        await self._cut()

    async def off(self) -> None:
        """Cut all connections, and each new one at once."""
        self._is_on = False
        await self._cut()

    def on(self) -> None:
        """Serve new connections again."""
        self._is_on = True

    def fall_silent(self) -> None:
        """Keep connections open and accept new ones, but pass nothing on, like a server that is frozen."""
        self._speaks.clear()

    def speak(self) -> None:
        """Pass everything on again, what has waited first."""
        self._speaks.set()

    @property
    def links(self) -> int:
        """How many connections there are."""
        return len(self._links)

    async def _cut(self) -> None:
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _link(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        to_server: asyncio.StreamWriter | None = None
        ways: list[asyncio.Task[None]] = []
        try:
            if self._is_on:
                server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
                ways = [
                    asyncio.create_task(self._pass_on(client, to_server)),
                    asyncio.create_task(self._pass_on(server, to_client)),
                ]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # Switched off; asyncio's server would report a task that was cancelled.
            pass
        finally:
            self._links.discard(task)
            for way in ways:
                way.cancel()
            for writer in (to_client, to_server):
                if writer is not None:
                    writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while message := await reader.read(_READ_BYTES):
                await self._speaks.wait()
                writer.write(message)
                await writer.drain()
