"""A served memory, with credentials of two tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from agent_reminiscence import AgentMem, Config
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.factories import Tenant
from tests.support.filled import FilledDatabases
from tests.support.rest import Credentials, Rest, grant, serve_rest


@pytest.fixture
async def rest(unopened: AgentMem) -> AsyncIterator[Rest]:
    """REST over a memory of this test's own."""
    async with serve_rest(unopened) as rest:
        yield rest


@pytest.fixture
async def house(
    test_server: TestServer, filled_databases: FilledDatabases[Tenant]
) -> AsyncIterator[tuple[Rest, Tenant]]:
    """REST over a database in which a tenant has all that there can be; `client` acts for it, and `other` for joe."""
    async with filled_databases.lent() as database:
        memory = AgentMem(
            Config(
                postgres_dsn=SecretStr(dsn(test_server.login(database))),
                embedding_provider="hash",
                embedding_dimension=TEST_DIMENSION,
                worker=False,
                graph_deadline_seconds=30,
            )
        )
        tenant = filled_databases.contents
        credentials = Credentials({"ida": grant(tenant.external_id), "joe": grant("joe")})
        async with serve_rest(memory, credentials=credentials) as rest:
            yield rest, tenant
