"""Acts as the owner of the schema, which only an administrator of the database may."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NamedTuple

from agent_reminiscence.config.constants import OWNER_ROLE
from agent_reminiscence.database.connection import BEGIN_WRITE, ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.database.schema import act_as_owner
from agent_reminiscence.exceptions import ConfigurationError

_SQL = load_queries("sql", "ownership")


@asynccontextmanager
async def administrator_connection(administrator: ConnectionSettings) -> AsyncIterator[SqlExecutor]:
    """Connect as an administrator who may act as the owner of the schema.

    Raises:
        ConfigurationError: The login may not.
        StoreError: The server is unavailable.
    """
    db = await open_connection(administrator)
    try:
        row = await db.fetch_one(_SQL["may_act_as_owner"], {"role": OWNER_ROLE})
        if row is None or not row["may_set"]:
            raise ConfigurationError(
                f"{administrator.user!r} may not act as {OWNER_ROLE}, who owns the tables; connect as the"
                " administrator who ran `agent-reminiscence migrate`, or run it as this one first"
            )
        yield db
    finally:
        db.close()


@asynccontextmanager
async def owner_transaction(db: SqlExecutor) -> AsyncIterator[SqlExecutor]:
    """A transaction as the owner of the schema, on an administrator's connection."""
    await db.execute_script(BEGIN_WRITE)
    try:
        await act_as_owner(db)
        yield db
        await db.execute_script("COMMIT")
    except Exception:
        await db.execute_script("ROLLBACK")
        raise


class DatabaseIdentity(NamedTuple):
    """Identifies a database, whichever login is connected.

    Attributes:
        migrated_at: When its schema was created, to the microsecond.
        number: Its number on its server.
    """

    migrated_at: datetime | None
    number: int


async def identify(db: SqlExecutor) -> DatabaseIdentity:
    """Say which database a connection leads to; it may read `schema_migration` there."""
    row = await db.fetch_one(_SQL["identify_database"])
    assert row is not None
    return DatabaseIdentity(**row)
