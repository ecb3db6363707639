"""active → shortterm: decide with no transaction open, then append the whole plan in one transaction."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from pydantic import BaseModel

from agent_reminiscence.database.connection import PLANNED_ONCE, SqlExecutor
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.memory import ConsolidationReport, StoredMemory
from agent_reminiscence.domain.payloads import write_payload
from agent_reminiscence.domain.trust import Source, least_trusted
from agent_reminiscence.exceptions import CommitUnknownError, MemoryNotFoundError, StoreError
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.drafting import Drafting, LacksVectorsError
from agent_reminiscence.services.tiers.known_names import KnownNames
from agent_reminiscence.services.tiers.memorizing import Cost, MemorizingService
from agent_reminiscence.services.tiers.plan import Draft, Events
from agent_reminiscence.services.tiers.planning import GoneMeanwhileError, Planning
from agent_reminiscence.services.tiers.promotion import PromotionService
from agent_reminiscence.services.vectors.filling import EmbeddingService

# What a model writes has the lowest trust.
_MODEL: Source = "model"


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
        self._uses = runtime.repositories.uses
        self._profiles = runtime.repositories.tables.profiles
        self._embedding = embedding
        self._memorizing = memorizing
        self._promotion = promotion
        names = KnownNames(runtime)
        self._drafting = Drafting(runtime, embedding, names)
        self._planning = Planning(runtime, names, threshold=promotion.threshold)

    async def consolidate(
        self,
        external_id: str,
        memory_id: UUID,
        *,
        importance: float | None = None,
        locked: bool = False,
        is_dry_run: bool = False,
    ) -> ConsolidationReport:
        """Consolidate one memory as it is now, fill in its vectors, and promote what is important enough.

        At most one consolidation event is written per version of a memory. If the memory changes during planning, the
        plan is dropped; the update that changed it makes the memory due again.

        Args:
            importance: The caller's estimate, 0 to 1, for chunks that no model estimates.
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
                report, cut = await self._consolidate(
                    external_id,
                    memory_id,
                    importance=importance,
                    locked=locked,
                    is_dry_run=is_dry_run,
                    needs_vectors=needs_vectors,
                )
                break
            except LacksVectorsError:
                filled, missing = await self._embedding.fill_missing(external_id, [memory_id])
                # Do not wait for vectors that could not be made.
                needs_vectors = False
            except GoneMeanwhileError:
                # It must not live on in the model's output: read again without it.
                continue
        if (report.facts or cut) and not is_dry_run:
            added, missing = await self._embedding.fill_missing(external_id, sorted({memory_id, *cut}))
            filled += added
        return report.model_copy(update={"vectors_filled": filled, "vectors_missing": missing})

    async def _consolidate(
        self,
        external_id: str,
        memory_id: UUID,
        *,
        importance: float | None,
        locked: bool,
        is_dry_run: bool,
        needs_vectors: bool,
    ) -> tuple[ConsolidationReport, list[UUID]]:
        """What was done, and the memories of which chunks were cut."""
        async with self._memorizing.metered(external_id) as cost:
            if locked:
                async with self._store.transaction(external_id) as db:
                    await self._ledger.lock(db, external_id)
                    draft = await self._draft(
                        external_id, memory_id, cost, db, importance=importance, needs_vectors=needs_vectors
                    )
                    events, promoted = await self._apply(db, draft)
            else:
                draft = await self._draft(
                    external_id, memory_id, cost, importance=importance, needs_vectors=needs_vectors
                )
                if is_dry_run:
                    events, promoted = await self._preview(draft), 0
                else:
                    events, promoted = await self._commit(draft, cost)
        cut = [] if events is None else [one.memory_id for one in events.ends.cuts]
        return _report(draft, events, promoted, is_dry_run=is_dry_run), cut

    async def _draft(
        self,
        external_id: str,
        memory_id: UUID,
        cost: Cost,
        db: SqlExecutor | None = None,
        *,
        importance: float | None,
        needs_vectors: bool,
    ) -> Draft:
        """Find out everything about a memory that can be found out while others write.

        Args:
            cost: Grows by what a model costs.
            db: The transaction that holds the stream's lock, if there is one; then no model is asked.
            needs_vectors: Whether to give up if a vector is missing.

        Raises:
            LacksVectorsError: A vector is missing and `needs_vectors` is set.
        """
        draft = await self._drafting.read(
            external_id, memory_id, db, needs_vectors=needs_vectors, by_rules=not self._memorizing.has_model
        )
        draft = replace(draft, importance=importance)
        # A model takes its time; no transaction of ours is open meanwhile.
        proposal = await self._memorizing.propose(draft, cost, is_busy=db is not None)
        return draft if draft.is_complete else await self._drafting.complete(draft, proposal, db)

    async def _preview(self, draft: Draft) -> Events | None:
        """What `_commit` would record now."""
        external_id = draft.memory.external_id
        async with self._store.transaction(external_id, settings=PLANNED_ONCE, read_only=True) as db:
            return await self._planning.plan(db, draft)

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
        events = await self._planning.plan(db, draft)
        if events is not None:
            await self._record(db, draft, events)
            await self._ledger.clear_due(db, external_id)
        # Chunks that this memory repeats have gained importance in their own memories.
        raised = set() if events is None else events.raised
        promoted = 0
        for candidate in (memory_id, *sorted(raised - {memory_id})):
            promoted += await self._promotion.promote(db, external_id, candidate)
        return events, promoted

    async def _record(self, db: SqlExecutor, draft: Draft, events: Events) -> None:
        labels: list[Source] = [chunk.source for chunk in draft.chunks]
        if draft.proposal.read:
            labels.append(_MODEL)
        request = WriteRequest(external_id=draft.memory.external_id, source=least_trusted(labels))
        recorded: list[tuple[EventKind, BaseModel, datetime]] = [
            (EventKind.ENTITIES_MERGED, merge, events.moment) for merge in events.merges
        ]
        recorded += [(EventKind.CUT, cut, events.moment) for cut in events.ends.cuts]
        recorded += [(EventKind.ENDED, ended, since) for ended, since in events.ends.ended]
        recorded += [(EventKind.OUTDATED, outdated, since) for outdated, since in events.ends.outdated]
        recorded += [(EventKind.RELATIONSHIP_ENDED, ended, events.moment) for ended in events.relationships_ended]
        # Later repetitions of what goes become live again and their time to live restarts. Not done in a handler,
        # because a replay leaves soft state alone.
        gone = [chunk_id for ended, _ in events.ends.ended for chunk_id in ended.chunks]
        gone += [cut.chunk for of_memory in events.ends.cuts for cut in of_memory.cuts]
        if gone:
            await self._uses.touch_repetitions(db, request.external_id, gone, moment=events.moment)
        # Facts and pieces have no vectors yet, profiles no new text, and the process may die after the commit: leave a
        # note for a worker.
        makes_work = bool(events.plan.facts or events.ends.cuts) or await self._profiles.any_follows(
            db, request.external_id
        )
        plan = await write_payload(events.plan, events.plan.chunks)
        consolidated = request.event(EventKind.CONSOLIDATED, plan, events.moment)
        await self._projector.record(db, consolidated, makes_work=makes_work)
        for kind, payload, moment in recorded:
            await self._projector.record(db, request.event(kind, payload.model_dump(mode="json"), moment))


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
        chunks_ended=0 if events is None else len(events.ends.ended),
        chunks_outdated=0 if events is None else sum(len(outdated.parts) for outdated, _ in events.ends.outdated),
        relationships_ended=0 if events is None else len(events.relationships_ended),
        promoted=promoted,
        usage=draft.proposal.usage,
        fallback=draft.proposal.fallback,
        plan=plan if is_dry_run else None,
        cuts=tuple(events.ends.cuts) if events is not None and is_dry_run else (),
        ends=tuple(ended for ended, _ in events.ends.ended) if events is not None and is_dry_run else (),
        outdated=tuple(outdated for outdated, _ in events.ends.outdated) if events is not None and is_dry_run else (),
    )
