"""Memories and chunks as the tiers hold them."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from agent_reminiscence.config.constants import Source, Tier
from agent_reminiscence.domain.event import Fallback, LanguageOrigin, MemoryConsolidated, MemoryEnded, ModelUsage


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class WriteOutcome(_Frozen):
    """What became of one write."""

    event_id: UUID
    position: int = Field(description="Where the ledger holds it, from 1 within its external_id.")
    chunks_added: int
    chunks_kept: int
    chunks_ended: int
    vectors_missing: int = Field(description="Chunks of this memory found by words only until their vectors are made.")
    consolidation_queued: bool = Field(
        description="Whether this write queued a consolidation, which a worker does some time after it."
    )
    redactions: dict[str, int] = Field(
        default_factory=dict, description="How often which rule of the redactor has matched in what was passed."
    )


class ActiveMemory(_Frozen):
    """A whole text that is being worked on.

    `occurred_at` is when it was true in the world, `created_at` and `updated_at` when the ledger recorded it.
    """

    id: UUID
    external_id: str
    version: int = Field(description="1 when created, one more with each update.")
    title: str
    content: str
    description: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    language: str = Field(default="en", description="In which its words are read, by ISO 639-1.")
    source: Source
    actor: str | None = None
    conversation_id: str | None = None
    occurred_at: datetime
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None = None
    consolidated_version: int = Field(description="The version that was consolidated last; 0 for none.")
    updates_until_consolidation: int = Field(description="How many more updates until it is consolidated.")
    write: WriteOutcome | None = Field(default=None, description="Set on what a write returns.")


class StoredMemory(_Frozen):
    """An active memory as its row holds it, with the layout of its live chunks."""

    external_id: str
    memory_id: UUID
    version: int
    title: str
    content: str
    description: str | None
    metadata: dict[str, Any]
    language: str
    language_origin: LanguageOrigin
    source: Source
    actor: str | None
    conversation_id: str | None
    occurred_at: datetime
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None
    consolidated_version: int
    due_version: int
    chunk_ids: tuple[UUID, ...]
    chunk_starts: tuple[int, ...]


class StoredChunk(_Frozen):
    """A chunk of one memory's text, with its text as it is indexed; most are live."""

    chunk_id: UUID
    content: str
    speaker: str | None
    tier: Tier
    importance: float
    confidence: float
    estimate: float | None = Field(default=None, description="What a model holds it for that has read it.")
    source: Source
    memory_version: int
    start_date: datetime
    metadata: dict[str, Any] = Field(default_factory=dict)
    has_ended: bool = Field(default=False, description="Whether it has ended for good, though the text has it still.")


class ShorttermMemory(_Frozen):
    """What a consolidation made of an active memory; its chunks are those of the same `memory_id`."""

    external_id: str
    memory_id: UUID
    version: int
    title: str
    summary: str
    last_updated: datetime


class ConsolidationReport(_Frozen):
    """What `memory.admin.consolidate` did for one memory, or would do."""

    memory_id: UUID
    version: int
    consolidated: bool = Field(
        description="False when this version was consolidated before, or it was only asked what would be done."
    )
    chunks: int
    duplicates: int
    entities: int = Field(description="Entities that were found in what was new.")
    relationships: int
    facts: int = Field(default=0, description="Statements that a model has made of what was new.")
    chunks_ended: int = Field(default=0, description="Older chunks that a model found contradicted or replaced.")
    relationships_ended: int = 0
    promoted: int = 0
    vectors_filled: int = 0
    vectors_missing: int = 0
    usage: tuple[ModelUsage, ...] = Field(default=(), description="Models that were asked, and what they cost.")
    fallback: Fallback | None = Field(
        default=None, description="Why not all was decided by the model though there is one; None where it was."
    )
    plan: MemoryConsolidated | None = Field(default=None, description="Of a dry run: what would be recorded.")
    ends: tuple[MemoryEnded, ...] = Field(default=(), description="Of a dry run: which older chunks would end.")
