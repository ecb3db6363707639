"""JSON in a form that survives a `jsonb` column exactly, however deep it is.

`jsonb` keeps neither the order of keys nor the spelling of numbers, and cannot hold every string; an event's payload
may be nested 16 levels deep. So a value becomes a flat list of its parts, in order: `{"object": 2}` stands before the
keys and values of an object of two, `{"list": 3}` before a list's three. Its strings are whole strings there, so that
redaction and an erasure by text read them.

    >>> flatten({"role": "user", "content": ["Hi"]})
    [{'object': 2}, 'role', 'user', 'content', {'list': 1}, 'Hi']
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

# NUL, and halves of surrogate pairs: JSON has them, PostgreSQL's text has not.
_UNSTORABLE: Final = re.compile("([\x00\ud800-\udfff])")


def flatten(value: Any) -> list[Any]:
    """The parts of a JSON value, in order.

    Raises:
        TypeError: Something in it is not JSON.
        ValueError: It contains itself, or a number that is too long.
        RecursionError: It is nested too deeply for Python.
    """
    # As JSON has it: a tuple is a list, a number as a key is a string.
    return list(flat_parts(json.loads(json.dumps(value))))


def restore(parts: Sequence[Any]) -> Any:
    """The value that `flatten` was given.

    Raises:
        ValueError: These are not the parts of one value.
    """
    rest = iter(parts)
    try:
        value = _read(rest)
    except (StopIteration, TypeError, KeyError) as error:
        raise ValueError("not the parts of a JSON value") from error
    if next(rest, rest) is not rest:
        raise ValueError("more than the parts of one JSON value")
    return value


def flat_parts(value: Any) -> Iterator[Any]:
    """What `flatten` gives, one by one, of a value that consists of dict with str keys, list, str, numbers and None."""
    match value:
        case dict():
            yield {"object": len(value)}
            for key, item in value.items():
                yield from flat_parts(key)
                yield from flat_parts(item)
        case list():
            yield {"list": len(value)}
            for item in value:
                # Most of a large value are numbers in lists, and each generator takes longer than all else.
                if type(item) is int:
                    yield item
                else:
                    yield from flat_parts(item)
        case str() if _UNSTORABLE.search(value):
            pieces = _UNSTORABLE.split(value)
            # Every second piece is a character, which becomes its number.
            yield {"text": [ord(piece) if number % 2 else piece for number, piece in enumerate(pieces)]}
        case float() if is_respelled(value):
            yield {"float": repr(value)}
        case _:
            yield value


def is_respelled(value: float) -> bool:
    """Whether `jsonb` would write it without an exponent, as a whole number, or not at all."""
    text = repr(value)
    # The letters of an exponent, of infinity and of what is no number.
    return "e" in text or "n" in text or text == "-0.0"


def _read(parts: Iterator[Any]) -> Any:
    part = next(parts)
    if not isinstance(part, dict):
        return part
    [(kind, content)] = part.items()
    match kind:
        case "object":
            return {_read(parts): _read(parts) for _ in range(content)}
        case "list":
            return [_read(parts) for _ in range(content)]
        case "text":
            return "".join(chr(piece) if isinstance(piece, int) else piece for piece in content)
        case "float":
            return float(content)
    raise ValueError(f"unknown kind of part: {kind}")
