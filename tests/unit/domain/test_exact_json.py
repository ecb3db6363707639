"""Values that come back from a list of their parts as they were."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_reminiscence.domain.exact_json import flatten, restore

# Surrogates as well, which JSON may hold.
_TEXTS = st.text(st.characters(codec=None), max_size=8)
_NUMBERS = st.integers() | st.floats(allow_nan=False)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(value=_VALUES)
@example(value={"b": 1, "a": {"text": ["x"]}, "object": 2})
@example(value=["\x00", "\ud800", "a\x00b", -0.0, 1e22, 1e-9, 5e-324, 1.0, 10**30, {}, [], ""])
def test_every_json_value_comes_back_with_its_keys_in_order(value: Any) -> None:
    """To the letter: the order of keys, the kind and the sign of a number."""
    parts = json.loads(json.dumps(flatten(value)))

    assert json.dumps(restore(parts)) == json.dumps(value)


@given(value=_VALUES)
def test_the_parts_survive_what_jsonb_does_to_them(value: Any) -> None:
    """It sorts keys, writes numbers out, and refuses NUL and lone surrogates."""
    parts = _like_jsonb(flatten(value))

    assert json.dumps(restore(parts)) == json.dumps(value)


def test_numbers_that_json_has_not_come_back_as_well() -> None:
    """The standard library writes them, and so a session may hold one."""
    assert restore(flatten([math.inf, -math.inf])) == [math.inf, -math.inf]
    assert math.isnan(restore(flatten(math.nan)))


def test_a_value_may_be_nested_more_deeply_than_a_payload() -> None:
    """The list of its parts is flat."""
    value: Any = "the innermost"
    for number in range(60):
        value = {"number": number, "next": [value]}

    assert restore(flatten(value)) == value
    assert all(not isinstance(part, dict) or not any(map(_is_nested, part.values())) for part in flatten(value))


def test_what_json_has_no_form_for_takes_the_form_that_json_gives_it() -> None:
    """As in the standard library, which other sessions use."""
    assert restore(flatten({1: (2, 3), None: True})) == {"1": [2, 3], "null": True}


@pytest.mark.parametrize(
    "parts",
    [
        [],
        ["one", "two"],
        [{"object": 1}, "key"],
        [{"list": 2}, "one"],
        [{"list": "two"}],
        [{"unknown": 1}],
        [{}],
        [{"object": 1, "list": 1}],
        [{"object": 1}, {"list": 0}, "a key that is a list"],
        [{"text": 5}],
        [{"float": "one"}],
    ],
)
def test_other_parts_are_refused(parts: list[Any]) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r"JSON value|unknown kind|unpack|float"):
        restore(parts)


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | dict) and any(isinstance(item, list | dict) for item in value)


def _like_jsonb(value: Any) -> Any:
    """A value as it comes out of a column."""
    match value:
        case str():
            assert "\x00" not in value
            value.encode()
        case float():
            # The server writes numbers without an exponent.
            assert "e" not in repr(value)
            return json.loads(repr(value))
        case list():
            return [_like_jsonb(item) for item in value]
        case dict():
            return {key: _like_jsonb(value[key]) for key in sorted(value, key=lambda key: (len(key), key))}
    return value
