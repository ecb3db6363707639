"""Memory behind a real PgBouncer: what goes through it, what needs a way past it, and what is refused in words.

Debian's and a newer one. `tests/servers/pgbouncer.sh` says where they come from.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import ConnectionSettings, SqlExecutor, open_connection
from agent_reminiscence.database.generations import owning_generations
from agent_reminiscence.exceptions import ConfigurationError
from agent_reminiscence.services.upkeep.doctor import diagnose
from agent_reminiscence.services.upkeep.doctor_checks import Check
from tests.acceptance.conftest import TcpServer, dsn
from tests.conftest import settings_for
from tests.support.following import following
from tests.support.pgbouncer import PgBouncer, find_program, version_of

pytestmark = [
    pytest.mark.pooler,
    pytest.mark.parametrize("server", ["tcp_server"], indirect=True, ids=["dsn"]),
]

type MakeConfig = Callable[..., Config]

_PATIENCE_SECONDS = 60.0
# The first that takes prepared statements from session to session.
_TAKES_STATEMENTS = (1, 21)
_LISTENERS = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'agent_reminiscence subscriber'"
)
_PRESENCE = (
    "SELECT l.pid FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database"
    " WHERE d.datname = current_database() AND l.locktype = 'advisory'"
)


@pytest.fixture(scope="session")
def newer_program() -> Path:
    """A PgBouncer that takes prepared statements along."""
    return find_program("newer")


@pytest.fixture(scope="session", params=["debian", "newer"])
def any_program(request: pytest.FixtureRequest) -> Path:
    """Each PgBouncer; two that are the same where Debian's is new."""
    return find_program(request.param)


@pytest.fixture
def logins(tcp_server: TcpServer, database: str) -> list[ConnectionSettings]:
    """Who may go through the pooler: the application, and the administrator."""
    return [tcp_server.login(database), tcp_server.administrator(database)]


@pytest.fixture
def transaction_pooler(newer_program: Path, logins: list[ConnectionSettings]) -> Iterator[PgBouncer]:
    """A pooler that gives each transaction another session, and takes prepared statements along."""
    with PgBouncer(newer_program, logins, "transaction", max_prepared_statements=200) as pooler:
        yield pooler


@pytest.fixture
def direct(logins: list[ConnectionSettings]) -> MakeConfig:
    """Makes a `Config` that goes past the pooler."""
    return partial(settings_for, dsn(logins[0]))


@pytest.fixture
def pooled(transaction_pooler: PgBouncer, logins: list[ConnectionSettings]) -> MakeConfig:
    """Makes a `Config` that goes through the pooler."""
    return partial(settings_for, dsn(transaction_pooler.through(logins[0])))


@pytest.fixture
async def superuser(tcp_server: TcpServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection past the pooler that sees all others."""
    opened = await open_connection(tcp_server.superuser(database))
    yield opened
    opened.close()


async def _until(holds: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


async def _assert_no_session_is_changed(settings: ConnectionSettings) -> None:
    """No session that the pooler holds has kept a role, a search path or a channel of somebody who has left."""
    opened = [await open_connection(settings) for _ in range(6)]
    try:
        # Open transactions, so that each has a session of its own: all that are idle, and more.
        for connection in opened:
            await connection.execute_script("BEGIN")
        for connection in opened:
            row = await connection.fetch_one(
                "SELECT current_user = session_user AS is_itself, current_setting('search_path') AS search_path,"
                " (SELECT count(*) FROM pg_listening_channels()) AS channels WHERE $(always)p",
                {"always": True},
            )
            assert row == {"is_itself": True, "search_path": '"$user", public', "channels": 0}
    finally:
        for connection in opened:
            connection.close()


async def test_calls_of_several_processes_share_sessions(
    pooled: MakeConfig, transaction_pooler: PgBouncer, logins: list[ConnectionSettings]
) -> None:
    """Each transaction has its tenant, role and search path, whoever had the session before."""
    async with AgentMem(pooled()) as one, AgentMem(pooled()) as other:

        async def use(memory: AgentMem, tenant: str) -> None:
            for number in range(5):
                await memory.create_active_memory(tenant, f"Note {number}", f"The ferry of {tenant} leaves at nine.")
                result = await memory.retrieve_memories(tenant, "When does the ferry leave?")
                assert result.hits
                assert all(tenant in hit.content for hit in result.hits)

        await asyncio.gather(*(use(memory, f"tenant-{i}") for i, memory in enumerate((one, other) * 4)))
        for i in range(8):
            assert (await one.admin.verify(f"tenant-{i}")).ok
        await other.admin.rebuild("tenant-0")
        assert len(await one.get_active_memories("tenant-0")) == 5

    await _assert_no_session_is_changed(transaction_pooler.through(logins[0]))


async def test_a_worker_without_a_session_is_refused_before_it_changes_one(
    pooled: MakeConfig, transaction_pooler: PgBouncer, logins: list[ConnectionSettings]
) -> None:
    """It would leave its role in the pool, and nobody could open a memory through it any more."""
    with pytest.raises(ConfigurationError, match=r"pooler in transaction mode.*session_dsn.*worker=False"):
        async with AgentMem(pooled(worker=True)):
            pass
    async with AgentMem(pooled()) as memory:
        for until_idle in (True, False):
            with pytest.raises(ConfigurationError, match=r"A worker needs a session.*session_dsn"):
                await memory.admin.run_worker(until_idle=until_idle)
        # Work on one tenant needs no session.
        await memory.create_active_memory("agent-1", "Ferry", "The ferry leaves at nine.")
        assert (await memory.admin.run_due("agent-1")).error is None

    await _assert_no_session_is_changed(transaction_pooler.through(logins[0]))


async def test_a_worker_with_a_session_of_its_own_works_beside_the_pooler(
    pooled: MakeConfig, transaction_pooler: PgBouncer, logins: list[ConnectionSettings]
) -> None:
    """It takes jobs past the pooler, and all else of the same memory goes through it."""
    async with AgentMem(pooled(worker=True, session_dsn=dsn(logins[0]))) as memory:

        async def works() -> bool:
            return (await memory.admin.health()).worker == "working"

        await _until(works)
        await memory.create_active_memory("agent-1", "Ferry", "The ferry leaves at nine. " * 200)
        await memory.admin.wait_until_idle("agent-1")
        assert (await memory.admin.health()).worker_error is None
        await _assert_no_session_is_changed(transaction_pooler.through(logins[0]))

    async with AgentMem(pooled()) as afterwards:
        assert (await afterwards.retrieve_memories("agent-1", "When does the ferry leave?")).hits


async def test_subscriptions_listen_past_the_pooler(
    pooled: MakeConfig, logins: list[ConnectionSettings], superuser: SqlExecutor
) -> None:
    """They are told at once: without that, this one would look every ten minutes."""
    settings = pooled(session_dsn=dsn(logins[0]), subscription_poll_seconds=600)
    async with AgentMem(settings) as memory, following(memory, "agent-1") as follower:
        await _until(partial(superuser.fetch_all, _PRESENCE))
        await memory.ledger.append("agent-1", "world.observed", {"n": 1})
        await follower.until(1)


async def test_subscriptions_without_a_session_look_and_leave_nothing_in_the_pool(
    pooled: MakeConfig,
    transaction_pooler: PgBouncer,
    logins: list[ConnectionSettings],
    superuser: SqlExecutor,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They say why, and what to set."""
    caplog.set_level("INFO", "agent_reminiscence.subscriptions")
    async with (
        AgentMem(pooled(subscription_poll_seconds=0.05)) as memory,
        following(memory, "agent-1") as follower,
    ):
        await memory.ledger.append("agent-1", "world.observed", {"n": 1})
        await follower.until(1)
        assert not await superuser.fetch_all(_LISTENERS)

    assert any("Set session_dsn" in record.getMessage() for record in caplog.records)
    await _assert_no_session_is_changed(transaction_pooler.through(logins[0]))


async def test_a_session_dsn_that_leads_through_the_pooler_is_refused(
    pooled: MakeConfig, transaction_pooler: PgBouncer, logins: list[ConnectionSettings]
) -> None:
    """It is the one address that has to lead past it."""
    through = dsn(transaction_pooler.through(logins[0]))
    with pytest.raises(ConfigurationError, match=r"session_dsn leads through a connection pooler"):
        async with AgentMem(pooled(worker=True, session_dsn=through)):
            pass


async def test_a_session_dsn_of_another_database_is_refused(pooled: MakeConfig, tcp_server: TcpServer) -> None:
    """The worker would do the work of other memories."""
    other = await tcp_server.create_database()
    try:
        with pytest.raises(ConfigurationError, match=r"another database"):
            async with AgentMem(pooled(worker=True, session_dsn=dsn(tcp_server.login(other)))):
                pass
    finally:
        await tcp_server.drop_database(other)


async def test_a_session_on_which_somebody_has_left_a_role_is_named(
    any_program: Path, logins: list[ConnectionSettings]
) -> None:
    """As a worker of an earlier release leaves it. The advice is not to run `migrate`."""
    with PgBouncer(any_program, logins, "transaction") as pooler:
        through = pooler.through(logins[0])
        careless = await open_connection(through)
        await careless.execute_script("SET ROLE reminiscence_worker")
        careless.close()
        with pytest.raises(ConfigurationError, match=r"acts as the role 'reminiscence_worker'.*PgBouncer") as caught:
            async with AgentMem(settings_for(dsn(through))):
                pass
    assert "migrate" not in str(caught.value)


async def test_a_pooler_that_leaves_prepared_statements_behind_is_refused_by_name(
    any_program: Path, logins: list[ConnectionSettings]
) -> None:
    """At the first opening through an idle pooler, and not some time later with an error of the server's."""
    settings = {} if version_of(any_program) < _TAKES_STATEMENTS else {"max_prepared_statements": 0}
    with PgBouncer(any_program, logins, "transaction", **settings) as pooler:
        for _ in range(3):
            with pytest.raises(ConfigurationError, match=r"PgBouncer.*1\.21.*max_prepared_statements.*pool_mode"):
                async with AgentMem(settings_for(dsn(pooler.through(logins[0])), session_dsn=dsn(logins[0]))):
                    pass


async def test_a_pooler_in_session_mode_is_like_none(any_program: Path, logins: list[ConnectionSettings]) -> None:
    """Whoever connects has a session until the end, the worker and subscriptions as well."""
    with PgBouncer(any_program, logins, "session") as pooler:
        settings = settings_for(dsn(pooler.through(logins[0])), worker=True, subscription_poll_seconds=600)
        async with AgentMem(settings) as memory, following(memory, "agent-1") as follower:

            async def works() -> bool:
                return (await memory.admin.health()).worker == "working"

            await _until(works)
            await memory.create_active_memory("agent-1", "Ferry", "The ferry leaves at nine.")
            await follower.until(1)
            assert (await memory.retrieve_memories("agent-1", "When does the ferry leave?")).hits
        async with AgentMem(settings_for(dsn(pooler.through(logins[0])))) as afterwards:
            assert await afterwards.get_active_memories("agent-1")


async def test_a_pooler_that_allows_no_transactions_is_refused_by_name(
    any_program: Path, logins: list[ConnectionSettings]
) -> None:
    """Every call is a transaction."""
    with (
        PgBouncer(any_program, logins, "statement") as pooler,
        pytest.raises(ConfigurationError, match=r"pool_mode = statement"),
    ):
        async with AgentMem(settings_for(dsn(pooler.through(logins[0])))):
            pass


async def test_a_pool_of_one_session_is_found_out_and_served(
    newer_program: Path, logins: list[ConnectionSettings]
) -> None:
    """Transactions take turns, and the one that finds out does not wait for itself."""
    with PgBouncer(newer_program, logins, "transaction", max_prepared_statements=200, default_pool_size=1) as pooler:
        through = dsn(pooler.through(logins[0]))
        with pytest.raises(ConfigurationError, match=r"pooler in transaction mode"):
            async with AgentMem(settings_for(through, worker=True)):
                pass
        async with AgentMem(settings_for(through)) as memory:
            await memory.create_active_memory("agent-1", "Ferry", "The ferry leaves at nine.")
            assert (await memory.retrieve_memories("agent-1", "When does the ferry leave?")).hits


async def test_an_administrator_changes_vectors_past_the_pooler_only(
    transaction_pooler: PgBouncer, logins: list[ConnectionSettings], superuser: SqlExecutor
) -> None:
    """The lock of whoever changes them would stay with a session of the pooler, and keep everybody out."""
    with pytest.raises(ConfigurationError, match=r"administrator's DSN leads through a connection pooler"):
        async with owning_generations(transaction_pooler.through(logins[1])):
            pass
    assert not await superuser.fetch_all(_PRESENCE)
    async with owning_generations(logins[1]) as owner:
        assert await owner.holds_lock()


async def test_the_doctor_names_a_pooler_and_the_way_past_it(
    pooled: MakeConfig, logins: list[ConnectionSettings]
) -> None:
    """Also before anybody has opened a memory there."""

    async def found(**settings: object) -> Check:
        diagnosis = await diagnose(lambda: pooled(**settings))
        return next(check for check in diagnosis.checks if check.name == "sessions")

    refused = await found(worker=True)
    assert refused.status == "problem"
    assert refused.remedy is not None
    assert "session_dsn" in refused.remedy
    assert (await found(worker=False)).status == "warning"
    assert (await found(worker=True, session_dsn=dsn(logins[0]))).status == "ok"
