"""Follows one stream into Neo4j, and stops between applying there and recording it in PostgreSQL, until it is killed.

Run as a script by `test_graph.py`, with the embedded server's folder, the Neo4j's address as JSON and the tenant. It
says `applied` on its standard output when Neo4j has taken everything over.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.database.repositories.graph_progress import GraphProgressRepository
from tests.chaos import writer
from tests.neo4j_server import Neo4jAddress


def neo4j_settings(address: Neo4jAddress) -> dict[str, Any]:
    """Settings of a memory whose graph a Neo4j follows, and that does not wait long for it."""
    return {
        "neo4j_uri": address.uri,
        "neo4j_user": address.user,
        "neo4j_password": address.password,
        "neo4j_database": address.database,
        "neo4j_timeout_seconds": 3.0,
    }


async def _stop_there(*args: object, **named: object) -> bool:
    sys.stdout.write("applied\n")
    sys.stdout.flush()
    await asyncio.Event().wait()
    return False


async def _main(data_dir: str, address: Neo4jAddress, tenant: str) -> None:
    async with AgentMem(writer.settings_for(data_dir, **neo4j_settings(address))) as memory:
        await memory.admin.run_due(tenant)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphProgressRepository, "note", _stop_there)
        asyncio.run(_main(sys.argv[1], Neo4jAddress(**json.loads(sys.argv[2])), sys.argv[3]))
