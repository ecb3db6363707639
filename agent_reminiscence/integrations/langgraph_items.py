"""How items of a LangGraph store stand in the memory; pure, and without LangGraph.

An item is a memory. Its key is made from namespace and key, its metadata hold both and the value, and its text is what
of the value is searched.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from agent_reminiscence.config.constants import (
    MAX_CONTENT_CHARACTERS,
    MAX_ID_CHARACTERS,
    MAX_METADATA_BYTES,
    MAX_TEXT_CHUNKS,
    MAX_TITLE_CHARACTERS,
)
from agent_reminiscence.domain.exact_json import is_respelled
from agent_reminiscence.domain.filter import MAX_CONDITIONS, Filter
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.storable import free_key, storable_text

KEY_PREFIX: Final = "langgraph/"
"""How the keys of all memories that are items begin."""

ABOUT: Final = "langgraph"
"""Where metadata say which item a memory is."""

TTL_MINUTES: Final = "ttl_minutes"
"""Where metadata say, of an item that expires, how long it lives after it was last put or read."""

VALUE: Final = "value"
"""Where metadata hold an item's value, as `_spelled` writes it."""

NOT_SEARCHED: Final = "-"
"""Title and text of an item that is not searched: a memory needs both, and no question has this in it."""

# Metadata have one level more, and 16 in all.
_MAX_DEPTH: Final = 15
_LAST_PUT: Final = "last put at "
_OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
# Of longer texts, and of other types, an index says less than a comparison here.
_MAX_LOOKED_UP_CHARACTERS: Final = 120
_IN_LABEL: Final = re.compile(r"[%/\x00-\x1f\x7f-\x9f]")
# How a number is kept that jsonb would write otherwise; a text that looks like one gets another "$".
_FLOAT: Final = "$float:"
_LIKE_FLOAT: Final = re.compile(r"\$+float:")
_BLANK_LINE: Final = re.compile(r"\n\s*\n")
# A memory's key does not end in white space.
_IN_KEY: Final = re.compile(r"[%\x00-\x1f\x7f-\x9f]|\s\Z")

type Namespace = tuple[str, ...]


def memory_key(namespace: Namespace, key: str) -> str:
    """The key of the memory that is this item; no other item has it.

    It can be read, `langgraph/users.ana./tea`, unless it would be too long: then it is a hash.
    """
    labels = "".join(f"{_IN_LABEL.sub(_escaped, label)}." for label in namespace)
    readable = f"{labels}/{_IN_KEY.sub(_escaped, key)}"
    if len(KEY_PREFIX) + len(readable) <= MAX_ID_CHARACTERS:
        return f"{KEY_PREFIX}{readable}"
    # No readable one lacks a slash.
    return f"{KEY_PREFIX}#{hashlib.sha256(readable.encode(errors='surrogatepass')).hexdigest()}"


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def title(namespace: Namespace, *, is_searched: bool = True) -> str:
    """What the memory of an item is called: a recall finds memories by their titles, too."""
    if not is_searched:
        return NOT_SEARCHED
    return " ".join(" / ".join(namespace).split())[:MAX_TITLE_CHARACTERS].strip() or ABOUT


def metadata(namespace: Namespace, key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of the memory of an item: a copy of the value, and what item it is.

    `within` are the namespaces that it is in, from the outermost to its own, for filters. `is_searched` is False, until
    the text of the item is known.

    Args:
        value: As `checked` returns it.

    Raises:
        InvalidInputError: A name is no text, or the item is too large.
    """
    within = [".".join(namespace[:depth]) for depth in range(1, len(namespace) + 1)]
    for identifier in (*namespace, key):
        _text("namespace or key", identifier)
    about = {"namespace": list(namespace), "key": key, "within": within, "is_searched": False}
    made = {ABOUT: _copied("namespace or key", about, 1), VALUE: _spelled(value)}
    size = len(json.dumps(made, ensure_ascii=False).encode())
    if size > MAX_METADATA_BYTES:
        raise InvalidInputError(
            f"the item {key!r} takes {size:,} bytes as JSON; the limit is {MAX_METADATA_BYTES:,}: put it in parts, or"
            " keep it elsewhere and put where it is"
        )
    return made


def checked(key: str, value: object) -> dict[str, Any]:
    """A copy of the value of an item.

    Raises:
        InvalidInputError: It is no JSON object, or nested too deep.
    """
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"the value of {key!r} must be a mapping, not {type(value).__name__}")
    copied: dict[str, Any] = _copied("value", value, 1)
    try:
        json.dumps(copied)
    except ValueError as error:
        # An integer of more than 4,300 digits cannot be written out.
        raise InvalidInputError(f"the value of {key!r} is not JSON: {error}") from None
    return copied


def value_of(memory: ActiveMemory) -> dict[str, Any]:
    """The value of the item that a memory is, as it was put."""
    value: dict[str, Any] = _restored(memory.metadata[VALUE])
    return value


def _spelled(value: Any) -> Any:
    """A value as metadata keep it: `jsonb` gives some numbers back as others, and -0.0 as 0.0."""
    match value:
        case dict():
            return {key: _spelled(inner) for key, inner in value.items()}
        case list():
            return [_spelled(inner) for inner in value]
        case float() if is_respelled(value):
            return f"{_FLOAT}{value!r}"
        case str() if _LIKE_FLOAT.match(value):
            return f"${value}"
    return value


def _restored(value: Any) -> Any:
    match value:
        case dict():
            return {key: _restored(inner) for key, inner in value.items()}
        case list():
            return [_restored(inner) for inner in value]
        case str() if value.startswith(_FLOAT):
            try:
                return float(value.removeprefix(_FLOAT))
            except ValueError:
                # A redactor took it for a secret.
                return value
        case str() if _LIKE_FLOAT.match(value):
            return value[1:]
    return value


def _copied(name: str, value: object, depth: int) -> Any:
    if depth > _MAX_DEPTH + 1:
        raise InvalidInputError(f"the {name} is nested deeper than {_MAX_DEPTH} levels; flatten it")
    match value:
        case None | bool() | int():
            return value
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise InvalidInputError(f"the {name} holds {value!r}, which JSON cannot represent")
            return value
        case str():
            return _value_text(name, value)
        case Mapping():
            taken = {key for key in value if isinstance(key, str)}
            return {_value_text(name, key, taken): _copied(name, inner, depth + 1) for key, inner in value.items()}
        case list() | tuple():
            return [_copied(name, inner, depth + 1) for inner in value]
    raise InvalidInputError(
        f"the {name} holds {type(value).__name__}, which is not JSON; convert it to text or numbers"
    )


def _value_text(name: str, value: object, taken: set[str] | None = None) -> str:
    """A text of a value; a character that cannot be stored becomes U+FFFD.

    Args:
        taken: The keys of its object, of which it is one.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"the {name} has the key {value!r}; keys of JSON are str")
    return storable_text(value) if taken is None else free_key(value, taken)


def _text(name: str, value: object) -> str:
    """A part of what an item is found by, as it is."""
    if not isinstance(value, str):
        raise InvalidInputError(f"the {name} must be a str, not {type(value).__name__}")
    if "\x00" in value:
        raise InvalidInputError(f"the {name} holds a NUL character, which PostgreSQL cannot store; remove it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"the {name} holds a lone surrogate, which is not Unicode text; remove it") from None
    return value


def readable_text(value: Mapping[str, Any]) -> str:
    """What a value says: the text of its only field, or a line for each field.

    Lines after `MAX_CONTENT_CHARACTERS` are left out: a few long paths, repeated on each line, could fill the machine.
    """
    lines: list[tuple[str, str]] = []
    left = MAX_CONTENT_CHARACTERS
    for path, text in _lines(value, ""):
        lines.append((path, text))
        left -= len(path) + len(text)
        if left < 0:
            break
    return lines[0][1] if len(lines) == 1 else "\n".join(f"{path} = {text}" for path, text in lines)


def _lines(value: object, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case Mapping():
            for key, inner in value.items():
                yield from _lines(inner, f"{path}.{key}" if path else str(key))
        case list() | tuple() if all(isinstance(one, str | int | float) for one in value):
            if value:
                yield path, ", ".join(map(str, value))
        case list() | tuple():
            for number, inner in enumerate(value):
                yield from _lines(inner, f"{path}[{number}]")
        case None:
            return
        case _:
            yield path, str(value)


def check_text(key: str, text: str) -> None:
    """Refuse a text that a memory cannot have.

    Raises:
        InvalidInputError: It is too long, or has too many paragraphs.
    """
    way_out = "name fewer fields with index=[…], or put it with index=False"
    if len(text) > MAX_CONTENT_CHARACTERS:
        raise InvalidInputError(
            f"what is to be searched of {key!r} has more than {MAX_CONTENT_CHARACTERS:,} characters; {way_out}"
        )
    # Each is a passage at least.
    paragraphs = sum(bool(part) and not part.isspace() for part in _BLANK_LINE.split(text))
    if paragraphs > MAX_TEXT_CHUNKS:
        raise InvalidInputError(
            f"what is to be searched of {key!r} has {paragraphs:,} paragraphs; the limit is {MAX_TEXT_CHUNKS:,}:"
            f" {way_out}"
        )


def identity(memory: ActiveMemory) -> tuple[Namespace, str] | None:
    """Namespace and key of the item that a memory is; None if it is none."""
    about = memory.metadata.get(ABOUT)
    if not isinstance(about, Mapping) or not isinstance(memory.metadata.get(VALUE), Mapping):
        return None
    return tuple(about.get("namespace", ())), str(about.get("key"))


def ttl_minutes(memory: ActiveMemory) -> float | None:
    """How long the item that a memory is lives after it was last put or read; None is for ever."""
    minutes = memory.metadata.get(ABOUT, {}).get(TTL_MINUTES)
    return minutes if isinstance(minutes, int | float) else None


def put_at(memory: ActiveMemory) -> datetime:
    """When the item that a memory is was last put: a read that let it live on has written a version, too."""
    told = (memory.description or "").removeprefix(_LAST_PUT)
    try:
        return datetime.fromisoformat(told)
    except ValueError:
        return memory.updated_at


def last_put(memory: ActiveMemory) -> str:
    """The description of an item that a read lets live on, from which `put_at` reads when it was put."""
    return f"{_LAST_PUT}{put_at(memory).isoformat()}"


def lookup(prefix: Namespace, conditions: Mapping[str, Any] | None = None, *, is_searched: bool = False) -> Filter:
    """A filter that admits what is in a namespace and meets the conditions, and sometimes more."""
    wanted: dict[str | tuple[str, ...], Any] = {}
    if prefix:
        wanted[ABOUT, "within"] = ".".join(prefix)
    if is_searched:
        wanted[ABOUT, "is_searched"] = True
    for key, expected in (conditions or {}).items():
        spellings = _spellings(expected.get("$eq") if isinstance(expected, Mapping) else expected)
        if spellings and len(wanted) < MAX_CONDITIONS:
            wanted[VALUE, key] = {"$in": spellings}
    return Filter(key_prefix=KEY_PREFIX, metadata=wanted) if wanted else Filter(key_prefix=KEY_PREFIX)


def _spellings(exact: object) -> list[Any]:
    """All that metadata may hold in place of what equals a value; none if they are not to be asked for it."""
    match exact:
        case bool():
            return [exact]
        case str():
            spelled = _spelled(exact)
            return [spelled] if len(spelled) <= _MAX_LOOKED_UP_CHARACTERS else []
        case int() | float():
            try:
                number = float(exact)
            except OverflowError:
                # A comparison is as good for so large a number.
                return []
            # 10**16 equals 1e16, and 0 equals -0.0.
            floats = [0.0, -0.0] if number == 0 else [number]
            spelled = [_spelled(same) for same in floats if same == exact and is_respelled(same)]
            if number.is_integer():
                return [int(exact), *spelled]
            return spelled or [exact]
    return []


def check_conditions(conditions: object) -> None:
    """Refuse a filter that nothing could be compared with.

    Raises:
        InvalidInputError: It is no mapping of top-level keys, or has an unknown operator or operand.
    """
    if conditions is None:
        return
    if not isinstance(conditions, Mapping) or not all(isinstance(key, str) for key in conditions):
        raise InvalidInputError(f"filter must be a mapping of top-level keys of the value, not {conditions!r}")
    for key, expected in conditions.items():
        _copied("filter", expected, 1)
        if not _has_operators(expected):
            continue
        for operator, operand in expected.items():
            if operator not in _OPERATORS:
                raise InvalidInputError(
                    f"filter[{key!r}] has {operator!r}, which is not an operator; use {', '.join(_OPERATORS)}"
                )
            if operator not in ("$eq", "$ne") and (
                isinstance(operand, bool) or not isinstance(operand, str | int | float)
            ):
                raise InvalidInputError(f"filter[{key!r}][{operator!r}] compares a str or a number, not {operand!r}")


def admits(conditions: Mapping[str, Any] | None, value: Mapping[str, Any]) -> bool:
    """Whether a value meets all conditions; what it lacks meets none, not even `$ne`."""
    return all(key in value and _holds(expected, value[key]) for key, expected in (conditions or {}).items())


def _holds(expected: Any, actual: Any) -> bool:
    if _has_operators(expected):
        return all(_compares(operator, operand, actual) for operator, operand in expected.items())
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and admits(expected, actual)
    return _equal(expected, actual)


def _has_operators(expected: object) -> bool:
    return isinstance(expected, Mapping) and any(key.startswith("$") for key in expected)


def _compares(operator: str, operand: Any, actual: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return _equal(operand, actual) is (operator == "$eq")
    is_text = isinstance(operand, str)
    if isinstance(actual, bool) or not isinstance(actual, str if is_text else int | float):
        return False
    match operator:
        case "$gt":
            return bool(actual > operand)
        case "$gte":
            return bool(actual >= operand)
        case "$lt":
            return bool(actual < operand)
    return bool(actual <= operand)


def _equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, Mapping):
        return (
            isinstance(other, Mapping)
            and one.keys() == other.keys()
            and all(_equal(one[key], other[key]) for key in one)
        )
    if isinstance(one, list | tuple):
        return isinstance(other, list | tuple) and len(one) == len(other) and all(map(_equal, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def matches(path: Sequence[str], labels: Namespace, *, is_suffix: bool) -> bool:
    """Whether a namespace begins, or ends, with a path, in which `*` is any one label."""
    if len(path) > len(labels):
        return False
    part = labels[len(labels) - len(path) :] if is_suffix else labels[: len(path)]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
