"""What agents are shown, and what they propose: plain values that need nothing installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Literal
from uuid import UUID

from agent_reminiscence.domain.remembering import DeletionRequest
from agent_reminiscence.domain.trust import Source

type Role = Literal["user", "assistant", "tool"]
# What a new passage may show to be over.
type EndingKind = Literal["new", "stored", "relationship"]

LETTERS: Mapping[EndingKind, str] = {"new": "N", "stored": "S", "relationship": "R"}
"""What stands before the number of each, so that a model sees what it refers to."""

# The trust label of each role.
ROLE_SOURCES: Mapping[Role, Source] = {"user": "user", "assistant": "agent", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class Said:
    """One text of a conversation.

    Attributes:
        is_recalled: Whether it only quotes what was recalled from memory.
        message: Index of the passed message it comes from, from 0.
        said_at: When it was said; None if the message does not say.
    """

    role: Role
    text: str
    is_recalled: bool = False
    message: int = 0
    said_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A part of a memory's text, whose words are all of one trust label."""

    text: str
    source: Source


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
    """A memory to change; `expected_version` is the version that the model was shown.

    Attributes:
        replaces: Whether lines are changed or taken out, and not only added.
    """

    memory_id: UUID
    expected_version: int
    title: str
    content: str
    why: str
    messages: tuple[int, ...]
    replaces: bool = True


@dataclass(slots=True)
class MemoryUpdatePlan:
    """Changes to make, and deletions the user asked for; nothing is written while the model runs."""

    intents: list[CreateIntent | UpdateIntent] = field(default_factory=list)
    deletions: list[DeletionRequest] = field(default_factory=list)


# What the memorizer is shown, a window of a memory at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPassage:
    """A chunk that no consolidation has read yet, or its lines of one day.

    Attributes:
        said_at: When its words were first said.
    """

    text: str
    speaker: str | None
    source: Source
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPassage:
    """A stored chunk of this or another memory that says something similar.

    Attributes:
        said_at: When its words were first said.
        holds_from: When it starts to hold in the world: later if an update has kept its words. None: when it was said.
    """

    text: str
    speaker: str | None
    source: Source
    said_at: datetime
    holds_from: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEntity:
    """An entity that a name in the passages refers to, or most likely does.

    Not the stored row: a model is shown no id, and no type that may quote another memory.

    Attributes:
        also_called: Its other names in the passages.
    """

    name: str
    type: str
    also_called: Sequence[str] = ()


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

    A model refers to what it is shown by one series of numbers, each after a letter that says what it is: new passages
    from N1, then stored passages (S), then known relationships (R).

    Attributes:
        title: None if it may come from somebody who is trusted less.
        dated: The memory's own date.
        zone: In which the model is told days.
        context: What else the memory says, in brief; the plan does not cover it.
    """

    title: str | None
    dated: datetime
    passages: Sequence[NewPassage]
    context: Sequence[str] = ()
    stored: Sequence[StoredPassage] = ()
    entities: Sequence[KnownEntity] = ()
    relationships: Sequence[KnownRelation] = ()
    zone: tzinfo = UTC

    def find(self, label: str) -> tuple[EndingKind, int] | None:
        """What a label such as `S20` refers to, and its index among its like; None if nothing has that label.

        A number without its letter will do; one with the letter of something else refers to nothing.
        """
        letter, number = label[:1], label.lstrip("NSR")
        if not number.isdecimal():
            return None
        index = int(number) - 1
        kinds: tuple[tuple[EndingKind, int], ...] = (
            ("new", len(self.passages)),
            ("stored", len(self.stored)),
            ("relationship", len(self.relationships)),
        )
        for kind, count in kinds:
            if 0 <= index < count:
                return (kind, index) if letter in {LETTERS[kind], number[0]} else None
            index -= count
        return None


# What the memorizer read, as far as it can be used. Every index counts from 0.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntity:
    """Somebody or something that new passages name.

    Attributes:
        passages: The new passages that name it, or that say something about it.
        known: Its index among the known entities that were shown; None if it is not one of them.
        is_other: Whether it only shares the name of a known entity.
    """

    name: str
    type: str
    description: str | None
    also_called: tuple[str, ...]
    passages: tuple[int, ...]
    known: int | None
    is_other: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRelationship:
    """How two of the read entities are related, by their indices among these.

    Attributes:
        start: None if no passage says since when.
        end: Exclusive; None if no passage says until when.
    """

    who: int
    whom: int
    relation: str
    passages: tuple[int, ...]
    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFact:
    """A sentence that can be understood alone, and the new passages it rests on."""

    text: str
    importance: float
    passages: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEnding:
    """What a new passage shows to be over.

    Attributes:
        kind: What `index` counts.
        by: The new passage.
        on: When a relationship ended.
        span: The words of the passage that the model says are over, as characters of its text as shown. None: it named
            no words that stand there.
    """

    kind: EndingKind
    index: int
    by: int
    why: str
    on: datetime
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReading:
    """What a model made of a window.

    Attributes:
        importances: By new passage; one without a usable rating is left to the rules.
        summary: '' if it gave none.
    """

    importances: Mapping[int, float] = field(default_factory=dict)
    entities: Sequence[ReadEntity] = ()
    relationships: Sequence[ReadRelationship] = ()
    facts: Sequence[ReadFact] = ()
    endings: Sequence[ReadEnding] = ()
    summary: str = ""


@dataclass(slots=True)
class Reader:
    """A window that a model is asked about, and the best of its answers so far.

    Attributes:
        reading: Of the answer with the fewest complaints; None before the first.
    """

    material: ConsolidationMaterial
    reading: WindowReading | None = None
    complaints: int = 0

    def keep(self, reading: WindowReading, complaints: int) -> None:
        """Keep a reading unless an earlier one was better."""
        if self.reading is None or complaints <= self.complaints:
            self.reading, self.complaints = reading, complaints
