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


async def consolidate_ending(
    memory: AgentMem, external_id: str, newer_id: UUID, over: Sequence[Said], *, rests_on: Sequence[UUID] = ()
) -> Events | None:
    """Consolidate the newest memory with a proposal that says what is over because of its first chunk.

    Args:
        newer_id: The memory that is consolidated.
        rests_on: Further memories that the model was shown.
    """
    service = memory._ready().services.consolidation
    draft = await service._drafting.read(external_id, newer_id, None, needs_vectors=False, by_rules=False)
    newer = draft.chunks[0]
    proposal = Proposal(rests_on={*(one.memory_id for one in over if one.memory_id != newer_id), *rests_on})
    for one in over:
        layout = await layout_of(memory, external_id, one.memory_id)
        [chunk] = [chunk for chunk in layout if one.words in chunk.content and not chunk.has_ended]
        start = chunk.content.index(one.words)
        span = (start, start + len(one.words)) if one.is_part else None
        by = 0 if chunk.chunk_id != newer.chunk_id else 1
        proposal.endings.append(
            PlannedEnding(chunk.chunk_id, by, draft.chunks[by].said_at, one.why, span=span, is_hard=one.is_hard)
        )
    draft = await service._drafting.complete(replace(draft, proposal=proposal), proposal, None)
    cost = Cost()
    events, _ = await service._commit(draft, cost)
    if events is not None:
        cut = {one.memory_id for one in events.ends.cuts}
        await service._embedding.fill_missing(external_id, sorted({newer_id, *cut}))
    return events
