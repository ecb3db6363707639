"""Entities and relationships as rows of Neo4j, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from agent_reminiscence.database.neo4j_manager import Row
from agent_reminiscence.database.repositories.graph.neo4j_reads import UnreadableError
from agent_reminiscence.database.repositories.graph.store import EntityOutline, GraphFilter, RelationshipOutline
from agent_reminiscence.domain.belief import NamedEvent, StatedBelief
from agent_reminiscence.domain.graph import Entity, Relationship
from agent_reminiscence.text.folding import name_key

_FOREIGN = "Neo4j holds an altered or foreign {}; `agent-reminiscence verify --repair` repairs it"
_LATEST = datetime.max.replace(tzinfo=UTC)

# Rows per statement.
_BATCH_ROWS = 1_000

# In the order of the lists that `read_entities` and `read_relationships` return.
ENTITY_FIELDS = (
    "id", "external_id", "tier", "name", "type", "description", "confidence", "importance", "first_seen", "last_seen",
    "aliases", "merged_ids", "metadata", "shortterm_memory_id", "mentions", "chunk_ids", "positions",
)  # fmt: skip

RELATIONSHIP_FIELDS = (
    "id", "external_id", "tier", "from_id", "to_id", "type", "description", "confidence", "strength", "importance",
    "observations", "first_observed", "last_observed", "start_date", "end_date", "last_updated", "metadata",
    "chunk_ids", "positions",
)  # fmt: skip

# In that of `read_beliefs`.
BELIEF_FIELDS = (
    "id", "external_id", "position", "actor", "text", "turn", "based_on", "replaces", "contradicts",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored[T: BaseModel]:
    """What Neo4j holds under one id.

    Attributes:
        id: As stored.
        state: None if it cannot be parsed because something other than this package wrote it.
        keys: The names by which an entity is found, as folded by `name_key`.
        merged_ids: The ids of merged entities by which it is found.
    """

    id: str
    state: T | None
    keys: frozenset[str] = frozenset()
    merged_ids: frozenset[str] = frozenset()


def found_by(entity: Entity) -> tuple[frozenset[str], frozenset[str]]:
    """The name keys and merged ids by which Neo4j must find an entity."""
    keys = frozenset(key for key in map(name_key, (entity.name, *entity.aliases)) if key)
    return keys, frozenset(map(str, entity.merged_ids))


def entity_row(external_id: str, entity: Entity) -> Row:
    """An entity in the form of `merge_entities`; times are outside its properties because they are sent as text."""
    return {
        "tier": entity.tier,
        "keys": sorted(found_by(entity)[0]),
        "first_seen": _text_of_time(entity.first_seen),
        "last_seen": _text_of_time(entity.last_seen),
        "properties": {
            "external_id": external_id,
            "id": str(entity.id),
            "name": entity.name,
            "type": entity.type,
            "description": entity.description,
            "confidence": entity.confidence,
            "importance": entity.importance,
            "aliases": list(entity.aliases),
            "merged_ids": texts(entity.merged_ids),
            "metadata": _text_of_metadata(entity.metadata),
            "metadata_facts": facts(entity.metadata),
            "shortterm_memory_id": str(entity.shortterm_memory_id),
            "mentions": entity.mentions,
            "chunk_ids": texts(entity.chunk_ids),
            "positions": list(entity.positions),
        },
    }


def relationship_row(external_id: str, relationship: Relationship) -> Row:
    """A relationship in the form of `merge_relationships`."""
    times = ("first_observed", "last_observed", "start_date", "end_date", "last_updated")
    return {
        "from_id": str(relationship.from_id),
        "to_id": str(relationship.to_id),
        **{name: _text_of_time(getattr(relationship, name)) for name in times},
        "properties": {
            "external_id": external_id,
            "id": str(relationship.id),
            "tier": relationship.tier,
            "type": relationship.type,
            "description": relationship.description,
            "confidence": relationship.confidence,
            "strength": relationship.strength,
            "importance": relationship.importance,
            "observations": relationship.observations,
            "metadata": _text_of_metadata(relationship.metadata),
            "metadata_facts": facts(relationship.metadata),
            "chunk_ids": texts(relationship.chunk_ids),
            "positions": list(relationship.positions),
        },
    }


def belief_row(external_id: str, belief: StatedBelief) -> Row:
    """A belief in the form of `merge_beliefs` and `merge_named_events`."""
    named = [
        *(_named_row("based_on", place, event) for place, event in enumerate(belief.based_on)),
        *(_named_row("contradicts", place, event) for place, event in enumerate(belief.contradicts)),
        *([] if belief.replaces is None else [_named_row("replaces", 0, belief.replaces)]),
    ]
    return {
        "id": str(belief.id),
        "named": named,
        "properties": {
            "external_id": external_id,
            "id": str(belief.id),
            "position": belief.position,
            "actor": belief.actor,
            "text": belief.text,
            "turn": belief.turn,
        },
    }


def _named_row(link: str, place: int, event: NamedEvent) -> Row:
    return {
        "link": link,
        "id": str(event.id),
        "properties": {"place": place, "position": event.position, "kind": event.kind, "actor": event.actor},
    }


def read_row[T: BaseModel](model: type[T], fields: Sequence[str], values: Sequence[Any]) -> T:
    """Parse a state as `model`.

    Raises:
        UnreadableError: Something other than this package has written it, or it was removed while it was read.
    """
    found = readable(model, fields, values)
    if found is None:
        raise UnreadableError(_FOREIGN.format(model.__name__))
    return found


def readable[T: BaseModel](model: type[T], fields: Sequence[str], values: Sequence[Any]) -> T | None:
    """Parse a state as `model`; None if that fails. The validation error may quote a text."""
    try:
        state = dict(zip(fields, values, strict=True))
        if "metadata" in state:
            state["metadata"] = json.loads(state["metadata"])
        return model.model_validate(state)
    except (TypeError, ValueError, KeyError):
        return None


def outlines(
    entities: Sequence[Sequence[Any]], relationships: Sequence[Sequence[Any]]
) -> tuple[list[EntityOutline], list[RelationshipOutline]]:
    """Parse the result of `outline`.

    Raises:
        UnreadableError: Something other than this package has written it, or it was removed while it was read.
    """
    try:
        return (
            [EntityOutline(UUID(entity_id), int(mentions)) for entity_id, mentions in entities],
            [
                RelationshipOutline(UUID(relationship_id), UUID(from_id), UUID(to_id), float(strength))
                for relationship_id, from_id, to_id, strength in relationships
            ],
        )
    except (TypeError, ValueError, AttributeError):
        # The validation error may quote a text.
        raise UnreadableError(_FOREIGN.format("graph")) from None


def found_names(rows: Iterable[Sequence[Any]]) -> list[tuple[UUID, str, int]]:
    """Parse the result of `find_names`.

    Raises:
        UnreadableError: Something other than this package has written it, or it was removed while it was read.
    """
    try:
        return [(UUID(entity_id), str(key), int(mentions)) for entity_id, key, mentions in rows]
    except (TypeError, ValueError, AttributeError):
        raise UnreadableError(_FOREIGN.format("graph")) from None


def filter_params(where: GraphFilter) -> Row:
    """A filter as parameters of a query."""
    return {
        "relationship_types": listed(where.relationship_types),
        "min_confidence": where.min_confidence,
        # Always a time: for another type Neo4j makes a new plan, which takes longer than recall waits.
        "starts_by": _LATEST if where.at is None else where.at.astimezone(UTC),
        "ends_after": (where.at or where.now or datetime.now(UTC)).astimezone(UTC),
    }


def facts(metadata: Mapping[str, Any]) -> list[str]:
    """Metadata as `GraphPattern` compares it: one text per name with a plain value, equal if the values are equal.

    As in PostgreSQL's jsonb, 1 and 1.0 are the same number, and true is not a number.
    """
    return sorted(_fact(name, value) for name, value in metadata.items() if isinstance(value, str | int | float))


def _fact(name: str, value: str | float) -> str:
    if isinstance(value, str | bool):
        return json.dumps([name, value], ensure_ascii=False)
    return json.dumps([name, "number", str(Fraction(str(value)))], ensure_ascii=False)


def _text_of_metadata(metadata: Mapping[str, Any]) -> str:
    return json.dumps(metadata, ensure_ascii=False, allow_nan=False, sort_keys=True)


def _text_of_time(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat()


def texts(ids: Iterable[UUID | str]) -> list[str]:
    """Ids as Neo4j holds them: texts."""
    return [str(each) for each in ids]


def listed(values: Sequence[str] | None) -> list[str] | None:
    """A list of the values; None stays None."""
    return None if values is None else list(values)


def batches[T](rows: Sequence[T]) -> Iterator[list[T]]:
    """Rows in lists that one query can take."""
    for start in range(0, len(rows), _BATCH_ROWS):
        yield list(rows[start : start + _BATCH_ROWS])
