"""A memory's history: every version, and what was derived from it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from agent_reminiscence.domain.event import ChunkEntry, EndReason, EventKind, Fallback, ModelUsage
from agent_reminiscence.domain.trust import Source


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Derivation(_Frozen):
    """What a consolidation, a promotion or an end of passages did to a version."""

    kind: EventKind
    event_id: UUID
    position: int
    occurred_at: datetime
    recorded_at: datetime
    source: Source = Field(description="The least trusted label among its sources.")
    chunk_ids: tuple[UUID, ...] = Field(description="Chunks it rated, promoted or ended.")
    duplicates: dict[UUID, UUID] = Field(
        default_factory=dict,
        description="Chunks that ended as duplicates: id → id of the older chunk that says the same. For an end: chunks"
        " of other memories that repeated the ended chunks and ended with them.",
    )
    summary: str | None = None
    reason: EndReason | None = Field(default=None, description="Why the chunks ended, if they did.")
    ended_by: tuple[UUID, ...] = Field(default=(), description="Newer chunks that contradict or replace them.")
    why: str | None = Field(default=None, description="Why they ended, in the words of the model that proposed it.")
    facts: tuple[str, ...] = Field(default=(), description="What a model concluded from the chunks.")
    usage: tuple[ModelUsage, ...] = Field(default=(), description="The models called for it, and their usage.")
    fallback: Fallback | None = Field(
        default=None, description="Why rules decided all or part of it although a model is configured."
    )


class MemoryVersion(_Frozen):
    """One complete version of a memory, with both times."""

    version: int
    title: str
    content: str
    description: str | None
    metadata: dict[str, Any]
    source: Source
    actor: str | None
    conversation_id: str | None
    occurred_at: datetime = Field(description="When it became true in the world.")
    recorded_at: datetime = Field(description="When the ledger recorded it.")
    event_id: UUID
    position: int
    chunks: tuple[ChunkEntry, ...] = Field(description="Spans that tile the content; `new` marks those it added.")
    chunks_ended: int = Field(description="Number of chunks of the previous version that are not part of it.")
    derived: tuple[Derivation, ...] = ()


class MemoryHistory(_Frozen):
    """All versions of one memory, oldest first."""

    external_id: str
    memory_id: UUID
    versions: tuple[MemoryVersion, ...]
    archived_at: datetime | None

    def at(self, *, as_of: datetime | None = None, known_at: datetime | None = None) -> MemoryVersion | None:
        """The version known at `known_at` to be true at `as_of`: the last one that had begun by then.

        Args:
            as_of: A time in the world; None is `known_at`, or without that the latest version, whenever it begins.
            known_at: Ignore what was recorded later; None is all that is known today.

        Returns:
            The version; None if none was known or none had begun.
        """
        moment = as_of if as_of is not None else known_at
        for version in reversed(self.versions):
            if (known_at is None or version.recorded_at <= known_at) and (
                moment is None or version.occurred_at <= moment
            ):
                return version
        return None
