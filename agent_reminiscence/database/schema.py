"""Creates and checks the schema: roles and extensions by an administrator, tables by their owner, once per database."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from agent_reminiscence.config.constants import APP_ROLE, EMBEDDED_DATABASE, EMBEDDED_LOGIN, SCHEDULER_ROLE
from agent_reminiscence.database import jobs_schema
from agent_reminiscence.database.connection import BEGIN_WRITE, ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.literals import identifier
from agent_reminiscence.database.migrations import Migration, SchemaParameters, migrations, render
from agent_reminiscence.database.queries import load_queries, statement_folder
from agent_reminiscence.database.schema_checks import (
    check_administrator,
    check_server,
    is_current,
    migration_records,
    read_analyser_version,
    read_applied,
    read_jobs_version,
    records_script,
    refuse_earlier_release,
)
from agent_reminiscence.database.schema_rights import check_rights
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.text.words import ANALYSER_VERSION

_logger = logging.getLogger("agent_reminiscence.database")

# Procrastinate's tables, beside ours.
JOBS_SCHEMA_NAME: Final = "reminiscence_jobs"

_SQL = load_queries("sql", "schema")

# Advisory lock of everyone who changes a database's schema: the bytes of "remi" as a number.
_SCHEMA_LOCK = 0x72656D69


def bootstrap_script(login: str) -> str:
    """Return what an administrator runs first; `login` is the role that the application connects as."""
    script = (statement_folder("sql") / "bootstrap.sql").read_text(encoding="utf-8")
    return script.replace("{{login}}", identifier(login))


def schema_script() -> str:
    """Return the whole current schema, not yet rendered."""
    return (statement_folder("sql") / "schema.sql").read_text(encoding="utf-8")


def installation_script(login: str, parameters: SchemaParameters) -> str:
    """Return everything as one SQL script for psql, to hand to someone who may create roles."""
    return "\n".join(
        [
            "BEGIN;",
            bootstrap_script(login),
            f"{_SQL['take_owner_role']};",
            f"{_SQL['set_search_path']};",
            render(schema_script(), parameters),
            records_script(migrations(), parameters),
            "COMMIT;",
            "",
        ]
    )


async def lock_schema(db: SqlExecutor) -> None:
    """Wait for others who create or change the schema, and keep them waiting until this connection is closed."""
    await db.execute(_SQL["lock_schema_for_session"], {"key": _SCHEMA_LOCK})


async def act_as_owner(db: SqlExecutor) -> None:
    """Let the rest of the transaction act as the owner of the schema."""
    await db.execute_script(_SQL["take_owner_role"])
    await db.execute_script(_SQL["set_search_path"])


async def migrate(settings: ConnectionSettings, *, login: str, parameters: SchemaParameters) -> list[Migration]:
    """Create the schema or bring it up to date, as the administrator named in `settings`.

    Everything happens in one transaction under an advisory lock: concurrent callers wait for each other, and a failure
    leaves the database unchanged.

    Returns:
        The migrations applied now; empty if there was nothing to do.

    Raises:
        ConfigurationError: The server, an extension, a privilege or an applied migration does not fit, an earlier
            release created the schema, or it was restored without its roles; the message says what to run.
        StoreError: The server is unavailable or refused a statement.
    """
    db = await open_connection(settings)
    try:
        await check_server(db)
        await check_rights(db, settings.database)
        await refuse_earlier_release(db)
        await check_administrator(db, login)
        await db.execute_script(BEGIN_WRITE)
        await db.execute(_SQL["lock_schema"], {"key": _SCHEMA_LOCK})
        await db.execute_script(bootstrap_script(login))
        await act_as_owner(db)
        applied = await read_applied(db)
        pending = migrations()[len(applied) :]
        if not applied:
            # A new database gets the current schema at once; a test checks that both ways give the same result.
            await db.execute_script(render(schema_script(), parameters))
            await db.execute_script(records_script(pending, parameters))
        elif pending:
            stored = await db.fetch_one(_SQL["read_made_with"])
            if stored is None:
                raise ConfigurationError("the schema does not record its parameters; it was not created by `migrate`")
            made_with = SchemaParameters(stored["chunk_partitions"], stored["dimension"], stored["model_name"])
            for migration in pending:
                await db.execute_script(render(migration.script, made_with))
            await db.execute_script(migration_records(pending))
        upgraded = await _upgrade_jobs(db)
        if applied and pending:
            await db.execute_script(_SQL["leave_owner_role"])
            await _drop_samples(db)
        await db.execute_script("COMMIT")
    finally:
        db.close()
    for migration in pending:
        _logger.info("applied migration %04d_%s", migration.version, migration.name)
    for name in upgraded:
        _logger.info("applied Procrastinate's migration %s", name)
    return pending


async def _upgrade_jobs(db: SqlExecutor) -> list[str]:
    """Upgrade Procrastinate's tables, as their owner, to the installed package; returns what was applied."""
    migrations_due = jobs_schema.migrations_after(await read_jobs_version(db))
    for name, script in migrations_due:
        await db.set_local({"search_path": JOBS_SCHEMA_NAME})
        await db.execute_script(script)
        await db.execute_script(_SQL["set_search_path"])
        await db.execute(_SQL["record_jobs_version"], {"name": name})
    return [name for name, _ in migrations_due]


async def _drop_samples(db: SqlExecutor) -> None:
    """Drop the planner's samples of columns that may no longer be sampled: ANALYZE does not remove them."""
    row = await db.fetch_one(_SQL["is_superuser"])
    if row is None or not row["rolsuper"]:
        _logger.warning(
            "samples of memory text may remain in pg_statistic from before this migration, where erasures do not reach"
            " them; a superuser removes them with: %s",
            " ".join(_SQL["drop_samples"].split()),
        )
        return
    await db.execute_script(_SQL["drop_samples"])


async def prepare_embedded(
    server: ConnectionSettings, parameters: SchemaParameters | Callable[[], SchemaParameters]
) -> ConnectionSettings:
    """Create login, database and schema on the embedded server if they are missing.

    Args:
        server: The embedded server's superuser, on its database `postgres`.
        parameters: What a schema is created with; a function is only called if one has to be created.

    Returns:
        How the library connects: the login, on the package's own database.
    """
    owner = await create_embedded_database(server)
    if not await is_current(owner):
        made_with = parameters() if callable(parameters) else parameters
        if await migrate(owner, login=EMBEDDED_LOGIN, parameters=made_with):
            await _write_to_disk(owner)
    return ConnectionSettings(host=server.host, port=server.port, user=EMBEDDED_LOGIN, database=EMBEDDED_DATABASE)


async def create_embedded_database(server: ConnectionSettings) -> ConnectionSettings:
    """Create login and database on the embedded server if they are missing.

    Args:
        server: The embedded server's superuser, on its database `postgres`.

    Returns:
        The superuser on the package's own database.
    """
    admin = await open_connection(server)
    try:
        # Session lock: CREATE DATABASE cannot run in a transaction, and another process may be doing the same.
        await lock_schema(admin)
        rows = await admin.fetch_all(_SQL["find_embedded"], {"login": EMBEDDED_LOGIN, "database": EMBEDDED_DATABASE})
        if not rows[0]["has_login"]:
            await admin.execute_script(_SQL["create_login"].fill(login=identifier(EMBEDDED_LOGIN)))
        if not rows[0]["has_database"]:
            await admin.execute_script(_SQL["create_database"].fill(database=identifier(EMBEDDED_DATABASE)))
    finally:
        admin.close()
    return ConnectionSettings(host=server.host, port=server.port, user=server.user, database=EMBEDDED_DATABASE)


async def _write_to_disk(administrator: ConnectionSettings) -> None:
    """Write the new tables, some hundred files, to disk now, so that the first stop of the server need not do it."""
    db = await open_connection(administrator)
    try:
        await db.execute_script("CHECKPOINT")
    finally:
        db.close()


async def is_analyser_outdated(administrator: ConnectionSettings) -> bool:
    """Whether the words were indexed by another version of the analyser than this release's."""
    async with _as_owner(administrator) as db:
        return await read_analyser_version(db) != ANALYSER_VERSION


async def count_reindexed(administrator: ConnectionSettings) -> int:
    """Return how many streams this release's analyser had indexed before it was interrupted."""
    async with _as_owner(administrator) as db:
        row = await db.fetch_one(_SQL["read_reindexed"])
    version, _, done = ("" if row is None else str(row["value"])).partition(":")
    return int(done) if version == str(ANALYSER_VERSION) else 0


async def record_reindexed(administrator: ConnectionSettings, streams: int) -> None:
    """Record that this release's analyser has indexed the first `streams` streams."""
    async with _as_owner(administrator) as db:
        await db.execute(_SQL["record_reindexed"], {"value": f"{ANALYSER_VERSION}:{streams}"})


async def record_analyser(administrator: ConnectionSettings) -> None:
    """Record that this release's analyser has indexed all words."""
    async with _as_owner(administrator) as db:
        await db.execute(_SQL["record_analyser"], {"version": str(ANALYSER_VERSION)})
        await db.execute(_SQL["delete_reindexed"])


@asynccontextmanager
async def _as_owner(administrator: ConnectionSettings) -> AsyncIterator[SqlExecutor]:
    """A transaction as the owner of the schema."""
    db = await open_connection(administrator)
    try:
        await db.execute_script(BEGIN_WRITE)
        await act_as_owner(db)
        yield db
        await db.execute_script("COMMIT")
    finally:
        db.close()


@asynccontextmanager
async def reindexing_allowed(administrator: ConnectionSettings) -> AsyncIterator[None]:
    """Let the administrator act as the application, one tenant at a time, and revoke that at the end.

    The administrator created these roles and may do so. A superuser needs no membership.
    """
    db = await open_connection(administrator)
    try:
        rows = await db.fetch_all(_SQL["list_roles_to_grant"], {"roles": [APP_ROLE, SCHEDULER_ROLE]})
        roles = ", ".join(identifier(row["role"]) for row in rows)
        if roles:
            await db.execute_script(_SQL["grant_roles"].fill(roles=roles))
        try:
            yield
        finally:
            if roles:
                await db.execute_script(_SQL["revoke_roles"].fill(roles=roles))
    finally:
        db.close()
