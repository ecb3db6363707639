"""Connections to a Neo4j, as the package makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from agent_reminiscence.database.neo4j_manager import Neo4jManager
from tests.support.neo4j_server import Neo4jAddress


def neo4j_manager(address: Neo4jAddress, **changed: Any) -> Neo4jManager:
    """A manager for `address` that is not open yet; keywords override what it says, and the manager's settings."""
    settings: dict[str, Any] = asdict(address) | {"pool_size": 4, "timeout_seconds": 30} | changed
    return Neo4jManager(settings.pop("uri"), **settings)


@asynccontextmanager
async def opened_neo4j(address: Neo4jAddress, **changed: Any) -> AsyncIterator[Neo4jManager]:
    """The same, open."""
    manager = neo4j_manager(address, **changed)
    await manager.initialize()
    try:
        yield manager
    finally:
        await manager.close()
