"""Steps that acceptance tests share; on memories they use the public surface only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from agent_reminiscence import ActiveMemory, AgentMem, Event, RetrievalResult
from agent_reminiscence.config.constants import SCHEMA_NAME
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
async def refusing(
    superuser: ConnectionSettings, table: str, condition: str, *, schema: str = SCHEMA_NAME
) -> AsyncIterator[None]:
    """A database that takes only those new rows of `table` for which `condition` holds."""
    db = await open_connection(superuser)
    try:
        await db.execute_script(f"ALTER TABLE {schema}.{table} ADD CONSTRAINT of_a_test CHECK ({condition})")
        yield
    finally:
        await db.execute_script(f"ALTER TABLE {schema}.{table} DROP CONSTRAINT IF EXISTS of_a_test")
        db.close()


async def wait_until_blocked(db: SqlExecutor, calls: int = 1) -> None:
    """Wait until so many sessions of this server, which is this process's alone, wait for a lock."""
    # Not pg_stat_activity, which stays the same within a transaction.
    waiting = "SELECT DISTINCT pid FROM pg_locks WHERE NOT granted"
    async with asyncio.timeout(60):
        while len(await db.fetch_all(waiting)) < calls:  # noqa: ASYNC110 - the server has no event to wait for
            await asyncio.sleep(0.01)


async def wait_until_unblocked(superuser: ConnectionSettings) -> None:
    """Wait until no session of this server waits for a lock any more."""
    db = await open_connection(superuser)
    try:
        async with asyncio.timeout(60):
            while await db.fetch_all("SELECT pid FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
    finally:
        db.close()


@asynccontextmanager
async def streams_held(superuser: ConnectionSettings) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Lock all streams until the block ends, so that every call that writes waits.

    Two calls go on in the order in which they came; of more than two, any may follow the first. Yields a function that
    waits until so many calls wait.
    """
    db = await open_connection(superuser)
    try:
        await db.execute_script("BEGIN; SELECT FROM reminiscence.memory_stream FOR UPDATE")
        yield lambda calls: wait_until_blocked(db, calls)
        await db.execute_script("ROLLBACK")
    finally:
        db.close()


async def in_turn[First, Second](
    superuser: ConnectionSettings,
    first: Callable[[], Coroutine[Any, Any, First]],
    second: Callable[[], Coroutine[Any, Any, Second]],
) -> tuple[First, Second]:
    """Have two calls wait for the stream, and let them go in this order."""
    async with asyncio.TaskGroup() as group, streams_held(superuser) as queued:
        one = group.create_task(first())
        await queued(1)
        two = group.create_task(second())
        await queued(2)
    return one.result(), two.result()
