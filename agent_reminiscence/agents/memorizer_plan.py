"""What a model writes of a window: flat lists that refer to passages by number and to entities by name.

The schema asks for little and forbids less: every limit in it is paid for with each request, and a model that breaks
one would have to write everything again. `memorizer_mending` makes of it what can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

# The most of Pydantic's complaints that are passed on.
_MAX_COMPLAINTS = 20


def _nothing_is_empty(value: object) -> object:
    """Models write null for what they leave out."""
    return "" if value is None else value


def _nothing_is_a_list(value: object) -> object:
    return [] if value is None else value


_Text = Annotated[str, BeforeValidator(_nothing_is_empty)]


def _in_order(value: object) -> object:
    """Models also write a rating beside each number."""
    return list(value.values()) if isinstance(value, dict) else _nothing_is_a_list(value)


_MAY_BE_NULL = BeforeValidator(_nothing_is_a_list)


class _Part(BaseModel):
    """An item of a list. The schema asks for all of it; what code can do without may be missing all the same."""

    model_config = ConfigDict(str_strip_whitespace=True)

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
    is_other: bool = Field(default=False, description="Only shares the name of a known entity.")


class FoundRelationship(_Part):
    """How new passages say two entities are related."""

    _dispensable = {"passages": ()}

    who: str
    relation: str
    whom: str
    passages: list[int]
    since: _Text = ""
    until: _Text = ""


class Fact(_Part):
    """A sentence that can be understood alone."""

    _dispensable = {"passages": (), "importance": nan}

    text: str
    passages: list[int]
    importance: float


class Ending(_Part):
    """A passage or known relationship that a new passage shows to be over."""

    _dispensable = {"why": ""}

    number: int
    by: int
    why: str
    on: _Text = Field(default="", description="When a relationship ended, if a passage says so.")


class _Written(BaseModel):
    """An answer in which an item that is not as the schema says is left out, and remembered as a complaint."""

    model_config = ConfigDict(str_strip_whitespace=True)

    _complaints: list[str] = PrivateAttr(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        """What was left out, and why; quotes nothing of the answer."""
        return self._complaints

    @model_validator(mode="wrap")
    @classmethod
    def _leave_out(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            refused = error
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
        complaints = [f"{name}: {why}" for name, why in whole.items()]
        # Rules rate what has no rating.
        complaints += [f"{name} {_place(index)}{why}" for (name, index), why in wrong.items() if name != "importance"]
        written.complaints.extend(complaints[:_MAX_COMPLAINTS])
        return written


def _without(name: str, items: object, wrong: dict[tuple[int | str, int | str], str]) -> object:
    """A list without its wrong items; a list of numbers keeps its length."""
    if not isinstance(items, list):
        return items
    if name == "importance":
        return [nan if (name, index) in wrong else item for index, item in enumerate(items)]
    return [item for index, item in enumerate(items) if (name, index) not in wrong]


def _place(index: int | str) -> int | str:
    """As people count."""
    return index + 1 if isinstance(index, int) else index


class ConsolidationPlan(_Written):
    """What to make of the new passages."""

    importance: Annotated[list[float], BeforeValidator(_in_order)] = Field(
        description="Of each new passage, in the order of the numbers, 0 to 1."
    )
    entities: Annotated[list[FoundEntity], _MAY_BE_NULL] = []
    relationships: Annotated[list[FoundRelationship], _MAY_BE_NULL] = []
    facts: Annotated[list[Fact], _MAY_BE_NULL] = []
    over: Annotated[list[Ending], _MAY_BE_NULL] = []
    summary: _Text = ""


class EndingsPlan(_Written):
    """Which statements of less trusted sources the new passages show to be over."""

    over: Annotated[list[Ending], _MAY_BE_NULL] = []
