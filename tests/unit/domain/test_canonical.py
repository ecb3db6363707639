"""One byte string per value: what jsonb does to a value must not change its digest."""

from __future__ import annotations

import hashlib
import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.domain import canonical
from agent_reminiscence.domain.canonical import beside, canonical_json, json_text, read_json, sha256

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


@pytest.mark.thorough
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


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


@settings(max_examples=200, deadline=None)
@given(value=JSON, size=st.integers(1, 200), portion=st.integers(1, 3))
def test_a_value_in_portions_has_the_text_that_it_has_in_one(value: Any, size: int, portion: int) -> None:
    """Where a portion ends says nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical, "_ENCODED", size)
        patch.setattr(canonical, "_PORTION", portion)

        assert json_text(value) == _plain(value)


@pytest.mark.thorough
def test_no_call_of_the_encoder_is_given_all_of_a_large_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the interpreter's lock until it returns."""
    sizes: list[int] = []

    def noting(value: Any) -> str:
        sizes.append(len(_plain(value)))
        return _plain(value)

    monkeypatch.setattr(canonical, "_dumps", noting)
    value = {
        "chunks": [{"id": str(number), "start": number, "metadata": {}} for number in range(50_000)],
        "deep": {"er": {str(number): [number] * 9 for number in range(9_000)}},
    }

    assert json_text(value) == _plain(value)
    assert max(sizes) <= 100_000


@given(value=JSON | st.decimals(allow_nan=False, allow_infinity=False) | st.binary(max_size=3))
def test_a_fraction_is_seen_wherever_it_stands(value: Any) -> None:
    """Told by the classes of many at once, or by each."""

    def has_fraction(item: Any) -> bool:
        if isinstance(item, dict):
            return any(map(has_fraction, item.values()))
        if isinstance(item, list):
            return any(map(has_fraction, item))
        return not (item is None or isinstance(item, str | int))

    assert canonical._has_fraction(value) == has_fraction(value)


@pytest.mark.parametrize(
    ("value", "is_large"),
    [
        (None, False),
        ("a" * 7_999, False),
        ("a" * 8_000, True),
        ({"deep": [{"er": ["a" * 4_000, "a" * 4_000]}]}, True),
        ([0] * 499, False),
        ([0] * 500, True),
        ({"one": {"two": {}}}, False),
    ],
)
def test_what_is_large_goes_by_its_texts_and_the_number_of_its_items(value: object, is_large: bool) -> None:
    """So the loop is left alone with what takes long, at any depth."""
    assert canonical.is_large(value) is is_large


@pytest.mark.parametrize("size", [10, 8_000])
async def test_what_is_large_is_worked_on_in_a_thread(size: int) -> None:
    """And what is small without one."""
    thread = await beside(threading.get_ident, value={"text": "a" * size})

    assert (thread == threading.get_ident()) == (size == 10)


@given(JSON)
def test_a_large_text_is_read_as_a_small_one(value: Any) -> None:
    """Item by item, whatever stands in it; PostgreSQL puts a space behind each colon and each comma."""
    text = json.dumps(value, ensure_ascii=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical, "_ENCODED", 0)
        assert read_json(text) == json.loads(text)


def test_very_deep_objects_are_read() -> None:
    """Levels that are not walked are left to the standard library."""
    value: Any = 1
    for _ in range(200):
        value = {"inner": value}
    text = json.dumps(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical, "_ENCODED", 0)
        assert read_json(text) == value
