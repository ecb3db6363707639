"""Makes what tests begin with: events, tenants with memory in every tier, and views of all that is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from agent_reminiscence.config.constants import SCHEMA_NAME
from agent_reminiscence.database.postgres_manager import SqlExecutor, open_connection
from agent_reminiscence.domain.event import NewEvent

if TYPE_CHECKING:
    from agent_reminiscence import AgentMem
    from tests.conftest import TestServer

LONG_AGO = datetime(2024, 3, 1, 12, tzinfo=UTC)

# Full of names and numbers: important enough for longterm once it has survived a few updates.
_TRIP = "We fly to Lisbon on 3 May with Ana Sousa and Piet Bakker, flight TP671 at 09:15."
_TWIN = "The spare key of the blue cabin hangs behind the old clock in the hall."
_CHORES = ("I water the plants.", "I feed the cat.", "I sweep the stairs.", "I fix the gate.", "I wash the car.")


def make_event(**changes: Any) -> NewEvent:
    """An event of a user's own kind that happened `LONG_AGO`; keywords override its fields."""
    defaults: dict[str, Any] = {
        "external_id": "agent-1",
        "event_id": uuid4(),
        "kind": "world.observed",
        "payload": {"text": "The kettle is on."},
        "occurred_at": LONG_AGO,
        "source": "agent",
    }
    return NewEvent(**(defaults | changes))


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant with memory in every tier, and the ids that statements need.

    Attributes:
        memory_id: A consolidated memory with chunks in shortterm and longterm.
        repeating_memory_id: A consolidated memory whose chunk ended as a duplicate of one in `memory_id`.
        draft_memory_id: A memory in the active tier only, which repeats the same chunk.
    """

    external_id: str
    memory_id: UUID
    repeating_memory_id: UUID
    draft_memory_id: UUID
    idempotency_key: str


async def fill_tenant(memory: AgentMem, external_id: str) -> Tenant:
    """Give `external_id` memories in every tier, a duplicate, an ended chunk and an event of its own."""
    texts = [f"{_TRIP}\n\n{_TWIN}\n\nRobin: {chore}" for chore in _CHORES]
    first = await memory.create_active_memory(external_id, "House", texts[0], occurred_at=LONG_AGO)
    await memory.admin.consolidate(external_id, first.id)
    for text in texts[1:]:
        await memory.update_active_memory(
            external_id, first.id, content=text, occurred_at=LONG_AGO, idempotency_key=f"key of {text[-12:]}"
        )
    await memory.admin.consolidate(external_id, first.id)
    second = await memory.create_active_memory(external_id, "House", _TWIN, occurred_at=LONG_AGO)
    await memory.admin.consolidate(external_id, second.id)
    draft = await memory.create_active_memory(external_id, "Draft", _TWIN, metadata={"draft": True})
    await memory.ledger.append(external_id, "world.observed", {"text": "The kettle is on."}, actor="robot")
    return Tenant(external_id, first.id, second.id, draft.id, f"key of {texts[-1][-12:]}")


@asynccontextmanager
async def superuser(server: TestServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection on `database` that no policy holds, with the schema in its search path."""
    db = await open_connection(server.administrator(database))
    try:
        await db.execute_script(f"SET search_path = {SCHEMA_NAME}, public")
        yield db
    finally:
        db.close()


async def stored_rows(db: SqlExecutor, external_id: str | None = None) -> dict[str, list[str]]:
    """Every row of every table of memory as text, by table, with the version of the row that the server keeps.

    A row that was written again with the same values differs, because its place (`ctid`) has changed.

    Args:
        external_id: Only the rows of this tenant.
    """
    tables = await db.fetch_all(
        "SELECT c.relname::text AS name FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid"
        " WHERE c.relnamespace = $(schema)p::text::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        " AND a.attname = 'external_id' ORDER BY 1",
        {"schema": SCHEMA_NAME},
    )
    rows: dict[str, list[str]] = {}
    for name in (table["name"] for table in tables):
        found = await db.fetch_all(
            f"SELECT t.tableoid::regclass::text || t.ctid::text || t::text AS row FROM {name} AS t"  # noqa: S608
            " WHERE $(tenant)p::text IS NULL OR t.external_id = $(tenant)p::text ORDER BY 1",
            {"tenant": external_id},
        )
        rows[name] = [row["row"] for row in found]
    return rows
