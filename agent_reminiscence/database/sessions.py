"""Checks `session_dsn`: what needs a session connects there, past a pooler."""

from __future__ import annotations

from agent_reminiscence.config.constants import APP_ROLE, SCHEMA_NAME
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.ownership import DatabaseIdentity, identify
from agent_reminiscence.database.pooling import is_shared, needs_session
from agent_reminiscence.database.schema_checks import open_checked
from agent_reminiscence.exceptions import ConfigurationError, StoreError


async def check_sessions(sessions: ConnectionSettings, settings: ConnectionSettings) -> None:
    """Check that a connection there is a session of its own, on the same database as `settings`.

    Raises:
        ConfigurationError: It does not fit; the message says what to change.
        StoreError: The server is unavailable.
    """
    try:
        own = await open_checked(sessions)
    except (ConfigurationError, StoreError) as error:
        raise type(error)(f"session_dsn: {error}") from error
    try:
        if await is_shared(sessions, own):
            raise ConfigurationError(
                needs_session(
                    "The worker",
                    setting="session_dsn",
                    way_out="set it to an address of PostgreSQL itself, past the pooler",
                )
            )
        if await _identify(own) != await _identify_at(settings):
            raise ConfigurationError(
                f"session_dsn leads to {sessions.where}, which is another database than {settings.where} of"
                " postgres_dsn; both have to lead to the same one, directly and through the pooler"
            )
    finally:
        own.close()


async def _identify_at(settings: ConnectionSettings) -> DatabaseIdentity:
    db = await open_connection(settings)
    try:
        return await _identify(db)
    finally:
        db.close()


async def _identify(db: SqlExecutor) -> DatabaseIdentity:
    """Which database a login's connection leads to."""
    await db.begin("BEGIN READ ONLY", {"role": APP_ROLE, "search_path": SCHEMA_NAME})
    identity = await identify(db)
    await db.execute_script("ROLLBACK")
    return identity
