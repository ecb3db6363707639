"""How far the graph store has followed each stream, as recorded in PostgreSQL.

Neo4j holds its own position, which moves in the transaction that applies the changes and is always right. The record
here tells who is behind without asking Neo4j, and requests full comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries

_SQL = load_queries("sql", "graph_progress")


@dataclass(frozen=True, slots=True)
class GraphProgress:
    """What a stream's own row says of the store that follows it.

    Attributes:
        head: Position of the last event.
        chain: The ledger's chain there, hexadecimal.
        graph_head: Position of the last event that changed the graph.
        graph_position: The position up to which the store has followed; if negative, it must compare everything.
        graph_store: Which store it was, by the id it gave itself; None if none has followed yet.
    """

    head: int
    chain: str
    graph_head: int
    graph_position: int
    graph_store: str | None

    def lag(self, store: str | None) -> int:
        """Like `graph_lag`."""
        return graph_lag(self.graph_head, self.graph_position, self.graph_store, store)


def graph_lag(graph_head: int, graph_position: int, graph_store: str | None = None, store: str | None = None) -> int:
    """How many positions a graph store is behind, by the record of a stream.

    Args:
        store: Which store: progress of another one does not count. None is the one that followed last.
    """
    is_noted = store is None or store == graph_store
    return max(0, graph_head - (max(0, graph_position) if is_noted else 0))


class GraphProgressRepository:
    """Reads and records how far a graph store has followed."""

    async def read(self, db: SqlExecutor, external_id: str) -> GraphProgress | None:
        """Return the record; None for an unknown stream."""
        row = await db.fetch_one(_SQL["read_progress"], {"external_id": external_id})
        return None if row is None else GraphProgress(**row)

    async def find_chain(self, db: SqlExecutor, external_id: str, position: int) -> str | None:
        """Return the ledger's chain at `position`, hexadecimal; None if the stream is shorter."""
        row = await db.fetch_one(_SQL["find_chain"], {"external_id": external_id, "position": position})
        return None if row is None else str(row["chain"])

    async def note(
        self, db: SqlExecutor, external_id: str, seen: GraphProgress, *, position: int, graph_store: str
    ) -> bool:
        """Record that the store has followed up to `position`; False if the record has changed since `seen`."""
        params = {
            "external_id": external_id,
            "position": position,
            "graph_store": graph_store,
            "seen_position": seen.graph_position,
            "seen_store": seen.graph_store,
        }
        return await db.fetch_one(_SQL["note_progress"], params) is not None

    async def list_behind(self, db: SqlExecutor, *, graph_store: str, after: str, limit: int) -> list[str]:
        """Return streams that this store is behind on, at most `limit` after `after`, in order. As scheduler."""
        params = {"graph_store": graph_store, "after": after, "limit": limit}
        return [row["external_id"] for row in await db.fetch_all(_SQL["list_behind_streams"], params)]

    async def find_unconfirmed_erasures(self, db: SqlExecutor, external_id: str, position: int) -> list[UUID]:
        """Return receipts of erasures up to `position` not known to have reached a graph store, in order."""
        params = {"external_id": external_id, "position": position}
        rows = await db.fetch_all(_SQL["find_unconfirmed_erasures"], params)
        return [UUID(row["receipt_id"]) for row in rows]

    async def find_graph_erasure(self, db: SqlExecutor, external_id: str, receipt_id: UUID) -> datetime | None:
        """Return when an erasure reached a graph store; None if it has not yet."""
        params = {"external_id": external_id, "receipt_id": str(receipt_id)}
        row = await db.fetch_one(_SQL["find_graph_erasure"], params)
        return None if row is None else datetime.fromisoformat(row["erased_at"])
