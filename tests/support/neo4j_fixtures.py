"""Fixtures for tests that need a real Neo4j; a plugin of `conftest.py`. `server_hooks` says what all servers share.

Tests share one server, so each uses an `external_id` of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from agent_reminiscence.database.neo4j_manager import Neo4jManager
from tests.support.neo4j_managers import opened_neo4j
from tests.support.neo4j_server import Neo4jAddress, Neo4jServer
from tests.support.shared_servers import NEO4J, own_server, require_startable, shared_client_settings


@pytest.fixture(scope="session")
def startable_neo4j(pytestconfig: pytest.Config) -> None:
    """Skips a test that starts a `Neo4jServer` of its own where that cannot be done."""
    require_startable(pytestconfig, NEO4J)


@pytest.fixture(scope="session")
def neo4j_server(pytestconfig: pytest.Config) -> Neo4jAddress:
    """A Neo4j for this run, with authentication on, shared by all tests; skips the test where none can be had."""
    return Neo4jAddress(**shared_client_settings(pytestconfig, NEO4J))


@pytest.fixture
def own_neo4j_server(startable_neo4j: None) -> Iterator[Neo4jServer]:
    """A server that is this test's alone, started and empty: it may be stopped, killed, frozen and wiped."""
    with own_server(Neo4jServer) as server:
        yield server


@pytest.fixture
async def neo4j(neo4j_server: Neo4jAddress) -> AsyncIterator[Neo4jManager]:
    """Connections to the Neo4j of this run."""
    async with opened_neo4j(neo4j_server) as manager:
        yield manager


@pytest.fixture
def new_neo4j_tenant(neo4j_server: Neo4jAddress) -> Iterator[Callable[[], str]]:
    """Makes an `external_id` that nobody else uses on the shared server; all that is stored under it is removed."""
    tenants: list[str] = []

    def make() -> str:
        tenants.append(f"test-{uuid.uuid4()}")
        return tenants[-1]

    yield make
    if tenants:
        with neo4j_server.driver() as driver:
            driver.execute_query(
                "MATCH (node) WHERE node.external_id IN $tenants DETACH DELETE node",
                tenants=tenants,
                database_=neo4j_server.database,
            )


@pytest.fixture
def neo4j_tenant(new_neo4j_tenant: Callable[[], str]) -> str:
    """One `external_id` of this test's own on the shared server."""
    return new_neo4j_tenant()
