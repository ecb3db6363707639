"""What memories and turns are filtered by: JSON metadata as pairs of a path and a sortable text.

Every scalar, list and object in metadata becomes an attribute. Equal values have equal texts, however they are spelled
(1 and 1.0), and texts of one type sort like their values, so a condition is a range of texts that a btree index finds.
Long texts are cut and end in a digest of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from agent_reminiscence.domain.canonical import canonical_json, sha256

MAX_COMPARED_CHARACTERS: Final = 120
"""A longer text is not compared by order: only as many characters are sure to be stored."""

CONVERSATION: Final = "\\conversation_id"
"""Paths of what is not metadata begin with a backslash and a letter, which no path of metadata does."""
ACTOR: Final = "\\actor"
KEY: Final = "\\key"
OF_TURN: Final = "\\turn."

# Positions in the text of a memory, not metadata of it; a turn's own metadata belongs to the turn's chunks.
TURNS: Final = "turns"

# A btree entry has at most 2.7 kB: external_id takes up to 1,024 bytes, and of path and value each at most 544.
_STORED_CHARACTERS: Final = 128
_DIGEST_CHARACTERS: Final = 32
# Exponents of decimal numbers, as five digits.
_BIAS: Final = 50_000
_MOST_BIASED: Final = 99_999
_COMPLEMENT = str.maketrans("0123456789", "9876543210")
# The first text after the values of a type, by the letter they begin with.
_AFTER: Final = {"n": "o", "s": "t"}
_NULL: Final = "z"
# All values except null, all values, and all lists.
_PRESENT: Final = ("a", _NULL)
_ANY: Final = ("a", chr(ord(_NULL) + 1))
_LISTS: Final = ("a", "b")


@dataclass(frozen=True, slots=True, order=True)
class Attribute:
    """A value at a path, as stored."""

    path: str
    value: str


@dataclass(frozen=True, slots=True)
class Condition:
    """What the attributes of a memory or turn have to be.

    Attributes:
        path: As stored.
        ranges: First text and the text after the last, of each range.
        is_negated: Whether it holds if no attribute at the path is in a range, instead of if one is.
    """

    path: str
    ranges: tuple[tuple[str, str], ...]
    is_negated: bool = False

    def holds(self, values: Mapping[str, Sequence[str]]) -> bool:
        """Whether it holds for something with these values, by path."""
        is_there = any(low <= value < high for value in values.get(self.path, ()) for low, high in self.ranges)
        return is_there is not self.is_negated

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Itself, as of any expression."""
        return (self,)


@dataclass(frozen=True, slots=True)
class AllOf:
    """Holds if all its parts do."""

    parts: tuple[Expression, ...]

    def holds(self, values: Mapping[str, Sequence[str]]) -> bool:
        """As `Condition.holds`."""
        return all(part.holds(values) for part in self.parts)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions in it."""
        return tuple(one for part in self.parts for one in part.conditions)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Holds if one of its parts does."""

    parts: tuple[Expression, ...]

    def holds(self, values: Mapping[str, Sequence[str]]) -> bool:
        """As `Condition.holds`."""
        return any(part.holds(values) for part in self.parts)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions in it."""
        return tuple(one for part in self.parts for one in part.conditions)


@dataclass(frozen=True, slots=True)
class Not:
    """Holds if its part does not."""

    part: Expression

    def holds(self, values: Mapping[str, Sequence[str]]) -> bool:
        """As `Condition.holds`."""
        return not self.part.holds(values)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions in it."""
        return self.part.conditions


type Expression = Condition | AllOf | AnyOf | Not


def attributes_of(metadata: Mapping[str, Any], *, prefix: str = "") -> set[Attribute]:
    """The attributes of a JSON object.

    The elements of a list have the path of the list: a condition holds for a list if it holds for one of its elements.

    Args:
        prefix: Begins each path.
    """
    return {Attribute(stored_path(keys, prefix), stored_value(value)) for keys, value in _walk(metadata, ())}


def memory_attributes(
    metadata: Mapping[str, Any], *, conversation_id: str | None, actor: str | None, key: str | None
) -> list[Attribute]:
    """What a memory is filtered by, in a fixed order."""
    found = attributes_of({name: value for name, value in metadata.items() if name != TURNS})
    named = ((CONVERSATION, conversation_id), (ACTOR, actor), (KEY, key))
    return sorted(found | {Attribute(path, stored_value(value)) for path, value in named if value is not None})


def admits(expressions: Sequence[Expression], attributes: Iterable[Attribute]) -> bool:
    """Whether all expressions hold for something with these attributes."""
    values: dict[str, list[str]] = {}
    for attribute in attributes:
        values.setdefault(attribute.path, []).append(attribute.value)
    return all(expression.holds(values) for expression in expressions)


def _walk(value: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value in an object, with its keys from the outside in."""
    for key, inner in value.items():
        path = (*keys, key)
        yield path, inner
        for item in inner if isinstance(inner, list | tuple) else (inner,):
            if item is not inner:
                yield path, item
            if isinstance(item, Mapping):
                yield from _walk(item, path)


def stored_path(keys: Sequence[str], prefix: str = "") -> str:
    """The path of a value, given by the keys from the outside in."""
    return _cut(prefix + ".".join(key.replace("\\", "\\\\").replace(".", "\\.") for key in keys))


def stored_value(value: Any) -> str:
    """The text of a JSON value; a letter for its type comes first."""
    match value:
        case None:
            return _NULL
        case bool():
            return f"b{int(value)}"
        case int() | float():
            return _cut(_number(value))
        case str():
            return _cut(f"s{value}")
        case Mapping():
            return f"o{_digest(canonical_json(value))}"
    return f"a{_digest(canonical_json(value))}"


def equal_to(value: Any) -> tuple[str, str]:
    """The range of the texts of one value."""
    text = stored_value(value)
    return text, _next(text)


def compared(operator: str, value: str | float) -> tuple[str, str]:
    """The range of the texts of the same type that are less or greater than `value`.

    Args:
        operator: `$gt`, `$gte`, `$lt` or `$lte`.
    """
    text = stored_value(value)
    first, after = text[0], _AFTER[text[0]]
    match operator:
        case "$gt":
            return _next(text), after
        case "$gte":
            return text, after
        case "$lt":
            return first, text
    return first, _next(text)


def beginning_with(prefix: str) -> tuple[str, str]:
    """The range of the texts of strings that begin with `prefix`."""
    kept = prefix.rstrip("\U0010ffff")
    # The last character is replaced by the next one; surrogates are no characters.
    last = 0xE000 if kept[-1:] == "\ud7ff" else ord(kept[-1]) + 1 if kept else 0
    return f"s{prefix}", f"s{kept[:-1]}{chr(last)}" if kept else _AFTER["s"]


def present() -> tuple[str, str]:
    """The range of all values except null."""
    return _PRESENT


def anything() -> tuple[str, str]:
    """The range of all values, null included."""
    return _ANY


def lists() -> tuple[str, str]:
    """The range of all lists."""
    return _LISTS


def is_comparable(value: str | float) -> bool:
    """Whether all of the text of `value` is stored."""
    return len(value if isinstance(value, str) else _number(value)) <= MAX_COMPARED_CHARACTERS


def _number(value: float) -> str:
    """A text that sorts like the number: sign, exponent, digits; complemented if it is negative."""
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number:
        return "n1"
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    spelled = "".join(map(str, digits)).lstrip("0")
    biased = exponent + len(spelled) + _BIAS
    spelled = spelled.rstrip("0")
    if not sign:
        return f"n2{biased:05d}{spelled}"
    # A longer one is less, so the end of a shorter one has to sort after any digit.
    return f"n0{_MOST_BIASED - biased:05d}{spelled.translate(_COMPLEMENT)}~"


def _next(text: str) -> str:
    """The first text after `text`; PostgreSQL has no character before this one."""
    return f"{text}\x01"


def _cut(text: str) -> str:
    return text if len(text) <= _STORED_CHARACTERS else f"{text[:_STORED_CHARACTERS]}{_digest(text)}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hex()[:_DIGEST_CHARACTERS]
