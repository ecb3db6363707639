"""A memory whose graph Neo4j follows: present, away, back again, tampered with, emptied, and made to forget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError, WorkReport, WorkTimeoutError
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.database.neo4j_manager import Neo4jManager
from agent_reminiscence.domain.audit import StreamReport
from agent_reminiscence.services.upkeep.doctor import diagnose
from agent_reminiscence.services.work import jobs, worker
from tests.acceptance.conftest import Server
from tests.support.proxy import TcpSwitch
from tests.support.steps import all_events

_TEXT = "Ana Sousa met Piet Bakker in Lisbon on Monday.\n\nPiet Bakker owns the red boat in Lisbon."
_SECRET = "Marta Lind hides in Porto, says Ana Sousa."
_PATIENCE_SECONDS = 40.0

MakeConfig = Callable[..., Config]


@pytest.fixture
async def memory(with_neo4j: MakeConfig) -> AsyncIterator[AgentMem]:
    """A memory whose graph Neo4j follows where the test says so."""
    async with AgentMem(with_neo4j()) as opened:
        yield opened


def _by_way_of(switch: TcpSwitch) -> dict[str, object]:
    return {"neo4j_uri": f"bolt://127.0.0.1:{switch.port}"}


async def _remember(memory: AgentMem, tenant: str, text: str = _TEXT) -> None:
    note = await memory.create_active_memory(tenant, "Notes", text)
    await memory.admin.consolidate(tenant, note.id)


async def _make_due(memory: AgentMem, tenant: str, text: str = _TEXT) -> None:
    """Write a memory whose consolidation is due, where `active_memory_update_threshold` is 1."""
    note = await memory.create_active_memory(tenant, "Notes", "Nothing yet.")
    await memory.update_active_memory(tenant, note.id, content=text)


async def _until(condition: Callable[[], Awaitable[bool]], *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.05)


async def _catch_up(memory: AgentMem, tenant: str) -> WorkReport:
    """Work until Neo4j has followed: after an outage it is left alone for a while."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            report = await memory.admin.run_due(tenant)
            if report.graph_followed:
                return report
            await asyncio.sleep(0.2)


async def _names(neo4j: Neo4jManager, tenant: str) -> set[str]:
    rows = await neo4j.read(
        lambda db: db.fetch_all("MATCH (e:Entity {external_id: $tenant}) RETURN e.name AS name", {"tenant": tenant})
    )
    return {row["name"] for row in rows}


async def _change(neo4j: Neo4jManager, statement: str, tenant: str) -> None:
    await neo4j.write(lambda db: db.fetch_all(statement, {"tenant": tenant}))


async def _verified(memory: AgentMem, tenant: str, *, repair: bool = False) -> StreamReport:
    (report,) = (await memory.admin.verify(tenant, repair=repair)).streams
    return report


# Following ----------------------------------------------------------------------------------------


async def test_a_worker_in_the_process_follows_by_itself(
    with_neo4j: MakeConfig, neo4j: Neo4jManager, neo4j_tenant: str
) -> None:
    """Who writes has nothing more to do: what a consolidation finds is in Neo4j soon."""
    async with AgentMem(with_neo4j(worker=True, active_memory_update_threshold=1)) as memory:
        note = await memory.create_active_memory(neo4j_tenant, "Notes", "Nothing yet.")
        await memory.update_active_memory(neo4j_tenant, note.id, content=_TEXT)
        assert await memory.admin.wait_until_idle(neo4j_tenant) == []

        assert await _names(neo4j, neo4j_tenant) == {"Ana Sousa", "Piet Bakker", "Lisbon"}
        usage = await memory.admin.usage(neo4j_tenant)
        assert (usage.entities, usage.graph_lag) == (3, 0)
        assert usage.graph_store is not None
        assert (await _verified(memory, neo4j_tenant)).graph == "current"


async def test_a_graph_from_before_neo4j_was_configured_is_followed_too(
    config: MakeConfig, with_neo4j: MakeConfig, neo4j: Neo4jManager, neo4j_tenant: str
) -> None:
    """A worker that starts with a Neo4j for the first time fills it, for tenants that nobody writes to any more.

    Whoever writes notes that the graph has changed, whether a Neo4j is configured for them or not.
    """
    async with AgentMem(config()) as memory:
        await _remember(memory, neo4j_tenant)

    async with AgentMem(with_neo4j()) as memory:
        assert (await memory.admin.usage(neo4j_tenant)).graph_lag > 0
        await memory.admin.run_worker(until_idle=True)

        assert await _names(neo4j, neo4j_tenant) == {"Ana Sousa", "Piet Bakker", "Lisbon"}
        verified = await _verified(memory, neo4j_tenant)
        assert (verified.graph, verified.ok, verified.drift) == ("current", True, ())


async def test_what_somebody_without_neo4j_writes_is_followed_too(
    memory: AgentMem, config: MakeConfig, neo4j: Neo4jManager, neo4j_tenant: str
) -> None:
    """Of two processes of which one knows no Neo4j, the other takes over what that one has written."""
    await _remember(memory, neo4j_tenant)
    await _catch_up(memory, neo4j_tenant)
    async with AgentMem(config()) as unaware:
        await _remember(unaware, neo4j_tenant, _SECRET)

    assert (await memory.admin.usage(neo4j_tenant)).graph_lag > 0
    await _catch_up(memory, neo4j_tenant)

    assert "Marta Lind" in await _names(neo4j, neo4j_tenant)
    verified = await _verified(memory, neo4j_tenant)
    assert (verified.graph, verified.ok, verified.drift) == ("current", True, ())


async def test_a_neo4j_that_was_emptied_is_filled_by_the_next_sweep(
    with_neo4j: MakeConfig, neo4j: Neo4jManager, config: MakeConfig, neo4j_tenant: str
) -> None:
    """A store of another id has followed nothing, whatever is noted of the one before."""
    async with AgentMem(with_neo4j()) as memory:
        await _remember(memory, neo4j_tenant)
        await _catch_up(memory, neo4j_tenant)
        assert memory._parts is not None
        async with memory._parts.stores.postgres.transaction(neo4j_tenant) as db:
            await db.execute(
                "UPDATE memory_stream SET graph_store = 'the one before' WHERE external_id = $(tenant)p",
                {"tenant": neo4j_tenant},
            )
        await _change(neo4j, "MATCH (n {external_id: $tenant}) DETACH DELETE n", neo4j_tenant)

        await memory.admin.run_worker(until_idle=True)

        assert await _names(neo4j, neo4j_tenant) == {"Ana Sousa", "Piet Bakker", "Lisbon"}


# Away ---------------------------------------------------------------------------------------------


async def test_with_neo4j_away_all_four_methods_work_and_it_catches_up(
    with_neo4j: MakeConfig, neo4j: Neo4jManager, switch: TcpSwitch, neo4j_tenant: str
) -> None:
    """An outage delays the graph in Neo4j and nothing else; it is no failure of the work, and usage shows the lag."""
    await switch.off()
    async with AgentMem(with_neo4j(**_by_way_of(switch), neo4j_timeout_seconds=2.0)) as memory:
        note = await memory.create_active_memory(neo4j_tenant, "Notes", _TEXT)
        await memory.update_active_memory(neo4j_tenant, note.id, description="of a day")
        assert len(await memory.get_active_memories(neo4j_tenant)) == 1
        found = await memory.retrieve_memories(neo4j_tenant, "who owns the red boat?")
        assert "red boat" in found.hits[0].content
        await memory.admin.consolidate(neo4j_tenant, note.id)

        report = await memory.admin.run_due(neo4j_tenant)

        assert (report.graph_followed, report.error) == (False, None)
        assert [job.failed_attempts for job in await memory.admin.jobs(neo4j_tenant)] in ([], [0])
        usage = await memory.admin.usage(neo4j_tenant)
        assert usage.graph_lag > 0
        assert usage.work_failed == 0
        verified = await _verified(memory, neo4j_tenant)
        assert (verified.graph, verified.ok) == ("unavailable", True)
        with pytest.raises(WorkTimeoutError):
            await memory.admin.wait_until_idle(neo4j_tenant, timeout_seconds=0.2)

        switch.on()
        await _catch_up(memory, neo4j_tenant)

        assert (await memory.admin.usage(neo4j_tenant)).graph_lag == 0
        assert (await _verified(memory, neo4j_tenant)).graph == "current"
        assert await _names(neo4j, neo4j_tenant) == {"Ana Sousa", "Piet Bakker", "Lisbon"}


async def test_a_worker_goes_on_with_everything_else(
    with_neo4j: MakeConfig, switch: TcpSwitch, neo4j_tenant: str
) -> None:
    """A job that cannot reach Neo4j has consolidated all the same."""
    await switch.off()
    settings = {"worker": True, "active_memory_update_threshold": 1, "neo4j_timeout_seconds": 2.0}
    async with AgentMem(with_neo4j(**_by_way_of(switch), **settings)) as memory:
        note = await memory.create_active_memory(neo4j_tenant, "Notes", "Nothing yet.")
        await memory.update_active_memory(neo4j_tenant, note.id, content=_TEXT)

        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                usage = await memory.admin.usage(neo4j_tenant)
                if usage.entities:
                    break
                await asyncio.sleep(0.1)

        assert usage.graph_lag > 0
        switch.on()
        assert await memory.admin.wait_until_idle(neo4j_tenant, timeout_seconds=_PATIENCE_SECONDS) == []
        assert (await memory.admin.usage(neo4j_tenant)).graph_lag == 0


async def test_due_work_is_done_though_neo4j_does_not_follow(
    with_neo4j: MakeConfig, neo4j: Neo4jManager, switch: TcpSwitch, neo4j_tenant: str
) -> None:
    """The run consolidates, reports that Neo4j has not followed, and raises nothing; the next one makes up for it."""
    settings = {"active_memory_update_threshold": 1, "neo4j_timeout_seconds": 1.0}
    async with AgentMem(with_neo4j(**_by_way_of(switch), **settings)) as memory:
        switch.fall_silent()
        await _make_due(memory, neo4j_tenant)

        report = await memory.admin.run_due(neo4j_tenant)

        assert len(report.consolidated) == 1
        assert (report.graph_followed, report.error) == (False, None)
        usage = await memory.admin.usage(neo4j_tenant)
        assert (usage.entities, usage.work_failed) == (3, 0)
        assert usage.graph_lag > 0

        switch.speak()
        report = await _catch_up(memory, neo4j_tenant)

        assert report.consolidated == ()
        assert (await memory.admin.usage(neo4j_tenant)).graph_lag == 0
        assert await _names(neo4j, neo4j_tenant) == {"Ana Sousa", "Piet Bakker", "Lisbon"}
        assert (await _verified(memory, neo4j_tenant)).graph == "current"


async def test_a_worker_beside_a_silent_neo4j_consolidates_without_delay(
    with_neo4j: MakeConfig, switch: TcpSwitch, new_neo4j_tenant: Callable[[], str]
) -> None:
    """A Neo4j that takes connections and says nothing is waited for beside the work."""
    tenants = [new_neo4j_tenant() for _ in range(3)]
    settings = {"worker": True, "worker_concurrency": 1, "active_memory_update_threshold": 1}
    switch.fall_silent()
    async with AgentMem(with_neo4j(**_by_way_of(switch), **settings, neo4j_timeout_seconds=60.0)) as memory:
        for tenant in tenants:
            await _make_due(memory, tenant)

        async def are_consolidated() -> bool:
            return all([(await memory.admin.usage(tenant)).entities == 3 for tenant in tenants])

        await _until(are_consolidated, seconds=20)

        assert all([(await memory.admin.usage(tenant)).graph_lag > 0 for tenant in tenants])


@pytest.mark.parametrize("fault", ["silent", "cut off"])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["waited for", "given up"])
async def test_closing_beside_a_neo4j_with_a_fault_leaves_nothing_open(
    with_neo4j: MakeConfig,
    switch: TcpSwitch,
    server: Server,
    database: str,
    neo4j_tenant: str,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    is_cancelled: bool,
) -> None:
    """What one part fails with, and a caller who gives up on closing, keep no task and no connection."""
    for module in (jobs, worker):
        monkeypatch.setattr(module, "WORKER_GRACE_SECONDS", 1.0)
    tasks = asyncio.all_tasks()
    administrator = await open_connection(server.superuser(database))

    async def is_closed() -> bool:
        rows = await administrator.fetch_all(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            # The tests' own connections are a superuser's, like this one.
            " AND application_name LIKE 'agent_reminiscence%' AND usename <> current_user"
        )
        # The links of the switch are tasks, too.
        left = [task for task in asyncio.all_tasks() - tasks if "TcpSwitch" not in repr(task)]
        return not rows and not left and switch.links == 0

    try:
        settings = {"worker": True, "active_memory_update_threshold": 1}
        memory = AgentMem(with_neo4j(**_by_way_of(switch), **settings))
        await memory.initialize()
        await _make_due(memory, neo4j_tenant)
        assert await memory.admin.wait_until_idle(neo4j_tenant, timeout_seconds=_PATIENCE_SECONDS) == []
        assert switch.links > 0
        if fault == "silent":
            switch.fall_silent()
        else:
            await switch.off()
        await _make_due(memory, neo4j_tenant, _SECRET)
        await asyncio.sleep(0.5)

        closing = asyncio.create_task(memory.close())
        if is_cancelled:
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait({closing})
            assert closing.cancelled()
        else:
            await closing
        # What was sent before is taken by nobody; the server's side of a connection ends when it is passed on.
        switch.speak()

        await _until(is_closed, seconds=10)
    finally:
        administrator.close()


async def test_a_password_without_a_place_is_refused(config: MakeConfig) -> None:
    """A misspelt URI must not leave the graph in PostgreSQL without a word."""
    with pytest.raises(ConfigurationError, match="neo4j_uri"):
        config(neo4j_password="secret")


# Verify and rebuild -------------------------------------------------------------------------------


async def test_verify_names_a_tampered_node_and_mends_it(
    memory: AgentMem, neo4j: Neo4jManager, neo4j_tenant: str
) -> None:
    """What somebody has changed in Neo4j is found by table, id and field, and with `repair` is as it was."""
    await _remember(memory, neo4j_tenant)
    await _catch_up(memory, neo4j_tenant)
    await _change(
        neo4j, "MATCH (e:Entity {external_id: $tenant, name: 'Lisbon'}) SET e.name = 'Atlantis'", neo4j_tenant
    )

    found = await _verified(memory, neo4j_tenant)

    assert not found.ok
    assert [(drift.table, drift.problem, drift.columns) for drift in found.drift] == [
        ("neo4j.entity", "changed", ("name",))
    ]
    mended = await _verified(memory, neo4j_tenant, repair=True)
    assert (mended.ok, mended.repaired, mended.graph, mended.drift) == (True, True, "current", found.drift)
    clean = await _verified(memory, neo4j_tenant)
    assert (clean.ok, clean.drift, clean.graph) == (True, (), "current")
    assert await _names(neo4j, neo4j_tenant) == {"Ana Sousa", "Piet Bakker", "Lisbon"}


async def test_rebuild_fills_an_empty_one(memory: AgentMem, neo4j: Neo4jManager, neo4j_tenant: str) -> None:
    """A Neo4j that has lost a tenant is what the ledger gives after a rebuild."""
    await _remember(memory, neo4j_tenant)
    await _catch_up(memory, neo4j_tenant)
    await _change(neo4j, "MATCH (n {external_id: $tenant}) DETACH DELETE n", neo4j_tenant)
    behind = await _verified(memory, neo4j_tenant)
    assert (behind.graph, behind.ok) == ("behind", True)

    (report,) = (await memory.admin.rebuild(neo4j_tenant)).streams

    assert (report.graph, report.ok) == ("current", True)
    assert await _names(neo4j, neo4j_tenant) == {"Ana Sousa", "Piet Bakker", "Lisbon"}


async def test_a_row_that_cannot_be_read_stops_neither_recall_nor_an_erasure(
    with_neo4j: MakeConfig, neo4j: Neo4jManager, neo4j_tenant: str
) -> None:
    """Whatever somebody has done to a node: recall reads it from PostgreSQL, and an erasure mends it."""
    async with AgentMem(with_neo4j(graph_deadline_seconds=_PATIENCE_SECONDS)) as memory:
        await _remember(memory, neo4j_tenant)
        await _remember(memory, neo4j_tenant, _SECRET)
        await _catch_up(memory, neo4j_tenant)
        # Recall counts the mentions, an erasure reads the metadata as well.
        broken = "MATCH (e:Entity {external_id: $tenant}) SET e.mentions = 'many', e.metadata = null"
        await _change(neo4j, broken, neo4j_tenant)

        # It names somebody, so the graph is asked.
        found = await memory.retrieve_memories(neo4j_tenant, "what does Piet Bakker own?")
        assert found.omitted == ()
        assert "Piet Bakker" in {entity.name for entity in found.entities}
        assert any("red boat" in hit.content for hit in found.hits)
        assert not (await _verified(memory, neo4j_tenant)).ok
        receipt = await memory.admin.erase(neo4j_tenant, text="Marta")

        assert receipt.graph_erased_at is not None
        assert (await memory.admin.verify_erased(receipt, text="Marta")).ok
        assert (await _verified(memory, neo4j_tenant)).graph == "current"


# Erasure ------------------------------------------------------------------------------------------


async def test_an_erasure_reaches_neo4j_and_its_receipt_says_when(
    memory: AgentMem, neo4j: Neo4jManager, neo4j_tenant: str
) -> None:
    """With Neo4j there, erase() returns when it holds nothing of it any more; verify_erased looks there too."""
    await _remember(memory, neo4j_tenant)
    await _remember(memory, neo4j_tenant, _SECRET)
    await _catch_up(memory, neo4j_tenant)
    assert "Marta Lind" in await _names(neo4j, neo4j_tenant)

    receipt = await memory.admin.erase(neo4j_tenant, text="Marta")

    assert receipt.graph_erased_at is not None
    assert receipt.sha256 == receipt.compute_sha256()
    assert await _names(neo4j, neo4j_tenant) == {"Ana Sousa", "Piet Bakker", "Lisbon"}
    check = await memory.admin.verify_erased(receipt, text="Marta")
    assert check.ok
    assert check.graph_erased_at == receipt.graph_erased_at
    assert {"neo4j.entity", "neo4j.relationship"} <= set(check.places)
    assert (await _verified(memory, neo4j_tenant)).ok


async def test_an_erasure_while_neo4j_is_away_is_told_later(
    with_neo4j: MakeConfig, neo4j: Neo4jManager, switch: TcpSwitch, neo4j_tenant: str
) -> None:
    """The receipt says that Neo4j has not followed, and the ledger says when it has: once, however often it follows."""
    async with AgentMem(with_neo4j(**_by_way_of(switch), neo4j_timeout_seconds=2.0)) as memory:
        await _remember(memory, neo4j_tenant)
        await _remember(memory, neo4j_tenant, _SECRET)
        await _catch_up(memory, neo4j_tenant)
        await switch.off()

        receipt = await memory.admin.erase(neo4j_tenant, text="Marta")

        assert receipt.graph_erased_at is None
        check = await memory.admin.verify_erased(receipt, text="Marta")
        assert (check.ok, check.graph_erased_at) == (True, None)
        assert "neo4j.entity" not in check.places
        switch.on()
        await _catch_up(memory, neo4j_tenant)
        await memory.admin.run_due(neo4j_tenant)
        check = await memory.admin.verify_erased(receipt, text="Marta")
        assert check.ok
        assert check.graph_erased_at is not None
        assert "neo4j.entity" in check.places
        told = [event for event in await all_events(memory, neo4j_tenant) if event.kind == "memory.graph_erased"]
        assert [event.payload["receipt_id"] for event in told] == [str(receipt.receipt_id)]
        assert await _names(neo4j, neo4j_tenant) == {"Ana Sousa", "Piet Bakker", "Lisbon"}
        assert (await _verified(memory, neo4j_tenant)).ok


async def test_what_is_left_in_neo4j_is_found_by_verify_erased(
    memory: AgentMem, neo4j: Neo4jManager, neo4j_tenant: str
) -> None:
    """A node that somebody has put back is named, though PostgreSQL knows nothing of it."""
    await _remember(memory, neo4j_tenant)
    await _remember(memory, neo4j_tenant, _SECRET)
    await _catch_up(memory, neo4j_tenant)
    receipt = await memory.admin.erase(neo4j_tenant, text="Marta")
    await _change(
        neo4j,
        "MATCH (e:Entity {external_id: $tenant, name: 'Lisbon'}) SET e.description = 'where Marta hides'",
        neo4j_tenant,
    )

    check = await memory.admin.verify_erased(receipt, text="Marta")

    assert [(finding.place, finding.problem) for finding in check.findings] == [
        ("neo4j.entity", "it contains the text")
    ]


async def test_an_erased_tenant_leaves_nothing_in_neo4j(
    memory: AgentMem, neo4j: Neo4jManager, new_neo4j_tenant: Callable[[], str]
) -> None:
    """A tenant that is erased whole loses its nodes, and nobody else any."""
    erased, other = new_neo4j_tenant(), new_neo4j_tenant()
    for tenant in (erased, other):
        await _remember(memory, tenant)
        await _catch_up(memory, tenant)

    receipt = await memory.admin.erase(erased)

    assert receipt.graph_erased_at is not None
    assert await _names(neo4j, erased) == set()
    assert await _names(neo4j, other) == {"Ana Sousa", "Piet Bakker", "Lisbon"}
    assert (await memory.admin.verify_erased(receipt, text="Lisbon")).ok


# Doctor -------------------------------------------------------------------------------------------


async def test_doctor_sees_neo4j_and_how_far_it_is(
    memory: AgentMem, with_neo4j: MakeConfig, switch: TcpSwitch, neo4j_tenant: str
) -> None:
    """Which Neo4j it is, that its constraints are there, and who is behind; a Neo4j that is away is a warning."""
    await _remember(memory, neo4j_tenant)

    async def look(**settings: object) -> dict[str, tuple[str, str]]:
        found = await diagnose(lambda: with_neo4j(**settings))
        return {check.name: (check.status, check.detail) for check in found.checks}

    behind = await look()
    await _catch_up(memory, neo4j_tenant)
    current = await look()
    await switch.off()
    away = await look(**_by_way_of(switch), neo4j_timeout_seconds=2.0)

    assert behind["neo4j"][0] == behind["neo4j schema"][0] == "ok"
    assert behind["graph"][0] == "ok"
    assert "behind for 1 external_ids" in behind["graph"][1]
    assert current["graph"] == ("ok", "Neo4j is up to date for every external_id")
    assert away["neo4j"][0] == "warning"
    assert "graph" not in away
