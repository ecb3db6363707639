"""Sessions and transactions on Neo4j; driver errors become StoreError here.

The driver is only imported when a manager is initialised: it takes a third of a second, and most users have no Neo4j.

No bookmarks are kept. Reads that must see the last write go where writes go (`latest`), and an older bookmark would be
refused by a server that came back empty or from a backup.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent_reminiscence.config.constants import CONNECT_TIMEOUT_SECONDS, TCP_SILENCE_SECONDS
from agent_reminiscence.config.settings import Config
from agent_reminiscence.database.queries import statement_name
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    ConfigurationError,
    NotInitializedError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
)
from agent_reminiscence.telemetry import Telemetry

if TYPE_CHECKING:
    from neo4j import AsyncDriver, AsyncManagedTransaction, AsyncSession
    from neo4j.exceptions import DriverError, Neo4jError

Params = Mapping[str, Any]
Row = dict[str, Any]

_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
# A write is several statements. If a client vanishes silently, the server ends its transaction and releases its locks
# after this many timeouts.
_STATEMENTS_OF_A_WRITE = 10
# The driver retries transient failures, such as a connection closed by a restart, once after a second. Callers have
# retries of their own, and an unavailable server should be noticed at once.
_RETRY_SECONDS = 0.5


# What a constraint or an index with the same name and meaning answers to CREATE.
_ALREADY_THERE = frozenset(
    f"Neo.ClientError.Schema.{name}"
    for name in ("EquivalentSchemaRuleAlreadyExists", "ConstraintAlreadyExists", "IndexAlreadyExists")
)
# What CREATE CONSTRAINT answers if the server died between creating the constraint's index and the constraint.
_NAME_TAKEN = "Neo.ClientError.Schema.IndexWithNameAlreadyExists"
# What DROP INDEX answers if a constraint owns the index.
_OWNED = "Neo.DatabaseError.Schema.IndexDropFailed"


class SchemaExistsError(StoreError):
    """Another process created the same constraint or index meanwhile, which IF NOT EXISTS does not prevent."""


class SchemaNameTakenError(StoreError):
    """An index with the name of the constraint to be created exists, and no constraint owns it."""


class SchemaDropError(StoreError):
    """An index could not be dropped: a constraint owns it."""


class CypherExecutor:
    """Statements within one transaction."""

    def __init__(
        self,
        transaction: AsyncManagedTransaction,
        database: str,
        telemetry: Telemetry | None,
        answered: Callable[[], None],
    ) -> None:
        self._transaction = transaction
        self._database = database
        self._telemetry = telemetry
        self._answered = answered

    async def fetch_all(self, statement: str, params: Params | None = None) -> list[Row]:
        """Run `statement` and return its rows. Parameters are named, `$name` in the statement.

        Driver errors pass through, because the driver itself may retry the transaction.
        """
        if self._telemetry is None:
            return await self._fetch_all(statement, params)
        with self._telemetry.statement(statement_name(statement), self._database, system="neo4j"):
            return await self._fetch_all(statement, params)

    async def fetch_one(self, statement: str, params: Params | None = None) -> Row | None:
        """Run `statement` and return its first row, or None if there is none."""
        rows = await self.fetch_all(statement, params)
        return rows[0] if rows else None

    async def _fetch_all(self, statement: str, params: Params | None) -> list[Row]:
        # The driver's type is a literal, to prevent composed statements; ours come from files.
        query: Any = str(statement)
        result = await self._transaction.run(query, dict(params or {}))
        rows = [dict(record) async for record in result]
        self._answered()
        return rows


class Neo4jManager:
    """A pool of connections to Neo4j, and transactions on them.

    It also works while the server is unavailable: nothing connects before the first call, and each call fails by
    itself.

    Args:
        uri: `neo4j://` for a cluster or Aura, `bolt://` for one server; `+s` for TLS. Without user and password.
        user: The user to log in as.
        password: Its password; None if authentication is off.
        database: The database to use.
        pool_size: The maximum number of open connections.
        timeout_seconds: Time limit for connecting, and for the answer to one statement.
        telemetry: Observes the statements; None observes nothing.

    Raises:
        ConfigurationError: The URI is not a Neo4j URI.
    """

    def __init__(
        self,
        uri: str,
        *,
        user: str,
        password: str | None,
        database: str,
        pool_size: int,
        timeout_seconds: float,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._where = _address(uri)
        self._uri = uri
        self._user = user
        self._password = password
        self._database = database
        self._pool_size = pool_size
        self._timeout_seconds = timeout_seconds
        self._telemetry = telemetry
        self._driver: AsyncDriver | None = None

    async def initialize(self) -> None:
        """Prepare for use within the running event loop, to which it then belongs. Nothing connects yet.

        Raises:
            ConfigurationError: The driver refuses the URI.
        """
        from neo4j import AsyncGraphDatabase, NotificationMinimumSeverity
        from neo4j.exceptions import ConfigurationError as DriverConfigurationError

        _keep_quiet()
        try:
            self._driver = AsyncGraphDatabase.driver(
                self._uri,
                auth=None if self._password is None else (self._user, self._password),
                max_connection_pool_size=self._pool_size,
                connection_timeout=min(self._timeout_seconds, CONNECT_TIMEOUT_SECONDS),
                connection_acquisition_timeout=self._timeout_seconds,
                connection_write_timeout=self._timeout_seconds,
                max_transaction_retry_time=min(self._timeout_seconds, _RETRY_SECONDS),
                # A connection idle for this long may have been dropped silently on the way.
                liveness_check_timeout=TCP_SILENCE_SECONDS,
                # A label that does not exist yet is not worth a notice.
                notifications_min_severity=NotificationMinimumSeverity.OFF,
                telemetry_disabled=True,
            )
        except (DriverConfigurationError, ValueError) as error:
            raise ConfigurationError(f"the Neo4j driver refuses neo4j_uri: {error}") from error

    async def close(self) -> None:
        """Close all connections; running calls on them fail."""
        driver, self._driver = self._driver, None
        if driver is None:
            return
        try:
            # It says goodbye on each connection, which a frozen server ignores.
            async with asyncio.timeout(min(self._timeout_seconds, CONNECT_TIMEOUT_SECONDS)):
                await driver.close()
        except TimeoutError:
            pass

    @asynccontextmanager
    async def get_read_session(self) -> AsyncIterator[AsyncSession]:
        """Open a session whose transactions may run on any reading server; for one task at a time.

        `read` limits the time of a statement; here that is up to the user of the session.

        Raises:
            StoreError: A driver error in the block, translated.
        """
        from neo4j import READ_ACCESS

        async with self._session(READ_ACCESS) as session:
            yield session

    @asynccontextmanager
    async def get_write_session(self) -> AsyncIterator[AsyncSession]:
        """Like `get_read_session`, but its transactions run where writes go."""
        from neo4j import WRITE_ACCESS

        async with self._session(WRITE_ACCESS) as session:
            yield session

    async def read[T](self, work: Callable[[CypherExecutor], Awaitable[T]], *, latest: bool = False) -> T:
        """Run `work`, which only reads, in one transaction; retried from its beginning after a transient failure.

        Args:
            latest: Whether it must see the latest writes of anyone; a cluster's readers lag slightly.

        Raises:
            StoreTimeoutError: There was no answer within the timeout.
            StoreUnavailableError: The server is unavailable, or not ready.
            StoreError: It refused a statement or the login.
        """
        async with self._deadline() as answered:
            run = self._unit(work, answered, self._timeout_seconds)
            if latest:
                async with self.get_write_session() as session:
                    return await session.execute_write(run)
            async with self.get_read_session() as session:
                return await session.execute_read(run)

    async def write[T](self, work: Callable[[CypherExecutor], Awaitable[T]]) -> T:
        """Run `work` in one transaction, which commits when it returns and is rolled back when it raises.

        It is retried from its beginning after a transient failure. A write that timed out may have taken effect, so
        `work` must be repeatable.

        Raises:
            StoreTimeoutError: There was no answer within the timeout.
            StoreUnavailableError: The server is unavailable, or not ready.
            CommitUnknownError: The connection was lost during the commit.
            StoreError: It refused a statement or the login.
        """
        async with self._deadline() as answered:
            run = self._unit(work, answered, self._timeout_seconds * _STATEMENTS_OF_A_WRITE)
            async with self.get_write_session() as session:
                return await session.execute_write(run)

    def _unit[T](
        self, work: Callable[[CypherExecutor], Awaitable[T]], answered: Callable[[], None], limit_seconds: float
    ) -> Callable[[AsyncManagedTransaction], Awaitable[T]]:
        """`work` in the form the driver runs; the server ends its transaction after `limit_seconds`."""
        from neo4j import unit_of_work

        @unit_of_work(timeout=limit_seconds)
        async def run(transaction: AsyncManagedTransaction) -> T:
            return await work(CypherExecutor(transaction, self._database, self._telemetry, answered))

        return run

    @asynccontextmanager
    async def _deadline(self) -> AsyncIterator[Callable[[], None]]:
        """End the block when there has been no answer for the timeout; call the yielded function at each answer.

        The driver has its own timeouts, but against a server that accepts connections and stays silent they add up.
        """
        loop = asyncio.get_running_loop()
        deadline = asyncio.timeout(self._timeout_seconds)

        def answered() -> None:
            deadline.reschedule(loop.time() + self._timeout_seconds)

        try:
            async with deadline:
                yield answered
        except TimeoutError as error:
            raise StoreTimeoutError(
                f"Neo4j at {self._where} did not respond within {self._timeout_seconds:g} s; neo4j_timeout_seconds sets"
                " the limit"
            ) from error

    @asynccontextmanager
    async def _session(self, access_mode: str) -> AsyncIterator[AsyncSession]:
        if self._driver is None:
            raise NotInitializedError("this Neo4jManager is not in use; call initialize() first")
        from neo4j.exceptions import DriverError, Neo4jError

        try:
            async with self._driver.session(database=self._database, default_access_mode=access_mode) as session:
                yield session
        except DriverError as error:
            raise self._lost(error) from error
        except Neo4jError as error:
            # From None: the server's message may quote a parameter, so memory text. Its code never does.
            raise self._refused(error) from None

    def _lost(self, error: DriverError) -> StoreError:
        """Translate an error of the driver itself."""
        from neo4j.exceptions import (
            ConnectionAcquisitionTimeoutError,
            ConnectionPoolError,
            IncompleteCommit,
            ServiceUnavailable,
            SessionExpired,
        )

        name = type(error).__name__
        if isinstance(error, IncompleteCommit):
            return CommitUnknownError(
                f"the connection to Neo4j at {self._where} was lost during a commit; it may have taken effect"
            )
        if isinstance(error, ConnectionAcquisitionTimeoutError):
            return StoreTimeoutError(
                f"no connection to Neo4j at {self._where} became free within {self._timeout_seconds:g} s;"
                " neo4j_pool_size sets their number"
            )
        if isinstance(error, ServiceUnavailable | SessionExpired | ConnectionPoolError):
            return StoreUnavailableError(
                f"Neo4j at {self._where} cannot be reached ({name}); check that it is up and that neo4j_uri is right"
            )
        return StoreError(f"the Neo4j driver failed ({name})")

    def _refused(self, error: Neo4jError) -> StoreError:
        """Translate an error that the server returned."""
        code = error.code or type(error).__name__
        if code.startswith("Neo.ClientError.Security."):
            return StoreError(
                f"Neo4j at {self._where} refuses {self._user!r} ({code}); check neo4j_user, neo4j_password and the"
                f" user's rights in {self._database!r}"
            )
        if code == "Neo.ClientError.Database.DatabaseNotFound":
            return StoreError(f"Neo4j at {self._where} has no database {self._database!r}; correct neo4j_database")
        if "TimedOut" in code or "Timeout" in code:
            return StoreTimeoutError(f"Neo4j ended a transaction ({code}); neo4j_timeout_seconds sets the limit")
        if code in _ALREADY_THERE:
            return SchemaExistsError(f"Neo4j has this constraint or index already ({code})")
        if code == _NAME_TAKEN:
            return SchemaNameTakenError(f"Neo4j has an index of this name that belongs to no constraint ({code})")
        if code == _OWNED:
            return SchemaDropError(f"Neo4j does not drop an index that belongs to a constraint ({code})")
        if error.is_retryable() or code.startswith("Neo.TransientError."):
            return StoreUnavailableError(f"Neo4j at {self._where} is not ready ({code})")
        return StoreError(f"Neo4j refused a statement ({code})")


def _keep_quiet() -> None:
    """Keep the driver's warnings, several per attempt, off stderr if logging is not configured."""
    logger = logging.getLogger("neo4j")
    if not logger.hasHandlers():
        logger.addHandler(logging.NullHandler())


def create_neo4j(config: Config, telemetry: Telemetry | None = None) -> Neo4jManager:
    """Create a manager for `config`, whose `neo4j_uri` is set; not yet initialised.

    Raises:
        ConfigurationError: The URI is not a Neo4j URI.
    """
    assert config.neo4j_uri is not None
    password = config.neo4j_password
    return Neo4jManager(
        config.neo4j_uri,
        user=config.neo4j_user,
        password=None if password is None else password.get_secret_value(),
        database=config.neo4j_database,
        pool_size=config.neo4j_pool_size,
        timeout_seconds=config.neo4j_timeout_seconds,
        telemetry=telemetry,
    )


def _address(uri: str) -> str:
    """Host and port of `uri`, for messages.

    Raises:
        ConfigurationError: It is not a Neo4j URI.
    """
    try:
        parts = urlsplit(uri)
        address = f"{parts.hostname or ''}:{parts.port or 7687}"
    except ValueError:
        # From None: the message would quote it.
        raise ConfigurationError("neo4j_uri is not a URL such as neo4j://host:7687") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ConfigurationError(
            f"neo4j_uri must be a URL such as neo4j://host:7687, with one of the schemes {', '.join(_SCHEMES)}"
        )
    if parts.username or parts.password:
        raise ConfigurationError("neo4j_uri must not contain user or password; set neo4j_user and neo4j_password")
    return address
