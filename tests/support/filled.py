"""Databases that hold the same memories: one is filled, and the others are copies of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent_reminiscence import AgentMem, Config

if TYPE_CHECKING:
    from tests.conftest import TestServer


class FilledDatabases[Contents]:
    """Databases of one server that hold the same memories, so that a test may change what many tests begin with.

    Args:
        server: Where they are made.
        config: Makes the settings of a memory on a database.
        fill: Writes what they hold, once, and returns what tests have to know of it.
    """

    def __init__(
        self, server: TestServer, config: Callable[[str], Config], fill: Callable[[AgentMem], Awaitable[Contents]]
    ) -> None:
        self._server = server
        self._config = config
        self._fill = fill
        self._filled: tuple[str, Contents] | None = None

    @property
    def contents(self) -> Contents:
        """What `fill` returned; it has not been called before the first database is lent."""
        assert self._filled is not None
        return self._filled[1]

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[str]:
        """The name of a database that nobody else uses, and that is removed afterwards."""
        if self._filled is None:
            template = await self._server.create_database()
            async with AgentMem(self._config(template)) as memory:
                contents = await self._fill(memory)
            self._filled = template, contents
        name = await self._server.create_empty_database(self._filled[0])
        yield name
        await self._server.drop_database(name)
