"""`state_entity` and `state_relationship` of `memory.admin.graph`: what a caller says, on the word of a memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agent_reminiscence import (
    AgentMem,
    EntityNotFoundError,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryNotFoundError,
)
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.services.graph.memory_graph import MemoryGraph
from tests.support.graph_scene import day
from tests.support.redaction_cases import SECRETS

_CARD = next(case.secret for case in SECRETS if case.rule == "payment-card")
_STATED = [EventKind.ENTITY_STATED, EventKind.RELATIONSHIP_STATED]


@pytest.fixture
def graph(memory: AgentMem) -> MemoryGraph:
    """What is tested here."""
    return memory.admin.graph


async def _note(memory: AgentMem, tenant: str, text: str, key: str = "note", **others: Any) -> None:
    await memory.create_active_memory(tenant, "Note", text, key=key, **others)


async def test_a_stated_entity_is_found_though_no_text_shows_that_it_is_one(
    memory: AgentMem, tenant: str, graph: MemoryGraph
) -> None:
    """In lower case no rule takes it for a name; stated, it is one, with a type, and on every passage of the memory."""
    await _note(memory, tenant, "ana\n\nbakes bread\n\nhas a red boat", occurred_at=day(1))

    ana = await graph.state_entity(
        tenant, "ana", "Person", key="note", description="a baker", metadata={"born": 1980}, actor="keeper"
    )

    assert (ana.name, ana.type, ana.description, ana.metadata) == ("ana", "person", "a baker", {"born": 1980})
    assert (ana.mentions, ana.tier, ana.confidence, ana.first_seen) == (3, "shortterm", 1.0, day(1))
    assert [entity.id for entity in await graph.entities(tenant, name="ANA")] == [ana.id]
    note = (await memory.get_active_memories(tenant, keys=["note"]))[0]
    assert [entity.id for entity in (await graph.subgraph(tenant, note.id)).entities] == [ana.id]
    [event] = await memory.ledger.read(tenant, kinds=_STATED)
    assert (event.kind, event.actor, event.payload["memory_id"]) == ("memory.entity_stated", "keeper", str(note.id))
    assert (await memory.admin.verify(tenant)).ok


async def test_a_stated_relationship_brings_its_ends_along(memory: AgentMem, tenant: str, graph: MemoryGraph) -> None:
    """Names that nobody has named before become entities of the types given; it rests on what has both."""
    await _note(memory, tenant, "ana works at the mill\n\nthe mill is old")

    edge = await graph.state_relationship(
        tenant, "ana", "works at", "the mill", from_type="person", to_type="place", key="note"
    )

    assert (edge.type, edge.observations, edge.confidence, edge.end_date) == ("works_at", 1, 1.0, None)
    around = await graph.neighbourhood(tenant, "ana")
    assert {(entity.name, entity.type) for entity in around.entities} == {("ana", "person"), ("the mill", "place")}
    assert [relationship.id for relationship in around.relationships] == [edge.id]
    [triple] = await graph.match(tenant, "person", "works_at", "place")
    assert (triple.source.name, triple.target.name) == ("ana", "the mill")
    assert (await memory.admin.rebuild(tenant)).ok
    assert (await graph.neighbourhood(tenant, "ana")) == around


async def test_what_is_stated_joins_what_is_known(memory: AgentMem, tenant: str, graph: MemoryGraph) -> None:
    """One entity of a name and type, one relationship of a type between two, however often they are stated."""
    await _note(memory, tenant, "Ana Sousa met Piet Bakker in the hall.", "first")
    await memory.admin.consolidate(tenant)
    known = (await graph.entities(tenant, name="Ana Sousa"))[0]
    await _note(memory, tenant, "ana and piet are friends", "second")

    stated = await graph.state_entity(tenant, "ana sousa", "person", key="second")
    edges = [
        await graph.state_relationship(tenant, known.id, "knows", "Piet Bakker", key=key) for key in ("first", "second")
    ]

    assert (stated.id, stated.name, stated.type) == (known.id, "Ana Sousa", "person")
    assert edges[0].id == edges[1].id
    assert edges[1].observations == 2
    assert len(await graph.entities(tenant)) == 2


async def test_a_name_of_several_is_told_apart_by_its_type(memory: AgentMem, tenant: str, graph: MemoryGraph) -> None:
    """A name alone does not say which; a type that none of them has makes one more."""
    await _note(memory, tenant, "paris likes paris")
    person = await graph.state_entity(tenant, "Paris", "person", key="note")
    city = await graph.state_entity(tenant, "Paris", "city", key="note")
    assert person.id != city.id

    with pytest.raises(InvalidInputError, match="is the name of 2 entities; choose one by its type or its id"):
        await graph.state_relationship(tenant, "Paris", "likes", "Ana", key="note")
    edge = await graph.state_relationship(
        tenant, "Paris", "likes", "Paris", from_type="person", to_type="city", key="note"
    )

    assert (edge.from_id, edge.to_id) == (person.id, city.id)
    assert len(await memory.ledger.read(tenant, kinds=_STATED)) == 3


async def test_a_statement_ends_with_the_passages_that_it_rests_on(
    memory: AgentMem, tenant: str, graph: MemoryGraph
) -> None:
    """An update that keeps a passage keeps it; one that rewrites all of them ends it, and it can be stated again."""
    await _note(memory, tenant, "ana knows piet\n\nsince the summer")
    edge = await graph.state_relationship(tenant, "ana", "knows", "piet", key="note")

    await memory.update_active_memory(tenant, key="note", content="ana knows piet\n\nsince the winter")
    assert [one.id for one in (await graph.neighbourhood(tenant, "ana")).relationships] == [edge.id]
    await memory.update_active_memory(tenant, key="note", content="ana knew piet")
    assert (await graph.neighbourhood(tenant, "ana")).relationships == ()
    [ana] = await graph.entities(tenant, name="ana")
    assert ana.mentions == 0

    again = await graph.state_relationship(tenant, "ana", "knows", "piet", key="note")
    assert (again.id, again.end_date) == (edge.id, None)
    note = await memory.admin.archive(tenant, key="note", end_chunks=True)
    assert (await graph.neighbourhood(tenant, "ana")).relationships == ()
    with pytest.raises(InvalidInputError, match="no passage that still stands"):
        await graph.state_entity(tenant, "ana", memory_id=note.id)
    assert (await memory.admin.verify(tenant)).ok


async def test_periods_are_kept_apart(memory: AgentMem, tenant: str, graph: MemoryGraph) -> None:
    """A period that was over before the known one began is another relationship; who may, changes a known one's."""
    await _note(memory, tenant, "ana works at the mill, as she did before the war", occurred_at=day(50))
    now = await graph.state_relationship(tenant, "ana", "works_at", "mill", key="note", start_date=day(40))
    before = await graph.state_relationship(
        tenant, "ana", "works_at", "mill", key="note", start_date=day(1), end_date=day(9)
    )
    ended = await graph.state_relationship(
        tenant, "ana", "works_at", "mill", key="note", start_date=day(40), end_date=day(50)
    )

    assert (now.start_date, now.end_date) == (day(40), None)
    assert (before.start_date, before.end_date) == (day(1), day(9))
    assert before.id != now.id
    assert (ended.id, ended.end_date) == (now.id, day(50))
    then = await graph.neighbourhood(tenant, "ana", at=day(45))
    assert [one.id for one in then.relationships] == [now.id]


async def test_a_statement_is_trusted_no_further_than_its_memory(
    memory: AgentMem, tenant: str, graph: MemoryGraph
) -> None:
    """A page from the web does not become a user's word because somebody states what it says."""
    await _note(memory, tenant, "ana is a spy", source="tool")
    await _note(memory, tenant, "ana is a baker", "mine")
    spy = await graph.state_entity(tenant, "ana", key="note", description="a spy")
    assert spy.confidence == 0.7
    baker = await graph.state_entity(tenant, "ana", key="mine", description="a baker")
    assert (baker.confidence, baker.description) == (1.0, "a baker")
    still = await graph.state_entity(tenant, "ana", key="note", description="a spy")
    assert still.description == "a baker"


async def test_an_erased_memory_takes_its_statements_along(memory: AgentMem, tenant: str, graph: MemoryGraph) -> None:
    """What another memory supports as well stays, as that one says it; a name that only it had is nowhere."""
    await _note(memory, tenant, "ana works at the mill", "first")
    await _note(memory, tenant, "ana is ill", "second")
    await graph.state_relationship(tenant, "ana", "works_at", "the mill", key="first")
    ana = await graph.state_entity(tenant, "ana", "person", key="second")
    first = (await memory.get_active_memories(tenant, keys=["first"]))[0]

    receipt = await memory.admin.erase(tenant, memory_id=first.id)

    assert (await memory.admin.verify_erased(receipt, text="the mill")).ok
    assert [(one.id, one.mentions) for one in await graph.entities(tenant)] == [(ana.id, 1)]
    assert (await graph.neighbourhood(tenant, "ana")).relationships == ()
    assert (await memory.admin.verify(tenant)).ok


async def test_a_name_taken_from_another_memory_does_not_outlive_it(
    memory: AgentMem, tenant: str, graph: MemoryGraph
) -> None:
    """By its id, an entity brings the name that another memory gave it; otherwise the caller gives it."""
    await _note(memory, tenant, "the baker from lisbon", "first")
    ana = await graph.state_entity(tenant, "Ana Sousa", "person", key="first")
    for key in ("by id", "by name"):
        await _note(memory, tenant, f"she has a cousin, {key}", key)
    by_id = await graph.state_relationship(tenant, ana.id, "cousin_of", "Piet", key="by id")
    by_name = await graph.state_relationship(tenant, "Ana Sousa", "aunt_of", "Piet", key="by name")
    first, others = ana.shortterm_memory_id, [by_id, by_name]
    assert [one.from_id for one in others] == [ana.id, ana.id]

    receipt = await memory.admin.erase(tenant, memory_id=first)

    assert (await memory.admin.verify_erased(receipt)).ok
    assert [one.id for one in (await graph.neighbourhood(tenant, "Piet")).relationships] == [by_name.id]
    assert [(one.name, one.type) for one in await graph.entities(tenant, name="ana sousa")] == [("Ana Sousa", "other")]
    last = await graph.state_relationship(tenant, ana.id, "cousin_of", "Piet", key="by name")
    assert (await memory.ledger.read(tenant, kinds=_STATED))[-1].payload["rests_on"] == []
    assert last.from_id == ana.id


@pytest.mark.parametrize("text", ["spymaster", "quiet informant", "codeword"])
async def test_a_text_of_a_statement_is_erased_by_what_it_says(
    memory: AgentMem, tenant: str, graph: MemoryGraph, text: str
) -> None:
    """In a name, a description or metadata: the statement goes, and the memory, which does not say it, stays."""
    await _note(memory, tenant, "she came at noon")
    await graph.state_entity(
        tenant, "the spymaster", key="note", description="a quiet informant", metadata={"about": "the codeword"}
    )

    receipt = await memory.admin.erase(tenant, text=text)

    assert (await memory.admin.verify_erased(receipt, text=text)).ok
    assert await graph.entities(tenant) == []
    assert len(await memory.get_active_memories(tenant)) == 1
    await memory.admin.erase(tenant)
    assert await memory.get_active_memories(tenant) == []


async def test_a_copy_has_the_same_statements(
    memory: AgentMem, tenant: str, graph: MemoryGraph, tmp_path: Path
) -> None:
    """They are events, so an export carries them."""
    await _note(memory, tenant, "ana works at the mill")
    edge = await graph.state_relationship(tenant, "ana", "works_at", "the mill", key="note")
    file = tmp_path / "export.jsonl.zst"
    await memory.admin.export(tenant, file)
    await memory.admin.import_(file, f"{tenant}-2")

    there = await graph.neighbourhood(f"{tenant}-2", "ana")
    assert [(one.id, one.type) for one in there.relationships] == [(edge.id, "works_at")]
    assert (await memory.admin.verify(f"{tenant}-2")).ok


async def test_the_history_of_a_memory_shows_what_was_stated_on_it(
    memory: AgentMem, tenant: str, graph: MemoryGraph
) -> None:
    """With the version that it had then, and the passages that count; the memory itself is as it was."""
    await _note(memory, tenant, "ana works at the mill")
    await graph.state_relationship(tenant, "ana", "works_at", "the mill", key="note")
    note = (await memory.get_active_memories(tenant, keys=["note"]))[0]
    await memory.update_active_memory(tenant, key="note", content="ana bakes")
    await graph.state_entity(tenant, "ana", key="note")

    history = await memory.admin.history(tenant, note.id)

    assert [[step.kind for step in version.derived] for version in history.versions] == [
        ["memory.relationship_stated"],
        ["memory.entity_stated"],
    ]
    assert [version.derived[0].chunk_ids for version in history.versions] == [
        tuple(chunk.id for chunk in version.chunks) for version in history.versions
    ]
    [then] = await memory.admin.active_memories(tenant, known_at=history.versions[0].recorded_at)
    assert (then.id, then.content, then.version) == (note.id, "ana works at the mill", 1)


async def test_a_repeated_call_with_a_key_writes_once(memory: AgentMem, tenant: str, graph: MemoryGraph) -> None:
    """A retry gets what there is; another request with the same key is refused."""
    await _note(memory, tenant, "ana works at the mill")

    async def state(type_: str) -> Any:
        return await graph.state_relationship(tenant, "ana", type_, "mill", key="note", idempotency_key="once")

    assert await state("works_at") == await state("works_at")
    one = await graph.state_entity(tenant, "ana", "person", key="note", idempotency_key="twice")
    assert await graph.state_entity(tenant, "ana", "person", key="note", idempotency_key="twice") == one
    assert len(await memory.ledger.read(tenant, kinds=_STATED)) == 2
    with pytest.raises(IdempotencyConflictError):
        await state("owns")


async def test_recall_follows_what_was_stated(memory: AgentMem, tenant: str, graph: MemoryGraph) -> None:
    """A question that names one end finds what is known of the other, though no text has both names."""
    for number in range(20):
        await memory.create_active_memory(tenant, "Trams", f"the tram number {number} was late again")
    boat = "keeps a boat with red sails in the small harbour"
    await _note(memory, tenant, boat, "piet")
    await _note(memory, tenant, "the two of them are cousins", "cousins")
    question = "Which sport does Ana Sousa's family do?"
    before = await memory.retrieve_memories(tenant, question)
    await graph.state_entity(tenant, "Piet Bakker", "person", key="piet")
    await graph.state_relationship(tenant, "Ana Sousa", "cousin_of", "Piet Bakker", key="cousins")

    after = await memory.retrieve_memories(tenant, question)

    assert before.entities == ()
    assert {entity.name for entity in after.entities} == {"Ana Sousa", "Piet Bakker"}
    assert boat in {hit.content for hit in after.hits[:2]}
    [by_graph] = [hit.score_parts["graph"] for hit in after.hits if hit.content == boat]
    assert by_graph > 0
    assert not any("graph" in hit.score_parts for hit in before.hits)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda graph, tenant: graph.state_entity(tenant, "ana"), "neither is given"),
        (lambda graph, tenant: graph.state_entity(tenant, "ana", key="note", memory_id=uuid4()), "both are given"),
        (lambda graph, tenant: graph.state_entity(tenant, " ", key="note"), "must not be empty"),
        (lambda graph, tenant: graph.state_entity(tenant, "x" * 501, key="note"), "the limit is 500"),
        (lambda graph, tenant: graph.state_entity(tenant, _CARD, key="note"), "looks like a secret"),
        (lambda graph, tenant: graph.state_entity(tenant, "'s", key="note"), "leaves nothing to find an entity by"),
        (lambda graph, tenant: graph.state_entity(tenant, "ana", "!", key="note"), "has no letter or digit"),
        (lambda graph, tenant: graph.state_entity(tenant, "ana", "İ" * 60, key="note"), "the limit is 100"),
        (lambda graph, tenant: graph.state_entity(tenant, "ana", key="note", metadata=[1]), "must be a mapping"),
        (lambda graph, tenant: graph.state_entity(tenant, "ana", key="note", source="web"), "is unknown"),
        (
            lambda graph, tenant: graph.state_relationship(tenant, "ana", "", "mill", key="note"),
            "has no letter or digit",
        ),
        (lambda graph, tenant: graph.state_relationship(tenant, 7, "owns", "mill", key="note"), "must be a str"),
        (
            lambda graph, tenant: graph.state_relationship(tenant, "ana", "is", "Ana", key="note"),
            "mean the same entity",
        ),
        (
            lambda graph, tenant: graph.state_relationship(
                tenant, "ana", "owns", "mill", key="note", start_date=day(2), end_date=day(1)
            ),
            "is before start_date",
        ),
    ],
)
async def test_what_cannot_be_stated_is_refused_before_anything_is_written(
    memory: AgentMem, tenant: str, graph: MemoryGraph, call: Callable[[MemoryGraph, str], Awaitable[Any]], problem: str
) -> None:
    """The message names the value and the way out."""
    await _note(memory, tenant, "ana works at the mill")
    with pytest.raises(InvalidInputError, match=problem):
        await call(graph, tenant)
    assert await memory.ledger.head(tenant) == 1


async def test_what_is_not_there_supports_nothing(memory: AgentMem, tenant: str, graph: MemoryGraph) -> None:
    """Nor can a relationship have an end that does not exist, or another tenant's."""
    await _note(memory, tenant, "ana works at the mill")
    ana = await graph.state_entity(tenant, "ana", key="note")
    await memory.create_active_memory(f"{tenant}-2", "Note", "ben", key="theirs")

    with pytest.raises(MemoryNotFoundError):
        await graph.state_entity(tenant, "ana", key="theirs")
    with pytest.raises(MemoryNotFoundError):
        await graph.state_entity(tenant, "ana", memory_id=uuid4())
    with pytest.raises(EntityNotFoundError):
        await graph.state_relationship(f"{tenant}-2", ana.id, "knows", "ben", key="theirs")
    assert await graph.entities(f"{tenant}-2") == []


async def test_an_end_that_was_said_outlasts_a_memory_that_had_said_it(
    memory: AgentMem, tenant: str, graph: MemoryGraph
) -> None:
    """Only a memory of a later time takes it back, as everywhere in the graph."""
    await _note(memory, tenant, "ana works at the mill", occurred_at=day(1))
    edge = await graph.state_relationship(tenant, "ana", "works_at", "mill", key="note")
    ended = await graph.end_relationship(tenant, edge.id, end_date=day(10))

    same = await graph.state_relationship(tenant, "ana", "works_at", "mill", key="note")
    assert (same.id, same.end_date) == (edge.id, ended.end_date)
    await _note(memory, tenant, "ana works at the mill again", "later", occurred_at=day(10) + timedelta(days=1))
    again = await graph.state_relationship(tenant, "ana", "works_at", "mill", key="later", start_date=day(1))
    assert (again.id, again.end_date) == (edge.id, None)
