"""The work that follows writes: whatever is due for one stream, done by a worker or in a direct call.

A run may happen at any time, any number of times and concurrently: each step first checks what is still to be done,
and its decisions are applied under the stream's lock, after a check that they still hold. So a worker may be killed at
any point, and a job that runs twice does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from agent_reminiscence.apart import run_apart
from agent_reminiscence.config.constants import BREAKER_MAX_PAUSE_SECONDS, SCHEDULER_ROLE, WORKER_ROLE
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.work_queue import WorkState
from agent_reminiscence.domain.work import Job, WorkReport
from agent_reminiscence.exceptions import (
    AgentError,
    CommitUnknownError,
    ConfigurationError,
    EmbedderAwayError,
    EmbeddingError,
    MemoryNotFoundError,
    StoreTimeoutError,
    StoreUnavailableError,
    WorkTimeoutError,
)
from agent_reminiscence.services.graph.follower import GraphAwayError, GraphFollower
from agent_reminiscence.services.profiles.refreshing import ProfileRefresher
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.consolidation import ConsolidationService
from agent_reminiscence.services.tiers.review import LifecycleService
from agent_reminiscence.services.vectors.cells import CellService
from agent_reminiscence.services.vectors.filling import EmbeddingService
from agent_reminiscence.services.vectors.generations import NoEmbedderError
from agent_reminiscence.services.work.remembering import ConversationReader
from agent_reminiscence.services.work.retention import Retention
from agent_reminiscence.services.work.watch import WorkerWatch
from agent_reminiscence.telemetry import Telemetry

_logger = logging.getLogger("agent_reminiscence.work")

# How often a run of a stream's work looks again for new writes before other streams have their turn.
WORK_ROUNDS: Final = 5
# Factor by which each pause before a retry grows, up to an hour.
RETRY_PAUSE_FACTOR: Final = 4.0
MAX_RETRY_PAUSE_SECONDS: Final = 3_600.0
# Likewise while the embedder's server is unavailable: that work is never given up, and done soon after its return.
MAX_OUTAGE_PAUSE_SECONDS: Final = 300.0
# Streams that one statement of a sweep lists.
SWEEP_STREAMS: Final = 1_000

# How often `wait_until_idle` polls: often at first, later less, so as not to slow down what it waits for.
_FIRST_LOOK_SECONDS = 0.02
_LONGEST_LOOK_SECONDS = 0.5
# How long before a conversation is due its job is queued; later ones are found by a sweep.
_QUEUED_AHEAD_SECONDS = 120.0
_STATEMENTS_MODULE = "agent_reminiscence.database.postgres_manager"
# Their messages are our own words; others may quote what a statement or model was given.
_TELLING_ERRORS = (AgentError, ConfigurationError, EmbeddingError, StoreTimeoutError, StoreUnavailableError)


class WorkService:
    """Does what is due for a stream and records failures.

    Args:
        profiles: Writes standing summaries that are due.
        reader: Has a model read conversations that are due.
        follower: Updates Neo4j with the stream's graph; None if none is configured.
        max_attempts: After this many failures in a row, work is no longer retried automatically.
        retry_seconds: The pause after the first failure; each further one is four times as long, up to an hour.
    """

    def __init__(
        self,
        runtime: Runtime,
        embedding: EmbeddingService,
        consolidation: ConsolidationService,
        lifecycle: LifecycleService,
        retention: Retention,
        cells: CellService,
        profiles: ProfileRefresher,
        reader: ConversationReader,
        follower: GraphFollower | None,
        *,
        max_attempts: int,
        retry_seconds: float,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._queue = runtime.repositories.queue
        self._embedding = embedding
        self._consolidation = consolidation
        self._lifecycle = lifecycle
        self._retention = retention
        self._cells = cells
        self._profiles = profiles
        self._reader = reader
        self._follower = follower
        self._max_attempts = max_attempts
        self._retry_seconds = retry_seconds
        # Since when this process has had no embedder, for all streams alike.
        self._outage_began: float | None = None

    async def run(self, external_id: str, *, follows: bool = True) -> WorkReport:
        """Do what is due for the stream; failures are recorded and queued again, not raised.

        A memory whose consolidation fails does not block others.

        Args:
            follows: Whether to wait until Neo4j has followed, which may take as long as Neo4j's timeout; otherwise
                call `follow` afterwards.

        Raises:
            StoreError: Not even the failure could be recorded; the work stays due.
        """
        run = _Run(external_id)
        await self._work_off(run)
        if follows and self._follower is not None and not run.is_stores_fault:
            run.graph_followed = await self._try_to_follow(external_id, self._follower)
        if run.error is not None and not run.is_stores_fault:
            await self.fail(external_id, run.error, is_outage=run.is_outage)
        elif not run.is_settled:
            # Either the server was away and is back if this can be recorded; or work grows as fast as it is done, and
            # others get their turn.
            await self.enqueue(external_id, delay_seconds=self._retry_seconds)
        elif run.graph_followed is False:
            await self._follow_later(external_id)
        return run.report()

    async def _work_off(self, run: _Run) -> None:
        """Run rounds until nothing is left or something fails."""
        for number in range(WORK_ROUNDS):
            # A memory that changes faster than its plans are made is finally consolidated while its writers wait.
            is_last = number == WORK_ROUNDS - 1
            await run.attempt("work", self._do_what_is_due(run, locked=is_last))
            if run.error is None:
                await run.attempt("settling", self._settle(run))
            if run.error is not None or run.is_settled:
                return

    async def _do_what_is_due(self, run: _Run, *, locked: bool) -> None:
        # First, so that nothing is made of what is over. What the ledger does not let be erased blocks no other step.
        await run.attempt("retention", self._erase_over(run))
        await run.attempt("expiry", self._expire(run))
        for memory_id in await self._find_due(run):
            await run.attempt(f"memory {memory_id}", self._consolidate(run, memory_id, locked=locked))
        # A text without a vector must not block the other steps.
        await run.attempt("vectors", self._fill_vectors(run))
        await run.attempt("vector cells", self._sort_cells(run))
        if run.is_stores_fault:
            return
        await self._retention.count_uses()
        reviewed = await self._lifecycle.review(run.external_id)
        run.promoted += reviewed.promoted
        run.expired += reviewed.expired
        run.pruned += reviewed.pruned
        run.memories_expired += reviewed.memories_expired
        await run.attempt("retention", self._erase_over(run))
        # Models come last, so that they keep nothing waiting; profiles last of all, so that they hold all the rest.
        await run.attempt("conversations", self._read_conversations(run))
        await run.attempt("profiles", self._refresh_profiles(run))

    @property
    def has_follower(self) -> bool:
        """Whether a Neo4j that follows the graph is configured."""
        return self._follower is not None

    async def follow(self, external_id: str) -> None:
        """Update Neo4j after a run, or schedule a retry.

        Raises:
            StoreError: PostgreSQL is unavailable, too; a worker finds the stream later.
        """
        if self._follower is not None and not await self._try_to_follow(external_id, self._follower):
            await self._follow_later(external_id)

    async def _try_to_follow(self, external_id: str, follower: GraphFollower) -> bool:
        """Whether Neo4j has followed; if it cannot, the work does not count as failed."""
        try:
            await run_apart(follower.follow(external_id))
        except GraphAwayError as error:
            # Whoever found Neo4j unavailable has already logged it.
            _logger.debug("Neo4j cannot follow at the moment: %s", error, extra={"external_id": external_id})
        except Exception as error:  # noqa: BLE001 - the follower retries the stream after growing pauses
            # No traceback: an error's message may quote a text.
            _logger.warning(
                "Neo4j cannot follow at the moment: %s", describe_error(error), extra={"external_id": external_id}
            )
        else:
            return True
        return False

    async def _follow_later(self, external_id: str) -> None:
        """Schedule a retry soon, unless Neo4j has been unavailable for long: then a worker finds the stream in the end.

        So an outage does not cause work for every waiting stream.
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

    async def _refresh_profiles(self, run: _Run) -> None:
        """Write texts that are due. A model that fails on one keeps nothing else from being done or retried."""
        if run.resume_at is not None:
            # An earlier round has found out that it has to wait.
            return
        refreshed = await self._profiles.refresh_due(run.external_id)
        run.profiles += refreshed.names
        run.resume_at = refreshed.resume_at
        if refreshed.failure is not None:
            run.note_failure("profiles", refreshed.failure)

    async def _read_conversations(self, run: _Run) -> None:
        """Read what is due. A model that fails on it keeps nothing else from being done or retried."""
        read = await self._reader.read_due(run.external_id)
        run.conversations_read += read.conversations
        if read.failure is not None:
            run.note_failure("conversations", read.failure)

    async def _expire(self, run: _Run) -> None:
        run.memories_expired += await self._lifecycle.record_expired(run.external_id)

    async def _erase_over(self, run: _Run) -> None:
        run.memories_erased += await self._retention.erase_due(run.external_id)

    async def _sort_cells(self, run: _Run) -> None:
        await self._cells.sort(run.external_id)

    async def _find_due(self, run: _Run) -> list[UUID]:
        """Find memories to consolidate. Locks the stream to wait for uncommitted writers that made one due.

        Their job was not queued if this one was still waiting; without the lock this run would miss the memory.
        """
        async with self._store.transaction(run.external_id) as db:
            if await self._queue.read(db, run.external_id) is None:
                # Nobody has ever written there, and asking must not create it.
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
        """Record that nothing is due any more, unless something was written meanwhile.

        Each write that makes work changes `work_at`, so there is no need to search for what may be new.
        """
        if run.seen is None:
            run.is_settled = True
            return
        moments = [
            await self._retention.next_at(run.external_id),
            await self._profiles.next_due_at(run.external_id),
            run.resume_at,
        ]
        read_in = await self._reader.next_due_in(run.external_id)
        if read_in is not None:
            moments.append(datetime.now(UTC) + timedelta(seconds=read_in))
        review_at = min((moment for moment in moments if moment is not None), default=None)
        async with self._store.transaction(run.external_id) as db:
            await self._ledger.lock(db, run.external_id)
            now = await self._queue.read(db, run.external_id)
            is_new = now is not None and now.work_at is not None and now.work_at != run.seen.work_at
            if is_new or run.vectors_missing or await self._queue.find_due_memories(db, run.external_id):
                return
            await self._queue.finish(db, run.external_id, review_at=review_at)
            if read_in is not None and read_in < _QUEUED_AHEAD_SECONDS:
                # Reviews are not as punctual as a pause in a conversation.
                await self._queue.enqueue(db, delay_seconds=read_in or None)
        run.is_settled = True

    async def enqueue(self, external_id: str, *, delay_seconds: float | None = None) -> None:
        """Queue the stream's work once more, for now or after a delay."""
        async with self._store.transaction(external_id) as db:
            # A queued retry also holds the stream; work for now must not yield to one that is not yet committed.
            await self._ledger.lock(db, external_id)
            await self._queue.enqueue(db, delay_seconds=delay_seconds)

    async def fail(self, external_id: str, error: str, *, by_death: bool = False, is_outage: bool = False) -> None:
        """Record that the stream's work failed, and schedule a retry unless it has failed too often.

        Args:
            by_death: Whether its worker died, of this work or something else. Then it is retried at once, and later
                after constant pauses: most deaths are not the work's fault.
            is_outage: Whether there is no embedder: its server is unavailable, or this process has none. Then it is
                retried for as long as that lasts, here or by a worker that has one, without using up an attempt.
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
            _logger.warning("work failed; next attempt in %.0f s: %s", pause, error, extra=extra)

    def _outage_pause(self) -> float:
        """As long as the outage has lasted, but at most some minutes."""
        now = time.monotonic()
        if self._outage_began is None:
            self._outage_began = now
        pause = min(max(self._retry_seconds, now - self._outage_began), MAX_OUTAGE_PAUSE_SECONDS)
        # Jittered, so that what failed together does not come back together.
        return pause * random.uniform(0.8, 1.2)  # noqa: S311 - no secret

    def _pause(self, failed_attempts: int) -> float:
        # The count of failures is unbounded; so large a power would not be a finite number.
        pause = self._retry_seconds * RETRY_PAUSE_FACTOR ** min(failed_attempts - 1, 100)
        # Jittered, so that what failed together does not come back together.
        return min(pause, MAX_RETRY_PAUSE_SECONDS) * random.uniform(0.8, 1.2)  # noqa: S311 - no secret

    async def jobs(self, external_id: str | None) -> list[Job]:
        """Return work that is waiting, running or given up; of one stream, or of all."""
        if external_id is not None:
            async with self._store.transaction(external_id, read_only=True) as db:
                return await self._queue.jobs(db, external_id)
        async with self._store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
            failing = await self._queue.list_failing(db)
        async with self._store.transaction("", role=WORKER_ROLE, read_only=True) as db:
            return await self._queue.list_all(db, failing)

    async def retry(self, external_id: str | None) -> int:
        """Queue work that was given up, of one stream or all; returns of how many streams."""
        given_up = [job.external_id for job in await self.jobs(external_id) if job.state == "failed"]
        queued = 0
        for tenant in given_up:
            async with self._store.transaction(tenant) as db:
                if await self._queue.allow_retry(db, tenant):
                    await self._queue.enqueue(db)
                    queued += 1
        return queued

    async def wait_until_idle(self, external_id: str | None, *, timeout_seconds: float) -> list[Job]:
        """Wait until nothing waits or runs; due work without a job is queued.

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
        """Describe what Neo4j has not followed yet; '' if nothing."""
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
        """Queue streams whose work is due but has no job, for example after a crash; returns how many.

        Args:
            grace_seconds: Work that became due more recently is left to the call that is still doing it.
        """

        async def list_due(after: str) -> list[str]:
            async with self._store.transaction("", role=SCHEDULER_ROLE, read_only=True) as db:
                return await self._queue.list_due_streams(
                    db, grace_seconds=grace_seconds, after=after, limit=SWEEP_STREAMS
                )

        return await self._enqueue_all(list_due)

    @property
    def graph_is_away(self) -> bool:
        """Whether Neo4j is known to be unavailable; reading this changes nothing."""
        return self._follower is not None and self._follower.is_away

    async def enqueue_behind(self) -> int:
        """Queue streams that Neo4j lags behind on; returns how many, 0 while it is unavailable."""
        if (follower := self._follower) is None:
            return 0

        async def list_behind(after: str) -> list[str]:
            return await follower.list_behind(after=after, limit=SWEEP_STREAMS)

        try:
            return await self._enqueue_all(list_behind)
        except GraphAwayError as error:
            _logger.debug("cannot ask Neo4j what it lacks: %s", error)
            return 0

    async def _enqueue_all(self, list_page: Callable[[str], Awaitable[list[str]]]) -> int:
        """Queue the streams that `list_page` returns, unless a job of theirs waits or runs."""
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
            # Someone holds it; others should not wait for that.
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
    """What one run has done so far, and its first failure."""

    def __init__(self, external_id: str) -> None:
        self.external_id = external_id
        self.consolidated: list[UUID] = []
        self.promoted = 0
        self.expired = 0
        self.pruned = 0
        self.memories_expired = 0
        self.memories_erased = 0
        self.profiles: list[str] = []
        # When to write further profiles, if the day's tokens are used up or the model failed.
        self.resume_at: datetime | None = None
        self.conversations_read = 0
        # What a model has failed at, and why.
        self.failed_model: tuple[str, Exception] | None = None
        self.vectors_filled = 0
        self.vectors_missing = 0
        self.graph_followed: bool | None = None
        self.is_settled = False
        # The stream's work as of the beginning of the last round.
        self.seen: WorkState | None = None
        self.error: str | None = None
        self.error_type: str | None = None
        self.is_stores_fault = False
        self.is_outage = False

    async def attempt(self, what: str, work: Awaitable[None]) -> None:
        """Await `work` and record any error instead of raising it."""
        try:
            await run_apart(work)
        except Exception as error:  # noqa: BLE001 - errors of a job must not go further
            description = describe_error(error)
            # No traceback: an error's message may quote a text.
            _logger.warning(
                "a stream's work failed (%s): %s", what, description, extra={"external_id": self.external_id}
            )
            if self.error is None:
                self.error, self.error_type = f"{what}: {description}", type(error).__name__
                self.is_stores_fault = isinstance(error, StoreUnavailableError | CommitUnknownError)
                self.is_outage = isinstance(error, EmbedderAwayError | NoEmbedderError)

    def note_failure(self, what: str, error: Exception) -> None:
        """Record what a model has failed at; that does not make the run fail."""
        self.failed_model = (what, error)
        _logger.warning(
            "a model failed (%s) and is asked again later: %s",
            what,
            describe_error(error),
            extra={"external_id": self.external_id},
        )

    def report(self) -> WorkReport:
        error, error_type = self.error, self.error_type
        if error is None and self.failed_model is not None:
            what, failure = self.failed_model
            error, error_type = f"{what}: {describe_error(failure)}", type(failure).__name__
        return WorkReport(
            external_id=self.external_id,
            consolidated=tuple(dict.fromkeys(self.consolidated)),
            promoted=self.promoted,
            expired=self.expired,
            pruned=self.pruned,
            memories_expired=self.memories_expired,
            memories_erased=self.memories_erased,
            profiles=tuple(dict.fromkeys(self.profiles)),
            conversations_read=self.conversations_read,
            vectors_filled=self.vectors_filled,
            graph_followed=self.graph_followed,
            error=error,
            error_type=error_type,
        )


def describe_error(error: Exception) -> str:
    """What failed and where, without any text of memories."""
    name = type(error).__name__
    if isinstance(error, _TELLING_ERRORS):
        return f"{name}: {error}"
    location = ""
    trace = error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        # The caller of a statement says more than the place where all statements run.
        if module.startswith("agent_reminiscence.") and module != _STATEMENTS_MODULE:
            location = f" in {module}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return name + location


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """What a worker needs.

    Attributes:
        concurrency: How many streams it works on at a time.
        heartbeat_seconds: How often it reports that it is alive.
        watch: Is told how it goes.
    """

    store: PostgresManager
    work: WorkService
    telemetry: Telemetry
    concurrency: int
    heartbeat_seconds: float
    watch: WorkerWatch
