"""Every Cypher query beside another tenant: none reads or changes what is not its own, and none looks for it by a scan.

Neo4j has no policy that would keep tenants apart. Both tenants here hold the same names, types and ids, and there are
edges from one into the other that no code of ours would make.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from neo4j import AsyncDriver, AsyncGraphDatabase, ResultSummary

from agent_reminiscence.database.queries import all_query_files, load_queries
from agent_reminiscence.database.repositories.graph import neo4j as neo4j_graph
from agent_reminiscence.database.repositories.graph import neo4j_beliefs, neo4j_reads
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.database.repositories.graph.store import GraphDelta
from agent_reminiscence.domain.belief import NamedEvent, StatedBelief
from agent_reminiscence.domain.graph import Entity, Relationship, strength
from agent_reminiscence.exceptions import StoreError
from tests.support.neo4j_managers import opened_neo4j
from tests.support.neo4j_server import Neo4jAddress

_THEN = datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=UTC)
# In both tenants.
_ANA, _BEN, _ACME, _MERGED, _KNOWS, _OWNS = (UUID(int=number) for number in range(1, 7))
_BELIEF, _OTHER_BELIEF, _SEEN, _SAID = (UUID(int=number) for number in range(11, 15))
_THEIR_POSITION = 7_654_321
# More than there is of all tenants together: what would reach the other one must not be cut off before.
_ALL = 1_000_000
_OF_NO_TENANT = {"identify_store", "find_store", "await_indexes", "find_unowned_index", "drop_index"}


@dataclass(frozen=True, slots=True)
class _World:
    """Two tenants with the same graph, and what only one of them has."""

    mine: str
    theirs: str
    my_entity: UUID
    their_entity: UUID
    my_relationship: UUID
    their_relationship: UUID
    their_stronger: UUID


def _entity(external_id: str, entity_id: UUID, name: str, **changed: Any) -> Entity:
    fields: dict[str, Any] = {
        "id": entity_id,
        "external_id": external_id,
        "tier": "shortterm",
        "name": name,
        "type": "person",
        "description": f"of {external_id}",
        "confidence": 0.5,
        "importance": 0.5,
        "first_seen": _THEN,
        "last_seen": _THEN,
        "metadata": {"colour": "red", "of": external_id},
        "shortterm_memory_id": UUID(int=99),
        "mentions": 2,
    }
    return Entity(**(fields | changed))


def _relationship(external_id: str, relationship_id: UUID, from_id: UUID, to_id: UUID, **changed: Any) -> Relationship:
    fields: dict[str, Any] = {
        "id": relationship_id,
        "external_id": external_id,
        "tier": "shortterm",
        "from_id": from_id,
        "to_id": to_id,
        "type": "knows",
        "description": f"of {external_id}",
        "confidence": 0.5,
        "importance": 0.5,
        "observations": 2,
        "strength": strength(2),
        "first_observed": _THEN,
        "last_observed": _THEN,
        "start_date": _THEN,
        "last_updated": _THEN,
        "metadata": {"colour": "red"},
    }
    return Relationship(**(fields | changed))


def _belief(external_id: str, belief_id: UUID, **changed: Any) -> StatedBelief:
    fields: dict[str, Any] = {
        "id": belief_id,
        "external_id": external_id,
        "position": 4,
        "actor": "ann",
        "text": f"of {external_id}",
        "turn": 1,
        "based_on": (NamedEvent(_SEEN, 1, "world.observed", None), NamedEvent(_SAID, 2, "agent.spoke", "ann")),
        "replaces": None,
        "contradicts": (),
    }
    return StatedBelief(**(fields | changed))


@asynccontextmanager
async def _opened(address: Neo4jAddress) -> AsyncIterator[Neo4jGraph]:
    async with opened_neo4j(address, timeout_seconds=60) as manager:
        graph = Neo4jGraph(manager)
        await graph.ensure_schema()
        yield graph


@pytest.fixture
async def driver(neo4j_server: Neo4jAddress) -> AsyncIterator[AsyncDriver]:
    """The driver itself, to see what the package does not show."""
    async with AsyncGraphDatabase.driver(
        neo4j_server.uri,
        auth=(neo4j_server.user, neo4j_server.password),
        database=neo4j_server.database,
        notifications_min_severity="OFF",
    ) as opened:
        yield opened


@pytest.fixture
async def world(neo4j_server: Neo4jAddress, driver: AsyncDriver, new_neo4j_tenant: Callable[[], str]) -> _World:
    """Made anew for each query."""
    world = _World(new_neo4j_tenant(), new_neo4j_tenant(), *(uuid4() for _ in range(5)))
    async with _opened(neo4j_server) as graph:
        for tenant, entity_id, relationship_id in (
            (world.mine, world.my_entity, world.my_relationship),
            (world.theirs, world.their_entity, world.their_relationship),
        ):
            delta = GraphDelta(
                [
                    _entity(tenant, _ANA, "Ana", aliases=("Anita",), merged_ids=(_MERGED,)),
                    _entity(tenant, _BEN, "Ben", tier="longterm"),
                    _entity(tenant, _ACME, "Acme", type="organization"),
                    _entity(tenant, entity_id, "Ana"),
                ],
                [
                    _relationship(tenant, _KNOWS, _ANA, _BEN),
                    _relationship(tenant, _OWNS, _BEN, _ACME, type="owns"),
                    _relationship(tenant, relationship_id, entity_id, _ANA),
                ],
                beliefs=[
                    _belief(tenant, _BELIEF),
                    _belief(
                        tenant,
                        _OTHER_BELIEF,
                        position=5,
                        actor="bo",
                        based_on=(NamedEvent(_SEEN, 1, "world.observed", None),),
                        replaces=NamedEvent(UUID(int=3), None, None, None),
                        contradicts=(NamedEvent(_BELIEF, 4, "agent.reflected", "ann"),),
                    ),
                ],
            )
            assert await graph.apply(
                tenant, delta, expected=None, position=7 if tenant == world.mine else _THEIR_POSITION
            )
        # Stronger than what is between the same two of mine.
        stronger = _relationship(world.theirs, world.their_stronger, _ANA, _BEN, observations=9)
        assert await graph.apply(
            world.theirs, GraphDelta((), [stronger]), expected=_THEIR_POSITION, position=_THEIR_POSITION
        )
    # What only a mistake could have made: edges between the two tenants, in the name of either.
    await driver.execute_query(
        """
        MATCH (ana:Entity {external_id: $mine, id: $ana}), (acme:Entity {external_id: $mine, id: $acme})
        MATCH (mine:Entity {external_id: $mine, id: $my_entity})
        MATCH (theirs:Entity {external_id: $theirs, id: $their_entity})
        MATCH (ana)-[pattern:RELATES_TO {external_id: $mine, id: $knows}]->()
        CREATE (theirs)-[back:RELATES_TO]->(ana)
        SET back = pattern {.*, id: 'theirs', external_id: $theirs}
        // The shortest way from one of mine to another.
        CREATE (mine)-[out:RELATES_TO]->(theirs)-[in:RELATES_TO]->(acme)
        SET out = pattern {.*, id: 'out'}, in = pattern {.*, id: 'in'}
        // Names of entities that are not there.
        CREATE (:EntityName {external_id: $mine, key: 'stray', entity_id: 'stray'})
        CREATE (:EntityName {external_id: $theirs, key: 'theirs', entity_id: 'theirs'})
        // And events that no belief names.
        CREATE (:LedgerEvent {external_id: $mine, id: 'unnamed'})
        CREATE (:LedgerEvent {external_id: $theirs, id: 'theirs'})
        WITH 1 AS one
        MATCH (belief:Belief {external_id: $mine, id: $belief}), (event:LedgerEvent {external_id: $mine, id: $said})
        MATCH (their_belief:Belief {external_id: $theirs, id: $belief})
        MATCH (their_event:LedgerEvent {external_id: $theirs, id: 'theirs'})
        CREATE (belief)-[:BASED_ON {external_id: $mine, place: 2}]->(their_event)
        CREATE (belief)-[:BASED_ON {external_id: $theirs, place: 3, kind: 'theirs'}]->(their_event)
        CREATE (their_belief)-[:BASED_ON {external_id: $theirs, place: 2}]->(event)
        """,
        mine=world.mine,
        theirs=world.theirs,
        ana=str(_ANA),
        acme=str(_ACME),
        my_entity=str(world.my_entity),
        knows=str(_KNOWS),
        their_entity=str(world.their_entity),
        belief=str(_BELIEF),
        said=str(_SAID),
    )
    return world


# What each query is run with; it is to find or to change something of `mine`.
_Parameters = Callable[[_World], dict[str, Any]]

_FILTER = {
    "relationship_types": None,
    "min_confidence": 0.0,
    "starts_by": datetime.max.replace(tzinfo=UTC),
    "ends_after": _THEN,
}
_PATTERN = _FILTER | {
    "from_ids": None,
    "to_ids": None,
    "from_type": None,
    "to_type": None,
    "relationship_type": "knows",
    "from_facts": ['["colour", "red"]'],
    "relationship_facts": ['["colour", "red"]'],
    "to_facts": ['["colour", "red"]'],
    "limit": _ALL,
}
_ENTITY_IDS = [str(entity_id) for entity_id in (_ANA, _BEN, _ACME)]
_RELATIONSHIP_IDS = [str(relationship_id) for relationship_id in (_KNOWS, _OWNS)]
_TIMES = ("first_observed", "last_observed", "start_date", "last_updated")


def _ids_of_both(w: _World) -> dict[str, Any]:
    return {"ids": [*_ENTITY_IDS, str(w.my_entity), str(w.their_entity)]}


def _relationship_ids_of_both(w: _World) -> dict[str, Any]:
    return {"ids": [*_RELATIONSHIP_IDS, str(w.my_relationship), str(w.their_relationship), "theirs"]}


def _entity_rows(w: _World) -> dict[str, Any]:
    properties = {"external_id": w.mine, "id": str(_ANA), "name": "Taken"}
    return {"rows": [{"tier": "longterm", "first_seen": "2026-01-01T00:00Z", "properties": properties}]}


def _relationship_rows(w: _World) -> dict[str, Any]:
    return {
        "rows": [
            {
                "from_id": str(_ANA),
                "to_id": str(_BEN),
                "properties": {"external_id": w.mine, "id": str(_KNOWS), "type": "taken"},
                **dict.fromkeys(_TIMES, "2026-01-01T00:00Z"),
            }
        ]
    }


_BELIEF_IDS = [str(_BELIEF), str(_OTHER_BELIEF)]


def _belief_rows(w: _World) -> dict[str, Any]:
    named = [
        {"link": link, "id": event_id, "properties": {"place": 0}}
        for link, event_id in (("based_on", "new"), ("replaces", str(_SAID)), ("contradicts", str(_BELIEF)))
    ]
    properties = {"external_id": w.mine, "id": str(_BELIEF), "text": "Taken"}
    return {"rows": [{"id": str(_BELIEF), "properties": properties, "named": named}]}


_PARAMETERS: dict[str, _Parameters] = {
    "lock_stream": lambda w: {},
    "find_mark": lambda w: {},
    "set_position": lambda w: {"position": 8, "chain": "aa"},
    "renew_lease": lambda w: {"lease": "mine", "milliseconds": 60_000},
    "merge_entities": _entity_rows,
    "delete_stale_names": lambda w: {"rows": [{"id": str(_ANA), "keys": ["ana"]}]},
    "merge_names": lambda w: {"rows": [{"id": str(_ANA), "keys": ["ana", "taken"]}]},
    "delete_stale_merges": lambda w: {"rows": [{"id": str(_ANA), "merged_ids": []}]},
    "merge_merges": lambda w: {"rows": [{"id": str(_BEN), "merged_ids": [str(_MERGED)]}]},
    "delete_moved_relationships": lambda w: {
        "rows": [{"id": i, "from_id": str(_ACME), "to_id": str(_ANA)} for i in (str(_KNOWS), "theirs")]
    },
    "merge_relationships": _relationship_rows,
    "delete_relationships": _relationship_ids_of_both,
    "delete_entities": lambda w: {"ids": [str(_BEN), str(w.their_entity)]},
    "delete_names_of": _ids_of_both,
    "delete_merges_of": _ids_of_both,
    "erase_relationships": lambda w: {"limit": _ALL},
    "erase_entities": lambda w: {"limit": _ALL},
    "erase_names": lambda w: {"limit": _ALL},
    "erase_merges": lambda w: {"limit": _ALL},
    "merge_beliefs": _belief_rows,
    "merge_named_events": _belief_rows,
    "delete_links_of_beliefs": lambda w: {"ids": _BELIEF_IDS},
    "delete_beliefs": lambda w: {"ids": _BELIEF_IDS},
    "delete_unnamed_events": lambda w: {"ids": ["unnamed", "theirs", *_BELIEF_IDS]},
    "erase_beliefs": lambda w: {"limit": _ALL},
    "read_beliefs": lambda w: {"after": "", "limit": _ALL},
    "page_unnamed_ids": lambda w: {"after": "", "limit": _ALL},
    "erase_stream": lambda w: {},
    "find_canonical_ids": lambda w: {"ids": [str(_MERGED), *_ids_of_both(w)["ids"]]},
    "find_ids_by_key": lambda w: {"keys": ["ana", "anita"]},
    "find_ids_by_type": lambda w: {"types": ["person", "organization"], "limit": _ALL},
    "find_all_ids": lambda w: {"limit": _ALL},
    "page_entity_ids": lambda w: {"after": "", "limit": _ALL},
    "page_relationship_ids": lambda w: {"after": "", "limit": _ALL},
    "read_entities": lambda w: _ids_of_both(w) | {"types": None, "limit": _ALL},
    "read_names_of": _ids_of_both,
    "page_stray_ids": lambda w: {"after": "", "limit": _ALL},
    "read_relationships": lambda w: _relationship_ids_of_both(w) | {"limit": _ALL},
    "find_names": lambda w: {"types": None, "limit": _ALL},
    "find_ids_among": lambda w: (
        _FILTER | {"entity_ids": _ids_of_both(w)["ids"], "ids": None, "with_any": True, "limit": _ALL}
    ),
    "outline": lambda w: (
        _FILTER | {"entity_ids": _ids_of_both(w)["ids"], "ids": None, "with_any": False, "limit": _ALL}
    ),
    "hop": lambda w: _FILTER | {"ids": [str(_ANA), str(w.their_entity)], "seen": [], "fan_out": 50, "limit": _ALL},
    "find_shortest_path": lambda w: _FILTER | {"from_id": str(w.my_entity), "to_id": str(_ACME)},
    "find_strongest": lambda w: _FILTER | {"ids": _ENTITY_IDS},
    "match_any": lambda w: _PATTERN,
    "match_of_type": lambda w: _PATTERN,
    "match_from": lambda w: _PATTERN | {"from_ids": _ENTITY_IDS},
    "match_to": lambda w: _PATTERN | {"to_ids": _ENTITY_IDS},
}


_CYPHER = load_queries("cypher", "graph")


def _text(name: str) -> str:
    return _CYPHER[name].replace("{max_hops}", "6")


def test_every_query_is_tried() -> None:
    """A new query has to be added here, or this fails."""
    # An inspection asks about the server and its schema.
    assert all_query_files("cypher") == ["graph", "inspection"]
    assert set(_CYPHER) == set(_PARAMETERS) | _OF_NO_TENANT
    assert all("$external_id" in text for name, text in _CYPHER.items() if name not in _OF_NO_TENANT)
    assert not [text for name in _CYPHER if re.search(r"{\w+}", text := _text(name))]


@pytest.mark.parametrize("name", _PARAMETERS)
async def test_a_query_stays_within_its_tenant(driver: AsyncDriver, world: _World, name: str) -> None:
    """It finds or changes what is its tenant's, returns nothing of the other's, and leaves all of that as it was."""
    # A node that goes takes all edges along, also those that should not be there.
    between = "a.external_id = b.external_id" if name in ("erase_entities", "erase_beliefs") else "true"
    before = await _dump(driver, world.theirs, between=between)

    params = {"external_id": world.mine, **_PARAMETERS[name](world)}
    rows, summary, _ = await driver.execute_query(_text(name), params)

    returned = [dict(row) for row in rows]
    assert summary.counters.contains_updates or any(any(row.values()) for row in returned)
    said = json.dumps(returned)
    of_theirs = (world.their_entity, world.their_relationship, world.their_stronger, _THEIR_POSITION)
    assert not [theirs for theirs in (world.theirs, '"theirs"', *map(str, of_theirs)) if theirs in said]
    assert await _dump(driver, world.theirs, between=between) == before
    assert await _count_of_nobody(driver) == 0


async def test_the_world_is_one_in_which_a_careless_query_would_cross(driver: AsyncDriver, world: _World) -> None:
    """A query that forgets its tenant finds twice as much here; otherwise the test above would prove nothing."""
    rows, _, _ = await driver.execute_query(
        "MATCH (e:Entity {id: $id})-[:RELATES_TO]-(other:Entity) WHERE e.external_id IN $tenants"
        " RETURN count(DISTINCT e.external_id) AS tenants, collect(DISTINCT other.external_id) AS reached",
        id=str(_ANA),
        tenants=[world.mine, world.theirs],
    )
    assert rows[0]["tenants"] == 2
    assert sorted(rows[0]["reached"]) == sorted([world.mine, world.theirs])


async def test_a_tenants_states_are_its_own(neo4j_server: Neo4jAddress, world: _World) -> None:
    """Rows that are said to be another tenant's are stored under the one that they are applied for."""
    async with _opened(neo4j_server) as graph:
        before = await graph.read_entities(world.theirs, after=None, limit=10)
        forged = GraphDelta([_entity(world.theirs, _ANA, "Taken")])

        assert await graph.apply(world.mine, forged, expected=7, position=8)

        assert await graph.read_entities(world.theirs, after=None, limit=10) == before
        [mine] = await graph.find_entities(world.mine, names=["Taken"])
        assert mine.external_id == world.mine


async def test_a_neighbourhood_shows_no_edge_without_its_ends(
    neo4j_server: Neo4jAddress, world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction reads what is committed meanwhile; an entity not read takes its edges along."""
    read = neo4j_graph._read_entities

    async def read_all_but_ben(*arguments: Any, **options: Any) -> list[Entity]:
        return [entity for entity in await read(*arguments, **options) if entity.id != _BEN]

    monkeypatch.setattr(neo4j_graph, "_read_entities", read_all_but_ben)
    async with _opened(neo4j_server) as graph:
        found = await graph.neighbourhood(world.mine, [_ANA], hops=2)

    there = {entity.id for entity in found.entities}
    assert _ANA in there
    assert _BEN not in there
    assert all({edge.from_id, edge.to_id} <= there for edge in found.relationships)


async def test_what_is_removed_while_it_is_read_is_gone_and_not_altered(
    neo4j_server: Neo4jAddress, driver: AsyncDriver, world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neo4j shows a node whose removal is committed meanwhile without its properties."""
    find = "MATCH (n:Entity|Belief {external_id: $tenant}) WHERE n.id IN $ids "
    which = {"tenant": world.mine, "ids": [str(_BEN), str(_OTHER_BELIEF)]}

    async with _opened(neo4j_server) as graph:
        await driver.execute_query(find + "REMOVE n.name, n.text", which)
        with pytest.raises(StoreError, match="altered or foreign Entity"):
            await graph.find_entities(world.mine)
        with pytest.raises(StoreError, match="altered or foreign StatedBelief"):
            await graph.read_beliefs(world.mine)

        async def read_and_remove(read: Callable[[], Awaitable[Any]]) -> Any:
            reads = 0

            async def then_remove() -> Any:
                nonlocal reads
                reads += 1
                try:
                    return await read()
                finally:
                    if reads == 1:
                        await driver.execute_query(find + "DETACH DELETE n", which)

            return await neo4j_reads.read_settled(then_remove)

        monkeypatch.setattr(neo4j_graph, "read_settled", read_and_remove)
        monkeypatch.setattr(neo4j_beliefs, "read_settled", read_and_remove)
        assert {entity.name for entity in await graph.find_entities(world.mine)} == {"Ana", "Acme"}
        assert [belief.id for belief in await graph.read_beliefs(world.mine)] == [_BELIEF]


async def test_erasing_a_tenant_leaves_nothing_of_it_and_all_of_the_other(
    neo4j_server: Neo4jAddress, driver: AsyncDriver, world: _World
) -> None:
    """What is erased is gone from every kind of node and edge."""
    theirs = await _dump(driver, world.theirs, between="a.external_id = b.external_id")
    async with _opened(neo4j_server) as graph:
        await graph.erase(world.mine)
        assert await graph.position(world.mine) is None
        assert await graph.position(world.theirs) == _THEIR_POSITION

    assert await _dump(driver, world.mine) == ([], [])
    assert await _dump(driver, world.theirs) == theirs


async def _count_of_nobody(driver: AsyncDriver) -> int:
    """How many nodes belong to no tenant, beside the one that names the store.

    Neo4j reads no snapshot: of a node that another test removes meanwhile, a scan may still see the label and no
    property any more. Such a node is gone when it is asked for a second time.
    """
    rows, _, _ = await driver.execute_query(
        "MATCH (n:Entity|EntityName|MergedEntity|LedgerEvent|MemoryStream) WHERE n.external_id IS NULL"
        " RETURN collect(elementId(n)) AS ids"
    )
    rows, _, _ = await driver.execute_query(
        "MATCH (n) WHERE elementId(n) IN $ids AND n.external_id IS NULL RETURN count(n) AS nodes", ids=rows[0]["ids"]
    )
    return int(rows[0]["nodes"])


async def _dump(driver: AsyncDriver, external_id: str, *, between: str = "true") -> tuple[list[Any], list[Any]]:
    """All nodes and edges of a tenant, with all that they hold."""
    nodes, _, _ = await driver.execute_query(
        "MATCH (n) WHERE n.external_id = $external_id"
        " RETURN labels(n) AS labels, properties(n) AS properties, elementId(n) AS id ORDER BY id",
        external_id=external_id,
    )
    edges, _, _ = await driver.execute_query(
        f"MATCH (a)-[r]->(b) WHERE r.external_id = $external_id AND {between}"
        " RETURN elementId(a) AS a, type(r) AS type, properties(r) AS properties, elementId(b) AS b, elementId(r) AS id"
        " ORDER BY id",
        external_id=external_id,
    )
    return [dict(node) for node in nodes], [dict(edge) for edge in edges]


# Plans


@pytest.fixture(scope="module")
def crowd(neo4j_server: Neo4jAddress) -> Iterator[str]:
    """One of five tenants with 2,500 entities and 5,000 relationships together."""
    tenants = [f"test-{uuid4()}" for _ in range(5)]

    async def fill() -> None:
        async with _opened(neo4j_server) as graph:
            for tenant in tenants:
                assert await graph.apply(tenant, _crowd(tenant), expected=None, position=1)

    async def clear() -> None:
        async with _opened(neo4j_server) as graph:
            for tenant in tenants:
                await graph.erase(tenant)

    asyncio.run(fill())
    yield tenants[0]
    asyncio.run(clear())


def _crowd(tenant: str) -> GraphDelta:
    numbers = random.Random(1)
    ids = [_ANA, _BEN, _ACME, *(uuid4() for _ in range(497))]
    edges = [_KNOWS, _OWNS, *(uuid4() for _ in range(998))]
    entities = [_entity(tenant, entity_id, f"Name {index}") for index, entity_id in enumerate(ids)]
    ends = [(_ANA, _BEN), (_BEN, _ACME), *(tuple(numbers.sample(ids, 2)) for _ in edges[2:])]
    return GraphDelta(
        entities,
        [_relationship(tenant, e, *pair) for e, pair in zip(edges, ends, strict=True)],
        beliefs=[_belief(tenant, belief_id) for belief_id in (_BELIEF, _OTHER_BELIEF, *(uuid4() for _ in range(498)))],
    )


@pytest.mark.parametrize("name", sorted({*_PARAMETERS, "identify_store", "find_store"}))
async def test_a_query_seeks_what_it_reads(driver: AsyncDriver, crowd: str, name: str) -> None:
    """No query scans a label, a type or an index: what it costs depends on its own tenant."""
    world = _World(crowd, "-", _BEN, uuid4(), _KNOWS, uuid4(), uuid4())
    params = {} if name in _OF_NO_TENANT else {"external_id": crowd, **_PARAMETERS[name](world)}

    operators = list(_operators(await _profile(driver, _text(name), params)))

    assert not [operator for operator in operators if "Scan" in operator], operators
    assert [operator for operator in operators if "IndexSeek" in operator], operators


@pytest.mark.parametrize("name", sorted(_CYPHER))
def test_a_query_says_which_index_to_seek(name: str) -> None:
    """What the planner thinks of a small store, or of one with old statistics, does not decide what a query costs."""
    lines = [line.strip() for line in _CYPHER[name].splitlines()]
    found: set[str] = set()
    for line, following in pairwise([*lines, ""]):
        match = re.search(r"MATCH \((\w*)", line)
        # What begins at an entity that was found before has nothing to look up.
        if match is None or match[1] in found:
            continue
        assert following.startswith("USING INDEX SEEK "), line
        found |= {match[1]} - {""}


async def test_a_page_reads_no_more_than_itself(driver: AsyncDriver, crowd: str) -> None:
    """Reading a tenant in pages costs as much as reading it once: the pages come in the index's own order."""
    for name in ("page_entity_ids", "page_relationship_ids"):
        plan = await _profile(driver, _text(name), {"external_id": crowd, "after": "", "limit": 10})
        assert _hits(plan) < 100
    # With what each of them names.
    plan = await _profile(driver, _text("read_beliefs"), {"external_id": crowd, "after": "", "limit": 10})
    assert _hits(plan) < 500


async def _profile(driver: AsyncDriver, text: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a query ran; what it changed is rolled back."""
    async with driver.session() as session, await session.begin_transaction() as transaction:
        # Typed by the driver as a literal.
        query: Any = f"PROFILE {text}"
        result = await transaction.run(query, dict(params))
        summary: ResultSummary = await result.consume()
        await transaction.rollback()
    assert summary.profile is not None
    return summary.profile


def _operators(plan: Mapping[str, Any]) -> Iterator[str]:
    yield plan["operatorType"]
    for child in plan.get("children", ()):
        yield from _operators(child)


def _hits(plan: Mapping[str, Any]) -> int:
    return int(plan["args"].get("DbHits", 0)) + sum(_hits(child) for child in plan.get("children", ()))
