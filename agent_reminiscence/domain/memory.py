"""Memories and chunks as stored in the tiers."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from agent_reminiscence.config.constants import Tier
from agent_reminiscence.config.timezones import UTC_NAME
from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.domain.payloads import (
    Fallback,
    LanguageOrigin,
    MemoryConsolidated,
    MemoryCut,
    MemoryEnded,
    MemoryOutdated,
    ModelUsage,
)
from agent_reminiscence.domain.said import SaidFrom
from agent_reminiscence.domain.shown import as_table, one_line
from agent_reminiscence.domain.trust import Source


class WriteOutcome(FrozenModel):
    """The outcome of one write."""

    event_id: UUID
    position: int = Field(description="Position in the ledger, from 1 within its external_id.")
    chunks_added: int
    chunks_kept: int
    chunks_ended: int
    vectors_missing: int = Field(description="Chunks of this memory found by words only, until their vectors are made.")
    consolidation_queued: bool = Field(
        description="Whether this write queued a consolidation, which a worker does later."
    )
    redactions: dict[str, int] = Field(
        default_factory=dict, description="Number of matches per redactor rule in what was passed."
    )


class ActiveMemory(FrozenModel):
    """A memory in the active tier: a whole text that can be updated.

    `occurred_at` is when it was true in the world, `created_at` and `updated_at` when the ledger recorded it.
    """

    id: UUID
    external_id: str
    key: str | None = Field(default=None, description="The caller's own name for it; None if it was given none.")
    version: int = Field(description="1 when created, incremented by each update.")
    title: str
    content: str
    description: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    language: str = Field(default="en", description="Its language, as ISO 639-1.")
    timezone: str = Field(default=UTC_NAME, description="The time zone of its days, as an IANA name.")
    source: Source = Field(description="The least trusted label of the passages in its text; each hit has its own.")
    actor: str | None = None
    conversation_id: str | None = None
    occurred_at: datetime
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None = None
    consolidated_version: int = Field(description="The last consolidated version; 0 for none.")
    pinned: bool = Field(default=False, description="Whether it is shown whatever is asked.")
    expires_at: datetime | None = Field(
        default=None, description="From when on nothing finds it; None: it does not expire."
    )
    updates_until_consolidation: int = Field(description="Number of further updates until it is consolidated.")
    write: WriteOutcome | None = Field(default=None, description="Set only on the result of a write.")

    def __repr__(self) -> str:
        fields = {"id": self.id, "version": self.version, "title": self.title, "content": self.content}
        return one_line(type(self).__name__, fields)

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return as_table(
            [
                ("title", self.title),
                ("content", self.content),
                ("id", self.id),
                ("version", self.version),
                ("occurred at", self.occurred_at),
                ("source", self.source),
            ]
        )


IfExists = Literal["error", "update", "return"]
"""What a creation does if an active memory has its key."""
IF_EXISTS: tuple[IfExists, ...] = ("error", "update", "return")


class MemorySelection(FrozenModel):
    """Which active memories to read; everything that is given must hold, and None admits all.

    They are read in one order, oldest first, that later writes do not change.
    """

    ids: tuple[UUID, ...] | None = None
    keys: tuple[str, ...] | None = None
    key_prefix: str | None = None
    limit: int | None = Field(default=None, description="At most this many.")
    after: UUID | None = Field(default=None, description="Only those after this memory, in that order.")


TAIL_CHARACTERS = 2_000


class MemoryOutline(FrozenModel):
    """What an append has to know of a memory, which is not its text."""

    external_id: str
    memory_id: UUID
    key: str | None
    version: int
    title: str
    language: str
    language_origin: LanguageOrigin
    timezone: str
    occurred_at: datetime
    archived_at: datetime | None
    expires_at: datetime | None
    expired_at: datetime | None = Field(description="When an event recorded that it has expired.")
    conversation_id: str | None
    source: Source
    consolidated_version: int
    due_version: int
    speaker: str | None = Field(description="Who speaks wherever no turn says otherwise.")
    characters: int
    tail: str = Field(description="The end of its text, at most `TAIL_CHARACTERS`.")
    chunks: int = Field(description="How many chunks its text has.")
    segments: int = Field(description="How many segments of its text stand beside its own row.")
    last_chunks: int = Field(description="How many chunks the last segment has.")
    last_chunk_id: UUID | None = Field(description="The chunk that its text ends with; None if it has none.")

    def has_expired(self, now: datetime) -> bool:
        """Whether its time is over, as `StoredMemory.has_expired` says it."""
        return self.expired_at is not None or (self.expires_at is not None and self.expires_at <= now)


class StoredMemory(FrozenModel):
    """An active memory as stored, with the layout of its live chunks."""

    external_id: str
    memory_id: UUID
    key: str | None
    version: int
    title: str
    content: str
    description: str | None
    metadata: dict[str, Any]
    language: str
    language_origin: LanguageOrigin
    timezone: str
    source: Source
    actor: str | None
    conversation_id: str | None
    occurred_at: datetime
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None
    consolidated_version: int
    due_version: int
    text_version: int
    chunk_ids: tuple[UUID, ...]
    chunk_starts: tuple[int, ...]
    pinned: bool = False
    expires_at: datetime | None = None
    expired_at: datetime | None = Field(default=None, description="When an event recorded that it has expired.")
    had_expiry: bool = Field(default=False, description="Whether any version of it had an `expires_at`.")

    def has_expired(self, now: datetime) -> bool:
        """Whether its time is over, whether or not an event has recorded that.

        What was recorded stays so for a clock that is behind the one it was recorded by.
        """
        return self.expired_at is not None or (self.expires_at is not None and self.expires_at <= now)


class StoredChunk(FrozenModel):
    """A chunk of a memory's text, with its text as indexed; usually live."""

    chunk_id: UUID
    content: str
    speaker: str | None
    tier: Tier
    importance: float
    confidence: float
    estimate: float | None = Field(default=None, description="A model's importance estimate.")
    source: Source
    memory_version: int
    start_date: datetime
    first_said: datetime | None = Field(
        default=None, description="When most of its words were first said; None: when it began to hold."
    )
    said_on: date | None = Field(default=None, description="Its day in the memory's zone; None: as in UTC.")
    said_lines: tuple[SaidFrom, ...] = Field(default=(), description="When each line was; empty if all have one date.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    has_ended: bool = Field(
        default=False, description="Whether it has ended for good although the text still contains it."
    )
    is_piece: bool = Field(default=False, description="Whether it is a piece of a chunk that was cut.")

    @property
    def said_at(self) -> datetime:
        """When most of its words were first said."""
        return self.first_said or self.start_date

    @property
    def said_dates(self) -> list[datetime]:
        """When its lines were first said, each date as often as it begins."""
        return [line.said_at for line in self.said_lines] or [self.said_at]


class ShorttermMemory(FrozenModel):
    """The consolidated form of an active memory; its chunks have the same `memory_id`."""

    external_id: str
    memory_id: UUID
    version: int
    title: str
    summary: str
    last_updated: datetime


class ConsolidationReport(FrozenModel):
    """What `memory.admin.consolidate` did for one memory, or would do."""

    memory_id: UUID
    version: int
    consolidated: bool = Field(description="False if this version was consolidated before, or for a dry run.")
    chunks: int
    duplicates: int
    entities: int = Field(description="Entities found in the new chunks.")
    relationships: int
    facts: int = Field(default=0, description="Statements a model derived from the new chunks.")
    chunks_ended: int = Field(
        default=0, description="Older chunks, or parts of them, that a model found contradicted or replaced."
    )
    chunks_outdated: int = Field(default=0, description="Passages and facts marked as probably out of date; they stay.")
    relationships_ended: int = 0
    promoted: int = 0
    vectors_filled: int = 0
    vectors_missing: int = 0
    usage: tuple[ModelUsage, ...] = Field(default=(), description="The models called, and their usage.")
    fallback: Fallback | None = Field(
        default=None, description="Why rules decided all or part of it although a model is configured; else None."
    )
    plan: MemoryConsolidated | None = Field(default=None, description="For a dry run: what would be recorded.")
    cuts: tuple[MemoryCut, ...] = Field(
        default=(), description="For a dry run: the chunks that would be cut because a part of them is over."
    )
    ends: tuple[MemoryEnded, ...] = Field(default=(), description="For a dry run: the older chunks that would end.")
    outdated: tuple[MemoryOutdated, ...] = Field(
        default=(), description="For a dry run: what would be marked as probably out of date."
    )
