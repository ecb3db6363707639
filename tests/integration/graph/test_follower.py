"""Neo4j follows the graph of PostgreSQL: whatever stops it, it holds the same in the end, and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.neo4j_manager import Neo4jManager
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.graph.neo4j import Lease, Neo4jGraph
from agent_reminiscence.database.repositories.graph.store import GraphDelta
from agent_reminiscence.database.repositories.graph.tables import EntityGraphRepository
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.graph import Entity, Relationship
from agent_reminiscence.exceptions import StoreError, StoreUnavailableError
from agent_reminiscence.redaction.redactor import DefaultRedactor
from agent_reminiscence.resilience.breaker import Breaker
from agent_reminiscence.services.graph import comparison, leases, pages
from agent_reminiscence.services.graph import follower as following
from agent_reminiscence.services.graph.follower import GraphAwayError, GraphFollower
from agent_reminiscence.services.ledger.scrubber import Scrubber
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.telemetry import Telemetry
from tests.conftest import TEST_DIMENSION, TestServer, dsn
from tests.support.factories import superuser
from tests.support.neo4j_managers import opened_neo4j
from tests.support.neo4j_server import Neo4jAddress

_FIRST = "Ana Sousa met Piet Bakker in Lisbon on Monday.\n\nPiet Bakker owns the red boat in Lisbon."
_SECOND = "Ana Sousa visits Marta Lind in Porto.\n\nMarta Lind works with Piet Bakker."


@pytest.fixture(scope="module")
def database(test_server: TestServer) -> Iterator[str]:
    """One database for this module; each test has a tenant of its own."""
    name = asyncio.run(test_server.create_database())
    yield name
    asyncio.run(test_server.drop_database(name))


@pytest.fixture
async def memory(test_server: TestServer, database: str) -> AsyncIterator[AgentMem]:
    """Writes to PostgreSQL, and knows of no Neo4j."""
    settings: dict[str, Any] = {
        "postgres_dsn": dsn(test_server.login(database)),
        "embedding_provider": "hash",
        "embedding_dimension": TEST_DIMENSION,
        "worker": False,
    }
    async with AgentMem(Config(**settings)) as opened:
        yield opened


@pytest.fixture
async def administrator(test_server: TestServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A superuser's connection on the test's database."""
    async with superuser(test_server, database) as db:
        yield db


@pytest.fixture
async def graph(neo4j: Neo4jManager) -> Neo4jGraph:
    """The graph in Neo4j."""
    found = Neo4jGraph(neo4j)
    await found.ensure_schema()
    return found


def _follower(
    store: PostgresManager, graph: Neo4jGraph, *, lease_seconds: float = 15.0, of: type[GraphFollower] = GraphFollower
) -> GraphFollower:
    return of(
        Runtime(store, Repositories(), lambda: datetime.now(UTC), Scrubber(DefaultRedactor()), Telemetry()),
        graph,
        Breaker("Neo4j"),
        lease_seconds=lease_seconds,
    )


@pytest.fixture
def follower(store: PostgresManager, graph: Neo4jGraph) -> GraphFollower:
    """Follows on demand only."""
    return _follower(store, graph)


async def _remember(memory: AgentMem, tenant: str, text: str, title: str = "Notes") -> None:
    note = await memory.create_active_memory(tenant, title, text)
    await memory.admin.consolidate(tenant, note.id)


async def _reflect(memory: AgentMem, tenant: str, times: int) -> None:
    """Write beliefs, each of which rests on the one before it."""
    seen = await memory.ledger.append(tenant, "world.observed", {"text": "The lamp is out."})
    for number in range(times):
        payload = {"belief": f"Belief {number}.", "based_on": [str(seen.event_id)]}
        seen = await memory.ledger.append(tenant, "agent.reflected", payload, actor="ann")


async def _in_neo4j(graph: Neo4jGraph, tenant: str) -> tuple[list[Entity], list[Relationship]]:
    entities = await graph.read_entities(tenant, after=None, limit=1_000)
    relationships = await graph.read_relationships(tenant, after=None, limit=1_000)
    return [found.state for found in entities if found.state], [found.state for found in relationships if found.state]


async def _in_postgres(store: PostgresManager, tenant: str) -> tuple[list[Entity], list[Relationship]]:
    repository = EntityGraphRepository()
    async with store.transaction(tenant, read_only=True) as db:
        entities = await repository.read_entities(db, tenant, after=None, limit=1_000)
        return entities, await repository.read_relationships(db, tenant, after=None, limit=1_000)


async def _noted(administrator: SqlExecutor, tenant: str) -> tuple[int, int, str | None]:
    row = await administrator.fetch_one(
        "SELECT head, graph_position, graph_store FROM memory_stream WHERE external_id = $(tenant)p",
        {"tenant": tenant},
    )
    assert row is not None
    return row["head"], row["graph_position"], row["graph_store"]


async def _count_edges(neo4j: Neo4jManager, tenant: str) -> list[int]:
    """How often each relationship's id stands in Neo4j."""
    rows = await neo4j.read(
        lambda db: db.fetch_all(
            "MATCH ()-[r]->() WHERE r.external_id = $tenant RETURN r.id AS id, count(r) AS edges ORDER BY id",
            {"tenant": tenant},
        )
    )
    return [row["edges"] for row in rows]


# Following ----------------------------------------------------------------------------------------


async def test_neo4j_is_sent_what_it_lacks_and_then_only_what_has_changed(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    follower: GraphFollower,
    administrator: SqlExecutor,
    neo4j_tenant: str,
) -> None:
    """What was not touched is not sent again, and both stores hold the same states after each catch-up."""
    await _remember(memory, neo4j_tenant, _FIRST)

    first = await follower.follow(neo4j_tenant)

    assert first.compared
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)
    entities, relationships = await _in_postgres(store, neo4j_tenant)
    assert first.sent == len(entities) + len(relationships) == 6
    await _remember(memory, neo4j_tenant, "Marta Lind moved to Porto.")
    second = await follower.follow(neo4j_tenant)
    assert not second.compared
    assert second.sent == 3
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)
    head, position, noted_store = await _noted(administrator, neo4j_tenant)
    assert head == position == second.position == await graph.position(neo4j_tenant)
    assert noted_store == await graph.find_store_id()
    assert (await follower.follow(neo4j_tenant)).sent == 0


async def test_what_ends_is_followed_too(
    memory: AgentMem, store: PostgresManager, graph: Neo4jGraph, follower: GraphFollower, neo4j_tenant: str
) -> None:
    """An update that takes a passage away ends what only that passage said, in Neo4j as in PostgreSQL."""
    note = await memory.create_active_memory(neo4j_tenant, "Notes", f"{_FIRST}\n\n{_SECOND}")
    await memory.admin.consolidate(neo4j_tenant, note.id)
    await follower.follow(neo4j_tenant)

    await memory.update_active_memory(neo4j_tenant, note.id, content=_FIRST)
    await follower.follow(neo4j_tenant)

    _, relationships = await _in_neo4j(graph, neo4j_tenant)
    assert any(relationship.end_date is not None for relationship in relationships)
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)


async def test_a_stream_that_has_no_graph_is_followed_without_a_row(
    memory: AgentMem, graph: Neo4jGraph, follower: GraphFollower, neo4j_tenant: str
) -> None:
    """Nothing is compared and nothing sent for a memory that names nobody; an unknown tenant leaves no trace at all."""
    assert (await follower.follow(neo4j_tenant)).position == 0
    assert await graph.position(neo4j_tenant) is None

    await memory.ledger.append(neo4j_tenant, "world.observed", {"text": "The kettle is on."})
    report = await follower.follow(neo4j_tenant)

    assert (report.position, report.sent) == (1, 0)
    assert await _in_neo4j(graph, neo4j_tenant) == ([], [])


async def test_two_who_follow_at_once_lose_nothing_and_double_nothing(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    neo4j: Neo4jManager,
    neo4j_tenant: str,
) -> None:
    """Processes that follow one stream beside each other, while it is written, leave what one alone would."""
    followers = [_follower(store, graph), _follower(store, graph)]
    await _remember(memory, neo4j_tenant, _FIRST)
    stopped = asyncio.Event()

    async def follow(follower: GraphFollower) -> None:
        while not stopped.is_set():
            try:
                await follower.follow(neo4j_tenant)
            except GraphAwayError:
                await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as tasks:
        for one in followers:
            tasks.create_task(follow(one))
        for number in range(4):
            await _remember(memory, neo4j_tenant, f"{_SECOND}\n\nRoom {number} is Ana Sousa's.", f"Notes {number}")
        stopped.set()

    await followers[0].follow(neo4j_tenant)
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)
    assert set(await _count_edges(neo4j, neo4j_tenant)) == {1}


async def test_many_changes_go_in_several_transactions(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    follower: GraphFollower,
    neo4j_tenant: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stream that has changed much while nobody followed does not have to fit one transaction, nor one page."""
    for module in (leases, following):
        monkeypatch.setattr(module, "PART_ROWS", 2)
    for module in (comparison, pages):
        monkeypatch.setattr(module, "PAGE_ROWS", 2)
    await _remember(memory, neo4j_tenant, _FIRST)
    await _reflect(memory, neo4j_tenant, 5)
    await follower.follow(neo4j_tenant)
    await _remember(memory, neo4j_tenant, _SECOND)
    await _reflect(memory, neo4j_tenant, 5)

    report = await follower.follow(neo4j_tenant)

    assert report.sent > 2
    assert not report.compared
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)
    assert (await follower.compare(neo4j_tenant)).drift == ()
    assert len(await graph.read_beliefs(neo4j_tenant)) == 10


class _BrokenOff(Neo4jGraph):
    """Is away from the third part on."""

    parts = 0

    async def apply(self, *arguments: Any, **options: Any) -> bool:
        self.parts += 1
        if self.parts > 2:
            raise StoreUnavailableError("Neo4j was stopped")
        return await super().apply(*arguments, **options)


async def test_changes_that_were_broken_off_are_sent_again_and_no_more(
    memory: AgentMem,
    store: PostgresManager,
    neo4j: Neo4jManager,
    graph: Neo4jGraph,
    neo4j_tenant: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stop in the middle of many changes costs their repetition, by anybody, and no comparison of a large graph."""
    for module in (leases, following):
        monkeypatch.setattr(module, "PART_ROWS", 2)
    await _remember(memory, neo4j_tenant, _FIRST)
    await _follower(store, graph).follow(neo4j_tenant)
    before = await graph.position(neo4j_tenant)
    await _remember(memory, neo4j_tenant, _SECOND)
    with pytest.raises(GraphAwayError):
        await _follower(store, _BrokenOff(neo4j), lease_seconds=5.0).follow(neo4j_tenant)
    mark = await graph.mark(neo4j_tenant)
    assert (mark.position, mark.lease is not None) == (before, True)
    with pytest.raises(GraphAwayError, match="another process is syncing this external_id"):
        await _follower(store, graph).follow(neo4j_tenant)
    await asyncio.sleep(5.1)

    report = await _follower(store, graph).follow(neo4j_tenant)

    assert (report.compared, report.sent > 2) == (False, True)
    assert set(await _count_edges(neo4j, neo4j_tenant)) == {1}
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)
    assert (await graph.mark(neo4j_tenant)).lease is None


class _NotingLate(GraphFollower):
    """Waits before it notes how far Neo4j is, until another one has done so."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.has_sent, self.may_note = asyncio.Event(), asyncio.Event()

    async def _note(self, *arguments: Any, **options: Any) -> None:
        self.has_sent.set()
        await self.may_note.wait()
        await super()._note(*arguments, **options)


async def test_who_notes_second_has_nothing_to_compare(
    memory: AgentMem, store: PostgresManager, graph: Neo4jGraph, neo4j_tenant: str
) -> None:
    """That somebody else has noted what both have seen says nothing against Neo4j."""
    first, second = (_follower(store, graph, of=_NotingLate) for _ in range(2))
    assert isinstance(first, _NotingLate)
    assert isinstance(second, _NotingLate)
    await _remember(memory, neo4j_tenant, _FIRST)
    sending = asyncio.create_task(first.follow(neo4j_tenant))
    await first.has_sent.wait()
    seeing = asyncio.create_task(second.follow(neo4j_tenant))
    await second.has_sent.wait()
    first.may_note.set()
    await sending
    second.may_note.set()

    report = await seeing

    assert not report.compared
    assert (await _follower(store, graph).compare(neo4j_tenant)).state == "current"


# What makes it compare everything -----------------------------------------------------------------


async def test_changes_of_another_history_that_were_broken_off_are_compared(
    memory: AgentMem, graph: Neo4jGraph, store: PostgresManager, follower: GraphFollower, neo4j_tenant: str
) -> None:
    """Where PostgreSQL came back from a backup, some of what it has never heard of may be in Neo4j already."""
    await _remember(memory, neo4j_tenant, _FIRST)
    await follower.follow(neo4j_tenant)
    mark = await graph.mark(neo4j_tenant)
    assert mark.position is not None
    entities, _ = await _in_neo4j(graph, neo4j_tenant)
    lease = Lease(f"changes/{mark.position + 2}/{'ab' * 32}/another/1", seconds=0.1)
    assert await graph.take_lease(neo4j_tenant, lease, seen=mark)
    lost = GraphDelta(entities=[entities[0].model_copy(update={"id": uuid4(), "name": "Ida Holm"})])
    assert await graph.apply(neo4j_tenant, lost, expected=mark.position, position=None, lease=lease)
    await asyncio.sleep(0.2)

    report = await follower.follow(neo4j_tenant)

    assert (report.compared, report.removed) == (True, 1)
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)


async def test_a_crash_between_applying_and_recording_costs_a_repetition(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    neo4j: Neo4jManager,
    follower: GraphFollower,
    administrator: SqlExecutor,
    neo4j_tenant: str,
) -> None:
    """What Neo4j has taken over and PostgreSQL has not noted is noted by the next catch-up, and no edge is doubled."""
    await _remember(memory, neo4j_tenant, _FIRST)
    await follower.follow(neo4j_tenant)
    _, before, _ = await _noted(administrator, neo4j_tenant)
    await _remember(memory, neo4j_tenant, _SECOND)
    await follower.follow(neo4j_tenant)
    await administrator.execute(
        "UPDATE memory_stream SET graph_position = $(before)p WHERE external_id = $(tenant)p",
        {"before": before, "tenant": neo4j_tenant},
    )

    report = await follower.follow(neo4j_tenant)

    head, position, _ = await _noted(administrator, neo4j_tenant)
    assert (position, report.sent, report.compared) == (head, 0, False)
    assert set(await _count_edges(neo4j, neo4j_tenant)) == {1}
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)


async def test_an_older_state_of_neo4j_is_compared_as_a_whole(
    memory: AgentMem, store: PostgresManager, graph: Neo4jGraph, follower: GraphFollower, neo4j_tenant: str
) -> None:
    """Neo4j restored from a backup may hold what has been erased since; changes after its position do not tell."""
    await _remember(memory, neo4j_tenant, _FIRST)
    await follower.follow(neo4j_tenant)
    position = await graph.position(neo4j_tenant)
    assert position is not None
    entities, _ = await _in_neo4j(graph, neo4j_tenant)
    ghost = entities[0].model_copy(update={"id": uuid4(), "name": "Nobody"})
    assert await graph.apply(neo4j_tenant, GraphDelta(entities=[ghost]), expected=position, position=position - 1)

    report = await follower.follow(neo4j_tenant)

    assert report.compared
    assert report.removed == 1
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)


async def test_an_emptied_neo4j_is_filled(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    follower: GraphFollower,
    neo4j_tenant: str,
) -> None:
    """A Neo4j that has lost a tenant says so by having no position, and is filled by the next catch-up."""
    await _remember(memory, neo4j_tenant, _FIRST)
    await follower.follow(neo4j_tenant)
    await graph.erase(neo4j_tenant)
    assert (await follower.compare(neo4j_tenant)).state == "behind"

    report = await follower.follow(neo4j_tenant)

    assert report.compared
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)
    assert (await follower.compare(neo4j_tenant)).state == "current"


async def test_a_comparison_that_was_broken_off_is_made_anew(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    neo4j: Neo4jManager,
    follower: GraphFollower,
    neo4j_tenant: str,
) -> None:
    """One that another process is at is left alone; one that has said nothing for long was broken off."""
    await _remember(memory, neo4j_tenant, _FIRST)
    await follower.follow(neo4j_tenant)
    position = await graph.position(neo4j_tenant)
    entities, _ = await _in_neo4j(graph, neo4j_tenant)
    lease = Lease("comparison/another/1", seconds=60)
    assert await graph.take_lease(neo4j_tenant, lease, seen=await graph.mark(neo4j_tenant))
    half_way = GraphDelta(removed_entities=[entities[0].id])
    assert await graph.apply(neo4j_tenant, half_way, expected=position, position=None, lease=lease)
    with pytest.raises(
        GraphAwayError, match=r"another process is syncing this external_id; its lease ends in (60|59|5\d) s"
    ):
        await follower.follow(neo4j_tenant)
    assert (await follower.compare(neo4j_tenant)).state == "behind"
    await neo4j.write(
        lambda db: db.fetch_all(
            "MATCH (s:MemoryStream {external_id: $tenant}) SET s.turn_ends_at = datetime() - duration('PT1S')",
            {"tenant": neo4j_tenant},
        )
    )

    report = await follower.follow(neo4j_tenant)

    assert report.compared
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)
    assert not await graph.apply(neo4j_tenant, GraphDelta(), expected=report.position, position=None, lease=lease)


async def test_tampering_is_named_and_mended(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    neo4j: Neo4jManager,
    follower: GraphFollower,
    neo4j_tenant: str,
) -> None:
    """A comparison says which node and which edge is not what PostgreSQL holds, and in what; it changes nothing."""
    await _remember(memory, neo4j_tenant, _FIRST)
    await follower.follow(neo4j_tenant)
    entities, relationships = await _in_postgres(store, neo4j_tenant)
    changed, gone = entities[0], relationships[0]
    params = {"tenant": neo4j_tenant, "changed": str(changed.id), "gone": str(gone.id)}
    await neo4j.write(
        lambda db: db.fetch_all(
            "MATCH (e {external_id: $tenant, id: $changed}) SET e.confidence = 0.123 WITH e"
            " MATCH ()-[r {external_id: $tenant, id: $gone}]->() DELETE r",
            params,
        )
    )

    found = await follower.compare(neo4j_tenant)

    assert [(drift.table, drift.key, drift.problem, drift.columns) for drift in found.drift] == [
        ("neo4j.entity", str(changed.id), "changed", ("confidence",)),
        ("neo4j.relationship", str(gone.id), "missing", ()),
    ]
    assert (await follower.follow(neo4j_tenant)).sent == 0
    assert (await follower.resync(neo4j_tenant)).drift == found.drift
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)


@pytest.mark.parametrize("part_rows", [500, 2], ids=["one transaction", "several"])
async def test_changes_that_hang_on_what_is_missing_make_it_compare_everything(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    neo4j: Neo4jManager,
    follower: GraphFollower,
    neo4j_tenant: str,
    monkeypatch: pytest.MonkeyPatch,
    part_rows: int,
) -> None:
    """A relationship without an end is never left out in silence, and a stream does not stay behind for it."""
    for module in (leases, following):
        monkeypatch.setattr(module, "PART_ROWS", part_rows)
    note = await memory.create_active_memory(neo4j_tenant, "Notes", f"{_FIRST}\n\n{_SECOND}")
    await memory.admin.consolidate(neo4j_tenant, note.id)
    await follower.follow(neo4j_tenant)
    await neo4j.write(
        lambda db: db.fetch_all(
            "MATCH (e:Entity {external_id: $tenant, name: 'Marta Lind'}) DETACH DELETE e", {"tenant": neo4j_tenant}
        )
    )
    repository = EntityGraphRepository()
    async with store.transaction(neo4j_tenant) as db:
        # As a change of edges alone: their ends stay where they were.
        await db.execute("UPDATE relationship SET position = 3 WHERE external_id = $(t)p", {"t": neo4j_tenant})
        await db.execute("UPDATE memory_stream SET graph_head = 3 WHERE external_id = $(t)p", {"t": neo4j_tenant})
    await memory.ledger.append(neo4j_tenant, "world.observed", {"text": "The kettle is on."})
    async with store.transaction(neo4j_tenant, read_only=True) as db:
        assert not (await repository.read_changes(db, neo4j_tenant, after=2)).entities

    report = await follower.follow(neo4j_tenant)

    assert report.compared
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)


async def test_what_cannot_be_read_is_named_and_mended(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    neo4j: Neo4jManager,
    follower: GraphFollower,
    neo4j_tenant: str,
) -> None:
    """A node of somebody else's making, and a field without a value, end no comparison: both are found and mended."""
    await _remember(memory, neo4j_tenant, _FIRST)
    await follower.follow(neo4j_tenant)
    (broken, *_), (edge, *_) = await _in_postgres(store, neo4j_tenant)
    params = {"tenant": neo4j_tenant, "broken": str(broken.id), "edge": str(edge.id)}
    await neo4j.write(
        lambda db: db.fetch_all(
            "MATCH (e:Entity {external_id: $tenant, id: $broken}) SET e.metadata = null, e.first_seen = [1]"
            " WITH e MATCH ()-[r:RELATES_TO {external_id: $tenant, id: $edge}]->() SET r.confidence = 'much'"
            " CREATE (:Entity {external_id: $tenant, id: 'Not an id'})",
            params,
        )
    )
    with pytest.raises(StoreError, match="an altered or foreign Entity"):
        await graph.find_entities(neo4j_tenant, ids=[broken.id])

    found = await follower.compare(neo4j_tenant)

    assert [(drift.table, drift.key, drift.problem) for drift in found.drift] == [
        ("neo4j.entity", str(broken.id), "changed"),
        ("neo4j.entity", "Not an id", "unexpected"),
        ("neo4j.relationship", str(edge.id), "changed"),
    ]
    await follower.resync(neo4j_tenant)
    assert (await follower.compare(neo4j_tenant)).drift == ()
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)


async def test_names_that_lead_nowhere_and_names_that_are_lost_are_mended(
    memory: AgentMem,
    neo4j: Neo4jManager,
    follower: GraphFollower,
    neo4j_tenant: str,
) -> None:
    """An entity that is there but not found by its name counts as changed, and a name without an entity as too much."""
    await _remember(memory, neo4j_tenant, _FIRST)
    await follower.follow(neo4j_tenant)
    [lost] = await neo4j.write(
        lambda db: db.fetch_all(
            "MATCH (n:EntityName {external_id: $tenant, key: 'lisbon'}) WITH n, n.entity_id AS id DELETE n"
            " CREATE (:EntityName {external_id: $tenant, key: 'marta lind', entity_id: 'gone'})"
            " CREATE (:MergedEntity {external_id: $tenant, id: 'merged', entity_id: 'gone'}) RETURN id",
            {"tenant": neo4j_tenant},
        )
    )

    found = await follower.compare(neo4j_tenant)

    assert [(drift.key, drift.problem, drift.columns) for drift in found.drift] == [
        (lost["id"], "changed", ("names",)),
        ("gone", "unexpected", ("names",)),
    ]
    assert (await follower.resync(neo4j_tenant)).drift == found.drift
    assert (await follower.compare(neo4j_tenant)).drift == ()


@pytest.mark.parametrize("statement", ["SET s.chain = 'of another history'", "SET s.position = s.position + 100"])
async def test_another_history_is_compared_as_a_whole(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    neo4j: Neo4jManager,
    follower: GraphFollower,
    neo4j_tenant: str,
    statement: str,
) -> None:
    """PostgreSQL restored from a backup and written on lacks what Neo4j followed before: no change would tell of it."""
    await _remember(memory, neo4j_tenant, _FIRST)
    await follower.follow(neo4j_tenant)
    await neo4j.write(
        lambda db: db.fetch_all(
            f"MATCH (s:MemoryStream {{external_id: $tenant}}) {statement} WITH s"
            " MATCH (e:Entity {external_id: $tenant, name: 'Lisbon'}) SET e.description = 'of the other history'",
            {"tenant": neo4j_tenant},
        )
    )
    assert (await follower.compare(neo4j_tenant)).state == "behind"
    await _remember(memory, neo4j_tenant, "Ida Holm met Tom Reed in Bergen.")

    assert (await follower.follow(neo4j_tenant)).compared

    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)


# Erasure ------------------------------------------------------------------------------------------


async def test_an_erasure_reaches_neo4j_once_and_the_ledger_says_when(
    memory: AgentMem, store: PostgresManager, graph: Neo4jGraph, follower: GraphFollower, neo4j_tenant: str
) -> None:
    """What only the erased memory said is gone from Neo4j after one catch-up; the event of it makes no further work."""
    secret = await memory.create_active_memory(neo4j_tenant, "Secret", "Marta Lind hides in Porto with Ana Sousa.")
    await memory.admin.consolidate(neo4j_tenant, secret.id)
    await _remember(memory, neo4j_tenant, _FIRST)
    await follower.follow(neo4j_tenant)
    receipt = await memory.admin.erase(neo4j_tenant, memory_id=secret.id)
    left = await follower.find_left_over(receipt, text="Marta")
    assert left is not None
    assert {finding.problem for finding in left} >= {"it was named by an erased memory"}

    report = await follower.follow(neo4j_tenant)

    assert report.compared
    assert await follower.find_left_over(receipt, text="Marta") == []
    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)
    for _ in range(2):
        await follower.follow(neo4j_tenant)
    events = await memory.ledger.read(neo4j_tenant)
    told = [event for event in events if event.kind == "memory.graph_erased"]
    assert [event.payload["receipt_id"] for event in told] == [str(receipt.receipt_id)]
    assert told[0].payload["store"] == await graph.find_store_id()
    assert (await memory.admin.verify(neo4j_tenant)).ok


class _HeldGraph(Neo4jGraph):
    """The graph in Neo4j, whose first change waits to be let go: the comparison has read PostgreSQL by then."""

    def __init__(self, manager: Neo4jManager) -> None:
        super().__init__(manager)
        self.has_begun, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def apply(self, *arguments: Any, **options: Any) -> bool:
        self.has_begun.set()
        await self.may_go_on.wait()
        return await super().apply(*arguments, **options)


async def test_an_erasure_while_neo4j_is_compared_is_not_missed(
    memory: AgentMem,
    store: PostgresManager,
    graph: Neo4jGraph,
    neo4j: Neo4jManager,
    follower: GraphFollower,
    neo4j_tenant: str,
) -> None:
    """A comparison that began before an erasure does not count as the one that the erasure asks for."""
    secret = await memory.create_active_memory(neo4j_tenant, "Secret", "Marta Lind hides in Porto with Ana Sousa.")
    await memory.admin.consolidate(neo4j_tenant, secret.id)
    await _remember(memory, neo4j_tenant, _FIRST)

    held = _HeldGraph(neo4j)
    slow = asyncio.create_task(_follower(store, held).follow(neo4j_tenant))
    await held.has_begun.wait()
    await memory.admin.erase(neo4j_tenant, memory_id=secret.id)
    held.may_go_on.set()
    await slow
    await follower.follow(neo4j_tenant)

    assert await _in_neo4j(graph, neo4j_tenant) == await _in_postgres(store, neo4j_tenant)
    entities, _ = await _in_neo4j(graph, neo4j_tenant)
    assert "Marta Lind" not in {entity.name for entity in entities}


# Away ---------------------------------------------------------------------------------------------


async def test_a_neo4j_that_is_away_is_asked_once_and_then_left_alone(
    memory: AgentMem, store: PostgresManager, neo4j_server: Neo4jAddress, neo4j_tenant: str
) -> None:
    """Who finds it away spares the others the waiting, and PostgreSQL says who is behind."""
    await _remember(memory, neo4j_tenant, _FIRST)
    async with opened_neo4j(neo4j_server, uri="bolt://127.0.0.1:1", timeout_seconds=1) as manager:
        follower = _follower(store, Neo4jGraph(manager))
        with pytest.raises(GraphAwayError, match="Neo4j at"):
            await follower.follow(neo4j_tenant)
        assert follower.pause_seconds > 0
        with pytest.raises(GraphAwayError, match="Neo4j is unavailable; next attempt in"):
            await follower.follow(neo4j_tenant)
        assert (await follower.compare(neo4j_tenant)).state == "unavailable"
        assert await follower.is_behind(neo4j_tenant)


async def test_a_refused_login_is_tried_ever_more_seldom(
    memory: AgentMem,
    store: PostgresManager,
    neo4j_server: Neo4jAddress,
    neo4j_tenant: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A wrong password is a Neo4j that is not there: each stream does not find it out anew, and the log says why."""
    if neo4j_server.password is None:
        pytest.skip("this Neo4j asks for no password")
    await _remember(memory, neo4j_tenant, _FIRST)
    async with opened_neo4j(neo4j_server, password="not it") as manager:
        follower = _follower(store, Neo4jGraph(manager))
        with pytest.raises(GraphAwayError, match="refuses"):
            await follower.follow(neo4j_tenant)
        assert follower.pause_seconds > 0
        with pytest.raises(GraphAwayError):
            await follower.follow(neo4j_tenant)
    told = [record.getMessage() for record in caplog.records if record.name == "agent_reminiscence.breaker"]
    assert [message for message in told if message.startswith("Neo4j refuses")]


class _BrokenGraph(Neo4jGraph):
    """The graph in Neo4j, to whose changes something happens that nobody has thought of."""

    tried = 0

    async def apply(self, *arguments: Any, **options: Any) -> bool:
        self.tried += 1
        raise ValueError("Marta Lind hides in Porto")


async def test_a_stream_that_cannot_be_followed_is_tried_ever_more_seldom(
    memory: AgentMem, store: PostgresManager, neo4j: Neo4jManager, neo4j_tenant: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It neither fails its caller nor is it tried at each call; other streams are not held up by it."""
    await _remember(memory, neo4j_tenant, _FIRST)
    broken = _BrokenGraph(neo4j)
    follower = _follower(store, broken)

    assert not await follower.follow_soon(neo4j_tenant, timeout_seconds=30)
    pause = follower.pause_of(neo4j_tenant)
    assert not await follower.follow_soon(neo4j_tenant, timeout_seconds=30)

    assert broken.tried == 1
    assert pause > 0
    assert follower.pause_seconds == 0
    assert "Marta" not in caplog.text


async def test_only_streams_that_are_behind_are_listed(
    memory: AgentMem,
    follower: GraphFollower,
    administrator: SqlExecutor,
    new_neo4j_tenant: Callable[[], str],
) -> None:
    """A worker queues those that this store of graphs has not followed; another store has followed none of them."""
    current, behind, quiet = sorted(new_neo4j_tenant() for _ in range(3))
    for tenant in (current, behind):
        await _remember(memory, tenant, _FIRST)
    await memory.ledger.append(quiet, "world.observed", {"text": "The kettle is on."})
    for tenant in (current, quiet):
        await follower.follow(tenant)

    listed = await follower.list_behind(after="", limit=1_000)

    assert behind in listed
    assert {current, quiet}.isdisjoint(listed)
    await administrator.execute(
        "UPDATE memory_stream SET graph_store = 'another' WHERE external_id = $(tenant)p", {"tenant": current}
    )
    assert current in await follower.list_behind(after="", limit=1_000)
    await administrator.execute(
        "UPDATE memory_stream SET failed_at = clock_timestamp() WHERE external_id = $(tenant)p", {"tenant": current}
    )
    assert current not in await follower.list_behind(after="", limit=1_000)
