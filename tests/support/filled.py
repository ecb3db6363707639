"""Databases that hold the same memories: one is filled, and the others are copies of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_reminiscence import AgentMem, Config

if TYPE_CHECKING:
    from tests.conftest import TestServer


@dataclass(frozen=True, slots=True)
class FilledDatabases[Contents]:
    """Databases of one server that hold the same memories, so that a test may change what many tests begin with.

    Attributes:
        server: Where they are made.
        template: The database that was filled.
        contents: What tests have to know of its memories.
    """

    server: TestServer
    template: str
    contents: Contents

    @classmethod
    async def fill(
        cls, server: TestServer, config: Callable[[str], Config], write: Callable[[AgentMem], Awaitable[Contents]]
    ) -> FilledDatabases[Contents]:
        """Fill the first.

        Args:
            server: Where they are made.
            config: Makes the settings of a memory on a database.
            write: Writes what they hold, and returns what tests have to know of it.
        """
        template = await server.create_database()
        async with AgentMem(config(template)) as memory:
            contents = await write(memory)
        return cls(server, template, contents)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[str]:
        """The name of a database that nobody else uses, and that is removed afterwards."""
        name = await self.server.create_empty_database(self.template)
        yield name
        await self.server.drop_database(name)
