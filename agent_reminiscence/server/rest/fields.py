"""Types of what a request holds.

They accept what JSON and the document at `/v1/openapi.json` say, and nothing that only looks like it: no number as
text, no time without a zone. What a value has to fulfil beyond its type, the memory checks.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from fastapi.exceptions import RequestValidationError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)

from agent_reminiscence.config.constants import (
    MAX_CONTENT_CHARACTERS,
    MAX_ENTITY_NAME_CHARACTERS,
    MAX_GRAPH_TYPE_CHARACTERS,
    MAX_ID_CHARACTERS,
    MAX_MEMORIES_ASKED,
    MAX_RESULTS,
    MAX_TITLE_CHARACTERS,
)
from agent_reminiscence.config.languages import LANGUAGES
from agent_reminiscence.domain.filter import MAX_VALUES, Filter
from agent_reminiscence.domain.strict_json import RepeatedKeyError, refuse_repeated_keys
from agent_reminiscence.domain.trust import Source

# The largest whole number that all readers of JSON take for the same.
MAX_POSITION: Final = 2**53 - 1
# The memory has them where the server does not reach; a test holds them together.
MAX_DESCRIPTION_CHARACTERS: Final = 10_000
MAX_QUERY_CHARACTERS: Final = 20_000
MAX_NOTE_CHARACTERS: Final = 2_000
MIN_PROFILE_TOKENS: Final = 50
MAX_PROFILE_TOKENS: Final = 4_000
MIN_REFRESH_TOKENS: Final = 2_000

_RFC_3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class Body(BaseModel):
    """What a request says; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def given(self, *fields: str) -> dict[str, Any]:
        """The fields of a request that it names, as arguments; all of them, or some."""
        named = self.model_fields_set if not fields else self.model_fields_set.intersection(fields)
        return {name: getattr(self, name) for name in named}


def _moment(value: object) -> object:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        hint = "; in a query, write + as %2B" if isinstance(value, str) and " " in value else ""
        raise ValueError(f"write a time as RFC 3339, with its zone, such as 2026-03-09T14:30:00+01:00{hint}")
    try:
        return datetime.fromisoformat(value.upper())
    except ValueError:
        raise ValueError("no such time; write it as RFC 3339, such as 2026-03-09T14:30:00+01:00") from None


Moment = Annotated[
    datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation")
]
"""A time as RFC 3339, with its zone."""


def _plain(text: str) -> str:
    if "\x00" in text:
        raise ValueError("a text holds no NUL character")
    return text


PlainText = Annotated[str, AfterValidator(_plain)]
"""A text that a database can hold."""


def _whole(value: object) -> object:
    # In JSON, 5.0 is the same number as 5.
    return int(value) if isinstance(value, float) and value.is_integer() else value


Flag = StrictBool
Share = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]
"""A number from 0 to 1."""
Number = Annotated[StrictInt, Field(ge=1, le=2**31 - 1), BeforeValidator(_whole)]
"""A whole number from 1."""
Limit = Annotated[StrictInt, Field(ge=1, le=MAX_RESULTS), BeforeValidator(_whole)]
"""At most so many results."""
Position = Annotated[StrictInt, Field(ge=0, le=MAX_POSITION), BeforeValidator(_whole)]
"""A position in the ledger; 0 is before the first event."""
# The memory's own rules, as the document says them; the memory checks them, and says what is wrong.
_UNSEEN: Final = r"\x00-\x1f\x7f-\x9f"


def _text(pattern: str, max_characters: int) -> Any:
    return WithJsonSchema({"type": "string", "minLength": 1, "maxLength": max_characters, "pattern": pattern})


def _identifier(without: str = "") -> Any:
    inner = rf"[^{_UNSEEN}{without}]"
    outer = rf"[^\s{_UNSEEN}{without}]"
    return _text(rf"^{outer}({inner}*{outer})?$", MAX_ID_CHARACTERS)


_VISIBLE: Final = r"\S"

Id = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARACTERS), _identifier()]
"""A caller's own id of something."""
Memories = Annotated[list[Id], Field(min_length=1, max_length=MAX_MEMORIES_ASKED)]
"""Memories by whose they are."""
Speaker = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARACTERS), _identifier(":")]
Title = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_TITLE_CHARACTERS), _text(_VISIBLE, MAX_TITLE_CHARACTERS)
]
Text = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_CONTENT_CHARACTERS), _text(_VISIBLE, MAX_CONTENT_CHARACTERS)
]
Question = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_QUERY_CHARACTERS), _text(_VISIBLE, MAX_QUERY_CHARACTERS)
]
EntityName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_ENTITY_NAME_CHARACTERS),
    _text(_VISIBLE, MAX_ENTITY_NAME_CHARACTERS),
]
GraphType = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_GRAPH_TYPE_CHARACTERS),
    _text(_VISIBLE, MAX_GRAPH_TYPE_CHARACTERS),
]
Language = Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(LANGUAGES)})]
"""A language as ISO 639-1."""
Timezone = Annotated[str, StringConstraints(min_length=1, max_length=64)]
"""The IANA name of a time zone; the memory refuses an unknown one."""
JsonObject = dict[str, Any]
Hash = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
"""A SHA-256, as receipts spell it."""


def one_of(**fields: str) -> dict[str, Any]:
    """What the document says of a model of which exactly one field, with its type, has to be given."""
    return {"oneOf": [{"required": [name], "properties": {name: {"type": kind}}} for name, kind in fields.items()]}


class TurnGiven(Body):
    """Something that somebody said."""

    text: Text
    speaker: Speaker | None = Field(default=None, description="Who says it: `user`, `assistant`, `tool` or a name.")
    time: Moment | None = Field(default=None, description="When it was said; null: now.")
    id: Id | None = Field(
        default=None, description="Your own id of it; a turn with an id that is stored already is not stored again."
    )
    metadata: JsonObject = Field(default_factory=dict)


_T = TypeVar("_T")
# Not a `type` statement, of which the document would make a component with a name of Python's.
_Several = Annotated[list[_T], Field(min_length=1, max_length=MAX_VALUES)]


class Where(Body):
    """Which memories and passages count; all conditions have to hold, and a field left out holds for all.

    A list holds if one of its values does. Conditions on metadata are given by path, `{"project.name": "x"}`, or
    nested. The value is what is to be there, or an object of `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, `$in`, `$nin`,
    `$exists` and `$contains`. `$or` and `$and` take a list of such objects, `$not` takes one.
    """

    conversation_ids: _Several[Id] | None = Field(
        default=None, description="The memory's conversation, as last written."
    )
    actors: _Several[Id] | None = Field(default=None, description="Who last wrote the memory.")
    memory_ids: _Several[UUID] | None = Field(default=None, description="Of memories, archived or not.")
    keys: _Several[Id] | None = Field(default=None, description="Keys of memories, archived or not.")
    key_prefix: Id | None = Field(default=None, description="How the memory's key begins.")
    metadata: JsonObject | None = Field(default=None, description="Conditions on the memory's metadata.")
    sources: _Several[Source] | None = Field(default=None, description="Trust labels of the passage.")
    speakers: _Several[Id] | None = Field(default=None, description="Who said the passage, without regard to case.")
    turn_metadata: JsonObject | None = Field(
        default=None, description="Conditions on the metadata of the turn that the passage is from."
    )
    occurred_after: Moment | None = Field(
        default=None, description="The passage became true in the world at this time or later."
    )
    occurred_before: Moment | None = Field(default=None, description="It became true before this time.")

    def as_filter(self) -> Filter:
        """The filter that the memory takes.

        Raises:
            InvalidInputError: A condition is invalid.
        """
        return Filter(**self.given())


def as_filter(where: Where | None) -> Filter | None:
    """The filter of a request, if it has one."""
    return None if where is None else where.as_filter()


def read_where(text: str) -> Where:
    """A filter that a query holds as JSON.

    Raises:
        RequestValidationError: It is none.
    """
    try:
        where = Where.model_validate_json(text)
        refuse_repeated_keys(text)
    except ValidationError as error:
        raise RequestValidationError(
            [fault | {"loc": ("query", "where", *fault["loc"])} for fault in error.errors()]
        ) from None
    except RepeatedKeyError as error:
        fault = {"type": "json_invalid", "loc": ("query", "where"), "msg": str(error)}
        raise RequestValidationError([fault]) from None
    return where
