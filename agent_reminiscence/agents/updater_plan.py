"""What a model writes of a conversation: new memories, lines that change, and what the user wants forgotten.

A memory is changed line by line, so that a model cannot lose what it does not copy. The schema states no limits, which
every request would pay for; `updater_mending` makes of an answer what can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def _as_list(value: object) -> object:
    """Models write null for an empty list, and one item without its list."""
    if value is None:
        return []
    return value if isinstance(value, list | tuple) else [value]


def _as_lines(value: object) -> object:
    return value.splitlines() if isinstance(value, str) else _as_list(value)


def _nothing_is_empty(value: object) -> object:
    return "" if value is None else value


def _nothing_is_zero(value: object) -> object:
    return 0 if value is None else value


_Text = Annotated[str, BeforeValidator(_nothing_is_empty)]
_Numbers = Annotated[list[int], BeforeValidator(_as_list)]


class _Part(BaseModel):
    """An item of a list. The schema asks for all of it; what code can do without may be missing all the same."""

    model_config = ConfigDict(str_strip_whitespace=True)

    _dispensable: ClassVar[Mapping[str, Any]] = {"why": "", "messages": ()}

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, value: Any) -> Any:
        return {**cls._dispensable, **value} if isinstance(value, dict) else value


class NewMemory(_Part):
    """A memory of a new subject."""

    _dispensable = {"title": "", "why": "", "messages": ()}

    title: _Text
    lines: Annotated[list[str], BeforeValidator(_as_lines)]
    why: _Text
    messages: _Numbers


class ChangedLine(_Part):
    """A line of a memory that was shown."""

    _dispensable = {"line": 0, "why": "", "messages": ()}

    memory: int
    line: Annotated[int, BeforeValidator(_nothing_is_zero)] = Field(description="0 adds one.")
    text: _Text = Field(description="Its whole new text; empty takes it out.")
    why: _Text
    messages: _Numbers


class Forgetting(_Part):
    """What the user wants forgotten."""

    _dispensable = {"what": "", "memories": ()}

    what: _Text
    memories: _Numbers = Field(description="Those that hold it.")
    message: int = Field(description="Where the user says so.")


class MemoryUpdate(BaseModel):
    """What changes in the memories; empty lists change nothing.

    An item that is not as the schema says is left out, and remembered as a complaint.
    """

    model_config = ConfigDict(str_strip_whitespace=True, json_schema_extra={"description": "What changes."})

    create: Annotated[list[NewMemory], BeforeValidator(_as_list)] = []
    update: Annotated[list[ChangedLine], BeforeValidator(_as_list)] = []
    delete: Annotated[list[Forgetting], BeforeValidator(_as_list)] = []
    why: _Text

    _complaints: list[str] = PrivateAttr(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        """What was left out, and why; quotes nothing of the answer."""
        return self._complaints

    @model_validator(mode="wrap")
    @classmethod
    def _leave_out(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(value, dict):
            value = {"why": "", **value}
        try:
            return handler(value)
        except ValidationError as error:
            refused = error
        if not isinstance(value, dict):
            # The answer as a whole is something else.
            raise refused
        # The first fault of each item, with the field that it is in.
        wrong: dict[tuple[int | str, ...], str] = {}
        for fault in refused.errors():
            where = fault["loc"][:2]
            wrong.setdefault(where, "".join(f" `{field}`" for field in fault["loc"][2:3]) + f": {fault['msg']}")
        rest = {name: _without(name, items, wrong) for name, items in value.items() if (name,) not in wrong}
        written = handler({"why": "", **rest})
        complaints = [" ".join(map(str, map(_place, where))) + why for where, why in wrong.items()]
        written.complaints.extend(complaints[:_MAX_COMPLAINTS])
        return written


def _without(name: str, items: object, wrong: Mapping[tuple[int | str, ...], str]) -> object:
    listed = _as_list(items)
    if name == "why" or not isinstance(listed, list | tuple):
        return items
    return [item for index, item in enumerate(listed) if (name, index) not in wrong]


def _place(index: int | str) -> int | str:
    """As people count."""
    return index + 1 if isinstance(index, int) else index
