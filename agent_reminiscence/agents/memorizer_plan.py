"""What a model writes of a window: flat lists that refer to passages by label (`N1`) and to entities by name.

The schema asks for little and forbids less: every limit in it is paid for with each request, and a model that breaks
one would have to write everything again. `memorizer_mending` makes of it what can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Annotated, Any, ClassVar, Final, Self, TypeGuard

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

# New passages, stored passages and known relationships have a letter each, and a bare number is one of them all.
LABEL = "^[NSR]?-?[0-9]{1,9}$"
# The most of Pydantic's complaints that are passed on.
_MAX_COMPLAINTS = 20


def _nothing_is_empty(value: object) -> object:
    """Models write null for what they leave out."""
    return "" if value is None else value


def _nothing_is_a_list(value: object) -> object:
    return [] if value is None else value


_Text = Annotated[str, BeforeValidator(_nothing_is_empty)]


def _without_pattern(schema: dict[str, Any]) -> None:
    """Each request would pay for it."""
    schema.pop("pattern", None)


def _by_label(value: object) -> dict[str, Any]:
    """Ratings by label; models also write them as an object, or one number after the other."""
    if _is_in_order(value):
        value = dict(enumerate(value, start=1))
    elif isinstance(value, list):
        value = {str(one.get("passage")): one.get("importance") for one in value if isinstance(one, dict)}
    if not isinstance(value, dict):
        # Pydantic would ask for an object, and the schema for a list.
        raise PydanticCustomError("list_type", "Input should be a valid list")
    return {str(label): rating for label, rating in value.items()}


def _is_in_order(value: object) -> TypeGuard[list[object]]:
    """Whether ratings have no labels."""
    return isinstance(value, list) and bool(value) and not any(isinstance(one, dict) for one in value)


def _as_label(value: object) -> object:
    """Models also write a bare number, or the brackets around a label."""
    return str(value).strip("[] ").upper() if isinstance(value, int | str) else value


# Letters show a model what it refers to; code reads a bare number as well, as all labels count in one series.
_Label = Annotated[str, BeforeValidator(_as_label), Field(pattern=LABEL, json_schema_extra=_without_pattern)]

_MAY_BE_NULL = BeforeValidator(_nothing_is_a_list)


def _shortened(schema: dict[str, Any]) -> None:
    """Each request would pay for what the instructions say, and for what stands where nothing is written."""
    for name in ("title", "description"):
        schema.pop(name, None)
    for field in schema["properties"].values():
        field.pop("default", None)


class _Part(BaseModel):
    """An item of a list. The schema asks for all of it; what code can do without may be missing all the same."""

    model_config = ConfigDict(str_strip_whitespace=True, json_schema_extra=_shortened)

    _dispensable: ClassVar[Mapping[str, Any]] = {}

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, value: Any) -> Any:
        return {**cls._dispensable, **value} if isinstance(value, dict) else value


class FoundEntity(_Part):
    """Somebody or something that the new passages name."""

    _dispensable = {"type": ""}

    name: str
    type: str
    description: _Text = ""
    also_called: Annotated[list[str], _MAY_BE_NULL] = []
    is_other: bool = False


class FoundRelationship(_Part):
    """How new passages say two entities are related."""

    _dispensable = {"passages": ()}

    who: str
    relation: str
    whom: str
    passages: list[_Label]
    since: _Text = ""
    until: _Text = ""


class Fact(_Part):
    """A sentence that can be understood alone."""

    _dispensable = {"passages": (), "importance": nan}

    text: str
    passages: list[_Label]
    importance: float


class Ending(_Part):
    """What a new passage shows to be over: words of a passage, or a known relationship."""

    _dispensable = {"part": "", "why": ""}

    number: _Label
    by: _Label
    part: _Text
    why: str
    on: _Text = Field(default="", description="When a relationship ended.")


class _Written(BaseModel):
    """An answer in which an item that is not as the schema says is left out, and remembered as a complaint."""

    model_config = ConfigDict(str_strip_whitespace=True)

    _complaints: list[str] = PrivateAttr(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        """What was left out, and why; quotes nothing of the answer."""
        return self._complaints

    def note(self, written: dict[str, Any]) -> None:
        """Remember what of an answer as it was written matters later."""

    @model_validator(mode="wrap")
    @classmethod
    def _leave_out(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            written = handler(value)
        except ValidationError as error:
            refused = error
        else:
            if isinstance(value, dict):
                written.note(value)
            return written
        if not isinstance(value, dict):
            # The answer as a whole is something else.
            raise refused
        errors = refused.errors()
        # The first fault of each item, with the field that it is in.
        wrong = {
            (one["loc"][0], one["loc"][1]): "".join(f" `{field}`" for field in one["loc"][2:3]) + f": {one['msg']}"
            for one in reversed(errors)
            if len(one["loc"]) > 1
        }
        whole = {one["loc"][0]: one["msg"] for one in errors if len(one["loc"]) == 1}
        rest = {name: _without(name, items, wrong) for name, items in value.items() if name not in whole}
        if "importance" in whole and any(rest.get(name) for name in cls.model_fields):
            # Nobody knows the ratings, but the rest may be right.
            rest.setdefault("importance", [])
        written = handler(rest)
        written.note(rest | {name: items for name, items in value.items() if name not in whole})
        complaints = [f"{name}: {why}" for name, why in whole.items()]
        # Rules rate what has no rating.
        complaints += [f"{name} {_place(index)}{why}" for (name, index), why in wrong.items() if name != "importance"]
        written.complaints.extend(complaints[:_MAX_COMPLAINTS])
        return written


def _without(name: str, items: object, wrong: dict[tuple[int | str, int | str], str]) -> object:
    """A list without its wrong items; ratings stay as many as they are."""
    if name == "importance" and isinstance(items, list | dict):
        rated = _by_label(items)
        return {label: nan if (name, label) in wrong else rating for label, rating in rated.items()}
    if not isinstance(items, list):
        return items
    return [item for index, item in enumerate(items) if (name, index) not in wrong]


def _place(index: int | str) -> int | str:
    """As people count."""
    return index + 1 if isinstance(index, int) else index


# A list, as the other fields are: strict modes of providers allow no object with keys of the model's own, and empty it.
_RATINGS: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"passage": {"type": "string"}, "importance": {"type": "number"}},
        "required": ["passage", "importance"],
    },
}


class ConsolidationPlan(_Written):
    """What to make of the new passages."""

    importance: Annotated[dict[str, float], BeforeValidator(_by_label), WithJsonSchema(_RATINGS)]
    entities: Annotated[list[FoundEntity], _MAY_BE_NULL] = []
    relationships: Annotated[list[FoundRelationship], _MAY_BE_NULL] = []
    facts: Annotated[list[Fact], _MAY_BE_NULL] = []
    over: Annotated[list[Ending], _MAY_BE_NULL] = []
    summary: _Text = ""

    _ratings_in_order: int | None = PrivateAttr(default=None)

    @property
    def ratings_in_order(self) -> int | None:
        """How many ratings were written without labels, one for each passage; None if they have labels."""
        return self._ratings_in_order

    def note(self, written: dict[str, Any]) -> None:
        """Remember that ratings had no labels."""
        ratings = written.get("importance")
        self._ratings_in_order = len(ratings) if _is_in_order(ratings) else None


class EndingsPlan(_Written):
    """Which statements of less trusted sources the new passages show to be over."""

    over: Annotated[list[Ending], _MAY_BE_NULL] = []
