"""The tables of events in docs/guide/events.md, held against the models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAliasType, Union, get_args, get_origin
from uuid import UUID

import pytest
from pydantic import AwareDatetime, BaseModel

from agent_reminiscence.domain import erasure, payloads
from agent_reminiscence.domain.audit import LedgerFault
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.payloads import PAYLOADS
from agent_reminiscence.domain.said import SaidFrom
from agent_reminiscence.domain.trust import SOURCES

_PAGE = Path(__file__).parents[3] / "docs" / "guide" / "events.md"
_HEADING = re.compile(r"^#{2,3} (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_PARTS = (
    payloads.ChunkEntry,
    SaidFrom,
    payloads.ChunkRating,
    payloads.FactEntry,
    payloads.Duplicate,
    payloads.ChunkCut,
    payloads.ChunkPiece,
    payloads.OutdatedPart,
    payloads.Promotion,
    payloads.GraphChanges,
    payloads.ProfileCitation,
    payloads.EntityEntry,
    payloads.RelationshipEntry,
    payloads.ModelUsage,
    payloads.ReflectionAsked,
    payloads.DeletionAsked,
    erasure.ErasedEvent,
    LedgerFault,
)
_NAMES: Mapping[Any, str] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    bytes: "bytes",
    UUID: "uuid",
    datetime: "datetime",
    AwareDatetime: "datetime",
}


def _sections() -> dict[str, list[tuple[str, str, str]]]:
    """Rows of the tables of fields, by the heading they stand under."""
    _, *pieces = _HEADING.split(_PAGE.read_text(encoding="utf-8"))
    return {heading: _ROW.findall(text) for heading, text in zip(pieces[::2], pieces[1::2], strict=True)}


def _spelling(annotation: Any) -> str:
    """A field's type as the page spells it."""
    if isinstance(annotation, TypeAliasType):
        return _spelling(annotation.__value__)
    if annotation in _NAMES:
        return _NAMES[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _spelling(arguments[0])
    if origin in (Union, UnionType):
        return f"{_spelling(next(argument for argument in arguments if argument is not NoneType))} or null"
    if origin is tuple:
        return f"list of {_spelling(arguments[0])}"
    if origin is dict:
        return "object"
    if origin is Literal:
        return "str"
    if annotation == list[Any]:
        return "list"
    assert annotation in _PARTS, f"the page has no spelling for {annotation!r}"
    return f"[{annotation.__name__}](#{annotation.__name__.lower()})"


def _fields(model: type[BaseModel]) -> list[tuple[str, str]]:
    return [(name, _spelling(field.annotation)) for name, field in model.model_fields.items()]


# The payload of an erasure is its receipt, which is made elsewhere.
_PAYLOADS: dict[str, type[BaseModel]] = {**PAYLOADS, EventKind.ERASED: erasure.ErasureReceipt}
_MODELS: dict[str, type[BaseModel]] = {
    **{str(kind): payload for kind, payload in _PAYLOADS.items()},
    **{part.__name__: part for part in _PARTS},
}


@pytest.mark.parametrize("heading", _MODELS)
def test_a_section_lists_the_fields_of_its_model_in_order(heading: str) -> None:
    """Who reads an event of the ledger finds every field of its payload, with its type, on the page."""
    rows = _sections().get(heading, [])

    assert [(name, kind) for name, kind, _ in rows] == _fields(_MODELS[heading])


def test_what_every_event_carries_is_listed_in_full() -> None:
    """The fields beside the payload are on the page, in the order of the model."""
    rows = _sections()["What every event carries"]

    documented = [(name, kind.replace("UUID", "uuid")) for name, kind, _ in rows]
    assert documented == _fields(Event)


def test_every_kind_that_the_package_writes_has_a_section_and_a_payload() -> None:
    """A new kind cannot be added without its place on the page."""
    documented = {heading for heading in _sections() if heading.startswith("memory.")}

    assert documented == set(EventKind)
    assert set(_PAYLOADS) == set(EventKind)


def test_the_trust_labels_stand_in_the_order_of_trust() -> None:
    """The page says that the order of the list is the order of trust."""
    [meaning] = [meaning for name, _, meaning in _sections()["What every event carries"] if name == "source"]

    assert tuple(re.findall("`([a-z]+)`", meaning)) == SOURCES
