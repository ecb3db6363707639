"""Entities and relationships: what memories name, and how it is related."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from pydantic import Field, ValidationError

from agent_reminiscence.domain.model import FrozenModel, StrictModel
from agent_reminiscence.exceptions import InvalidInputError

# Observations at which a relationship reaches strength 0.5.
STRENGTH_HALF: Final = 3.0

# Confidence that two names mentioned together once are related, and the most that repetition adds.
TOGETHER_CONFIDENCE: Final = 0.3
TOGETHER_CONFIDENCE_GROWTH: Final = 0.3

GraphTier = Literal["shortterm", "longterm"]

Property = str | int | float | bool


class Entity(FrozenModel):
    """Something memories name: a person, a place, a thing.

    It includes the entities merged into it: their names are its aliases, their mentions its own.
    """

    id: UUID
    external_id: str
    tier: GraphTier
    name: str
    type: str
    description: str | None = None
    confidence: float = Field(description="How certain it is that this is a name, and of this type, 0 to 1.")
    importance: float = Field(description="Importance of the most important chunk that names it, 0 to 1.")
    first_seen: datetime = Field(description="In the world's time: when the earliest chunk that names it became true.")
    last_seen: datetime
    aliases: tuple[str, ...] = Field(default=(), description="Other names, in alphabetical order.")
    merged_ids: tuple[UUID, ...] = Field(default=(), description="Ids of the entities merged into it, in order.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    shortterm_memory_id: UUID = Field(description="The memory that named it first.")
    mentions: int = Field(description="Live chunks that name it; 0 for a past entity.")
    chunk_ids: tuple[UUID, ...] = Field(default=(), description="The newest of these chunks, newest first.")
    positions: tuple[int, ...] = Field(
        default=(), description="Positions of the events that found it in these chunks, in order."
    )


class Relationship(FrozenModel):
    """A relationship between two entities; both ends are `Entity` ids."""

    id: UUID
    external_id: str
    tier: GraphTier
    from_id: UUID
    to_id: UUID
    type: str
    description: str | None = None
    confidence: float = Field(description="How certain it is, 0 to 1; one shared chunk says little.")
    strength: float = Field(description="Grows with the observations from 0 towards 1; 0.5 at the third.")
    importance: float
    observations: int = Field(description="Live chunks that support it; 0 for a past relationship.")
    first_observed: datetime = Field(description="In the world's time.")
    last_observed: datetime
    start_date: datetime = Field(description="When it became true in the world.")
    end_date: datetime | None = Field(default=None, description="When it ceased to be true; None: still true.")
    last_updated: datetime = Field(description="When the ledger recorded the last event that changed it.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    chunk_ids: tuple[UUID, ...] = Field(default=(), description="The newest chunks that support it, newest first.")
    positions: tuple[int, ...] = Field(
        default=(), description="Positions of the events that found it in these chunks, in order."
    )


class Subgraph(FrozenModel):
    """Some entities and the relationships between them."""

    entities: tuple[Entity, ...] = Field(description="Nearest first, then by number of mentions.")
    relationships: tuple[Relationship, ...] = Field(description="Strongest first; both ends are among the entities.")
    distances: dict[UUID, int] = Field(
        default_factory=dict, description="Hops from the starting entity to each entity."
    )
    is_truncated: bool = Field(default=False, description="Whether a limit left something out.")


class GraphPath(FrozenModel):
    """A path from one entity to another, in order, with one relationship fewer than entities."""

    entities: tuple[Entity, ...]
    relationships: tuple[Relationship, ...]


class GraphPattern(FrozenModel):
    """A pattern of source type, relationship type and target type; None matches anything.

    A property matches if the metadata's top level holds the same value under the same name.
    """

    from_type: str | None = None
    relationship_type: str | None = None
    to_type: str | None = None
    from_properties: dict[str, str | int | float | bool] = Field(default_factory=dict)
    relationship_properties: dict[str, str | int | float | bool] = Field(default_factory=dict)
    to_properties: dict[str, str | int | float | bool] = Field(default_factory=dict)


class GraphStep(StrictModel):
    """One step of a path that `match` looks for: from one entity along a relationship to the next. None is any.

    Raises:
        InvalidInputError: A field is unknown, or a value has the wrong type.
    """

    from_type: str | None = Field(
        default=None, description="Type of the entity that it starts from; of a later step, where the one before ends."
    )
    relationship_types: tuple[str, ...] | None = Field(default=None, description="One of these types.")
    to_type: str | None = Field(default=None, description="Type of the entity that it leads to.")
    direction: Literal["out", "in", "any"] = Field(
        default="out", description="Whether the relationship points along the path, against it, or either way."
    )
    from_entity: UUID | str | None = Field(
        default=None, description="The entity that the path starts from, by id or name; of the first step only."
    )
    to_entity: UUID | str | None = Field(default=None, description="The entity that it leads to, by id or name.")

    # The checker takes the signature from the fields; at run time every mistake is an InvalidInputError.
    if not TYPE_CHECKING:

        def __init__(self, **given: Any) -> None:
            if isinstance(types := given.get("relationship_types"), str):
                raise InvalidInputError(f"relationship_types must be a list of types, such as [{types!r}], not a str")
            try:
                super().__init__(**given)
            except ValidationError as error:
                fault = error.errors(include_url=False)[0]
                raise InvalidInputError(
                    f"a step of a path does not take {fault['loc'][0]}={fault['input']!r:.60}: {fault['msg']}"
                ) from None


class GraphTriple(FrozenModel):
    """One match of a pattern."""

    source: Entity
    relationship: Relationship
    target: Entity


def strength(observations: int) -> float:
    """Strength of a relationship supported by n live chunks, 0 to 1, rounded to six digits: 1 − 0.5^(n / 3)."""
    return round(1 - float(0.5 ** (observations / STRENGTH_HALF)), 6)


# An entity of this type may turn out to be of any other.
ANY_TYPE = "other"


TOGETHER = "related_to"


def together_confidence(observations: int) -> float:
    """How certain it is that two names that occur together in so many chunks are related.

    0.3 the first time, 0.45 the second, and never above 0.6: co-occurrence shows that they are related, not how.
    """
    grown = 1 - 0.5 ** (observations - 1)
    return round(TOGETHER_CONFIDENCE + TOGETHER_CONFIDENCE_GROWTH * grown, 6)
