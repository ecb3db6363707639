"""How names are compared, and what an event may say of them."""

from __future__ import annotations

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent_reminiscence.config.constants import MAX_ENTITY_NAME_CHARACTERS
from agent_reminiscence.domain.graph import strength
from agent_reminiscence.domain.payloads import EntityEntry, RelationshipEntry
from agent_reminiscence.text.folding import NAME_KEY_CHARACTERS, name_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("José García", "jose garcia"),
        ("Ana  Sousa ", "ANA SOUSA"),
        ("Dr. Okonkwo", "Okonkwo"),
        ("Prof. Dr. Meyer", "meyer"),
        ("Ana’s", "Ana"),
        ("\uff21\uff2e\uff21", "Ana"),
        ("Алёна", "Алена"),
        ("Ünal", "unal"),
    ],
)
def test_spellings_of_one_name_have_one_key(one: str, other: str) -> None:
    """Case, accents, width, titles, spaces and a possessive tell nobody apart."""
    assert name_key(one) == name_key(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ガク", "カク"),
        ("バンド", "ハンド"),
        ("Андрей", "Андреи"),
        ("MS Office", "Office"),
        ("Ana", "Anna"),
        ("क़लम", "कलम"),
    ],
)
def test_other_letters_have_other_keys(one: str, other: str) -> None:
    """A mark that makes another letter, and capitals that are no title: equality of keys cannot be undone."""
    assert name_key(one) != name_key(other)


@given(st.text(max_size=2 * MAX_ENTITY_NAME_CHARACTERS))
def test_a_key_fits_an_index(name: str) -> None:
    """However long a name folds: one character may become eighteen."""
    assert len(name_key(name)) <= NAME_KEY_CHARACTERS + 65


def test_long_names_that_begin_alike_have_different_keys() -> None:
    """What is cut off counts all the same."""
    assert name_key("ﷺ" * 500) != name_key("ﷺ" * 499 + "x")


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "x" * (MAX_ENTITY_NAME_CHARACTERS + 1)])
def test_an_event_refuses_a_name_that_the_stores_could_not_keep(name: str) -> None:
    """Blank, with NUL, or longer than documented: as a name, an alias or a type."""
    given_: dict[str, object] = {"id": uuid4(), "confidence": 1, "importance": 1, "chunks": ()}

    EntityEntry.model_validate(given_ | {"name": "Ana", "type": "person"})
    for wrong in (
        {"name": name, "type": "person"},
        {"name": "Ana", "type": name},
        {"name": "A", "type": "b", "aliases": [name]},
    ):
        with pytest.raises(ValidationError):
            EntityEntry.model_validate(given_ | wrong)
    with pytest.raises(ValidationError):
        RelationshipEntry.model_validate(given_ | {"from_id": uuid4(), "to_id": uuid4(), "type": name})


def test_strength_grows_with_each_observation_and_stays_below_one() -> None:
    """Half at the third, and never for certain."""
    assert [strength(n) for n in (0, 3, 6)] == [0.0, 0.5, 0.75]
    assert strength(40) < 1
