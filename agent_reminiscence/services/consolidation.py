"""active → shortterm: decide with no transaction open, then append the whole plan as one event."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import batched
from uuid import UUID

from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import least_trusted
from agent_reminiscence.database.postgres_manager import PostgresManager, SqlExecutor
from agent_reminiscence.database.repositories.entity_graph import EntityGraphRepository, KnownEntityName
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.memory_chunk import Twin
from agent_reminiscence.domain.event import (
    ChunkRating,
    Duplicate,
    EntitiesMerged,
    EventKind,
    GraphChanges,
    MemoryConsolidated,
)
from agent_reminiscence.domain.memory import ConsolidationReport, StoredChunk, StoredMemory
from agent_reminiscence.projections import Tables
from agent_reminiscence.projections.forms import WORD, without_speaker
from agent_reminiscence.services import graph_plan
from agent_reminiscence.services.embedding import EmbeddingService
from agent_reminiscence.services.importance import count_details, importance
from agent_reminiscence.services.projector import Projector
from agent_reminiscence.services.promotion import PromotionService
from agent_reminiscence.services.requests import WriteRequest

_SENTENCE = re.compile(r".+?(?:[.!?…]+(?=\s|$)|\n|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Draft:
    """What takes long to find out about a memory, as it was at one version."""

    memory: StoredMemory
    chunks: Sequence[StoredChunk]
    recurrences: Mapping[UUID, int]
    entities: Sequence[graph_plan.DraftedEntity]
    # The last event that had changed an entity when names were compared.
    compared_at: int


class ConsolidationService:
    """Moves memories to shortterm, deterministically, and promotes what proves important."""

    def __init__(
        self,
        store: PostgresManager,
        ledger: EventLedger,
        projector: Projector,
        tables: Tables,
        graph: EntityGraphRepository,
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
        self._graph = graph
        self._embedding = embedding
        self._promotion = promotion
        self._clock = clock
        self._generation = generation

    async def consolidate(self, external_id: str, memory_id: UUID, *, locked: bool = False) -> ConsolidationReport:
        """Consolidate one memory as it is now, fill in its vectors, and promote what is important enough.

        At most one consolidation event is written for a memory and version. When the memory changes while the plan
        is made, the plan is dropped: the update that changed it counts on.

        Args:
            locked: Whether the stream's writers wait meanwhile, for a memory that changes faster than it is planned.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        filled, missing = await self._embedding.fill_missing(external_id, [memory_id])
        if locked:
            async with self._store.transaction(external_id) as db:
                await self._ledger.lock(db, external_id)
                draft = await self._draft(external_id, memory_id, db)
                plan, promoted = await self._apply(db, draft)
        else:
            draft = await self._draft(external_id, memory_id)
            async with self._store.transaction(external_id) as db:
                plan, promoted = await self._apply(db, draft)
        return ConsolidationReport(
            memory_id=memory_id,
            version=draft.memory.version,
            consolidated=plan is not None,
            chunks=0 if plan is None else len(plan.chunks),
            duplicates=0 if plan is None else len(plan.duplicates),
            entities=0 if plan is None else len(plan.graph.entities),
            relationships=0 if plan is None else len(plan.graph.relationships),
            promoted=promoted,
            vectors_filled=filled,
            vectors_missing=missing,
        )

    @asynccontextmanager
    async def _reading(self, external_id: str, db: SqlExecutor | None) -> AsyncIterator[SqlExecutor]:
        """The transaction that is open already, or one of its own: of several short ones none is open for long."""
        if db is not None:
            yield db
        else:
            async with self._store.transaction(external_id, read_only=True) as own:
                yield own

    async def _draft(self, external_id: str, memory_id: UUID, db: SqlExecutor | None = None) -> _Draft:
        """Read a memory and find out what can be found out while others write."""
        async with self._reading(external_id, db) as reader:
            memory = await self._tables.active.get_by_id(reader, external_id, memory_id)
            layout = await self._tables.chunks.get_layout(reader, external_id, memory_id)
        # What has ended for good stays in its text and has no further part in anything.
        chunks = [chunk for chunk in layout if not chunk.has_ended]
        recurrences: dict[UUID, int] = {}
        for batch in batched(chunks, constants.RECURRENCE_BATCH_CHUNKS):
            async with self._reading(external_id, db) as reader:
                recurrences |= await self._count_similar(reader, memory, batch)
        async with self._reading(external_id, db) as reader:
            compared_at = await self._graph.last_entity_change(reader, external_id)
        entities = await self._draft_entities(external_id, chunks, db)
        return _Draft(memory, chunks, recurrences, entities, compared_at)

    async def _draft_entities(
        self, external_id: str, chunks: Sequence[StoredChunk], db: SqlExecutor | None
    ) -> Sequence[graph_plan.DraftedEntity]:
        """The names in what is new, and which entities those most likely mean that nobody knows."""
        keys = await asyncio.to_thread(graph_plan.keys_to_look_up, chunks)
        known: list[KnownEntityName] = []
        for batch in batched(keys, constants.NAME_LOOKUP_KEYS):
            async with self._reading(external_id, db) as reader:
                known += await self._graph.known_names(reader, external_id, batch)
        drafted = await asyncio.to_thread(graph_plan.draft_entities, chunks, known)
        return await self._compare_names(external_id, drafted, known, db)

    async def _compare_names(
        self,
        external_id: str,
        drafted: Sequence[graph_plan.DraftedEntity],
        known: Sequence[KnownEntityName],
        db: SqlExecutor | None,
    ) -> Sequence[graph_plan.DraftedEntity]:
        """`drafted`, with the entities which those names most likely mean that nobody knows."""
        unknown = graph_plan.find_unknown(drafted, known)
        if not unknown:
            return drafted
        async with self._reading(external_id, db) as reader:
            others = await self._graph.list_names(
                reader,
                external_id,
                beginnings=graph_plan.beginnings_of(unknown),
                limit=constants.LIKENESS_COMPARED_NAMES,
            )
        return await asyncio.to_thread(graph_plan.find_likely, drafted, unknown, [*known, *others])

    async def _count_similar(
        self, db: SqlExecutor, memory: StoredMemory, chunks: Sequence[StoredChunk]
    ) -> dict[UUID, int]:
        """How often what some chunks say was said elsewhere; few at a time, for the statement timeout's sake."""
        return await self._tables.chunks.count_similar(
            db,
            memory.external_id,
            memory.memory_id,
            [chunk.chunk_id for chunk in chunks],
            similarity=constants.RECURRENCE_SIMILARITY,
            limit=constants.RECURRENCE_NEIGHBOURS,
            compared=constants.RECURRENCE_COMPARED_CHUNKS,
        )

    async def _apply(self, db: SqlExecutor, draft: _Draft) -> tuple[MemoryConsolidated | None, int]:
        """Append the plan unless the memory has moved on, and what it makes ready for longterm.

        Returns:
            The plan, or None when it was dropped or this version was consolidated before, and how many chunks were
            promoted.
        """
        memory = draft.memory
        external_id, memory_id = memory.external_id, memory.memory_id
        request = WriteRequest(external_id=external_id, source=least_trusted(chunk.source for chunk in draft.chunks))
        plan = None
        raised: set[UUID] = set()
        await self._projector.begin(db, request)
        current = await self._tables.active.get_by_id(db, external_id, memory_id)
        if current.version == memory.version and current.consolidated_version < memory.version:
            # Looked up under the lock: a chunk that has ended meanwhile must not stand in for another, and no name may
            # get two entities.
            moment = self._clock()
            twins = await self._tables.chunks.find_twins(db, external_id, memory_id, moment=moment)
            # In a thread: each word of a long text is looked at.
            plan = await asyncio.to_thread(
                plan_consolidation, memory, draft.chunks, draft.recurrences, twins, generation=self._generation
            )
            graph, merges = await self._plan_graph(db, draft, plan.chunks)
            plan = plan.model_copy(update={"graph": graph})
            await self._projector.record(
                db, request.event(EventKind.CONSOLIDATED, plan.model_dump(mode="json"), moment)
            )
            for merge in merges:
                await self._projector.record(
                    db, request.event(EventKind.ENTITIES_MERGED, merge.model_dump(mode="json"), moment)
                )
            await self._ledger.clear_due(db, external_id)
            raised = {twin.memory_id for twin in twins}
        # What this memory repeats has gained importance in its own memory.
        promoted = 0
        for candidate in (memory_id, *sorted(raised - {memory_id})):
            promoted += await self._promotion.promote(db, external_id, candidate)
        return plan, promoted

    async def _plan_graph(
        self, db: SqlExecutor, draft: _Draft, ratings: Sequence[ChunkRating]
    ) -> tuple[GraphChanges, Sequence[EntitiesMerged]]:
        """What to record of the drafted names, as the graph is now."""
        external_id = draft.memory.external_id
        known: list[KnownEntityName] = []
        for keys in batched((entity.extracted.key for entity in draft.entities), constants.NAME_LOOKUP_KEYS):
            known += await self._graph.known_names(db, external_id, keys)
        drafted = draft.entities
        if await self._graph.last_entity_change(db, external_id) > draft.compared_at:
            # Another memory was faster: one of its names may be what one of these most likely means.
            drafted = await self._compare_names(external_id, drafted, known, db)
        planned = graph_plan.resolve_entities(drafted, known)
        pairs = graph_plan.find_pairs(planned)
        existing = await self._graph.find_between(db, external_id, list(pairs), graph_plan.TOGETHER) if pairs else []
        changes = graph_plan.plan_graph(planned, pairs, existing, ratings)
        return changes, graph_plan.plan_merges(drafted, planned)


def plan_consolidation(
    memory: StoredMemory,
    chunks: Sequence[StoredChunk],
    recurrences: Mapping[UUID, int],
    twins: Sequence[Twin],
    *,
    generation: int,
) -> MemoryConsolidated:
    """What to do with a memory's chunks, without a model.

    A chunk that says word for word what a consolidated one of the same speaker says already ends as its duplicate, and
    the older one gains importance. All others move to shortterm with an importance of their own. Nothing looser than
    the same words ends a chunk: two sentences that differ in one number are close as vectors and mean different things.

    Args:
        chunks: Of the memory, in the order of the text, but for those that have ended for good.
        recurrences: How often what a chunk says was said elsewhere, by chunk id.
        twins: Older chunks with the same words.
    """
    contents = {chunk.chunk_id: without_speaker(chunk.content, chunk.speaker) for chunk in chunks}
    repeated = [twin for twin in twins if len(WORD.findall(contents[twin.chunk_id])) >= constants.DUPLICATE_MIN_WORDS]
    ratings = [
        ChunkRating(
            id=chunk.chunk_id,
            importance=_rated(
                chunk,
                importance(
                    source=chunk.source,
                    recurrences=recurrences.get(chunk.chunk_id, 0),
                    details=count_details(contents[chunk.chunk_id]),
                    updates_survived=memory.version - chunk.memory_version,
                ),
            ),
            confidence=chunk.confidence,
        )
        for chunk in chunks
    ]
    return MemoryConsolidated(
        memory_id=memory.memory_id,
        version=memory.version,
        title=memory.title,
        summary=_summary(chunks, {rating.id: rating.importance for rating in ratings}),
        chunks=tuple(ratings),
        duplicates=tuple(Duplicate(id=twin.chunk_id, duplicate_of=twin.twin_id) for twin in repeated),
        reinforced=tuple({twin.twin_id: _reinforced(twin) for twin in repeated}.values()),
        embedding_generation=generation,
    )


def _rated(chunk: StoredChunk, importance: float) -> float:
    """What was promoted keeps the importance it was promoted with, which its use may have earned."""
    return max(importance, chunk.importance) if chunk.tier == "longterm" else importance


def _reinforced(twin: Twin) -> ChunkRating:
    """The older chunk with one more recurrence, which is worth half of its share of the importance."""
    raised = round(min(1.0, twin.importance + constants.IMPORTANCE_RECURRENCE / 2), 6)
    return ChunkRating(id=twin.twin_id, importance=raised, confidence=twin.confidence)


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
