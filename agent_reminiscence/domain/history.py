"""A memory's history: every version, and what was derived from it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from agent_reminiscence.config.timezones import UTC_NAME
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.domain.payloads import (
    ChunkCut,
    ChunkEntry,
    EndReason,
    Fallback,
    ModelUsage,
)
from agent_reminiscence.domain.trust import Source


class Derivation(FrozenModel):
    """What a consolidation, a promotion, a cut, an end or a mark of passages, or a statement made of a version."""

    kind: EventKind
    event_id: UUID
    position: int
    occurred_at: datetime
    recorded_at: datetime
    source: Source = Field(description="The least trusted label among its sources.")
    chunk_ids: tuple[UUID, ...] = Field(description="Chunks it rated, promoted, cut, ended, marked or rests on.")
    duplicates: dict[UUID, UUID] = Field(
        default_factory=dict,
        description="Chunks that ended as duplicates: id → id of the older chunk that says the same. For an end: chunks"
        " of other memories that repeated the ended chunks and ended with them.",
    )
    summary: str | None = None
    cuts: tuple[ChunkCut, ...] = Field(default=(), description="Which pieces took the place of which chunks.")
    reason: EndReason | None = Field(default=None, description="Why the chunks ended, if they did.")
    ended_by: tuple[UUID, ...] = Field(
        default=(), description="Newer chunks that contradict, replace or seem to outdate them."
    )
    why: str | None = Field(
        default=None, description="Why they ended or are out of date, in the words of the model that proposed it."
    )
    facts: tuple[str, ...] = Field(default=(), description="What a model concluded from the chunks.")
    usage: tuple[ModelUsage, ...] = Field(default=(), description="The models called for it, and their usage.")
    fallback: Fallback | None = Field(
        default=None, description="Why rules decided all or part of it although a model is configured."
    )


class MemoryVersion(FrozenModel):
    """One version of a memory, with both times.

    A version that an append made holds only what it added, as `is_append` says; `MemoryHistory.at` returns it whole.
    """

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
    is_append: bool = Field(
        default=False, description="Whether content, turns in the metadata and chunks are only those that it added."
    )
    chunks: tuple[ChunkEntry, ...] = Field(description="Spans that tile the content; `new` marks those it added.")
    chunks_ended: int = Field(description="Number of chunks of the previous version that are not part of it.")
    derived: tuple[Derivation, ...] = ()
    timezone: str = Field(
        default=UTC_NAME, description="Time zone in which its words were understood, as an IANA name."
    )
    pinned: bool = Field(default=False, description="Whether it was shown whatever was asked.")
    expires_at: datetime | None = Field(
        default=None, description="From when on nothing finds it, as this version says; None: it does not expire."
    )


class MemoryHistory(FrozenModel):
    """All versions of one memory, oldest first."""

    external_id: str
    memory_id: UUID
    key: str | None = None
    versions: tuple[MemoryVersion, ...]
    archived_at: datetime | None

    def at(self, *, as_of: datetime | None = None, known_at: datetime | None = None) -> MemoryVersion | None:
        """The version known at `known_at` to be true at `as_of`: the last one that had begun by then.

        Args:
            as_of: A time in the world; None is `known_at`, or without that the latest version, whenever it begins.
            known_at: Ignore what was recorded later; None is all that is known today.

        Returns:
            The version; None if none was known or none had begun, or if it had expired by that moment.
        """
        moment = as_of if as_of is not None else known_at
        for version in reversed(self.versions):
            if (known_at is None or version.recorded_at <= known_at) and (
                moment is None or version.occurred_at <= moment
            ):
                if moment is not None and version.expires_at is not None and version.expires_at <= moment:
                    return None
                return self._whole(version)
        return None

    def _whole(self, version: MemoryVersion) -> MemoryVersion:
        """The version with all of its text."""
        if not version.is_append:
            return version
        last = version.version - 1
        first = next(index for index in range(last, -1, -1) if not self.versions[index].is_append)
        base, *added = self.versions[first : last + 1]
        turns = [turn for one in (base, *added) for turn in one.metadata.get("turns") or []]
        return version.model_copy(
            update={
                "content": "".join(one.content for one in (base, *added)),
                "metadata": base.metadata | ({"turns": turns} if turns else {}),
                "chunks": _tiled([chunk for one in (base, *added) for chunk in one.chunks], added=len(version.chunks)),
                "is_append": False,
            }
        )


def _tiled(chunks: Sequence[ChunkEntry], *, added: int) -> tuple[ChunkEntry, ...]:
    """The chunks of a whole text, of which the last `added` are new; space between two belongs to the first."""
    ends = [*(chunk.start for chunk in chunks[1:]), chunks[-1].end]
    first_new = len(chunks) - added
    return tuple(
        chunk.model_copy(update={"end": end, "new": index >= first_new})
        for index, (chunk, end) in enumerate(zip(chunks, ends, strict=True))
    )
