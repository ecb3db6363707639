"""What every store of graphs gives for the same events, whichever holds them."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from agent_reminiscence import AgentMem
from agent_reminiscence.config.constants import GRAPH_EVIDENCE_CHUNKS, MAX_ENTITY_NAME_CHARACTERS
from agent_reminiscence.database.repositories.graph import path_match
from agent_reminiscence.database.repositories.graph.followed import FollowedGraph
from agent_reminiscence.database.repositories.graph.neo4j import Neo4jGraph
from agent_reminiscence.database.repositories.graph.postgres import PostgresGraph
from agent_reminiscence.database.repositories.graph.store import (
    ANYTHING,
    EntityOutline,
    GraphDelta,
    GraphFilter,
    GraphHop,
    GraphStore,
    RelationshipOutline,
)
from agent_reminiscence.database.repositories.graph.tables import EntityGraphRepository
from agent_reminiscence.domain.graph import Entity, GraphPattern, Relationship, Subgraph, strength
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.resilience.breaker import Breaker
from agent_reminiscence.text.folding import name_key
from tests.support.graph_scene import GraphScene, day
from tests.support.neo4j_managers import opened_neo4j
from tests.support.neo4j_server import Neo4jAddress

Shown = Callable[[GraphScene], Awaitable[GraphStore]]

# Of all tests, so that few of them wait until a Neo4j that is not there has been tried.
_AWAY = Breaker("Neo4j")


@pytest.fixture
def new_scene(memory: AgentMem, tenant: str) -> Callable[[], GraphScene]:
    """Makes the empty graph of a tenant that nobody else uses."""
    return lambda: GraphScene(memory, f"{tenant}-{uuid4()}")


@pytest.fixture
def scene(new_scene: Callable[[], GraphScene]) -> GraphScene:
    """The empty graph of this test's tenant."""
    return new_scene()


@pytest_asyncio.fixture(
    params=[
        "postgres",
        pytest.param("postgres, for a Neo4j that is away", marks=pytest.mark.thorough),
        pytest.param("neo4j", marks=pytest.mark.neo4j),
    ],
    loop_scope="session",
)
async def shown(request: pytest.FixtureRequest) -> AsyncIterator[Shown]:
    """Gives the store under test once it holds what a scene has become by now."""
    if request.param == "postgres":

        async def in_place(scene: GraphScene) -> GraphStore:
            return PostgresGraph(scene.store, EntityGraphRepository())

        yield in_place
        return

    if request.param == "postgres, for a Neo4j that is away":
        # Nothing listens there.
        address = Neo4jAddress("bolt://127.0.0.1:1", password="none")
        async with opened_neo4j(address) as manager:

            async def instead(scene: GraphScene) -> GraphStore:
                return FollowedGraph(Neo4jGraph(manager), PostgresGraph(scene.store, EntityGraphRepository()), _AWAY)

            yield instead
        return

    async with opened_neo4j(request.getfixturevalue("neo4j_server")) as manager:
        graph = Neo4jGraph(manager)
        await graph.ensure_schema()
        tenants: set[str] = set()

        async def copied(scene: GraphScene) -> GraphStore:
            tenants.add(scene.external_id)
            await graph.erase(scene.external_id)
            assert await graph.apply(scene.external_id, await _states(scene), expected=None, position=1)
            return graph

        yield copied
        for tenant in tenants:
            await graph.erase(tenant)


async def _states(scene: GraphScene) -> GraphDelta:
    """All that a follower would read, in small pages."""
    repository = EntityGraphRepository()
    entities: list[Entity] = []
    relationships: list[Relationship] = []
    async with scene.store.transaction(scene.external_id, read_only=True) as db:
        while page := await repository.read_entities(
            db, scene.external_id, after=entities[-1].id if entities else None, limit=300
        ):
            entities += page
        while edges := await repository.read_relationships(
            db, scene.external_id, after=relationships[-1].id if relationships else None, limit=300
        ):
            relationships += edges
    return GraphDelta(entities, relationships)


def _ids(items: Any) -> list[UUID]:
    return [item.id for item in items]


async def _around(
    store: GraphStore, external_id: str, entity_ids: Sequence[UUID], *, hops: int, where: GraphFilter = ANYTHING
) -> Subgraph:
    """A neighbourhood, of which the outline has to be the same with less of each."""
    around = await store.neighbourhood(external_id, entity_ids, hops=hops, where=where)
    outline = await store.outline(external_id, entity_ids, hops=hops, where=where)
    assert list(outline.entities) == [EntityOutline(each.id, each.mentions) for each in around.entities]
    assert list(outline.relationships) == [
        RelationshipOutline(each.id, each.from_id, each.to_id, each.strength) for each in around.relationships
    ]
    assert outline.distances == around.distances
    assert outline.is_truncated == around.is_truncated
    return around


# Entities


async def test_an_entity_says_all_that_memories_say_of_it(scene: GraphScene, shown: Shown) -> None:
    """Whoever reads an entity sees its names, what it rests on and how often, the newest first."""
    ana = scene.entity("Ana Sousa", description="a baker", confidence=0.9, metadata={"born": 1980})
    first = await scene.tell(ana, on=day(3))
    scene.entities[ana] = scene.entities[ana].model_copy(
        update={"aliases": ("Anita", "the Baker"), "importance": 0.8, "confidence": 0.4}
    )
    later = await scene.tell(ana, times=2, on=day(5))

    store = await shown(scene)
    [found] = await store.find_entities(scene.external_id, ids=[ana])

    assert (found.name, found.type, found.description, found.tier) == ("Ana Sousa", "person", "a baker", "shortterm")
    assert found.external_id == scene.external_id
    assert found.aliases == ("Anita", "the Baker")
    assert (found.confidence, found.importance) == (0.9, 0.8)
    assert (found.first_seen, found.last_seen) == (day(3), day(5))
    assert found.metadata == {"born": 1980}
    assert found.shortterm_memory_id == first[0]
    assert found.mentions == 3
    assert found.merged_ids == ()
    assert list(found.chunk_ids) == sorted(await scene.chunks(*first, *later), reverse=True)
    assert len(found.positions) == 3
    assert list(found.positions) == sorted(found.positions)


async def test_only_the_newest_of_many_mentions_are_named(scene: GraphScene, shown: Shown) -> None:
    """A name that stands everywhere must not bring thousands of ids with it."""
    ana = scene.entity("Ana")
    memories = await scene.tell(ana, times=GRAPH_EVIDENCE_CHUNKS + 3)

    store = await shown(scene)
    [found] = await store.find_entities(scene.external_id, ids=[ana])

    assert found.mentions == GRAPH_EVIDENCE_CHUNKS + 3
    newest = sorted(await scene.chunks(*memories), reverse=True)[:GRAPH_EVIDENCE_CHUNKS]
    assert list(found.chunk_ids) == newest
    assert len(found.positions) == GRAPH_EVIDENCE_CHUNKS


async def test_entities_are_found_by_name_however_it_is_written(scene: GraphScene, shown: Shown) -> None:
    """Case, accents, titles, spaces and a possessive do not make another name; an alias is a name."""
    ana = scene.entity("Ana Sóusa", aliases=("Anita",))
    await scene.tell(ana)
    await scene.people("Ana", "Sousa")
    store = await shown(scene)

    for spelling in ("Ana Sóusa", "ANA  SOUSA", "dr. ana sousa", "Ana Sousa's", "anita"):
        assert _ids(await store.find_entities(scene.external_id, names=[spelling])) == [ana], spelling
    assert await store.find_entities(scene.external_id, names=["Ana Sousas"]) == []


async def test_what_is_asked_for_has_to_fit_together(scene: GraphScene, shown: Shown) -> None:
    """Ids, names and types narrow each other down; none at all is everything, an empty list nothing."""
    person, place = scene.entity("Paris"), scene.entity("Paris", type="place")
    ana = scene.entity("Ana")
    await scene.tell(person, place, ana)
    await scene.tell(ana)
    store = await shown(scene)
    tenant = scene.external_id

    assert _ids(await store.find_entities(tenant)) == [ana, person, place]
    assert _ids(await store.find_entities(tenant, limit=1)) == [ana]
    assert _ids(await store.find_entities(tenant, names=["paris"])) == [person, place]
    assert _ids(await store.find_entities(tenant, names=["paris"], types=["place"])) == [place]
    assert _ids(await store.find_entities(tenant, types=["place", "person"])) == [ana, person, place]
    assert _ids(await store.find_entities(tenant, ids=[ana, place], types=["place"])) == [place]
    assert _ids(await store.find_entities(tenant, ids=[ana, place], names=["ana"])) == [ana]
    assert _ids(await store.find_entities(tenant, ids=[ana, ana, uuid4()])) == [ana]
    criteria: list[dict[str, Any]] = [
        {"ids": []},
        {"names": []},
        {"types": []},
        {"ids": [uuid4()]},
        {"names": ["Nobody"]},
    ]
    for criterion in criteria:
        assert await store.find_entities(tenant, **criterion) == []


async def test_alike_names_come_in_the_order_of_their_likeness(scene: GraphScene, shown: Shown) -> None:
    """A typing error still finds who is meant, and who has nothing in common is not found."""
    caroline, karolina = scene.entity("Caroline"), scene.entity("Karolina", type="pet")
    other = scene.entity("Bert", aliases=("Carolyne",))
    await scene.tell(caroline, karolina, other)
    store = await shown(scene)

    found = await store.find_alike(scene.external_id, "Carolline")

    assert _ids(entity for entity, _ in found) == [caroline, other, karolina]
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0.8 <= score < 1 for score in scores)
    assert [e.id for e, _ in await store.find_alike(scene.external_id, "Carolline", limit=1)] == [caroline]
    assert [e.id for e, _ in await store.find_alike(scene.external_id, "Carolline", types=["pet"])] == [karolina]
    assert await store.find_alike(scene.external_id, "Zebediah") == []
    [(exact, score), *_] = await store.find_alike(scene.external_id, "CAROLYNE")
    assert (exact.id, score) == (other, 1.0)


# Merges


async def test_of_merged_descriptions_the_surest_is_shown(scene: GraphScene, shown: Shown) -> None:
    """Neither a newer one of less trust nor the one of whoever speaks for both; of equal ones that comes first."""
    page = scene.entity("Alyce Smith", confidence=0.7, description="a fraud")
    alice = scene.entity("Alice Smith", confidence=0.9, description="a judge")
    newer = scene.entity("A. Smith", confidence=0.7, description="a thief")
    bob = scene.entity("Bob", confidence=0.7, description="a baker")
    bobby = scene.entity("Bobby", confidence=0.7, description="a bore")
    await scene.tell(alice, bob, on=day(1))
    await scene.tell(page, newer, bobby, on=day(2))
    merge = scene.memory.admin.graph.merge
    await merge(scene.external_id, page, alice)
    await merge(scene.external_id, page, newer)
    await merge(scene.external_id, bob, bobby)
    store = await shown(scene)

    shown_of = {found.id: found.description for found in await store.find_entities(scene.external_id, ids=[page, bob])}

    assert shown_of == {page: "a judge", bob: "a baker"}


async def test_a_merged_entity_speaks_for_all_of_its_names(scene: GraphScene, shown: Shown) -> None:
    """After a merge there is one entity, found by every name and id that either had, with the mentions of both."""
    robin = scene.entity("Robin", confidence=0.4, importance=0.9)
    robert = scene.entity("Robert", aliases=("Bob",), confidence=0.7, description="the neighbour")
    ana = scene.entity("Ana")
    edge = scene.relationship(robert, ana)
    first = await scene.tell(robin, on=day(2))
    second = await scene.tell(edge, on=day(1))
    await scene.memory.admin.graph.merge(scene.external_id, robin, robert)
    store = await shown(scene)

    queries: list[dict[str, Any]] = [
        {"ids": [robert]},
        {"ids": [robin, robert]},
        {"names": ["bob"]},
        {"names": ["ROBIN"]},
    ]
    for query in queries:
        [found] = await store.find_entities(scene.external_id, **query)
        assert found.id == robin
        assert found.name == "Robin"
        assert found.description == "the neighbour"
        assert found.aliases == ("Bob", "Robert")
        assert found.merged_ids == (robert,)
        assert found.mentions == 2
        assert (found.confidence, found.importance) == (0.7, 0.9)
        assert (found.first_seen, found.last_seen) == (day(1), day(2))
        assert found.shortterm_memory_id == second[0]
        assert list(found.chunk_ids) == sorted(await scene.chunks(*first, *second), reverse=True)
    [moved] = await store.find_relationships(scene.external_id, ids=[edge])
    assert (moved.from_id, moved.to_id) == (robin, ana)
    around = await _around(store, scene.external_id, [robert], hops=1)
    assert _ids(around.entities) == [robin, ana]
    path = await store.shortest_path(scene.external_id, ana, robert, max_hops=2)
    assert path is not None
    assert _ids(path.entities) == [ana, robin]


async def test_a_merged_entity_is_of_the_type_that_is_known_of_any(scene: GraphScene, shown: Shown) -> None:
    """Who was merged with a person is a person for every reading, unless it was something else itself."""
    caroline, nobody = scene.entity("Caroline Becker", type="other"), scene.entity("The Thing", type="other")
    doctor, place = scene.entity("Dr. Carolline Becker"), scene.entity("Beckerhof", type="place")
    pet = scene.entity("Karo", type="pet")
    away, back = scene.relationship(caroline, nobody), scene.relationship(nobody, caroline)
    await scene.tell(away, back, doctor, place, pet)
    graph, tenant = scene.memory.admin.graph, scene.external_id
    await graph.merge(tenant, caroline, place)
    await graph.merge(tenant, caroline, doctor)
    store = await shown(scene)

    async def matched(**pattern: Any) -> list[UUID]:
        return [t.relationship.id for t in await store.match(tenant, GraphPattern(**pattern))]

    [found] = await store.find_entities(tenant, ids=[caroline])
    # The doctor was seen before the place.
    assert (found.name, found.type) == ("Caroline Becker", "person")
    assert _ids(await store.find_entities(tenant, types=["person"])) == [caroline]
    assert _ids(await store.find_entities(tenant, types=["place"])) == []
    assert _ids(await store.find_entities(tenant, types=["other"])) == [nobody]
    assert _ids(await store.find_entities(tenant, names=["Beckerhof"], types=["person"])) == [caroline]
    assert await store.find_entities(tenant, names=["Caroline Becker"], types=["other"]) == []
    assert _ids(e for e, _ in await store.find_alike(tenant, "Carolina Becker", types=["person"])) == [caroline]
    assert await store.find_alike(tenant, "Carolina Becker", types=["other"]) == []
    assert await matched(from_type="person", to_type="other") == [away]
    assert await matched(from_type="other", to_type="person") == [back]
    assert await matched(from_type="other", to_type="other") == await matched(to_type="place") == []
    [triple] = await store.match(tenant, GraphPattern(from_type="person"))
    assert triple.source.type == "person"

    await graph.merge(tenant, pet, caroline)
    store = await shown(scene)
    assert [(e.id, e.type) for e in await store.find_entities(tenant, names=["caroline becker"])] == [(pet, "pet")]
    assert await store.find_entities(tenant, types=["person"]) == []
    await graph.unmerge(tenant, caroline)
    await graph.unmerge(tenant, doctor)
    store = await shown(scene)
    assert [e.type for e in await store.find_entities(tenant, ids=[caroline, doctor])] == ["place", "person"]


async def test_an_undone_merge_leaves_no_trace(scene: GraphScene, shown: Shown) -> None:
    """Putting right a wrong merge gives the graph that was there before."""
    robin, robert, ana = await scene.people("Robin", "Robert", "Ana")
    [edge] = await scene.join((robert, ana))
    tenant = scene.external_id
    store = await shown(scene)
    before = [e.model_dump() for e in await store.find_entities(tenant)]
    await scene.memory.admin.graph.merge(tenant, robin, robert)
    store = await shown(scene)
    assert len(await store.find_entities(tenant)) == 2

    await scene.memory.admin.graph.unmerge(tenant, robert)

    store = await shown(scene)
    assert [e.model_dump() for e in await store.find_entities(tenant)] == before
    [found] = await store.find_relationships(tenant, ids=[edge])
    assert (found.from_id, found.to_id) == (robert, ana)


async def test_a_relationship_of_an_entity_to_itself_is_none(scene: GraphScene, shown: Shown) -> None:
    """What joined two entities that turned out to be one says nothing any more, in any reading."""
    robin, robert, ana = await scene.people("Robin", "Robert", "Ana")
    [inner, outer] = await scene.join((robin, robert), (robert, ana))
    await scene.memory.admin.graph.merge(scene.external_id, robin, robert)
    store = await shown(scene)

    assert _ids(await store.find_relationships(scene.external_id, ids=[inner, outer])) == [outer]
    assert _ids(await store.find_relationships(scene.external_id, entity_ids=[robin, ana])) == [outer]
    around = await _around(store, scene.external_id, [robin], hops=3, where=GraphFilter(fan_out=1))
    assert (_ids(around.relationships), around.is_truncated) == ([outer], False)
    assert [triple.relationship.id for triple in await store.match(scene.external_id, GraphPattern())] == [outer]


# Relationships


async def test_a_relationship_says_all_that_memories_say_of_it(scene: GraphScene, shown: Shown) -> None:
    """Whoever reads a relationship sees how strong it is and what it rests on."""
    ana, mill = scene.entity("Ana"), scene.entity("the Mill", type="place")
    edge = scene.relationship(
        ana, mill, "works_at", description="since May", start_date=day(1), metadata={"hours": 40}, importance=0.6
    )
    memories = await scene.tell(edge, times=3, on=day(4))
    store = await shown(scene)

    [found] = await store.find_relationships(scene.external_id, ids=[edge, uuid4()])

    assert (found.from_id, found.to_id, found.type) == (ana, mill, "works_at")
    assert (found.description, found.tier, found.metadata) == ("since May", "shortterm", {"hours": 40})
    assert (found.observations, found.strength) == (3, strength(3))
    assert found.strength == 0.5
    assert (found.confidence, found.importance) == (0.5, 0.6)
    assert (found.start_date, found.end_date) == (day(1), None)
    assert (found.first_observed, found.last_observed) == (day(4), day(4))
    assert found.last_updated <= datetime.now(UTC) + timedelta(minutes=1)
    assert list(found.chunk_ids) == sorted(await scene.chunks(*memories), reverse=True)
    assert len(found.positions) == 3


async def test_what_is_stated_is_read_like_what_a_consolidation_found(scene: GraphScene, shown: Shown) -> None:
    """With its ends, on the passages of the memory that was named."""
    tenant, graph = scene.external_id, scene.memory.admin.graph
    [ana] = await scene.people("Ana")
    note = await scene.memory.create_active_memory(
        tenant, "House", "she keeps bees", key="bees", occurred_at=day(3), source="agent"
    )
    stated = await graph.state_relationship(
        tenant,
        ana,
        "keeps",
        "the bees",
        to_type="animal",
        key="bees",
        description="in the garden",
        metadata={"hives": 3},
    )
    store = await shown(scene)

    [found] = await store.find_relationships(tenant, ids=[stated.id])
    [bees] = await store.find_entities(tenant, names=["The Bees"])

    assert found == stated
    assert (found.from_id, found.to_id, found.type, found.confidence) == (ana, bees.id, "keeps", 0.8)
    assert (found.description, found.metadata, found.start_date) == ("in the garden", {"hives": 3}, day(3))
    assert list(found.chunk_ids) == list(bees.chunk_ids) == await scene.chunks(note.id)
    assert (bees.type, bees.shortterm_memory_id, bees.mentions) == ("animal", note.id, 1)


async def test_relationships_are_found_between_entities_strongest_first(scene: GraphScene, shown: Shown) -> None:
    """Only those count of which both ends were asked for; ended ones are among them."""
    ana, ben, cem = await scene.people("Ana", "Ben", "Cem")
    [first, second, outside] = await scene.join((ana, ben), (ben, ana), (ben, cem))
    await scene.tell(second)
    await scene.memory.admin.graph.end_relationship(scene.external_id, first)
    store = await shown(scene)
    tenant = scene.external_id

    assert _ids(await store.find_relationships(tenant, entity_ids=[ana, ben])) == [second, first]
    assert _ids(await store.find_relationships(tenant, entity_ids=[cem, ana])) == []
    assert _ids(await store.find_relationships(tenant, ids=[outside, first], entity_ids=[ana, ben])) == [first]
    assert _ids(await store.find_relationships(tenant, ids=[outside, first, second])) == [second, first, outside]
    assert await store.find_relationships(tenant) == []
    assert await store.find_relationships(tenant, ids=[]) == []
    assert await store.find_relationships(tenant, entity_ids=[]) == []


async def test_an_ended_relationship_is_found_at_the_time_it_was_true(scene: GraphScene, shown: Shown) -> None:
    """A reading of now leaves it out; one of an earlier moment, from its start up to its end, has it."""
    ana, mill = await scene.people("Ana", "Mill")
    edge = scene.relationship(ana, mill, start_date=day(10))
    await scene.tell(edge)
    await scene.memory.admin.graph.end_relationship(scene.external_id, edge, end_date=day(20))
    store = await shown(scene)

    async def found(at: datetime | None) -> list[UUID]:
        where = GraphFilter(at=at)
        around = await _around(store, scene.external_id, [ana], hops=1, where=where)
        path = await store.shortest_path(scene.external_id, ana, mill, max_hops=1, where=where)
        matched = await store.match(scene.external_id, GraphPattern(), where=where)
        assert _ids(around.relationships) == [triple.relationship.id for triple in matched]
        assert _ids(around.relationships) == (_ids(path.relationships) if path else [])
        return _ids(around.relationships)

    assert await found(None) == []
    assert await found(day(9)) == []
    assert await found(day(10)) == [edge]
    assert await found(day(19)) == [edge]
    assert await found(day(20)) == []
    [ended] = await store.find_relationships(scene.external_id, ids=[edge])
    assert ended.end_date == day(20)


async def test_what_ends_later_or_begins_later_is_among_what_has_not_ended(scene: GraphScene, shown: Shown) -> None:
    """A contract that runs out next year is one of today."""
    ana, mill, shop = await scene.people("Ana", "Mill", "Shop")
    now = datetime.now(UTC)
    running = scene.relationship(ana, mill, end_date=now + timedelta(days=300))
    coming = scene.relationship(ana, shop, start_date=now + timedelta(days=300))
    await scene.tell(running, coming)
    store = await shown(scene)

    around = await _around(store, scene.external_id, [ana], hops=1)
    today = await _around(store, scene.external_id, [ana], hops=1, where=GraphFilter(at=now))

    assert _ids(around.relationships) == [running, coming]
    assert _ids(today.relationships) == [running]


async def test_what_has_ended_is_decided_by_the_callers_clock(scene: GraphScene, shown: Shown) -> None:
    """Two servers' clocks are no reason for two answers: whoever says what the time is gets what has not ended then."""
    ana, mill = await scene.people("Ana", "Mill")
    edge = scene.relationship(ana, mill, start_date=day(10))
    await scene.tell(edge)
    await scene.memory.admin.graph.end_relationship(scene.external_id, edge, end_date=day(20))
    store = await shown(scene)

    async def found(**when: datetime) -> list[UUID]:
        where = GraphFilter(**when)  # type: ignore[arg-type]
        around = await _around(store, scene.external_id, [ana], hops=1, where=where)
        path = await store.shortest_path(scene.external_id, ana, mill, max_hops=1, where=where)
        matched = await store.match(scene.external_id, GraphPattern(), where=where)
        assert _ids(around.relationships) == [triple.relationship.id for triple in matched]
        assert _ids(around.relationships) == (_ids(path.relationships) if path else [])
        return _ids(around.relationships)

    assert await found(now=day(19)) == [edge]
    # Without `at` the start does not matter.
    assert await found(now=day(9)) == [edge]
    assert await found(now=day(20)) == []
    assert await found(now=day(19), at=day(20)) == []
    assert await found(now=day(20), at=day(19)) == [edge]


async def test_what_no_live_chunk_says_any_more_is_of_the_past(scene: GraphScene, shown: Shown) -> None:
    """With the last chunk that says it a relationship ends, and an entity has no mentions; neither is forgotten."""
    ana, mill = scene.entity("Ana"), scene.entity("Mill")
    edge = scene.relationship(ana, mill)
    [only] = await scene.tell(edge)
    await scene.tell(ana)

    await scene.end_chunks(only, on=day(30))

    store = await shown(scene)
    assert [(e.id, e.mentions) for e in await store.find_entities(scene.external_id)] == [(ana, 1), (mill, 0)]
    [ended] = await store.find_relationships(scene.external_id, ids=[edge])
    assert (ended.observations, ended.strength, ended.chunk_ids, ended.positions) == (0, 0.0, (), ())
    assert ended.end_date == day(30)
    assert (await _around(store, scene.external_id, [ana], hops=1)).relationships == ()


async def test_what_is_promoted_is_longterm(scene: GraphScene, shown: Shown) -> None:
    """The graph follows its chunks from tier to tier."""
    ana, mill, ben = scene.entity("Ana"), scene.entity("Mill"), scene.entity("Ben")
    edge = scene.relationship(ana, mill)
    memories = await scene.tell(edge)
    await scene.tell(ben)

    await scene.promote(memories)

    store = await shown(scene)
    tiers = {entity.id: entity.tier for entity in await store.find_entities(scene.external_id)}
    assert tiers == {ana: "longterm", mill: "longterm", ben: "shortterm"}
    [found] = await store.find_relationships(scene.external_id, ids=[edge])
    assert found.tier == "longterm"


async def test_what_was_erased_is_nowhere(scene: GraphScene, shown: Shown) -> None:
    """An erasure takes what only the erased memory said; what another one says too stays, as that one says it."""
    ana = scene.entity("Ana")
    secret = scene.entity("The Vault", type="place", metadata={"code": 8163})
    edge = scene.relationship(ana, secret)
    [told] = await scene.tell(edge)
    await scene.tell(ana, on=day(2))

    await scene.erase(told)

    store = await shown(scene)
    [left] = await store.find_entities(scene.external_id)
    assert (left.id, left.mentions, left.first_seen) == (ana, 1, day(2))
    assert await store.find_relationships(scene.external_id, ids=[edge]) == []
    assert await store.find_entities(scene.external_id, names=["the vault"]) == []


# Neighbourhoods


async def test_a_neighbourhood_reaches_as_far_as_its_hops(scene: GraphScene, shown: Shown) -> None:
    """Each entity has its distance, and relationships are followed whichever way they point."""
    a, b, c, d = await scene.people("A1", "B1", "C1", "D1")
    [ab, cb, cd, ad_far] = await scene.join((a, b), (c, b), (c, d), (d, b))
    del ad_far
    store = await shown(scene)
    tenant = scene.external_id

    alone = await _around(store, tenant, [a], hops=0)
    assert (_ids(alone.entities), alone.relationships, alone.distances) == ([a], (), {a: 0})
    near = await _around(store, tenant, [a], hops=1)
    assert (near.distances, _ids(near.relationships), near.is_truncated) == ({a: 0, b: 1}, [ab], False)
    wide = await _around(store, tenant, [a], hops=2)
    assert wide.distances == {a: 0, b: 1, c: 2, d: 2}
    # Also what joins two that the last hop reached.
    assert cd in _ids(wide.relationships)
    assert cb in _ids(wide.relationships)
    whole = await _around(store, tenant, [a], hops=3)
    assert whole == wide
    two = await _around(store, tenant, [a, c, c, uuid4()], hops=1)
    assert two.distances == {a: 0, c: 0, b: 1, d: 1}
    assert await _around(store, tenant, [uuid4()], hops=1) == await _around(store, tenant, [], hops=1)


async def test_entities_around_come_nearest_first_then_by_mentions(scene: GraphScene, shown: Shown) -> None:
    """The first ones of a neighbourhood are those that matter most."""
    a, b, c, d = await scene.people("A1", "B1", "C1", "D1")
    [ab, ac, cd] = await scene.join((a, b), (a, c), (c, d))
    await scene.tell(c)
    await scene.tell(d, times=5)
    await scene.tell(ab, times=2)
    store = await shown(scene)

    around = await _around(store, scene.external_id, [a], hops=2)

    assert _ids(around.entities) == [a, b, c, d]
    assert _ids(around.relationships) == [ab, ac, cd]


async def test_only_relationships_that_fit_are_followed(scene: GraphScene, shown: Shown) -> None:
    """Types and confidence decide where a walk may go, not only what is shown of it."""
    a, b, c = await scene.people("A1", "B1", "C1")
    works, knows = scene.relationship(a, b, "works_for"), scene.relationship(b, c, "knows", confidence=0.9)
    await scene.tell(works, knows)
    store = await shown(scene)

    async def reached(**where: Any) -> set[UUID]:
        around = await _around(store, scene.external_id, [a], hops=3, where=GraphFilter(**where))
        return set(around.distances)

    assert await reached(relationship_types=["works_for"]) == {a, b}
    assert await reached(relationship_types=["knows"]) == {a}
    assert await reached(relationship_types=["knows", "works_for"]) == {a, b, c}
    assert await reached(relationship_types=[]) == {a}
    assert await reached(min_confidence=0.5) == {a, b, c}
    assert await reached(min_confidence=0.6) == {a}


async def test_a_cap_on_entities_keeps_those_behind_the_strongest_relationships(
    scene: GraphScene, shown: Shown
) -> None:
    """What is left out is the weakest, and the result says that something is."""
    hub, *others = await scene.people("Hub", "P1", "P2", "P3", "P4")
    edges = await scene.join(*((hub, other) for other in others))
    await scene.tell(edges[3])
    await scene.tell(edges[1], times=2)
    store = await shown(scene)

    async def reached(limit: int) -> tuple[list[UUID], bool]:
        where = GraphFilter(max_entities=limit)
        around = await _around(store, scene.external_id, [hub], hops=2, where=where)
        assert {r.from_id for r in around.relationships} | {r.to_id for r in around.relationships} <= set(
            around.distances
        )
        return sorted(around.distances), around.is_truncated

    assert await reached(3) == (sorted([hub, others[1], others[3]]), True)
    assert await reached(4) == (sorted([hub, others[1], others[3], others[0]]), True)
    assert await reached(5) == (sorted([hub, *others]), False)
    assert await reached(1) == ([hub], True)


async def test_starts_beyond_the_cap_are_left_out(scene: GraphScene, shown: Shown) -> None:
    """A cap holds for where a reading begins, too."""
    people = await scene.people("P1", "P2", "P3")
    store = await shown(scene)

    around = await _around(store, scene.external_id, people, hops=1, where=GraphFilter(max_entities=2))

    assert around.distances == {people[0]: 0, people[1]: 0}
    assert around.is_truncated


async def test_a_cap_on_relationships_keeps_the_strongest(scene: GraphScene, shown: Shown) -> None:
    """Both ends of what is returned are among the entities, and the result says that something is left out."""
    a, b, c = await scene.people("A1", "B1", "C1")
    edges = await scene.join((a, b), (b, c), (a, c))
    await scene.tell(edges[2])
    store = await shown(scene)

    async def found(limit: int) -> tuple[list[UUID], bool]:
        where = GraphFilter(max_relationships=limit)
        around = await _around(store, scene.external_id, [a], hops=2, where=where)
        return _ids(around.relationships), around.is_truncated

    assert await found(2) == ([edges[2], edges[0]], True)
    assert await found(3) == ([edges[2], edges[0], edges[1]], False)


async def test_of_a_hub_only_the_strongest_relationships_are_followed(scene: GraphScene, shown: Shown) -> None:
    """A name that knows everybody costs no more than any other, and the best known of its neighbours are found."""
    hub = scene.entity("Hub")
    others = [scene.entity(f"Guest {number}") for number in range(1_000)]
    # Some point to it, some away from it.
    edges = [scene.relationship(*((hub, other) if index % 2 else (other, hub))) for index, other in enumerate(others)]
    await scene.tell(*edges)
    await scene.tell(edges[700])
    await scene.tell(edges[301], times=2)
    store = await shown(scene)

    around = await _around(store, scene.external_id, [hub], hops=2, where=GraphFilter(fan_out=4))

    assert around.distances == {hub: 0} | dict.fromkeys((others[301], others[700], others[0], others[1]), 1)
    assert around.is_truncated
    assert _ids(around.relationships) == [edges[301], edges[700], edges[0], edges[1]]


@pytest.mark.thorough
async def test_an_outline_is_of_what_the_neighbourhood_chooses(scene: GraphScene, shown: Shown) -> None:
    """Recall weighs the same entities and relationships as a reading of the whole states would show it."""
    chance = random.Random(3)
    people = await scene.people(*(f"P{number}" for number in range(14)))
    for number in range(40):
        first, second = chance.sample(people, 2)
        edge = scene.relationship(
            first,
            second,
            chance.choice(("knows", "works_for")),
            confidence=chance.choice((0.3, 0.9)),
            start_date=day(number % 5),
        )
        await scene.tell(edge, times=chance.choice((1, 1, 2)))
        if number % 8 == 0:
            await scene.memory.admin.graph.end_relationship(scene.external_id, edge, end_date=day(20))
    await scene.memory.admin.graph.merge(scene.external_id, people[0], people[1])
    store = await shown(scene)

    sizes = set()
    filters: list[dict[str, Any]] = [
        {},
        {"at": day(2)},
        {"at": day(30)},
        {"relationship_types": ["knows"]},
        {"min_confidence": 0.5},
        {"fan_out": 2},
        {"max_entities": 6},
        {"max_relationships": 7},
        {"at": day(3), "fan_out": 3, "max_entities": 8, "max_relationships": 9},
    ]
    for where in filters:
        for hops in (0, 1, 2):
            around = await _around(
                store, scene.external_id, [people[1], people[5], uuid4()], hops=hops, where=GraphFilter(**where)
            )
            sizes.add((len(around.entities), len(around.relationships), around.is_truncated))
    # Otherwise the filters would make no difference here.
    assert len(sizes) > len(filters)


# Paths


async def test_a_shortest_path_is_found_whichever_way_relationships_point(scene: GraphScene, shown: Shown) -> None:
    """The way is given in order, with one relationship fewer than entities."""
    a, b, c, d, alone = await scene.people("A1", "B1", "C1", "D1", "Alone")
    [ab, cb, cd] = await scene.join((a, b), (c, b), (c, d))
    store = await shown(scene)
    tenant = scene.external_id

    path = await store.shortest_path(tenant, a, d, max_hops=3)

    assert path is not None
    assert (_ids(path.entities), _ids(path.relationships)) == ([a, b, c, d], [ab, cb, cd])
    back = await store.shortest_path(tenant, d, a, max_hops=6)
    assert back is not None
    assert (_ids(back.entities), _ids(back.relationships)) == ([d, c, b, a], [cd, cb, ab])
    assert await store.shortest_path(tenant, a, d, max_hops=2) is None
    assert await store.shortest_path(tenant, a, alone, max_hops=6) is None
    assert await store.shortest_path(tenant, a, uuid4(), max_hops=6) is None
    itself = await store.shortest_path(tenant, a, a, max_hops=1)
    assert itself is not None
    assert (_ids(itself.entities), itself.relationships) == ([a], ())


async def test_of_several_shortest_paths_the_first_by_ids_is_given(scene: GraphScene, shown: Shown) -> None:
    """The same question has the same answer, from every store: by ids the first, over the strongest relationships."""
    a, b, c, d, e, f = await scene.people("A1", "B1", "C1", "D1", "E1", "F1")
    # a to f over b or c, then d or e; b leads to e only, so a greedy look from the far end would go wrong.
    edges = await scene.join((a, b), (a, c), (b, e), (c, d), (c, e), (d, f), (e, f), (e, b))
    await scene.tell(edges[7])
    store = await shown(scene)

    path = await store.shortest_path(scene.external_id, a, f, max_hops=6)

    assert path is not None
    assert _ids(path.entities) == [a, b, e, f]
    assert _ids(path.relationships) == [edges[0], edges[7], edges[6]]
    back = await store.shortest_path(scene.external_id, f, a, max_hops=6)
    assert back is not None
    assert _ids(back.entities) == [f, d, c, a]


async def test_a_path_uses_only_what_fits(scene: GraphScene, shown: Shown) -> None:
    """A shortcut of another type or of too little confidence is none."""
    a, b, c = await scene.people("A1", "B1", "C1")
    direct = scene.relationship(a, c, "dislikes", confidence=0.2)
    first, second = scene.relationship(a, b), scene.relationship(b, c)
    await scene.tell(direct, first, second)
    store = await shown(scene)

    async def way(**where: Any) -> list[UUID]:
        path = await store.shortest_path(scene.external_id, a, c, max_hops=4, where=GraphFilter(**where))
        return _ids(path.relationships) if path else []

    assert await way() == [direct]
    assert await way(relationship_types=["knows"]) == [first, second]
    assert await way(min_confidence=0.4) == [first, second]
    assert await way(relationship_types=["likes"]) == []
    assert await way(fan_out=1, max_entities=1, max_relationships=1) == [direct]


# Patterns


async def test_a_pattern_fits_by_types_and_direction(scene: GraphScene, shown: Shown) -> None:
    """`person –works_for→ organization` is not `organization –works_for→ person`."""
    ana, acme = scene.entity("Ana"), scene.entity("Acme", type="organization")
    ben = scene.entity("Ben")
    works, knows = scene.relationship(ana, acme, "works_for"), scene.relationship(ana, ben)
    also = scene.relationship(ben, acme, "works_for")
    await scene.tell(works, knows, also)
    await scene.tell(also)
    store = await shown(scene)

    async def found(limit: int = 100, **pattern: Any) -> list[UUID]:
        triples = await store.match(scene.external_id, GraphPattern(**pattern), limit=limit)
        for triple in triples:
            assert (triple.source.id, triple.target.id) == (triple.relationship.from_id, triple.relationship.to_id)
        return [triple.relationship.id for triple in triples]

    assert await found(from_type="person", relationship_type="works_for", to_type="organization") == [also, works]
    assert await found(from_type="organization", to_type="person") == []
    assert await found(to_type="person") == [knows]
    assert await found() == [also, works, knows]
    assert await found(limit=2) == [also, works]
    assert await found(relationship_type="works_for", limit=1) == [also]
    where = GraphFilter(relationship_types=["knows"])
    assert await store.match(scene.external_id, GraphPattern(relationship_type="works_for"), where=where) == []


async def test_a_path_of_steps_fits_by_types_directions_and_entities(scene: GraphScene, shown: Shown) -> None:
    """From the first step or from the last, along relationships and against them."""
    ana, ben = scene.entity("Ana"), scene.entity("Ben")
    acme, mill = scene.entity("Acme", type="organization"), scene.entity("Mill", type="organization")
    accra, porto = scene.entity("Accra", type="place"), scene.entity("Porto", type="place")
    works, also = scene.relationship(ana, acme, "works_for"), scene.relationship(ben, acme, "works_for")
    owns = scene.relationship(ben, mill, "owns")
    here, there = scene.relationship(acme, accra, "located_in"), scene.relationship(mill, porto, "located_in")
    await scene.tell(works, also, owns, here, there)
    await scene.tell(also)
    store = await shown(scene)

    async def found(*hops: GraphHop, **more: Any) -> list[list[UUID]]:
        paths = await store.match_paths(scene.external_id, hops, **more)
        for path in paths:
            ends = [{one.id, other.id} for one, other in pairwise(path.entities)]
            assert ends == [{one.from_id, one.to_id} for one in path.relationships]
        return [[entity.id for entity in path.entities] for path in paths]

    works_for = GraphHop(relationship_types=["works_for"], from_type="person", to_type="organization")
    located = GraphHop(relationship_types=["located_in"], to_type="place")
    # The stronger first.
    assert await found(works_for, located) == [[ben, acme, accra], [ana, acme, accra]]
    assert await found(works_for, located, limit=1) == [[ben, acme, accra]]
    assert await found(replace(works_for, from_ids=[ana]), located) == [[ana, acme, accra]]
    any_of = replace(works_for, relationship_types=["owns", "works_for"])
    assert await found(any_of, replace(located, to_ids=[porto])) == [[ben, mill, porto]]
    assert await found(any_of, replace(located, to_type="person")) == []
    colleague = GraphHop(relationship_types=["works_for"], along=False, against=True)
    assert await found(works_for, colleague) == [[ben, acme, ana], [ana, acme, ben]]
    assert await found(replace(works_for, from_ids=[ana]), colleague) == [[ana, acme, ben]]
    either = GraphHop(against=True)
    assert await found(replace(either, from_ids=[ana]), either, either, either) == [[ana, acme, ben, mill, porto]]
    assert await found(either, either, either, replace(either, to_ids=[ana])) == [[porto, mill, ben, acme, ana]]
    assert await found(replace(either, from_ids=[ana], to_ids=[ana])) == []
    assert await found(replace(works_for, from_ids=[])) == []
    single = await store.match_paths(scene.external_id, [GraphHop()])
    assert [path.relationships[0] for path in single] == [
        triple.relationship for triple in await store.match(scene.external_id, GraphPattern())
    ]


async def test_no_entity_stands_twice_on_a_path(scene: GraphScene, shown: Shown) -> None:
    """In a circle of three, a path of three steps would come back to where it began."""
    ana, ben, eva = await scene.people("Ana", "Ben", "Eva")
    await scene.join((ana, ben), (ben, eva), (eva, ana))
    again = scene.relationship(ana, ben, "knows")
    await scene.tell(again)
    store = await shown(scene)

    async def found(steps: int, hop: GraphHop) -> list[list[UUID]]:
        paths = await store.match_paths(scene.external_id, [hop] * steps)
        return [[entity.id for entity in path.entities] for path in paths]

    assert await found(3, GraphHop()) == []
    assert await found(3, GraphHop(against=True)) == []
    # Two relationships from Ana to Ben are two paths.
    assert sorted(await found(2, GraphHop())) == sorted(
        [[ana, ben, eva]] * 2 + [[ben, eva, ana]] + [[eva, ana, ben]] * 2
    )


async def test_a_path_is_of_what_was_true_at_a_moment_and_certain_enough(scene: GraphScene, shown: Shown) -> None:
    """All relationships of it at the same moment."""
    ana, acme, accra = await scene.people("Ana", "Acme", "Accra")
    works = scene.relationship(ana, acme, start_date=day(10), end_date=day(20))
    lies = scene.relationship(acme, accra, start_date=day(15))
    await scene.tell(works, lies)
    store = await shown(scene)

    async def found(**where: Any) -> int:
        return len(await store.match_paths(scene.external_id, [GraphHop()] * 2, where=GraphFilter(**where)))

    assert [await found(at=day(number)) for number in (9, 12, 15, 19, 20)] == [0, 0, 1, 1, 0]
    assert await found() == 0
    assert await found(at=day(15), min_confidence=0.5) == 1
    assert await found(at=day(15), min_confidence=0.6) == 0


async def test_a_merged_entity_is_one_on_a_path(scene: GraphScene, shown: Shown) -> None:
    """With its type, which may come from what was merged into it."""
    ana, robin, robert, ben = await scene.people("Ana", "Robin", "Robert", "Ben")
    await scene.join((ana, robin), (robert, ben))
    store = await shown(scene)
    assert await store.match_paths(scene.external_id, [GraphHop()] * 2) == []

    await scene.memory.admin.graph.merge(scene.external_id, robin, robert)
    store = await shown(scene)
    hops = [GraphHop(to_type="person"), GraphHop(from_type="person")]
    [path] = await store.match_paths(scene.external_id, hops)
    assert _ids(path.entities) == [ana, robin, ben]


@pytest.mark.parametrize("limit", ["MAX_PATH_RELATIONSHIPS", "MAX_PATH_VISITS"])
async def test_a_path_that_too_much_fits_is_refused(
    scene: GraphScene, shown: Shown, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Neither is all of a graph read, nor tried, for a pattern that says nothing."""
    ana, ben, eva, kofi = await scene.people("Ana", "Ben", "Eva", "Kofi")
    await scene.join((ana, ben), (ben, eva), (eva, ana), (eva, kofi))
    store = await shown(scene)
    monkeypatch.setattr(path_match, limit, 7)

    with pytest.raises(InvalidInputError, match="name an entity to begin or end at"):
        await store.match_paths(scene.external_id, [GraphHop(against=True)] * 3)
    assert len(await store.match_paths(scene.external_id, [GraphHop(from_ids=[eva]), GraphHop()])) == 1


_SCALARS: list[str | int | float | bool] = [
    "red",
    "",
    'o\'Neil "x" `y` $(z)p {a}',
    "🙂",
    0,
    7,
    -3,
    2**70,
    1.5,
    -0.25,
    True,
    False,
]


@pytest.mark.parametrize("value", _SCALARS, ids=repr)
async def test_a_pattern_fits_by_properties_of_every_kind(
    scene: GraphScene, shown: Shown, value: str | float | bool
) -> None:
    """Text, numbers and truth are told apart, wherever they stand, and a nested value does not count."""
    key = "the `key`"
    fit, other = (
        scene.entity("Fit", metadata={key: value, "more": 1}),
        scene.entity("Other", metadata={"in": {key: value}}),
    )
    edge = scene.relationship(fit, other, metadata={key: value})
    back = scene.relationship(other, fit, metadata={key: [value], "else": value})
    await scene.tell(edge, back)
    store = await shown(scene)

    async def found(**pattern: Any) -> list[UUID]:
        return [t.relationship.id for t in await store.match(scene.external_id, GraphPattern(**pattern))]

    assert await found(from_properties={key: value}) == [edge]
    assert await found(to_properties={key: value}) == [back]
    assert await found(relationship_properties={key: value}) == [edge]
    assert await found(from_properties={key: value, "more": 1}, relationship_properties={key: value}) == [edge]
    assert await found(from_properties={key: value, "more": 2}) == []
    for unlike in _SCALARS:
        same = unlike == value and isinstance(unlike, bool) == isinstance(value, bool)
        assert await found(from_properties={key: unlike}) == ([edge] if same else []), unlike


async def test_a_whole_number_is_the_same_with_and_without_a_point(scene: GraphScene, shown: Shown) -> None:
    """JSON has one kind of numbers."""
    a, b = scene.entity("A1", metadata={"n": 1}), scene.entity("B1", metadata={"n": 1.0})
    edge = scene.relationship(a, b)
    await scene.tell(edge)
    store = await shown(scene)

    for value in (1, 1.0):
        pattern = GraphPattern(from_properties={"n": value}, to_properties={"n": value})
        assert [t.relationship.id for t in await store.match(scene.external_id, pattern)] == [edge]
    assert await store.match(scene.external_id, GraphPattern(from_properties={"n": True})) == []
    assert await store.match(scene.external_id, GraphPattern(from_properties={"n": "1"})) == []


# Tenants


async def test_tenants_with_the_same_names_never_meet(new_scene: Callable[[], GraphScene], shown: Shown) -> None:
    """Nobody reads, walks into or matches what another one's memories name, not even by its ids."""
    mine, theirs = new_scene(), new_scene()
    ids: dict[str, tuple[UUID, UUID, UUID]] = {}
    for scene in (mine, theirs):
        ana, ben = scene.entity("Ana"), scene.entity("Ben")
        edge = scene.relationship(ana, ben)
        await scene.tell(edge)
        ids[scene.external_id] = (ana, ben, edge)
    await shown(theirs)
    store = await shown(mine)
    ana, ben, edge = ids[mine.external_id]
    their_ana, their_ben, their_edge = ids[theirs.external_id]
    tenant = mine.external_id

    assert _ids(await store.find_entities(tenant)) == [ana, ben]
    assert _ids(await store.find_entities(tenant, names=["ana"])) == [ana]
    assert await store.find_entities(tenant, ids=[their_ana]) == []
    assert _ids(entity for entity, _ in await store.find_alike(tenant, "Anna")) == [ana]
    assert await store.find_relationships(tenant, ids=[their_edge]) == []
    assert await store.find_relationships(tenant, entity_ids=[their_ana, their_ben]) == []
    assert (await _around(store, tenant, [their_ana], hops=2)).entities == ()
    assert _ids((await _around(store, tenant, [ana, their_ana], hops=2)).entities) == [ana, ben]
    assert await store.shortest_path(tenant, their_ana, their_ben, max_hops=3) is None
    assert await store.shortest_path(tenant, ana, their_ben, max_hops=3) is None
    assert [t.relationship.id for t in await store.match(tenant, GraphPattern())] == [edge]


# Hostile input

_NAMES = [
    "Robert'); DROP TABLE entity; --",
    "`) DETACH DELETE n //",
    "' OR 1=1 RETURN n //",
    '"; MATCH (n) DELETE n; "',
    "$(external_id)p {fits} {candidates}",
    "%s %(name)s {0} \\ \\u0041 \\x00",
    "👩‍👩‍👧 family",
    "\u202eevil\u202c name",
    "Zoe\u0301 \u0327\u0308\u0301",
    "\u200b\u200dinvisible\u200b",
    "line\nbreak\ttab\r\n",
    "مريم بنت عمران",
    "山田 太郎",
    "ﷺ" * MAX_ENTITY_NAME_CHARACTERS,
    "x" * MAX_ENTITY_NAME_CHARACTERS,
    " leading and trailing ",
]
_METADATA: dict[str, Any] = {
    "quotes": "'\"`",
    "cypher": "}) DETACH DELETE n //",
    "": "an empty key",
    "nested": {"deep": {"deeper": [1, {"x": None}, [], {}, ""]}},
    "large": 10**400,
    "small": -(2**63) - 1,
    "float": 1.5e-7,
    "emoji": "👩‍👩‍👧",
    "empty": "",
    "none": None,
    "truth": [True, False],
    "$param": "$(external_id)p",
    "\u202ertl": "\u0301",
}


@pytest.mark.parametrize("name", _NAMES, ids=range(len(_NAMES)))
async def test_hostile_names_are_stored_and_found_unchanged(scene: GraphScene, shown: Shown, name: str) -> None:
    """No name is a command, none is changed on the way, and none is too long for an index."""
    type_ = f"{name[:60]} type"
    odd = scene.entity(name, type=type_, aliases=(f"{name[:400]} alias",), description=name)
    plain = scene.entity("Plain", metadata={name: name})
    edge = scene.relationship(odd, plain, type_, description=name)
    await scene.tell(edge)
    store = await shown(scene)
    tenant = scene.external_id

    assert name_key(name)
    [found] = await store.find_entities(tenant, names=[name])
    assert (found.id, found.name, found.type, found.description) == (odd, name, type_, name)
    assert found.aliases == (f"{name[:400]} alias",)
    assert _ids(await store.find_entities(tenant, types=[type_])) == [odd]
    assert _ids(await store.find_entities(tenant, names=[f"{name[:400]} alias"])) == [odd]
    [(alike, score), *_] = await store.find_alike(tenant, name)
    assert (alike.id, score) == (odd, 1.0)
    where = GraphFilter(relationship_types=[type_])
    around = await _around(store, tenant, [odd], hops=2, where=where)
    assert [(r.id, r.type, r.description) for r in around.relationships] == [(edge, type_, name)]
    pattern = GraphPattern(from_type=type_, relationship_type=type_, to_properties={name: name})
    assert [t.relationship.id for t in await store.match(tenant, pattern)] == [edge]


async def test_long_names_that_begin_alike_are_different_names(scene: GraphScene, shown: Shown) -> None:
    """What is cut for an index is not cut for a comparison."""
    stem = "ﷺ" * (MAX_ENTITY_NAME_CHARACTERS - 1)
    first, second = await scene.people(f"{stem}a", f"{stem}b")
    store = await shown(scene)

    assert _ids(await store.find_entities(scene.external_id, names=[f"{stem}A"])) == [first]
    assert _ids(await store.find_entities(scene.external_id, names=[f"{stem}B"])) == [second]


async def test_hostile_metadata_is_stored_and_read_back_unchanged(scene: GraphScene, shown: Shown) -> None:
    """Metadata is the caller's own: whatever JSON it is, it comes back as it went in."""
    a, b = scene.entity("A1", metadata=_METADATA), scene.entity("B1")
    edge = scene.relationship(a, b, metadata=_METADATA)
    await scene.tell(edge)
    store = await shown(scene)

    [entity] = await store.find_entities(scene.external_id, ids=[a])
    [relationship] = await store.find_relationships(scene.external_id, ids=[edge])

    for found in (entity.metadata, relationship.metadata):
        assert found == _METADATA
        assert json.dumps(found, sort_keys=True) == json.dumps(_METADATA, sort_keys=True)
