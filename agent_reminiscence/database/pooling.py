"""Whether a connection is a session of its own, or a pooler gives each transaction another one.

PostgreSQL keeps a role, a search path, a LISTEN and some locks for a session. Behind a pooler in transaction mode, such
as PgBouncer's `pool_mode = transaction`, they stay with whoever is given the session next, and are missing where they
were set. Whatever needs a session asks here first.
"""

from __future__ import annotations

from typing import Final

from agent_reminiscence.config.constants import CONNECT_TIMEOUT_SECONDS
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.driver_errors import untracked
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.exceptions import ConfigurationError, StoreError, StoreTimeoutError

_SQL = load_queries("sql", "pooling")

# Under load, a session may by chance be given to the same client again.
_ROUNDS: Final = 3
# How long the first connection waits for a session once it is known that they are shared: there may be a single one.
_SINGLE_SECONDS: Final = 3.0
_STATEMENT_POOLING: Final = "statement pooling mode"


async def is_shared(settings: ConnectionSettings, first: SqlExecutor) -> bool:
    """Whether sessions at this address are shared: each transaction of a client may be on another one.

    A second connection holds a transaction open while the first asks again which process answers it. In a session of
    its own that never changes, and no other connection is ever answered by the same process.

    Args:
        first: A connection to `settings`, outside a transaction. Afterwards it may be broken, if the pooler has a
            single session.

    Raises:
        ConfigurationError: They are shared, and either prepared statements or transactions are not possible there.
        StoreError: The server is unavailable.
    """
    own = await _backend(first, 0)
    second = await open_connection(settings)
    second.answer_timeout_seconds = CONNECT_TIMEOUT_SECONDS
    waits, first.answer_timeout_seconds = first.answer_timeout_seconds, CONNECT_TIMEOUT_SECONDS
    shared = False
    try:
        for number in range(1, _ROUNDS + 1):
            await _begin(second)
            other = await _backend(second, number)
            if shared := other == own:
                first.answer_timeout_seconds = _SINGLE_SECONDS
            # Also if that is known by now: this shows whether prepared statements go from session to session.
            shared = await _backend(first, number) != own or shared
            await second.execute_script("ROLLBACK")
            if shared:
                break
    except StoreTimeoutError:
        if not shared:
            raise
        # The pooler has one session, which the second connection holds.
    finally:
        first.answer_timeout_seconds = waits
        second.close()
    return shared


async def _begin(connection: SqlExecutor) -> None:
    try:
        await connection.execute_script("BEGIN")
    except StoreError as error:
        if _STATEMENT_POOLING not in str(error):
            raise
        raise ConfigurationError(
            "postgres_dsn leads through a connection pooler that allows no transactions (PgBouncer's pool_mode ="
            " statement); set pool_mode to transaction or session, or let postgres_dsn lead to PostgreSQL itself"
        ) from error


async def _backend(connection: SqlExecutor, number: int) -> int:
    row = await connection.fetch_one(_SQL["read_backend"], {"number": number})
    if row is None or row.get("number") != number:
        # The session has another client's statement of the same name.
        raise ConfigurationError(untracked("another client's prepared statement was run"))
    return int(row["pid"])


def needs_session(what: str, *, setting: str = "postgres_dsn", way_out: str) -> str:
    """The message for something that a shared session cannot do.

    Args:
        what: What needs a session, as the subject of a sentence.
        setting: What the address is called.
        way_out: What to do.
    """
    return (
        f"{what} needs a session of its own, but {setting} leads through a connection pooler in transaction mode (such"
        f" as PgBouncer with pool_mode = transaction), which gives each transaction another one; {way_out}"
    )


def handed_on(login: str, acts_as: str) -> str:
    """The message for a session on which another client has left its role."""
    return (
        f"login {login!r} acts as the role {acts_as!r} right after connecting. Either a connection pooler in"
        " transaction mode (such as PgBouncer) hands on a session on which another client has set a role, for example"
        " a worker that connects through it: give that process session_dsn, then have the pooler open new sessions"
        " (PgBouncer: RECONNECT in its console, or a restart). Or the login has a default role: run ALTER ROLE …"
        " RESET role"
    )
