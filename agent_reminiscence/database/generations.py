"""Vector generations, one table each: users read which exist, and an administrator changes them.

They belong to no `external_id`, so they can be read in any transaction. Only the owner of the schema creates and drops
their tables and changes their states.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from agent_reminiscence.database.connection import ConnectionSettings, Deferred, Row, SqlExecutor
from agent_reminiscence.database.literals import literal
from agent_reminiscence.database.ownership import (
    DatabaseIdentity,
    administrator_connection,
    identify,
    owner_transaction,
)
from agent_reminiscence.database.pooling import is_shared, needs_session
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.generation import Generation
from agent_reminiscence.exceptions import ConfigurationError, ReembeddingError, StoreError, StoreTimeoutError

VECTOR_TABLE_PREFIX = "chunk_vector_"
NORMS_TABLE_PREFIX = "chunk_norms_"
CELL_TABLE_PREFIX = "vector_cell_"
_PREFIXES = (VECTOR_TABLE_PREFIX, NORMS_TABLE_PREFIX, CELL_TABLE_PREFIX)

# Advisory lock for building a generation: the bytes of "reem" as a number.
_BUILD_LOCK = 0x7265656D
# How long to wait for the lock: the server takes a moment to notice that a process was killed.
_LOCK_PATIENCE_SECONDS = 5.0
_LOCK_PAUSE_SECONDS = 0.2
# Dropping a table waits for its users, and others queue up behind: never for long at a time.
_DROP_LOCK_TIMEOUT = "1s"
# The statement's own message if that was not enough: the server's messages depend on its language.
_IN_USE = "the vectors are in use"
_DROP_ATTEMPTS = 30
_DROP_PAUSE_SECONDS = 1.0

_SQL = load_queries("sql", "generations")


async def current_generation(db: SqlExecutor) -> Generation:
    """Return the generation that searches use, as the transaction sees it."""
    return await (await ask_for_current(db)).result()


async def ask_for_current(db: SqlExecutor) -> Deferred[Generation]:
    """Like `current_generation`, but deferred."""

    def read(rows: list[Row]) -> Generation:
        if not rows:
            raise ConfigurationError(
                "the schema does not record which vectors are current; it was not created by `migrate`"
            )
        return Generation.model_validate(rows[0])

    return await db.ask(_SQL["current_generation"], None, read)


async def take_embedder(
    db: SqlExecutor, *, model_name: str, dimension: int, provider: str | None, model: str | None
) -> bool:
    """Give a database that holds no memory the vectors of another embedder, in the application's own transaction.

    The generation that was current disappears, and no process takes the old embedder for one that the database has had.

    Args:
        dimension: 1 to `MAX_EMBEDDING_DIMENSION`.
        provider: What any process can make the embedder from; None is a custom embedder.
        model: The provider's name for the model; None is its default.

    Returns:
        Whether its vectors are of this embedder now. False where something has been written or is being written, or an
        administrator is changing the vectors; nothing was changed.
    """
    row = await db.fetch_one(
        _SQL["take_embedder"],
        {"model_name": model_name, "dimension": dimension, "provider": provider, "model": model},
    )
    assert row is not None
    return bool(row["is_taken"])


async def list_generations(db: SqlExecutor) -> list[Generation]:
    """Return the generations that have a table, oldest first.

    None of them is dropped before the transaction ends.
    """
    return [Generation.model_validate(row) for row in await db.fetch_all(_SQL["list_generations"])]


async def ask_for_tables(db: SqlExecutor, generation: int) -> Deferred[bool]:
    """Whether a generation has its tables; if so, it keeps them until the transaction ends."""

    def is_listed(rows: list[Row]) -> bool:
        return any(row["number"] == generation for row in rows)

    return await db.ask(_SQL["list_generations"], None, is_listed)


async def all_generations(db: SqlExecutor) -> list[Generation]:
    """Return every generation that ever existed, oldest first."""
    return [Generation.model_validate(row) for row in await db.fetch_all(_SQL["list_all_generations"])]


async def table_sizes(db: SqlExecutor) -> dict[int, int]:
    """Return the disk size of each generation's tables with their indexes, in bytes."""
    rows = await db.fetch_all(_SQL["size_tables"], {"prefixes": list(_PREFIXES)})
    return {row["number"]: row["size_bytes"] for row in rows}


class GenerationOwner:
    """An administrator's connection that holds the build lock: nobody else changes generations meanwhile."""

    def __init__(self, db: SqlExecutor) -> None:
        self._db = db

    async def holds_lock(self) -> bool:
        """Whether this connection still holds the lock; behind a pooler, another one may hold it."""
        row = await self._db.fetch_one(_SQL["holds_build_lock"], {"key": _BUILD_LOCK})
        return row is not None and bool(row["is_mine"])

    async def generations(self) -> list[Generation]:
        """Return every generation that ever existed, oldest first."""
        async with self._transaction() as db:
            return await all_generations(db)

    async def identify(self) -> DatabaseIdentity:
        """Say which database this is."""
        async with self._transaction() as db:
            return await identify(db)

    async def seconds_since(self, generation: Generation) -> float:
        """How long the generation has been in its state, by the server's clock."""
        row = await self._db.fetch_one(_SQL["count_seconds_since"], {"since": generation.state_since})
        assert row is not None
        return float(row["seconds"])

    async def begin(self, *, model_name: str, dimension: int, provider: str | None, model: str | None) -> Generation:
        """Create a table and a row in state 'building'; from then on all writers keep its vectors valid."""
        async with self._transaction() as db:
            row = await db.fetch_one(
                _SQL["add_generation"],
                {"model_name": model_name, "dimension": dimension, "provider": provider, "model": model},
            )
            assert row is not None
            generation = Generation.model_validate(row)
            await db.execute(_SQL["create_tables"], {"number": generation.number, "dimension": dimension})
            return generation

    async def switch(self, generation: Generation) -> Generation:
        """Let searches use `generation`, and retire the one used so far."""
        async with self._transaction() as db:
            await self._set_state(db, "current", "retired")
            return await self._set_state(db, "building", "current", number=generation.number)

    async def _set_state(self, db: SqlExecutor, before: str, after: str, *, number: int | None = None) -> Generation:
        row = await db.fetch_one(_SQL["set_state"], {"before": before, "after": after, "number": number})
        if row is None:
            raise StoreError(f"no vector generation is in the state '{before}'")
        return Generation.model_validate(row)

    async def drop(self, generation: Generation) -> None:
        """Drop the table of a generation that is not searched; its number and model stay recorded.

        It waits for transactions that may have seen it, a second at a time, so that nobody waits long for it.

        Raises:
            StoreTimeoutError: A transaction that may use it did not end.
            StoreError: Searches now use it, or it is already dropped.
        """
        for _ in range(_DROP_ATTEMPTS):
            try:
                await self._try_to_drop(generation)
            except StoreError as error:
                if _IN_USE not in str(error):
                    raise
                await asyncio.sleep(_DROP_PAUSE_SECONDS)
            else:
                return
        raise StoreTimeoutError(
            f"generation {generation.number} cannot be dropped: something, such as verify() or rebuild(), is still"
            " reading vectors; try again when it has ended"
        )

    async def _try_to_drop(self, generation: Generation) -> None:
        async with self._transaction() as db:
            await db.set_local({"lock_timeout": _DROP_LOCK_TIMEOUT})
            await db.execute_script(_SQL["drop_generation"].fill(generation=generation.number, in_use=literal(_IN_USE)))

    def _transaction(self) -> AbstractAsyncContextManager[SqlExecutor]:
        """A transaction as the owner of the schema."""
        return owner_transaction(self._db)


async def _took_lock(db: SqlExecutor) -> bool:
    deadline = time.monotonic() + _LOCK_PATIENCE_SECONDS
    while True:
        row = await db.fetch_one(_SQL["try_build_lock"], {"key": _BUILD_LOCK})
        if row is not None and row["is_mine"]:
            return True
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_LOCK_PAUSE_SECONDS)


@asynccontextmanager
async def owning_generations(administrator: ConnectionSettings) -> AsyncIterator[GenerationOwner]:
    """Connect as an administrator of the database, with the exclusive right to change its generations.

    The lock ends with the connection, however the process ends.

    Raises:
        ConfigurationError: The login may not act as the schema's owner, or a connection pooler shares its session.
        ReembeddingError: Another process is changing them.
        StoreError: The server is unavailable.
    """
    async with administrator_connection(administrator) as db:
        # Before the lock is taken: it would stay with a session of the pooler.
        if await is_shared(administrator, db):
            raise ConfigurationError(
                needs_session(
                    "An administrator who changes the vectors",
                    setting="the administrator's DSN",
                    way_out="use an address of PostgreSQL itself, past the pooler",
                )
            )
        if not await _took_lock(db):
            raise ReembeddingError(
                "another process is changing the vectors of this database; wait until it ends, or stop it: finished"
                " work is kept, and the next call resumes there"
            )
        yield GenerationOwner(db)
