"""What a backup asks of the database that it is taken from, and of the one that it is restored into."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from agent_reminiscence.database import schema
from agent_reminiscence.database.connection import BEGIN_WRITE, ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.dumps import DUMPED_SCHEMAS
from agent_reminiscence.database.literals import identifier
from agent_reminiscence.database.ownership import owner_transaction
from agent_reminiscence.database.pooling import is_shared, needs_session
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.schema_checks import check_administrator, check_server, read_applied
from agent_reminiscence.database.schema_rights import check_rights, read_rights
from agent_reminiscence.exceptions import ConfigurationError, StoreError

_SQL = load_queries("sql", "backups")
_DEFAULT_SCHEMA: Final = "public"


@dataclass(frozen=True, slots=True)
class Place:
    """A database that holds a memory, or is to hold one.

    Attributes:
        name: What messages call it.
        another: What messages say to name instead, where it is not empty.
        login: The role that the application connects as.
    """

    name: str
    another: str
    administrator: ConnectionSettings
    login: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state of the database that a transaction holds open.

    Attributes:
        name: What `pg_dump --snapshot` takes.
        contents: Columns of `describe_contents`, as of this snapshot.
    """

    name: str
    taken_at: datetime
    contents: Mapping[str, Any]


@asynccontextmanager
async def held_snapshot(administrator: ConnectionSettings) -> AsyncIterator[Snapshot]:
    """Hold one consistent state of the database for as long as the block takes; writers do not wait.

    Raises:
        ConfigurationError: The database has no memory, or this login cannot read all rows.
        StoreError: The server is unavailable.
    """
    db = await open_connection(administrator)
    try:
        await _refuse_pooler(db, administrator)
        await _check_source(db, administrator)
        await db.execute_script(_SQL["begin_snapshot"])
        exported = await db.fetch_one(_SQL["export_snapshot"])
        contents = await db.fetch_one(_SQL["describe_contents"])
        assert exported is not None
        assert contents is not None
        yield Snapshot(exported["snapshot"], exported["taken_at"], contents)
    finally:
        db.close()


async def _refuse_pooler(db: SqlExecutor, administrator: ConnectionSettings) -> None:
    """Refuse an address where sessions are shared: a snapshot, a role and a lock would be somebody else's."""
    if await is_shared(administrator, db):
        raise ConfigurationError(
            needs_session(
                "A backup",
                setting="the administrator's DSN",
                way_out="name an address of PostgreSQL itself, past the pooler",
            )
        )


async def _check_source(db: SqlExecutor, administrator: ConnectionSettings) -> None:
    if not (await read_rights(db)).has_schema:
        raise ConfigurationError(f"database {administrator.database!r} holds no memory; nothing was backed up")
    # A dump of it would lack what it lacks.
    await check_rights(db, administrator.database)
    row = await db.fetch_one(_SQL["describe_source"], {"schemas": list(DUMPED_SCHEMAS)})
    assert row is not None
    lacks = [
        words
        for has, words in (
            (row["bypasses"], "the attribute BYPASSRLS, since row level security hides all rows"),
            (not row["unreadable"], "the right to read all tables (GRANT pg_read_all_data)"),
        )
        if not has
    ]
    if lacks:
        raise ConfigurationError(
            f"{administrator.user!r} cannot back up database {administrator.database!r}. It needs"
            f" {' and '.join(lacks)}; or name a superuser. Where nobody can have that, use the provider's own"
            " snapshots, or `agent-reminiscence export` for each external_id"
        )
    await read_applied(db)


@asynccontextmanager
async def prepared_target(place: Place, *, vector_schema: str) -> AsyncIterator[None]:
    """Prepare an empty database for a dump, and finish what was loaded in the block.

    Everyone else who would create a schema there waits until the end of the block. If the block fails, the database is
    left as empty as it was; roles that were created stay.

    Args:
        vector_schema: Where the dump expects pgvector's types.

    Raises:
        ConfigurationError: The database is not empty, or this administrator or server does not fit; nothing was
            changed.
        StoreError: The server refused, or was lost.
    """
    db = await open_connection(place.administrator)
    try:
        await _refuse_pooler(db, place.administrator)
        await schema.lock_schema(db)
        await check_server(db)
        await check_administrator(db, place.login)
        found_schema = await _check_target(db, place, vector_schema)
        await db.execute_script(BEGIN_WRITE)
        if found_schema is None and vector_schema != _DEFAULT_SCHEMA:
            await db.execute_script(_SQL["create_extension"].fill(schema=identifier(vector_schema)))
        await db.execute_script(schema.bootstrap_script(place.login))
        await db.execute_script("COMMIT")
        try:
            yield
        except BaseException:
            await _drop_empty(place.administrator)
            raise
        async with owner_transaction(db) as owner:
            await owner.execute_script(_SQL["analyze_tables"])
    finally:
        db.close()


async def _check_target(db: SqlExecutor, place: Place, vector_schema: str) -> str | None:
    """Refuse a database that is not empty, or has pgvector elsewhere; returns the schema where it is."""
    row = await db.fetch_one(_SQL["describe_target"], {"schemas": list(DUMPED_SCHEMAS)})
    assert row is not None
    if row["relations"]:
        raise ConfigurationError(
            f"{place.name} holds a memory already, and nothing in it was changed; restore into {place.another}"
        )
    found: str | None = row["vector_schema"]
    if found is not None and found != vector_schema:
        wanted = identifier(vector_schema)
        raise ConfigurationError(
            f"the backup names pgvector's types in the schema {vector_schema!r}, and in {place.name} they are in"
            f" {found!r}; nothing was changed. Run CREATE SCHEMA IF NOT EXISTS {wanted}; ALTER EXTENSION vector SET"
            f" SCHEMA {wanted}"
        )
    return found


async def _drop_empty(administrator: ConnectionSettings) -> None:
    """Drop our schemas, in which nothing was left; whether it works is of no importance to a later restore."""
    try:
        db = await open_connection(administrator)
    except StoreError:
        return
    try:
        async with owner_transaction(db) as owner:
            await owner.execute_script(_SQL["drop_schemas"])
    except StoreError:
        # The server has not yet noticed that pg_restore is gone.
        return
    finally:
        db.close()
