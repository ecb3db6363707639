"""What agents are shown and what they propose: plain values, for which nothing has to be installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from agent_reminiscence.config.constants import Source

type Role = Literal["user", "assistant", "tool"]

# How far each is trusted that spoke.
ROLE_SOURCES: Mapping[Role, Source] = {"user": "user", "assistant": "agent", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class Said:
    """One text of a conversation.

    Attributes:
        is_recalled: Whether it only quotes what was recalled from memory.
        message: Which of the messages that were passed it is from, by its place, from 0.
    """

    role: Role
    text: str
    is_recalled: bool = False
    message: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIntent:
    """A memory to create.

    Attributes:
        messages: Which of the messages that were passed it rests on, by their place, from 0.
    """

    title: str
    content: str
    why: str
    messages: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateIntent:
    """A memory to change, as it was when the model was shown it."""

    memory_id: UUID
    expected_version: int
    title: str
    content: str
    why: str
    messages: tuple[int, ...]


@dataclass(slots=True)
class MemoryUpdatePlan:
    """What is to be done; nothing of it is done while the model runs."""

    intents: list[CreateIntent | UpdateIntent] = field(default_factory=list)


# What the memorizer is shown, a window of a memory at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPassage:
    """A chunk that no consolidation has read yet; the plan deals with each exactly once.

    Attributes:
        said_at: From when on it holds in the world.
    """

    text: str
    speaker: str | None
    source: Source
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPassage:
    """A chunk that is stored already and says something similar, of this memory or of another one."""

    text: str
    speaker: str | None
    source: Source
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEntity:
    """An entity that a name in the passages means, or most likely means."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRelation:
    """What is known of two entities, by their names, and holds until now.

    Attributes:
        last_said_at: The moment of the last passage that says it.
        source: The most trusted label of the passages that are known to say it.
        held_by: The most trusted one that may be among all who say it: what ends it is trusted no less.
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

    All of it is trusted no less than its passages. Or it is a comparison, with what sources of one lesser label have
    said: these may talk a model into nothing but ending what they have said themselves.

    Attributes:
        title: None where it may be of somebody who is trusted less.
        dated: The memory's own date, against which `yesterday` and the like are resolved.
        context: What the memory says besides, in short; no part of what the plan deals with.
    """

    title: str | None
    dated: datetime
    passages: Sequence[NewPassage]
    context: Sequence[str] = ()
    stored: Sequence[StoredPassage] = ()
    entities: Sequence[KnownEntity] = ()
    relationships: Sequence[KnownRelation] = ()


# What it proposes, after references, dates and bounds were checked. References are places, from 0, in the material.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedEntity:
    """An entity that passages name.

    Attributes:
        known: Which known entity it is; None leaves that to its name.
        is_other: Whether it is another one than the known entity of the same name.
    """

    name: str
    type: str
    description: str | None
    confidence: float
    aliases: tuple[str, ...]
    passages: tuple[int, ...]
    known: int | None = None
    is_other: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRelationship:
    """What two of the proposed entities have to do with each other; dates are None where nothing says them."""

    from_entity: int
    to_entity: int
    type: str
    description: str | None
    confidence: float
    passages: tuple[int, ...]
    start_date: datetime | None = None
    end_date: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedFact:
    """A statement that can be understood alone, and the passages that it rests on."""

    text: str
    importance: float
    confidence: float
    passages: tuple[int, ...]
    start_date: datetime | None = None
    end_date: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedEnding:
    """A stored passage that a new one contradicts or replaces."""

    stored: int
    by: int
    reason: Literal["contradicted", "replaced"]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRelationshipEnding:
    """A known relationship that a passage says is over, and since when."""

    relationship: int
    by: int
    end_date: datetime
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedEndings:
    """What a model finds to be over, of what it was shown beside the passages of a window."""

    endings: tuple[ProposedEnding, ...] = ()
    relationship_endings: tuple[ProposedRelationshipEnding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationProposal(ProposedEndings):
    """What a model proposes for one window of a memory.

    Attributes:
        importances: Of the passages, in their order, 0 to 1.
    """

    importances: tuple[float, ...]
    summary: str
    entities: tuple[ProposedEntity, ...] = ()
    relationships: tuple[ProposedRelationship, ...] = ()
    facts: tuple[ProposedFact, ...] = ()
