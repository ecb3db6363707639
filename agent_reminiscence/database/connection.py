"""One connection to a PostgreSQL server: how it is opened, its statements, and the rows that answer them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import psqlpy
from psqlpy.exceptions import Error as DriverError

from agent_reminiscence.config.constants import CONNECT_TIMEOUT_SECONDS, TCP_SILENCE_SECONDS
from agent_reminiscence.database.driver_errors import (
    is_cancelled,
    is_disconnect,
    is_full,
    is_unavailable,
    is_untracked,
    reason_of,
    told,
    untracked,
)
from agent_reminiscence.database.driver_threads import finish_at_exit
from agent_reminiscence.database.queries import statement_name, with_numbered_parameters
from agent_reminiscence.exceptions import ConfigurationError, StoreError, StoreTimeoutError, StoreUnavailableError
from agent_reminiscence.resilience.processes import check_driver, claim_driver
from agent_reminiscence.telemetry import Telemetry

# A plan made while a table was empty may later read all of it. Plans are discarded when a connection reaches this age,
# then at twice the age, and so on.
_FIRST_REPLANNING_SECONDS = 10.0

# Maximum number of statements sent together, so that each has its time within the answer timeout.
_MOST_DEFERRED = 16

# How long a server that does not respond on one connection may take to accept another one.
_ALIVE_SECONDS = 2.0

# How long a transaction that may hold locks can be silent before the server ends it. Ours waits for the server and for
# its own process's computing, so one that is silent for so long is frozen, or its machine is; others wait for its locks
# meanwhile, up to their statement timeout, and need the rest of that for themselves. With five times as much work as
# processors, a note of 10,000 passages was silent for more than ten seconds. An import, which reads a file within its
# write, sets the limit below.
IDLE_WRITE_SECONDS: Final = 20
# One that only reads locks out no writer, and may wait for an embedder in this process, for Neo4j or for a file.
IDLE_READ_SECONDS: Final = 300
IDLE_TIMEOUT: Final = "idle_in_transaction_session_timeout"
# Begins a transaction that writes, on a connection without a pool.
BEGIN_WRITE: Final = f"BEGIN; SET LOCAL {IDLE_TIMEOUT} = '{IDLE_WRITE_SECONDS}s'"

# What our sessions call themselves in pg_stat_activity.
APPLICATION_NAME: Final = "agent_reminiscence"

# The number of lookups from which planning pays: a bad plan reads this many rows for each.
_PLANNED_LOOKUPS = 256
Params = Mapping[str, Any]
Row = dict[str, Any]
# A statement and its parameters.
type Statement = tuple[str, Params]


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
        return f"ConnectionSettings({self.where})"

    @property
    def where(self) -> str:
        """Who connects to what, for messages."""
        return f"{self.user}@{self.host}:{self.port}/{self.database}"

    @classmethod
    def from_dsn(cls, dsn: str, *, setting: str = "postgres_dsn") -> ConnectionSettings:
        """Parse `postgresql://user:password@host:port/database?sslmode=…`.

        Args:
            setting: What messages call it.

        Raises:
            ConfigurationError: A part is missing, or the DSN has a parameter other than host, port and sslmode.
        """
        try:
            parts = urlsplit(dsn)
        except ValueError:
            # From None: the message would quote the password.
            raise ConfigurationError(f"{setting} is not a valid URL; percent-encode special characters") from None
        options = dict(parse_qsl(parts.query))
        unknown = options.keys() - {"host", "port", "sslmode"}
        if unknown:
            raise ConfigurationError(
                f"{setting} has the parameter {', '.join(sorted(unknown))}; only host, port and sslmode are allowed"
            )
        database = unquote(parts.path.removeprefix("/"))
        host = options.get("host") or unquote(parts.hostname or "")
        if not (host and parts.username and database):
            raise ConfigurationError(
                f"{setting} must name a user, a host and a database: postgresql://user@host/database"
            )
        ssl_mode = options.get("sslmode", "prefer")
        if ssl_mode not in _SSL_MODES:
            raise ConfigurationError(f"{setting} has sslmode={ssl_mode!r}; choose one of {', '.join(_SSL_MODES)}")
        try:
            port = int(options.get("port") or parts.port or 5432)
        except ValueError:
            raise ConfigurationError(f"{setting} has a port that is not a number from 1 to 65535") from None
        if not 1 <= port <= _MAX_PORT:
            raise ConfigurationError(f"{setting} has the port {port}; ports are from 1 to {_MAX_PORT}")
        settings = cls(
            host=host,
            port=port,
            user=unquote(parts.username),
            database=database,
            password=None if parts.password is None else unquote(parts.password),
            ssl_mode=ssl_mode,
        )
        for name in ("user", "password", "host", "database"):
            # The server would take the text up to there for the whole, and the driver fails with an error of its own.
            if fault := _fault(getattr(settings, name) or ""):
                raise ConfigurationError(f"the {name} in {setting} has {fault}")
        return settings


def _fault(text: str) -> str | None:
    if "\x00" in text:
        return "a NUL character; remove it"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a lone surrogate, which is not Unicode text; write special characters as %xx"
    return None


_MAX_PORT: Final = 65_535
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
        UsageError: This process was forked from one that had used the driver.
    """
    claim_driver()
    finish_at_exit()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            connection = await psqlpy.connect(
                host=settings.host,
                port=settings.port,
                username=settings.user,
                password=settings.password,
                db_name=settings.database,
                application_name=APPLICATION_NAME,
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
        reason = reason_of(error)
        kind = StoreUnavailableError if isinstance(error, TimeoutError) or is_unavailable(reason) else StoreError
        raise kind(f"cannot connect to PostgreSQL as {settings.where}: {told(reason)}") from error

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
        self,
        executor: SqlExecutor,
        statement: str,
        params: Params | None,
        read: Callable[[list[Row]], T],
        *,
        is_script: bool = False,
    ) -> None:
        self.statement = statement
        self.params = params
        # Whether it is one or several statements without parameters, and without rows that anyone wants.
        self.is_script = is_script
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
        # Whether the next statement that is waited for is the only one: its COMMIT is sent with it.
        self._is_single = False
        # Whether the connection had served another transaction before this one: the server may have closed it since.
        self.is_reused = False
        # Whether the transaction has appended events, so that those who follow the stream are told after its COMMIT.
        self.has_appended = False
        self._is_within_transaction = False
        self._deferred: list[Deferred[Any]] = []
        # Statements already prepared on this connection, which can be sent without waiting.
        self._prepared: set[str] = set()
        self._opened_at = time.monotonic()
        self._replanned_at_age = _FIRST_REPLANNING_SECONDS

    async def begin(self, mode: str, settings: Mapping[str, str], first: Sequence[Statement] = ()) -> list[list[Row]]:
        """Begin a transaction with `settings` that last until it ends, in one round trip.

        Args:
            mode: `BEGIN` with its options.
            settings: Our own names with any values: values are sent as digits, so that none can be read as SQL.
            first: Statements to be sent in the same round trip.

        Returns:
            The rows of each of `first`.
        """
        await self._begin(mode, settings, with_next=bool(first))
        return await self.fetch_together(first)

    async def begin_single(self, mode: str, settings: Mapping[str, str]) -> None:
        """Like `begin`, for a transaction that only reads, with one statement: all of it is sent with the statement."""
        await self._begin(mode, settings, with_next=True)
        self._is_single = True

    async def _begin(self, mode: str, settings: Mapping[str, str], *, with_next: bool) -> None:
        """Begin a transaction: now, or together with its first statement.

        Args:
            with_next: Together, unless plans are old enough to be made again.
        """
        self.has_failed = self.has_timed_out = self.has_appended = self._is_single = False
        self._is_within_transaction = True
        self._deferred.clear()
        calls = ", ".join(f"set_config('{name}', {_as_digits(value)}, true)" for name, value in settings.items())
        age = time.monotonic() - self._opened_at
        if age >= self._replanned_at_age:
            self._replanned_at_age = 2 * age
            mode, with_next = f"{mode}; DISCARD PLANS", False
        # A statement with parameters would need its own message.
        script = f"{mode}; SELECT {calls}"
        if with_next:
            self._defer_script(script)
        else:
            await self._answer(statement_name(mode), self._connection.execute_batch(script))

    async def fetch_all(self, statement: str, params: Params | None = None, *, prepared: bool = True) -> list[Row]:
        """Run `statement` and return its rows.

        Args:
            prepared: Whether the connection keeps the statement for the next call.

        Raises:
            StoreTimeoutError: It exceeded the statement timeout, or a live server did not answer it.
            StoreUnavailableError: The connection was lost.
            StoreError: The server refused it.
        """
        if prepared and self._is_single:
            return await self.fetch_last(statement, params)
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

    async def fetch_last(self, statement: str, params: Params | None) -> list[Row]:
        """Like `fetch_all`, for the last statement of a transaction that only reads: its COMMIT is sent with it.

        Raises:
            StoreError: As `fetch_all`. Nothing was written, so it may be repeated even if the COMMIT was lost.
        """
        self._is_single = False
        rows = await self.ask(statement, params, list)
        self._defer_script("COMMIT")
        await self.flush()
        self.is_committed = True
        return await rows.result()

    async def fetch_together(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run some statements in one round trip, and return the rows of each."""
        asked = [await self.ask(statement, params, list) for statement, params in statements]
        return [await one.result() for one in asked]

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

    def _defer_script(self, script: str) -> None:
        """Send statements without parameters together with the next one that is waited for."""
        self._deferred.append(Deferred(self, script, None, list, is_script=True))

    async def flush(self) -> None:
        """Send what was deferred and wait for it."""
        sent, self._deferred = self._deferred, []
        if all(not one.params or one.statement in self._prepared for one in sent):
            await self._send(sent)
            return
        # Statements the driver must first prepare would be sent after those behind them.
        for one in sent:
            await self._send([one])
            if one.params:
                self._prepared.add(one.statement)

    async def _send(self, sent: Sequence[Deferred[Any]]) -> None:
        if not sent:
            return
        # Telemetry names the query, not a COMMIT that is sent along.
        named = sent[-2] if len(sent) > 1 and sent[-1].statement == "COMMIT" else sent[-1]
        name = statement_name(named.statement)
        self._check_open(name)
        questions = [self._question(one) for one in sent]
        results = await self._answer(name, _together(questions), statements=len(sent))
        for one, result in zip(sent, results, strict=True):
            one.answer([] if result is None else _rows_of(result))

    def _question(self, one: Deferred[Any]) -> Coroutine[Any, Any, psqlpy.QueryResult | None]:
        """What asks the driver for one statement; nothing is sent before it runs."""
        if one.is_script:
            return self._connection.execute_batch(one.statement)
        text, values = _with_values(one.statement, one.params)
        # The driver would prepare a statement without values each time, and those behind it would overtake it.
        return self._connection.execute(text, values or None, bool(values))

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
        self._check_open(name)
        if self._telemetry is None:
            return await self._answer_unobserved(question)
        with self._telemetry.statement(name, self._database, statements=statements):
            return await self._answer_unobserved(question)

    def _check_open(self, name: str) -> None:
        """Refuse a statement in a forked process, which would get no answer, or after the end of the transaction."""
        check_driver()
        if self.is_committed:
            raise RuntimeError(f"{name} was sent in a transaction that had already ended")

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

    def _translate(self, error: DriverError) -> StoreError | ConfigurationError:
        is_first, self.has_failed = not self.has_failed, True
        reason = reason_of(error)
        if is_disconnect(reason):
            self.is_broken = True
            return StoreUnavailableError(f"the connection to PostgreSQL was lost: {reason}")
        if is_untracked(reason):
            return ConfigurationError(untracked(reason))
        if is_full(reason):
            return StoreError(
                f"the disk of the PostgreSQL server is full: {reason}; nothing was written. Free space there, then"
                " retry"
            )
        self.has_timed_out = self.has_timed_out or (is_first and is_cancelled(reason))
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


async def _together[T](questions: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Ask the driver several questions at once, and return the answers. It sends them in this order.

    The driver's own pipeline takes twice as much processor time.

    Raises:
        DriverError: That of the first question that was refused. PostgreSQL then refuses whatever is behind it. If the
            driver refused a value, what is behind it was run, and the caller has to roll it back.
    """
    *earlier, last = questions
    loop = asyncio.get_running_loop()
    # Eager: each is sent before the next one begins.
    asked = [asyncio.Task(question, loop=loop, eager_start=True) for question in earlier]
    try:
        answer = await last
        return [*[await task for task in asked], answer]
    except DriverError:
        # The first in order: later refusals may arrive before the one that says why.
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome from None
        raise
    except BaseException:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        raise


def _with_values(statement: str, params: Params | None) -> tuple[str, list[Any]]:
    """A statement in the server's form, and the values of its parameters in order."""
    text, names = with_numbered_parameters(statement)
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
