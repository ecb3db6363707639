"""Records what a run was given and how it ended, so that what helped ranks a little higher."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.outcome import RunOutcome
from agent_reminiscence.domain.payloads import MemoryRecalled, RunOutcomeReported
from agent_reminiscence.domain.retrieval import Omission, RetrievalResult
from agent_reminiscence.exceptions import OutcomeConflictError, RedactionError, RunNotFoundError, StoreError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import RecordRecallRequest, ReportOutcomeRequest
from agent_reminiscence.services.runtime import Runtime

_logger = logging.getLogger("agent_reminiscence.outcomes")


class RunOutcomes:
    """Writes `memory.recalled` and `memory.outcome`."""

    def __init__(self, runtime: Runtime, projector: Projector) -> None:
        self._store = runtime.store
        self._projector = projector
        self._recalled = runtime.repositories.tables.recalled
        self._events = runtime.repositories.events
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock

    def check(self, run_id: str) -> None:
        """Refuse the id of a run that must not be stored, before anything is searched for it.

        Raises:
            InvalidInputError: It looks like a secret.
        """
        try:
            self._scrubber.check_identifiers(run_id=run_id)
        except RedactionError:
            # The redactor's own failure: the hits do not depend on it, and `record` says that they are not recorded.
            return

    async def record(self, run_id: str, result: RetrievalResult, *, only: str | None = None) -> RetrievalResult:
        """Record that a run was given the hits of a result, in the memory of each; a failure costs the record only.

        Args:
            only: Record only the hits of this memory, because the asker may not write into the others; None is all.

        Returns:
            The result; if some hits could not be recorded, `omitted` says how many.
        """
        missing = 0
        for external_id in dict.fromkeys(hit.external_id for hit in result.hits):
            assert external_id is not None
            if only is not None and external_id != only:
                continue
            chunk_ids = [hit.chunk_id for hit in result.hits if hit.external_id == external_id]
            if not await self._is_recorded(RecordRecallRequest(external_id=external_id, run_id=run_id), chunk_ids):
                missing += len(chunk_ids)
        if not missing:
            return result
        omission = Omission(reason="run_not_recorded", count=missing)
        return result.model_copy(update={"omitted": (*result.omitted, omission)})

    async def _is_recorded(self, request: RecordRecallRequest, chunk_ids: Sequence[UUID]) -> bool:
        external_id = request.external_id
        try:
            scrubbed = await self._scrubber.scrub(request)
            # Can be retried without a key: what was recorded is not recorded again.
            await repeated(
                lambda: self._record(scrubbed, chunk_ids),
                operation="record recall",
                external_id=external_id,
                repeatable=True,
            )
        except (StoreError, RedactionError) as error:
            _logger.warning(
                "what a run recalled was not recorded: %s",
                error,
                extra={"external_id": external_id, "hits": len(chunk_ids)},
            )
            return False
        return True

    async def _record(self, request: RecordRecallRequest, chunk_ids: Sequence[UUID]) -> None:
        async with self._store.transaction(request.external_id) as db:
            await self._projector.begin(db, request)
            # Under the lock: since the search, a memory may have been erased, and another call of the run may have
            # recorded some.
            new = await self._recalled.find_new(db, request.external_id, request.run_id, chunk_ids)
            if not new:
                return
            payload = MemoryRecalled(run_id=request.run_id, chunks=new)
            event = request.event(EventKind.RECALLED, payload.model_dump(mode="json"), self._clock())
            await self._projector.record(db, event)

    async def report(self, request: ReportOutcomeRequest) -> RunOutcome:
        """Record how a run ended; the same report again changes nothing and returns the first.

        Raises:
            InvalidInputError: An identifier looks like a secret.
            RedactionError: The redactor failed.
            RunNotFoundError: Nothing that still exists, or nothing of `memory_ids`, was recorded for the run.
            OutcomeConflictError: Another outcome was reported for it.
            StoreError: The store is unavailable.
        """
        scrubbed = await self._scrubber.scrub(request)
        return await repeated(
            lambda: self._report(scrubbed),
            operation="report outcome",
            external_id=request.external_id,
            repeatable=True,
        )

    async def _report(self, request: ReportOutcomeRequest) -> RunOutcome:
        async with self._store.transaction(request.external_id, read_only=True) as db:
            # Before the lock, which creates a stream that does not exist.
            known = await self._find_reported(db, request)
        if known is not None:
            return known
        async with self._store.transaction(request.external_id) as db:
            await self._projector.begin(db, request)
            known = await self._find_reported(db, request)
            if known is not None:
                return known
            payload = RunOutcomeReported(
                run_id=request.run_id,
                success=request.success,
                memory_ids=request.memory_ids,
                note=request.note,
                redactions=dict(request.redactions or {}),
            )
            # A report of everything reads as it always did.
            left_out = {"memory_ids"} if request.memory_ids is None else None
            event = request.event(EventKind.OUTCOME, payload.model_dump(mode="json", exclude=left_out), self._clock())
            await self._projector.record(db, event)
            stored = await self._find_reported(db, request)
            if stored is None:
                # Nothing of the memories that are named was recalled: nothing is written.
                raise RunNotFoundError(request.external_id, request.run_id)
        return stored

    async def _find_reported(self, db: SqlExecutor, request: ReportOutcomeRequest) -> RunOutcome | None:
        """Return the outcome that was reported; None if none was yet.

        Raises:
            RunNotFoundError: Nothing that still exists was recorded for the run.
            OutcomeConflictError: Another outcome was reported for it.
        """
        run = await self._recalled.find_run(db, request.external_id, request.run_id)
        if run is None:
            raise RunNotFoundError(request.external_id, request.run_id)
        if run.outcome is None or run.success is None or run.reported_at is None:
            return None
        if run.success is not request.success:
            raise OutcomeConflictError(request.external_id, request.run_id, success=run.success)
        [event] = await self._events.read_at(db, request.external_id, [run.outcome])
        return RunOutcome(
            run_id=request.run_id,
            success=run.success,
            note=RunOutcomeReported.model_validate(event.payload).note,
            chunks=run.chunks,
            recorded_at=run.reported_at,
        )
