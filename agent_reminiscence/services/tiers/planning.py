"""Plans a consolidation from its draft, under the stream's lock: what to record, given the stream as it is now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from agent_reminiscence.config import constants
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName, KnownPeriod
from agent_reminiscence.domain.canonical import beside, sha256
from agent_reminiscence.domain.graph import TOGETHER
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import (
    ChunkRating,
    EntitiesMerged,
    FactEntry,
    GraphChanges,
    MemoryConsolidated,
    RelationshipEnded,
)
from agent_reminiscence.domain.trust import SOURCES
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.endings import EndingPlanner
from agent_reminiscence.services.tiers.entities import plan_merges, resolve_entities
from agent_reminiscence.services.tiers.known_names import KnownNames
from agent_reminiscence.services.tiers.plan import (
    Draft,
    Events,
    find_restated,
    make_facts,
    may_end_relationship,
    plan_consolidation,
    summarize,
)
from agent_reminiscence.services.tiers.proposal import PlannedRelationshipEnding
from agent_reminiscence.services.tiers.relationships import find_pairs, plan_graph, plan_relationships
from agent_reminiscence.text.folding import fold_text

# Maximum facts of one consolidation, the most important ones.
MAX_PLAN_FACTS: Final = 1_000


class GoneMeanwhileError(Exception):
    """Since the model read it, something in the memory has ended or something shown to the model was erased."""


class Planning:
    """Makes the plan of a consolidation.

    Args:
        threshold: The importance from which a chunk becomes longterm.
    """

    def __init__(self, runtime: Runtime, names: KnownNames, *, threshold: float) -> None:
        self._tables = runtime.repositories.tables
        self._graph = runtime.repositories.graph
        self._lifecycle = runtime.repositories.live_chunks
        self._clock = runtime.clock
        self._names = names
        self._threshold = threshold
        self._endings = EndingPlanner(runtime)

    async def plan(self, db: SqlExecutor, draft: Draft) -> Events | None:
        """Everything to record, given the stream as it is now; None if the memory has changed or was consolidated.

        Looked up under the lock: a chunk that has ended meanwhile must not replace another, and no name may get two
        entities.

        Raises:
            GoneMeanwhileError: It has to be read again.
        """
        memory, proposal = draft.memory, draft.proposal
        external_id, memory_id = memory.external_id, memory.memory_id
        moment = self._clock()
        asked_current = await self._tables.active.ask_whether_to_consolidate(
            db, external_id, memory_id, version=memory.version, now=moment
        )
        asked_chunks = await self._tables.active.ask_for_chunks(db, external_id, memory_id)
        asked_twins = await self._tables.chunks.ask_for_twins(db, external_id, memory_id, moment=moment)
        asked_change = await self._graph.ask_for_last_change(db, external_id)
        known = await self._names.find(external_id, [entity.sought_key for entity in draft.entities], db)
        if not await asked_current.result():
            return None
        # A cut makes no version, but the draft names a chunk that is gone.
        if await asked_chunks.result() != len(memory.chunk_ids) or not await self._is_there(db, draft):
            raise GoneMeanwhileError
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
                threshold=self._threshold,
                estimates=draft.estimates,
                context=draft.context,
            ),
            value=[chunk.content for chunk in draft.chunks],
        )
        graph, merges = await self._plan_graph(db, draft, plan.chunks, known, has_changed=has_changed)
        plan = plan.model_copy(
            update={
                "graph": graph,
                "facts": await self._plan_facts(db, draft, plan),
                "summary": summarize(draft, plan),
                "usage": proposal.usage,
                "prompts": proposal.prompts,
                "fallback": proposal.fallback,
                "fallback_chunks": proposal.unread,
                "rests_on": tuple(sorted(proposal.rests_on)),
            }
        )
        return Events(
            moment=moment,
            plan=plan,
            merges=merges,
            ends=await self._endings.plan(db, draft, plan, moment=moment),
            relationships_ended=await self._plan_relationship_ends(db, draft, plan),
            raised=frozenset(twin.memory_id for twin in twins),
        )

    async def _is_there(self, db: SqlExecutor, draft: Draft) -> bool:
        """Whether what a model read still holds, and nothing that it was shown has been erased."""
        external_id, proposal = draft.memory.external_id, draft.proposal
        read = [draft.chunks[index].chunk_id for index in sorted(proposal.read)]
        return not read or (
            await self._tables.active.are_there(db, external_id, proposal.rests_on)
            and len(await self._lifecycle.read_live(db, external_id, read)) == len(read)
        )

    async def _plan_facts(self, db: SqlExecutor, draft: Draft, plan: MemoryConsolidated) -> tuple[FactEntry, ...]:
        """The facts that are not stored yet, word for word."""
        if not draft.proposal.facts:
            return ()
        facts = make_facts(draft.memory, draft.chunks, draft.proposal.facts, plan.chunks, threshold=self._threshold)
        digests = {fact.id: sha256(fold_text(fact.content).encode()) for fact in facts}
        stored = await self._tables.chunks.find_known_texts(
            db,
            draft.memory.external_id,
            {digests[fact.id]: fact.start_date for fact in facts},
            memory_id=draft.memory.memory_id,
            # Chunks that this plan ends no longer count.
            ignored=[ending.chunk_id for ending in draft.proposal.endings],
        )
        # Of facts with the same words, keep the last.
        last = {digests[fact.id]: fact for fact in facts}
        new = [fact for fact in facts if last[digests[fact.id]] is fact and digests[fact.id] not in stored]
        return tuple(sorted(new, key=lambda fact: -fact.importance)[:MAX_PLAN_FACTS])

    async def _plan_relationship_ends(
        self, db: SqlExecutor, draft: Draft, plan: MemoryConsolidated
    ) -> list[RelationshipEnded]:
        """Endings of relationships that still hold and have not been stated again since."""
        proposed: defaultdict[UUID, list[PlannedRelationshipEnding]] = defaultdict(list)
        for ending in draft.proposal.relationship_endings:
            proposed[ending.relationship.relationship_id].append(ending)
        if not proposed:
            return []
        rests_on = tuple(sorted({draft.memory.memory_id, *draft.proposal.rests_on}))
        # This plan may state it too.
        by_id = {chunk.chunk_id: chunk for chunk in draft.chunks}
        stating: defaultdict[UUID, list[StoredChunk]] = defaultdict(list)
        for stated in plan.graph.relationships:
            stating[stated.id] += [by_id[plan.chunks[index].id] for index in stated.chunks]
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
            drafted = await self._names.compare(external_id, drafted, known, db)
        planned = resolve_entities(drafted, known)
        read = [*draft.proposal.relationships, *draft.relationships]
        stated = plan_relationships(read, planned, [chunk.source for chunk in draft.chunks])
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
