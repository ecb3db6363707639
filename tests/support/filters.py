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
        case "$nin":
            return not any(_is(values, one) for one in operand)
        case "$exists":
            return bool(values) is operand
        case "$contains":
            wanted = operand if isinstance(operand, list | tuple) else [operand]
            return any(isinstance(value, list) for value in values) and all(_is(values, one) for one in wanted)
    kinds: tuple[type, ...] = (str,) if isinstance(operand, str) else (int, float)
    same = [value for value in values if isinstance(value, kinds) and not isinstance(value, bool)]
    return any(
        {"$gt": value > operand, "$gte": value >= operand, "$lt": value < operand, "$lte": value <= operand}[operator]
        for value in same
    )


def meets(metadata: Mapping[str, Any], wanted: Mapping[Any, Any], path: Sequence[str] = ()) -> bool:
    """Whether some metadata meets all that a mapping says, which stands at a path.

    Paths are keys with dots between them, or tuples of keys.
    """
    return all(_meets(metadata, key, value, path) for key, value in wanted.items())


def _meets(metadata: Mapping[str, Any], key: str | tuple[str, ...], value: Any, path: Sequence[str]) -> bool:
    match key:
        case "$and":
            return all(meets(metadata, one, path) for one in value)
        case "$or":
            return any(meets(metadata, one, path) for one in value)
        case "$not":
            return not meets(metadata, value, path)
        case str() if key.startswith("$"):
            return holds(metadata, path, key, value)
    longer = (*path, *(key if isinstance(key, tuple) else key.split(".")))
    return meets(metadata, value, longer) if isinstance(value, Mapping) else holds(metadata, longer, "$eq", value)


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
