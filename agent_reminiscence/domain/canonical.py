"""One byte string per value, even for large values: the input of digests and request hashes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from json.encoder import encode_basestring
from types import NoneType
from typing import Any, Final

# Values below this size, in characters, are processed on the event loop and encoded in one call.
_LARGE: Final = 8_000
# Size of each list or object item, in characters: its brackets, its key, its own object.
_ITEM_CHARACTERS: Final = 16
# The standard library's encoder holds the GIL until it returns, so values above this size, in characters, are encoded
# a portion of items at a time.
_ENCODED: Final = 100_000
_PORTION: Final = 64
# Nested objects are read one by one down to this depth.
_WALKED_LEVELS: Final = 8
# Up to this many items, work of some microseconds each is done on the event loop.
INLINE_ITEMS: Final = 256
_BETWEEN = re.compile(r"[\s,:]*")
_CLOSING: Final = {"{": "}", "[": "]"}
_DECODER = json.JSONDecoder()


async def beside[T](work: Callable[[], T], *, value: object) -> T:
    """Run `work`, in a thread if `value`, its input, is large enough to block the event loop."""
    return await asyncio.to_thread(work) if is_large(value) else work()


async def beside_many[T](work: Callable[[], T], *, items: int) -> T:
    """Run `work`, in a thread if it goes through many items."""
    return await asyncio.to_thread(work) if items > INLINE_ITEMS else work()


def is_large(value: object, *, characters: int = _LARGE) -> bool:
    """Whether a JSON value has about `characters` characters or more; stops looking once that is clear."""
    weight = 0
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            weight += len(item)
        elif isinstance(item, dict):
            weight += _ITEM_CHARACTERS * len(item)
            left.extend(item.values() if weight < characters else ())
        elif isinstance(item, list | tuple):
            weight += _ITEM_CHARACTERS * len(item)
            left.extend(item if weight < characters else ())
        if weight >= characters:
            return True
    return False


def canonical_json(value: Any) -> str:
    """Render a JSON value with sorted keys and one spelling per number.

    PostgreSQL's jsonb keeps neither the order of keys nor the spelling of numbers (1e5 becomes 100000), so a digest
    of the original text could not be recomputed from the stored value.
    """
    # Without fractions, the standard library spells it the same way, many times faster.
    return _spell(value) if _has_fraction(value) else json_text(value)


def json_text(value: Any) -> str:
    """Render a JSON value with sorted keys and numbers as Python spells them."""
    pieces: list[str] = []
    _write(value, pieces)
    return "".join(pieces)


def _write(value: Any, pieces: list[str]) -> None:
    """Append the text of `value`, in portions if it is a large list or object."""
    if not isinstance(value, dict | list | tuple) or not is_large(value, characters=_ENCODED):
        pieces.append(_dumps(value))
        return
    is_object = isinstance(value, dict)
    items = sorted(value) if is_object else value
    pieces.append("{" if is_object else "[")
    for start in range(0, len(items), _PORTION):
        pieces.append("," if start else "")
        portion = items[start : start + _PORTION]
        if len(items) > _PORTION:
            content = {key: value[key] for key in portion} if is_object else portion
            pieces.append(_dumps(content)[1:-1])
            continue
        # With so few items, one of them may be nearly the whole value.
        for number, item in enumerate(portion):
            pieces.append("," if number else "")
            if is_object:
                pieces.append(f"{encode_basestring(item)}:")
            _write(value[item] if is_object else item, pieces)
    pieces.append("}" if is_object else "]")


def count_json_bytes(value: Any) -> int:
    """How many bytes of UTF-8 `json.dumps(value, ensure_ascii=False)` takes, for a value made of JSON's own types.

    Counted value by value: one call of the encoder would hold the GIL until a large value is written out.

    Raises:
        ValueError: An integer has more digits than Python writes out.
    """
    kind = type(value)
    if kind is int or kind is float:
        return len(repr(value))
    if value is None or value is True:
        return 4
    if value is False:
        return 5
    if isinstance(value, str):
        # Of a text that is not storable, too: whoever counts may replace that later.
        return len(encode_basestring(value).encode(errors="surrogatepass"))
    if isinstance(value, dict):
        inner = sum([count_json_bytes(key) + count_json_bytes(item) + 2 for key, item in value.items()])
    else:
        inner = sum([count_json_bytes(item) for item in value])
    return 2 + inner + 2 * max(0, len(value) - 1)


def read_json(text: str) -> Any:
    """Parse a JSON text from PostgreSQL; the array items of a large one are read one by one, as above."""
    return json.loads(text) if len(text) < _ENCODED else _read(text, 0, _WALKED_LEVELS)[0]


def _read(text: str, offset: int, levels: int) -> tuple[Any, int]:
    """The value at `offset`, and the offset of its end."""
    closing = _CLOSING.get(text[offset])
    if closing is None or not levels:
        return _DECODER.raw_decode(text, offset)
    keys: list[str] = []
    values: list[Any] = []
    offset = _next(text, offset + 1)
    while text[offset] != closing:
        if closing == "}":
            key, offset = _DECODER.raw_decode(text, offset)
            keys.append(key)
            offset = _next(text, offset)
        # An array may have very many items, so each is small.
        value, offset = _read(text, offset, levels - 1 if closing == "}" else 0)
        values.append(value)
        offset = _next(text, offset)
    return (dict(zip(keys, values, strict=True)) if closing == "}" else values), offset + 1


def _next(text: str, offset: int) -> int:
    """Offset of the next key, value or closing bracket."""
    found = _BETWEEN.match(text, offset)
    assert found is not None
    return found.end()


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _spell(value: Any) -> str:
    match value:
        case str():
            return encode_basestring(value)
        case None | bool():
            return json.dumps(value)
        case int():
            return str(value)
        case float() | Decimal():
            number = Decimal(repr(value)) if isinstance(value, float) else value
            return format(number.normalize(), "f") if number else "0"
        case dict():
            return "{" + ",".join([f"{encode_basestring(key)}:{_spell(value[key])}" for key in sorted(value)]) + "}"
        case list() | tuple():
            return "[" + ",".join([_spell(item) for item in value]) + "]"
    raise TypeError(f"{type(value).__name__} is not a JSON value")


# Exactly these types: other number classes may be spelled differently.
_WITHOUT_FRACTION: Final = frozenset({str, int, bool, NoneType})


def _has_fraction(value: Any) -> bool:
    """Whether `value` contains a non-integer number, or anything that is not JSON."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            if set(map(type, item)) - {str} and not all(isinstance(key, str) for key in item):
                return True
            inner: Iterable[Any] = item.values()
        elif isinstance(item, list | tuple):
            inner = item
        elif item is None or isinstance(item, str | int):
            continue
        else:
            return True
        # Most hold only texts and integers; checking the set of their classes is far faster than checking each item.
        if set(map(type, inner)) - _WITHOUT_FRACTION:
            left.extend(inner)
    return False


def sha256(*parts: bytes) -> bytes:
    """SHA-256 of the concatenation of `parts`, 32 bytes."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()
