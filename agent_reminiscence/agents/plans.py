"""What agents are shown, and what the memory updater proposes: plain values that need nothing installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from agent_reminiscence.domain.trust import Source

type Role = Literal["user", "assistant", "tool"]

# The trust label of each role.
ROLE_SOURCES: Mapping[Role, Source] = {"user": "user", "assistant": "agent", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class Said:
    """One text of a conversation.

    Attributes:
        is_recalled: Whether it only quotes what was recalled from memory.
        message: Index of the passed message it comes from, from 0.
    """

    role: Role
    text: str
    is_recalled: bool = False
    message: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIntent:
    """A memory to create.

    Attributes:
        messages: Indexes of the passed messages it rests on, from 0.
    """

    title: str
    content: str
    why: str
    messages: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateIntent:
    """A memory to change; `expected_version` is the version that the model was shown."""

    memory_id: UUID
    expected_version: int
    title: str
    content: str
    why: str
    messages: tuple[int, ...]


@dataclass(slots=True)
class MemoryUpdatePlan:
    """Changes to make; none is made while the model runs."""

    intents: list[CreateIntent | UpdateIntent] = field(default_factory=list)


# What the memorizer is shown, a window of a memory at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPassage:
    """A chunk that no consolidation has read yet; the plan deals with each exactly once.

    Attributes:
        said_at: When it starts to hold in the world.
    """

    text: str
    speaker: str | None
    source: Source
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPassage:
    """A stored chunk of this or another memory that says something similar."""

    text: str
    speaker: str | None
    source: Source
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEntity:
    """An entity that a name in the passages refers to, or most likely does.

    Not the stored row: a model is shown no id, and no type that may quote another memory.
    """

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRelation:
    """A known relationship of two entities, by their names, that still holds.

    Not the stored row: a model is shown no id, and no name longer than a name.

    Attributes:
        last_said_at: When the last passage that says it was said.
        source: The most trusted label among the passages known to say it.
        held_by: The most trusted label that any passage saying it may have; only an equal or higher one may end it.
    """

    from_name: str
    type: str
    to_name: str
    since: datetime
    last_said_at: datetime
    source: Source
    held_by: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationMaterial:
    """One window of a memory, with what is known beside it.

    Everything in it is trusted at least as much as its passages. The exception is a comparison, which shows what
    sources with one lower label have said: they can talk a model into nothing but ending their own statements.

    Attributes:
        title: None if it may come from somebody who is trusted less.
        dated: The memory's own date; `yesterday` and the like are resolved against it.
        context: What else the memory says, in brief; the plan does not cover it.
    """

    title: str | None
    dated: datetime
    passages: Sequence[NewPassage]
    context: Sequence[str] = ()
    stored: Sequence[StoredPassage] = ()
    entities: Sequence[KnownEntity] = ()
    relationships: Sequence[KnownRelation] = ()
