"""Beliefs in Neo4j, with links to the events that they name: read, and kept up to date by the follower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from agent_reminiscence.database.neo4j_manager import CypherExecutor, Neo4jManager
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.repositories.graph.neo4j_reads import fetch_single, read_settled
from agent_reminiscence.database.repositories.graph.neo4j_rows import (
    BELIEF_FIELDS,
    Stored,
    batches,
    belief_row,
    read_row,
    readable,
    texts,
)
from agent_reminiscence.domain.belief import StatedBelief
from agent_reminiscence.domain.canonical import beside_many

_CYPHER = load_queries("cypher", "graph")
# A reader reads them at once: more than there are.
_ALL: Final = 2**62


class Neo4jBeliefs:
    """Nodes :Belief, the nodes :LedgerEvent that they name, and the links between them.

    All methods raise what `Neo4jManager.read` and `Neo4jManager.write` raise.
    """

    def __init__(self, manager: Neo4jManager) -> None:
        self._manager = manager

    async def read(self, external_id: str) -> list[StatedBelief]:
        """Return all beliefs, in order of position."""

        async def read() -> list[StatedBelief]:
            states = await self._manager.read(lambda db: _read_page(db, external_id, after="", limit=_ALL))
            return await beside_many(
                lambda: [read_row(StatedBelief, BELIEF_FIELDS, values) for values in states], items=len(states)
            )

        found = await read_settled(read)
        return sorted(found, key=lambda belief: belief.position)

    async def read_stored(self, external_id: str, *, after: str | None, limit: int) -> list[Stored[StatedBelief]]:
        """Return a page of all beliefs after `after`, in order of their ids."""
        states = await self._manager.read(
            lambda db: _read_page(db, external_id, after=after or "", limit=limit), latest=True
        )
        found = [Stored(values[0], readable(StatedBelief, BELIEF_FIELDS, values)) for values in states]
        return sorted(found, key=lambda stored: stored.id)

    async def read_unnamed(self, external_id: str, *, after: str | None, limit: int) -> list[Stored[StatedBelief]]:
        """Return a page of ids of events that are here although they are no beliefs, and no belief names them."""

        async def work(db: CypherExecutor) -> list[str]:
            params = {"after": after or "", "limit": limit}
            return list((await fetch_single(db, "page_unnamed_ids", external_id, params))["ids"])

        return [Stored(each, None) for each in await self._manager.read(work, latest=True)]

    async def apply(
        self,
        db: CypherExecutor,
        external_id: str,
        beliefs: Sequence[StatedBelief],
        *,
        removed: Sequence[UUID | str],
    ) -> None:
        """Set the states of some beliefs and take others away, with events that only those named."""
        for ids in batches(texts(removed)):
            for query in ("delete_links_of_beliefs", "delete_beliefs", "delete_unnamed_events"):
                await db.fetch_all(_CYPHER[query], {"external_id": external_id, "ids": ids})
        for batch in batches([belief_row(external_id, belief) for belief in beliefs]):
            ids = [row["id"] for row in batch]
            await db.fetch_all(_CYPHER["delete_links_of_beliefs"], {"external_id": external_id, "ids": ids})
            for query in ("merge_beliefs", "merge_named_events"):
                await db.fetch_all(_CYPHER[query], {"external_id": external_id, "rows": batch})


async def _read_page(db: CypherExecutor, external_id: str, *, after: str, limit: int) -> list[list[Any]]:
    row = await fetch_single(db, "read_beliefs", external_id, {"after": after, "limit": limit})
    return list(row["states"])
