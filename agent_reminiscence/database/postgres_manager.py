"""Connections and transactions on Postgres: one role and one `external_id` each; driver errors become StoreError here.

We have our own pool because the driver's hands a connection with an open transaction to its next user, together with
its role and `external_id`. Here a connection returns to the pool only after its COMMIT or ROLLBACK was confirmed; if
it was cancelled or broken in between, it is closed and the server rolls back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal

from agent_reminiscence.config.constants import APP_ROLE, SCHEMA_NAME
from agent_reminiscence.database.announcements import Announcements
from agent_reminiscence.database.connection import (
    APPLICATION_NAME,
    IDLE_READ_SECONDS,
    IDLE_TIMEOUT,
    IDLE_WRITE_SECONDS,
    PLANNED_ONCE,
    ConnectionSettings,
    Row,
    SqlExecutor,
    Statement,
    open_connection,
)
from agent_reminiscence.database.pooling import needs_session
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    ConfigurationError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
)
from agent_reminiscence.resilience.processes import check_driver
from agent_reminiscence.telemetry import Telemetry

_logger = logging.getLogger("agent_reminiscence.database")

# Extra time after the statement timeout for an answer to arrive; after that the server counts as lost.
ANSWER_GRACE_SECONDS: Final = 5.0

# How long a write has not taken an answer before it is looked at twice. Taking one needs hardly any computing, so this
# is less than what a write may be silent for; and less than a statement timeout that somebody may have lowered.
_UNTAKEN_SECONDS: Final = 10.0
# How long after the first look a write must still wait with the same answer to count as frozen: a process that is only
# slow is seldom met waiting with the same one twice.
_SECOND_LOOK_SECONDS: Final = 1.0

_SQL = load_queries("sql", "postgres_manager")

_NOTIFY = load_queries("sql", "announcements")["notify"]
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
        sessions: Where a connection is a session of its own; "same": at `settings`; None: nowhere that we know.
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
        sessions: ConnectionSettings | Literal["same"] | None = "same",
    ) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._revive = revive
        self._sessions = sessions
        self._reviving = asyncio.Lock()
        self._pool_size = pool_size
        self._pool_timeout_seconds = pool_timeout_seconds
        self._statement_timeout = f"{int(statement_timeout_seconds * 1000)}ms"
        self._answer_timeout_seconds = statement_timeout_seconds + ANSWER_GRACE_SECONDS
        self._search_path = f"{SCHEMA_NAME}, public"
        self._free = asyncio.Semaphore(pool_size)
        self._idle: list[SqlExecutor] = []
        self._is_open = False
        self._announcements: Announcements | None = None
        self._appends = 0

    async def initialize(self, connection: SqlExecutor | None = None) -> None:
        """Find the schema of the extension, which need not be `public`.

        Args:
            connection: Becomes the first one of the pool; None opens one.

        Raises:
            StoreError: The server cannot be reached or refuses the login.
        """
        self._is_open = True
        if connection is None:
            connection = await open_connection(self._settings, self._telemetry)
        try:
            rows = await connection.fetch_all(_SQL["list_extension_schemas"])
        except BaseException:
            connection.close()
            raise
        self._search_path = ", ".join([SCHEMA_NAME, *(row["name"] for row in rows if row["name"] != SCHEMA_NAME)])
        self._idle.append(connection)

    @property
    def settings(self) -> ConnectionSettings:
        """The server's current address; it may have changed with a restart."""
        return self._settings

    @property
    def has_sessions(self) -> bool:
        """Whether there is an address where a connection is a session of its own."""
        return self._sessions is not None

    def sessions_for(self, what: str) -> ConnectionSettings:
        """Where to connect for something that sets a role, or listens, on a connection of its own.

        Args:
            what: What needs it, as the subject of a sentence.

        Raises:
            ConfigurationError: A pooler gives each transaction another session, and no other address is known.
        """
        if self._sessions is None:
            raise ConfigurationError(
                needs_session(what, way_out="set session_dsn to an address of PostgreSQL itself, past the pooler")
            )
        return self._settings if self._sessions == "same" else self._sessions

    @property
    def appends(self) -> int:
        """How many transactions of this process have ended after they had appended to a stream, committed or not."""
        return self._appends

    @property
    def announcements(self) -> Announcements | None:
        """How streams are announced after a COMMIT; None if nothing is announced."""
        return self._announcements

    def announce_with(self, key: str) -> None:
        """From now on, tell those who follow a stream when a transaction has appended to it.

        Args:
            key: The database's key of the names under which streams are announced.
        """
        self._announcements = Announcements(key)

    async def notify(self, channel: str, payload: str) -> None:
        """Send a notification.

        Raises:
            StoreError: The store is unavailable.
        """
        # No disk is waited for while the transaction holds the lock that all notifications need.
        async with self.transaction("", settings={"synchronous_commit": "off"}) as db:
            await db.execute(_NOTIFY, {"channel": channel, "payload": payload})

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
        local = self._local(external_id, role, read_only=read_only) | dict(settings or {})
        connection, _ = await self._acquire(local, _READ_ONLY if read_only else "BEGIN")
        async with self._ended(connection, external_id, read_only=read_only):
            yield connection

    @asynccontextmanager
    async def read_transaction(
        self, external_id: str, first: Sequence[Statement]
    ) -> AsyncIterator[tuple[SqlExecutor, list[list[Row]]]]:
        """Run a `transaction` that only reads; its first statements are sent with its beginning, their rows yielded.

        For searches: each statement is planned once per connection, whichever tenant asks.

        Raises:
            StoreError: As `transaction`; also if one of them is refused.
        """
        local = self._local(external_id, APP_ROLE, read_only=True) | PLANNED_ONCE
        connection, rows = await self._acquire(local, _READ_ONLY, first=first)
        async with self._ended(connection, external_id, read_only=True):
            yield connection, rows

    async def read_once[T](
        self,
        external_id: str,
        read: Callable[[SqlExecutor], Awaitable[T]],
        *,
        settings: Mapping[str, str] | None = None,
    ) -> T:
        """Run a `transaction` that reads one thing, in one round trip.

        Args:
            read: Waits for one statement, with which the transaction ends. Called again on another connection if this
                one was lost and had been idle before: most likely it died meanwhile.
            settings: As in `transaction`.

        Raises:
            StoreError: As `transaction`.
        """
        local = self._local(external_id, APP_ROLE, read_only=True) | dict(settings or {})
        while True:
            connection, _ = await self._acquire(local, _READ_ONLY, single=True)
            try:
                async with self._ended(connection, external_id, read_only=True):
                    return await read(connection)
            except StoreError:
                if not (connection.is_reused and connection.is_broken):
                    raise
                _logger.info("the server closed an idle connection; connecting again")

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
        local = self._local(external_id, role, read_only=False) | {
            "search_path": f"pg_temp, {self._search_path}",
            "statement_timeout": "0",
        }
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ" if snapshot else "BEGIN"
        connection, _ = await self._acquire(local, begin, fresh=True)
        connection.answer_timeout_seconds = None
        async with self._ended(connection, external_id, reusable=False):
            yield connection

    def _local(self, external_id: str, role: str, *, read_only: bool) -> dict[str, str]:
        """Settings that define a transaction: its role, tenant and limits, all gone at its end."""
        return {
            "role": role,
            "reminiscence.external_id": external_id,
            "search_path": self._search_path,
            "statement_timeout": self._statement_timeout,
            # A cancelled task closes its connection; without this the server would first finish the statement, holding
            # the locks that others wait for.
            "client_connection_check_interval": "1s",
            # A frozen process closes nothing, and neither of the others ends what waits for its next statement.
            IDLE_TIMEOUT: f"{IDLE_READ_SECONDS if read_only else IDLE_WRITE_SECONDS}s",
        }

    @asynccontextmanager
    async def _ended(
        self, connection: SqlExecutor, external_id: str, *, reusable: bool = True, read_only: bool = False
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
                await self._roll_back(connection, read_only=read_only)
                finished = True
                raise
            if connection.has_failed:
                await self._roll_back(connection, read_only=read_only)
                finished = True
                kind = StoreTimeoutError if connection.has_timed_out else StoreError
                raise kind("a statement of this transaction failed, so all of it was rolled back")
            await self._finish(connection, self._commit(connection, external_id), read_only=read_only)
            finished = True
        finally:
            self._appends += connection.has_appended
            self._release(connection, reusable=finished and reusable)

    def _commit(self, connection: SqlExecutor, external_id: str) -> str:
        """The COMMIT and, in the same round trip, a transaction that tells those who follow the stream."""
        if self._announcements is None or not connection.has_appended:
            return "COMMIT"
        return f"COMMIT; {self._announcements.statement(external_id)}"

    async def _roll_back(self, connection: SqlExecutor, *, read_only: bool) -> None:
        """Roll back; if a write has timed out, most likely over a lock, end those that a frozen process holds.

        The server itself ends those that wait for a statement. It does not end one whose answer nobody takes, not even
        by a timeout.
        """
        await self._finish(connection, "ROLLBACK")
        if read_only or not connection.has_timed_out or connection.is_broken:
            return
        try:
            ended = await self._end_frozen_writes(connection)
        except StoreError:
            return  # what timed out is raised, and whoever times out next tries again
        if ended:
            _logger.warning("ended %d writes whose processes did not take the server's answer", ended)

    @staticmethod
    async def _end_frozen_writes(connection: SqlExecutor) -> int:
        """End this package's writes that wait with the same answer at two looks; returns how many.

        Outside a transaction: within one, pg_stat_activity stays as it was at the first look.
        """
        frozen = await connection.fetch_all(
            _SQL["find_frozen_writes"],
            {"application": APPLICATION_NAME, "schema": SCHEMA_NAME, "seconds": _UNTAKEN_SECONDS},
        )
        if not frozen:
            return 0
        await asyncio.sleep(_SECOND_LOOK_SECONDS)
        return sum([len(await connection.fetch_all(_SQL["end_frozen_write"], one)) for one in frozen])

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
            if self._announcements is not None and connection.has_appended:
                # It may be what follows the COMMIT that was refused.
                raise CommitUnknownError(
                    f"{error}. It is unknown whether the write took effect; repeat it with the same idempotency_key, or"
                    " read before you repeat it"
                ) from error
            raise

    async def _acquire(
        self,
        local: Mapping[str, str],
        begin: str,
        *,
        fresh: bool = False,
        single: bool = False,
        first: Sequence[Statement] = (),
    ) -> tuple[SqlExecutor, list[list[Row]]]:
        # Before a connection that a fork has inherited leaves the pool.
        check_driver()
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
            return await self._begin(local, begin, fresh=fresh, single=single, first=first)
        except BaseException:
            self._free.release()
            raise

    async def _begin(
        self, local: Mapping[str, str], begin: str, *, fresh: bool, single: bool, first: Sequence[Statement]
    ) -> tuple[SqlExecutor, list[list[Row]]]:
        """Return a connection with a transaction begun, and the rows of each of `first`.

        A connection that died while idle is replaced: nothing worth keeping ran on it yet.
        """
        while True:
            if fresh and self._idle:
                # It replaces an idle one, so that no more are open than the pool allows.
                self._idle.pop().close()
            reused = bool(self._idle) and not fresh
            connection = self._idle.pop() if reused else await self._open()
            connection.is_reused = reused
            begun = False
            connection.answer_timeout_seconds = self._answer_timeout_seconds
            try:
                rows: list[list[Row]] = []
                if single:
                    await connection.begin_single(begin, local)
                else:
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
