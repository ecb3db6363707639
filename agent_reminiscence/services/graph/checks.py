"""Checks what a caller says about the graph: entities, names, types, properties and periods.

Like `validation`, before anything is read or written, with messages that name the value and the way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from agent_reminiscence.config.constants import (
    MAX_ENTITY_NAME_CHARACTERS,
    MAX_GRAPH_TYPE_CHARACTERS,
    MAX_METADATA_BYTES,
    MAX_PATH_STEPS,
)
from agent_reminiscence.domain.graph import GraphStep
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services import validation
from agent_reminiscence.text.folding import name_key, snake_case


def entity(name: str, value: object) -> UUID | str:
    """An entity, given by its id, as a UUID or its text, or by one of its names."""
    if isinstance(value, UUID):
        return UUID(int=value.int)
    text = entity_name(name, value)
    try:
        return UUID(text)
    except ValueError:
        return text


def entity_id(name: str, value: object) -> UUID:
    """An entity, given by its id only."""
    return validation.id_from(name, value, "memory.admin.graph.entities() returns")


def relationship_id(value: object) -> UUID:
    """A relationship id, given as a UUID or its text."""
    return validation.id_from("relationship_id", value, "memory.admin.graph.neighbourhood() returns")


def entity_name(name: str, value: object) -> str:
    """An entity's name."""
    return validation.not_blank(name, validation.plain_text(name, value, MAX_ENTITY_NAME_CHARACTERS))


def new_entity_name(name: str, value: object) -> str:
    """A name to give an entity: one that it can be found by."""
    text = entity_name(name, value)
    if not name_key(text):
        raise InvalidInputError(f"{name} {validation.quoted(text)} leaves nothing to find an entity by; add a word")
    return " ".join(text.split())


def new_or_known_entity(name: str, value: object) -> UUID | str:
    """An entity, given by its id or by a name, which may be new."""
    named = entity(name, value)
    return named if isinstance(named, UUID) else new_entity_name(name, named)


def new_graph_type(name: str, value: object) -> str:
    """A type to store, which will be spelled in lower case and with underscores."""
    text = validation.plain_text(name, value, MAX_GRAPH_TYPE_CHARACTERS)
    # In lower case, a few letters become two.
    if not validation.plain_text(name, snake_case(text), MAX_GRAPH_TYPE_CHARACTERS):
        raise InvalidInputError(
            f"{name} {validation.quoted(text)} has no letter or digit; pass a word, such as 'person'"
        )
    return text


def graph_type(name: str, value: object) -> str | None:
    """A type of entities or relationships; None is any."""
    return None if value is None else _type(name, value)


def graph_types(value: object) -> list[str] | None:
    """Types of entities or relationships; None is any."""
    if value is None:
        return None
    wanted = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else []
    if not wanted:
        raise InvalidInputError(
            f"types must be a list of one or more types, such as ['person'], not {validation.quoted(value)}"
        )
    return [_type("types", type_) for type_ in wanted]


def _type(name: str, value: object) -> str:
    return validation.not_blank(name, validation.plain_text(name, value, MAX_GRAPH_TYPE_CHARACTERS))


def path(value: object) -> list[GraphStep]:
    """The steps of a path to match: `GraphStep` objects, or (type, type of the relationship, type) each."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise InvalidInputError(
            "path must be a list of steps, such as [('person', 'works_for', 'organization')], not"
            f" {validation.quoted(value)}"
        )
    if not 1 <= len(value) <= MAX_PATH_STEPS:
        raise InvalidInputError(f"path must have 1 to {MAX_PATH_STEPS} steps, not {len(value)}")
    steps: list[GraphStep] = []
    for place, one in enumerate(value):
        step = _step(f"path[{place}]", one)
        before = steps[-1].to_type if steps else None
        if step.from_type is not None and before is not None and step.from_type != before:
            raise InvalidInputError(
                f"path[{place}] starts from {validation.quoted(step.from_type)}, where path[{place - 1}] ends at"
                f" {validation.quoted(before)}; it is one entity, so name one type, or leave one of them out"
            )
        if steps and step.from_entity is not None:
            raise InvalidInputError(
                f"path[{place}].from_entity is the entity at which path[{place - 1}] ends; name it there, as to_entity"
            )
        steps.append(step)
    return steps


def _step(name: str, value: object) -> GraphStep:
    if isinstance(value, tuple | list) and len(value) == 3:
        from_type, relationship_type, to_type = value
        types = None if relationship_type is None else (relationship_type,)
        fields: dict[str, Any] = {"from_type": from_type, "relationship_types": types, "to_type": to_type}
    elif isinstance(value, GraphStep):
        fields = dict(value)
    else:
        raise InvalidInputError(
            f"{name} must be a GraphStep, or (type, relationship type, type) with None for any, not"
            f" {validation.quoted(value)}"
        )
    types = fields["relationship_types"]
    if types is not None and not types:
        raise InvalidInputError(f"{name}.relationship_types is empty, so nothing fits; pass None for any type")
    for end in ("from_type", "to_type"):
        fields[end] = graph_type(f"{name}.{end}", fields[end])
    if types is not None:
        fields["relationship_types"] = tuple(_type(f"{name}.relationship_types", one) for one in types)
    for end in ("from_entity", "to_entity"):
        if fields.get(end) is not None:
            fields[end] = entity(f"{name}.{end}", fields[end])
    return GraphStep(**fields)


def properties(name: str, value: object) -> dict[str, str | int | float | bool]:
    """Values that metadata must hold, by name; None requires none."""
    checked = validation.json_object(name, {} if value is None else value, MAX_METADATA_BYTES)
    for key, item in checked.items():
        if not isinstance(item, str | int | float):
            raise InvalidInputError(
                f"{name}[{validation.quoted(key)}] must be a str, a number, True or False, not"
                f" {validation.quoted(item)}; nested values are not supported"
            )
    return checked


def period(start_date: object, end_date: object) -> tuple[datetime | None, datetime | None]:
    """Since when and until when something holds; None is open."""
    since = validation.optional_moment("start_date", start_date)
    until = validation.optional_moment("end_date", end_date)
    if since is not None and until is not None and until < since:
        raise InvalidInputError(f"end_date {until.isoformat()} is before start_date {since.isoformat()}")
    return since, until
