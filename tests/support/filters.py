"""What a filter means, said once more without attributes, ranges or SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def holds(metadata: Mapping[str, Any], path: Sequence[str], operator: str, operand: Any) -> bool:
    """Whether a condition holds for some metadata."""
    values = list(_values(metadata, path))
    match operator:
        case "$eq":
            return _is(values, operand)
        case "$ne":
            return not _is(values, operand)
        case "$in":
            return any(_is(values, one) for one in operand)
    kinds: tuple[type, ...] = (str,) if isinstance(operand, str) else (int, float)
    same = [value for value in values if isinstance(value, kinds) and not isinstance(value, bool)]
    return any(
        {"$gt": value > operand, "$gte": value >= operand, "$lt": value < operand, "$lte": value <= operand}[operator]
        for value in same
    )


def _is(values: Sequence[Any], operand: Any) -> bool:
    if operand is None:
        return not any(value is not None for value in values)
    return any(_equal(value, operand) for value in values)


def _equal(left: Any, right: Any) -> bool:
    """JSON equality: True is not 1, and 1.0 is 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _values(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """What is at a path: a value and, if it is a list, each of its elements; lists on the way are gone through."""
    if not path:
        yield value
        if isinstance(value, list):
            yield from value
        return
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, Mapping) and path[0] in one:
            yield from _values(one[path[0]], path[1:])
