"""Reads of Neo4j beside changes.

Neo4j reads no snapshot. Of a node that is removed while a query runs, the query may see its id in an index and nothing
of its properties, which looks as if somebody had altered it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from agent_reminiscence.database.neo4j_manager import CypherExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.exceptions import StoreError

_CYPHER = load_queries("cypher", "graph")
_READS: Final = 3


class UnreadableError(StoreError):
    """What was read cannot be parsed: somebody else wrote it, or it was removed while it was read."""


async def read_settled[T](read: Callable[[], Awaitable[T]]) -> T:
    """Read, and read again while what was read cannot be parsed; what was removed is then gone.

    Raises:
        UnreadableError: It cannot be parsed each time, so something other than this package has written it.
    """
    for _ in range(_READS - 1):
        with suppress(UnreadableError):
            return await read()
    return await read()


async def fetch_single(
    db: CypherExecutor, query: str, external_id: str, params: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The single record of a query that collects its results."""
    row = await db.fetch_one(_CYPHER[query], {"external_id": external_id} | dict(params))
    assert row is not None
    return row
