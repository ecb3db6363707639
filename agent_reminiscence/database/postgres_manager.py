"""Connections and transactions on Postgres: one role and one `external_id` each; driver errors become StoreError here.

We have our own pool because the driver's hands a connection with an open transaction to its next user, together with
its role and `external_id`. Here a connection returns to the pool only after its COMMIT or ROLLBACK was confirmed; if
it was cancelled or broken in between, it is closed and the server rolls back.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import psqlpy
from psqlpy.exceptions import Error as DriverError

from agent_reminiscence.config.constants import (
    ANSWER_GRACE_SECONDS,
    APP_ROLE,
    CONNECT_TIMEOUT_SECONDS,
    SCHEMA_NAME,
    TCP_SILENCE_SECONDS,
)
from agent_reminiscence.database.queries import statement_name, with_places
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    ConfigurationError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
)
from agent_reminiscence.telemetry import Telemetry

_logger = logging.getLogger("agent_reminiscence.database")

# A plan made while a table was empty may later read all of it. Plans are discarded when a connection reaches this age,
# then at twice the age, and so on.
_FIRST_REPLANNING_SECONDS = 10.0
# Maximum number of statements sent together, so that each has its time within the answer timeout.
_MOST_DEFERRED = 16
# How long a server that does not respond on one connection may take to accept another one.
_ALIVE_SECONDS = 2.0
# The number of lookups from which planning pays: a bad plan reads this many rows for each.
_PLANNED_LOOKUPS = 256

Params = Mapping[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Where a server is and who connects; `password` never appears in a message or a repr."""

    host: str
    port: int
    user: str
    database: str
    password: str | None = None
    ssl_mode: str = "prefer"

    def __repr__(self) -> str:
        return f"ConnectionSettings({self.user}@{self.host}:{self.port}/{self.database})"

    @classmethod
    def from_dsn(cls, dsn: str) -> ConnectionSettings:
        """Parse `postgresql://user:password@host:port/database?sslmode=…`.

        Raises:
            ConfigurationError: A part is missing, or the DSN has a parameter other than host, port and sslmode.
        """
        try:
            parts = urlsplit(dsn)
        except ValueError:
            # From None: the message would quote the password.
            raise ConfigurationError("postgres_dsn is not a valid URL; percent-encode special characters") from None
        options = dict(parse_qsl(parts.query))
        unknown = options.keys() - {"host", "port", "sslmode"}
        if unknown:
            raise ConfigurationError(
                f"postgres_dsn has the parameter {', '.join(sorted(unknown))}; only host, port and sslmode are allowed"
            )
        database = unquote(parts.path.removeprefix("/"))
        host = options.get("host") or unquote(parts.hostname or "")
        if not (host and parts.username and database):
            raise ConfigurationError(
                "postgres_dsn must name a user, a host and a database: postgresql://user@host/database"
            )
        ssl_mode = options.get("sslmode", "prefer")
        if ssl_mode not in _SSL_MODES:
            raise ConfigurationError(f"postgres_dsn has sslmode={ssl_mode!r}; choose one of {', '.join(_SSL_MODES)}")
        try:
            port = int(options.get("port") or parts.port or 5432)
        except ValueError:
            raise ConfigurationError("postgres_dsn has a port that is not a number") from None
        return cls(
            host=host,
            port=port,
            user=unquote(parts.username),
            database=database,
            password=None if parts.password is None else unquote(parts.password),
            ssl_mode=ssl_mode,
        )


_SSL_MODES = {
    "disable": psqlpy.SslMode.Disable,
    "allow": psqlpy.SslMode.Allow,
    "prefer": psqlpy.SslMode.Prefer,
    "require": psqlpy.SslMode.Require,
    "verify-ca": psqlpy.SslMode.VerifyCa,
    "verify-full": psqlpy.SslMode.VerifyFull,
}


async def open_connection(settings: ConnectionSettings, telemetry: Telemetry | None = None) -> SqlExecutor:
    """Open one connection outside any pool, in autocommit; for administration.

    Args:
        telemetry: Observes its statements; None observes nothing.

    Raises:
        StoreUnavailableError: The server cannot be reached, or accepts no connection at the moment.
        StoreError: It refuses the login.
    """
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            connection = await psqlpy.connect(
                host=settings.host,
                port=settings.port,
                username=settings.user,
                password=settings.password,
                db_name=settings.database,
                application_name="agent_reminiscence",
                connect_timeout_sec=CONNECT_TIMEOUT_SECONDS,
                # Has no effect on a Unix socket.
                tcp_user_timeout_sec=TCP_SILENCE_SECONDS,
                keepalives_idle_sec=TCP_SILENCE_SECONDS // 3,
                keepalives_interval_sec=TCP_SILENCE_SECONDS // 3,
                keepalives_retries=2,
                # Unix sockets have no TLS to negotiate.
                ssl_mode=psqlpy.SslMode.Disable if settings.host.startswith("/") else _SSL_MODES[settings.ssl_mode],
            )
    except (DriverError, TimeoutError) as error:
        reason = _reason(error)
        kind = StoreUnavailableError if isinstance(error, TimeoutError) or _is_unavailable(reason) else StoreError
        raise kind(f"cannot connect to PostgreSQL as {settings!r}: {reason}") from error

    async def is_alive() -> bool:
        try:
            async with asyncio.timeout(_ALIVE_SECONDS):
                (await open_connection(settings)).close()
        except (StoreError, TimeoutError):
            return False
        return True

    return SqlExecutor(connection, settings.database, telemetry, is_alive=is_alive)


class Deferred[T]:
    """A statement that is sent together with a later one, and a function that interprets its rows."""

    def __init__(
        self, executor: SqlExecutor, statement: str, params: Params | None, read: Callable[[list[Row]], T]
    ) -> None:
        self.statement = statement
        self.params = params
        self._executor = executor
        self._read = read
        self._rows: list[Row] | None = None

    def answer(self, rows: list[Row]) -> None:
        """Store the rows of the statement."""
        self._rows = rows

    async def result(self) -> T:
        """Return the interpreted rows; sends the statement now if it has not been sent yet.

        Raises:
            StoreError: As `SqlExecutor.fetch_all`, for this statement or one that was sent with it.
        """
        if self._rows is None:
            await self._executor.flush()
        if self._rows is None:
            raise StoreError("the statement was not sent because an earlier one failed")
        return self._read(self._rows)


class SqlExecutor:
    """Statements on one connection. Parameters are named, `$(name)p` in the statement."""

    def __init__(
        self,
        connection: psqlpy.Connection,
        database: str,
        telemetry: Telemetry | None = None,
        *,
        is_alive: Callable[[], Awaitable[bool]],
    ) -> None:
        self._connection = connection
        self._database = database
        self._telemetry = telemetry
        # Checks whether the server accepts another connection; called if this one does not respond.
        self._is_alive = is_alive
        self.is_broken = False
        # The server ends statements that take too long; this is for one that no longer responds. None waits for ever.
        self.answer_timeout_seconds: float | None = None
        # A failed statement aborts its transaction, and PostgreSQL answers the COMMIT of one with a silent ROLLBACK.
        self.has_failed = False
        # Only the first failure shows a timeout: the server then refuses everything else in the transaction.
        self.has_timed_out = False
        # Whether the transaction has ended before its block: nothing more may be sent in it.
        self.is_committed = False
        self._is_within_transaction = False
        self._deferred: list[Deferred[Any]] = []
        # Statements already prepared on this connection, which can be sent without waiting.
        self._prepared: set[str] = set()
        self._opened_at = time.monotonic()
        self._replanned_at_age = _FIRST_REPLANNING_SECONDS

    async def begin(self, mode: str, settings: Mapping[str, str], first: tuple[str, Params] | None = None) -> list[Row]:
        """Begin a transaction with `settings` that last until it ends, in one round trip.

        Args:
            mode: `BEGIN` with its options.
            settings: Our own names with any values: values are sent as digits, so that none can be read as SQL.
            first: A statement and its parameters, to be sent in the same round trip.

        Returns:
            The rows of `first`.
        """
        self.has_failed = self.has_timed_out = False
        self._is_within_transaction = True
        self._deferred.clear()
        age = time.monotonic() - self._opened_at
        if age >= self._replanned_at_age:
            self._replanned_at_age = 2 * age
            mode = f"{mode}; DISCARD PLANS"
        elif first is not None:
            calls = ", ".join(f"set_config('{name}', $(value_{place})p, true)" for place, name in enumerate(settings))
            await self.defer(mode)
            await self.defer(
                f"SELECT {calls}", {f"value_{place}": value for place, value in enumerate(settings.values())}
            )
            return await self.fetch_all(*first)
        calls = ", ".join(f"set_config('{name}', {_as_digits(value)}, true)" for name, value in settings.items())
        # A statement with parameters would need its own message and round trip.
        await self._answer(statement_name(mode), self._connection.execute_batch(f"{mode}; SELECT {calls}"))
        return [] if first is None else await self.fetch_all(*first)

    async def fetch_all(self, statement: str, params: Params | None = None, *, prepared: bool = True) -> list[Row]:
        """Run `statement` and return its rows.

        Args:
            prepared: Whether the connection keeps the statement for the next call.

        Raises:
            StoreTimeoutError: It exceeded the statement timeout, or a live server did not answer it.
            StoreUnavailableError: The connection was lost.
            StoreError: The server refused it.
        """
        if self._deferred:
            if prepared:
                return await (await self.ask(statement, params, list)).result()
            await self.flush()
        text, values = _with_values(statement, params)
        # The driver refuses an empty list.
        result = await self._answer(statement_name(statement), self._connection.execute(text, values or None, prepared))
        if prepared and values:
            # Without values the driver prepares nothing.
            self._prepared.add(statement)
        return _rows_of(result)

    async def fetch_last(self, statement: str, params: Params) -> list[Row]:
        """Like `fetch_all`, for the last statement of a transaction that only reads: its COMMIT is sent with it.

        Raises:
            StoreError: As `fetch_all`. Nothing was written, so it may be repeated even if the COMMIT was lost.
        """
        rows = await self.ask(statement, params, list)
        await self.defer("COMMIT")
        await self.flush()
        self.is_committed = True
        return await rows.result()

    async def fetch_one(self, statement: str, params: Params | None = None) -> Row | None:
        """Run `statement` and return its first row, or None if there is none."""
        rows = await self.fetch_all(statement, params)
        return rows[0] if rows else None

    async def execute(self, statement: str, params: Params | None = None) -> None:
        """Run `statement` for its effect."""
        await self.fetch_all(statement, params)

    async def defer(self, statement: str, params: Params | None = None) -> None:
        """Run `statement` for its effect together with the next one that is waited for, in the same round trip.

        Statements run in the order of the calls. If the server refuses one, the next waiting call raises, at the latest
        the end of the transaction. Outside a transaction it runs at once.
        """
        await self.ask(statement, params, list)

    async def ask[T](self, statement: str, params: Params | None, read: Callable[[list[Row]], T]) -> Deferred[T]:
        """Like `defer`, for a statement whose rows are needed later.

        Args:
            read: Interprets the rows.
        """
        deferred = Deferred(self, statement, params, read)
        self._deferred.append(deferred)
        if not self._is_within_transaction or len(self._deferred) == _MOST_DEFERRED:
            await self.flush()
        return deferred

    async def flush(self) -> None:
        """Send what was deferred and wait for it."""
        sent, self._deferred = self._deferred, []
        if all(one.statement in self._prepared for one in sent):
            await self._send(sent)
            return
        # Statements the driver must first prepare would be sent after those behind them.
        for one in sent:
            await self._send([one])
            self._prepared.add(one.statement)

    async def _send(self, sent: Sequence[Deferred[Any]]) -> None:
        if not sent:
            return
        questions: list[tuple[str, list[Any] | None]] = [_with_values(one.statement, one.params) for one in sent]
        # Telemetry names the query, not a COMMIT that is sent along.
        named = sent[-2] if len(sent) > 1 and sent[-1].statement == "COMMIT" else sent[-1]
        results = await self._answer(
            statement_name(named.statement),
            self._connection.transaction().pipeline(questions, True),
            statements=len(sent),
        )
        for one, result in zip(sent, results, strict=True):
            one.answer(_rows_of(result))

    def forget_deferred(self) -> None:
        """Discard what was deferred: its transaction is rolled back."""
        self._deferred.clear()

    async def execute_script(self, script: str) -> None:
        """Run statements without parameters, separated by semicolons, in one round trip."""
        await self.flush()
        await self._answer(statement_name(script), self._connection.execute_batch(script))

    async def set_local(self, settings: Mapping[str, str]) -> None:
        """Set server settings until the transaction ends, in one round trip."""
        await self.flush()
        calls = ", ".join(f"set_config(${2 * i + 1}, ${2 * i + 2}, true)" for i in range(len(settings)))
        parts = [part for pair in settings.items() for part in pair]
        await self._answer("set_local", self._connection.execute(f"SELECT {calls}", parts))

    async def plan_for(self, lookups: int) -> None:
        """Plan the rest of the transaction for the current tables if it looks up this many rows one by one.

        A plan kept by the connection may date from when its tables were small and best read whole: writing a long text
        would then read a whole table for each chunk. For few rows, planning costs more than that.
        """
        if lookups >= _PLANNED_LOOKUPS:
            await self.set_local({"plan_cache_mode": "force_custom_plan"})

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back by the server."""
        self.is_broken = True
        self._connection.close()

    async def _answer[T](self, name: str, question: Awaitable[T], *, statements: int = 1) -> T:
        """Await the driver's answer and translate its errors; observed as `name`.

        Args:
            statements: How many are sent together. `name` is the last of them that is not a COMMIT.
        """
        if self.is_committed:
            raise RuntimeError(f"{name} was sent in a transaction that had already ended")
        if self._telemetry is None:
            return await self._answer_unobserved(question)
        with self._telemetry.statement(name, self._database, statements=statements):
            return await self._answer_unobserved(question)

    async def _answer_unobserved[T](self, question: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self.answer_timeout_seconds):
                return await question
        except TimeoutError as error:
            self.has_failed = self.is_broken = True
            waited = f"no answer within {self.answer_timeout_seconds:g} s"
            if await self._is_alive():
                # It waits for something that no server timeout interrupts, or its process is suspended.
                self.has_timed_out = True
                raise StoreTimeoutError(
                    f"PostgreSQL gave {waited}, though it accepts other connections; this connection was closed"
                ) from error
            raise StoreUnavailableError(f"the connection to PostgreSQL was lost: {waited}") from error
        except DriverError as error:
            raise self._translate(error) from error

    def _translate(self, error: DriverError) -> StoreError:
        is_first, self.has_failed = not self.has_failed, True
        reason = _reason(error)
        if _is_disconnect(reason):
            self.is_broken = True
            return StoreUnavailableError(f"the connection to PostgreSQL was lost: {reason}")
        if _is_full(reason):
            return StoreError(
                f"the disk of the PostgreSQL server is full: {reason}; nothing was written. Free space there, then"
                " retry"
            )
        self.has_timed_out = self.has_timed_out or (is_first and "statement timeout" in reason)
        if self.has_timed_out:
            return StoreTimeoutError(
                f"PostgreSQL ended a statement: {reason}; statement_timeout_seconds sets the limit"
            )
        return StoreError(f"PostgreSQL refused a statement: {reason}")


# Settings for a transaction whose statements find their rows by keys: each is planned once per connection. Planning it
# again for each tenant takes up to some milliseconds, several times its run time. And a kept plan must not be one that
# suited small tables, which are best read whole.
PLANNED_ONCE: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
}
_READ_ONLY = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresManager:
    """A pool of connections, and transactions on them.

    Args:
        settings: Where to connect, with a login that is neither superuser nor owner.
        pool_size: The maximum number of open connections.
        pool_timeout_seconds: How long `transaction` waits for one.
        statement_timeout_seconds: How long a statement may run.
        telemetry: Observes the statements; None observes nothing.
        revive: Restarts an unavailable server and returns its address; None if that is not ours to do.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        *,
        pool_size: int,
        pool_timeout_seconds: float,
        statement_timeout_seconds: float,
        telemetry: Telemetry | None = None,
        revive: Callable[[], Awaitable[ConnectionSettings]] | None = None,
    ) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._revive = revive
        self._reviving = asyncio.Lock()
        self._pool_size = pool_size
        self._pool_timeout_seconds = pool_timeout_seconds
        self._statement_timeout = f"{int(statement_timeout_seconds * 1000)}ms"
        self._answer_timeout_seconds = statement_timeout_seconds + ANSWER_GRACE_SECONDS
        self._search_path = f"{SCHEMA_NAME}, public"
        self._free = asyncio.Semaphore(pool_size)
        self._idle: list[SqlExecutor] = []
        self._is_open = False

    async def initialize(self) -> None:
        """Connect once and find the schema of the extension, which need not be `public`.

        Raises:
            StoreError: The server cannot be reached or refuses the login.
        """
        self._is_open = True
        connection = await open_connection(self._settings, self._telemetry)
        try:
            rows = await connection.fetch_all(
                "SELECT DISTINCT extnamespace::regnamespace::text AS name FROM pg_extension"
                " WHERE extname = 'vector' ORDER BY 1"
            )
        except BaseException:
            connection.close()
            raise
        self._search_path = ", ".join([SCHEMA_NAME, *(row["name"] for row in rows if row["name"] != SCHEMA_NAME)])
        self._idle.append(connection)

    @property
    def settings(self) -> ConnectionSettings:
        """The server's current address; it may have changed with a restart."""
        return self._settings

    async def ping(self) -> None:
        """Make sure that the server is available, restarting it if possible.

        Raises:
            StoreError: It is unavailable.
        """
        async with self.transaction("", read_only=True):
            pass

    async def _open(self) -> SqlExecutor:
        try:
            return await open_connection(self._settings, self._telemetry)
        except StoreUnavailableError:
            if self._revive is None:
                raise
            return await self._open_revived(self._revive)

    async def _open_revived(self, revive: Callable[[], Awaitable[ConnectionSettings]]) -> SqlExecutor:
        """Let the first task that misses the server restart it, then connect."""
        async with self._reviving:
            try:
                return await open_connection(self._settings, self._telemetry)
            except StoreUnavailableError as error:
                if not self._is_open:
                    raise
                _logger.warning("the server is unavailable; restarting it: %s", error)
                self._settings = await self._revived(revive)
                return await open_connection(self._settings, self._telemetry)

    async def _revived(self, revive: Callable[[], Awaitable[ConnectionSettings]]) -> ConnectionSettings:
        try:
            return await revive()
        except (StoreTimeoutError, StoreUnavailableError):
            raise
        except StoreError as error:
            # It may have been killed again during the start; nothing was written, and the next call tries again.
            raise StoreUnavailableError(f"the server is unavailable and could not be restarted: {error}") from error

    async def close(self) -> None:
        """Refuse new transactions, wait for running ones, and close the connections.

        Connections still in use after the pool's timeout are closed when they come back.
        """
        self._is_open = False
        ended = 0
        try:
            async with asyncio.timeout(self._pool_timeout_seconds):
                while ended < self._pool_size:
                    await self._free.acquire()
                    ended += 1
        except TimeoutError:
            _logger.warning("closing the store while transactions are still running")
        finally:
            for _ in range(ended):
                self._free.release()
            while self._idle:
                self._idle.pop().close()

    @asynccontextmanager
    async def transaction(
        self,
        external_id: str,
        *,
        role: str = APP_ROLE,
        settings: Mapping[str, str] | None = None,
        read_only: bool = False,
    ) -> AsyncIterator[SqlExecutor]:
        """Run one transaction as `role` that sees only the rows of `external_id`.

        Commits at the end of the block and rolls back if it raises. If cancelled at any point it leaves nothing behind,
        except that a COMMIT in progress may or may not have taken effect.

        Args:
            settings: Server settings for this transaction only, such as `enable_sort`.
            read_only: Whether the block only reads, in one snapshot.

        Raises:
            StoreTimeoutError: No connection became free in time, or a statement ran too long.
            StoreUnavailableError: The server is unavailable, or was lost before COMMIT was sent.
            CommitUnknownError: It was lost during COMMIT; not if the block only reads.
        """
        local = self._local(external_id, role) | dict(settings or {})
        connection, _ = await self._acquire(local, _READ_ONLY if read_only else "BEGIN")
        async with self._ended(connection, read_only=read_only):
            yield connection

    @asynccontextmanager
    async def reading(
        self, external_id: str, statement: str, params: Params
    ) -> AsyncIterator[tuple[SqlExecutor, list[Row]]]:
        """Run a `transaction` that only reads; its first statement is sent with its beginning, its rows are yielded.

        For searches: each statement is planned once per connection, whichever tenant asks.

        Raises:
            StoreError: As `transaction`; also if the statement is refused.
        """
        local = self._local(external_id, APP_ROLE) | PLANNED_ONCE
        connection, rows = await self._acquire(local, _READ_ONLY, first=(statement, params))
        async with self._ended(connection, read_only=True):
            yield connection, rows

    @asynccontextmanager
    async def scratch_transaction(
        self, external_id: str, *, role: str = APP_ROLE, snapshot: bool = False
    ) -> AsyncIterator[SqlExecutor]:
        """Run a transaction in which a temporary table replaces the table of the same name.

        It has its own connection, which no later transaction gets: statements prepared here are planned for tables that
        disappear afterwards. The statement timeout does not apply, because it reads whole streams.

        Args:
            snapshot: Whether all of it sees the database as of its first statement.

        Raises:
            StoreTimeoutError: No connection became free in time.
            StoreUnavailableError: The server is unavailable, or was lost before COMMIT was sent.
            CommitUnknownError: It was lost during COMMIT.
        """
        local = self._local(external_id, role) | {
            "search_path": f"pg_temp, {self._search_path}",
            "statement_timeout": "0",
        }
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ" if snapshot else "BEGIN"
        connection, _ = await self._acquire(local, begin, fresh=True)
        connection.answer_timeout_seconds = None
        async with self._ended(connection, reusable=False):
            yield connection

    def _local(self, external_id: str, role: str) -> dict[str, str]:
        """Settings that define a transaction: its role, tenant and limits, all gone at its end."""
        return {
            "role": role,
            "reminiscence.external_id": external_id,
            "search_path": self._search_path,
            "statement_timeout": self._statement_timeout,
            # A cancelled task closes its connection; without this the server would first finish the statement, holding
            # the locks that others wait for.
            "client_connection_check_interval": "1s",
        }

    @asynccontextmanager
    async def _ended(
        self, connection: SqlExecutor, *, reusable: bool = True, read_only: bool = False
    ) -> AsyncIterator[None]:
        """Commit if the block succeeds, roll back if it raises, and give the connection back."""
        finished = False
        try:
            try:
                yield
                await connection.flush()
            except Exception:
                # A plain failure: roll back and keep the connection. A cancellation is not an Exception and skips this,
                # because the statement it interrupted may still be running.
                await self._finish(connection, "ROLLBACK")
                finished = True
                raise
            if connection.has_failed:
                await self._finish(connection, "ROLLBACK")
                finished = True
                kind = StoreTimeoutError if connection.has_timed_out else StoreError
                raise kind("a statement of this transaction failed, so all of it was rolled back")
            await self._finish(connection, "COMMIT", read_only=read_only)
            finished = True
        finally:
            self._release(connection, reusable=finished and reusable)

    async def _finish(self, connection: SqlExecutor, command: str, *, read_only: bool = False) -> None:
        if command == "ROLLBACK":
            connection.forget_deferred()
            if connection.is_broken:
                return
        if connection.is_committed:
            return
        try:
            await connection.execute_script(command)
        except StoreError as error:
            if command == "ROLLBACK" or (read_only and connection.is_broken):
                # The server rolls back by itself; and what was read was still read in one snapshot.
                connection.is_broken = True
                return
            if connection.is_broken:
                raise CommitUnknownError(
                    "the connection was lost during COMMIT, so it is unknown whether the write took effect;"
                    " repeat it with the same idempotency_key, or read before you repeat it"
                ) from error
            raise

    async def _acquire(
        self,
        local: Mapping[str, str],
        begin: str,
        *,
        fresh: bool = False,
        first: tuple[str, Params] | None = None,
    ) -> tuple[SqlExecutor, list[Row]]:
        if not self._is_open:
            raise StoreError("the store is closed")
        try:
            async with asyncio.timeout(self._pool_timeout_seconds):
                await self._free.acquire()
        except TimeoutError as error:
            raise StoreTimeoutError(
                f"no connection became free within {self._pool_timeout_seconds:g} s;"
                f" all {self._pool_size} are in use (postgres_pool_size, pool_timeout_seconds)"
            ) from error
        try:
            return await self._begin(local, begin, fresh=fresh, first=first)
        except BaseException:
            self._free.release()
            raise

    async def _begin(
        self, local: Mapping[str, str], begin: str, *, fresh: bool, first: tuple[str, Params] | None
    ) -> tuple[SqlExecutor, list[Row]]:
        """Return a connection with a transaction begun, and the rows of `first`.

        A connection that died while idle is replaced: nothing worth keeping ran on it yet.
        """
        while True:
            if fresh and self._idle:
                # It replaces an idle one, so that no more are open than the pool allows.
                self._idle.pop().close()
            reused = bool(self._idle) and not fresh
            connection = self._idle.pop() if reused else await self._open()
            begun = False
            connection.answer_timeout_seconds = self._answer_timeout_seconds
            try:
                rows = await connection.begin(begin, local, first)
                begun = True
                return connection, rows
            except StoreError:
                if not (reused and connection.is_broken):
                    raise
                _logger.info("the server closed an idle connection; connecting again")
            finally:
                if not begun:
                    connection.close()

    def _release(self, connection: SqlExecutor, *, reusable: bool) -> None:
        connection.is_committed = False
        if reusable and not connection.is_broken and self._is_open:
            self._idle.append(connection)
        else:
            connection.close()
        self._free.release()


def _with_values(statement: str, params: Params | None) -> tuple[str, list[Any]]:
    """A statement in the server's form, and the values of its parameters in order."""
    text, names = with_places(statement)
    return text, [params[name] for name in names] if params else []


def _rows_of(result: psqlpy.QueryResult) -> list[Row]:
    try:
        return result.result()
    except (DriverError, ValueError) as error:
        # No statement has failed. PostgreSQL has times, such as infinity, that Python cannot represent.
        raise StoreError(f"PostgreSQL returned a value that cannot be read ({type(error).__name__})") from error


def _as_digits(value: str) -> str:
    """An SQL expression for a text made only of hexadecimal digits, so that nothing needs quoting."""
    return f"convert_from(decode('{value.encode().hex()}', 'hex'), 'UTF8')"


def _reason(error: BaseException) -> str:
    """The server's message on one line, without DETAIL or CONTEXT, which may quote a row."""
    text = str(error) or type(error).__name__
    text = re.split(r"\n(?:DETAIL|CONTEXT|HINT|QUERY|WHERE):", text, maxsplit=1)[0]
    for prefix in ("Cannot execute query, error - ", "Database engine pool exception: ", "db error: "):
        text = text.replace(prefix, "")
    return " ".join(text.split())


# The driver has one error class and passes on no SQLSTATE, so the words tell what happened. The server's are only
# recognised in English (`lc_messages`); in other languages they become a plain StoreError.
_LOST = (
    "connection closed",
    "error communicating with the server",
    "terminating connection",
    "broken pipe",
    "reset by peer",
)
_NOT_NOW = (
    "error connecting to server",
    "timed out",
    "the database system is ",
    "too many clients",
    "too many connections",
    "remaining connection slots",
)
_FULL = ("could not extend file", "no space left on device", "disk quota exceeded", "disk full")


def _is_disconnect(reason: str) -> bool:
    return _has_sign(reason, _LOST)


def _is_unavailable(reason: str) -> bool:
    return _has_sign(reason, _LOST + _NOT_NOW)


def _is_full(reason: str) -> bool:
    # Shared memory has its own size and is not a disk.
    return _has_sign(reason, _FULL) and "shared memory" not in reason


def _has_sign(reason: str, signs: Sequence[str]) -> bool:
    lowered = reason.lower()
    return any(sign in lowered for sign in signs)
