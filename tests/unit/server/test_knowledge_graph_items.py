"""How entities and relations stand in memories: exactly, and each under a key of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.server.mcp.knowledge_graph import items
from agent_reminiscence.server.mcp.knowledge_graph.models import Entity, Relation
from agent_reminiscence.services import validation
from agent_reminiscence.text.chunking import chunk_text

# As JSON can hold them: no half of a character.
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
_odd = st.sampled_from(
    ["", " ", "\0", "\x1a", "\x1a0", "\x1a\x1a0", "\0\x1a", "\n", "/", "#", "entity/x", "é", "e\u0301"]
)
_names = _texts | _odd | st.builds(lambda first, second: first + second, _odd, _odd)
_entities = st.builds(
    lambda name, type_, said: Entity(name=name, entity_type=type_, observations=said),
    _names,
    _names,
    st.lists(_names, max_size=5),
)
_relations = st.builds(
    lambda source, target, type_: Relation(from_=source, to=target, relation_type=type_), _names, _names, _names
)


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _strings(one)
        case dict():
            for one in value.values():
                yield from _strings(one)


@given(_names, _names)
def test_two_names_have_two_keys(first: str, second: str) -> None:
    """Else one entity would be the other; and each key is one that a memory takes."""
    assert (items.entity_key(first) == items.entity_key(second)) == (first == second)
    for name in (first, second):
        assert validation.new_memory_key(items.entity_key(name)) == items.entity_key(name)


@given(_relations, _relations)
def test_two_relations_have_two_keys(first: Relation, second: Relation) -> None:
    """However their names could be put together otherwise; none is the key of an entity."""
    keys = items.relation_key(first), items.relation_key(second)
    assert (keys[0] == keys[1]) == (first == second)
    assert validation.new_memory_key(keys[0]) == keys[0]
    assert keys[0] != items.entity_key(first.from_)


@pytest.mark.thorough
@given(st.recursive(_names, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("a"), inner)))
def test_what_is_stored_comes_back(value: Any) -> None:
    """Without a NUL in between, which PostgreSQL does not store."""
    stored = items.stored(value)
    assert "\0" not in "".join(_strings(stored))
    assert items.given(stored) == value


@given(_entities)
def test_a_memory_takes_every_entity(entity: Entity) -> None:
    """Its title, its text and its metadata are ones that may be stored."""
    metadata = validation.memory_metadata(items.entity_metadata(entity), None)
    assert items.given(metadata[items.ABOUT]["entity"]) == entity.model_dump(by_alias=True)
    assert validation.title(items.title_of(entity.name))
    assert validation.content(items.entity_text(entity))


@given(_relations)
def test_a_memory_takes_every_relation(relation: Relation) -> None:
    """And is found by the ids of both names."""
    metadata = validation.memory_metadata(items.relation_metadata(relation), None)
    assert items.given(metadata[items.ABOUT]["relation"]) == relation.model_dump(by_alias=True)
    assert metadata[items.ABOUT]["ends"] == [items.name_id(relation.from_), items.name_id(relation.to)]
    assert validation.title(items.title_of(relation.from_))
    assert validation.content(items.relation_text(relation))


def test_each_observation_is_a_passage() -> None:
    """So one that is added or taken away leaves those of the others as they are, and a recall quotes it alone."""
    entity = Entity(name="Ana_Sousa", entity_type="person", observations=["Bakes bread", "Has a boat"])
    text = items.entity_text(entity)
    passages = [text[span.start : span.end].strip() for span in chunk_text(text)]
    assert passages == ["Ana_Sousa (person)", "Bakes bread", "Has a boat"]
