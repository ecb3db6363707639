"""Validates what a caller passes in, before anything is written; each message names the value and the limit."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args
from uuid import UUID

from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import TIERS, Tier
from agent_reminiscence.config.paths import checked_path
from agent_reminiscence.config.timezones import refusal, zone_named
from agent_reminiscence.domain.access import AccessScope, is_key
from agent_reminiscence.domain.canonical import count_json_bytes
from agent_reminiscence.domain.conversation_key import CONVERSATION_KEY_PREFIX
from agent_reminiscence.domain.event import RESERVED_PREFIX
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import IF_EXISTS, IfExists, MemorySelection
from agent_reminiscence.domain.payloads import PROFILE_REFRESHES, ProfileRefresh
from agent_reminiscence.domain.trust import SOURCES, Source
from agent_reminiscence.domain.turn import RESERVED_TURN_KEYS, Turn
from agent_reminiscence.domain.wording import kind_of
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.storable import storable_text

MAX_DESCRIPTION_CHARACTERS: Final = 10_000
MAX_METADATA_DEPTH: Final = 16
# Longer than any question; a whole document as a query costs seconds and ranks noise.
MAX_QUERY_CHARACTERS: Final = 20_000
# A shorter text to erase would match nearly every memory.
MIN_ERASED_TEXT_CHARACTERS: Final = 3

# A remark, not a report of the run.
MAX_NOTE_CHARACTERS: Final = 2_000

# Ids or keys of one call, so that no statement takes long.
_MAX_NAMED = 1_000
_MAX_LIMIT = 2**31 - 1
# Larger integers are not written out in messages.
_LARGE_BITS = 128
# How many characters of a refused value a message repeats.
_SHOWN_CHARACTERS = 60
_KIND = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")

assert get_args(Source) == SOURCES
assert get_args(Tier) == TIERS
assert get_args(IfExists) == IF_EXISTS


def external_id(value: object) -> str:
    """The tenant key as text: a `str` unchanged, an `int` or `UUID` in its usual form."""
    match value:
        case bool():
            pass
        case str():
            return identifier("external_id", value)
        case UUID():
            return str(value)
        case int() if value.bit_length() <= 4 * constants.MAX_ID_CHARACTERS:
            return identifier("external_id", str(value))
        case int():
            raise InvalidInputError(f"external_id has more than {constants.MAX_ID_CHARACTERS} digits")
    raise InvalidInputError(f"external_id must be a str, an int or a UUID, not {type(value).__name__}")


def external_ids(value: object) -> tuple[str, ...]:
    """One tenant key or several, as `external_id`, each once: in the order given, or sorted if they are a set."""
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping) or not isinstance(value, Collection):
        return (external_id(value),)
    found = tuple(dict.fromkeys(map(external_id, value)))
    if isinstance(value, AbstractSet):
        # A set has no first one, which would pay.
        found = tuple(sorted(found))
    if not found:
        raise InvalidInputError("external_id names no memory: pass at least one")
    if len(found) > constants.MAX_MEMORIES_ASKED:
        raise InvalidInputError(
            f"external_id names {len(found)} memories; one question may be asked of at most"
            f" {constants.MAX_MEMORIES_ASKED}"
        )
    return found


def identifier(name: str, value: object) -> str:
    """A short id: not empty, no surrounding space, no control characters."""
    text = plain_text(name, value, constants.MAX_ID_CHARACTERS)
    if not text.strip():
        raise InvalidInputError(f"{name} must not be empty, but is {text!r}")
    if text != text.strip():
        raise InvalidInputError(f"{name} {quoted(text)} begins or ends with a space; strip it")
    if not text.isprintable() and any(unicodedata.category(character) == "Cc" for character in text):
        raise InvalidInputError(f"{name} {quoted(text)} has a control character, such as a line break; remove it")
    return text


def path(name: str, value: object) -> Path:
    """A path that the operating system takes."""
    try:
        return checked_path(value)
    except ValueError as error:
        raise InvalidInputError(f"{name} {error}") from None


def optional_identifier(name: str, value: object) -> str | None:
    """An optional id."""
    return None if value is None else identifier(name, value)


def memory_key(value: object) -> str | None:
    """A caller's own name of a memory, or None."""
    return optional_identifier("key", value)


def new_memory_key(value: object) -> str | None:
    """A key for a new memory: none of those that conversations give their memories."""
    key = memory_key(value)
    if key is not None and key.startswith(CONVERSATION_KEY_PREFIX):
        raise InvalidInputError(
            f"key {quoted(key)} begins with {CONVERSATION_KEY_PREFIX!r}, which memory.conversation() uses for"
            " its memories; choose another"
        )
    return key


def memory_name(memory_id_: object, key: object) -> tuple[UUID | None, str | None]:
    """The id or the key of one memory: exactly one of them."""
    if (memory_id_ is None) == (key is None):
        problem = "neither is given" if key is None else "both are given"
        raise InvalidInputError(f"pass either memory_id or key to name the memory; {problem}")
    return None if memory_id_ is None else memory_id(memory_id_), memory_key(key)


def if_exists(value: object, key: str | None) -> IfExists:
    """What a creation does if a memory has its key."""
    if value not in IF_EXISTS:
        raise InvalidInputError(f"if_exists {quoted(value)} is unknown; choose one of {', '.join(IF_EXISTS)}")
    if key is None and value != "error":
        raise InvalidInputError(f"if_exists={value!r} has no meaning without a key; pass key=…")
    return value


def selection(
    *, ids: object = None, keys: object = None, key_prefix: object = None, limit: object = None, after: object = None
) -> MemorySelection:
    """Which active memories to read."""
    return MemorySelection(
        ids=None if ids is None else tuple(memory_id(one, "ids") for one in _named("ids", ids)),
        keys=None if keys is None else tuple(identifier("keys", one) for one in _named("keys", keys)),
        key_prefix=None if key_prefix is None else _key_prefix(key_prefix),
        limit=optional_number("limit", limit, maximum=_MAX_LIMIT),
        after=None if after is None else memory_id(after, "after"),
    )


def memory_ids(name: str, value: object) -> tuple[UUID, ...]:
    """Ids of memories, at most 1,000."""
    return tuple(memory_id(one, name) for one in _named(name, value))


def turns(name: str, value: object) -> tuple[Turn, ...]:
    """Turns of a conversation: one `Turn` or mapping with its fields, or several."""
    items = [value] if isinstance(value, Turn | Mapping) else value
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise InvalidInputError(f"{name} must be a str, a Turn or a list of Turns, not {quoted(value)}")
    checked = tuple(_turn(f"{name}[{index}]", item) for index, item in enumerate(items))
    if not checked:
        raise InvalidInputError(f"{name} is empty; pass one Turn or more")
    return checked


def _turn(name: str, value: object) -> Turn:
    if isinstance(value, Turn):
        fields: Mapping[Any, Any] = {field: getattr(value, field) for field in Turn.model_fields}
    elif isinstance(value, Mapping):
        fields = value
    else:
        raise InvalidInputError(f"{name} must be a Turn or a mapping with its fields, not {type(value).__name__}")
    if unknown := [field for field in fields if field not in Turn.model_fields]:
        known = ", ".join(Turn.model_fields)
        raise InvalidInputError(f"{name} has the unknown field {quoted(unknown[0])}; a turn has {known}")
    said = json_object(f"{name}.metadata", fields.get("metadata") or {}, constants.MAX_METADATA_BYTES, is_exact=False)
    if reserved := sorted(RESERVED_TURN_KEYS.intersection(said)):
        raise InvalidInputError(
            f"{name}.metadata has the key {reserved[0]!r}, which is a field of the turn itself; rename it"
        )
    speaker = fields.get("speaker")
    return Turn(
        text=not_blank(f"{name}.text", said_text(f"{name}.text", fields.get("text"), constants.MAX_CONTENT_CHARACTERS)),
        speaker=None if speaker is None else _speaker(f"{name}.speaker", speaker),
        time=optional_moment(f"{name}.time", fields.get("time")),
        id=_turn_id(f"{name}.id", fields.get("id")),
        metadata=said,
    )


def _turn_id(name: str, value: object) -> str | None:
    """A caller's own id of a turn; a UUID counts as its text."""
    return str(value) if isinstance(value, UUID) else optional_identifier(name, value)


def _speaker(name: str, value: object) -> str:
    """Who speaks, as it stands before the words in the text: on one line, without a colon."""
    # A name is a text like what is said; it identifies nobody.
    text = identifier(name, storable_text(value) if isinstance(value, str) else value)
    if ":" in text:
        raise InvalidInputError(f"{name} {quoted(text)} has a colon, which ends the name in the text; leave it out")
    return str(value)


def _named(name: str, value: object) -> list[object]:
    """A list of names, without repetitions."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidInputError(f"{name} must be a list, not {quoted(value)}")
    named = list(islice(value, _MAX_NAMED + 1))
    if len(named) > _MAX_NAMED:
        raise InvalidInputError(f"{name} has more than {_MAX_NAMED:,} entries; ask for them in several calls")
    return named


def _key_prefix(value: object) -> str:
    text = plain_text("key_prefix", value, constants.MAX_ID_CHARACTERS)
    if not text:
        raise InvalidInputError("key_prefix must not be empty; leave it out to read every memory")
    return text


def title(value: object) -> str:
    """A title: at least one visible character."""
    return not_blank("title", said_text("title", value, constants.MAX_TITLE_CHARACTERS))


def content(value: object, name: str = "content") -> str:
    """The text of a memory, or what is added to it."""
    return not_blank(name, said_text(name, value, constants.MAX_CONTENT_CHARACTERS))


def description(value: object) -> str | None:
    """A description, or None."""
    return None if value is None else said_text("description", value, MAX_DESCRIPTION_CHARACTERS)


def note(value: object) -> str | None:
    """A remark about how a run ended, or None."""
    return None if value is None else not_blank("note", said_text("note", value, MAX_NOTE_CHARACTERS))


def query(value: object, name: str = "query") -> str:
    """A question; what no stored text has in it becomes U+FFFD."""
    return not_blank(name, storable_text(said_text(name, value, MAX_QUERY_CHARACTERS)))


def refresh(value: object) -> ProfileRefresh:
    """When a profile is written again."""
    if value not in PROFILE_REFRESHES:
        raise InvalidInputError(f"refresh {quoted(value)} is unknown; choose one of {', '.join(PROFILE_REFRESHES)}")
    return value


def erased_text(value: object) -> str:
    """A text to erase; one or two characters would match nearly everything."""
    text = not_blank("text", plain_text("text", value, MAX_QUERY_CHARACTERS))
    if len(text.strip()) < MIN_ERASED_TEXT_CHARACTERS:
        raise InvalidInputError(
            f"text {text!r} has fewer than {MIN_ERASED_TEXT_CHARACTERS} characters and would match nearly"
            " everything; erase memories by their ids instead"
        )
    return text


def metadata(value: object) -> dict[str, Any]:
    """A JSON object within the limits of size and depth; None becomes an empty one."""
    return json_object("metadata", {} if value is None else value, constants.MAX_METADATA_BYTES, is_exact=False)


def memory_metadata(value: object, text: str | None) -> dict[str, Any]:
    """Metadata of a memory; its `turns`, if any, are positions in `text`.

    Args:
        text: The content that `turns` refer to; None if no content is passed, and then `turns` are refused.
    """
    checked = metadata(value)
    if isinstance(checked.get("speaker"), str):
        said_text("metadata['speaker']", checked["speaker"], constants.MAX_ID_CHARACTERS)
    turns = checked.get("turns")
    if turns is None:
        return checked
    if text is None:
        raise InvalidInputError(
            "metadata['turns'] are positions in content; leave them out to keep them as they are, or pass the"
            " content as well"
        )
    if not isinstance(turns, list):
        raise InvalidInputError("metadata['turns'] must be a list of objects with 'start' and 'speaker'")
    previous = -1
    for number, turn in enumerate(turns):
        start = turn.get("start") if isinstance(turn, dict) else None
        if not isinstance(start, int) or isinstance(start, bool) or not previous < start < len(text):
            raise InvalidInputError(
                f"metadata['turns'][{number}]['start'] must be a position in content after the previous one;"
                f" it is {quoted(start)}"
            )
        if not isinstance(turn.get("speaker"), str | None):
            raise InvalidInputError(f"metadata['turns'][{number}]['speaker'] must be a str or None")
        said_text(f"metadata['turns'][{number}]['speaker']", turn.get("speaker") or "", constants.MAX_ID_CHARACTERS)
        previous = start
    return checked


def json_object(
    name: str, value: object, max_bytes: int, *, max_values: int | None = None, is_exact: bool = True
) -> dict[str, Any]:
    """A JSON object, copied, limited to `max_bytes` of UTF-8 and in depth.

    Args:
        max_values: How many keys, values, lists and objects it may have; None leaves that to the bytes.
        is_exact: Refuse texts that cannot be stored as they are; False leaves them to the scrubber.
    """
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping, not {type(value).__name__}")
    if max_values is not None and _has_more_values(value, max_values):
        raise InvalidInputError(
            f"{name} has more than {max_values:,} keys and values; write it as several, or many numbers as one text"
        )
    check = plain_text if is_exact else said_text
    longest = max(max_bytes, constants.MAX_EVENT_PAYLOAD_BYTES)
    copied = _json(name, value, depth=1, text=lambda what, one: check(what, one, longest))
    try:
        size = count_json_bytes(copied)
    except ValueError as error:
        # Integers of more than 4,300 digits cannot be written out.
        raise InvalidInputError(f"{name} is not JSON: {error}") from None
    if size > max_bytes:
        raise InvalidInputError(f"{name} takes {size:,} bytes as JSON; the limit is {max_bytes:,}")
    return cast("dict[str, Any]", copied)


def _has_more_values(value: object, limit: int) -> bool:
    """Whether a value has more than so many keys and values; stops looking once that is clear."""
    count = 0
    left = [value]
    while left and count <= limit:
        item = left.pop()
        if isinstance(item, Mapping):
            count += 2 * len(item)
            inner: Iterable[object] = item.values()
        elif isinstance(item, list | tuple):
            count += len(item)
            inner = item
        else:
            continue
        if count <= limit:
            left.extend(one for one in inner if isinstance(one, Mapping | list | tuple))
    return count > limit


def moment(name: str, value: object) -> datetime:
    """A time with a zone, in UTC: the same moment in another zone is the same value."""
    if not isinstance(value, datetime):
        raise InvalidInputError(f"{name} must be a datetime, not {type(value).__name__}")
    # Some zones have an offset only for some dates, so checking tzinfo is not enough.
    if not isinstance(value.utcoffset(), timedelta):
        raise InvalidInputError(
            f"{name} {value.isoformat()!r} has no time zone; use an aware datetime such as datetime.now(UTC)"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidInputError(f"{name} {value.isoformat()!r} is outside the years 1 to 9999 in UTC") from None


def optional_moment(name: str, value: object) -> datetime | None:
    """An optional time with a zone."""
    return None if value is None else moment(name, value)


def timezone(value: object) -> str:
    """Return the IANA name of a time zone.

    Raises:
        InvalidInputError: The zone is unknown.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"timezone: {refusal(value)}")
    try:
        zone_named(value)
    except ValueError as error:
        raise InvalidInputError(f"timezone: {error}") from None
    return value


def optional_timezone(value: object) -> str | None:
    """As `timezone`; None stays None."""
    return None if value is None else timezone(value)


def on_error(value: object) -> Literal["raise", "skip"]:
    """What an import does with a message that cannot be read."""
    if value == "raise":
        return "raise"
    if value == "skip":
        return "skip"
    raise InvalidInputError(f"on_error {quoted(value)} is unknown; choose raise or skip")


def source(value: object) -> Source:
    """A trust label."""
    if value not in SOURCES:
        raise InvalidInputError(f"source {quoted(value)} is unknown; choose one of {', '.join(SOURCES)}")
    return value


def tiers(value: object) -> list[Tier]:
    """The tiers to search; None is all."""
    if value is None:
        return list(TIERS)
    wanted = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else []
    if not wanted:
        raise InvalidInputError(f"tiers must be a list of one or more of {', '.join(TIERS)}, not {quoted(value)}")
    for tier in wanted:
        if tier not in TIERS:
            raise InvalidInputError(f"tier {quoted(tier)} is unknown; choose from {', '.join(TIERS)}")
    return [tier for tier in TIERS if tier in wanted]


def access_scopes(value: object) -> tuple[AccessScope, ...]:
    """What a key may do, in the order of the scopes; each by its name or the last word of it."""
    wanted = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else []
    if not wanted:
        raise InvalidInputError(
            f"scopes must be a list of one or more of {', '.join(AccessScope)}, not {quoted(value)}"
        )
    names = {name: scope for scope in AccessScope for name in (scope.value, scope.value.partition(":")[2])}
    for one in wanted:
        if not isinstance(one, str) or one not in names:
            raise InvalidInputError(f"scope {quoted(one)} is unknown; choose from {', '.join(AccessScope)}")
    chosen = {names[one] for one in wanted}
    return tuple(scope for scope in AccessScope if scope in chosen)


def whole_number(name: str, value: object, *, minimum: int, maximum: int | None = None) -> int:
    """A whole number within a range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInputError(f"{name} must be a whole number, not {quoted(value)}")
    if value < minimum or (maximum is not None and value > maximum):
        limit = f"at least {minimum:,}" if maximum is None else f"from {minimum:,} to {maximum:,}"
        # An integer of more than 4,300 digits cannot be written out.
        shown = f"{value:,}" if value.bit_length() < _LARGE_BITS else "a far larger number"
        raise InvalidInputError(f"{name} must be {limit}, not {shown}")
    return value


def optional_number(name: str, value: object, *, maximum: int | None = None) -> int | None:
    """A whole number from 1, or None."""
    return None if value is None else whole_number(name, value, minimum=1, maximum=maximum)


def flag(name: str, value: object) -> bool:
    """Exactly True or False, nothing merely truthy or falsy."""
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name} must be True or False, not {quoted(value)}")
    return value


def share(name: str, value: object) -> float:
    """A number from 0 to 1."""
    return _share(name, value, "a number from 0 to 1")


def min_match(value: object) -> float | Literal["found"]:
    """A least match: a number from 0 to 1, or "found"."""
    return "found" if value == "found" else _share("min_match", value, "a number from 0 to 1, or 'found'")


def _share(name: str, value: object, wanted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInputError(f"{name} must be {wanted}, not {quoted(value)}")
    return float(value)


def where(value: object) -> Filter | None:
    """A filter; None and one without conditions admit everything."""
    if value is None or (isinstance(value, Filter) and not value.is_of_memories and not value.is_of_passages):
        return None
    if not isinstance(value, Filter):
        raise InvalidInputError(f"where must be a Filter, such as Filter(actors=['bot']), not {kind_of(value)}")
    return value


def seconds(name: str, value: object) -> float:
    """A duration in seconds, at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise InvalidInputError(f"{name} must be a number of seconds, at least 0, not {quoted(value)}")
    return float(value)


def memory_id(value: object, name: str = "memory_id") -> UUID:
    """A memory id, given as a UUID or its text."""
    if isinstance(value, UUID):
        # A plain UUID: the driver refuses subclasses.
        return UUID(int=value.int)
    try:
        return UUID(value) if isinstance(value, str) else _refuse_memory_id(value, name)
    except ValueError:
        return _refuse_memory_id(value, name)


def chunk_ids(value: object) -> list[UUID]:
    """Ids of passages, each given as a UUID or its text, without repetitions."""
    asked = (id_from("chunk_ids", one, "hit.chunk_id has") for one in _named("chunk_ids", value))
    return list(dict.fromkeys(asked))


def _refuse_memory_id(value: object, name: str) -> UUID:
    raise InvalidInputError(f"{name} must be a UUID, as returned by create_active_memory(), not {quoted(value)}")


def key_id(value: object) -> UUID:
    """The id of a key, given as a UUID or its text, or by the key itself, which no message may quote."""
    if isinstance(value, str) and is_key(value):
        return UUID(value.split("_")[1])
    return id_from("key_id", value, "memory.admin.keys.list() returns")


def belief_id(value: object) -> UUID:
    """The id of a belief, given as a UUID or its text."""
    return id_from("belief_id", value, "memory.admin.beliefs.current() returns")


def id_from(name: str, value: object, origin: str) -> UUID:
    """An id, given as a UUID or its text; `origin` says what it comes from: "…() returns"."""
    if isinstance(value, UUID):
        return UUID(int=value.int)
    if isinstance(value, str):
        with suppress(ValueError):
            return UUID(value)
    raise InvalidInputError(f"{name} must be a UUID, as {origin}, not {quoted(value)}")


def kinds(value: object) -> list[str] | None:
    """Event kinds to read; None is all."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence | set | frozenset):
        raise InvalidInputError(f"kinds must be a list of event kinds, not {quoted(value)}")
    return [identifier("kind", kind) for kind in value]


def event_kind(value: object) -> str:
    """A custom event kind: dotted lower-case words without our own prefix."""
    text = identifier("kind", value)
    if not _KIND.fullmatch(text):
        raise InvalidInputError(
            f"kind {quoted(text)} must be lower-case words joined by dots, such as 'world.observed'"
        )
    if text.startswith(RESERVED_PREFIX):
        raise InvalidInputError(
            f"kind {quoted(text)} begins with {RESERVED_PREFIX!r}, which is reserved for the package; choose another"
        )
    return text


def said_text(name: str, value: object, limit: int) -> str:
    """Text of at most `limit` characters, in which the scrubber replaces what cannot be stored."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a str, not {type(value).__name__}")
    if len(value) > limit:
        raise InvalidInputError(f"{name} has {len(value):,} characters; the limit is {limit:,}")
    return value


def plain_text(name: str, value: object, limit: int) -> str:
    """Text of at most `limit` characters that can be stored as it is, such as an identifier."""
    text = said_text(name, value, limit)
    if "\x00" in text:
        raise InvalidInputError(
            f"{name} has a NUL character at position {text.index(chr(0)):,}, which PostgreSQL cannot store"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{name} has a lone surrogate at position {error.start:,}, which is not Unicode text"
        ) from None
    return text


def not_blank(name: str, text: str) -> str:
    """Text that says something."""
    if not text.strip():
        raise InvalidInputError(f"{name} must not be empty, but is {quoted(text)}")
    return text


def _json(name: str, value: object, *, depth: int, text: Callable[[str, object], str]) -> Any:
    """A copy of `value` made only of dict, list, str, int, float, bool and None; `text` checks its texts."""
    if depth > MAX_METADATA_DEPTH + 1:
        raise InvalidInputError(f"{name} is nested deeper than {MAX_METADATA_DEPTH} levels")
    match value:
        case None | bool():
            return value
        case str():
            return text(f"a string in {name}", value)
        case int():
            return int(value)
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise InvalidInputError(f"{name} holds {value!r}, which JSON cannot represent")
            return float(value)
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    raise InvalidInputError(f"{name} has the key {quoted(key)}; JSON keys must be str")
            return {
                text(f"a key in {name}", key): _json(name, item, depth=depth + 1, text=text)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_json(name, item, depth=depth + 1, text=text) for item in value]
    raise InvalidInputError(f"{name} holds {kind_of(value)}, which is not JSON; convert it to text or numbers first")


def quoted(value: object) -> str:
    """A refused value as a message repeats it: its beginning."""
    try:
        text = repr(value)
    except ValueError:
        # An integer of more than 4,300 digits cannot be written out.
        text = f"{kind_of(value)} too large to show"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


# Keys under which messages say when they were said; the first one present counts.
TIME_KEYS: Final = ("timestamp", "time", "created_at", "date")
# A number this large is milliseconds, not seconds since 1970: it would be after the year 5100.
_MILLISECONDS_FROM: Final = 1e11


def parse_time(value: object) -> datetime:
    """A time as exports write it: ISO 8601, or seconds since 1970 as a number. Without a time zone it is UTC.

    Raises:
        InvalidInputError: It is neither.
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidInputError(
                f"{value[:60]!r} is not a time; write ISO 8601 such as 2025-03-09T14:30:00+01:00, or seconds since 1970"
            ) from None
        return moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInputError(f"{kind_of(value)} is not a time; write ISO 8601, or seconds since 1970")
    if abs(value) >= _MILLISECONDS_FROM:
        raise InvalidInputError(f"the time {value!r} looks like milliseconds; write seconds since 1970")
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidInputError(f"{value!r} seconds since 1970 is outside the years 1 to 9999") from None
