"""The work that follows writes: whatever is due for one stream, done by a worker or in a call of one's own.

A run may happen at any time, any number of times and beside another one: each step looks first at what is still to be
done, and what it decides is applied under the stream's lock, after a check that it still holds. That is why a worker
may be killed at any point, and why a job that comes twice does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from agent_reminiscence.config.constants import (
    BREAKER_MAX_PAUSE_SECONDS,
    MAX_OUTAGE_PAUSE_SECONDS,
    MAX_RETRY_PAUSE_SECONDS,
    RETRY_PAUSE_FACTOR,
    SCHEDULER_ROLE,
    SWEEP_STREAMS,
    WORK_ROUNDS,
    WORKER_ROLE,
)
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.database.repositories.work_queue import WorkQueue, WorkState
from agent_reminiscence.domain.work import Job, WorkReport
from agent_reminiscence.exceptions import (
    AgentError,
    CommitUnknownError,
    EmbedderAwayError,
    EmbeddingError,
    MemoryNotFoundError,
    StoreTimeoutError,
    StoreUnavailableError,
    WorkTimeoutError,
)
from agent_reminiscence.services.consolidation import ConsolidationService
from agent_reminiscence.services.embedding import EmbeddingService
from agent_reminiscence.services.generations import NoEmbedderError
from agent_reminiscence.services.graph_follower import GraphAwayError, GraphFollower
from agent_reminiscence.services.lifecycle import LifecycleService
from agent_reminiscence.services.vectors.cells import CellService

_logger = logging.getLogger("agent_reminiscence.work")

# How often `wait_until_idle` looks: soon at first, later not so often that it slows down what it waits for.
_FIRST_LOOK_SECONDS = 0.02
_LONGEST_LOOK_SECONDS = 0.5
_STATEMENTS_MODULE = "agent_reminiscence.database.postgres_manager"
# Their messages are our own words; any other may quote what a statement or a model was given.
_TELLING_ERRORS = (AgentError, EmbeddingError, StoreTimeoutError, StoreUnavailableError)


class WorkService:
    """Does what is due for a stream, and keeps account of what failed.

    Args:
        follower: Brings Neo4j up to the stream's graph; None where none is configured.
        max_attempts: After so many failures in a row it is not tried again by itself.
        retry_seconds: The pause after the first failure; each further one is four times as long, up to an hour.
    """

    def __init__(
        self,
        store: PostgresManager,
        ledger: EventLedger,
        queue: WorkQueue,
        embedding: EmbeddingService,
        consolidation: ConsolidationService,
        lifecycle: LifecycleService,
        cells: CellService,
        follower: GraphFollower | None,
        *,
        max_attempts: int,
        retry_seconds: float,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._queue = queue
        self._embedding = embedding
        self._consolidation = consolidation
        self._lifecycle = lifecycle
        self._cells = cells
        self._follower = follower
        self._max_attempts = max_attempts
        self._retry_seconds = retry_seconds
        # Since when this process has had nobody who makes vectors; of all streams, for it is the same for all.
        self._outage_began: float | None = None

    async def run(self, external_id: str, *, follows: bool = True) -> WorkReport:
        """Do what is due for the stream; what fails is noted and queued again, and nothing is raised for it.

        A memory whose consolidation fails keeps no other from its own.

        Args:
            follows: Whether to wait until Neo4j has followed, which may take as long as Neo4j's timeout; otherwise
                `follow` is to be called.

        Raises:
            StoreError: Not even the failure could be noted; the work stays due.
        """
        run = _Run(external_id)
        await self._work_off(run)
        if follows and self._follower is not None and not run.is_stores_fault:
            run.graph_followed = await self._try_to_follow(external_id, self._follower)
        if run.error is not None and not run.is_stores_fault:
            await self.fail(external_id, run.error, is_outage=run.is_outage)
        elif not run.is_settled:
            # The server was away, and is there again if this can be noted; or work grows as fast as it is done, and
            # others may have their turn.
            await self.enqueue(external_id, delay_seconds=self._retry_seconds)
        elif run.graph_followed is False:
            await self._follow_later(external_id)
        return run.report()

    async def _work_off(self, run: _Run) -> None:
        """Round after round, until nothing is left or something fails."""
        for number in range(WORK_ROUNDS):
            # A memory that changes faster than its plans are made is consolidated in the end while its writers wait.
            is_last = number == WORK_ROUNDS - 1
            await run.attempt("its work", self._do_what_is_due(run, locked=is_last))
            if run.error is None:
                await run.attempt("its end", self._settle(run))
            if run.error is not None or run.is_settled:
                return

    async def _do_what_is_due(self, run: _Run, *, locked: bool) -> None:
        for memory_id in await self._find_due(run):
            await run.attempt(f"memory {memory_id}", self._consolidate(run, memory_id, locked=locked))
        # A text that has no vector keeps nothing else from being done.
        await run.attempt("its vectors", self._fill_vectors(run))
        await run.attempt("its cells", self._sort_cells(run))
        if run.is_stores_fault:
            return
        reviewed = await self._lifecycle.review(run.external_id)
        run.promoted += reviewed.promoted
        run.expired += reviewed.expired
        run.pruned += reviewed.pruned

    @property
    def has_follower(self) -> bool:
        """Whether a Neo4j is configured, that follows the graph."""
        return self._follower is not None

    async def follow(self, external_id: str) -> None:
        """Bring Neo4j up to what a run has left, or have it tried again.

        Raises:
            StoreError: PostgreSQL is away, too; a worker finds the stream later.
        """
        if self._follower is not None and not await self._try_to_follow(external_id, self._follower):
            await self._follow_later(external_id)

    async def _try_to_follow(self, external_id: str, follower: GraphFollower) -> bool:
        """Whether Neo4j has followed; whatever keeps it from that is no failure of the work."""
        try:
            await follower.follow(external_id)
        except GraphAwayError as error:
            # That it is away is told once, by whoever has found it so.
            _logger.debug("Neo4j does not follow for now: %s", error, extra={"external_id": external_id})
        except Exception as error:  # noqa: BLE001 - the follower leaves the stream alone for a pause that grows
            # Without a traceback: an error's message may quote a text.
            _logger.warning(
                "Neo4j does not follow for now: %s", describe_error(error), extra={"external_id": external_id}
            )
        else:
            return True
        return False

    async def _follow_later(self, external_id: str) -> None:
        """Have it tried again soon, unless Neo4j has been away for long: then a worker finds the stream in the end.

        So an outage costs no work for each stream that waits for its end.
        """
        assert self._follower is not None
        pause = self._follower.pause_of(external_id) or self._retry_seconds
        if pause < BREAKER_MAX_PAUSE_SECONDS / 2:
            # Jittered, so that what failed together does not come back together.
            await self.enqueue(external_id, delay_seconds=pause * random.uniform(1.0, 1.5))  # noqa: S311 - no secret

    async def _fill_vectors(self, run: _Run) -> None:
        filled, run.vectors_missing = await self._embedding.fill_missing(run.external_id, strict=True)
        run.vectors_filled += filled
        if filled:
            self._outage_began = None

    async def _sort_cells(self, run: _Run) -> None:
        await self._cells.sort(run.external_id)

    async def _find_due(self, run: _Run) -> list[UUID]:
        """Memories to consolidate. Under the stream's lock: who has made one due and not yet committed is waited for.

        Its own job was not queued where this one was still waiting; without the lock this one would miss it.
        """
        async with self._store.transaction(run.external_id) as db:
            if await self._queue.read(db, run.external_id) is None:
                # Nobody has ever written there, and asking is no write.
                return []
            await self._ledger.lock(db, run.external_id)
            run.seen = await self._queue.read(db, run.external_id)
            return await self._queue.find_due_memories(db, run.external_id)

    async def _consolidate(self, run: _Run, memory_id: UUID, *, locked: bool) -> None:
        try:
            report = await self._consolidation.consolidate(run.external_id, memory_id, locked=locked)
        except MemoryNotFoundError:
            # Erased since it became due.
            return
        run.vectors_filled += report.vectors_filled
        run.promoted += report.promoted
        if report.consolidated:
            run.consolidated.append(memory_id)

    async def _settle(self, run: _Run) -> None:
        """Note that nothing is due any more, unless something is, because it was written meanwhile.

        Each write that makes work changes `work_at`, so that nothing has to be searched for what may be new.
        """
        if run.seen is None:
            run.is_settled = True
            return
        review_at = await self._lifecycle.next_review_at(run.external_id)
        async with self._store.transaction(run.external_id) as db:
            await self._ledger.lock(db, run.external_id)
            now = await self._queue.read(db, run.external_id)
            is_new = now is not None and now.work_at is not None and now.work_at != run.seen.work_at
            if is_new or run.vectors_missing or await self._queue.find_due_memories(db, run.external_id):
                return
            await self._queue.finish(db, run.external_id, review_at=review_at)
        run.is_settled = True

    async def enqueue(self, external_id: str, *, delay_seconds: float | None = None) -> None:
        """Queue the stream's work once more, for now or not before so many seconds."""
        async with self._store.transaction(external_id) as db:
            # Whoever queues a retry holds the stream too; work for now must not give way to one not yet committed.
            await self._ledger.lock(db, external_id)
            await self._queue.enqueue(db, delay_seconds=delay_seconds)

    async def fail(self, external_id: str, error: str, *, by_death: bool = False, is_outage: bool = False) -> None:
        """Note that the stream's work failed, and have it tried again after a pause, unless it did so too often.

        Args:
            by_death: Whether its worker died over it, or of something else. Then it is tried again at once, and later
                after pauses that do not grow: most deaths are not the work's fault.
            is_outage: Whether nobody here makes vectors: the embedder's server is away, or this process has none. Then
                it is tried again however long that lasts, here or by a worker that has one, and uses up no attempt.
        """
        async with self._store.transaction(external_id) as db:
            failure = await self._queue.fail(
                db, external_id, error=error, max_attempts=self._max_attempts, counts=not is_outage
            )
            if failure is None:
                return
            pause = None
            if not failure.is_final:
                pause = self._outage_pause() if is_outage else self._pause(1 if by_death else failure.failed_attempts)
                if by_death and failure.failed_attempts == 1:
                    pause = 0.0
                await self._queue.enqueue(db, delay_seconds=pause)
        extra = {"external_id": external_id, "failed_attempts": failure.failed_attempts}
        if pause is None:
            _logger.error("work failed %d times and is given up: %s", failure.failed_attempts, error, extra=extra)
        else:
            _logger.warning("work failed and is tried again in %.0f s: %s", pause, error, extra=extra)

    def _outage_pause(self) -> float:
        """As long as the outage has lasted, some minutes at most."""
        now = time.monotonic()
        if self._outage_began is None:
            self._outage_began = now
        pause = min(max(self._retry_seconds, now - self._outage_began), MAX_OUTAGE_PAUSE_SECONDS)
        # Jittered, so that what failed together does not come back together.
        return pause * random.uniform(0.8, 1.2)  # noqa: S311 - no secret

    def _pause(self, failed_attempts: int) -> float:
        # A failure that is noted over and over may have any number; the power of so many would be no number.
        pause = self._retry_seconds * RETRY_PAUSE_FACTOR ** min(failed_attempts - 1, 100)
        # Jittered, so that what failed together does not come back together.
        return min(pause, MAX_RETRY_PAUSE_SECONDS) * random.uniform(0.8, 1.2)  # noqa: S311 - no secret

    async def jobs(self, external_id: str | None) -> list[Job]:
        """Work that waits, runs or was given up; of one stream, or of all."""
        if external_id is not None:
            async with self._store.transaction(external_id, read_only=True) as db:
                return await self._queue.jobs(db, external_id)
        async with self._store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
            failing = await self._queue.list_failing(db)
        async with self._store.transaction("", role=WORKER_ROLE, read_only=True) as db:
            return await self._queue.list_all(db, failing)

    async def retry(self, external_id: str | None) -> int:
        """Queue work that was given up, of one stream or of all; returns of how many streams."""
        given_up = [job.external_id for job in await self.jobs(external_id) if job.state == "failed"]
        queued = 0
        for tenant in given_up:
            async with self._store.transaction(tenant) as db:
                if await self._queue.allow_retry(db, tenant):
                    await self._queue.enqueue(db)
                    queued += 1
        return queued

    async def wait_until_idle(self, external_id: str | None, *, timeout_seconds: float) -> list[Job]:
        """Wait until nothing waits or runs; what is due and has no job is queued.

        Returns:
            Work that was given up.

        Raises:
            WorkTimeoutError: Something still waits or runs.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        pause = _FIRST_LOOK_SECONDS
        while True:
            await self._enqueue_idle(external_id)
            jobs = await self.jobs(external_id)
            busy = [job for job in jobs if job.state != "failed"]
            behind = "" if busy else await self._find_behind(external_id)
            if not busy and not behind:
                return jobs
            if loop.time() >= deadline:
                raise WorkTimeoutError(behind or _still_busy(external_id, busy, timeout_seconds))
            await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
            pause = min(2 * pause, _LONGEST_LOOK_SECONDS)

    async def _enqueue_idle(self, external_id: str | None) -> None:
        if external_id is None:
            await self.enqueue_due(grace_seconds=0)
            await self.enqueue_behind()
            return
        behind = self._follower is not None and not self._follower.pause_of(external_id)
        behind = behind and bool(await self._find_behind(external_id))
        async with self._store.transaction(external_id) as db:
            state = await self._queue.read(db, external_id)
            if state is not None and (behind or (state.is_due and state.failed_at is None)):
                await self._queue.enqueue_idle(db)

    async def _find_behind(self, external_id: str | None) -> str:
        """What Neo4j has not followed yet, in words; '' where there is nothing of it."""
        if self._follower is None:
            return ""
        if external_id is None:
            try:
                behind = await self._follower.list_behind(after="", limit=1)
            except GraphAwayError as error:
                return f"Neo4j has not followed: {error}"
            return f"Neo4j has not followed external_id {behind[0]!r}" if behind else ""
        if await self._follower.is_behind(external_id):
            return f"Neo4j has not followed external_id {external_id!r}"
        return ""

    async def enqueue_due(self, *, grace_seconds: float) -> int:
        """Queue the work of streams that is due and has no job, as after a crash; returns of how many.

        Args:
            grace_seconds: What has become due later than so long ago is left to the call that is still at it.
        """

        async def list_due(after: str) -> list[str]:
            async with self._store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
                return await self._queue.list_due_streams(
                    db, grace_seconds=grace_seconds, after=after, limit=SWEEP_STREAMS
                )

        return await self._enqueue_all(list_due)

    @property
    def graph_is_away(self) -> bool:
        """Whether Neo4j is known to be away; asking changes nothing."""
        return self._follower is not None and self._follower.is_away

    async def enqueue_behind(self) -> int:
        """Queue streams of which Neo4j lacks something; returns how many. None while it is away."""
        if (follower := self._follower) is None:
            return 0

        async def list_behind(after: str) -> list[str]:
            return await follower.list_behind(after=after, limit=SWEEP_STREAMS)

        try:
            return await self._enqueue_all(list_behind)
        except GraphAwayError as error:
            _logger.debug("Neo4j is not asked what it lacks: %s", error)
            return 0

    async def _enqueue_all(self, list_page: Callable[[str], Awaitable[list[str]]]) -> int:
        """Queue the work of the streams that `list_page` gives, where no job of theirs waits or runs."""
        async with self._store.transaction("", role=WORKER_ROLE, read_only=True) as db:
            busy = await self._queue.list_busy(db)
        queued, after = 0, ""
        while True:
            page = await list_page(after)
            for external_id in page:
                if external_id not in busy:
                    queued += await self._enqueue_one(external_id)
            if len(page) < SWEEP_STREAMS:
                return queued
            after = page[-1]

    async def _enqueue_one(self, external_id: str) -> bool:
        try:
            async with self._store.transaction(external_id) as db:
                return await self._queue.enqueue_idle(db)
        except StoreTimeoutError as error:
            # Somebody holds it. Others are not to wait for that.
            _logger.warning("due work is not queued yet: %s", error, extra={"external_id": external_id})
            return False


def _still_busy(external_id: str | None, busy: Sequence[Job], timeout_seconds: float) -> str:
    waiting = sum(job.state == "waiting" for job in busy)
    whose = "all tenants" if external_id is None else f"external_id {external_id!r}"
    errors = {job.error for job in busy if job.error is not None}
    why = f"; failed before: {', '.join(sorted(errors))}" if errors else "; is a worker running?" if waiting else ""
    return (
        f"after {timeout_seconds:g} s, work of {whose} is not done:"
        f" {waiting} waiting, {len(busy) - waiting} running{why}"
    )


class _Run:
    """What one run has done so far, and the first thing that failed in it."""

    def __init__(self, external_id: str) -> None:
        self.external_id = external_id
        self.consolidated: list[UUID] = []
        self.promoted = 0
        self.expired = 0
        self.pruned = 0
        self.vectors_filled = 0
        self.vectors_missing = 0
        self.graph_followed: bool | None = None
        self.is_settled = False
        # The stream's work as it was when the last round began.
        self.seen: WorkState | None = None
        self.error: str | None = None
        self.error_type: str | None = None
        self.is_stores_fault = False
        self.is_outage = False

    async def attempt(self, what: str, work: Awaitable[None]) -> None:
        """Await `work`; what it raises is noted instead."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - a job is where every error ends
            description = describe_error(error)
            # Without a traceback: an error's message may quote a text.
            _logger.warning(
                "%s of a stream's work failed: %s", what, description, extra={"external_id": self.external_id}
            )
            if self.error is None:
                self.error, self.error_type = f"{what}: {description}", type(error).__name__
                self.is_stores_fault = isinstance(error, StoreUnavailableError | CommitUnknownError)
                self.is_outage = isinstance(error, EmbedderAwayError | NoEmbedderError)

    def report(self) -> WorkReport:
        return WorkReport(
            external_id=self.external_id,
            consolidated=tuple(dict.fromkeys(self.consolidated)),
            promoted=self.promoted,
            expired=self.expired,
            pruned=self.pruned,
            vectors_filled=self.vectors_filled,
            graph_followed=self.graph_followed,
            error=self.error,
            error_type=self.error_type,
        )


def describe_error(error: Exception) -> str:
    """What failed and where, in words that cannot hold a text of memories."""
    name = type(error).__name__
    if isinstance(error, _TELLING_ERRORS):
        return f"{name}: {error}"
    place = ""
    trace = error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        # Who asked for a statement says more than where all of them are run.
        if module.startswith("agent_reminiscence.") and module != _STATEMENTS_MODULE:
            place = f" in {module}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return name + place
