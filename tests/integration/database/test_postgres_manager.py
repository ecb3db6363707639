"""The pool and its transactions, when all goes well and when tasks, statements or connections end half-way."""

# ruff: noqa: PT012 - what is tested is the block of a transaction, with all that happens in it

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from agent_reminiscence import AgentMem, ConfigurationError
from agent_reminiscence.config.constants import EMBEDDED_LOGIN
from agent_reminiscence.database.connection import ConnectionSettings, Row, SqlExecutor, open_connection
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.exceptions import StoreError, StoreTimeoutError
from agent_reminiscence.telemetry import Telemetry
from tests.conftest import TestServer, dsn, settings_for
from tests.support.factories import make_event, stored_rows, superuser
from tests.support.proxy import FaultyProxy

_LEDGER = EventLedger()
_PATIENCE_SECONDS = 60.0

NewStore = Callable[..., Awaitable[PostgresManager]]


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module; `administrator` empties what a test before has written to it."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
async def administrator(test_server: TestServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A superuser's connection on the test's database, which holds no event."""
    async with superuser(test_server, database) as db:
        # A test that failed half-way may have left a connection with locks behind.
        await db.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND usename = $(login)p::text",
            {"login": EMBEDDED_LOGIN},
        )
        await db.execute_script("DELETE FROM memory_event; DELETE FROM memory_stream")
        yield db


@pytest.fixture
async def new_store(test_server: TestServer, database: str, administrator: SqlExecutor) -> AsyncIterator[NewStore]:
    """Makes pools of the size and patience that a test needs; they close with it."""
    stores: list[PostgresManager] = []

    async def make(
        *, pool_size: int = 1, pool_timeout_seconds: float = 10, statement_timeout_seconds: float = 30
    ) -> PostgresManager:
        store = PostgresManager(
            test_server.login(database),
            pool_size=pool_size,
            pool_timeout_seconds=pool_timeout_seconds,
            statement_timeout_seconds=statement_timeout_seconds,
        )
        await store.initialize()
        stores.append(store)
        return store

    yield make
    for store in stores:
        await store.close()


async def _write(db: SqlExecutor, external_id: str) -> None:
    await _LEDGER.lock(db, external_id)
    await _LEDGER.append(db, make_event(external_id=external_id))


async def _pid(db: SqlExecutor) -> int:
    row = await db.fetch_one("SELECT pg_backend_pid() AS pid")
    assert row is not None
    return int(row["pid"])


async def _backends(administrator: SqlExecutor, state: str = "%") -> set[int]:
    """Process ids of the login's connections to this database, by what they are doing."""
    rows = await administrator.fetch_all(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = $(login)p::text"
        " AND state LIKE $(state)p",
        {"login": EMBEDDED_LOGIN, "state": state},
    )
    return {row["pid"] for row in rows}


async def _wait_for(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.01)


async def _wait_for_sleep(administrator: SqlExecutor, pids: list[int]) -> None:
    """Return when the last of these connections, once there is one, sleeps on the server."""

    async def sleeps() -> bool:
        rows = await administrator.fetch_all(
            "SELECT pid FROM pg_stat_activity WHERE pid = $(pid)p AND wait_event = 'PgSleep'",
            {"pid": pids[-1] if pids else None},
        )
        return bool(rows)

    await _wait_for(sleeps)


async def _terminate(administrator: SqlExecutor, pids: set[int]) -> None:
    """End connections as a restart or an administrator does, and wait until they are gone."""
    await administrator.execute(
        "SELECT pg_terminate_backend(pid) FROM unnest($(pids)p::int[]) AS pid", {"pids": list(pids)}
    )

    async def gone() -> bool:
        return not pids & await _backends(administrator)

    await _wait_for(gone)


async def _wait_for_end(administrator: SqlExecutor, pid: int) -> None:
    """Return when the server has rolled back what a connection that was given up had begun."""

    async def gone() -> bool:
        return pid not in await _backends(administrator)

    await _wait_for(gone)


async def _assert_fresh(store: PostgresManager) -> None:
    """The next user of the pool gets its own role and tenant, no rows of others and no open transaction."""
    async with store.transaction("next") as db:
        state = await db.fetch_one(
            "SELECT current_user::text AS role, current_setting('reminiscence.external_id') AS tenant,"
            " (SELECT count(*) FROM memory_event) AS events, now() = statement_timestamp() AS is_new"
        )
    # The transaction began with this block: `now()` is the time of its first statement, a moment ago.
    assert state is not None
    assert (state["role"], state["tenant"], state["events"]) == ("reminiscence_app", "next", 0)
    for connection in store._idle:
        outside = await connection.fetch_one(
            "SELECT current_user::text AS role, current_setting('reminiscence.external_id', true) AS tenant,"
            " pg_current_xact_id_if_assigned() IS NULL AS is_idle"
        )
        assert outside == {"role": EMBEDDED_LOGIN, "tenant": "", "is_idle": True}


# The pool -------------------------------------------------------------------------------------------------------------


async def test_fifty_tasks_share_four_connections(new_store: NewStore, administrator: SqlExecutor) -> None:
    """Every task gets its turn, and the server never sees more connections than the pool may have."""
    store = await new_store(pool_size=4)
    seen: set[int] = set()
    most = 0

    async def work(number: int) -> None:
        nonlocal most
        async with store.transaction(f"agent-{number % 7}") as db:
            await _write(db, f"agent-{number % 7}")
            seen.add(await _pid(db))
            most = max(most, len(await _backends(db)))

    await asyncio.gather(*(work(number) for number in range(50)))

    assert len(seen) == 4
    assert most <= 4
    rows = await administrator.fetch_all("SELECT sum(head)::int AS heads, count(*) AS streams FROM memory_stream")
    assert rows == [{"heads": 50, "streams": 7}]


async def test_an_exhausted_pool_waits_for_a_connection(new_store: NewStore) -> None:
    """Busy is no error as long as somebody finishes in time."""
    store = await new_store(pool_size=1)
    order: list[str] = []

    async def second() -> None:
        async with store.transaction("agent-2"):
            order.append("second")

    async with store.transaction("agent-1"):
        waiting = asyncio.create_task(second())
        await asyncio.sleep(0.05)
        order.append("first")
    await waiting

    assert order == ["first", "second"]


async def test_waiting_too_long_for_a_connection_names_the_settings(new_store: NewStore) -> None:
    """The message says what to change, and the pool works on afterwards."""
    store = await new_store(pool_size=1, pool_timeout_seconds=0.05)

    async with store.transaction("agent-1"):
        with pytest.raises(StoreTimeoutError, match=r"within 0.05 s; all 1 .*postgres_pool_size, pool_timeout_seconds"):
            async with store.transaction("agent-2"):
                pytest.fail("there was no connection to give")

    await _assert_fresh(store)


async def test_tasks_cancelled_while_they_wait_take_no_place_with_them(new_store: NewStore) -> None:
    """However many give up, the pool keeps all its places."""
    store = await new_store(pool_size=2, pool_timeout_seconds=2)

    async def work() -> None:
        async with store.transaction("agent-1") as db:
            await db.execute("SELECT pg_sleep(0.002)::text")

    tasks = [asyncio.create_task(work()) for _ in range(60)]
    await asyncio.sleep(0.02)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert store._free._value == 2
    await asyncio.gather(*(work() for _ in range(4)))


async def test_an_error_in_the_block_rolls_back_and_keeps_the_connection(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """A failure of the caller's own is no reason to connect again."""
    store = await new_store()

    with pytest.raises(ZeroDivisionError):
        async with store.transaction("agent-1") as db:
            first = await _pid(db)
            await _write(db, "agent-1")
            raise ZeroDivisionError
    async with store.transaction("agent-1") as db:
        second = await _pid(db)

    assert second == first
    assert (await stored_rows(administrator))["memory_event"] == []
    await _assert_fresh(store)


async def test_a_refused_statement_rolls_back_and_keeps_the_connection(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """What was written before it in the same transaction goes too."""
    store = await new_store()

    with pytest.raises(StoreError, match="division by zero"):
        async with store.transaction("agent-1") as db:
            first = await _pid(db)
            await _write(db, "agent-1")
            await db.execute("SELECT 1 / 0")
    async with store.transaction("agent-1") as db:
        assert await _pid(db) == first

    assert (await stored_rows(administrator))["memory_stream"] == []
    await _assert_fresh(store)


async def test_a_swallowed_failure_does_not_look_like_a_commit(new_store: NewStore) -> None:
    """The server turns the COMMIT of a failed transaction into a rollback and says nothing: we have to."""
    store = await new_store()

    with pytest.raises(StoreError):
        async with store.transaction("agent-1") as db:
            await _write(db, "agent-1")
            # A caller who thinks that the rest still counts.
            with suppress(StoreError):
                await db.execute("SELECT 1 / 0")

    await _assert_fresh(store)


async def test_a_read_only_transaction_is_one_snapshot_and_writes_nothing(new_store: NewStore) -> None:
    """What it reads does not move under it, and a write in it is refused."""
    store = await new_store(pool_size=2)

    async with store.transaction("agent-1", read_only=True) as db:
        before = await db.fetch_all("SELECT count(*) AS events FROM memory_event")
        async with store.transaction("agent-1") as other:
            await _write(other, "agent-1")
        assert await db.fetch_all("SELECT count(*) AS events FROM memory_event") == before
    with pytest.raises(StoreError, match="read-only transaction"):
        async with store.transaction("agent-1", read_only=True) as db:
            await _write(db, "agent-1")


async def test_settings_of_a_transaction_end_with_it(new_store: NewStore) -> None:
    """Search switches sorting off for itself, not for whoever gets the connection next."""
    store = await new_store()

    async with store.transaction("agent-1", settings={"enable_sort": "off"}) as db:
        inside = await db.fetch_one("SELECT current_setting('enable_sort') AS value")
    async with store.transaction("agent-1") as db:
        outside = await db.fetch_one("SELECT current_setting('enable_sort') AS value")

    assert (inside, outside) == ({"value": "off"}, {"value": "on"})


# What ends half-way ---------------------------------------------------------------------------------------------------


async def test_a_cancelled_statement_leaves_nothing_to_its_successor(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """The connection may still be busy with the statement, so it is given up, and its transaction with it."""
    store = await new_store(pool_size=1)
    pids: list[int] = []

    async def work() -> None:
        async with store.transaction("agent-1") as db:
            pids.append(await _pid(db))
            await _write(db, "agent-1")
            await db.execute("SELECT pg_sleep(2)::text")

    task = asyncio.create_task(work())

    await _wait_for_sleep(administrator, pids)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await _assert_fresh(store)
    async with store.transaction("agent-1") as db:
        assert await _pid(db) not in pids
    assert (await stored_rows(administrator))["memory_event"] == []


async def test_a_cancelled_statement_ends_on_the_server_too(new_store: NewStore, administrator: SqlExecutor) -> None:
    """Otherwise it would hold its stream's lock, and a place on the server, until the statement timeout."""
    store = await new_store(pool_size=1, statement_timeout_seconds=60)
    pids: list[int] = []

    async def work() -> None:
        async with store.transaction("agent-1") as db:
            pids.append(await _pid(db))
            await _write(db, "agent-1")
            await db.execute("SELECT pg_sleep(60)::text")

    task = asyncio.create_task(work())

    await _wait_for_sleep(administrator, pids)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def ended() -> bool:
        return pids[0] not in await _backends(administrator)

    await _wait_for(ended)
    async with asyncio.timeout(_PATIENCE_SECONDS), store.transaction("agent-1") as db:
        await _write(db, "agent-1")


async def _use_three(store: PostgresManager) -> set[int]:
    """Use three connections at once, which are idle afterwards; their process ids."""

    async def work() -> int:
        async with store.transaction("agent-1") as db:
            await db.execute("SELECT pg_sleep(0.02)::text")
            return await _pid(db)

    return set(await asyncio.gather(*(work() for _ in range(3))))


async def test_connections_closed_while_idle_are_replaced_unnoticed(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """A server that restarts, or a firewall that forgets, costs a reconnect and no error."""
    store = await new_store(pool_size=3)

    before = await _use_three(store)
    await _terminate(administrator, before)

    after = await _use_three(store)

    assert len(before) == 3
    assert not before & after
    await _assert_fresh(store)


_WHOSE = (
    "SELECT current_setting('reminiscence.external_id') AS external_id, current_user::text AS role, $(number)p AS n"
)


async def test_the_first_statements_of_a_search_run_within_its_transaction(new_store: NewStore) -> None:
    """Sent together with its beginning they come after it, in order, also where the server has not seen them before."""
    store = await new_store(pool_size=1)

    for number in range(40):
        statement = f"{_WHOSE}, {number // 2} AS half"
        first = [("SELECT $(number)p AS n", {"number": number % 3 * "y"}), (statement, {"number": "x"})]
        async with store.read_transaction(f"agent-{number}", first) as (db, (before, rows)):
            (again,) = await db.fetch_all(statement, {"number": "x"})
        assert rows == [{"external_id": f"agent-{number}", "role": "reminiscence_app", "n": "x", "half": number // 2}]
        assert again == rows[0]
        assert before == [{"n": number % 3 * "y"}]
    await _assert_fresh(store)


async def test_a_refused_first_statement_says_why_and_leaves_the_pool_whole(new_store: NewStore) -> None:
    """What is wrong with it is told, and its connection is replaced."""
    store = await new_store(pool_size=1)

    with pytest.raises(StoreError, match="division by zero"):
        async with store.read_transaction("agent-1", [("SELECT 1 / $(zero)p::int", {"zero": 0})]):
            pytest.fail("nothing was read")
    await _assert_fresh(store)


async def test_a_search_on_a_connection_closed_while_idle_is_not_disturbed(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """Its first statement is sent again on another one."""
    store = await new_store(pool_size=1)
    async with store.read_transaction("agent-1", [("SELECT pg_backend_pid() AS pid", {})]) as (_, (before,)):
        pass
    await _terminate(administrator, {before[0]["pid"]})

    async with store.read_transaction("agent-1", [(_WHOSE, {"number": "x"})]) as (_, (rows,)):
        pass

    assert rows[0]["external_id"] == "agent-1"
    await _assert_fresh(store)


async def test_a_search_cancelled_while_it_begins_leaves_nothing_to_its_successor(new_store: NewStore) -> None:
    """The connection is closed, and the place in the pool is free again."""
    store = await new_store(pool_size=1)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), store.read_transaction("agent-1", [("SELECT pg_sleep(30)::text", {})]):
            pytest.fail("it sleeps")
    await _assert_fresh(store)


async def test_the_last_statement_of_a_search_ends_its_transaction(new_store: NewStore) -> None:
    """Also where the server has not seen it before; what would come after it is a mistake of ours, and told."""
    store = await new_store(pool_size=1)

    for _ in range(3):
        async with store.read_transaction("agent-1", [(_WHOSE, {"number": "x"})]) as (db, _):
            rows = await db.fetch_last(_WHOSE, {"number": "y"})
            with pytest.raises(RuntimeError, match="SELECT was sent in a transaction that had already ended"):
                await db.fetch_all(_WHOSE, {"number": "z"})
        assert rows == [{"external_id": "agent-1", "role": "reminiscence_app", "n": "y"}]
        await _assert_fresh(store)


async def test_an_error_after_the_last_statement_is_raised_as_it_is(new_store: NewStore) -> None:
    """Its transaction has ended well; the connection is as good as before."""
    store = await new_store(pool_size=1)

    async with store.transaction("agent-1") as db:
        first = await _pid(db)
    with pytest.raises(KeyError, match="what was read"):
        async with store.read_transaction("agent-1", [(_WHOSE, {"number": "x"})]) as (db, _):
            await db.fetch_last(_WHOSE, {"number": "y"})
            raise KeyError("what was read")
    async with store.transaction("agent-1") as db:
        assert await _pid(db) == first
    await _assert_fresh(store)


async def test_a_refused_last_statement_rolls_back_and_keeps_the_connection(new_store: NewStore) -> None:
    """Its COMMIT came too, and ended nothing."""
    store = await new_store(pool_size=1)

    for divisor in (1, 0, 1, 0):
        async with store.transaction("agent-1") as db:
            first = await _pid(db)
        with pytest.raises(StoreError, match="division by zero") if divisor == 0 else nullcontext():
            async with store.read_transaction("agent-1", [(_WHOSE, {"number": "x"})]) as (db, _):
                await db.fetch_last("SELECT 1 / $(divisor)p::int AS share", {"divisor": divisor})
        async with store.transaction("agent-1") as db:
            assert await _pid(db) == first
        await _assert_fresh(store)


def _fetching(statement: str, params: dict[str, Any]) -> Callable[[SqlExecutor], Awaitable[list[Row]]]:
    return lambda db: db.fetch_all(statement, params)


async def _whose(db: SqlExecutor) -> Row:
    (row,) = await db.fetch_all(_WHOSE, {"number": "x"})
    return row


async def test_a_single_statement_runs_within_its_transaction_however_old_the_connection_is(
    new_store: NewStore,
) -> None:
    """Even the first time a connection prepares it, and when the connection discards its old plans."""
    store = await new_store(pool_size=1)

    for number, age in enumerate([0] * 10 + [5, 11, 12, 23, 24, 50]):
        for connection in store._idle:
            connection._opened_at = time.monotonic() - age
        statement = f"{_WHOSE}, {number // 2} AS half"
        rows = await store.read_once(f"agent-{number}", _fetching(statement, {"number": "x"}))
        assert rows == [{"external_id": f"agent-{number}", "role": "reminiscence_app", "n": "x", "half": number // 2}]
    await _assert_fresh(store)


async def test_a_second_statement_is_a_mistake_of_ours_and_told(new_store: NewStore) -> None:
    """Its transaction has ended; the connection is as good as before."""
    store = await new_store(pool_size=1)

    async def read(db: SqlExecutor) -> None:
        await _whose(db)
        await _whose(db)

    for age in (0, 11):
        for connection in store._idle:
            connection._opened_at = time.monotonic() - age
        with pytest.raises(RuntimeError, match="SELECT was sent in a transaction that had already ended"):
            await store.read_once("agent-1", read)
        await _assert_fresh(store)


async def test_a_refused_single_statement_says_why_and_keeps_the_connection(new_store: NewStore) -> None:
    """Its COMMIT came too, and ended nothing."""
    store = await new_store(pool_size=1)
    share = "SELECT 1 / $(divisor)p::int AS share"

    for divisor in (1, 0, 1, 0):
        async with store.transaction("agent-1") as db:
            first = await _pid(db)
        with pytest.raises(StoreError, match="division by zero") if divisor == 0 else nullcontext():
            await store.read_once("agent-1", _fetching(share, {"divisor": divisor}))
        async with store.transaction("agent-1") as db:
            assert await _pid(db) == first
        await _assert_fresh(store)


async def test_a_single_statement_writes_nothing(new_store: NewStore, administrator: SqlExecutor) -> None:
    """It is read-only, as the server sees it."""
    store = await new_store(pool_size=1)

    with pytest.raises(StoreError, match="read-only"):
        await store.read_once("agent-1", _fetching(_ADD, {"external_id": "agent-1"}))

    assert (await stored_rows(administrator))["memory_stream"] == []
    await _assert_fresh(store)


async def test_a_single_statement_on_connections_closed_while_idle_is_not_disturbed(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """It is sent again until a connection lives."""
    store = await new_store(pool_size=3)

    await _terminate(administrator, await _use_three(store))
    found = await store.read_once("agent-1", _whose)

    assert found["external_id"] == "agent-1"
    await _assert_fresh(store)


async def test_a_single_statement_whose_own_connection_is_lost_is_sent_again_only_if_it_was_idle(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """Whoever loses a new connection is told: the server is in trouble, and `repeated` waits for it."""
    store = await new_store(pool_size=1)
    lost: list[int] = []

    async def read(db: SqlExecutor) -> None:
        backends = await _backends(administrator)
        lost.append(len(backends))
        await _terminate(administrator, backends)
        await _whose(db)

    with pytest.raises(StoreError, match="connection to PostgreSQL was lost"):
        await store.read_once("agent-1", read)

    # The pool's first connection had been opened by `initialize`, the second for this.
    assert len(lost) == 2
    await _assert_fresh(store)


async def test_a_single_statement_that_is_cancelled_leaves_nothing_to_its_successor(new_store: NewStore) -> None:
    """The connection is closed, and the place in the pool is free again; also if all of it was sent together."""
    store = await new_store(pool_size=1)
    sleep = "SELECT pg_sleep($(seconds)p::float8)::text AS slept, pg_backend_pid() AS pid"

    (before,) = await store.read_once("agent-1", _fetching(sleep, {"seconds": 0.0}))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await store.read_once("agent-1", _fetching(sleep, {"seconds": 30.0}))
    (after,) = await store.read_once("agent-1", _fetching(sleep, {"seconds": 0.0}))

    assert after["pid"] != before["pid"]
    await _assert_fresh(store)


_ADD = "INSERT INTO memory_stream (external_id) VALUES ($(external_id)p) RETURNING external_id"
_SET = "SELECT set_config('reminiscence.note', $(note)p, true) AS note"
_SHOW = "SELECT current_setting('reminiscence.note', true) AS note, $(number)p::int AS number"


def _notes(rows: list[Row]) -> list[Any]:
    return [row["note"] for row in rows]


async def test_what_is_deferred_runs_in_order_before_what_is_waited_for(new_store: NewStore) -> None:
    """Also beside statements that are new to the connection, which the driver has prepared before it sends them."""
    store = await new_store(pool_size=1)

    for turn in range(12):
        new = turn // 2
        async with store.transaction("agent-1") as db:
            await db.defer(f"{_SET} /* {new} */", {"note": f"first {turn}"})
            early = await db.ask(_SHOW, {"number": turn}, _notes)
            await db.defer(_SET, {"note": f"second {turn}"})
            late = await db.ask(f"{_SHOW} /* {new} */", {"number": turn}, _notes)
            await db.defer(_SET, {"note": f"third {turn}"})
            row = await db.fetch_one(_SHOW, {"number": turn})
            assert row == {"note": f"third {turn}", "number": turn}
            assert (await early.result(), await late.result()) == ([f"first {turn}"], [f"second {turn}"])
    await _assert_fresh(store)


async def test_what_is_deferred_is_part_of_its_transaction(new_store: NewStore, administrator: SqlExecutor) -> None:
    """The end of the block sends it, also where nothing is waited for; a failure in the block drops it."""
    store = await new_store(pool_size=1)
    async with store.transaction("kept") as db:
        await db.defer(_ADD, {"external_id": "kept"})
    with pytest.raises(RuntimeError):
        async with store.transaction("dropped") as db:
            await db.defer(_ADD, {"external_id": "dropped"})
            raise RuntimeError
    async with store.transaction("many") as db:
        for number in range(100):
            await db.defer(_SHOW, {"number": number})
        await db.defer(_ADD, {"external_id": "many"})

    rows = await administrator.fetch_all("SELECT external_id FROM memory_stream ORDER BY 1")
    assert [row["external_id"] for row in rows] == ["kept", "many"]
    await _assert_fresh(store)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
async def test_a_refused_deferred_statement_fails_whoever_waits(
    new_store: NewStore, administrator: SqlExecutor, is_known: bool, waits: bool
) -> None:
    """Its own error is told, not that of the statements behind it, and nothing of the transaction stays."""
    store = await new_store(pool_size=1)
    divide = "SELECT 1 / $(number)p::int AS quotient"
    if is_known:
        async with store.transaction("agent-1") as db:
            await db.fetch_all(divide, {"number": 1})
            await db.fetch_all(_SHOW, {"number": 1})
            await db.fetch_all(_SET, {"note": "known"})

    with pytest.raises(StoreError, match="division by zero"):
        async with store.transaction("agent-1") as db:
            await db.defer(_ADD, {"external_id": "agent-1"})
            quotient = await db.ask(divide, {"number": 0}, list)
            await db.defer(_SET, {"note": "behind it"})
            if waits:
                await quotient.result()

    assert await administrator.fetch_all("SELECT external_id FROM memory_stream") == []
    await _assert_fresh(store)


async def test_a_value_that_the_driver_refuses_fails_the_whole_write(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """Its statement is never sent; what is behind it has run by then, and is rolled back."""
    store = await new_store(pool_size=1)
    async with store.transaction("agent-1") as db:
        await db.fetch_all(_SHOW, {"number": 1})
        await db.fetch_all(_SET, {"note": "known"})
    async with store.transaction("known") as db:
        await db.execute(_ADD, {"external_id": "known"})

    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        async with store.transaction("agent-1") as db:
            await db.defer(_SET, {"note": "before it"})
            await db.defer(_SHOW, {"number": object()})
            await db.defer(_ADD, {"external_id": "agent-1"})

    rows = await administrator.fetch_all("SELECT external_id FROM memory_stream")
    assert [row["external_id"] for row in rows] == ["known"]
    await _assert_fresh(store)


@pytest.mark.thorough
async def test_statements_sent_together_are_cancelled_together(
    new_store: NewStore, administrator: SqlExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever of them is running then; their connection is closed, and none is left behind to complain."""
    store = await new_store(pool_size=1)
    sleep = "SELECT pg_sleep($(seconds)p::float8)::text AS slept"

    for place in range(3):
        async with store.transaction("agent-1") as db:
            await db.fetch_all(_SHOW, {"number": 1})
            await db.fetch_all(sleep, {"seconds": 0.0})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), store.transaction("agent-1") as db:
                for number in range(3):
                    if number == place:
                        await db.defer(sleep, {"seconds": 60.0})
                    else:
                        await db.defer(_SHOW, {"number": number})
                await db.flush()
                pytest.fail("it sleeps")
        await _assert_fresh(store)

    gc.collect()
    await asyncio.sleep(0)
    assert "never retrieved" not in caplog.text
    assert await administrator.fetch_all("SELECT external_id FROM memory_stream") == []


async def test_the_answer_of_a_statement_behind_a_refused_one_is_an_error(new_store: NewStore) -> None:
    """Asked once more, it says that it was never sent."""
    store = await new_store(pool_size=1)

    with pytest.raises(StoreError, match="rolled back"):
        async with store.transaction("agent-1") as db:
            await db.defer("SELECT 1 / $(number)p::int", {"number": 0})
            behind = await db.ask(_SHOW, {"number": 1}, _notes)
            with pytest.raises(StoreError, match="division by zero"):
                await behind.result()
            with pytest.raises(StoreError, match="was not sent"):
                await behind.result()


async def test_outside_a_transaction_nothing_is_deferred(administrator: SqlExecutor) -> None:
    """Nobody would ever send it."""
    await administrator.defer("SELECT set_config('reminiscence.note', $(note)p, false)", {"note": "set"})
    try:
        row = await administrator.fetch_one("SELECT current_setting('reminiscence.note') AS note")
    finally:
        await administrator.execute_script("RESET reminiscence.note")

    assert row == {"note": "set"}


async def test_a_search_belongs_to_its_tenant_however_old_the_connection_is(new_store: NewStore) -> None:
    """As a connection ages, plans are made anew at the beginning of a transaction."""
    store = await new_store(pool_size=1)

    for age in (0, 5, 11, 12, 23, 24, 50):
        for connection in store._idle:
            connection._opened_at = time.monotonic() - age
        async with store.read_transaction(f"aged {age}", [(_WHOSE, {"number": "x"})]) as (_, (rows,)):
            assert rows == [{"external_id": f"aged {age}", "role": "reminiscence_app", "n": "x"}]
    await _assert_fresh(store)


async def test_a_connection_lost_within_a_transaction_is_an_error_and_writes_nothing(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """Nothing is repeated behind the caller's back: half of it may have been read already."""
    store = await new_store()

    with pytest.raises(StoreError, match="connection to PostgreSQL was lost"):
        async with store.transaction("agent-1") as db:
            await _write(db, "agent-1")
            await _terminate(administrator, {await _pid(db)})
            await _write(db, "agent-1")

    assert (await stored_rows(administrator))["memory_event"] == []
    await _assert_fresh(store)


async def test_a_connection_lost_at_commit_says_that_the_outcome_is_unknown(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """From here a lost COMMIT and a lost answer look the same; the message says how to find out."""
    store = await new_store()

    with pytest.raises(StoreError, match=r"lost during COMMIT.*unknown.*idempotency_key"):
        async with store.transaction("agent-1") as db:
            await _write(db, "agent-1")
            await _terminate(administrator, {await _pid(db)})

    assert (await stored_rows(administrator))["memory_event"] == []
    await _assert_fresh(store)


async def test_a_statement_that_runs_too_long_is_ended(new_store: NewStore, administrator: SqlExecutor) -> None:
    """The limit is the server's, so the statement is really over; the message names the setting."""
    store = await new_store(statement_timeout_seconds=1)

    with pytest.raises(StoreTimeoutError, match="statement_timeout_seconds"):
        async with store.transaction("agent-1") as db:
            await _write(db, "agent-1")
            await db.execute("SELECT pg_sleep(5)::text")

    assert await _backends(administrator, "active") == set()
    await _assert_fresh(store)


@pytest.mark.parametrize(
    "statement",
    [
        """INSERT INTO memory_event (external_id, position, event_id, kind, occurred_at, recorded_at, source, payload,
        digest, chain) VALUES ('agent-1', 1, gen_random_uuid(), 'a', now(), now(), $(secret)p, '{}', '', '')""",
        "INSERT INTO schema_parameter (name, value) VALUES ($(secret)p, $(secret)p)",
        "SELECT ($(secret)p::text)::jsonb",
        "SELECT jsonb_build_object($(secret)p::text, 1) -> 'x' ->> 'y', 1 / 0",
        "INSERT INTO memory_stream (external_id, head) VALUES ('agent-1', length($(secret)p::text)), ('agent-1', 1)",
    ],
    ids=["check constraint", "privilege", "no JSON", "division", "duplicate key"],
)
async def test_messages_hold_no_memory(new_store: NewStore, statement: str) -> None:
    """The server quotes the failing row in its details; errors end up in logs, and memory must not."""
    store = await new_store()

    with pytest.raises(StoreError) as caught:
        async with store.transaction("agent-1") as db:
            await db.execute(statement, {"secret": "my secret diary"})

    assert "secret diary" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "DETAIL" not in str(caught.value)


async def test_a_closed_store_says_so_and_can_be_opened_again(new_store: NewStore, administrator: SqlExecutor) -> None:
    """Use after close is a clear error; closing twice is none."""
    store = await new_store(pool_size=2)

    await store.close()
    await store.close()

    with pytest.raises(StoreError, match="the store is closed"):
        async with store.transaction("agent-1"):
            pytest.fail("a closed store gave a connection")

    async def gone() -> bool:
        return not await _backends(administrator)

    await _wait_for(gone)
    await store.initialize()
    await _assert_fresh(store)


async def test_a_store_that_was_never_opened_says_so(test_server: TestServer, database: str) -> None:
    """No connection is made by surprise."""
    store = PostgresManager(
        test_server.login(database), pool_size=1, pool_timeout_seconds=1, statement_timeout_seconds=1
    )

    with pytest.raises(StoreError, match="closed"):
        async with store.transaction("agent-1"):
            pytest.fail("a store that is not open gave a connection")


async def test_a_transaction_under_way_outlives_close(new_store: NewStore, administrator: SqlExecutor) -> None:
    """Closing waits only so long; what has begun is finished, and its connection is closed when it comes back."""
    store = await new_store(pool_timeout_seconds=0.1)

    async with store.transaction("agent-1") as db:
        await store.close()
        await _write(db, "agent-1")

    assert len((await stored_rows(administrator))["memory_event"]) == 1

    async def gone() -> bool:
        return not await _backends(administrator)

    await _wait_for(gone)


async def test_who_gives_up_on_closing_leaves_only_what_is_under_way(
    new_store: NewStore, administrator: SqlExecutor
) -> None:
    """A caller who does not wait for a transaction's end keeps no connection open that nobody uses."""
    store = await new_store(pool_size=2, pool_timeout_seconds=30)

    async with store.transaction("agent-1") as db:
        async with store.transaction("agent-2") as other:
            assert await _backends(administrator) == {await _pid(db), await _pid(other)}
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0.05)
        closing.cancel()
        await asyncio.wait({closing})

        async def is_alone() -> bool:
            return await _backends(administrator) == {await _pid(db)}

        await _wait_for(is_alone)


async def test_closing_waits_for_what_is_under_way(new_store: NewStore, administrator: SqlExecutor) -> None:
    """Whoever stops the server after `close()` does not stop it beneath a transaction."""
    store = await new_store()
    begun = asyncio.Event()

    async def work() -> None:
        async with store.transaction("agent-1") as db:
            begun.set()
            await db.execute("SELECT pg_sleep(0.3)::text")
            await _write(db, "agent-1")

    task = asyncio.create_task(work())
    await begun.wait()
    await store.close()

    assert task.done()
    assert len((await stored_rows(administrator))["memory_event"]) == 1


# Where to connect -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("postgresql://ana@db/memories", ConnectionSettings("db", 5432, "ana", "memories")),
        ("postgres://ana@db/memories", ConnectionSettings("db", 5432, "ana", "memories")),
        (
            "postgresql://ana:pa%40ss%2Fw%3Frd@db.example:6543/memories?sslmode=verify-full",
            ConnectionSettings("db.example", 6543, "ana", "memories", "pa@ss/w?rd", "verify-full"),
        ),
        (
            "postgresql://ana@/memories?host=/run/postgres&port=6543",
            ConnectionSettings("/run/postgres", 6543, "ana", "memories"),
        ),
        ("postgresql://ana@%2Frun%2Fpostgres/memories", ConnectionSettings("/run/postgres", 5432, "ana", "memories")),
        ("postgresql://ana@[::1]:6543/memories", ConnectionSettings("::1", 6543, "ana", "memories")),
        ("postgresql://Ana%20Sousa@db/two%20words", ConnectionSettings("db", 5432, "Ana Sousa", "two words")),
        ("postgresql://ana:@db/memories", ConnectionSettings("db", 5432, "ana", "memories", "")),
    ],
)
def test_a_dsn_is_read(dsn: str, expected: ConnectionSettings) -> None:
    """Every form that people write: ports, sockets, quoted characters, TLS."""
    assert ConnectionSettings.from_dsn(dsn) == expected


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        ("postgresql://db/memories", "must name a user, a host and a database"),
        ("postgresql://ana:open%20sesame@/memories", "must name a user, a host and a database"),
        ("postgresql://ana:open%20sesame@db", "must name a user, a host and a database"),
        ("postgresql://ana:open%20sesame@db/memories?sslmode=maybe", "sslmode='maybe'; choose one of disable"),
        ("postgresql://ana:open%20sesame@db/memories?connect_timeout=3", "has the parameter connect_timeout"),
        ("postgresql://ana@db/memories?password=open%20sesame", "has the parameter password"),
        ("postgresql://ana:open%20sesame@db:many/memories", "port that is not a number"),
        ("postgresql://ana:open%20sesame@db:99999/memories", "port"),
        ("postgresql://ana:open%20sesame@db/memories?port=99999", "port 99999; ports are from 1 to 65535"),
        ("postgresql://ana:open%20sesame@db/memories?port=-5", "port -5; ports are from 1 to 65535"),
        ("postgresql://ana:open%20sesame%00@db/memories", "the password in postgres_dsn has a NUL character"),
        ("postgresql://ana:open%20sesame@d%00b/memories", "the host in postgres_dsn has a NUL character"),
        ("postgresql://an%00a:open%20sesame@db/memories", "the user in postgres_dsn has a NUL character"),
        ("postgresql://ana:open%20sesame@db/memor\ud800ies", "the database in postgres_dsn has a lone surrogate"),
        ("postgresql://ana:open%20sesame[@db/memories", "postgres_dsn"),
        ("postgresql://ana:open sesame℀@db/memories", "postgres_dsn"),
    ],
)
def test_a_dsn_that_cannot_be_used_is_refused_without_its_password(dsn: str, message: str) -> None:
    """The message names what is wrong and never repeats the secret."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        ConnectionSettings.from_dsn(dsn)

    assert "sesame" not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_a_refused_login_is_named_without_its_password(test_server: TestServer) -> None:
    """Neither the message nor the settings' own text hold it."""
    address = test_server.address
    settings = ConnectionSettings(address.host, address.port, "nobody", "postgres", "open sesame")

    with pytest.raises(StoreError, match=r"cannot connect to PostgreSQL as .*nobody.*does not exist") as caught:
        await open_connection(settings)

    assert "open sesame" not in f"{caught.value} {settings!r} {settings}"
    assert str(caught.value) == (
        f'cannot connect to PostgreSQL as nobody@{address.host}:{address.port}/postgres: role "nobody" does not exist'
    )


async def test_a_server_that_cannot_be_reached_is_named_in_plain_words(test_server: TestServer) -> None:
    """Neither the driver's own words, which say nothing of the server, nor the text of an object of ours."""
    for settings, reason in (
        (ConnectionSettings("127.0.0.1", 1, "ana", "memories", "open sesame"), "Connection refused"),
        (ConnectionSettings("/nowhere", 5432, "ana", "memories"), "No such file or directory"),
        (test_server.login("no_such_database"), 'database "no_such_database" does not'),
    ):
        with pytest.raises(StoreError, match=reason) as caught:
            await open_connection(settings)

        expected = (
            f"cannot connect to PostgreSQL as {settings.user}@{settings.host}:{settings.port}/{settings.database}: "
        )
        assert str(caught.value).startswith(expected + reason)


async def test_a_process_of_the_server_that_stands_still_is_a_timeout_while_others_answer(
    new_store: NewStore, administrator: SqlExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own timeout cannot end it; a job that hangs so is one that failed, and no outage."""
    monkeypatch.setattr("agent_reminiscence.database.postgres_manager.ANSWER_GRACE_SECONDS", 0.2)
    store = await new_store(statement_timeout_seconds=1)
    stopped: list[int] = []

    try:
        with pytest.raises(StoreTimeoutError, match=r"no answer within 1\.2 s, though it accepts other connections"):
            async with store.transaction("agent-1") as db:
                await _write(db, "agent-1")
                stopped.append(await _pid(db))
                os.kill(stopped[0], signal.SIGSTOP)
                await db.fetch_all("SELECT 1 AS one")
    finally:
        os.kill(stopped[0], signal.SIGCONT)

    await _wait_for_end(administrator, stopped[0])
    assert (await stored_rows(administrator))["memory_event"] == []
    await _assert_fresh(store)


async def test_a_single_statement_leaves_an_idle_connection_that_stands_still(
    new_store: NewStore, administrator: SqlExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it closed or hangs, it failed before anything was done on it: another one answers."""
    monkeypatch.setattr("agent_reminiscence.database.postgres_manager.ANSWER_GRACE_SECONDS", 0.2)
    store = await new_store(statement_timeout_seconds=1)
    async with store.transaction("agent-1") as db:
        stopped = await _pid(db)

    os.kill(stopped, signal.SIGSTOP)
    try:
        found = await store.read_once("agent-1", _whose)
    finally:
        os.kill(stopped, signal.SIGCONT)

    assert found["external_id"] == "agent-1"
    await _wait_for_end(administrator, stopped)
    await _assert_fresh(store)


async def test_what_follows_a_timeout_in_its_transaction_is_part_of_it(new_store: NewStore) -> None:
    """The server refuses all that comes after, and says nothing of why; so does a block that goes on regardless."""
    store = await new_store(statement_timeout_seconds=0.5)

    with pytest.raises(StoreTimeoutError, match="statement_timeout_seconds"):
        async with store.transaction("agent-1") as db:
            with suppress(StoreError):
                await db.execute("SELECT pg_sleep(5)::text")
            await db.execute("SELECT 1 AS one")
    with pytest.raises(StoreTimeoutError, match="rolled back"):
        async with store.transaction("agent-1") as db:
            with suppress(StoreError):
                await db.execute("SELECT pg_sleep(5)::text")
    with pytest.raises(StoreError) as refused:
        async with store.transaction("agent-1") as db:
            with suppress(StoreError):
                await db.execute("SELECT 1 / 0 AS none")
            await db.execute("SELECT 1 AS one")

    assert not isinstance(refused.value, StoreTimeoutError)


@pytest.mark.parametrize("milliseconds", [1, 2, 5, 20])
async def test_a_timeout_is_one_wherever_it_strikes(new_store: NewStore, milliseconds: int) -> None:
    """While a statement is prepared, planned, run, or between its rows."""
    store = await new_store()
    limit = {"statement_timeout": f"{milliseconds}ms"}

    for number in range(20):
        with pytest.raises(StoreTimeoutError):
            async with store.transaction("agent-1", settings=limit) as db:
                await db.fetch_all("SELECT count(*) FROM generate_series(1, 30000000)", prepared=number % 2 == 0)
                await db.fetch_all("SELECT pg_sleep(1)::text")


_HOSTILE = ["a'; DROP TABLE memory_event; --", "\\'", "$$", "é\U0001f600", "x'||'y", "%s $(x)p", '"', "\\x41"]


@pytest.mark.parametrize("external_id", _HOSTILE)
async def test_a_tenants_name_is_a_value_whatever_stands_in_it(new_store: NewStore, external_id: str) -> None:
    """It begins the transaction in one message with other SQL, and is never read as any."""
    store = await new_store()

    async with store.transaction(external_id) as db:
        await _write(db, external_id)
        tenant = await db.fetch_one("SELECT current_setting('reminiscence.external_id') AS name")
    async with store.transaction("agent-2") as db:
        others = await db.fetch_all("SELECT external_id FROM memory_event")

    assert tenant == {"name": external_id}
    assert others == []


async def test_a_transaction_begins_in_one_message(test_server: TestServer, database: str) -> None:
    """Three round trips for one statement: its beginning, the statement, its end."""
    async with FaultyProxy(test_server.address.host, test_server.address.port) as proxy:
        store = PostgresManager(
            proxy.settings(test_server.login(database)),
            pool_size=1,
            pool_timeout_seconds=10,
            statement_timeout_seconds=30,
        )
        await store.initialize()
        try:
            sent: list[int] = []
            for _ in range(3):
                proxy.cut_at(1_000, "message")
                async with store.transaction("agent-1") as db:
                    await db.fetch_all("SELECT $(text)p::text AS said", {"text": "yes"})
                sent.append(1_000 - proxy._messages_left)
        finally:
            await store.close()

    # The first time the statement is prepared, too.
    assert sent[1:] == [3, 3]


async def test_a_single_statement_is_waited_for_once(test_server: TestServer, database: str) -> None:
    """Beginning and end of its transaction go with it, once the connection has prepared them."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(tracer_provider=provider)
    store = PostgresManager(
        test_server.login(database),
        pool_size=1,
        pool_timeout_seconds=10,
        statement_timeout_seconds=30,
        telemetry=telemetry,
    )
    await store.initialize()
    try:
        for _ in range(2):
            exporter.clear()
            with telemetry.operation("read"):
                await store.read_once("agent-1", _fetching(_WHOSE, {"number": "x"}))
    finally:
        await store.close()

    waits = [span for span in exporter.get_finished_spans() if span.kind == SpanKind.CLIENT]
    assert [(span.name, dict(span.attributes or {})["db.operation.batch.size"]) for span in waits] == [("SELECT", 3)]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        pytest.param("neo4j_uri", "nonsense://nowhere", id="before it looks at the schema"),
        pytest.param("chunk_partitions", 7, id="after it"),
    ],
)
async def test_a_memory_that_does_not_open_leaves_no_connection(
    test_server: TestServer, database: str, administrator: SqlExecutor, setting: str, value: object
) -> None:
    """A program that tries again and again would otherwise use up the server's connections."""
    memory = AgentMem(settings_for(dsn(test_server.login(database)), **{setting: value}))

    # Kept, as by a log: with its traceback it keeps whatever was not closed.
    with pytest.raises(ConfigurationError, match=setting) as refused:
        await memory.initialize()

    async def all_are_closed() -> bool:
        return not await _backends(administrator)

    await _wait_for(all_are_closed)
    assert refused.traceback
