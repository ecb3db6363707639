"""A server's socket with a fault in it: connections cut at any message, or left without an answer."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

from agent_reminiscence.database.postgres_manager import ConnectionSettings

# What is lost when a connection is cut: the client's message, or only the server's answer to it.
Loss = Literal["message", "answer"]

_READ_BYTES = 1 << 20
# Long enough for the server to have done what the message asks for.
_ANSWER_SECONDS = 0.05


class FaultyProxy:
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
        self._messages_left = 0
        self._loss: Loss = "message"
        self._is_silent = False
        self.cuts = 0

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

    def cut_at(self, message: int, loss: Loss) -> None:
        """Cut a connection at the `message`-th message that any client sends from now on, counted from 1; once."""
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
        answers = asyncio.create_task(self._pass_answers(server, to_client))
        try:
            while message := await client.read(_READ_BYTES):
                if self._is_silent:
                    await asyncio.Event().wait()
                if self._messages_left > 0:
                    self._messages_left -= 1
                    if self._messages_left == 0:
                        self.cuts += 1
                        if self._loss == "answer":
                            answers.cancel()
                            to_server.write(message)
                            await asyncio.sleep(_ANSWER_SECONDS)
                        return
                to_server.write(message)
        except (asyncio.CancelledError, ConnectionError):
            return
        finally:
            answers.cancel()
            to_server.transport.abort()
            to_client.transport.abort()
            self._links.discard(task)

    async def _pass_answers(self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        while answer := await server.read(_READ_BYTES):
            to_client.write(answer)
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
