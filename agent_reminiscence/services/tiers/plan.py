"""The plan of a consolidation: the events that it records, from what was read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.database.repositories.graph.tables import KnownEntityName, KnownPeriod
from agent_reminiscence.database.repositories.memory_chunk import Twin
from agent_reminiscence.domain.graph import Relationship
from agent_reminiscence.domain.memory import StoredChunk, StoredMemory
from agent_reminiscence.domain.payloads import (
    ChunkRating,
    Duplicate,
    EntitiesMerged,
    FactEntry,
    MemoryConsolidated,
    MemoryCut,
    MemoryEnded,
    MemoryOutdated,
    RelationshipEnded,
)
from agent_reminiscence.domain.trust import Source, is_trusted_less, least_trusted, may_end
from agent_reminiscence.services.tiers.entities import PlannedEntity
from agent_reminiscence.services.tiers.importance import IMPORTANCE_RECURRENCE, count_details, estimated, importance
from agent_reminiscence.services.tiers.proposal import PlannedFact, PlannedRelationshipEnding, Proposal, may_restate
from agent_reminiscence.services.tiers.relationships import PlannedRelationship
from agent_reminiscence.text.folding import WORD, without_speaker
from agent_reminiscence.text.sentences import first_sentence

# Chunks with fewer words are never treated as duplicates: "Thanks!" means something each time.
DUPLICATE_MIN_WORDS: Final = 6
# How many sentences a summary without a model has.
SUMMARY_SENTENCES: Final = 3


@dataclass(frozen=True, slots=True)
class Draft:
    """The slow part of planning a memory's consolidation, for one version; it grows while the memory is read.

    Attributes:
        chunks: Its chunks in text order, without those that have ended for good; of a text that has only been appended
            to since it was consolidated, those that are new.
        context: The chunks before them, as the last consolidation left them.
        recurrences: How often a chunk recurs elsewhere, by chunk id.
        generation: The vector generation that these were found with.
        compared_at: The last event that had changed an entity when names were compared.
        entities: What its new chunks name.
        known: What is known of these names.
        relationships: What rules find stated in its new chunks about these entities.
        looked_up: The name keys for which `known` was read first.
        importance: The caller's estimate, for chunks that no model estimates; None without one.
        proposal: What a model proposes for it.
        is_complete: Whether `entities` and `known` take `proposal` into account.
    """

    memory: StoredMemory
    chunks: Sequence[StoredChunk]
    context: Sequence[StoredChunk]
    recurrences: Mapping[UUID, int]
    generation: int
    compared_at: int
    entities: list[PlannedEntity]
    known: Sequence[KnownEntityName]
    looked_up: frozenset[str]
    relationships: Sequence[PlannedRelationship] = ()
    importance: float | None = None
    proposal: Proposal = field(default_factory=Proposal)
    is_complete: bool = False

    @property
    def estimates(self) -> Mapping[int, float]:
        """Estimates of importance for its chunks, by index."""
        if self.importance is None:
            return self.proposal.importances
        return dict.fromkeys(range(len(self.chunks)), self.importance) | dict(self.proposal.importances)


@dataclass(slots=True)
class PlannedEnds:
    """What to record about what is over, in this order.

    Attributes:
        cuts: One for each memory with chunks of which a part ends.
        ended: Each with the moment from which the ending holds.
        outdated: Each with the moment since when the passages are out of date.
    """

    cuts: list[MemoryCut] = field(default_factory=list)
    ended: list[tuple[MemoryEnded, datetime]] = field(default_factory=list)
    outdated: list[tuple[MemoryOutdated, datetime]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Events:
    """Everything that one consolidation records, in this order."""

    moment: datetime
    plan: MemoryConsolidated
    merges: Sequence[EntitiesMerged]
    ends: PlannedEnds
    relationships_ended: Sequence[RelationshipEnded]
    # Memories with chunks that became more important.
    raised: frozenset[UUID]


def find_restated(
    draft: Draft, stated: Sequence[PlannedRelationship], known: Sequence[KnownPeriod]
) -> dict[tuple[UUID, UUID, str], UUID]:
    """The first known relationship that each newly stated one restates, by both ends and type."""
    last = {(*one.ends, one.type): one for one in stated}
    restated: dict[tuple[UUID, UUID, str], UUID] = {}
    for period in known:
        key = (period.from_id, period.to_id, period.type)
        said = [draft.chunks[passage] for passage in last[key].passages]
        if may_restate(said, last[key], period):
            restated.setdefault(key, period.relationship_id)
    return restated


def make_facts(
    memory: StoredMemory,
    chunks: Sequence[StoredChunk],
    facts: Sequence[PlannedFact],
    ratings: Sequence[ChunkRating],
    *,
    threshold: float,
) -> list[FactEntry]:
    """Facts as recorded: with the span of the chunks they rest on, and no more important than these allow.

    Args:
        chunks: The memory's chunks in text order, without those that have ended for good.
        ratings: The new ratings of the same chunks.
        threshold: The importance from which a fact becomes longterm.
    """
    starts = dict(zip(memory.chunk_ids, memory.chunk_starts, strict=True))
    entries = []
    for fact in facts:
        own = [chunks[index] for index in fact.passages]
        seen = max(ratings[index].importance for index in fact.passages)
        label = least_trusted(chunk.source for chunk in own)
        entries.append(
            FactEntry(
                id=uuid7(),
                content=fact.text,
                chunks=fact.passages,
                start=min(starts[chunk.chunk_id] for chunk in own),
                end=max(starts[chunk.chunk_id] + len(chunk.content) for chunk in own),
                importance=round(estimated(seen, fact.importance, label, threshold=threshold), 6),
                confidence=fact.confidence,
                start_date=fact.start_date,
            )
        )
    return entries


def may_end_relationship(
    by: StoredChunk, ending: PlannedRelationshipEnding, known: Relationship, said_by: Collection[Source], last: datetime
) -> bool:
    """Whether a relationship that still holds, stated by `said_by` and last at `last`, may be ended by a chunk."""
    holds = known.end_date is None or known.end_date > ending.end_date
    if ending.is_compared:
        may = all(is_trusted_less(source, by.source) for source in said_by)
    else:
        may = may_end(by.source, said_by)
    return may and holds and last <= ending.said_at


def plan_consolidation(
    memory: StoredMemory,
    chunks: Sequence[StoredChunk],
    recurrences: Mapping[UUID, int],
    twins: Sequence[Twin],
    *,
    generation: int,
    threshold: float,
    estimates: Mapping[int, float] | None = None,
    context: Sequence[StoredChunk] = (),
) -> MemoryConsolidated:
    """What to do with a memory's chunks.

    A chunk that repeats a consolidated one of the same speaker word for word ends as its duplicate, and the older one
    gains importance. All others move to shortterm with their own importance. Only identical words end a chunk: two
    sentences that differ in one number are close as vectors but mean different things.

    Args:
        chunks: The memory's chunks in text order, without those that have ended for good.
        recurrences: How often a chunk recurs elsewhere, by chunk id.
        twins: Older chunks with the same words.
        threshold: The importance from which a chunk becomes longterm.
        estimates: Estimates of importance for some chunks, by index: a model's, or the caller's.
        context: The chunks before them, of which only the summary speaks.
    """
    estimates = estimates or {}
    contents = {chunk.chunk_id: without_speaker(chunk.content, chunk.speaker) for chunk in chunks}
    # A chunk that became active again since the draft was made is left to the next consolidation.
    twins = [twin for twin in twins if twin.chunk_id in contents]
    repeated = [twin for twin in twins if len(WORD.findall(contents[twin.chunk_id])) >= DUPLICATE_MIN_WORDS]
    ratings = [
        ChunkRating(
            id=chunk.chunk_id,
            importance=_rated(
                chunk,
                importance(
                    source=chunk.source,
                    recurrences=recurrences.get(chunk.chunk_id, 0),
                    details=count_details(contents[chunk.chunk_id]),
                    updates_survived=max(0, memory.text_version - chunk.memory_version),
                    estimate=estimates.get(index, chunk.estimate),
                    threshold=threshold,
                ),
            ),
            confidence=chunk.confidence,
            estimate=estimates.get(index),
        )
        for index, chunk in enumerate(chunks)
    ]
    return MemoryConsolidated(
        memory_id=memory.memory_id,
        version=memory.version,
        title=memory.title,
        summary=_summary([*context, *chunks], _importances(context, ratings)),
        chunks=tuple(ratings),
        duplicates=tuple(Duplicate(id=twin.chunk_id, duplicate_of=twin.twin_id) for twin in repeated),
        reinforced=tuple({twin.twin_id: _reinforced(twin) for twin in repeated}.values()),
        embedding_generation=generation,
    )


def _rated(chunk: StoredChunk, importance: float) -> float:
    """A promoted chunk never falls below the importance it was promoted with, which its use may have earned."""
    return max(importance, chunk.importance) if chunk.tier == "longterm" else importance


def _reinforced(twin: Twin) -> ChunkRating:
    """The older chunk with one more recurrence, which adds half the weight of recurrence to its importance."""
    raised = round(min(1.0, twin.importance + IMPORTANCE_RECURRENCE / 2), 6)
    return ChunkRating(id=twin.twin_id, importance=raised, confidence=twin.confidence)


def summarize(draft: Draft, plan: MemoryConsolidated) -> str:
    """The model's summary of what it read, after the memory's own sentences for the rest."""
    proposal = draft.proposal
    if proposal.summary is None:
        return plan.summary
    unread = [chunk for index, chunk in enumerate(draft.chunks) if index not in proposal.summarized]
    rest = _summary([*draft.context, *unread], _importances(draft.context, plan.chunks))
    return f"{rest} {proposal.summary}".strip()


def _importances(context: Sequence[StoredChunk], ratings: Sequence[ChunkRating]) -> dict[UUID, float]:
    """Importances by chunk id: as stored for the context, as decided for the rest."""
    return {chunk.chunk_id: chunk.importance for chunk in context} | {one.id: one.importance for one in ratings}


def _summary(chunks: Sequence[StoredChunk], importances: dict[UUID, float]) -> str:
    """The first sentences of the most important chunks, in text order."""
    best = sorted(chunks, key=lambda chunk: (-importances[chunk.chunk_id], chunk.chunk_id))[:SUMMARY_SENTENCES]
    chosen = {chunk.chunk_id for chunk in best}
    return " ".join(first_sentence(chunk.content) for chunk in chunks if chunk.chunk_id in chosen)
