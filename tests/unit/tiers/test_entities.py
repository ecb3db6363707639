"""From the names in a memory's new chunks to what is recorded of entities and relationships."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

from agent_reminiscence.config.constants import Tier
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName, KnownRelationship
from agent_reminiscence.domain.graph import TOGETHER, together_confidence
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import ChunkRating, GraphChanges
from agent_reminiscence.services.tiers.entities import (
    PlannedEntity,
    combine,
    draft_entities,
    find_likely,
    find_unknown,
    plan_merges,
    read_names,
    resolve_entities,
)
from agent_reminiscence.services.tiers.relationships import MAX_PAIRED_ENTITIES, find_pairs, plan_graph
from agent_reminiscence.text.folding import name_key


def make_chunk(content: str, *, speaker: str | None = None, tier: Tier = "active") -> StoredChunk:
    """A live chunk."""
    return StoredChunk(
        chunk_id=uuid4(),
        content=content,
        speaker=speaker,
        tier=tier,
        importance=0.5,
        confidence=1.0,
        source="user",
        memory_version=1,
        start_date=datetime(2024, 3, 1, tzinfo=UTC),
    )


def known_name(
    name: str, *, type: str = "other", mentions: int = 1, canonical_id: UUID | None = None
) -> KnownEntityName:
    """A row of what an entity is called."""
    entity_id = uuid4()
    return KnownEntityName(
        key=name_key(name),
        entity_id=entity_id,
        canonical_id=canonical_id or entity_id,
        name=name,
        type=type,
        mentions=mentions,
    )


def rate(chunks: list[StoredChunk]) -> list[ChunkRating]:
    """Each chunk more important than the one before it."""
    return [
        ChunkRating(id=chunk.chunk_id, importance=round(0.1 * number, 6), confidence=1.0)
        for number, chunk in enumerate(chunks, start=1)
    ]


def plan(
    chunks: list[StoredChunk],
    known: list[KnownEntityName] | None = None,
    existing: list[KnownRelationship] | None = None,
) -> GraphChanges:
    """The whole way, as a consolidation goes it."""
    drafted = draft_entities(chunks, read_names(chunks, known or []))
    planned = resolve_entities(drafted, known or [])
    return plan_graph(planned, find_pairs(planned), existing or [], rate(chunks))


def names(changes: GraphChanges) -> set[str]:
    """What the plan's entities are called."""
    return {entity.name for entity in changes.entities}


def test_names_that_stand_in_one_chunk_are_related() -> None:
    """What a chunk names has to do with each other, and with nothing of another chunk."""
    changes = plan([make_chunk("We met Ana Sousa at the Blue Mill."), make_chunk("Later we saw Piet Bakker in Faro.")])

    by_id = {entity.id: entity for entity in changes.entities}
    pairs = {(by_id[r.from_id].name, by_id[r.to_id].name, r.chunks) for r in changes.relationships}
    assert pairs == {("Ana Sousa", "Blue Mill", (0,)), ("Piet Bakker", "Faro", (1,))}
    assert all(r.type == TOGETHER and r.confidence == 0.3 for r in changes.relationships)


def test_an_entity_is_as_important_as_the_best_chunk_that_names_it() -> None:
    """Importance comes from the chunks."""
    changes = plan([make_chunk("We met Ana Sousa."), make_chunk("We like the mill."), make_chunk("We miss Ana Sousa.")])

    (ana,) = changes.entities
    assert (ana.name, ana.chunks, ana.importance) == ("Ana Sousa", (0, 2), 0.3)


def test_chunks_that_were_read_before_are_not_read_again() -> None:
    """A second consolidation records what is new only: the rest is in an earlier event."""
    changes = plan([make_chunk("We met Ana Sousa in Faro.", tier="shortterm"), make_chunk("We went to Tavira.")])

    assert names(changes) == {"Tavira"}


def test_a_known_name_is_its_entity() -> None:
    """The same name, however it is spelled, leads to the entity that has it."""
    ana = known_name("Ana Sousa", type="person")

    changes = plan([make_chunk("We met ANA SOUSA and Piet Bakker.")], [ana])

    assert {entity.id for entity in changes.entities if name_key(entity.name) == ana.key} == {ana.entity_id}
    assert len(changes.entities) == 2


def test_a_name_of_another_type_is_another_entity() -> None:
    """A person and a company of one name stay apart; where a type is open, it is the one that is there."""
    drafted = _drafted("Mercedes", "person")
    company, unclear = known_name("Mercedes", type="organization"), known_name("Mercedes", type="other")

    assert resolve_entities([drafted], [company])[0].entity_id == drafted.entity_id
    assert resolve_entities([drafted], [company, unclear])[0].entity_id == unclear.entity_id
    open_type = _drafted("Mercedes", "other")
    assert resolve_entities([open_type], [company])[0].entity_id == company.entity_id


def test_a_guessed_type_makes_no_other_entity() -> None:
    """Neither a new guess beside a known type nor a known guess beside a stated one: that only replaces it."""
    guessed = replace(_drafted("Mercedes", "person"), is_guess=True)
    company, place = known_name("Mercedes", type="organization"), known_name("Mercedes", type="place")
    known_guess = replace(place, is_guess=True)

    assert resolve_entities([guessed], [company])[0].entity_id == company.entity_id
    assert resolve_entities([_drafted("Mercedes", "person")], [known_guess])[0].entity_id == place.entity_id
    # The same type fits better than one that was guessed.
    [fitting] = resolve_entities([_drafted("Mercedes", "organization")], [known_guess, company])
    assert fitting.entity_id == company.entity_id


def test_a_type_that_a_model_read_stands_before_a_guess() -> None:
    """In whichever order both come; then it is no guess."""
    guessed, read = replace(_drafted("Margarida", "person"), is_guess=True), _drafted("Margarida", "boat")

    for order in ([guessed, read], [read, guessed]):
        [entity] = combine(order)
        assert (entity.type, entity.is_guess) == ("boat", False)


def test_two_names_of_one_entity_are_one_entry() -> None:
    """Both of an entity's names in one text say the same of it once, and are no pair."""
    ana = known_name("Ana Sousa", type="person")
    alias = KnownEntityName("nita", ana.entity_id, ana.entity_id, "Ana Sousa", "person", 3)
    drafted = [_drafted("Ana Sousa", "person", (0, 1)), _drafted("Nita", "person", (1, 2))]

    (planned,) = resolve_entities(drafted, [ana, alias])

    assert (planned.passages, planned.aliases) == ((0, 1, 2), ("Nita",))
    assert find_pairs([planned]) == {}


def test_entities_that_are_merged_are_no_pair() -> None:
    """Nothing stands together with itself under another name."""
    ana = known_name("Ana Sousa", type="person")
    merged = known_name("Anna Sousa", type="person", canonical_id=ana.canonical_id)
    drafted = [_drafted("Ana Sousa", "person"), _drafted("Anna Sousa", "person")]

    planned = resolve_entities(drafted, [ana, merged])

    assert len(planned) == 2
    assert find_pairs(planned) == {}


def test_a_pair_that_is_known_is_observed_once_more() -> None:
    """The relationship keeps its id and its direction, and becomes surer with what was observed before."""
    ana, piet = known_name("Ana Sousa"), known_name("Piet Bakker")
    known = KnownRelationship(uuid4(), piet.entity_id, ana.entity_id, observations=1)

    changes = plan([make_chunk("We met Ana Sousa and Piet Bakker.")], [ana, piet], [known])

    (relationship,) = changes.relationships
    assert relationship.id == known.relationship_id
    assert (relationship.from_id, relationship.to_id) == (piet.entity_id, ana.entity_id)
    assert relationship.confidence == together_confidence(2) == 0.45


def test_standing_together_is_never_sure() -> None:
    """However often: it says that two have to do with each other, not what."""
    assert together_confidence(1) == 0.3
    assert 0.59 < together_confidence(50) <= 0.6


def test_a_long_list_relates_only_its_first_names() -> None:
    """A chunk that names a hundred people does not make five thousand relationships."""
    people = [f"Guest{chr(65 + n % 26)}{chr(97 + n // 26)}x Marlow" for n in range(40)]
    drafted = [_drafted(name, "person") for name in people]

    pairs = find_pairs(resolve_entities(drafted, []))

    assert len(pairs) == MAX_PAIRED_ENTITIES * (MAX_PAIRED_ENTITIES - 1) // 2


def test_a_new_spelling_of_a_known_name_is_merged_into_it() -> None:
    """The new name gets an entity of its own, so that the merge can be undone."""
    caroline = known_name("Caroline Becker", type="person", mentions=9)
    chunks = [make_chunk("Yesterday we met Carolline Becker again.")]
    drafted = draft_entities(chunks, read_names(chunks, []))
    drafted = find_likely(drafted, find_unknown(drafted, []), [caroline])
    planned = resolve_entities(drafted, [])

    (merge,) = plan_merges(planned)

    assert (merge.survivor_id, merge.merged_id) == (caroline.entity_id, planned[0].entity_id)
    assert merge.reason == "alike"
    assert merge.score is not None
    assert merge.score > 0.8


def test_a_name_that_got_known_meanwhile_is_not_merged() -> None:
    """What the draft took for new may have an entity by the time of the plan; that one has it then."""
    caroline, typo = known_name("Caroline Becker"), known_name("Carolline Becker")
    chunks = [make_chunk("Yesterday we met Carolline Becker again.")]
    drafted = draft_entities(chunks, read_names(chunks, []))
    drafted = find_likely(drafted, drafted, [caroline])

    planned = resolve_entities(drafted, [typo])

    assert planned[0].entity_id == typo.entity_id
    assert plan_merges(planned) == []


def _drafted(name: str, type_: str, passages: tuple[int, ...] = (0,)) -> PlannedEntity:
    """A name that was found in some passages."""
    new_id = uuid4()
    return PlannedEntity(new_id, name_key(name), name, type_, 0.9, passages, (new_id,))


def test_a_plan_says_only_what_its_own_memory_says() -> None:
    """Linked in lower case, a name is spelled as it stands there; another memory's spelling and type may be erased."""
    okonkwo = known_name("Dr. Okonkwo", type="person")

    (entity,) = plan([make_chunk("lunch with okonkwo was fun")], [okonkwo]).entities

    assert (entity.id, entity.name, entity.type) == (okonkwo.entity_id, "okonkwo", "other")


def test_an_alias_is_counted_to_the_entity_that_was_given_it() -> None:
    """After a merge is undone, each has what was said under its own name."""
    ana = known_name("Ana Sousa", type="person", mentions=9)
    annie_id = uuid4()
    annie = KnownEntityName("annie silva", annie_id, ana.entity_id, "Ana Sousa", "person", 9)
    chunks = [make_chunk("We met Ana Sousa in Faro."), make_chunk("annie silva called me from Tavira.")]

    changes = plan(chunks, [ana, annie])

    by_id = {entity.id: (entity.name, entity.chunks) for entity in changes.entities}
    assert by_id[ana.entity_id] == ("Ana Sousa", (0,))
    assert by_id[annie_id] == ("annie silva", (1,))


def test_the_most_mentioned_of_a_name_is_meant_where_nothing_says_which() -> None:
    """A name in passing is the person whom everybody talks about, not an entity of an open type."""
    famous, unclear = known_name("Mercedes", type="person", mentions=50), known_name("Mercedes", mentions=1)

    (planned,) = resolve_entities([_drafted("Mercedes", "other")], [famous, unclear])

    assert planned.entity_id == famous.entity_id
