"""active → shortterm: decide with no transaction open, then append the whole plan as one event."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import Source, least_trusted
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.memory_chunk import Neighbour
from agent_reminiscence.domain.event import ChunkRating, Duplicate, EventKind, MemoryConsolidated
from agent_reminiscence.domain.memory import ConsolidationReport, StoredChunk, StoredMemory
from agent_reminiscence.projections import Tables
from agent_reminiscence.projections.forms import fold_name
from agent_reminiscence.services.embedding import EmbeddingService
from agent_reminiscence.services.importance import count_details, importance, same_words
from agent_reminiscence.services.projector import Projector
from agent_reminiscence.services.promotion import PromotionService
from agent_reminiscence.services.requests import WriteRequest

_SENTENCE = re.compile(r".+?(?:[.!?…]+(?=\s|$)|\n|$)", re.DOTALL)


class ConsolidationService:
    """Moves memories to shortterm, deterministically, and promotes what proves important."""

    def __init__(
        self,
        store: PostgresManager,
        ledger: EventLedger,
        projector: Projector,
        tables: Tables,
        embedding: EmbeddingService,
        promotion: PromotionService,
        *,
        clock: Callable[[], datetime],
        generation: int,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._projector = projector
        self._tables = tables
        self._embedding = embedding
        self._promotion = promotion
        self._clock = clock
        self._generation = generation

    async def consolidate(self, external_id: str, memory_id: UUID) -> ConsolidationReport:
        """Consolidate one memory as it is now, fill in its vectors, and promote what is important enough.

        At most one consolidation event is written for a memory and version. When the memory changes while the plan
        is made, the plan is dropped: the update that changed it counts on.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        filled, missing = await self._embedding.fill_missing(external_id, memory_id)
        async with self._store.transaction(external_id, read_only=True) as db:
            memory = await self._tables.active.get_by_id(db, external_id, memory_id)
            chunks = await self._tables.chunks.get_layout(db, external_id, memory_id)
            neighbours = await self._tables.chunks.find_neighbours(
                db,
                external_id,
                memory_id,
                similarity=constants.RECURRENCE_SIMILARITY,
                limit=constants.RECURRENCE_NEIGHBOURS,
            )
        plan = plan_consolidation(memory, chunks, neighbours, generation=self._generation)
        consolidated = memory.consolidated_version < memory.version and await self._apply(
            external_id, plan, least_trusted(chunk.source for chunk in chunks)
        )
        promoted = await self._promotion.promote(external_id, memory_id)
        return ConsolidationReport(
            memory_id=memory_id,
            version=memory.version,
            consolidated=consolidated,
            chunks=len(plan.chunks) if consolidated else 0,
            duplicates=len(plan.duplicates) if consolidated else 0,
            promoted=promoted,
            vectors_filled=filled,
            vectors_missing=missing,
        )

    async def _apply(self, external_id: str, plan: MemoryConsolidated, source: Source) -> bool:
        """Append the plan unless the memory has moved on; returns whether it was appended."""
        request = WriteRequest(external_id=external_id, source=source)
        async with self._store.transaction(external_id) as db:
            await self._projector.begin(db, request)
            current = await self._tables.active.get_by_id(db, external_id, plan.memory_id)
            if current.version != plan.version or current.consolidated_version >= plan.version:
                return False
            await self._projector.record(
                db, request.event(EventKind.CONSOLIDATED, plan.model_dump(mode="json"), self._clock())
            )
            await self._ledger.clear_due(db, external_id)
        return True


def plan_consolidation(
    memory: StoredMemory, chunks: Sequence[StoredChunk], neighbours: Sequence[Neighbour], *, generation: int
) -> MemoryConsolidated:
    """What to do with a memory's chunks, without a model.

    A chunk that says word for word what a consolidated one of the same speaker says already ends as its duplicate, and
    the older one gains importance. All others move to shortterm with an importance of their own.

    Args:
        neighbours: Consolidated chunks of other memories close to these, nearest first for each.
    """
    near: defaultdict[UUID, list[Neighbour]] = defaultdict(list)
    for neighbour in neighbours:
        near[neighbour.chunk_id].append(neighbour)

    ratings: list[ChunkRating] = []
    duplicates: list[Duplicate] = []
    reinforced: dict[UUID, ChunkRating] = {}
    for chunk in chunks:
        twin = _twin(chunk, near[chunk.chunk_id])
        if twin is not None and chunk.tier == "active":
            duplicates.append(Duplicate(id=chunk.chunk_id, duplicate_of=twin.other_id))
            reinforced[twin.other_id] = ChunkRating(
                id=twin.other_id, importance=_reinforce(twin.other_importance), confidence=twin.other_confidence
            )
        rating = importance(
            source=chunk.source,
            recurrences=len(near[chunk.chunk_id]),
            details=count_details(_without_speaker(chunk)),
            updates_survived=memory.version - chunk.memory_version,
        )
        ratings.append(ChunkRating(id=chunk.chunk_id, importance=rating, confidence=chunk.confidence))
    return MemoryConsolidated(
        memory_id=memory.memory_id,
        version=memory.version,
        title=memory.title,
        summary=_summary(chunks, {rating.id: rating.importance for rating in ratings}),
        chunks=tuple(ratings),
        duplicates=tuple(duplicates),
        reinforced=tuple(reinforced.values()),
        embedding_generation=generation,
    )


def _twin(chunk: StoredChunk, near: Sequence[Neighbour]) -> Neighbour | None:
    speaker_key = None if chunk.speaker is None else fold_name(chunk.speaker)
    for other in near:
        if (
            other.similarity >= constants.DUPLICATE_CANDIDATE_SIMILARITY
            and other.other_speaker_key == speaker_key
            and same_words(chunk.content, other.other_content)
        ):
            return other
    return None


def _reinforce(value: float) -> float:
    """One more recurrence halves what its share of the importance still lacks, at most."""
    return round(min(1.0, value + constants.IMPORTANCE_RECURRENCE / 2), 6)


def _without_speaker(chunk: StoredChunk) -> str:
    """The chunk's words without the `Name:` before them, which is no detail of what was said."""
    label = f"{chunk.speaker}:"
    text = chunk.content.lstrip()
    return text.removeprefix(label).lstrip() if chunk.speaker else text


def _summary(chunks: Sequence[StoredChunk], importances: dict[UUID, float]) -> str:
    """The first sentences of the most important chunks, in the order of the text."""
    best = sorted(chunks, key=lambda chunk: (-importances[chunk.chunk_id], chunk.chunk_id))[
        : constants.SUMMARY_SENTENCES
    ]
    chosen = {chunk.chunk_id for chunk in best}
    return " ".join(first_sentence(chunk.content) for chunk in chunks if chunk.chunk_id in chosen)


def first_sentence(text: str) -> str:
    """The first sentence of `text`, verbatim but for the white space around it."""
    match = _SENTENCE.match(text.strip())
    return match.group().strip() if match else text.strip()
