"""Constraints and indexes of Neo4j, created where some of them are missing or half made."""

from __future__ import annotations

import re

import pytest

from agent_reminiscence.database.inspection import read_neo4j
from agent_reminiscence.database.queries import statement_folder
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.exceptions import StoreError
from tests.support.neo4j_managers import opened_neo4j
from tests.support.neo4j_server import Neo4jServer


async def test_a_constraint_whose_creation_broke_off_is_created_again(own_neo4j_server: Neo4jServer) -> None:
    """A server that dies after it has made a constraint's index, and before the constraint, keeps the index."""
    schema = (statement_folder("cypher") / "schema.cypher").read_text(encoding="utf-8")
    constraints = re.findall(r"CREATE CONSTRAINT (\w+).*?FOR (.*?) REQUIRE (.*?) IS UNIQUE", schema, re.DOTALL)
    with own_neo4j_server.address.driver() as driver:
        for name, pattern, properties in constraints:
            driver.execute_query(f"CREATE INDEX {name} FOR {pattern} ON ({properties.strip('()')})")

    async with opened_neo4j(own_neo4j_server.address, timeout_seconds=60) as manager:
        assert set((await read_neo4j(manager)).missing) >= {name for name, _, _ in constraints}
        await Neo4jGraph(manager).ensure_schema()
        assert (await read_neo4j(manager)).missing == ()

    with own_neo4j_server.address.driver() as driver:
        # An index that somebody else gave this name is left alone.
        driver.execute_query("DROP CONSTRAINT entity_id")
        driver.execute_query("CREATE INDEX entity_id FOR (n:Theirs) ON (n.external_id, n.id)")
    async with opened_neo4j(own_neo4j_server.address, timeout_seconds=60) as manager:
        with pytest.raises(StoreError, match="belongs to no constraint"):
            await Neo4jGraph(manager).ensure_schema()
        assert (await read_neo4j(manager)).missing == ("entity_id",)
