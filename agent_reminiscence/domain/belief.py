"""Beliefs: what agents wrote down as reflections, and what is known of the events that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from agent_reminiscence.domain.model import FrozenModel

REFLECTED: Final = "agent.reflected"
"""The kind of a reflection."""

MAX_BELIEFS: Final = 3
"""The most beliefs that are written at once: one event each, with its own grounds and readers."""


def is_published(payload: Mapping[str, Any]) -> bool:
    """Whether the application that recorded a reflection says that everybody may read it, whatever it rests on."""
    # Only the word of JSON itself: an older payload may hold anything under this name.
    return payload.get("public") is True


class Reflection(FrozenModel):
    """The payload of an `agent.reflected` event; further keys are left alone."""

    model_config = ConfigDict(extra="ignore")

    belief: Annotated[str, Field(min_length=1, pattern=r"\S")]
    based_on: Annotated[tuple[UUID, ...], Field(min_length=1, description="Events that the belief rests on.")]
    replaces: UUID | None = Field(default=None, description="An earlier reflection of the same agent.")
    contradicts: tuple[UUID, ...] = Field(default=(), description="Reflections of other agents.")
    public: Annotated[bool, BeforeValidator(lambda value: value is True)] = Field(
        default=False, description="Whether other agents read it, whatever they see of its grounds."
    )


def _nothing_is_a_list(value: object) -> object:
    """Models write null for what they leave out."""
    return [] if value is None else value


_Numbers = Annotated[list[int], BeforeValidator(_nothing_is_a_list)]


class BeliefPlan(BaseModel):
    """A belief."""

    belief: str = Field(description="One sentence.")
    based_on: _Numbers = Field(default=[], description="Events that it rests on.")
    replaces: int | None = Field(default=None, description="A belief of the agent that it takes the place of.")
    contradicts: _Numbers = Field(default=[], description="Beliefs of others that it says are wrong.")


class ReflectionPlan(BaseModel):
    """What the agent concludes."""

    beliefs: Annotated[list[BeliefPlan], BeforeValidator(_nothing_is_a_list)] = Field(
        default=[], description="At most three; empty if nothing new follows."
    )

    @model_validator(mode="before")
    @classmethod
    def _takes_one(cls, value: object) -> object:
        """Models that were taught to answer with one belief, without a list, still may."""
        if not isinstance(value, dict) or "belief" not in value or "beliefs" in value:
            return value
        return {"beliefs": [] if value["belief"] is None else [value]}


# What a reflection names as its grounds, and what its model was shown: its text may repeat any of it.
_GROUNDS: Final = ("based_on", "rests_on")

READ_KEYS: Final = frozenset({*Reflection.model_fields, *_GROUNDS})
"""What is read of a reflection's payload: by erasures, by what is projected from it, and by views."""


def grounds_of(payload: Mapping[str, Any]) -> Iterator[UUID]:
    """The events that a reflection rests on, by its payload, in which somebody may have put anything."""
    for name in _GROUNDS:
        yield from read_ids(payload.get(name))


def needed_to_read(payload: Mapping[str, Any]) -> frozenset[UUID]:
    """The events that another agent must see to read a reflection that is not published.

    They are its grounds, and the belief that it replaces, of which it repeats what is still true.

    Returns:
        Empty if nobody else may read it: it names no grounds, or names them in a way that nobody can follow.
    """
    shown = payload.get("rests_on", [])
    try:
        reflection = Reflection.model_validate(payload)
        rests_on = frozenset(UUID(str(one)) for one in shown) if isinstance(shown, list) else None
    except ValueError:
        return frozenset()
    if rests_on is None:
        return frozenset()
    return rests_on.union(reflection.based_on, () if reflection.replaces is None else (reflection.replaces,))


def read_ids(named: object) -> Iterator[UUID]:
    """The ids in a list that may hold anything."""
    for one in named if isinstance(named, list) else ():
        with suppress(ValueError):
            yield UUID(str(one))


@dataclass(frozen=True, slots=True)
class Belief:
    """A belief of one agent.

    Attributes:
        id: Of its reflection.
        turn: Of its reflection; one without a turn belongs to the turn of the reflection before it.
        based_on: Ids of the events that it rests on.
        replaces: The belief of the same agent that it revises.
        contradicts: Beliefs of other agents that it says are wrong.
    """

    id: UUID
    agent_name: str
    text: str
    turn: int
    based_on: tuple[UUID, ...]
    replaces: UUID | None
    contradicts: tuple[UUID, ...]


class NamedEvent(NamedTuple):
    """An event that a reflection names.

    Attributes:
        position: Where it stands in the ledger; None if no event before the reflection has this id.
        kind: None if `position` is.
        actor: None also if nobody wrote it, or if it was erased.
    """

    id: UUID
    position: int | None
    kind: str | None
    actor: str | None


class StatedBelief(FrozenModel):
    """A reflection as the stores of the graph hold it, whether or not it counts as a belief.

    Which events an agent sees is a question of the reader's `Visibility`, so a store holds what decides it.

    Attributes:
        id: Of its event.
        position: Of its event.
        actor: Who reflected.
        turn: Of its event; None if it has none.
    """

    id: UUID
    external_id: str
    position: int
    actor: str
    text: str
    turn: int | None
    based_on: tuple[NamedEvent, ...]
    replaces: NamedEvent | None
    contradicts: tuple[NamedEvent, ...]

    @property
    def named(self) -> tuple[NamedEvent, ...]:
        """Every event that it names."""
        return (*self.based_on, *self.contradicts, *(() if self.replaces is None else (self.replaces,)))

    @property
    def reflection(self) -> Reflection:
        """What its event says."""
        return Reflection.model_construct(
            belief=self.text,
            based_on=tuple(one.id for one in self.based_on),
            replaces=None if self.replaces is None else self.replaces.id,
            contradicts=tuple(one.id for one in self.contradicts),
        )
