"""active → shortterm: decide with no transaction open, then append the whole plan in one transaction."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from itertools import batched
from uuid import UUID

from pydantic import BaseModel

from agent_reminiscence.config import constants
from agent_reminiscence.database.connection import PLANNED_ONCE, Deferred, SqlExecutor
from agent_reminiscence.database.generations import ask_for_current, current_generation
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName, KnownPeriod
from agent_reminiscence.domain.canonical import beside, sha256
from agent_reminiscence.domain.event import (
    ChunkRating,
    EntitiesMerged,
    EventKind,
    FactEntry,
    GraphChanges,
    MemoryConsolidated,
    MemoryEnded,
    RelationshipEnded,
    write_payload,
)
from agent_reminiscence.domain.graph import TOGETHER
from agent_reminiscence.domain.memory import ConsolidationReport, StoredChunk, StoredMemory
from agent_reminiscence.domain.trust import SOURCES, Source, least_trusted, may_end
from agent_reminiscence.exceptions import CommitUnknownError, MemoryNotFoundError, StoreError
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.entities import (
    PlannedEntity,
    beginnings_of,
    combine,
    draft_entities,
    find_likely,
    find_unknown,
    keys_to_look_up,
    left_to_rules,
    plan_merges,
    resolve_entities,
)
from agent_reminiscence.services.tiers.plan import (
    Draft,
    Events,
    find_restated,
    make_facts,
    may_end_relationship,
    plan_consolidation,
    summarize,
)
from agent_reminiscence.services.tiers.promotion import PromotionService
from agent_reminiscence.services.tiers.proposal import PlannedRelationshipEnding, Reading
from agent_reminiscence.services.tiers.reading import Cost, MemorizingService
from agent_reminiscence.services.tiers.relationships import (
    find_pairs,
    plan_graph,
    plan_relationships,
)
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.text.folding import fold_text, name_key

# What a model writes has the lowest trust.
_MODEL: Source = "model"


class _LacksVectorsError(Exception):
    """The memory lacks vectors, so where else it was said cannot be known."""


class _GoneMeanwhileError(Exception):
    """Since the model read it, something in the memory has ended or something shown to the model was erased."""


class ConsolidationService:
    """Moves memories to shortterm, by rules and a model's reading, and promotes what proves important."""

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        embedding: EmbeddingService,
        memorizing: MemorizingService,
        promotion: PromotionService,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._projector = projector
        self._tables = runtime.repositories.tables
        self._graph = runtime.repositories.graph
        self._lifecycle = runtime.repositories.live_chunks
        self._uses = runtime.repositories.uses
        self._embedding = embedding
        self._memorizing = memorizing
        self._promotion = promotion
        self._clock = runtime.clock

    async def consolidate(
        self, external_id: str, memory_id: UUID, *, locked: bool = False, is_dry_run: bool = False
    ) -> ConsolidationReport:
        """Consolidate one memory as it is now, fill in its vectors, and promote what is important enough.

        At most one consolidation event is written per version of a memory. If the memory changes during planning, the
        plan is dropped; the update that changed it makes the memory due again.

        Args:
            locked: Hold the stream's lock meanwhile, for a memory that changes faster than it can be planned. No model
                is asked then.
            is_dry_run: Only report what would be done. A model is still asked, and its cost recorded.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
        """
        filled = missing = 0
        # Most memories have had vectors since they were written; reading one shows whether it lacks any.
        needs_vectors = True
        while True:
            try:
                report = await self._consolidate(
                    external_id, memory_id, locked=locked, is_dry_run=is_dry_run, needs_vectors=needs_vectors
                )
                break
            except _LacksVectorsError:
                filled, missing = await self._embedding.fill_missing(external_id, [memory_id])
                # Do not wait for vectors that could not be made.
                needs_vectors = False
            except _GoneMeanwhileError:
                # It must not live on in the model's output: read again without it.
                continue
        if report.facts and not is_dry_run:
            added, missing = await self._embedding.fill_missing(external_id, [memory_id])
            filled += added
        return report.model_copy(update={"vectors_filled": filled, "vectors_missing": missing})

    async def _consolidate(
        self, external_id: str, memory_id: UUID, *, locked: bool, is_dry_run: bool, needs_vectors: bool
    ) -> ConsolidationReport:
        async with self._memorizing.metered(external_id) as cost:
            if locked:
                async with self._store.transaction(external_id) as db:
                    await self._ledger.lock(db, external_id)
                    draft = await self._draft(external_id, memory_id, cost, db, needs_vectors=needs_vectors)
                    events, promoted = await self._apply(db, draft)
            else:
                draft = await self._draft(external_id, memory_id, cost, needs_vectors=needs_vectors)
                if is_dry_run:
                    events, promoted = await self._preview(draft), 0
                else:
                    events, promoted = await self._commit(draft, cost)
        return _report(draft, events, promoted, is_dry_run=is_dry_run)

    async def _draft(
        self, external_id: str, memory_id: UUID, cost: Cost, db: SqlExecutor | None = None, *, needs_vectors: bool
    ) -> Draft:
        """Find out everything about a memory that can be found out while others write.

        Args:
            cost: Grows by what a model costs.
            db: The transaction that holds the stream's lock, if there is one; then no model is asked.
            needs_vectors: Whether to give up if a vector is missing.

        Raises:
            _LacksVectorsError: A vector is missing and `needs_vectors` is set.
        """
        draft = await self._read(external_id, memory_id, db, needs_vectors=needs_vectors)
        # A model takes its time; no transaction of ours is open meanwhile.
        reading = await self._memorizing.read(
            draft.memory, draft.chunks, draft.entities, draft.known, cost, is_busy=db is not None
        )
        return await self._complete(draft, reading, db)

    async def _preview(self, draft: Draft) -> Events | None:
        """What `_commit` would record now."""
        external_id = draft.memory.external_id
        async with self._store.transaction(external_id, settings=PLANNED_ONCE, read_only=True) as db:
            return await self._plan(db, draft)

    async def _commit(self, draft: Draft, cost: Cost) -> tuple[Events | None, int]:
        """Apply a draft in a transaction of its own; if that is committed, its event records the cost."""
        events = None
        try:
            async with self._store.transaction(draft.memory.external_id, settings=PLANNED_ONCE) as db:
                events, promoted = await self._apply(db, draft)
        except (CommitUnknownError, asyncio.CancelledError):
            # A cancellation at COMMIT leaves the outcome unknown too.
            cost.is_recorded = events is not None and await self._was_committed(draft.memory, events)
            raise
        cost.is_recorded = events is not None
        return events, promoted

    async def _was_committed(self, memory: StoredMemory, events: Events) -> bool:
        """Whether this plan was committed after an unknown COMMIT; False if that cannot be found out."""
        with suppress(StoreError, MemoryNotFoundError):
            async with self._store.transaction(memory.external_id) as db:
                # The server may still be committing.
                await self._ledger.lock(db, memory.external_id)
                head = await self._ledger.head(db, memory.external_id)
                recorded = await self._ledger.read_memory(db, memory.external_id, memory.memory_id, position=head)
                plan = events.plan.model_dump(mode="json")
                return any(event.kind == EventKind.CONSOLIDATED and event.payload == plan for event in recorded)
        return False

    @asynccontextmanager
    async def _reading(self, external_id: str, db: SqlExecutor | None) -> AsyncIterator[SqlExecutor]:
        """The open transaction, or a short one of its own, so that none stays open for long."""
        if db is not None:
            yield db
        else:
            async with self._store.transaction(external_id, settings=PLANNED_ONCE, read_only=True) as own:
                yield own

    async def _read(self, external_id: str, memory_id: UUID, db: SqlExecutor | None, *, needs_vectors: bool) -> Draft:
        """A memory as it is stored, with the names that rules find in what is new."""
        async with self._reading(external_id, db) as reader:
            asked_memory = await self._tables.active.ask_by_id(reader, external_id, memory_id)
            asked_generation = await ask_for_current(reader)
            asked_change = await self._graph.ask_for_last_change(reader, external_id)
            memory = await asked_memory.result()
            await reader.plan_for(len(memory.chunk_ids))
            current = await asked_generation.result()
            asked_lack = await self._embedding.ask_whether_lacking(reader, external_id, memory_id, current)
            layout = await self._tables.chunks.get_layout(reader, external_id, memory_id)
            if needs_vectors and await asked_lack.result():
                raise _LacksVectorsError
            # A chunk that has ended for good stays in the text but takes part in nothing else.
            chunks = [chunk for chunk in layout if not chunk.has_ended]
            texts = [chunk.content for chunk in chunks]
            generation = current.number
            compared_at = await asked_change.result()
            is_short = len(chunks) <= constants.RECURRENCE_BATCH_CHUNKS
            if is_short:
                recurring = await self._ask_how_many_similar(reader, memory, chunks, generation)
                looked_up = await beside(lambda: keys_to_look_up(chunks), value=texts)
                known = await self._known_names(external_id, looked_up, reader)
                recurrences = await recurring.result()
        if not is_short:
            # Comparing a long text takes time, so it is done in portions with a transaction each.
            recurrences, generation = await self._find_recurrences(external_id, memory, chunks, db)
            looked_up = await beside(lambda: keys_to_look_up(chunks), value=texts)
            known = await self._known_names(external_id, looked_up, db)
        entities = await beside(lambda: draft_entities(chunks, known), value=texts)
        return Draft(
            memory, chunks, recurrences, generation, compared_at, entities, known, looked_up=frozenset(looked_up)
        )

    async def _complete(self, draft: Draft, reading: Reading, db: SqlExecutor | None) -> Draft:
        """The draft with what a model read, and with the known entities that all its names most likely mean."""
        external_id = draft.memory.external_id
        sure = {row.key for row in draft.known} | {name_key(chunk.speaker) for chunk in draft.chunks if chunk.speaker}
        by_rules = left_to_rules(draft.entities, reading.entities, reading.importances, sure)
        entities = combine([*reading.entities, *by_rules])
        others = {entity.sought_key for entity in entities} - draft.looked_up
        known = [*draft.known, *await self._known_names(external_id, sorted(others), db)]
        entities = await self._compare_names(external_id, entities, known, db)
        return replace(draft, entities=entities, known=known, reading=reading)

    async def _find_recurrences(
        self, external_id: str, memory: StoredMemory, chunks: Sequence[StoredChunk], db: SqlExecutor | None
    ) -> tuple[dict[UUID, int], int]:
        """How often each chunk of a long text recurs elsewhere, and the vector generation used."""
        recurrences: dict[UUID, int] = {}
        generation = 0
        for batch in batched(chunks, constants.RECURRENCE_BATCH_CHUNKS):
            async with self._reading(external_id, db) as reader:
                # Read each time: another generation may become current while a long memory is compared.
                generation = (await current_generation(reader)).number
                await reader.plan_for(len(chunks))
                recurring = await self._ask_how_many_similar(reader, memory, batch, generation)
                recurrences |= await recurring.result()
        return recurrences, generation

    async def _known_names(
        self, external_id: str, keys: Sequence[str], db: SqlExecutor | None
    ) -> list[KnownEntityName]:
        """What the graph knows about some names."""
        known: list[KnownEntityName] = []
        for batch in batched(keys, constants.NAME_LOOKUP_KEYS):
            async with self._reading(external_id, db) as reader:
                known += await self._graph.known_names(reader, external_id, batch)
        return known

    async def _compare_names(
        self,
        external_id: str,
        drafted: list[PlannedEntity],
        known: Sequence[KnownEntityName],
        db: SqlExecutor | None,
    ) -> list[PlannedEntity]:
        """`drafted`, with the known entities that unknown names most likely mean."""
        unknown = find_unknown(drafted, known)
        if not unknown:
            return drafted
        async with self._reading(external_id, db) as reader:
            others = await self._graph.list_names(
                reader,
                external_id,
                beginnings=beginnings_of(unknown),
                limit=constants.LIKENESS_COMPARED_NAMES,
            )
        compared = [*known, *others]
        return await beside(lambda: find_likely(drafted, unknown, compared), value=[row.key for row in compared])

    async def _ask_how_many_similar(
        self, db: SqlExecutor, memory: StoredMemory, chunks: Sequence[StoredChunk], generation: int
    ) -> Deferred[dict[UUID, int]]:
        """How often some chunks recur elsewhere; few at a time because of the statement timeout."""
        return await self._tables.chunks.ask_how_many_similar(
            db,
            memory.external_id,
            memory.memory_id,
            [chunk.chunk_id for chunk in chunks],
            generation=generation,
            similarity=constants.RECURRENCE_SIMILARITY,
            limit=constants.RECURRENCE_NEIGHBOURS,
            compared=constants.RECURRENCE_COMPARED_CHUNKS,
        )

    async def _apply(self, db: SqlExecutor, draft: Draft) -> tuple[Events | None, int]:
        """Append the plan unless the memory has changed, and promote what it makes ready for longterm.

        Returns:
            What was recorded, or None if the plan was dropped or this version was already consolidated; and how many
            chunks were promoted.
        """
        memory = draft.memory
        external_id, memory_id = memory.external_id, memory.memory_id
        await self._ledger.lock_known(db, external_id)
        await db.plan_for(len(memory.chunk_ids))
        events = await self._plan(db, draft)
        if events is not None:
            await self._record(db, draft, events)
            await self._ledger.clear_due(db, external_id)
        # Chunks that this memory repeats have gained importance in their own memories.
        raised = set() if events is None else events.raised
        promoted = 0
        for candidate in (memory_id, *sorted(raised - {memory_id})):
            promoted += await self._promotion.promote(db, external_id, candidate)
        return events, promoted

    async def _plan(self, db: SqlExecutor, draft: Draft) -> Events | None:
        """Everything to record, given the stream as it is now; None if the memory has changed or was consolidated.

        Looked up under the lock: a chunk that has ended meanwhile must not replace another, and no name may get two
        entities.
        """
        memory, reading = draft.memory, draft.reading
        external_id, memory_id = memory.external_id, memory.memory_id
        moment = self._clock()
        asked_current = await self._tables.active.ask_whether_to_consolidate(
            db, external_id, memory_id, version=memory.version
        )
        asked_twins = await self._tables.chunks.ask_for_twins(db, external_id, memory_id, moment=moment)
        asked_change = await self._graph.ask_for_last_change(db, external_id)
        known = await self._known_names(external_id, [entity.sought_key for entity in draft.entities], db)
        if not await asked_current.result():
            return None
        if not await self._is_there(db, draft):
            raise _GoneMeanwhileError
        twins = await self._tables.chunks.finish_twins(
            db, external_id, memory_id, asked_twins, moment=moment, chunks=len(memory.chunk_ids)
        )
        has_changed = await asked_change.result() > draft.compared_at
        # Reads every word, which takes time for a long text.
        plan = await beside(
            lambda: plan_consolidation(
                memory,
                draft.chunks,
                draft.recurrences,
                twins,
                generation=draft.generation,
                estimates=reading.importances,
            ),
            value=[chunk.content for chunk in draft.chunks],
        )
        graph, merges = await self._plan_graph(db, draft, plan.chunks, known, has_changed=has_changed)
        plan = plan.model_copy(
            update={
                "graph": graph,
                "facts": await self._plan_facts(db, draft, plan),
                "summary": summarize(draft, plan),
                "usage": reading.usage,
                "fallback": reading.fallback,
                "fallback_chunks": reading.unread,
                "rests_on": tuple(sorted(reading.rests_on)),
            }
        )
        return Events(
            moment=moment,
            plan=plan,
            merges=merges,
            ended=await self._plan_ends(db, draft, plan),
            relationships_ended=await self._plan_relationship_ends(db, draft, plan),
            raised=frozenset(twin.memory_id for twin in twins),
        )

    async def _is_there(self, db: SqlExecutor, draft: Draft) -> bool:
        """Whether what a model read still holds, and nothing that it was shown has been erased."""
        external_id, reading = draft.memory.external_id, draft.reading
        read = [draft.chunks[place].chunk_id for place in reading.importances]
        return not read or (
            await self._tables.active.are_there(db, external_id, reading.rests_on)
            and len(await self._lifecycle.read_live(db, external_id, read)) == len(read)
        )

    async def _record(self, db: SqlExecutor, draft: Draft, events: Events) -> None:
        labels: list[Source] = [chunk.source for chunk in draft.chunks]
        if draft.reading.importances:
            labels.append(_MODEL)
        request = WriteRequest(external_id=draft.memory.external_id, source=least_trusted(labels))
        recorded: list[tuple[EventKind, BaseModel, datetime]] = [
            (EventKind.ENTITIES_MERGED, merge, events.moment) for merge in events.merges
        ]
        recorded += [(EventKind.ENDED, ended, since) for ended, since in events.ended]
        recorded += [(EventKind.RELATIONSHIP_ENDED, ended, events.moment) for ended in events.relationships_ended]
        for ended, _ in events.ended:
            # Later repetitions of it become live again and their time to live restarts. Not done in a handler because
            # a replay leaves soft state alone.
            await self._uses.touch_repetitions(db, request.external_id, ended.chunks, moment=events.moment)
        # Facts have no vectors yet, and the process may die after the commit: leave a note for a worker.
        makes_work = bool(events.plan.facts)
        plan = await write_payload(events.plan, events.plan.chunks)
        consolidated = request.event(EventKind.CONSOLIDATED, plan, events.moment)
        await self._projector.record(db, consolidated, makes_work=makes_work)
        for kind, payload, moment in recorded:
            await self._projector.record(db, request.event(kind, payload.model_dump(mode="json"), moment))

    async def _plan_facts(self, db: SqlExecutor, draft: Draft, plan: MemoryConsolidated) -> tuple[FactEntry, ...]:
        """The facts that are not stored yet, word for word."""
        if not draft.reading.facts:
            return ()
        facts = make_facts(draft.memory, draft.chunks, draft.reading.facts, plan.chunks)
        digests = {fact.id: sha256(fold_text(fact.content).encode()) for fact in facts}
        stored = await self._tables.chunks.find_known_texts(
            db,
            draft.memory.external_id,
            {digests[fact.id]: fact.start_date for fact in facts},
            # Chunks that this plan ends no longer count.
            ignored=[ending.chunk.chunk_id for ending in draft.reading.endings],
        )
        # Of facts with the same words, keep the last.
        last = {digests[fact.id]: fact for fact in facts}
        new = [fact for fact in facts if last[digests[fact.id]] is fact and digests[fact.id] not in stored]
        return tuple(sorted(new, key=lambda fact: -fact.importance)[: constants.MAX_PLAN_FACTS])

    async def _plan_ends(
        self, db: SqlExecutor, draft: Draft, plan: MemoryConsolidated
    ) -> list[tuple[MemoryEnded, datetime]]:
        """Live chunks that are contradicted or replaced, grouped by memory."""
        external_id, memory_id = draft.memory.external_id, draft.memory.memory_id
        proposed = {ending.chunk.chunk_id: ending for ending in draft.reading.endings}
        if not proposed:
            return []
        # A memory does not contradict what it says itself.
        repeated = {pair.duplicate_of for pair in plan.duplicates}
        live = await self._lifecycle.read_live(db, external_id, [one for one in proposed if one not in repeated])
        ended = []
        for chunk in live:
            ending = proposed[chunk.chunk_id]
            by = draft.chunks[ending.by]
            # A repetition said after the contradiction, or trusted more, does not end with it.
            repetitions = await self._lifecycle.find_repetitions(
                db,
                external_id,
                [chunk.chunk_id],
                said_by=by.start_date,
                sources=[source for source in SOURCES if may_end(by.source, [source])],
            )
            payload = MemoryEnded(
                memory_id=chunk.memory_id,
                reason=ending.reason,
                chunks=(chunk.chunk_id,),
                duplicates=tuple(repetitions),
                by=(by.chunk_id,),
                why=ending.why,
                rests_on=tuple(sorted({memory_id, *draft.reading.rests_on} - {chunk.memory_id})),
            )
            ended.append((payload, by.start_date))
        return ended

    async def _plan_relationship_ends(
        self, db: SqlExecutor, draft: Draft, plan: MemoryConsolidated
    ) -> list[RelationshipEnded]:
        """Endings of relationships that still hold and have not been stated again since."""
        proposed: defaultdict[UUID, list[PlannedRelationshipEnding]] = defaultdict(list)
        for ending in draft.reading.relationship_endings:
            proposed[ending.relationship.relationship_id].append(ending)
        if not proposed:
            return []
        rests_on = tuple(sorted({draft.memory.memory_id, *draft.reading.rests_on}))
        # This plan may state it too.
        by_id = {chunk.chunk_id: chunk for chunk in draft.chunks}
        stating: defaultdict[UUID, list[StoredChunk]] = defaultdict(list)
        for stated in plan.graph.relationships:
            stating[stated.id] += [by_id[plan.chunks[place].id] for place in stated.chunks]
        looked_at = constants.KNOWN_RELATIONSHIP_MEMORIES
        ended = []
        for known in await self._graph.find_relationships(
            db, draft.memory.external_id, ids=sorted(proposed), evidence_chunks=looked_at
        ):
            # Since the model was shown it, an equally or more trusted source may have stated it.
            live = await self._lifecycle.read_live(db, draft.memory.external_id, known.chunk_ids)
            said_by = {one.source for one in live} | {one.source for one in stating[known.id]}
            if known.observations > looked_at:
                said_by.add(SOURCES[0])
            last = max([known.last_observed, *(one.start_date for one in stating[known.id])])
            ended += [
                RelationshipEnded(relationship_id=known.id, end_date=one.end_date, why=one.why, rests_on=rests_on)
                for one in proposed[known.id]
                if may_end_relationship(draft.chunks[one.by], one, known, said_by, last)
            ][-1:]
        return ended

    async def _plan_graph(
        self,
        db: SqlExecutor,
        draft: Draft,
        ratings: Sequence[ChunkRating],
        known: Sequence[KnownEntityName],
        *,
        has_changed: bool,
    ) -> tuple[GraphChanges, Sequence[EntitiesMerged]]:
        """What to record for the drafted names, given the graph as it is now.

        Args:
            known: What the graph knows about these names.
            has_changed: Whether an entity has changed since the names were compared.
        """
        external_id = draft.memory.external_id
        drafted = draft.entities
        if has_changed:
            # Another memory was faster: one of ours may most likely mean one of its names.
            drafted = await self._compare_names(external_id, drafted, known, db)
        planned = resolve_entities(drafted, known)
        stated = plan_relationships(draft.reading.relationships, planned, [chunk.source for chunk in draft.chunks])
        pairs = find_pairs(planned, stated)
        existing = await self._graph.find_between(db, external_id, list(pairs), TOGETHER) if pairs else []
        periods: Sequence[KnownPeriod] = []
        if stated:
            periods = await self._graph.find_stated(
                db,
                external_id,
                [(*one.ends, one.type) for one in stated],
                evidence_chunks=constants.KNOWN_RELATIONSHIP_MEMORIES,
            )
        known_ids = find_restated(draft, stated, periods)
        changes = plan_graph(planned, pairs, existing, ratings, stated, known_ids)
        return changes, plan_merges(planned)


def _report(draft: Draft, events: Events | None, promoted: int, *, is_dry_run: bool) -> ConsolidationReport:
    plan = None if events is None else events.plan
    return ConsolidationReport(
        memory_id=draft.memory.memory_id,
        version=draft.memory.version,
        consolidated=plan is not None and not is_dry_run,
        chunks=0 if plan is None else len(plan.chunks),
        duplicates=0 if plan is None else len(plan.duplicates),
        entities=0 if plan is None else len(plan.graph.entities),
        relationships=0 if plan is None else len(plan.graph.relationships),
        facts=0 if plan is None else len(plan.facts),
        chunks_ended=0 if events is None else len(events.ended),
        relationships_ended=0 if events is None else len(events.relationships_ended),
        promoted=promoted,
        usage=draft.reading.usage,
        fallback=draft.reading.fallback,
        plan=plan if is_dry_run else None,
        ends=tuple(ended for ended, _ in events.ended) if events is not None and is_dry_run else (),
    )
