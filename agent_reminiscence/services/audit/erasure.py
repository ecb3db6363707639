"""Erasure: the one exception to append-only.

Events keep their row, position, digest and chain but lose their content; everything projected from them becomes what a
replay without them gives. It is all one transaction, which ends with a scan for anything that should be gone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.config.constants import ERASER_ROLE
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.erasure import Selection
from agent_reminiscence.database.text_columns import scanned_columns
from agent_reminiscence.domain.audit import LedgerFault
from agent_reminiscence.domain.erasure import (
    ErasedEvent,
    ErasureCheck,
    ErasureFinding,
    ErasurePreview,
    ErasureReceipt,
    Target,
    remains,
)
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.exceptions import ExternalIdNotFoundError, MemoryNotFoundError, StoreError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.graph.comparison import BELIEF_TABLE, ENTITY_TABLE, RELATIONSHIP_TABLE
from agent_reminiscence.services.graph.follower import GraphFollower
from agent_reminiscence.services.ledger.replay import Replay, Replayer, check_end
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.audit import VectorUpkeep

_logger = logging.getLogger("agent_reminiscence.erasure")

# How long erase() waits for Neo4j before it leaves the rest to a worker.
_GRAPH_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRequest(WriteRequest):
    """What to erase, and why, in words for the receipt."""

    target: Target = field(default_factory=Target)
    reason: str | None = None


class NothingOverError(Exception):
    """Somebody has touched or erased what retention was about to erase; nothing was changed."""


class ErasureService:
    """Erases, and verifies the result.

    Args:
        follower: Applies an erasure to Neo4j; None if Neo4j is not configured.
    """

    def __init__(
        self,
        runtime: Runtime,
        replayer: Replayer,
        vectors: VectorUpkeep,
        follower: GraphFollower | None,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._scratch = runtime.repositories.replay_tables
        self._erasure = runtime.repositories.erasure
        self._replayer = replayer
        self._vectors = vectors
        self._uses = runtime.repositories.uses
        self._recalls = runtime.repositories.recalls
        self._queue = runtime.repositories.queue
        self._progress = runtime.repositories.graph_progress
        self._follower = follower
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock

    async def preview(self, request: EraseRequest) -> ErasurePreview:
        """What `erase` would reach.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
            ExternalIdNotFoundError: Nothing was ever stored for `external_id`.
        """
        return await repeated(
            lambda: self._preview(request), operation="preview of an erasure", external_id=request.external_id
        )

    async def _preview(self, request: EraseRequest) -> ErasurePreview:
        async with self._store.transaction(request.external_id, read_only=True) as db:
            await self._check_stored(db, request)
            selection = await self._select(db, request)
            items = await self._erasure.list_items(db, request.external_id, selection)
        return ErasurePreview(external_id=request.external_id, scope=request.target.scope, items=tuple(items))

    async def erase(self, request: EraseRequest) -> ErasureReceipt:
        """Erase what was requested, and record a receipt as an event.

        Writers of the stream wait only while the latest events are replayed and the rebuilt rows put in place.

        Raises:
            InvalidInputError: The actor looks like a secret.
            MemoryNotFoundError: `external_id` has no such memory.
            ExternalIdNotFoundError: Nothing was ever stored for `external_id`.
            CommitUnknownError: The connection was lost during COMMIT. Erase again: what is gone will not be found.
            StoreError: The store is unavailable, or the final scan still found something; nothing was erased.
        """
        self._scrubber.check_identifiers(actor=request.actor, reason=request.reason)
        receipt = await self.erase_here(request)
        if self._follower is None:
            return receipt
        # PostgreSQL is done whatever happens here; if Neo4j takes longer, a worker finishes it.
        await self._follower.follow_soon(request.external_id, timeout_seconds=_GRAPH_SECONDS)
        try:
            erased_at = await self._find_graph_erasure(receipt)
        except StoreError:
            return receipt
        return receipt.model_copy(update={"graph_erased_at": erased_at})

    async def erase_here(self, request: EraseRequest) -> ErasureReceipt:
        """Erase as `erase` does, and leave Neo4j to whoever follows the stream.

        Raises:
            NothingOverError: Nothing of what retention was to erase is over any more.
            ReminiscenceError: As `erase`.
        """
        # Not retried automatically after a lost COMMIT: a second receipt would name nothing.
        return await repeated(lambda: self._erase(request), operation="erase", external_id=request.external_id)

    async def _find_graph_erasure(self, receipt: ErasureReceipt) -> datetime | None:
        async with self._store.transaction(receipt.external_id, read_only=True) as db:
            return await self._progress.find_graph_erasure(db, receipt.external_id, receipt.receipt_id)

    async def _erase(self, request: EraseRequest) -> ErasureReceipt:
        tenant = request.external_id
        async with self._store.scratch_transaction(tenant, role=ERASER_ROLE) as db:
            # Before the lock, which creates a stream that does not exist.
            await self._check_stored(db, request)
            await self._scratch.create(db)
            if request.target.scope == "tenant":
                # Nothing is left, so nothing has to be replayed and no event can fail to replay.
                faults = await self._find_faults(db, tenant)
                await self._ledger.lock(db, tenant)
                replay, selection = Replay(tenant), await self._select(db, request)
            else:
                replay, selection = await self._replay_rest(db, request)
                if request.target.rules is not None and not selection.memory_ids:
                    raise NothingOverError
                check_end(replay, await self._ledger.describe(db, tenant))
                faults = replay.faults
                await self._refuse_other_faults(db, tenant, selection, faults)
            receipt = await self._apply(db, request, selection, replay, faults)
            await self._prove(db, request, selection)
        if receipt.faults:
            _logger.error(
                "erased from a ledger that had been altered: %d faults, the first at position %d",
                len(receipt.faults),
                receipt.faults[0].position,
                extra={"external_id": tenant, "receipt_id": str(receipt.receipt_id)},
            )
        _logger.info(
            "erased %d events of %d memories",
            len(receipt.events),
            len(receipt.memory_ids),
            extra={"external_id": tenant, "receipt_id": str(receipt.receipt_id), "scope": receipt.scope},
        )
        return receipt

    async def verify_erased(self, receipt: ErasureReceipt, *, text: str | None) -> ErasureCheck:
        """Search everywhere again for what the receipt says is gone, and for `text` if given."""
        return await repeated(
            lambda: self._verify_erased(receipt, text), operation="verify_erased", external_id=receipt.external_id
        )

    async def _verify_erased(self, receipt: ErasureReceipt, text: str | None) -> ErasureCheck:
        tenant = receipt.external_id
        memory_ids = [str(memory_id) for memory_id in receipt.memory_ids]
        async with self._store.transaction(tenant, read_only=True) as db:
            findings = await self._check_receipt(db, receipt)
            findings += await self._erasure.find_not_empty(db, receipt)
            # Updates leave cached vectors of old texts behind, so afterwards a vector without a chunk proves nothing.
            with_cache = not await self._erasure.was_updated_since(db, receipt)
            findings += await self._erasure.find_left_over(db, tenant, memory_ids, with_cache=with_cache)
            if text is not None:
                findings += await self._erasure.find_text(db, tenant, text)
            graph_erased_at = await self._progress.find_graph_erasure(db, tenant, receipt.receipt_id)
        scanned = [f"{one.table}.{one.name}" for columns in scanned_columns().values() for one in columns]
        if self._follower is not None:
            in_neo4j = await self._follower.find_left_over(receipt, text=text)
            if in_neo4j is not None:
                findings += in_neo4j
                scanned += [ENTITY_TABLE, RELATIONSHIP_TABLE, BELIEF_TABLE]
        return ErasureCheck(
            receipt_id=receipt.receipt_id,
            checked_at=self._clock(),
            places=tuple(scanned),
            findings=tuple(findings),
            graph_erased_at=graph_erased_at,
        )

    async def _replay_rest(self, db: SqlExecutor, request: EraseRequest) -> tuple[Replay, Selection]:
        """Replay all that stays, most of it before locking the stream; returns with the lock held."""
        tenant = request.external_id
        selection = await self._select(db, request)
        replay = Replay(tenant)
        head = await self._ledger.head(db, tenant)
        await self._replayer.run(db, replay, until=head, skip=selection.covers)
        await self._ledger.lock(db, tenant)
        final = await self._select(db, request)
        await self._replayer.run(db, replay, skip=final.covers)
        if final != selection or replay.missed_an_erasure:
            # Something replayed before the lock must be erased too, or another erasure removed some of it meanwhile.
            await self._scratch.empty(db)
            replay = Replay(tenant)
            await self._replayer.run(db, replay, skip=final.covers)
        if not replay.is_complete:
            raise StoreError(
                f"the stream of {tenant!r} has an event that cannot be replayed, so nothing was erased;"
                " verify() says which, and you can still erase() the whole external_id"
            )
        return replay, final

    async def _find_faults(self, db: SqlExecutor, external_id: str) -> list[LedgerFault]:
        """Altered events, for an erasure that replays nothing."""
        replay = Replay(external_id)
        await self._replayer.run(db, replay, skip=lambda event: True)
        check_end(replay, await self._ledger.describe(db, external_id))
        return replay.faults

    async def _refuse_other_faults(
        self, db: SqlExecutor, external_id: str, selection: Selection, faults: Sequence[LedgerFault]
    ) -> None:
        """Refuse to rebuild from altered events; the events being erased may be faulty."""
        if not faults:
            return
        erased = await self._erasure.list_positions(db, external_id, selection)
        others = [fault for fault in faults if fault.position not in erased]
        if others:
            raise StoreError(
                f"event {others[0].position} of external_id {external_id!r} has been altered"
                f" ({others[0].problem}), so nothing was erased: what stays would be rebuilt from it. verify() lists"
                " all such events; you can still erase() the whole external_id"
            )

    async def _check_stored(self, db: SqlExecutor, request: EraseRequest) -> None:
        """Refuse an `external_id` for which nothing was ever stored: its receipt would look like an erasure.

        What was erased before is known by its emptied events. Rows without events are a damaged ledger, and an erasure
        takes them away.
        """
        if request.target.memory_id is not None:
            # It is refused as unknown, in the same words for every tenant that does not have it.
            return
        tenant = request.external_id
        if await self._ledger.head(db, tenant) or await self._ledger.read_page(db, tenant, after=0, limit=1):
            return
        if not any((await self._erasure.count_rows(db, tenant)).values()):
            raise ExternalIdNotFoundError(tenant)

    async def _select(self, db: SqlExecutor, request: EraseRequest) -> Selection:
        target = request.target
        selection = await self._erasure.select(db, request.external_id, target)
        if target.memory_id is not None and not selection.memory_ids:
            raise MemoryNotFoundError(request.external_id, target.memory_id)
        return selection

    async def _apply(
        self,
        db: SqlExecutor,
        request: EraseRequest,
        selection: Selection,
        replay: Replay,
        faults: Sequence[LedgerFault],
    ) -> ErasureReceipt:
        """Empty the events, put the replayed rows in place, and append the receipt."""
        tenant = request.external_id
        before = await self._erasure.count_rows(db, tenant)
        emptied = await self._erasure.empty_events(db, tenant, selection)
        await self._scratch.swap(db, tenant)
        await self._scratch.drop_orphaned_cache(db, tenant)
        await self._vectors.forget(db, tenant)
        await self._uses.forget_gone(db, tenant)
        if request.target.scope == "tenant":
            await self._recalls.forget(db, tenant)
        after = await self._erasure.count_rows(db, tenant)
        receipt = ErasureReceipt.seal(
            receipt_id=uuid7(),
            external_id=tenant,
            scope=request.target.scope,
            requested_at=self._clock(),
            actor=request.actor,
            reason=request.reason,
            before=request.target.before,
            memory_ids=tuple(sorted(map(UUID, selection.memory_ids))),
            events=tuple(
                ErasedEvent(
                    position=event.position,
                    event_id=event.event_id,
                    digest=event.digest.hex(),
                    remains=remains(event),
                )
                for event in emptied
            ),
            faults=tuple(faults),
            rows={table: before[table] - after[table] for table in before},
        )
        record = WriteRequest(external_id=tenant, actor=request.actor, redactions={})
        await self._ledger.append(db, record.event(EventKind.ERASED, receipt.payload(), receipt.requested_at))
        if any(event.kind == EventKind.PROFILE_WRITTEN for event in emptied):
            # Written anew, from what is left.
            await self._queue.enqueue(db)
        # After the receipt is in the ledger, because a graph store has to follow up to it.
        await self._replayer.settle(db, replay)
        return receipt

    async def _prove(self, db: SqlExecutor, request: EraseRequest, selection: Selection) -> None:
        """Scan before the commit; any finding rolls everything back."""
        tenant = request.external_id
        findings = await self._erasure.find_left_over(db, tenant, sorted(selection.memory_ids))
        if request.target.text is not None:
            findings += await self._erasure.find_text(db, tenant, request.target.text)
        if findings:
            found_in = ", ".join(sorted({finding.place for finding in findings}))
            raise StoreError(f"the final scan still found something in {found_in}; nothing was erased")

    async def _check_receipt(self, db: SqlExecutor, receipt: ErasureReceipt) -> list[ErasureFinding]:
        def finding(problem: str) -> list[ErasureFinding]:
            return [ErasureFinding(place="receipt", key=str(receipt.receipt_id), problem=problem)]

        if receipt.sha256 != receipt.compute_sha256():
            return finding("it was changed after it was made")
        recorded = await self._erasure.find_receipt(db, receipt.external_id, receipt.receipt_id)
        if recorded is None:
            return finding("the ledger has no such receipt")
        return [] if recorded == receipt.as_recorded() else finding("the ledger has a different receipt under this id")
