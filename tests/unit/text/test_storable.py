"""What PostgreSQL cannot hold is replaced, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.text.storable import count_unstorable, is_storable, storable_json, storable_text


@pytest.mark.parametrize(
    ("text", "stored", "replaced"),
    [
        ("", "", 0),
        ("Fähre 🛳 at nine", "Fähre 🛳 at nine", 0),
        ("a\x00b", "a\ufffdb", 1),
        ("\ud83d", "\ufffd", 1),
        ("\ude00\ud83d", "\ufffd\ufffd", 2),
        ("\ud83d\ude00", "😀", 0),
        ("\ud83d\ud83d\ude00\x00", "\ufffd😀\ufffd", 2),
        ("a\ufffdb", "a\ufffdb", 0),
    ],
)
def test_each_character_that_cannot_be_stored_is_replaced_and_counted(text: str, stored: str, replaced: int) -> None:
    """The two halves of a pair, written apart, are the character that they make."""
    assert storable_text(text) == stored
    assert count_unstorable(text) == replaced


@given(st.text(st.characters()))
def test_any_text_becomes_one_that_can_be_stored(text: str) -> None:
    """Whatever stands in it; and what can be stored is not touched."""
    stored = storable_text(text)

    assert is_storable(stored)
    assert stored.encode().decode() == stored
    assert "\x00" not in stored
    assert (stored == text) == is_storable(text)
    assert storable_text(stored) == stored


def test_keys_that_become_equal_stay_two() -> None:
    """No value of an object is lost."""
    value: dict[str, Any] = dict([("a\x00", 1), ("a\ud800", [2, "b\x00"]), ("a\ufffd", {"c": 3})])  # noqa: C406

    stored, replaced = storable_json(value)

    assert replaced == 3
    assert sorted(map(json.dumps, stored.values())) == sorted(map(json.dumps, [1, [2, "b\ufffd"], {"c": 3}]))
    assert stored["a\ufffd"] == {"c": 3}
