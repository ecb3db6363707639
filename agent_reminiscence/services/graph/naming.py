"""Which entity a name means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from agent_reminiscence.database.repositories.graph.tables import KnownEntityName
from agent_reminiscence.domain.graph import ANY_TYPE, Entity
from agent_reminiscence.exceptions import EntityNotFoundError, InvalidInputError

# How many entities with one name a message lists.
_LISTED: Final = 5


def find_fitting(type_: str, rows: Sequence[KnownEntityName]) -> KnownEntityName | None:
    """The first of the same type, else of an open type, else of a guessed one; for an open type, the first of all."""
    if type_ == ANY_TYPE:
        return next(iter(rows), None)
    fitting = [row for row in rows if row.type in (type_, ANY_TYPE) or row.is_guess]
    return min(fitting, key=lambda row: (row.type != type_, row.type != ANY_TYPE), default=None)


def list_ids(types: Mapping[UUID, str]) -> str:
    """Some entities, for a message: their ids, each with its type."""
    listed = ", ".join(f"{entity_id} ({type_})" for entity_id, type_ in islice(types.items(), _LISTED))
    return f"{listed} and {len(types) - _LISTED} more" if len(types) > _LISTED else listed


def only_one(found: Sequence[Entity], external_id: str, entity: UUID | str) -> Entity:
    """The entity that an id or a name means.

    Raises:
        EntityNotFoundError: There is none.
        InvalidInputError: Several share the name.
    """
    if not found:
        raise EntityNotFoundError(external_id, entity)
    if len(found) > 1:
        listed = list_ids({one.id: one.type for one in found})
        raise InvalidInputError(f"{entity!r} is the name of {len(found)} entities; choose one by its id: {listed}")
    return found[0]
