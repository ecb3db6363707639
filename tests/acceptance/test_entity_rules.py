"""Without a model, a consolidation records what entities are, and what sentences say of two of them."""

from __future__ import annotations

from typing import Any

from agent_reminiscence import AgentMem
from agent_reminiscence.domain.event import EventKind


async def _consolidate(memory: AgentMem, tenant: str, text: str, **others: Any) -> None:
    note = await memory.create_active_memory(tenant, "note", text, **others)
    await memory.admin.consolidate(tenant, note.id)


async def _types(memory: AgentMem, tenant: str) -> dict[str, str]:
    return {entity.name: entity.type for entity in await memory.admin.graph.entities(tenant)}


async def _stated(memory: AgentMem, tenant: str) -> set[tuple[str, str, str]]:
    found = await memory.admin.graph.match(tenant)
    return {(one.source.name, one.relationship.type, one.target.name) for one in found}


async def test_types_and_relationships_are_recorded_and_replayed(memory: AgentMem, tenant: str) -> None:
    """Direction included; a pair with a stated relationship is not `related_to` as well. A rebuild gives the same."""
    await _consolidate(memory, tenant, "Mara Lindt works for Siemens.\n\nTom Berger wohnt in Kiel.")

    assert await _types(memory, tenant) == {
        "Mara Lindt": "person",
        "Siemens": "organization",
        "Tom Berger": "person",
        "Kiel": "place",
    }
    expected = {("Mara Lindt", "works_for", "Siemens"), ("Tom Berger", "lives_in", "Kiel")}
    assert await _stated(memory, tenant) == expected
    [plan] = await memory.ledger.read(tenant, kinds=[EventKind.CONSOLIDATED])
    assert {(one["name"], one["is_guess"]) for one in plan.payload["graph"]["entities"]} == {
        ("Mara Lindt", True),
        ("Siemens", True),
        ("Tom Berger", True),
        ("Kiel", True),
    }

    await memory.admin.rebuild(tenant)

    assert await _stated(memory, tenant) == expected
    assert (await memory.admin.verify(tenant)).ok


async def test_a_relationship_by_rules_has_a_bounded_confidence(memory: AgentMem, tenant: str) -> None:
    """Above that of a pair, below that of a model, and no more than the source is trusted."""
    await _consolidate(memory, tenant, "Mara Lindt works for Siemens.")
    await _consolidate(memory, tenant, "Tom Berger lives in Kiel.", source="import")

    found = await memory.admin.graph.match(tenant)
    assert {(one.relationship.type, one.relationship.confidence) for one in found} == {
        ("works_for", 0.8),
        ("lives_in", 0.7),
    }


async def test_notes_name_no_deadline(memory: AgentMem, tenant: str) -> None:
    """An ordinary noun before a verb is no name, and neither are German nouns."""
    await _consolidate(memory, tenant, "Deadline is 5 May.\n\nTermin ist am Montag.\n\nDer Hund schläft im Garten.")

    assert await _types(memory, tenant) == {}


async def test_what_is_not_said_for_certain_only_stands_together(memory: AgentMem, tenant: str) -> None:
    """Negations, questions, doubts and the past leave two names `related_to` each other."""
    for text in (
        "Mara does not work for Siemens.",
        "Does Tom live in Kiel?",
        "Lena used to work for Bosch.",
        "Vielleicht ist Peter mit Julia verheiratet.",
    ):
        await _consolidate(memory, tenant, text)

    found = await _stated(memory, tenant)
    assert {(frozenset((source, target)), type_) for source, type_, target in found} == {
        (frozenset(("Mara", "Siemens")), "related_to"),
        (frozenset(("Tom", "Kiel")), "related_to"),
        (frozenset(("Lena", "Bosch")), "related_to"),
        (frozenset(("Peter", "Julia")), "related_to"),
    }


async def test_i_is_the_speaker_if_there_is_one(memory: AgentMem, tenant: str) -> None:
    """Nobody knows who an unnamed user is, so "I" makes no entity and no relationship then."""
    await _consolidate(memory, tenant, "Mara: I work for Siemens.\nuser: I live in Kiel.")

    assert await _types(memory, tenant) == {"Mara": "person", "Siemens": "organization", "Kiel": "place"}
    assert await _stated(memory, tenant) == {("Mara", "works_for", "Siemens")}


async def test_a_guess_stands_and_makes_no_second_entity(memory: AgentMem, tenant: str) -> None:
    """The first sure type stands, whatever later mentions look like."""
    await _consolidate(memory, tenant, "Mara Lindt works for Brelow.")
    await _consolidate(memory, tenant, "We flew to Brelow on Friday.")

    assert await _types(memory, tenant) == {"Brelow": "organization", "Mara Lindt": "person"}


async def test_a_stated_type_replaces_a_guess_and_no_guess_replaces_it(memory: AgentMem, tenant: str) -> None:
    """A user's word wins, once and for all, also in a rebuild."""
    await _consolidate(memory, tenant, "We sailed on Margarida, and Margarida was fast.", key="boats")
    await _consolidate(memory, tenant, "We flew to Margarida on Friday.")
    assert await _types(memory, tenant) == {"Margarida": "place"}

    boat = await memory.admin.graph.state_entity(tenant, "Margarida", "boat", key="boats")
    await _consolidate(memory, tenant, "They travelled to Margarida again.")

    assert await _types(memory, tenant) == {"Margarida": "boat"}
    assert boat.mentions >= 2
    await memory.admin.rebuild(tenant)
    assert await _types(memory, tenant) == {"Margarida": "boat"}
    assert (await memory.admin.verify(tenant)).ok
    # A second statement is not a guess: it means something else of that name.
    await memory.admin.graph.state_entity(tenant, "Margarida", "person", key="boats")
    assert len(await memory.admin.graph.entities(tenant, name="Margarida")) == 2
