"""A memory through time: every version, and what was made of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from agent_reminiscence.config.constants import Source
from agent_reminiscence.domain.event import ChunkEntry, EndReason, EventKind, Fallback, ModelUsage


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Derivation(_Frozen):
    """What a consolidation, a promotion or the end of some passages made of a version."""

    kind: EventKind
    event_id: UUID
    position: int
    occurred_at: datetime
    recorded_at: datetime
    source: Source = Field(description="The least trusted of the labels it rests on.")
    chunk_ids: tuple[UUID, ...] = Field(description="Chunks that it rated, promoted or ended.")
    duplicates: dict[UUID, UUID] = Field(
        default_factory=dict,
        description="Chunks that ended because an older one says the same: theirs → the older one's. Of an end: those"
        " of other memories that had repeated its chunks and ended with them.",
    )
    summary: str | None = None
    reason: EndReason | None = Field(default=None, description="Why they ended, where they did.")
    ended_by: tuple[UUID, ...] = Field(default=(), description="Newer chunks that contradict or replace them.")
    why: str | None = Field(default=None, description="Why they ended, in the words of the model that proposed it.")
    facts: tuple[str, ...] = Field(default=(), description="What a model concluded from the chunks.")
    usage: tuple[ModelUsage, ...] = Field(default=(), description="Models that were asked for it.")
    fallback: Fallback | None = Field(
        default=None, description="Why not all of it was decided by the model though there is one."
    )


class MemoryVersion(_Frozen):
    """One version of a memory, whole, with both times."""

    version: int
    title: str
    content: str
    description: str | None
    metadata: dict[str, Any]
    source: Source
    actor: str | None
    conversation_id: str | None
    occurred_at: datetime = Field(description="From when on it is true in the world.")
    recorded_at: datetime = Field(description="When the ledger recorded it.")
    event_id: UUID
    position: int
    chunks: tuple[ChunkEntry, ...] = Field(description="Spans that tile the content; `new` ones came in here.")
    chunks_ended: int = Field(description="How many chunks of the version before it are not part of it.")
    derived: tuple[Derivation, ...] = ()


class MemoryHistory(_Frozen):
    """All versions of one memory, oldest first."""

    external_id: str
    memory_id: UUID
    versions: tuple[MemoryVersion, ...]
    archived_at: datetime | None

    def at(self, *, as_of: datetime | None = None, known_at: datetime | None = None) -> MemoryVersion | None:
        """The version that was known at `known_at` to be true at `as_of`: the last of those that had begun by then.

        Args:
            as_of: A moment in the world; None is `known_at`, or without that the latest version whenever it begins.
            known_at: What is recorded later does not count; None is all that is known today.

        Returns:
            None where nothing was known, or nothing had begun.
        """
        moment = as_of if as_of is not None else known_at
        for version in reversed(self.versions):
            if (known_at is None or version.recorded_at <= known_at) and (
                moment is None or version.occurred_at <= moment
            ):
                return version
        return None
