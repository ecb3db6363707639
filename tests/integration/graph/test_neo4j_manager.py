"""Connections to Neo4j: what goes wrong ends in time, says what to do, quotes nothing, and heals by itself."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from agent_reminiscence.database.neo4j_manager import CypherExecutor, SchemaExistsError
from agent_reminiscence.exceptions import (
    ConfigurationError,
    NotInitializedError,
    StoreError,
    StoreTimeoutError,
    StoreUnavailableError,
)
from agent_reminiscence.telemetry import Telemetry
from tests.support.neo4j_managers import neo4j_manager, opened_neo4j
from tests.support.neo4j_server import Neo4jAddress, Neo4jServer
from tests.support.telemetry import Recording

_SECRET = "the spare key is under the mat"


def _running(statement: str, **params: Any) -> Callable[[CypherExecutor], Any]:
    return lambda db: db.fetch_all(statement, params)


_ONE = _running("RETURN 1 AS one")
_NOWHERE = Neo4jAddress("bolt://127.0.0.1:1", "neo4j", "")


async def test_rows_are_dictionaries(neo4j_server: Neo4jAddress) -> None:
    """A statement gives its rows by their names, from a read as from a write."""
    async with opened_neo4j(neo4j_server) as manager:
        unwind = _running("UNWIND $given AS one RETURN one, one + 1 AS more", given=[1, 2])

        expected = [{"one": 1, "more": 2}, {"one": 2, "more": 3}]
        assert await manager.read(unwind) == expected
        assert await manager.read(unwind, latest=True) == expected
        assert await manager.write(unwind) == expected


async def test_a_read_cannot_write(neo4j_server: Neo4jAddress, new_neo4j_tenant: Callable[[], str]) -> None:
    """What is sent to the readers of a cluster changes nothing."""
    tenant = new_neo4j_tenant()
    create = _running("CREATE (:MemoryStream {external_id: $external_id})", external_id=tenant)
    async with opened_neo4j(neo4j_server) as manager:
        with pytest.raises(StoreError, match=r"Neo\.ClientError"):
            await manager.read(create)
        await manager.write(create)
        rows = await manager.read(
            _running("MATCH (s:MemoryStream {external_id: $external_id}) RETURN s.external_id AS x", external_id=tenant)
        )
    assert rows == [{"x": tenant}]


async def test_a_constraint_that_is_there_already_is_told_apart(neo4j_server: Neo4jAddress) -> None:
    """Two processes that open a new store at once may both find nothing; one of them then creates what is there."""
    name = f"race_{uuid4().hex}"
    create = f"CREATE CONSTRAINT {name} FOR (n:{name}) REQUIRE n.x IS UNIQUE"
    async with opened_neo4j(neo4j_server, timeout_seconds=60) as manager:
        await manager.write(_running(create))
        with pytest.raises(SchemaExistsError):
            await manager.write(_running(create))
        # The name of something else is a mistake.
        with pytest.raises(StoreError) as caught:
            await manager.write(_running(create.replace("n.x", "n.y")))
        assert not isinstance(caught.value, SchemaExistsError)
        await manager.write(_running(f"DROP CONSTRAINT {name}"))


async def test_a_write_that_fails_leaves_nothing(
    neo4j_server: Neo4jAddress, new_neo4j_tenant: Callable[[], str]
) -> None:
    """Either all statements of a write take effect or none of them."""
    tenant = new_neo4j_tenant()

    async def work(db: CypherExecutor) -> None:
        await db.fetch_all("CREATE (:MemoryStream {external_id: $external_id})", {"external_id": tenant})
        raise RuntimeError("the caller's own")

    async with opened_neo4j(neo4j_server) as manager:
        with pytest.raises(RuntimeError, match="the caller's own"):
            await manager.write(work)
        found = await manager.read(
            _running("MATCH (s:MemoryStream {external_id: $external_id}) RETURN s", external_id=tenant)
        )
    assert found == []


async def test_sessions_are_the_drivers_own(neo4j_server: Neo4jAddress) -> None:
    """Whoever needs more than `read` and `write` has the driver's sessions, with our errors."""
    async with opened_neo4j(neo4j_server) as manager:
        async with manager.get_read_session() as session:
            result = await session.run("RETURN 1 AS one")
            record = await result.single(strict=True)
        assert record["one"] == 1
        with pytest.raises(StoreError, match="SyntaxError"):
            async with manager.get_write_session() as session:
                await session.run("RETURN RETURN")


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://localhost:7474", "with one of the schemes"),
        ("localhost:7687", "with one of the schemes"),
        ("neo4j://", "with one of the schemes"),
        ("neo4j://host:port", "not a URL"),
        ("bolt://[::1", "not a URL"),
        ("bolt://neo4j:hunter2@localhost", "neo4j_user and neo4j_password"),
    ],
)
def test_a_uri_that_is_none_is_refused_at_once(uri: str, message: str) -> None:
    """A slip in the configuration is named before anything runs, without the password that it may hold."""
    with pytest.raises(ConfigurationError, match=message) as refused:
        neo4j_manager(_NOWHERE, uri=uri)
    assert "neo4j_uri" in str(refused.value)
    assert "hunter2" not in str(refused.value)


async def test_a_uri_that_the_driver_refuses_is_a_matter_of_configuration() -> None:
    """What only the driver knows to be wrong is named just as early."""
    with pytest.raises(ConfigurationError, match="neo4j_uri"):
        await neo4j_manager(_NOWHERE, uri="bolt://localhost:7687?policy=eu").initialize()


@pytest.mark.parametrize("uri", ["bolt://127.0.0.1:1", "neo4j://127.0.0.1:1", "bolt://nobody.invalid:7687"])
async def test_a_server_that_is_away_fails_calls_and_nothing_else(uri: str) -> None:
    """Whoever starts before its Neo4j, or where its name is not known yet, runs; calls say what is missing."""
    async with opened_neo4j(_NOWHERE, uri=uri, timeout_seconds=10) as manager:
        for call in (manager.read, manager.write):
            started = time.monotonic()
            with pytest.raises(StoreUnavailableError, match=r"Neo4j at .+ neo4j_uri"):
                await call(_ONE)
            assert time.monotonic() - started < 20


async def test_a_wrong_password_is_named_as_such(neo4j_server: Neo4jAddress) -> None:
    """The message names the settings to look at, and not the password."""
    # Another user: three mistakes would lock that of all the other tests out.
    async with opened_neo4j(neo4j_server, user="somebody", password="hunter2") as manager:
        with pytest.raises(StoreError, match=r"refuses 'somebody' .+ neo4j_user, neo4j_password") as refused:
            await manager.read(_ONE)
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


async def test_a_database_that_is_not_there_is_named(neo4j_server: Neo4jAddress) -> None:
    """The message names the setting."""
    async with opened_neo4j(neo4j_server, database="elsewhere") as manager:
        with pytest.raises(StoreError, match="no database 'elsewhere'; correct neo4j_database"):
            await manager.read(_ONE)


async def test_a_silent_peer_costs_the_timeout_and_no_more() -> None:
    """A peer that accepts connections and says nothing ends a call in time, and closing does not wait for it."""
    connections: list[asyncio.StreamWriter] = []
    peer = await asyncio.start_server(lambda _, writer: connections.append(writer), "127.0.0.1", 0)
    port = peer.sockets[0].getsockname()[1]
    try:
        async with opened_neo4j(_NOWHERE, uri=f"bolt://127.0.0.1:{port}", timeout_seconds=0.5) as manager:
            for call in (manager.read, manager.write):
                started = time.monotonic()
                with pytest.raises((StoreTimeoutError, StoreUnavailableError)):
                    await call(_ONE)
                assert time.monotonic() - started < 15
            started = time.monotonic()
        assert time.monotonic() - started < 15
    finally:
        peer.close()
        for writer in connections:
            writer.close()


async def test_a_server_that_freezes_or_restarts_costs_a_little_time_and_heals(own_neo4j_server: Neo4jServer) -> None:
    """Connections that were good a moment ago are no reason to wait longer, nor to fail once the server is back."""
    async with opened_neo4j(own_neo4j_server.address, timeout_seconds=2) as manager:
        # A server that has just started takes long for its first statements.
        await _soon(lambda: manager.write(_running("MERGE (:Left)")))

        own_neo4j_server.freeze()
        for call in (manager.read, manager.write, manager.read):
            started = time.monotonic()
            with pytest.raises((StoreTimeoutError, StoreUnavailableError)):
                await call(_ONE)
            assert time.monotonic() - started < 15
        own_neo4j_server.thaw()
        assert await _soon(lambda: manager.read(_ONE)) == [{"one": 1}]

        await asyncio.to_thread(own_neo4j_server.kill)
        with pytest.raises(StoreUnavailableError, match="neo4j_uri"):
            await manager.read(_ONE)
        own_neo4j_server.wipe()
        await asyncio.to_thread(own_neo4j_server.start)
        assert await _soon(lambda: manager.read(_ONE)) == [{"one": 1}]
        assert await _soon(lambda: manager.read(_running("MATCH (l:Left) RETURN l"))) == []


async def test_a_cancelled_call_leaves_the_manager_usable(neo4j_server: Neo4jAddress) -> None:
    """A caller with a deadline of its own takes nothing from the others, however often it gives up."""
    busy = _running("UNWIND range(1, 100000000) AS n RETURN sum(n * n) AS total")
    async with opened_neo4j(neo4j_server, pool_size=2, timeout_seconds=20) as manager:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await manager.read(busy)

        assert await asyncio.gather(*(manager.read(_ONE) for _ in range(4))) == [[{"one": 1}]] * 4


async def test_the_server_ends_a_statement_that_takes_too_long(neo4j_server: Neo4jAddress) -> None:
    """One query that nobody waits for any more does not keep the server busy."""
    busy = "UNWIND range(1, 1000000000) AS n RETURN sum(n * n) AS too_long"
    async with opened_neo4j(neo4j_server, timeout_seconds=0.5) as manager:
        with pytest.raises(StoreTimeoutError, match="neo4j_timeout_seconds"):
            await manager.read(_running(busy))
    async with opened_neo4j(neo4j_server) as manager:

        async def is_over() -> None:
            rows = await manager.read(_running("SHOW TRANSACTIONS YIELD currentQuery RETURN currentQuery AS query"))
            assert busy not in [row["query"] for row in rows]

        await _soon(is_over)


async def test_many_statements_may_take_longer_than_one(neo4j_server: Neo4jAddress) -> None:
    """The timeout is for an answer: a write of many statements goes on as long as each of them is answered."""

    async def work(db: CypherExecutor) -> int:
        for _ in range(8):
            await db.fetch_all("RETURN 1")
            await asyncio.sleep(0.2)
        return 8

    async with opened_neo4j(neo4j_server, timeout_seconds=1) as manager:
        assert await manager.write(work) == 8


async def test_errors_and_log_records_hold_no_parameters(
    neo4j_server: Neo4jAddress, new_neo4j_tenant: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    """Parameters are memory text: what a server says of them ends up in no message, no traceback and no log."""
    caplog.set_level(logging.INFO)
    tenant = new_neo4j_tenant()
    statements = [
        "CREATE (:MemoryStream {external_id: $external_id, secret: {a: $secret}})",
        "RETURN 1 + date($secret)",
        "MATCH (s:NoSuchLabelHere) WHERE s.nothing = $secret RETURN s.no_such_property, toInteger({a: $secret})",
        "RETURN $secret.a.b",
        "CREATE (:MemoryStream {external_id: $external_id, secret: $secret})",
    ]
    async with opened_neo4j(neo4j_server) as manager:
        await manager.write(
            _running(
                "CREATE CONSTRAINT memory_stream_external_id IF NOT EXISTS"
                " FOR (s:MemoryStream) REQUIRE s.external_id IS UNIQUE"
            )
        )
        await manager.write(_running(statements[-1], external_id=tenant, secret=_SECRET))
        for statement in statements:
            with pytest.raises(StoreError) as refused:
                await manager.write(_running(statement, external_id=tenant, secret=_SECRET))
            said = "".join(traceback.format_exception(refused.value)).replace(statement, "")
            assert _SECRET not in said
            assert tenant not in said
        unknown = "MATCH (s:NoSuchLabelHere) WHERE s.nothing = $secret RETURN s"
        assert await manager.read(_running(unknown, secret=_SECRET)) == []
    assert _SECRET not in caplog.text
    assert tenant not in caplog.text
    # Nor what the server has to remark on a statement.
    assert not [record for record in caplog.records if record.name.startswith("neo4j")]


async def test_statements_are_observed_by_their_names(neo4j_server: Neo4jAddress) -> None:
    """Spans say which statement ran, on which kind of database, and nothing of its text."""
    recording = Recording()
    telemetry = Telemetry(recording.tracer_provider, recording.meter_provider)
    try:
        async with opened_neo4j(neo4j_server, telemetry=telemetry) as manager:
            with telemetry.operation("retrieve_memories"):
                await manager.read(_ONE)
        span = recording.span("RETURN")
    finally:
        recording.close()

    assert span.attributes is not None
    assert dict(span.attributes) == {
        "db.system.name": "neo4j",
        "db.namespace": neo4j_server.database,
        "db.operation.name": "RETURN",
    }


async def test_a_manager_that_is_not_open_says_so(neo4j_server: Neo4jAddress) -> None:
    """Before `initialize` and after `close` the message says what to call; closing twice is no mistake."""
    manager = neo4j_manager(neo4j_server)
    with pytest.raises(NotInitializedError, match=r"initialize\(\)"):
        await manager.read(_ONE)
    await manager.initialize()
    await manager.close()
    await manager.close()
    with pytest.raises(NotInitializedError, match=r"initialize\(\)"):
        await manager.write(_ONE)


@pytest.mark.thorough
def test_the_driver_is_imported_by_those_who_need_it_only() -> None:
    """Whoever has no Neo4j does not pay for its driver at every start."""
    script = "import sys, agent_reminiscence.core; sys.exit('neo4j' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


async def _soon[T](call: Callable[[], Any]) -> Any:
    """What `call` gives, within a minute."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return await call()
        except (StoreError, AssertionError):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
