"""Verify and rebuild: compares what is stored with what a replay of the ledger gives."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from agent_reminiscence.config.constants import SCHEDULER_ROLE
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.audit import AuditProgress, AuditReport, Drift, StreamReport
from agent_reminiscence.exceptions import ExternalIdNotFoundError, StoreError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.graph.follower import GraphAwayError, GraphFollower
from agent_reminiscence.services.ledger.replay import Replay, Replayer, check_end
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.audit import VectorUpkeep
from agent_reminiscence.services.vectors.filling import EmbeddingService

_logger = logging.getLogger("agent_reminiscence.verification")

ProgressCallback = Callable[[AuditProgress], None]


class _IncompleteReplayError(Exception):
    """Ends the transaction of a replay that met an event it cannot apply."""


class _NothingToMendError(Exception):
    """Ends the transaction of a rebuild that has nothing to write."""

    def __init__(self, report: StreamReport) -> None:
        super().__init__()
        self.report = report


class VerificationService:
    """Compares and rebuilds the projections of streams, one at a time.

    Args:
        follower: Compares Neo4j with the graph in PostgreSQL; None if no Neo4j is configured.
    """

    def __init__(
        self,
        runtime: Runtime,
        replayer: Replayer,
        embedding: EmbeddingService,
        vectors: VectorUpkeep,
        follower: GraphFollower | None,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._scratch = runtime.repositories.replay_tables
        self._replayer = replayer
        self._embedding = embedding
        self._vectors = vectors
        self._follower = follower
        self._clock = runtime.clock

    async def verify(self, external_id: str | None, *, repair: bool, progress: ProgressCallback | None) -> AuditReport:
        """Look for differences; with `repair`, rebuild the streams that have any."""

        async def look(tenant: str, note: Callable[[Replay], None]) -> StreamReport:
            report = await self._compare(tenant, note)
            # Nothing is rebuilt from an altered ledger.
            if repair and report.drift and not report.faults:
                report = await self._rebuild(tenant, note)
            return await self._with_graph(report, repair=repair)

        return await self._each(external_id, look, progress)

    async def rebuild(self, external_id: str | None, *, progress: ProgressCallback | None) -> AuditReport:
        """Replace the projections by what the ledger gives."""

        async def work(tenant: str, note: Callable[[Replay], None]) -> StreamReport:
            return await self._with_graph(await self._rebuild(tenant, note), repair=True)

        return await self._each(external_id, work, progress)

    async def _each(
        self,
        external_id: str | None,
        work: Callable[[str, Callable[[Replay], None]], Awaitable[StreamReport]],
        progress: ProgressCallback | None,
    ) -> AuditReport:
        """Run `work` for one stream, or for all in turn, and log the findings.

        Raises:
            ExternalIdNotFoundError: `external_id` has neither events nor rows. This is looked at afterwards, because
                rows without events are a finding.
        """
        started_at, started = self._clock(), time.monotonic()
        tenants = [external_id] if external_id is not None else await self._list_streams()
        reports: list[StreamReport] = []
        for done, tenant in enumerate(tenants):
            # Only progress reports need it.
            total = 0 if progress is None else await self._head(tenant)

            def note(replay: Replay, done: int = done, total: int = total) -> None:
                if progress is not None:
                    progress(
                        AuditProgress(
                            external_id=replay.external_id,
                            streams_done=done,
                            streams_total=len(tenants),
                            events_done=replay.events,
                            events_total=max(total, replay.events),
                        )
                    )

            # Both can be repeated: one only reads, the other writes what the ledger gives.
            try:
                report = await repeated(
                    partial(work, tenant, note), operation="verify or rebuild", external_id=tenant, repeatable=True
                )
            except StoreError as error:
                if external_id is not None:
                    raise
                # One stream's failure must not lose the findings of the others.
                report = _failed(tenant, error)
            _log(report)
            reports.append(report)
        if external_id is not None and _is_of_nothing(reports[0]):
            raise ExternalIdNotFoundError(external_id)
        return AuditReport(started_at=started_at, seconds=time.monotonic() - started, streams=tuple(reports))

    async def _list_streams(self) -> list[str]:
        async with self._store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
            return await self._ledger.list_streams(db)

    async def _head(self, external_id: str) -> int:
        async with self._store.transaction(external_id, read_only=True) as db:
            return await self._ledger.head(db, external_id)

    async def _compare(self, external_id: str, note: Callable[[Replay], None]) -> StreamReport:
        """Compare a replay with what is stored, both as of one moment; nobody waits for it."""
        replay = Replay(external_id)
        try:
            async with self._store.scratch_transaction(external_id, snapshot=True) as db:
                await self._scratch.create(db)
                await self._replayer.run(db, replay, progress=note)
                return await self._report(db, replay)
        except _IncompleteReplayError:
            return _incomplete(replay)

    async def _rebuild(self, external_id: str, note: Callable[[Replay], None]) -> StreamReport:
        """Replay, then lock the stream, replay what was added meanwhile, and replace what differs.

        Readers see the old rows until the commit, and writers wait only for the last part.
        """
        replay = Replay(external_id)
        try:
            async with self._store.scratch_transaction(external_id) as db:
                await self._scratch.create(db)
                head = await self._ledger.head(db, external_id)
                await self._replayer.run(db, replay, until=head, progress=note)
                if not replay.is_complete:
                    raise _IncompleteReplayError
                await self._ledger.lock(db, external_id)
                await self._replayer.run(db, replay, progress=note)
                if replay.missed_an_erasure:
                    # Events that were replayed before the lock have since been erased.
                    await self._scratch.empty(db)
                    replay = Replay(external_id)
                    await self._replayer.run(db, replay, progress=note)
                report = await self._report(db, replay)
                if report.faults or not report.drift:
                    # Nothing to write, so nothing is written: locking a stream that does not exist would create it.
                    raise _NothingToMendError(report)
                await self._scratch.swap(db, external_id)
                await self._scratch.discard_vectors(db, external_id, report.drift)
                await self._vectors.mend(db, external_id, report.drift)
                await self._replayer.settle(db, replay)
        except _IncompleteReplayError:
            return _incomplete(replay)
        except _NothingToMendError as found:
            report = found.report
            if report.faults:
                return report
        report = report.model_copy(update={"repaired": bool(report.drift)})
        try:
            _, missing = await self._embedding.fill_missing(external_id)
        except StoreError as error:
            # No traceback: the driver's error in it may quote a row.
            _logger.warning(
                "the rebuild is stored, but vectors are still missing: %s", error, extra={"external_id": external_id}
            )
            return report
        return report.model_copy(update={"missing_vectors": missing})

    async def _with_graph(self, report: StreamReport, *, repair: bool) -> StreamReport:
        """Add what was found in Neo4j to the report and, with `repair`, what was mended there.

        Neo4j is compared with the PostgreSQL tables, which have just been compared with the ledger; what is wrong in
        both is reported for both.
        """
        if self._follower is None:
            return report
        tenant = report.external_id
        # Nothing derived from an altered ledger is sent.
        repair = repair and not report.faults
        try:
            if repair:
                await self._follower.follow(tenant)
            found = await self._follower.compare(tenant)
            if not found.drift or not repair:
                return report.model_copy(update={"graph": found.state, "drift": (*report.drift, *found.drift)})
            mended = await self._follower.resync(tenant)
        except GraphAwayError as error:
            _logger.warning("the graph in Neo4j could not be checked: %s", error, extra={"external_id": tenant})
            return report.model_copy(update={"graph": "unavailable"})
        return report.model_copy(update={"graph": "current", "drift": (*report.drift, *mended.drift), "repaired": True})

    async def _report(self, db: SqlExecutor, replay: Replay) -> StreamReport:
        """Compare, in the transaction of the replay.

        Raises:
            _IncompleteReplayError: The replay is not complete enough to compare.
        """
        if not replay.is_readable:
            raise _IncompleteReplayError
        state = await self._ledger.describe(db, replay.external_id)
        check_end(replay, state)
        if not replay.is_complete:
            raise _IncompleteReplayError
        drift = await self._scratch.compare(db, replay.external_id)
        drift += await self._vectors.compare(db, replay.external_id)
        if state is not None:
            is_due = await self._ledger.has_due_memory(db, replay.external_id)
            live_chunks = await self._ledger.count_live_chunks(db, replay.external_id)
            texts = await self._ledger.count_texts(db, replay.external_id, replay.languages)
            columns = [
                *(["live_chunks"] if state.live_chunks != live_chunks else []),
                *(["languages"] if state.texts.languages != texts.languages else []),
                *(["text_chunks"] if state.text_chunks != texts.text_chunks else []),
                *(["text_words"] if state.text_words != texts.text_words else []),
                *(["due_at"] if state.is_due != is_due else []),
            ]
            if columns:
                drift.append(Drift(table="memory_stream", key="", problem="changed", columns=tuple(columns)))
        return _stream_report(
            replay,
            rows=await self._scratch.count(db),
            missing_vectors=await self._scratch.count_missing_vectors(db, replay.external_id),
            drift=drift,
        )


def _stream_report(
    replay: Replay, *, rows: dict[str, int], missing_vectors: int, drift: Sequence[Drift]
) -> StreamReport:
    return StreamReport(
        external_id=replay.external_id,
        head=replay.position,
        chain=replay.chain.hex(),
        events=replay.events,
        erased_events=len(replay.emptied),
        rows=rows,
        missing_vectors=missing_vectors,
        faults=tuple(replay.faults),
        drift=tuple(drift),
    )


def _incomplete(replay: Replay) -> StreamReport:
    return _stream_report(replay, rows={}, missing_vectors=0, drift=())


def _is_of_nothing(report: StreamReport) -> bool:
    """Whether there was nothing to check: no event, and no row that should not be there."""
    return report.ok and not report.events and not report.drift and not any(report.rows.values())


def _failed(external_id: str, error: StoreError) -> StreamReport:
    return StreamReport(
        external_id=external_id,
        head=0,
        chain="",
        events=0,
        erased_events=0,
        rows={},
        missing_vectors=0,
        error=str(error),
    )


def _log(report: StreamReport) -> None:
    """Log the findings, by ids and numbers only."""
    if report.error is not None:
        _logger.error("a stream could not be checked: %s", report.error, extra={"external_id": report.external_id})
    details = {"external_id": report.external_id, "faults": len(report.faults), "drift": len(report.drift)}
    if report.faults:
        _logger.error(
            "the ledger has been altered: %d faults, the first at position %d",
            len(report.faults),
            report.faults[0].position,
            extra=details,
        )
    if report.drift:
        _logger.warning(
            "%d rows differed from what the ledger gives%s",
            len(report.drift),
            " and were repaired" if report.repaired else "",
            extra=details,
        )
