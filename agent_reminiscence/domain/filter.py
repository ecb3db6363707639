"""Which memories and passages a question or a list may return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn
from uuid import UUID

from pydantic import Field

from agent_reminiscence.config.constants import MAX_ID_CHARACTERS
from agent_reminiscence.domain.attributes import (
    ACTOR,
    CONVERSATION,
    KEY,
    MAX_COMPARED_CHARACTERS,
    OF_TURN,
    TURNS,
    AllOf,
    AnyOf,
    Condition,
    Expression,
    Not,
    anything,
    beginning_with,
    compared,
    equal_to,
    is_comparable,
    lists,
    present,
    stored_path,
)
from agent_reminiscence.domain.model import StrictModel
from agent_reminiscence.domain.trust import SOURCES, Source
from agent_reminiscence.domain.wording import kind_of
from agent_reminiscence.exceptions import InvalidInputError

MAX_CONDITIONS: Final = 32
"""Conditions on the metadata of memories, and as many on that of turns; `$contains` is one more."""
MAX_NESTING: Final = 8
"""`$and`, `$or` and `$not` within each other."""
MAX_VALUES: Final = 1_000
"""Values in one list."""
_MAX_DEPTH: Final = 16
_MAX_TEXT_CHARACTERS: Final = 65_536
_MAX_INTEGER_BITS: Final = 4_096
_SHOWN_CHARACTERS: Final = 60
_COMPARISONS: Final = frozenset({"$gt", "$gte", "$lt", "$lte"})
OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$contains")
CONNECTIVES: Final = ("$and", "$or", "$not")

type _Path = tuple[str, ...]
type _Wanted = Mapping[str | tuple[str, ...], Any]


class _Leaf(NamedTuple):
    """One operator at one path.

    Attributes:
        name: Where it stands, for whoever wrote it.
    """

    name: str
    path: _Path
    operator: str
    operand: Any


class _Joined(NamedTuple):
    """`$or` of several conjunctions, or `$not` or `$and` of one."""

    connective: str
    parts: Sequence[_Conjunction]


type _Conjunction = Sequence[_Leaf | _Joined]


class Filter(StrictModel):
    """Which memories and passages may be returned; all conditions have to hold, and a field left out holds for all.

    A list holds if one of its values does. Conditions on metadata are given by path, `{"project.name": "x"}`, or
    nested, `{"project": {"name": "x"}}`. The value is what is to be there, or an object of the operators `$eq`, `$ne`,
    `$gt`, `$gte`, `$lt`, `$lte`, `$in`, `$nin`, `$exists` and `$contains`. `$or` and `$and` take a list of such
    mappings, `$not` takes one. `docs/guide/filters.md` has the rules.

    Raises:
        InvalidInputError: A field or an operator is unknown, or a value has the wrong type.
    """

    conversation_ids: Sequence[str] | None = Field(
        default=None, description="The memory's conversation, as last written."
    )
    actors: Sequence[str] | None = Field(default=None, description="Who last wrote the memory.")
    memory_ids: Sequence[UUID | str] | None = Field(default=None, description="Of memories, archived or not.")
    keys: Sequence[str] | None = Field(default=None, description="Keys of memories, archived or not.")
    key_prefix: str | None = Field(default=None, description="How the memory's key begins.")
    metadata: Mapping[str | tuple[str, ...], Any] | None = Field(
        default=None, description="Conditions on the memory's metadata."
    )
    sources: Sequence[Source] | None = Field(default=None, description="Trust labels of the passage.")
    speakers: Sequence[str] | None = Field(
        default=None, description="Who said the passage, without regard to case; facts have no speaker."
    )
    turn_metadata: Mapping[str | tuple[str, ...], Any] | None = Field(
        default=None, description="Conditions on the metadata of the turn that the passage is from."
    )
    occurred_after: datetime | None = Field(
        default=None, description="The passage became true in the world at this time or later."
    )
    occurred_before: datetime | None = Field(default=None, description="It became true before this time.")

    # The checker takes the signature from the fields; at run time every mistake is an InvalidInputError.
    if not TYPE_CHECKING:

        def __init__(self, **given: Any) -> None:
            unknown = [name for name in given if name not in type(self).model_fields]
            if unknown:
                raise InvalidInputError(
                    f"a filter has no field {_shown(unknown[0])}; the fields are {', '.join(type(self).model_fields)}"
                )
            checked = {name: _CHECKS[name](name, value) for name, value in given.items() if value is not None}
            after, before = checked.get("occurred_after"), checked.get("occurred_before")
            if after is not None and before is not None and after >= before:
                raise InvalidInputError(
                    "occurred_after must be earlier than occurred_before; nothing lies between them"
                )
            super().__init__(**checked)

    @property
    def memory_conditions(self) -> tuple[Expression, ...]:
        """The conditions on memories, except on their ids; all have to hold."""
        named = ((CONVERSATION, self.conversation_ids), (ACTOR, self.actors), (KEY, self.keys))
        conditions: list[Expression] = [
            Condition(path, tuple(map(equal_to, values))) for path, values in named if values is not None
        ]
        if self.key_prefix is not None:
            conditions.append(Condition(KEY, (beginning_with(self.key_prefix),)))
        return (*conditions, *_conditions("metadata", self.metadata))

    @property
    def is_of_memories(self) -> bool:
        """Whether it has any condition on memories."""
        return self.memory_ids is not None or bool(self.memory_conditions)

    @property
    def is_of_passages(self) -> bool:
        """Whether it has any condition on passages."""
        columns = (self.sources, self.speakers, self.turn_metadata, self.occurred_after, self.occurred_before)
        return any(column is not None for column in columns)

    @property
    def turn_conditions(self) -> tuple[Expression, ...]:
        """The conditions on the metadata of turns; all have to hold."""
        return _conditions("turn_metadata", self.turn_metadata, prefix=OF_TURN)


def _conditions(name: str, wanted: _Wanted | None, *, prefix: str = "") -> tuple[Expression, ...]:
    return _expressions(_read(name, wanted or {}, ()), prefix)


def _expressions(conjunction: _Conjunction, prefix: str) -> tuple[Expression, ...]:
    return tuple(_expression(one, prefix) for one in conjunction)


def _expression(one: _Leaf | _Joined, prefix: str) -> Expression:
    if isinstance(one, _Leaf):
        return _condition(one.name, stored_path(one.path, prefix), one.operator, one.operand)
    parts = tuple(AllOf(_expressions(part, prefix)) for part in one.parts)
    match one.connective:
        case "$or":
            return AnyOf(parts)
        case "$not":
            return Not(AllOf(parts))
    return AllOf(parts)


def _condition(name: str, path: str, operator: str, value: Any) -> Expression:
    match operator:
        case "$eq" | "$ne" if value is None:
            # Null is what nothing else is at.
            return Condition(path, (present(),), is_negated=operator == "$eq")
        case "$eq" | "$ne":
            return Condition(path, (equal_to(_json(name, value)),), is_negated=operator == "$ne")
        case "$in" | "$nin":
            ranges = tuple(dict.fromkeys(equal_to(item) for item in _members(name, operator, value)))
            return Condition(path, ranges, is_negated=operator == "$nin")
        case "$exists":
            if not isinstance(value, bool):
                raise InvalidInputError(f"{name}['$exists'] must be True or False, not {_kind(value)}")
            return Condition(path, (anything(),), is_negated=not value)
        case "$contains":
            asked = _members(name, operator, value) if isinstance(value, list | tuple) else [value]
            if any(item is None for item in asked):
                raise InvalidInputError(f"{name}['$contains'] holds None; a null in a list cannot be asked for")
            if any(isinstance(item, list | tuple) for item in asked):
                # Stored as the list around it would be.
                raise InvalidInputError(
                    f"{name}['$contains'] holds a list; a list within a list cannot be told from the list itself, and"
                    " '$eq' asks for either"
                )
            ranges = tuple(dict.fromkeys(equal_to(_json(f"{name}['$contains']", item)) for item in asked))
            return AllOf(tuple(Condition(path, (one,)) for one in (lists(), *ranges)))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInputError(f"{name}[{operator!r}] compares a str or a number, not {_kind(value)}")
    checked = _json(f"{name}[{operator!r}]", value)
    if not is_comparable(checked):
        raise InvalidInputError(
            f"{name}[{operator!r}] is longer than {MAX_COMPARED_CHARACTERS} characters; compare with its beginning"
        )
    return Condition(path, (compared(operator, checked),))


def _members(name: str, operator: str, value: Any) -> list[Any]:
    name = f"{name}[{operator!r}]"
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise InvalidInputError(f"{name} must be a list of one or more values, not {_kind(value)}")
    if not value:
        admits = "everything" if operator == "$nin" else "nothing"
        raise InvalidInputError(f"{name} is empty, so it would admit {admits}; name one or more values")
    if len(value) > MAX_VALUES:
        raise InvalidInputError(f"{name} has {len(value):,} values; the limit is {MAX_VALUES:,}")
    if any(item is None for item in value):
        raise InvalidInputError(f"{name} holds None; ask for a missing value by {{'$eq': None}}")
    return [_json(name, item) for item in value]


def _read(name: str, wanted: object, path: _Path, *, nesting: int = 0, named: int = 0) -> list[_Leaf | _Joined]:
    """The conditions in a mapping; all have to hold.

    Args:
        path: Begins the path of each.
        nesting: In how many connectives the mapping is.
        named: How many keys of the path stand in its name.
    """
    if not isinstance(wanted, Mapping):
        raise InvalidInputError(f"{name} must be a mapping of paths to values, not {_kind(wanted)}")
    found: list[_Leaf | _Joined] = []
    for key, value in wanted.items():
        if isinstance(key, str) and key in CONNECTIVES:
            found.append(_read_joined(_at(name, path[named:]), key, value, path, nesting=nesting))
            continue
        keys = (*path, *_keys(name, key))
        if len(keys) > _MAX_DEPTH:
            raise InvalidInputError(f"{name} has a path of more than {_MAX_DEPTH} keys")
        if not isinstance(value, Mapping):
            found.append(_Leaf(_at(name, keys[named:]), keys, "$eq", value))
            continue
        if not value:
            raise InvalidInputError(f"{_at(name, keys[named:])} is empty; {{'$eq': {{}}}} asks for an empty object")
        found += _read_value(name, value, keys, nesting=nesting, named=named)
    return found


def _read_value(name: str, value: Mapping[Any, Any], path: _Path, *, nesting: int, named: int) -> list[_Leaf | _Joined]:
    """What is asked of the value at a path: operators, or conditions on what is within it."""
    if not any(isinstance(one, str) and one.startswith("$") and one not in CONNECTIVES for one in value):
        return _read(name, value, path, nesting=nesting, named=named)
    found: list[_Leaf | _Joined] = []
    shown = _at(name, path[named:])
    for operator, operand in value.items():
        if operator in CONNECTIVES:
            found.append(_read_joined(shown, operator, operand, path, nesting=nesting))
        elif operator in OPERATORS:
            found.append(_Leaf(shown, path, operator, operand))
        else:
            raise InvalidInputError(
                f"{shown} has {_shown(operator)}, which is not an operator; use {', '.join((*OPERATORS, *CONNECTIVES))}"
            )
    return found


def _read_joined(name: str, connective: str, value: object, path: _Path, *, nesting: int) -> _Joined:
    """`$and` and `$or` of a list of mappings, `$not` of one; each as it could stand at the path itself."""
    name, nesting = f"{name}[{connective!r}]", nesting + 1
    if nesting > MAX_NESTING:
        raise InvalidInputError(f"{name} is nested deeper than {MAX_NESTING} levels of $and, $or and $not")
    if connective == "$not":
        parts: Sequence[object] = [value]
    elif isinstance(value, list | tuple):
        parts = value
    else:
        raise InvalidInputError(f"{name} must be a list of mappings, not {_kind(value)}")
    if not parts:
        raise InvalidInputError(f"{name} is empty; name one or more mappings of conditions")
    named = [name] if connective == "$not" else [f"{name}[{index}]" for index in range(len(parts))]
    return _Joined(
        connective, [_read_part(of, part, path, nesting=nesting) for of, part in zip(named, parts, strict=True)]
    )


def _read_part(name: str, part: object, path: _Path, *, nesting: int) -> _Conjunction:
    if not isinstance(part, Mapping):
        raise InvalidInputError(f"{name} must be a mapping of conditions, not {_kind(part)}")
    if not part:
        raise InvalidInputError(f"{name} is empty; leave it out, or name a condition")
    if not path:
        return _read(name, part, path, nesting=nesting)
    return _read_value(name, part, path, nesting=nesting, named=len(path))


def _at(name: str, path: _Path) -> str:
    return f"{name}[{_shown('.'.join(path))}]" if path else name


def _keys(name: str, key: object) -> _Path:
    """The keys of a path: a tuple as it is, a text at its dots, except those after a backslash."""
    if isinstance(key, tuple) and key:
        return tuple(_text(f"a key in {name}", one, _MAX_TEXT_CHARACTERS) for one in key)
    if not isinstance(key, str) or not key:
        raise InvalidInputError(
            f"{name} has the path {_shown(key)}; a path is a str such as 'project.name', or a tuple of str"
        )
    if key.startswith("$"):
        raise InvalidInputError(
            f"{name} has {_shown(key)} where a path or one of {', '.join(CONNECTIVES)} is expected; operators come"
            " after a path, as in {'year': {'$gt': 2020}}"
        )
    keys, escaped = [""], False
    for character in _text(f"a path in {name}", key, _MAX_TEXT_CHARACTERS):
        if escaped or character not in ".\\":
            keys[-1] += character
            escaped = False
        elif character == ".":
            keys.append("")
        else:
            escaped = True
    if escaped:
        raise InvalidInputError(
            f"{name} has the path {_shown(key)}, which ends in a backslash; write two for a literal one"
        )
    return tuple(keys)


def _metadata(name: str, value: object) -> _Wanted:
    """Checked conditions, as a copy that the caller cannot change."""
    read = _read(name, value, ())
    if not read:
        raise InvalidInputError(f"{name} is empty; leave it out to admit any")
    _check_paths(name, read)
    # Whatever is wrong with a value is found now.
    count = sum(len(one.conditions) for one in _expressions(read, ""))
    if count > MAX_CONDITIONS:
        raise InvalidInputError(f"{name} has {count} conditions; the limit is {MAX_CONDITIONS}")
    copied: _Wanted = _copy(value)
    return copied


def _check_paths(name: str, conjunction: _Conjunction) -> None:
    """Refuse a path that has one operator twice, and one that no filter may have."""
    said: set[tuple[_Path, str]] = set()
    for one in conjunction:
        if isinstance(one, _Joined):
            for part in one.parts:
                _check_paths(name, part)
            continue
        if name == "metadata" and one.path[0] == TURNS:
            raise InvalidInputError("metadata['turns'] holds positions in a text; filter turns by turn_metadata")
        if (one.path, one.operator) in said:
            raise InvalidInputError(f"{name} has {one.operator} twice for the path {_shown('.'.join(one.path))}")
        said.add((one.path, one.operator))


def _copy(value: Any) -> Any:
    """A copy of what was checked; a set becomes a list."""
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list | tuple | set | frozenset) else value


def _json(name: str, value: Any, depth: int = 0) -> Any:
    """A copy of a JSON value, checked."""
    if depth > _MAX_DEPTH:
        raise InvalidInputError(f"{name} is nested deeper than {_MAX_DEPTH} levels")
    match value:
        case None | bool():
            return value
        case str():
            return _text(name, value, _MAX_TEXT_CHARACTERS)
        case int():
            if value.bit_length() > _MAX_INTEGER_BITS:
                raise InvalidInputError(f"{name} is a number of more than {_MAX_INTEGER_BITS:,} bits")
            return int(value)
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise InvalidInputError(f"{name} is {value!r}, which JSON cannot represent")
            return float(value)
        case Mapping():
            return {
                _text(f"a key in {name}", key, _MAX_TEXT_CHARACTERS): _json(name, item, depth + 1)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_json(name, item, depth + 1) for item in value]
    raise InvalidInputError(f"{name} is {_kind(value)}, which is not JSON; convert it to text or a number")


def _text(name: str, value: object, limit: int = MAX_ID_CHARACTERS) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a str, not {_kind(value)}")
    if len(value) > limit:
        raise InvalidInputError(f"{name} has {len(value):,} characters; the limit is {limit:,}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{name} has a lone surrogate, which is not Unicode text") from None
    if "\x00" in value:
        raise InvalidInputError(f"{name} has a NUL character, which no stored text has")
    return value


def _values(name: str, value: object) -> list[object]:
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence | set | frozenset):
        raise InvalidInputError(f"{name} must be a list of values, not {_kind(value)}")
    if not value:
        raise InvalidInputError(f"{name} is empty; leave it out to admit any")
    if len(value) > MAX_VALUES:
        raise InvalidInputError(f"{name} has {len(value):,} values; the limit is {MAX_VALUES:,}")
    return list(dict.fromkeys(value)) if all(isinstance(one, str | UUID) for one in value) else list(value)


def _texts(name: str, value: object) -> tuple[str, ...]:
    return tuple(_not_empty(name, _text(name, one)) for one in _values(name, value))


def _not_empty(name: str, text: str) -> str:
    if not text.strip():
        raise InvalidInputError(f"{name} holds {_shown(text)}, which is blank")
    return text


def _key_prefix(name: str, value: object) -> str:
    return _not_empty(name, _text(name, value, MAX_COMPARED_CHARACTERS))


def _sources(name: str, value: object) -> tuple[str, ...]:
    for one in _values(name, value):
        if one not in SOURCES:
            raise InvalidInputError(f"{name} holds {_shown(one)}; choose from {', '.join(SOURCES)}")
    return tuple(source for source in SOURCES if source in _values(name, value))


def _memory_ids(name: str, value: object) -> tuple[UUID, ...]:
    return tuple(dict.fromkeys(_memory_id(name, one) for one in _values(name, value)))


def _memory_id(name: str, value: object) -> UUID:
    if isinstance(value, UUID):
        # A plain UUID: the driver refuses subclasses.
        return UUID(int=value.int)
    try:
        return UUID(value) if isinstance(value, str) else _refuse_memory_id(name, value)
    except ValueError:
        return _refuse_memory_id(name, value)


def _refuse_memory_id(name: str, value: object) -> NoReturn:
    raise InvalidInputError(f"{name} must hold UUIDs, as returned by create_active_memory(), not {_shown(value)}")


def _moment(name: str, value: object) -> datetime:
    if not isinstance(value, datetime):
        raise InvalidInputError(f"{name} must be a datetime, not {_kind(value)}")
    if not isinstance(value.utcoffset(), timedelta):
        raise InvalidInputError(f"{name} {value.isoformat()!r} has no time zone; use an aware datetime")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidInputError(f"{name} {value.isoformat()!r} is outside the years 1 to 9999 in UTC") from None


def _kind(value: object) -> str:
    return "None" if value is None else kind_of(value)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        text = f"{kind_of(value)} too large to show"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


_CHECKS: Final = {
    "conversation_ids": _texts,
    "actors": _texts,
    "memory_ids": _memory_ids,
    "keys": _texts,
    "key_prefix": _key_prefix,
    "metadata": _metadata,
    "sources": _sources,
    "speakers": _texts,
    "turn_metadata": _metadata,
    "occurred_after": _moment,
    "occurred_before": _moment,
}
