"""`memory.admin.graph`: what memories name, what stands beside what, and putting right what is wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import (
    AgentMem,
    Entity,
    EntityNotFoundError,
    GraphStep,
    InvalidInputError,
    MemoryNotFoundError,
    RelationshipNotFoundError,
)
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.services.graph.memory_graph import MemoryGraph
from tests.support.graph_scene import GraphScene, day


@pytest.fixture
def scene(memory: AgentMem, tenant: str) -> GraphScene:
    """The empty graph of one tenant."""
    return GraphScene(memory, tenant)


@pytest.fixture
def graph(memory: AgentMem) -> MemoryGraph:
    """What is tested here."""
    return memory.admin.graph


async def _kinds(memory: AgentMem, tenant: str, kind: EventKind) -> list[dict[str, Any]]:
    return [event.payload for event in await memory.ledger.read(tenant, kinds=[kind])]


async def test_a_consolidation_makes_names_findable(memory: AgentMem, tenant: str, graph: MemoryGraph) -> None:
    """Without a model and without a setting, who is named in a memory can be asked for, and with whom."""
    note = await memory.create_active_memory(
        tenant, "Lisbon", "We fly to Lisbon with Ana Sousa and Piet Bakker on 3 May."
    )
    await memory.admin.consolidate(tenant, note.id)

    names = {entity.name for entity in await graph.entities(tenant)}
    around = await graph.neighbourhood(tenant, "ana sousa")

    assert {"Lisbon", "Ana Sousa", "Piet Bakker"} <= names
    assert {"Lisbon", "Piet Bakker"} <= {entity.name for entity in around.entities}
    assert around.entities[0].name == "Ana Sousa"
    assert around.entities[0].shortterm_memory_id == note.id
    whole = await graph.subgraph(tenant, note.id)
    assert {entity.name for entity in whole.entities} == names
    assert (await memory.admin.verify(tenant)).ok


async def test_entities_are_found_by_id_name_and_likeness(scene: GraphScene, tenant: str, graph: MemoryGraph) -> None:
    """An agent that has only heard a name finds who is meant."""
    caroline, mill = scene.entity("Caroline"), scene.entity("The Mill", type="place")
    edge = scene.relationship(caroline, mill, "works_at")
    await scene.tell(edge)

    assert [e.id for e in await graph.entities(tenant, name="CAROLINE")] == [caroline]
    assert [e.id for e in await graph.entities(tenant, alike="Carolline")] == [caroline]
    assert [e.id for e in await graph.entities(tenant, types=["place"])] == [mill]
    assert len(await graph.entities(tenant, limit=1)) == 1
    for entity in (caroline, str(caroline), "caroline"):
        assert (await graph.neighbourhood(tenant, entity)).distances == {caroline: 0, mill: 1}
    path = await graph.shortest_path(tenant, "the mill", caroline)
    assert path is not None
    assert [e.id for e in path.entities] == [mill, caroline]
    [triple] = await graph.match(tenant, "person", "works_at", "place")
    assert triple.relationship.id == edge
    assert await graph.match(tenant, "place", "works_at") == []


async def test_a_path_of_steps_is_matched(scene: GraphScene, graph: MemoryGraph) -> None:
    """By types alone, or from an entity by any of its names; of what was true at a moment."""
    ana, mill, town = scene.entity("Ana"), scene.entity("Mill", type="place"), scene.entity("Accra", type="town")
    works = scene.relationship(ana, mill, "works_at", start_date=day(1), end_date=day(20))
    lies = scene.relationship(mill, town, "located_in", start_date=day(10))
    await scene.tell(works, lies)
    tenant = scene.external_id

    [path] = await graph.match(
        tenant, path=[("person", "works_at", "place"), ("place", "located_in", "town")], at=day(15)
    )
    assert [entity.id for entity in path.entities] == [ana, mill, town]
    assert [relationship.id for relationship in path.relationships] == [works, lies]
    back = [GraphStep(from_entity="accra", direction="in"), GraphStep(direction="in", to_entity=ana)]
    [path] = await graph.match(tenant, path=back, at=day(15))
    assert [entity.id for entity in path.entities] == [town, mill, ana]
    assert await graph.match(tenant, path=back) == []
    assert await graph.match(tenant, path=back, at=day(5)) == []
    with pytest.raises(EntityNotFoundError, match="Nobody"):
        await graph.match(tenant, path=[GraphStep(from_entity="Nobody")])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"relationship_types": "owns"}, "list of types, such as \\['owns'\\]"),
        ({"direction": "up"}, "direction='up'.*'out', 'in' or 'any'"),
        ({"from_entity": 3}, "from_entity=3"),
        ({"form_type": "person"}, "form_type='person'"),
    ],
    ids=str,
)
def test_a_wrong_step_is_refused_by_its_name(fields: dict[str, Any], message: str) -> None:
    """With the library's own error, like any other argument."""
    with pytest.raises(InvalidInputError, match=message):
        GraphStep(**fields)


async def test_a_name_of_several_entities_is_refused_with_their_ids(
    scene: GraphScene, tenant: str, graph: MemoryGraph
) -> None:
    """Nobody is taken for somebody else; the message says how to go on."""
    person, place = scene.entity("Paris"), scene.entity("Paris", type="place")
    await scene.tell(person, place)

    with pytest.raises(InvalidInputError, match=f"2 entities.*{person}.*{place}"):
        await graph.neighbourhood(tenant, "Paris")
    with pytest.raises(InvalidInputError, match="name of 2 entities"):
        await graph.merge(tenant, person, "Paris")

    assert (await graph.neighbourhood(tenant, person)).distances == {person: 0}


async def test_what_is_not_there_is_said_in_the_same_words_as_what_is_anothers(
    memory: AgentMem, tenant: str, scene: GraphScene, graph: MemoryGraph
) -> None:
    """Who asks for another tenant's ids learns nothing."""
    other = f"{tenant}-2"
    ana, ben = await scene.people("Ana", "Ben")
    [edge] = await scene.join((ana, ben))
    [told] = await scene.tell(ana)
    calls: list[tuple[type[Exception], Callable[[Any], Awaitable[object]], UUID]] = [
        (EntityNotFoundError, lambda id_: graph.neighbourhood(other, id_), ana),
        (EntityNotFoundError, lambda id_: graph.shortest_path(other, id_, ben), ana),
        (EntityNotFoundError, lambda id_: graph.merge(other, id_, ben), ana),
        (EntityNotFoundError, lambda id_: graph.unmerge(other, id_), ana),
        (RelationshipNotFoundError, lambda id_: graph.end_relationship(other, id_), edge),
        (MemoryNotFoundError, lambda id_: graph.subgraph(other, id_), told),
    ]

    for error, call, theirs in calls:
        messages = []
        for wanted in (theirs, uuid4()):
            with pytest.raises(error) as caught:
                await call(wanted)
            messages.append(str(caught.value).replace(str(wanted), "ID"))
        assert messages[0] == messages[1]
    with pytest.raises(EntityNotFoundError, match="'Ana'"):
        await graph.neighbourhood(other, "Ana")
    assert await memory.ledger.head(other) == 0


async def test_a_merge_is_an_event_and_can_be_undone(
    memory: AgentMem, tenant: str, scene: GraphScene, graph: MemoryGraph
) -> None:
    """Who said that two are one stands in the ledger; undoing it gives back both as they were."""
    robin, robert = await scene.people("Robin", "Robert")
    before = [entity.model_dump() for entity in await graph.entities(tenant)]

    survivor = await graph.merge(tenant, "robin", robert, actor="keeper", source="agent")

    assert (survivor.id, survivor.aliases, survivor.merged_ids, survivor.mentions) == (robin, ("Robert",), (robert,), 2)
    [event] = await memory.ledger.read(tenant, kinds=[EventKind.ENTITIES_MERGED])
    assert (event.actor, event.source) == ("keeper", "agent")
    assert event.payload == {
        "survivor_id": str(robin),
        "merged_id": str(robert),
        "reason": "asked",
        "score": None,
    }
    assert [e.id for e in await graph.entities(tenant, name="Robert")] == [robin]

    parted = await graph.unmerge(tenant, robert)

    assert (parted.id, parted.name) == (robert, "Robert")
    assert [entity.model_dump() for entity in await graph.entities(tenant)] == before
    assert (await memory.admin.verify(tenant)).ok


async def test_what_is_one_already_is_not_merged_again(
    memory: AgentMem, tenant: str, scene: GraphScene, graph: MemoryGraph
) -> None:
    """A repeated call changes nothing, whichever id or name it comes with."""
    robin, robert, bob = await scene.people("Robin", "Robert", "Bob")
    await graph.merge(tenant, robin, robert)

    again: list[Entity] = [
        await graph.merge(tenant, robin, robert),
        await graph.merge(tenant, robert, robin),
        await graph.merge(tenant, "Robin", "Robert"),
    ]

    assert {entity.id for entity in again} == {robin}
    assert len(await _kinds(memory, tenant, EventKind.ENTITIES_MERGED)) == 1
    # Through one that was merged itself, it reaches the one that speaks for it.
    await graph.merge(tenant, robert, bob)
    [last] = (await _kinds(memory, tenant, EventKind.ENTITIES_MERGED))[1:]
    assert (last["survivor_id"], last["merged_id"]) == (str(robin), str(bob))
    await graph.unmerge(tenant, bob)
    await graph.unmerge(tenant, bob)
    await graph.unmerge(tenant, robin)
    assert len(await _kinds(memory, tenant, EventKind.ENTITIES_UNMERGED)) == 1


async def test_an_entity_is_not_merged_into_itself(
    memory: AgentMem, tenant: str, scene: GraphScene, graph: MemoryGraph
) -> None:
    """It would speak for itself by way of itself."""
    [robin] = await scene.people("Robin")
    head = await memory.ledger.head(tenant)

    for entity in (robin, "Robin"):
        with pytest.raises(InvalidInputError, match="into itself"):
            await graph.merge(tenant, entity, entity)

    assert await memory.ledger.head(tenant) == head


async def test_an_id_and_a_name_of_one_entity_are_not_merged(
    memory: AgentMem, tenant: str, scene: GraphScene, graph: MemoryGraph
) -> None:
    """Whoever takes one entity for two learns it, also while others are merged into it."""
    ana = scene.entity("Ana Sousa", aliases=("Anita",))
    anna = scene.entity("Anna Sousa")
    await scene.tell(ana, anna)

    async def refused(survivor: UUID | str, merged: UUID | str) -> None:
        head = await memory.ledger.head(tenant)
        with pytest.raises(InvalidInputError, match="into itself"):
            await graph.merge(tenant, survivor, merged)
        assert await memory.ledger.head(tenant) == head

    await refused(ana, "Ana Sousa")
    await refused("ana sousa", "Anita")
    await graph.merge(tenant, ana, "Anna Sousa")
    await refused(ana, "Ana Sousa")
    await refused(anna, "Anna Sousa")
    # As a repetition of a call whose answer was lost.
    assert (await graph.merge(tenant, ana, "Anna Sousa")).id == ana


async def test_one_clock_decides_what_has_ended(
    scene: GraphScene, tenant: str, graph: MemoryGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All readings agree on what is true today, whatever the time is where the data lies."""
    ana, mill = await scene.people("Ana", "Mill")
    edge = scene.relationship(ana, mill, start_date=day(1))
    [told] = await scene.tell(edge)
    await graph.end_relationship(tenant, edge, end_date=day(20))
    for today, expected in ((day(19), [edge]), (day(21), [])):
        monkeypatch.setattr(graph, "_clock", lambda today=today: today)

        around = await graph.neighbourhood(tenant, ana)
        path = await graph.shortest_path(tenant, ana, mill)
        answers = [
            around.relationships,
            (await graph.subgraph(tenant, told)).relationships,
            () if path is None else path.relationships,
            [triple.relationship for triple in await graph.match(tenant)],
        ]

        assert [[relationship.id for relationship in found] for found in answers] == [expected] * 4


async def test_a_relationship_ends_when_it_is_said_to(
    memory: AgentMem, tenant: str, scene: GraphScene, graph: MemoryGraph
) -> None:
    """What was true is found at its time; what is repeated is written once, and a wrong end can be put right."""
    ana, mill = await scene.people("Ana", "Mill")
    edge = scene.relationship(ana, mill, start_date=day(10))
    await scene.tell(edge)

    ended = await graph.end_relationship(tenant, edge, end_date=day(20), actor="keeper")

    assert ended.end_date == day(20)
    assert (await graph.neighbourhood(tenant, ana)).relationships == ()
    then = await graph.neighbourhood(tenant, ana, at=day(15))
    assert [relationship.id for relationship in then.relationships] == [edge]
    again = await graph.end_relationship(tenant, str(edge), end_date=day(20))
    unchanged = await graph.end_relationship(tenant, edge)
    assert again == unchanged == ended
    [event] = await memory.ledger.read(tenant, kinds=[EventKind.RELATIONSHIP_ENDED])
    assert (event.actor, event.occurred_at) == ("keeper", day(20))
    assert (await graph.end_relationship(tenant, edge, end_date=day(25))).end_date == day(25)
    with pytest.raises(InvalidInputError, match="before the relationship began"):
        await graph.end_relationship(tenant, edge, end_date=day(9))
    assert len(await _kinds(memory, tenant, EventKind.RELATIONSHIP_ENDED)) == 2


async def test_a_relationship_without_an_end_date_ends_now(scene: GraphScene, tenant: str, graph: MemoryGraph) -> None:
    """The usual case needs no date; what has not begun yet ends as it begins."""
    ana, mill, shop = await scene.people("Ana", "Mill", "Shop")
    begins = datetime.now(UTC).replace(microsecond=0) + timedelta(days=300)
    edge, coming = scene.relationship(ana, mill), scene.relationship(ana, shop, start_date=begins)
    await scene.tell(edge, coming)

    ended = await graph.end_relationship(tenant, edge)
    cancelled = await graph.end_relationship(tenant, coming)

    assert ended.end_date is not None
    assert abs(datetime.now(UTC) - ended.end_date) < timedelta(minutes=1)
    assert cancelled.end_date == begins


async def test_a_subgraph_holds_what_a_memory_names_today(scene: GraphScene, tenant: str, graph: MemoryGraph) -> None:
    """Its live chunks decide; what its entities have to do with each other may stand elsewhere."""
    ana, ben, cem = await scene.people("Ana", "Ben", "Cem")
    [told] = await scene.tell(ana, ben)
    joined, outside, ended = await scene.join((ana, ben), (ben, cem), (ben, ana))
    await graph.end_relationship(tenant, ended)

    found = await graph.subgraph(tenant, told)

    assert {entity.id for entity in found.entities} == {ana, ben}
    assert [relationship.id for relationship in found.relationships] == [joined]
    assert not found.is_truncated
    assert outside not in {relationship.id for relationship in found.relationships}
    await scene.end_chunks(told, on=day(30))
    assert (await graph.subgraph(tenant, told)).entities == ()


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.entities("agent-1", name=""),
        lambda graph: graph.entities("agent-1", name="x" * 501),
        lambda graph: graph.entities("agent-1", name="nul\x00"),
        lambda graph: graph.entities("agent-1", name="a", alike="b"),
        lambda graph: graph.entities("agent-1", types="person"),
        lambda graph: graph.entities("agent-1", types=[]),
        lambda graph: graph.entities("agent-1", types=[3]),
        lambda graph: graph.entities("agent-1", limit=501),
        lambda graph: graph.entities(""),
        lambda graph: graph.neighbourhood("agent-1", 7),
        lambda graph: graph.neighbourhood("agent-1", "Ana", hops=0),
        lambda graph: graph.neighbourhood("agent-1", "Ana", hops=7),
        lambda graph: graph.neighbourhood("agent-1", "Ana", at="yesterday"),
        lambda graph: graph.neighbourhood("agent-1", "Ana", min_confidence=2),
        lambda graph: graph.neighbourhood("agent-1", "Ana", limit=0),
        lambda graph: graph.shortest_path("agent-1", "Ana", "Ben", max_hops=7),
        lambda graph: graph.match("agent-1", "x" * 101),
        lambda graph: graph.match("agent-1", from_properties={"a": None}),
        lambda graph: graph.match("agent-1", to_properties={"a": {"b": 1}}),
        lambda graph: graph.match("agent-1", relationship_properties="a"),
        lambda graph: graph.match("agent-1", limit=201),
        lambda graph: graph.match("agent-1", path=[]),
        lambda graph: graph.match("agent-1", path="person"),
        lambda graph: graph.match("agent-1", path=[(None, None, None)] * 5),
        lambda graph: graph.match("agent-1", path=[("person", "knows")]),
        lambda graph: graph.match("agent-1", path=[("person", "x" * 101, None)]),
        lambda graph: graph.match("agent-1", path=[("person", "knows", "person"), ("place", None, None)]),
        lambda graph: graph.match("agent-1", path=[GraphStep(), GraphStep(from_entity="Ana")]),
        lambda graph: graph.match("agent-1", path=[GraphStep(relationship_types=())]),
        lambda graph: graph.match("agent-1", path=[GraphStep(to_entity=" ")]),
        lambda graph: graph.match("agent-1", "person", path=[(None, None, None)]),
        lambda graph: graph.match("agent-1", path=[(None, None, None)], limit=201),
        lambda graph: graph.subgraph("agent-1", "no id"),
        lambda graph: graph.merge("agent-1", "Ana", "Ben", source="nobody"),
        lambda graph: graph.merge("agent-1", "Ana", "Ben", actor=""),
        lambda graph: graph.unmerge("agent-1", "Ana"),
        lambda graph: graph.end_relationship("agent-1", "Ana"),
        lambda graph: graph.end_relationship("agent-1", uuid4(), end_date=datetime(2024, 1, 1)),  # noqa: DTZ001
    ],
)
async def test_what_makes_no_sense_is_refused_before_anything_is_read(
    graph: MemoryGraph, call: Callable[[MemoryGraph], Awaitable[object]]
) -> None:
    """A refused argument is the caller's mistake and says so, instead of finding nothing."""
    with pytest.raises(InvalidInputError):
        await call(graph)
