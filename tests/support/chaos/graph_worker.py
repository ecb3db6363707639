"""Follows one stream into Neo4j, and stops between applying there and recording it in PostgreSQL, until it is killed.

Run as a script by `test_graph.py`, with the embedded server's folder, the Neo4j's address as JSON and the tenant. It
says `applied` on its standard output when Neo4j has taken everything over, and what it logs on its standard error.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.database.repositories.graph.progress import GraphProgressRepository
from tests.support.chaos import writer
from tests.support.neo4j_server import Neo4jAddress


def neo4j_settings(address: Neo4jAddress) -> dict[str, Any]:
    """Settings of a memory whose graph a Neo4j follows; a server that has just started takes its time."""
    return {
        "neo4j_uri": address.uri,
        "neo4j_user": address.user,
        "neo4j_password": address.password,
        "neo4j_database": address.database,
        "neo4j_timeout_seconds": 30.0,
    }


async def _stop_there(*args: object, **named: object) -> bool:
    sys.stdout.write("applied\n")
    sys.stdout.flush()
    await asyncio.Event().wait()
    return False


async def _main(data_dir: str, address: Neo4jAddress, tenant: str) -> None:
    async with AgentMem(writer.settings_for(data_dir, **neo4j_settings(address))) as memory:
        # A catch-up may fail in passing, as it may for any worker. It stops there as soon as one succeeds.
        while True:
            await memory.admin.run_due(tenant)
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("agent_reminiscence").setLevel(logging.DEBUG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphProgressRepository, "note", _stop_there)
        asyncio.run(_main(sys.argv[1], Neo4jAddress(**json.loads(sys.argv[2])), sys.argv[3]))
