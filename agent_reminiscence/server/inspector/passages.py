"""The passages of a memory on its text: in which tier each is, whom it is from, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from agent_reminiscence.config.constants import Tier
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.history import Derivation, MemoryHistory, MemoryVersion
from agent_reminiscence.domain.payloads import ChunkCut
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import MemoryNotFoundError


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a version's text.

    Attributes:
        added_in: The version that added it.
        ended: Why it no longer counts although the text has it; None: it counts.
        duplicate_of: The older passage, of any memory, that says the same.
    """

    id: UUID
    text: str
    tier: Tier
    source: Source
    speaker: str | None
    added_in: int
    start_date: datetime
    ended: str | None = None
    duplicate_of: UUID | None = None
    ended_by: tuple[UUID, ...] = ()
    why: str | None = None

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        return f"p-{self.id}"


def whole(history: MemoryHistory, version: MemoryVersion) -> MemoryVersion:
    """A version with all of its text."""
    found = history.at(as_of=version.occurred_at, known_at=version.recorded_at)
    assert found is not None, "a version is known when it is recorded"
    return found


def version_of(history: MemoryHistory, number: int) -> MemoryVersion:
    """A version by its number, with all of its text.

    Raises:
        MemoryNotFoundError: There is no such version.
    """
    for version in history.versions:
        if version.version == number:
            return whole(history, version)
    raise MemoryNotFoundError(history.external_id, history.memory_id)


def passages_of(history: MemoryHistory, version: MemoryVersion) -> list[Passage]:
    """The passages of a whole version, in the order of its text, with all that is known of them today."""
    added: dict[UUID, Passage] = {}
    for one in history.versions:
        for chunk in one.chunks:
            if chunk.new:
                added[chunk.id] = Passage(
                    id=chunk.id,
                    text="",
                    tier="active",
                    source=chunk.source or one.source,
                    speaker=chunk.speaker,
                    added_in=one.version,
                    start_date=chunk.start_date or one.occurred_at,
                )
    for derivation in _derivations(history):
        _apply(added, derivation)
    cuts = {cut.chunk: cut for derivation in _derivations(history) for cut in derivation.cuts}
    return [
        replace(added[chunk_id], text=version.content[start:end], speaker=chunk.speaker)
        for chunk in version.chunks
        for chunk_id, start, end in _pieces(cuts, chunk.id, chunk.start, chunk.end)
        if chunk_id in added
    ]


def _pieces(cuts: Mapping[UUID, ChunkCut], chunk_id: UUID, start: int, end: int) -> Iterator[tuple[UUID, int, int]]:
    """What stands for a chunk today, with its place in the text: the chunk itself, or its pieces."""
    if chunk_id not in cuts:
        yield chunk_id, start, end
        return
    for piece in cuts[chunk_id].pieces:
        # White space at the end of a chunk may have changed since.
        last = end if piece is cuts[chunk_id].pieces[-1] else min(end, start + piece.end)
        yield from _pieces(cuts, piece.id, min(end, start + piece.start), last)


def _derivations(history: MemoryHistory) -> Iterator[Derivation]:
    """All derivations in the order in which they were recorded."""
    yield from sorted((one for version in history.versions for one in version.derived), key=lambda one: one.position)


def _apply(passages: dict[UUID, Passage], derivation: Derivation) -> None:
    for chunk_id in derivation.chunk_ids:
        passage = passages.get(chunk_id)
        if passage is None:
            continue
        match derivation.kind:
            case EventKind.CONSOLIDATED if passage.tier == "active":
                passages[chunk_id] = replace(passage, tier="shortterm")
            case EventKind.PROMOTED:
                passages[chunk_id] = replace(passage, tier="longterm")
            case EventKind.ENDED:
                passages[chunk_id] = replace(
                    passage,
                    ended=derivation.reason or "ended",
                    ended_by=derivation.ended_by,
                    why=derivation.why,
                )
    for cut in derivation.cuts:
        if cut.chunk in passages:
            passages |= {piece.id: replace(passages[cut.chunk], id=piece.id) for piece in cut.pieces}
    for chunk_id, older in derivation.duplicates.items():
        if chunk_id in passages and passages[chunk_id].ended is None:
            passages[chunk_id] = replace(passages[chunk_id], ended="duplicate", duplicate_of=older)
