"""A connection that listens for announcements.

It is psycopg's: the other driver has a listener only beside a pool of its own. Importing psycopg takes a tenth of a
second, and only workers and subscribers need it: they import this in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg

from agent_reminiscence.config.constants import CONNECT_TIMEOUT_SECONDS, TCP_SILENCE_SECONDS
from agent_reminiscence.database.announcements import begin_listening, end_listening, listen_for_proof
from agent_reminiscence.database.connection import ConnectionSettings
from agent_reminiscence.database.driver_errors import reason_of
from agent_reminiscence.exceptions import StoreUnavailableError


def psycopg_parameters(settings: ConnectionSettings, application_name: str) -> dict[str, Any]:
    """How psycopg connects; a connection that was silently dropped is noticed, although it only waits."""
    silence = TCP_SILENCE_SECONDS
    return {
        "host": settings.host,
        "port": settings.port,
        "user": settings.user,
        "password": settings.password,
        "dbname": settings.database,
        "sslmode": "disable" if settings.host.startswith("/") else settings.ssl_mode,
        "application_name": application_name,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "keepalives_idle": silence // 3,
        "keepalives_interval": silence // 3,
        "keepalives_count": 2,
        "tcp_user_timeout": silence * 1000,
    }


class ListeningConnection:
    """A connection as the login, which has no right to anything, outside any pool."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, settings: ConnectionSettings) -> Self:
        """Connect, and listen for the proof that notifications pass.

        Raises:
            StoreUnavailableError: The server cannot be reached or refuses the login.
        """
        with _translated(settings):
            opened = cls(
                await psycopg.AsyncConnection.connect(
                    **psycopg_parameters(settings, "agent_reminiscence subscriber"), autocommit=True
                )
            )
        try:
            await opened._run(listen_for_proof())
        except BaseException:
            await opened.close()
            raise
        return opened

    async def begin(self, buckets: Collection[int]) -> None:
        """Listen to some buckets; writers know it when this returns.

        Raises:
            StoreUnavailableError: The connection was lost.
        """
        await self._run("; ".join(map(begin_listening, sorted(buckets))))

    async def end(self, buckets: Collection[int]) -> None:
        """Listen to some buckets no longer.

        Raises:
            StoreUnavailableError: The connection was lost.
        """
        await self._run("; ".join(map(end_listening, sorted(buckets))))

    async def receive(self, tell: Callable[[str], None]) -> None:
        """Call `tell` with the payload of each notification, until cancelled.

        Raises:
            StoreUnavailableError: The connection was lost.
        """
        with _translated():
            async for notification in self._connection.notifies():
                tell(notification.payload)

    async def close(self) -> None:
        """Close it; nobody listens any more."""
        await self._connection.close()

    async def _run(self, script: str) -> None:
        if script:
            with _translated():
                await self._connection.execute(script.encode())


@contextmanager
def _translated(settings: ConnectionSettings | None = None) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        where = "" if settings is None else f" as {settings.where}"
        raise StoreUnavailableError(f"cannot listen on PostgreSQL{where}: {reason_of(error)}") from error
