"""One byte string per value: what jsonb does to a value must not change its digest."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.domain.canonical import canonical_json, sha256

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def _reversed(value: Any) -> Any:
    match value:
        case dict():
            return {key: _reversed(item) for key, item in reversed(value.items())}
        case list():
            return tuple(_reversed(item) for item in value)
    return value


@settings(max_examples=50, deadline=None)
@given(value=JSON)
def test_the_order_of_keys_and_the_kind_of_list_do_not_matter(value: Any) -> None:
    """jsonb keeps neither."""
    assert canonical_json(_reversed(value)) == canonical_json(value)


@settings(max_examples=50, deadline=None)
@given(first=JSON, second=JSON)
def test_different_values_have_different_spellings(first: Any, second: Any) -> None:
    """Equal spellings mean equal values, so a digest tells a changed payload."""
    if canonical_json(first) == canonical_json(second):
        assert first == second


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (1e5, "100000"),
        (100000, "100000"),
        (1.50, "1.5"),
        (1e-7, "0.0000001"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (2**70, "1180591620717411303424"),
        (True, "true"),
        (None, "null"),
        ('é\n"', '"é\\n\\""'),
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
    ],
)
def test_each_value_has_one_spelling(value: Any, spelling: str) -> None:
    """As PostgreSQL would write its number, without exponent and without needless zeros."""
    assert canonical_json(value) == spelling


@pytest.mark.parametrize("value", [{1}, b"x", object()])
def test_what_is_not_json_has_no_spelling(value: object) -> None:
    """Rather no digest than one that cannot be computed again."""
    with pytest.raises(TypeError, match="is not a JSON value"):
        canonical_json(value)


def test_a_hash_is_that_of_the_parts_together() -> None:
    """SHA-256, as any other tool computes it."""
    assert sha256(b"ab", b"", b"c") == hashlib.sha256(b"abc").digest()
