"""What the graph adds to a result, read in each of the two stores, and what becomes of recall without it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import AgentMem, Config, RetrievalResult
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.database.neo4j_manager import Neo4jManager
from agent_reminiscence.domain.graph import Entity, Relationship
from agent_reminiscence.services.recall.ranking import Weights
from agent_reminiscence.text.tokens import count_tokens
from tests.acceptance.conftest import Server
from tests.support.proxy import TcpSwitch
from tests.support.steps import lines

_BOAT = "The Red Boat belongs to Ivo Brandt."
_WORK = "Mara Lindt works with Ivo Brandt."
_MILL = "Tilda Abel lives in the Old Mill at Orleby."
_QUESTION = "Who works with the person who owns the Red Boat?"
_MONDAY = datetime(2024, 3, 4, tzinfo=UTC)
_PATIENCE_SECONDS = 120.0
# A server of tests shares its processors with them, and what a healthy one answers is not to hang on that.
_GENEROUS_SECONDS = 60.0
# Of a test that waits for it to be over.
_DEADLINE_SECONDS = 4.0

MakeConfig = Callable[..., Config]


@pytest.fixture(params=["postgres", pytest.param("neo4j", marks=pytest.mark.neo4j)])
def store(request: pytest.FixtureRequest) -> str:
    """Where recall reads the graph."""
    chosen: str = request.param
    return chosen


@pytest.fixture
def with_graph(store: str, request: pytest.FixtureRequest, config: MakeConfig) -> MakeConfig:
    """Makes a `Config` with the graph in `store`; keywords override settings."""
    if store == "postgres":
        return config
    with_neo4j: MakeConfig = request.getfixturevalue("with_neo4j")
    return lambda **settings: with_neo4j(**({"graph_deadline_seconds": _GENEROUS_SECONDS} | settings))


@pytest.fixture
def new_tenant(store: str, request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes an `external_id` of this test's own."""
    if store == "postgres":
        return lambda: f"agent-{uuid4()}"
    make: Callable[[], str] = request.getfixturevalue("new_neo4j_tenant")
    return make


@pytest.fixture
def tenant(new_tenant: Callable[[], str]) -> str:
    """One `external_id` of this test's own."""
    return new_tenant()


@pytest.fixture
async def memory(with_graph: MakeConfig) -> AsyncIterator[AgentMem]:
    """A memory with its graph in `store`."""
    async with AgentMem(with_graph()) as opened:
        yield opened


async def _remember(memory: AgentMem, external_id: str, *sentences: str, **options: Any) -> UUID:
    """A consolidated memory, each sentence a paragraph of its own, that Neo4j has followed where there is one."""
    note = await memory.create_active_memory(external_id, "Notes", lines(sentences), **options)
    await memory.admin.consolidate(external_id, note.id)
    await _follow(memory, external_id)
    return note.id


async def _follow(memory: AgentMem, external_id: str) -> None:
    await memory.admin.run_due(external_id)
    assert (await memory.admin.usage(external_id)).graph_lag == 0


def _names(result: RetrievalResult) -> dict[str, int]:
    """The names of a result's entities, and how far each is from what was asked for."""
    return {entity.name: entity.hops for entity in result.entities}


async def test_a_result_names_what_the_graph_reaches_and_the_chunks_behind_it(memory: AgentMem, tenant: str) -> None:
    """Entities best first, each with its distance; relationships between them; and each with chunks that say so."""
    await _remember(memory, tenant, _BOAT)
    await _remember(memory, tenant, _WORK, _MILL)

    found = await memory.retrieve_memories(tenant, _QUESTION)

    assert _names(found) == {"Red Boat": 0, "Ivo Brandt": 1, "Mara Lindt": 2}
    assert [entity.score for entity in found.entities] == sorted((e.score for e in found.entities), reverse=True)
    content = {hit.chunk_id: hit.content.strip() for hit in found.hits}
    assert {e.name: {content[chunk_id] for chunk_id in e.chunk_ids} for e in found.entities} == {
        "Red Boat": {_BOAT},
        "Ivo Brandt": {_BOAT, _WORK},
        "Mara Lindt": {_WORK},
    }
    ids = {entity.id: entity.name for entity in found.entities}
    assert {frozenset((ids[r.from_id], ids[r.to_id])): r.hops for r in found.relationships} == {
        frozenset(("Red Boat", "Ivo Brandt")): 0,
        frozenset(("Ivo Brandt", "Mara Lindt")): 1,
    }
    assert {hit.content.strip() for hit in found.hits if "graph" in hit.score_parts} == {_BOAT, _WORK}
    assert found.omitted == ()


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("who owns the red boat?", {"Red Boat"}),
        ("Red Boat Ivo Brandt", {"Red Boat", "Ivo Brandt"}),
        ("IVO BRANDT'S boat", {"Ivo Brandt"}),
        ("what is red, and which boat is blue?", set()),
        ("will she paint it?", set()),
        ("What does Will Paint?", {"Will"}),
    ],
)
async def test_a_query_names_what_it_says_as_a_name(
    memory: AgentMem, tenant: str, query: str, expected: set[str]
) -> None:
    """Several words in any case; one word where it is written as a name; the longest name at each place."""
    await _remember(memory, tenant, _BOAT, "Yesterday I met Will at the market, and Will was tired.")

    found = await memory.retrieve_memories(tenant, query)

    assert {name for name, hops in _names(found).items() if hops == 0} == expected


async def test_without_a_name_the_graph_adds_nothing_and_nothing_is_left_out(memory: AgentMem, tenant: str) -> None:
    """A query that names nothing is answered as if there were no graph."""
    await _remember(memory, tenant, _BOAT, _WORK)

    found = await memory.retrieve_memories(tenant, "what belongs to whom?")

    assert (found.entities, found.relationships, found.omitted) == ((), (), ())
    assert not any("graph" in hit.score_parts for hit in found.hits)


async def test_a_weight_of_zero_leaves_the_order_alone_and_still_shows_the_graph(
    with_graph: MakeConfig, memory: AgentMem, tenant: str
) -> None:
    """Who wants the graph to move no hit keeps the entities."""
    await _remember(memory, tenant, _BOAT, _WORK)

    async with AgentMem(with_graph(), weights=Weights(graph=0)) as plain:
        found = await plain.retrieve_memories(tenant, _QUESTION)

    assert "Red Boat" in _names(found)
    assert not any("graph" in hit.score_parts for hit in found.hits)


async def test_a_tenant_sees_nothing_of_another_ones_graph(memory: AgentMem, new_tenant: Callable[[], str]) -> None:
    """Two tenants with the same names: each finds its own boat's owner, with its own chunks."""
    tenant, other = new_tenant(), new_tenant()
    await _remember(memory, tenant, _BOAT)
    await _remember(memory, other, "The Red Boat belongs to Nora Kessler.")

    first = await memory.retrieve_memories(tenant, "Who owns the Red Boat?")
    second = await memory.retrieve_memories(other, "Who owns the Red Boat?")

    assert set(_names(first)) == {"Red Boat", "Ivo Brandt"}
    assert set(_names(second)) == {"Red Boat", "Nora Kessler"}
    seen = [{c for e in found.entities for c in e.chunk_ids} for found in (first, second)]
    assert [{hit.chunk_id for hit in found.hits} for found in (first, second)] == seen


async def test_of_another_moment_nothing_shows_that_was_not_known_then(memory: AgentMem, tenant: str) -> None:
    """No entity, relationship, chunk, alias or count that was learned later, and nothing of it in the order of hits."""
    await _remember(memory, tenant, _BOAT, occurred_at=_MONDAY)
    await asyncio.sleep(0.01)
    known_at = datetime.now(UTC)
    await _remember(memory, tenant, _WORK, occurred_at=_MONDAY)
    await _remember(memory, tenant, "Ivo Brandt painted the Red Boat with Mara Lindt.", occurred_at=_MONDAY)
    await memory.admin.graph.merge(tenant, "Ivo Brandt", "Mara Lindt")
    await _follow(memory, tenant)

    then = await memory.retrieve_memories(tenant, _QUESTION, known_at=known_at)
    now = await memory.retrieve_memories(tenant, _QUESTION)

    assert set(_names(then)) == {"Red Boat", "Ivo Brandt"}
    assert [(entity.mentions, len(entity.chunk_ids)) for entity in then.entities] == [(1, 1), (1, 1)]
    assert [(entity.aliases, entity.merged_ids, entity.positions) for entity in then.entities] == [((), (), ())] * 2
    assert [(r.observations, r.last_observed, r.confidence) for r in then.relationships] == [(1, _MONDAY, 0.3)]
    assert {hit.content.strip() for hit in then.hits} == {_BOAT}
    (ivo,) = [entity for entity in now.entities if entity.name == "Ivo Brandt"]
    assert (ivo.aliases, len(ivo.merged_ids)) == (("Mara Lindt",), 1)
    assert max(relationship.confidence for relationship in now.relationships) > 0.3


async def test_what_was_true_then_is_still_reached_after_it_has_ended(memory: AgentMem, tenant: str) -> None:
    """The boat was Ivo's until it was sold; asked about Monday, it is his."""
    note_id = await _remember(memory, tenant, _BOAT, occurred_at=_MONDAY)
    sold = "The Red Boat belongs to Nora Kessler."
    await memory.update_active_memory(tenant, note_id, content=sold, occurred_at=_MONDAY + timedelta(days=7))
    await memory.admin.consolidate(tenant, note_id)
    await _follow(memory, tenant)

    then = await memory.retrieve_memories(tenant, "Who owns the Red Boat?", as_of=_MONDAY + timedelta(days=1))
    now = await memory.retrieve_memories(tenant, "Who owns the Red Boat?")

    assert set(_names(then)) == {"Red Boat", "Ivo Brandt"}
    assert set(_names(now)) == {"Red Boat", "Nora Kessler"}


async def test_tiers_that_are_not_asked_for_give_no_evidence(memory: AgentMem, tenant: str) -> None:
    """An entity that only chunks of another tier name is not shown."""
    await _remember(memory, tenant, _BOAT, _WORK)

    found = await memory.retrieve_memories(tenant, _QUESTION, tiers=["active"])

    assert (found.hits, found.entities, found.relationships) == ((), (), ())


async def test_positions_are_those_of_the_chunks_that_are_named(memory: AgentMem, tenant: str) -> None:
    """Of all chunks, as the graph has them; of some of them only, none, for nobody knows whose they are."""
    await _remember(memory, tenant, _BOAT)
    await _remember(memory, tenant, "Ivo Brandt sold the Red Boat.", source="model")

    every = await memory.retrieve_memories(tenant, _QUESTION)
    trusted = await memory.retrieve_memories(tenant, _QUESTION, min_confidence=0.9)

    of_all: list[Entity | Relationship] = [*every.entities, *every.relationships]
    of_some: list[Entity | Relationship] = [*trusted.entities, *trusted.relationships]
    assert [(len(item.chunk_ids), len(item.positions)) for item in of_all] == [(2, 2)] * 3
    assert [(len(item.chunk_ids), len(item.positions)) for item in of_some] == [(1, 0)] * 3


async def test_a_token_budget_is_for_the_hits(memory: AgentMem, tenant: str) -> None:
    """What does not fit is counted as ever; the entities are there all the same."""
    await _remember(memory, tenant, _BOAT, _WORK, _MILL)

    found = await memory.retrieve_memories(tenant, _QUESTION, token_budget=60)

    assert len(found.hits) == 1
    assert count_tokens(found.as_prompt()) <= 60
    assert [left.reason for left in found.omitted] == ["token_budget"]
    assert "Ivo Brandt" in _names(found)


# A Neo4j that is away, slow or wrong --------------------------------------------------------------


def _parts(found: RetrievalResult) -> dict[tuple[int, UUID, str], float]:
    """What each part of the score gave, by rank, chunk and part."""
    return {
        (rank, hit.chunk_id, name): part
        for rank, hit in enumerate(found.hits)
        for name, part in hit.score_parts.items()
    }


def _nearly(parts: dict[tuple[int, UUID, str], float]) -> Any:
    """`parts` but for what recency has lost between two questions."""
    return pytest.approx(parts, abs=1e-5)


def _graph(found: RetrievalResult) -> list[tuple[UUID, str, int, tuple[UUID, ...]]]:
    """What is shown of the graph, in order."""
    entities = [(entity.id, entity.name, entity.hops, entity.chunk_ids) for entity in found.entities]
    return entities + [(item.id, item.type, item.hops, item.chunk_ids) for item in found.relationships]


async def _without_neo4j(config: MakeConfig, tenant: str, question: str = _QUESTION) -> RetrievalResult:
    """The answer of a memory that has no Neo4j."""
    async with AgentMem(config(graph_deadline_seconds=_GENEROUS_SECONDS)) as plain:
        return await plain.retrieve_memories(tenant, question)


def _is_same(found: RetrievalResult, expected: RetrievalResult) -> bool:
    """Whether hits, scores, entities and relationships are equal, and nothing was left out."""
    same_graph = _graph(found) == _graph(expected)
    return (found.omitted, same_graph) == ((), True) and _parts(found) == _nearly(_parts(expected))


def _by_way_of(switch: TcpSwitch, *, deadline_seconds: float) -> dict[str, object]:
    return {"neo4j_uri": f"bolt://127.0.0.1:{switch.port}", "graph_deadline_seconds": deadline_seconds}


async def test_a_result_is_the_same_with_neo4j_up_cold_down_silent_and_absent(
    config: MakeConfig, with_neo4j: MakeConfig, switch: TcpSwitch, neo4j_tenant: str
) -> None:
    """Hits, scores, entities and relationships: PostgreSQL holds the same graph and answers where Neo4j does not."""
    settings = with_neo4j(**_by_way_of(switch, deadline_seconds=_DEADLINE_SECONDS))
    async with AgentMem(settings) as memory:
        await _remember(memory, neo4j_tenant, _BOAT, _WORK)
        up = await memory.retrieve_memories(neo4j_tenant, _QUESTION)
        await switch.off()
        down = await memory.retrieve_memories(neo4j_tenant, _QUESTION)
        known_to_be_down = await memory.retrieve_memories(neo4j_tenant, _QUESTION)
        nameless = await memory.retrieve_memories(neo4j_tenant, "what belongs to whom?")
    async with AgentMem(settings) as memory:
        opened_without = await memory.retrieve_memories(neo4j_tenant, _QUESTION)
    switch.on()
    switch.fall_silent()
    async with AgentMem(settings) as memory:
        silent = await memory.retrieve_memories(neo4j_tenant, _QUESTION)
    switch.speak()
    async with AgentMem(settings) as memory:
        cold = await memory.retrieve_memories(neo4j_tenant, _QUESTION)
    absent = await _without_neo4j(config, neo4j_tenant)

    assert set(_names(absent)) == {"Red Boat", "Ivo Brandt", "Mara Lindt"}
    for found in (up, down, known_to_be_down, opened_without, silent, cold):
        assert _is_same(found, absent)
    assert nameless.omitted == ()


async def test_opening_a_memory_connects_to_neo4j(
    with_neo4j: MakeConfig, switch: TcpSwitch, neo4j_tenant: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first question finds a connection; opening waits neither for a Neo4j that is down nor long for a slow one."""
    settings = with_neo4j(**_by_way_of(switch, deadline_seconds=_DEADLINE_SECONDS), worker=False)
    async with AgentMem(settings):
        assert switch.links == 1
    await switch.off()
    async with AgentMem(settings) as memory:
        await memory.create_active_memory(neo4j_tenant, "Notes", _BOAT)
    assert "Neo4j, for recall, is unavailable" in caplog.text


async def test_the_graph_is_read_from_postgres_while_neo4j_is_away(
    config: MakeConfig, with_neo4j: MakeConfig, switch: TcpSwitch, neo4j_tenant: str
) -> None:
    """Every query of `admin.graph`, with the same answers."""

    async def read(memory: AgentMem) -> list[Any]:
        graph = memory.admin.graph
        return [
            await graph.entities(neo4j_tenant),
            await graph.entities(neo4j_tenant, alike="Ivo Brant"),
            await graph.neighbourhood(neo4j_tenant, "Red Boat", hops=2),
            await graph.shortest_path(neo4j_tenant, "Red Boat", "Mara Lindt"),
        ]

    async with AgentMem(with_neo4j(**_by_way_of(switch, deadline_seconds=_DEADLINE_SECONDS))) as memory:
        await _remember(memory, neo4j_tenant, _BOAT, _WORK)
        up = await read(memory)
        await switch.off()
        down = await read(memory)
    async with AgentMem(config()) as memory:
        absent = await read(memory)

    assert len(absent[0]) == 3
    assert up == down == absent


async def test_a_neo4j_that_says_nothing_costs_two_deadlines_and_then_none(
    config: MakeConfig, with_neo4j: MakeConfig, switch: TcpSwitch, neo4j_tenant: str
) -> None:
    """Late once it may be busy; late twice it is away, and the next caller does not wait."""
    async with AgentMem(with_neo4j(**_by_way_of(switch, deadline_seconds=_DEADLINE_SECONDS))) as memory:
        await _remember(memory, neo4j_tenant, _BOAT, _WORK)
        await memory.retrieve_memories(neo4j_tenant, _QUESTION)
        switch.fall_silent()

        late = [await memory.retrieve_memories(neo4j_tenant, _QUESTION) for _ in range(2)]
        started = time.perf_counter()
        left_alone = await memory.retrieve_memories(neo4j_tenant, _QUESTION)
        seconds = time.perf_counter() - started
        switch.speak()

    assert seconds < _DEADLINE_SECONDS
    expected = await _without_neo4j(config, neo4j_tenant)
    for found in (*late, left_alone):
        assert _is_same(found, expected)


async def test_a_neo4j_that_was_late_once_is_asked_again_at_once(
    with_neo4j: MakeConfig, switch: TcpSwitch, neo4j_tenant: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One slow answer is no outage, and nobody else is told that it was one."""
    async with AgentMem(with_neo4j(**_by_way_of(switch, deadline_seconds=_DEADLINE_SECONDS))) as memory:
        await _remember(memory, neo4j_tenant, _BOAT, _WORK)
        await memory.retrieve_memories(neo4j_tenant, _QUESTION)
        switch.fall_silent()
        late = await memory.retrieve_memories(neo4j_tenant, _QUESTION)
        switch.speak()

        prompt = await memory.retrieve_memories(neo4j_tenant, _QUESTION)
        await _remember(memory, neo4j_tenant, _MILL)

    assert _is_same(late, prompt)
    assert "Neo4j took longer than graph_deadline_seconds" in caplog.text
    assert "not calling it" not in caplog.text


@pytest.mark.parametrize("store", [pytest.param("neo4j", marks=pytest.mark.neo4j)], indirect=True)
async def test_a_neo4j_without_what_postgres_has_just_found_is_not_believed(
    config: MakeConfig, memory: AgentMem, neo4j: Neo4jManager, tenant: str
) -> None:
    """One that was emptied, or restored from a backup, does not pass for a graph in which nothing is near."""
    await _remember(memory, tenant, _BOAT, _WORK)
    await _change(neo4j, "MATCH (e:Entity {external_id: $tenant, name: 'Red Boat'}) DETACH DELETE e", tenant)
    older = await memory.retrieve_memories(tenant, _QUESTION)
    await _change(neo4j, "MATCH (n {external_id: $tenant}) DETACH DELETE n", tenant)

    emptied = await memory.retrieve_memories(tenant, _QUESTION)

    expected = await _without_neo4j(config, tenant)
    for found in (older, emptied):
        assert _is_same(found, expected)


@pytest.mark.parametrize("store", [pytest.param("neo4j", marks=pytest.mark.neo4j)], indirect=True)
async def test_a_neo4j_that_has_not_followed_to_a_name_is_not_believed(
    config: MakeConfig, memory: AgentMem, tenant: str
) -> None:
    """Of what it does not know yet it cannot say that nothing is near; what it knows it still answers."""
    await _remember(memory, tenant, _BOAT, _WORK)
    note = await memory.create_active_memory(tenant, "Notes", _MILL)
    await memory.admin.consolidate(tenant, note.id)

    behind = await memory.retrieve_memories(tenant, "Who lives in the Old Mill?")
    known = await memory.retrieve_memories(tenant, _QUESTION)

    assert _is_same(behind, await _without_neo4j(config, tenant, "Who lives in the Old Mill?"))
    assert "Tilda Abel" in _names(behind)
    assert (known.omitted, "Mara Lindt" in _names(known)) == ((), True)


@pytest.mark.parametrize("store", [pytest.param("neo4j", marks=pytest.mark.neo4j)], indirect=True)
async def test_a_neo4j_far_behind_is_not_asked(
    config: MakeConfig, memory: AgentMem, server: Server, database: str, neo4j: Neo4jManager, tenant: str
) -> None:
    """What a store that follows says of a stream it hardly knows is no help, whatever it holds."""
    await _remember(memory, tenant, _BOAT, _WORK)
    superuser = await open_connection(server.superuser(database))
    await superuser.execute_script("UPDATE reminiscence.memory_stream SET graph_head = 1000, graph_position = 3")
    superuser.close()
    # Asked, it would lead nowhere.
    await _change(neo4j, "MATCH (:Entity {external_id: $tenant})-[r]->(:Entity) DELETE r", tenant)

    found = await memory.retrieve_memories(tenant, _QUESTION)

    assert _is_same(found, await _without_neo4j(config, tenant))


@pytest.mark.parametrize("store", [pytest.param("neo4j", marks=pytest.mark.neo4j)], indirect=True)
@pytest.mark.parametrize(
    ("change", "is_believed"),
    [
        ("MATCH (e:Entity {external_id: $tenant}) SET e.mentions = 'many'", False),
        ("MATCH (e:Entity {external_id: $tenant}) REMOVE e.tier, e.mentions", False),
        ("MATCH (:Entity {external_id: $tenant})-[r]->(:Entity) REMOVE r.id, r.strength", False),
        # It is read in Postgres.
        ("MATCH (e:Entity {external_id: $tenant}) SET e.metadata = 'no JSON'", True),
        ("MATCH (:Entity {external_id: $tenant})-[r]->(:Entity) SET r.strength = -2.0", True),
        ("MATCH (e:Entity {external_id: $tenant}) SET e.name = 'Atlantis', e.mentions = -5", True),
    ],
)
async def test_what_somebody_has_changed_in_neo4j_fails_no_recall(
    config: MakeConfig, memory: AgentMem, neo4j: Neo4jManager, tenant: str, change: str, is_believed: bool
) -> None:
    """An answer that makes no sense is not used, and nothing of it is shown."""
    await _remember(memory, tenant, _BOAT, _WORK)
    await _change(neo4j, change, tenant)

    found = await memory.retrieve_memories(tenant, _QUESTION)

    assert found.omitted == ()
    assert len(found.hits) == 2
    assert set(_names(found)) <= {"Red Boat", "Ivo Brandt", "Mara Lindt"}
    assert is_believed or _is_same(found, await _without_neo4j(config, tenant))


async def _change(neo4j: Neo4jManager, statement: str, tenant: str) -> None:
    await neo4j.write(lambda db: db.fetch_all(statement, {"tenant": tenant}))


# A slow Postgres ----------------------------------------------------------------------------------


async def test_tables_that_are_locked_delay_recall_no_longer_than_the_deadline(
    config: MakeConfig, server: Server, database: str
) -> None:
    """In Postgres, too, the graph has a deadline, and running into it costs no connection."""
    tenant = "agent-1"
    async with AgentMem(config(graph_deadline_seconds=2, postgres_pool_size=1)) as memory:
        await _remember(memory, tenant, _BOAT, _WORK)
        superuser = await open_connection(server.superuser(database))
        try:
            await superuser.execute_script("BEGIN; LOCK TABLE reminiscence.relationship IN ACCESS EXCLUSIVE MODE")
            locked = await memory.retrieve_memories(tenant, _QUESTION)
        finally:
            superuser.close()
        free = await memory.retrieve_memories(tenant, _QUESTION)

    assert [left.reason for left in locked.omitted] == ["graph_deadline"]
    assert len(locked.hits) == 2
    assert (free.omitted, "Ivo Brandt" in _names(free)) == ((), True)
