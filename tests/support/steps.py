"""Steps that acceptance tests share; on memories they use the public surface only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from uuid import UUID

from agent_reminiscence import ActiveMemory, AgentMem, Event, RetrievalResult
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection

EVERYTHING = 200
"""The most hits that one search returns."""


async def all_events(memory: AgentMem, external_id: str | int | UUID, *, page: int = 1_000) -> list[Event]:
    """The whole stream of one tenant, read page by page."""
    events: list[Event] = []
    while found := await memory.ledger.read(external_id, after=len(events), limit=page):
        events += found
    return events


async def head_of(memory: AgentMem, external_id: str | int | UUID) -> int:
    """The position of the last event; 0 for a tenant that has none."""
    return await memory.ledger.head(external_id)


async def only_memory(memory: AgentMem, external_id: str) -> ActiveMemory:
    """The one active memory of a tenant."""
    (found,) = await memory.get_active_memories(external_id)
    return found


def texts(result: RetrievalResult) -> list[str]:
    """What the hits say, best first, without the white space around it."""
    return [hit.content.strip() for hit in result.hits]


def lines(words: Iterable[str]) -> str:
    """Paragraphs of their own, so that each becomes a chunk of its own."""
    return "\n\n".join(words)


@asynccontextmanager
async def refusing(superuser: ConnectionSettings, table: str, condition: str) -> AsyncIterator[None]:
    """A database that takes only those new rows of `table` for which `condition` holds."""
    db = await open_connection(superuser)
    try:
        await db.execute_script(f"ALTER TABLE reminiscence.{table} ADD CONSTRAINT of_a_test CHECK ({condition})")
        yield
    finally:
        await db.execute_script(f"ALTER TABLE reminiscence.{table} DROP CONSTRAINT IF EXISTS of_a_test")
        db.close()


async def wait_until_blocked(db: SqlExecutor) -> None:
    """Wait until somebody on this server, which is this process's alone, waits for a lock."""
    async with asyncio.timeout(60):
        while not await db.fetch_all("SELECT pid FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110 - the server's
            await asyncio.sleep(0.01)
