"""Serves an application in this process until a signal ends it, in order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from types import FrameType
from typing import Any, Final, Self
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI

from agent_reminiscence.core import AgentMem
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.server.access.authenticators import LocalToken
from agent_reminiscence.server.access.setting_up import make_authenticator
from agent_reminiscence.server.app import create_app
from agent_reminiscence.server.config import ServerConfig
from agent_reminiscence.server.connections.acceptor import Acceptor
from agent_reminiscence.server.connections.files import connections_within, raise_file_limit
from agent_reminiscence.server.connections.protocol import BoundedProtocol, Deadlines
from agent_reminiscence.server.connections.registry import Connections

_logger = logging.getLogger("agent_reminiscence.server")

_BACKLOG: Final = 2_048
# Python's own is 5 ms.
_SWITCH_SECONDS: Final = 0.001
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_ANYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - to recognise, not to listen on


class Server:
    """An application over a memory, and the socket on which it answers.

    `async with` opens and closes the memory; `run` serves.

    Args:
        memory: Not open yet.
        config: Where to listen, and what to allow.
        with_keys: Whether callers have keys of this database (`agent-reminiscence keys create`).

    Raises:
        ConfigurationError: Others could reach this address, and nothing would tell who they are; or it cannot be
            listened on.
    """

    def __init__(self, memory: AgentMem, config: ServerConfig, *, with_keys: bool) -> None:
        self._memory = memory
        self._config = config
        self.local = _local_token(config, with_keys=with_keys)
        """The token for everything, if there is one."""
        self._socket = _listen(config.host, config.port)
        self.port: int = self._socket.getsockname()[1]
        """Where it listens, also if the settings take any free port."""
        names = tuple(dict.fromkeys((*config.allowed_hosts, *_own_names(config.host))))
        self.app: FastAPI = create_app(
            memory,
            make_authenticator(memory, config, local=self.local),
            config=config.model_copy(update={"allowed_hosts": names}),
        )

    @property
    def url(self) -> str:
        """How this machine reaches it."""
        host = self._config.host
        if host in _ANYWHERE:
            host = "127.0.0.1"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def entrance(self) -> str:
        """What to open in a browser, with the token if there is one."""
        return self.url + "/" if self.local is None else f"{self.url}/sign-in?token={quote(self.local.token)}"

    async def __aenter__(self) -> Self:
        # Here, and not by the application as it starts: what is wrong with the settings is then told as everywhere.
        await self._memory.initialize()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._socket.close()
        await self._memory.close()

    async def run(self, announce: Callable[[], None]) -> None:
        """Serve until SIGTERM or SIGINT.

        The first one ends it in order: no new connections, streams end, calls are answered, the worker finishes or
        gives back its job, the connections are closed and the embedded server is stopped. A second one ends the process
        at once; the embedded server then stops by itself.

        Args:
            announce: Called once it answers.
        """
        logging.getLogger("uvicorn.access").disabled = True
        # A long question is read and embedded in threads, and each step of everybody else waits for the interpreter for
        # as long as this, where one of them computes.
        sys.setswitchinterval(_SWITCH_SECONDS)
        # Without sockets of its own: those that come are taken here.
        await self.as_uvicorn(announce, file_limit=raise_file_limit()).serve(sockets=[])

    def as_uvicorn(self, announce: Callable[[], None], *, file_limit: int | None) -> uvicorn.Server:
        """The server that `run` runs.

        Args:
            announce: Called once it answers.
            file_limit: How many files the process may have open; None is any number.
        """
        config = self._config
        most = connections_within(config.max_connections, file_limit)
        self.app.state.load.max_requests_per_subject = config.connections_per_subject(most)
        return _Uvicorn(
            uvicorn.Config(
                self.app,
                # Its protocol is made of this one.
                http="h11",
                # Nothing of a request is logged: its address may hold a token or a name.
                access_log=False,
                log_config=None,
                lifespan="on",
                ws="none",
                server_header=False,
                proxy_headers=bool(config.trusted_proxies),
                forwarded_allow_ips=list(config.trusted_proxies),
                timeout_keep_alive=config.keep_alive_seconds,
                timeout_graceful_shutdown=round(config.shutdown_seconds),
            ),
            announce,
            self.app.state.stopping,
            self._socket,
            Connections(self.app.state.metrics, most=most),
            Deadlines(head_seconds=config.head_seconds, answer_pause_seconds=config.answer_pause_seconds),
        )


class _Uvicorn(uvicorn.Server):
    """uvicorn, with the signals of a command of ours, and with bounds on its connections."""

    def __init__(
        self,
        config: uvicorn.Config,
        announce: Callable[[], None],
        stopping: asyncio.Event,
        listening: socket.socket,
        connections: Connections,
        deadlines: Deadlines,
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._stopping = stopping
        self._listening = listening
        self._connections = connections
        self._deadlines = deadlines

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take connections, and say so."""
        await super().startup(sockets)
        if self.started:
            # uvicorn closes whatever is here when it stops.
            acceptor: Any = Acceptor(self._listening, self._make_protocol, self._connections)
            self.servers.append(acceptor)
            self._announce()

    def _make_protocol(self) -> BoundedProtocol:
        return BoundedProtocol(
            self._connections,
            self._deadlines,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take the signals for as long as the server runs."""
        loop = asyncio.get_running_loop()
        was_asked = False

        def take(number: int, frame: FrameType | None) -> None:
            nonlocal was_asked
            if was_asked:
                # Not even what is open is closed: whoever asks twice has waited long enough.
                os._exit(128 + number)
            was_asked = True
            loop.call_soon_threadsafe(self._begin_to_stop)

        # A shell's background job ignores interrupts, and goes on doing so.
        taken = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, take) for number in taken}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _begin_to_stop(self) -> None:
        _logger.info("stopping: open calls have %s s to be answered", self.config.timeout_graceful_shutdown)
        self._stopping.set()
        self.should_exit = True


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _local_token(config: ServerConfig, *, with_keys: bool) -> LocalToken | None:
    """The token for everything, if the operator has given one, or if there is nothing else and others cannot come in.

    Raises:
        ConfigurationError: There is nothing that tells who others are.
    """
    if config.token is not None:
        return LocalToken(config.token.get_secret_value().strip())
    if with_keys or config.jwt_jwks_url is not None:
        return None
    if is_loopback(config.host):
        return LocalToken()
    raise ConfigurationError(
        f"the server would listen on {config.host!r}, where others reach it, and nothing would tell who they are: use"
        " --keys, and create a key with `agent-reminiscence keys create`; or set"
        " AGENT_REMINISCENCE_SERVER_JWT_JWKS_URL; or give one token for everything with --token-file. Without --host"
        " only this machine reaches it"
    )


def _own_names(host: str) -> Sequence[str]:
    """The name that follows from the address, if it is one of this machine's own."""
    if host in _ANYWHERE:
        return ()
    return (f"[{host}]" if ":" in host else host,)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # "::" is every address of this machine, also those of IPv4.
        is_dual = host == "::" and socket.has_dualstack_ipv6()
        listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=is_dual)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no address"
        raise ConfigurationError(
            f"cannot listen on {host!r}, port {port}: {reason}; choose others with --host and --port (0: any free port)"
        ) from None
    # Connections inherit it. asyncio sets it only on sockets that it has made itself; without it an answer's body waits
    # until the client has acknowledged the head, which takes 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
