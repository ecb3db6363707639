"""Databases that tests use one after another: each finds the schema and no memory, and few are made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.exceptions import StoreError

# The newest change of each catalog and of each table that describes the schema: another one than before a test says
# that the test has changed what the next one would find. Temporary tables have come and gone.
_SHAPE = """
WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname !~ '^pg_(temp|toast)')
SELECT jsonb_build_array(
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM pg_class WHERE relnamespace IN (TABLE ours)),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM pg_attribute),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM pg_proc WHERE pronamespace IN (TABLE ours)),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM pg_constraint WHERE connamespace IN (TABLE ours)),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM pg_namespace WHERE oid IN (TABLE ours)),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM pg_policy),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM pg_trigger),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM pg_extension),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM pg_db_role_setting),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM reminiscence.schema_migration),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM reminiscence.schema_parameter),
    (SELECT jsonb_build_array(count(*), max(xmin::text::bigint)) FROM reminiscence.embedding_generation)
)::text AS shape
"""

# Every table but those that describe the schema: one that was forgotten here would make tests depend on their order.
# A function of this connection's own, which plans its statements once.
_MAKE_FORGET = """
DO $make$
BEGIN
    EXECUTE format(
        'CREATE FUNCTION pg_temp.forget() RETURNS void LANGUAGE plpgsql AS %L',
        'BEGIN ' || (
            SELECT string_agg(format('DELETE FROM %s;', oid::regclass), ' ')
            FROM pg_class
            WHERE (relnamespace = 'reminiscence'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
                    AND relname NOT IN ('schema_migration', 'schema_parameter', 'embedding_generation'))
                OR (relnamespace = 'reminiscence_jobs'::regnamespace AND relkind = 'r'
                    AND relname IN ('procrastinate_jobs', 'procrastinate_periodic_defers', 'procrastinate_workers'))
        ) || ' DELETE FROM reminiscence_jobs.procrastinate_events; END'
    );
END
$make$
"""

# Those of a test that did not close what it has opened: they might hold locks.
_OTHERS = """
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
_PATIENCE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class _Kept:
    """A database, a connection that empties it, and how its schema was when it was made."""

    name: str
    db: SqlExecutor
    shape: str


class DatabasePool:
    """Databases of one server with one schema.

    Args:
        superuser: Who may do everything on a database.
        create: Makes a database with the schema and no memory, and returns its name.
        drop: Removes one, whoever is still connected to it.
    """

    def __init__(
        self,
        superuser: Callable[[str], ConnectionSettings],
        create: Callable[[], Awaitable[str]],
        drop: Callable[[str], Awaitable[None]],
    ) -> None:
        self._superuser = superuser
        self._create = create
        self._drop = drop
        self._free: list[_Kept] = []
        self._taken: dict[str, _Kept] = {}

    async def take(self) -> str:
        """The name of a database that nobody else uses, with the schema and no memory."""
        kept = self._free.pop() if self._free else await self._make()
        self._taken[kept.name] = kept
        return kept.name

    async def give_back(self, name: str) -> None:
        """Empty a database for the next test, or remove it if its schema is not as it was."""
        kept = self._taken.pop(name)
        if await self._is_emptied(kept):
            self._free.append(kept)
        else:
            kept.db.close()
            await self._drop(name)

    async def _make(self) -> _Kept:
        name = await self._create()
        db = await open_connection(self._superuser(name))
        await db.execute_script(_MAKE_FORGET)
        return _Kept(name, db, await _shape(db))

    async def _is_emptied(self, kept: _Kept) -> bool:
        try:
            await _end_others(kept.db)
            if await _shape(kept.db) != kept.shape:
                return False
            await kept.db.execute("SELECT pg_temp.forget()::text")
        except (StoreError, TimeoutError):
            # A table is not there any more, or the whole database; or somebody does not end.
            return False
        return True


async def _end_others(db: SqlExecutor) -> None:
    """End all other sessions of the database; most have just been closed and are about to end."""
    await db.execute(f"SELECT pg_terminate_backend(pid) {_OTHERS}")
    # The function could wait itself, but looks every 100 ms only, which would be most of a quick test's time.
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while await db.fetch_all(f"SELECT pid {_OTHERS}"):  # noqa: ASYNC110 - the server has no event to wait for
            await asyncio.sleep(0.002)


async def _shape(db: SqlExecutor) -> str:
    [row] = await db.fetch_all(_SHAPE)
    return str(row["shape"])
