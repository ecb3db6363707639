"""Databases that hold a tenant with all that there can be: one is filled, and the others are copies of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent_reminiscence import AgentMem, Config
from tests.support.factories import Tenant, fill_tenant

if TYPE_CHECKING:
    from tests.conftest import TestServer


class FilledDatabases:
    """Databases of one server that hold the same tenant.

    Args:
        server: Where they are made.
        config: Makes the settings of a memory on a database.
        external_id: Whose memory it is.
    """

    def __init__(self, server: TestServer, config: Callable[[str], Config], external_id: str) -> None:
        self._server = server
        self._config = config
        self._external_id = external_id
        self._filled: tuple[str, Tenant] | None = None

    @property
    def tenant(self) -> Tenant:
        """Who has memory in each of them; there is nobody before the first is lent."""
        assert self._filled is not None
        return self._filled[1]

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[str]:
        """The name of a database that nobody else uses, and that is removed afterwards."""
        if self._filled is None:
            template = await self._server.create_database()
            async with AgentMem(self._config(template)) as memory:
                tenant = await fill_tenant(memory, self._external_id)
            self._filled = template, tenant
        name = await self._server.create_empty_database(self._filled[0])
        yield name
        await self._server.drop_database(name)
