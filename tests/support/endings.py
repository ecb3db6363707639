"""Ends parts of what is stored, as a consolidation does that was told what is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from agent_reminiscence import AgentMem
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.services.tiers.memorizing import Cost
from agent_reminiscence.services.tiers.plan import Events
from agent_reminiscence.services.tiers.proposal import PlannedEnding, Proposal


class Said(NamedTuple):
    """What is over: words of a memory, all of the chunk that has them unless only these.

    Attributes:
        is_part: Whether only `words` are over, and not the whole chunk.
    """

    memory_id: UUID
    words: str
    is_part: bool = True
    is_hard: bool = True
    why: str = "It has changed."


async def layout_of(memory: AgentMem, external_id: str, memory_id: UUID) -> list[StoredChunk]:
    """The chunks of a memory's text, in order."""
    runtime = memory._ready().services.runtime
    async with runtime.store.transaction(external_id, read_only=True) as db:
        return await runtime.repositories.tables.chunks.get_layout(db, external_id, memory_id)


class Span(NamedTuple):
    """Some characters of a chunk; None: all of them."""

    memory_id: UUID
    chunk_id: UUID
    characters: tuple[int, int] | None
    is_hard: bool = True
    why: str = "It has changed."


async def consolidate_ending(memory: AgentMem, external_id: str, newer_id: UUID, over: Sequence[Said]) -> Events | None:
    """Consolidate a memory with a proposal that says what is over because of its first chunk."""
    spans = []
    for one in over:
        layout = await layout_of(memory, external_id, one.memory_id)
        [chunk] = [chunk for chunk in layout if one.words in chunk.content and not chunk.has_ended]
        start = chunk.content.index(one.words)
        characters = (start, start + len(one.words)) if one.is_part else None
        spans.append(Span(one.memory_id, chunk.chunk_id, characters, one.is_hard, one.why))
    return await end_spans(memory, external_id, newer_id, spans)


async def end_spans(memory: AgentMem, external_id: str, newer_id: UUID, spans: Sequence[Span]) -> Events | None:
    """The same for characters of chunks, by the first chunk that is not among them; None: nothing was recorded."""
    service = memory._ready().services.consolidation
    draft = await service._drafting.read(external_id, newer_id, None, needs_vectors=False, by_rules=False)
    over = {one.chunk_id for one in spans}
    by = next((index for index, chunk in enumerate(draft.chunks) if chunk.chunk_id not in over), None)
    if by is None:
        return None
    proposal = Proposal(
        rests_on={one.memory_id for one in spans} - {newer_id},
        endings=[
            PlannedEnding(one.chunk_id, by, draft.chunks[by].said_at, one.why, span=one.characters, is_hard=one.is_hard)
            for one in spans
        ],
    )
    draft = await service._drafting.complete(replace(draft, proposal=proposal), proposal, None)
    events, _ = await service._commit(draft, Cost())
    if events is not None:
        cut = {one.memory_id for one in events.ends.cuts}
        await service._embedding.fill_missing(external_id, sorted({newer_id, *cut}))
    return events
