"""What a filter accepts, and that stored attributes say of any metadata what the conditions mean."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_reminiscence import Filter, InvalidInputError
from agent_reminiscence.domain.attributes import (
    MAX_COMPARED_CHARACTERS,
    admits,
    beginning_with,
    memory_attributes,
    stored_path,
    stored_value,
)
from tests.support.filters import holds, meets

_NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-3, 3)
_TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=140) | st.sampled_from(
    ["", "a", "ab", "a\x01", "b" * 127, "b" * 128, "b" * 129, "b" * 200]
)
_SCALARS = st.none() | st.booleans() | _NUMBERS | _TEXTS
_KEYS = st.sampled_from(["a", "b", "a.b", "", "\\a", "$c", "b" * 200])
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=6
)
_METADATA = st.dictionaries(_KEYS, _VALUES, max_size=4)
_COMPARABLE = _NUMBERS | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=100)
_OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), _VALUES),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), _COMPARABLE),
    st.tuples(
        st.sampled_from(["$in", "$nin"]),
        st.lists(_VALUES.filter(lambda value: value is not None), min_size=1, max_size=3),
    ),
    st.tuples(
        st.just("$contains"),
        st.lists(_VALUES.filter(lambda value: value is not None and not isinstance(value, list)), min_size=1),
    ),
    st.tuples(st.just("$contains"), _VALUES.filter(lambda value: value is not None and not isinstance(value, list))),
    st.tuples(st.just("$exists"), st.booleans()),
)
_PLAIN_KEYS = st.sampled_from(["a", "b"])
_FEW = st.sampled_from([1, 2, "x", True, None])
_SMALL = st.dictionaries(
    _PLAIN_KEYS, _FEW | st.lists(_FEW, max_size=2) | st.dictionaries(_PLAIN_KEYS, _FEW), max_size=2
)
_SAID = st.one_of(
    st.dictionaries(st.sampled_from(["$eq", "$ne"]), _FEW, min_size=1),
    st.dictionaries(st.sampled_from(["$gt", "$lte"]), st.sampled_from([1, 2, "x"]), min_size=1),
    st.dictionaries(
        st.sampled_from(["$in", "$nin", "$contains"]), st.lists(st.sampled_from([1, 2, "x"]), min_size=1), min_size=1
    ),
    st.builds(lambda there: {"$exists": there}, st.booleans()),
)
_WANTED = st.recursive(
    st.dictionaries(_PLAIN_KEYS, _FEW | _SAID, min_size=1),
    lambda inner: st.one_of(
        st.builds(lambda parts: {"$or": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"$and": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"$not": part}, inner),
        st.dictionaries(_PLAIN_KEYS, inner, min_size=1),
        st.builds(lambda said, part: {"a": {**said, "$not": part}}, _SAID, _SAID),
    ),
    max_leaves=5,
)


def _nested(levels: int) -> dict[str, Any]:
    return {"$not": _nested(levels - 1)} if levels else {"a": 1}


@given(metadata=_METADATA, path=st.lists(_KEYS, min_size=1, max_size=3).map(tuple), operation=_OPERATIONS)
@example(metadata={"a": [1, {"b": 2}]}, path=("a", "b"), operation=("$gt", 1))
@example(metadata={"a": [[1]]}, path=("a",), operation=("$eq", 1))
@example(metadata={"a": [[1]]}, path=("a",), operation=("$eq", [1]))
@example(metadata={"a": 2**53 + 1}, path=("a",), operation=("$eq", 2**53))
@example(metadata={"a.b": 1}, path=("a", "b"), operation=("$eq", 1))
@example(metadata={"a": None}, path=("a",), operation=("$eq", None))
@example(metadata={"a": {}}, path=("a",), operation=("$ne", None))
@example(metadata={"a": "1"}, path=("a",), operation=("$gte", 1))
@example(metadata={"a": True}, path=("a",), operation=("$eq", 1))
@example(metadata={"a": -0.0}, path=("a",), operation=("$eq", 0))
def test_attributes_say_of_any_metadata_what_a_condition_means(
    metadata: dict[str, Any], path: tuple[str, ...], operation: tuple[str, Any]
) -> None:
    """Held against a model that looks at the JSON itself; paths, types, cut texts and large numbers included."""
    operator, operand = operation
    if any(key == "turns" for key in path):
        return
    where = Filter(metadata={path: {operator: operand}})
    attributes = memory_attributes(metadata, conversation_id=None, actor=None, key=None)

    assert admits(where.memory_conditions, attributes) == holds(metadata, path, operator, operand)


@given(metadata=_SMALL, wanted=_WANTED)
@example(metadata={"a": [1]}, wanted={"$not": {"a": {"$contains": 1}}})
@example(metadata={"a": 1}, wanted={"a": {"$contains": 1}})
@example(metadata={"a": None}, wanted={"a": {"$exists": True}})
@example(metadata={}, wanted={"a": {"$nin": [1]}})
@example(metadata={"a": {"b": 1}}, wanted={"a": {"$or": [{"b": 2}, {"b": {"$lt": 2}}]}})
@example(metadata={"a": 1}, wanted={"a": {"$gt": 0, "$not": {"$gt": 1}}})
def test_attributes_say_of_any_metadata_what_an_expression_means(
    metadata: dict[str, Any], wanted: dict[str | tuple[str, ...], Any]
) -> None:
    """With `$and`, `$or` and `$not` around and within paths; read again, the checked copy means the same."""
    where = Filter(metadata=wanted)
    attributes = memory_attributes(metadata, conversation_id=None, actor=None, key=None)

    assert admits(where.memory_conditions, attributes) == meets(metadata, wanted)
    assert where.metadata is not None
    assert Filter(metadata=where.metadata).memory_conditions == where.memory_conditions


@given(left=_NUMBERS, right=_NUMBERS)
@example(left=5e-324, right=0)
@example(left=10**400, right=1e308)
@example(left=-(10**400), right=-1e308)
@example(left=-1, right=-10)
@example(left=-1, right=-1.5)
@example(left=99, right=100)
def test_numbers_sort_as_texts(left: float, right: float) -> None:
    """By value and not by spelling."""
    if len(stored_value(left)) <= MAX_COMPARED_CHARACTERS >= len(stored_value(right)):
        assert (stored_value(left) < stored_value(right)) == (left < right)
        assert (stored_value(left) == stored_value(right)) == (left == right)


@given(prefix=_TEXTS.filter(lambda text: 0 < len(text) <= MAX_COMPARED_CHARACTERS), text=_TEXTS)
@example(prefix="\ud7ff", text="\ud7ff\U0010ffff")
@example(prefix="\U0010ffff", text="\U0010ffff\U0010ffff")
def test_a_prefix_is_a_range(prefix: str, text: str) -> None:
    """Of the texts that begin with it, and of no others."""
    low, high = beginning_with(prefix)
    for candidate in (text, prefix + text):
        assert (low <= stored_value(candidate) < high) == candidate.startswith(prefix)


def test_stored_texts_fit_an_index_entry() -> None:
    """Beside the longest external_id, in characters of four bytes."""
    longest = stored_path(["\U0001f600" * 300] * 9) + stored_value("\U0001f600" * 5_000) + "\U0001f600" * 256

    assert len(longest.encode()) + 100 < 2_704


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"conversation": ["c"]}, "no field 'conversation'; the fields are conversation_ids"),
        ({"actors": "bot"}, "actors must be a list of values, not a str"),
        ({"actors": [3]}, "actors must be a str, not an int"),
        ({"actors": []}, "actors is empty; leave it out"),
        ({"actors": [" "]}, "actors holds ' ', which is blank"),
        ({"actors": ["x" * 257]}, "actors has 257 characters; the limit is 256"),
        ({"actors": ["a\x00"]}, "actors has a NUL character"),
        ({"actors": ["\ud800"]}, "actors has a lone surrogate"),
        ({"actors": [str(n) for n in range(1_001)]}, "actors has 1,001 values; the limit is 1,000"),
        ({"sources": ["bot"]}, "sources holds 'bot'; choose from user, agent"),
        ({"sources": [[]]}, r"sources holds \[\]"),
        ({"memory_ids": ["x"]}, "memory_ids must hold UUIDs"),
        ({"memory_ids": [7]}, "memory_ids must hold UUIDs"),
        ({"key_prefix": 3}, "key_prefix must be a str, not an int"),
        ({"key_prefix": "x" * 121}, "key_prefix has 121 characters; the limit is 120"),
        ({"occurred_after": "2026"}, "occurred_after must be a datetime, not a str"),
        ({"occurred_before": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        (
            {"occurred_after": datetime(2026, 1, 2, tzinfo=UTC), "occurred_before": datetime(2026, 1, 2, tzinfo=UTC)},
            "occurred_after must be earlier than occurred_before",
        ),
        ({"metadata": []}, "metadata must be a mapping of paths to values, not a list"),
        ({"metadata": {}}, "metadata is empty; leave it out"),
        ({"metadata": {"a": {"$regex": "x"}}}, r"metadata\['a'\] has '\$regex', which is not an operator; use \$eq"),
        ({"metadata": {"a": {"$gt": 1, "b": 2}}}, r"metadata\['a'\] has 'b', which is not an operator"),
        ({"metadata": {"a": {"$gt": True}}}, r"metadata\['a'\]\['\$gt'\] compares a str or a number, not a bool"),
        ({"metadata": {"a": {"$lt": None}}}, r"compares a str or a number, not None"),
        ({"metadata": {"a": {"$lt": [1]}}}, r"compares a str or a number, not a list"),
        ({"metadata": {"a": {"$lt": "x" * 121}}}, "is longer than 120 characters"),
        ({"metadata": {"a": {"$gt": math.inf}}}, "JSON cannot represent"),
        ({"metadata": {"a": {"$gt": 10**130 + 1}}}, "is longer than 120 characters"),
        ({"metadata": {"a": {"$in": []}}}, r"metadata\['a'\]\['\$in'\] is empty, so it would admit nothing"),
        ({"metadata": {"a": {"$in": "xyz"}}}, "must be a list of one or more values, not a str"),
        ({"metadata": {"a": {"$in": [None]}}}, "holds None; ask for a missing value"),
        ({"metadata": {"a": {"$in": list(range(1_001))}}}, "has 1,001 values"),
        ({"metadata": {"a": {}}}, r"metadata\['a'\] is empty"),
        ({"metadata": {"$eq": 1}}, r"metadata has '\$eq' where a path or one of \$and, \$or, \$not is expected"),
        ({"metadata": {"a": {"$nin": []}}}, r"metadata\['a'\]\['\$nin'\] is empty, so it would admit everything"),
        ({"metadata": {"a": {"$exists": 1}}}, r"metadata\['a'\]\['\$exists'\] must be True or False, not an int"),
        ({"metadata": {"a": {"$contains": None}}}, r"metadata\['a'\]\['\$contains'\] holds None"),
        ({"metadata": {"a": {"$contains": ["b", ["c"]]}}}, r"metadata\['a'\]\['\$contains'\] holds a list"),
        ({"metadata": {"$or": [{"a": {"$gt": [1]}}]}}, r"metadata\['\$or'\]\[0\]\['a'\]\['\$gt'\] compares"),
        ({"metadata": {"a": {"$or": [{"$in": [1]}, {"$nin": []}]}}}, r"\['a'\]\['\$or'\]\[1\]\['\$nin'\] is empty"),
        ({"metadata": {"a": {"$contains": []}}}, r"metadata\['a'\]\['\$contains'\] is empty"),
        ({"metadata": {"$or": {"a": 1}}}, r"metadata\['\$or'\] must be a list of mappings, not a dict"),
        ({"metadata": {"$or": []}}, r"metadata\['\$or'\] is empty; name one or more mappings"),
        ({"metadata": {"$or": [{"a": 1}, 7]}}, r"metadata\['\$or'\]\[1\] must be a mapping of conditions, not an int"),
        ({"metadata": {"$or": [{}]}}, r"metadata\['\$or'\]\[0\] is empty"),
        ({"metadata": {"$not": [{"a": 1}]}}, r"metadata\['\$not'\] must be a mapping of conditions, not a list"),
        (
            {"metadata": {"$or": [{"a": 1}, {"$not": {"b": {"$like": 1}}}]}},
            r"metadata\['\$or'\]\[1\]\['\$not'\]\['b'\] has '\$like', which is not an operator",
        ),
        ({"metadata": {"a": {"$or": [{"$gt": 1}, {"b": {}}]}}}, r"metadata\['a'\]\['\$or'\]\[1\]\['b'\] is empty"),
        ({"metadata": _nested(9)}, r"is nested deeper than 8 levels of \$and, \$or and \$not"),
        (
            {"metadata": {"$or": [{str(n): {"$contains": 1}} for n in range(17)]}},
            "metadata has 34 conditions; the limit is 32",
        ),
        ({"metadata": {"$or": [{"turns.start": 0}]}}, "filter turns by turn_metadata"),
        ({"metadata": {"": 1}}, "metadata has the path ''"),
        ({"metadata": {(): 1}}, "metadata has the path"),
        ({"metadata": {3: 1}}, "metadata has the path 3"),
        ({"metadata": {("a", 3): 1}}, "a key in metadata must be a str, not an int"),
        ({"metadata": {"a\\": 1}}, "ends in a backslash"),
        ({"metadata": {"a": object()}}, r"metadata\['a'\] is an object, which is not JSON"),
        ({"metadata": {"a": datetime(2026, 1, 1, tzinfo=UTC)}}, "is a datetime, which is not JSON"),
        ({"metadata": {"a": 1 << 5_000}}, "is a number of more than 4,096 bits"),
        ({"metadata": {"a.b": 1, "a": {"b": 2}}}, r"metadata has \$eq twice for the path 'a.b'"),
        ({"metadata": {str(n): 1 for n in range(33)}}, "metadata has 33 conditions; the limit is 32"),
        ({"metadata": {".".join("a" * 17): 1}}, "a path of more than 16 keys"),
        ({"metadata": {"turns.start": 0}}, "filter turns by turn_metadata"),
        ({"turn_metadata": {"a": {"$foo": 1}}}, r"turn_metadata\['a'\] has '\$foo'"),
    ],
)
def test_what_is_wrong_is_named(given_: dict[str, Any], message: str) -> None:
    """Before anything is read: the field, the value's type and the way out."""
    with pytest.raises(InvalidInputError, match=message):
        Filter(**given_)


def test_a_refused_value_is_repeated_in_short() -> None:
    """A message ends up in logs."""
    with pytest.raises(InvalidInputError) as raised:
        Filter(sources=["x" * 500])  # type: ignore[list-item]

    assert len(str(raised.value)) < 200


def test_a_filter_is_a_copy() -> None:
    """Whoever passed lists and mappings may change them afterwards."""
    tags = ["a"]
    wanted: dict[Any, Any] = {"tags": {"$in": tags}, "project": {"name": "x"}}
    identifier = UUID(int=7)
    where = Filter(metadata=wanted, actors=tags, memory_ids=[str(identifier), identifier])
    conditions = where.memory_conditions

    tags.append("b")
    wanted.clear()

    assert where.memory_conditions == conditions
    assert where.actors == ("a",)
    assert where.memory_ids == (identifier,)


def test_paths_name_the_same_however_they_are_written() -> None:
    """With dots, nested, as a tuple, and with a backslash before a dot that belongs to a key."""
    same = [
        Filter(metadata={"project.name": "x"}),
        Filter(metadata={"project": {"name": "x"}}),
        Filter(metadata={("project", "name"): {"$eq": "x"}}),
    ]
    other = [Filter(metadata={"project\\.name": "x"}), Filter(metadata={("project.name",): "x"})]

    assert len({where.memory_conditions for where in same}) == 1
    assert len({where.memory_conditions for where in other}) == 1
    assert same[0].memory_conditions != other[0].memory_conditions
