"""Counts questions and the chunks that answer them, without slowing recall: in memory, written every few seconds."""

from __future__ import annotations

import asyncio
import bisect
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final
from uuid import UUID

from agent_reminiscence.domain.usage import DURATION_BOUNDS, RecallDay
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.telemetry import detached

_logger = logging.getLogger("agent_reminiscence.use")

# How long counted uses wait to be written together, and how many chunks are counted meanwhile at most.
USE_WRITE_SECONDS: Final = 5.0
USE_MAX_PENDING_CHUNKS: Final = 50_000
# How long closing waits for the last of them.
USE_CLOSE_SECONDS: Final = 2.0
# How long after a use its stream is reviewed: the uses of an hour are judged together.
USE_REVIEW_SECONDS: Final = 3_600.0

# Written without waiting for the disk: a server crash may lose the latest counts.
_SETTINGS = {"synchronous_commit": "off"}


@dataclass(slots=True)
class _Answers:
    """The questions of one day."""

    durations: list[int]
    found: int = 0

    def of(self, day: date) -> RecallDay:
        """The same with its day."""
        return RecallDay(day=day, answered=sum(self.durations), found=self.found, durations=tuple(self.durations))


@dataclass(slots=True)
class _Counted:
    """What one tenant's recalls have been, since it was written last.

    Attributes:
        uses: By chunk: the number of uses and the time of the last.
    """

    uses: dict[UUID, tuple[int, datetime]] = field(default_factory=dict)
    days: dict[date, _Answers] = field(default_factory=dict)


class UseRecorder:
    """Counts uses of chunks, and questions by day, and writes them in the background.

    Both are soft state: what is lost in a crash, or arrives while too much is waiting, is not counted. No error reaches
    a caller of `note`.

    Args:
        write_seconds: How long uses are collected before they are written.
        max_pending_chunks: The maximum number of chunks counted until then.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        write_seconds: float = USE_WRITE_SECONDS,
        max_pending_chunks: int = USE_MAX_PENDING_CHUNKS,
    ) -> None:
        self._store = runtime.store
        self._uses = runtime.repositories.uses
        self._recalls = runtime.repositories.recalls
        self._clock = runtime.clock
        self._write_seconds = write_seconds
        self._max_pending_chunks = max_pending_chunks
        self._pending: defaultdict[str, _Counted] = defaultdict(_Counted)
        self._pending_chunks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[StoreError | None] | None = None
        self._writing = asyncio.Lock()
        self._is_closed = False

    def note(self, external_id: str, chunk_ids: Sequence[UUID]) -> None:
        """Count one use of each chunk; requires a running event loop."""
        if self._is_closed or not chunk_ids:
            return
        now = self._clock()
        uses = self._pending[external_id].uses
        for chunk_id in chunk_ids:
            counted = uses.get(chunk_id)
            if counted is not None:
                uses[chunk_id] = (counted[0] + 1, now)
            elif self._pending_chunks < self._max_pending_chunks:
                uses[chunk_id] = (1, now)
                self._pending_chunks += 1
        self._set_timer()

    def note_answer(self, external_id: str, *, found: bool, seconds: float) -> None:
        """Count a question that was answered; requires a running event loop.

        Args:
            found: Whether its best hit fits.
            seconds: How long it took.
        """
        if self._is_closed:
            return
        day = self._clock().astimezone(UTC).date()
        days = self._pending[external_id].days
        if day not in days:
            days[day] = _Answers(durations=[0] * (len(DURATION_BOUNDS) + 1))
        days[day].found += found
        days[day].durations[bisect.bisect_left(DURATION_BOUNDS, seconds)] += 1
        self._set_timer()

    def _set_timer(self) -> None:
        # A timer instead of an endless task: if close() is forgotten, nothing keeps running. One writer at a time: uses
        # that arrive meanwhile wait for the next.
        if self._timer is None and self._task is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(
                self._write_seconds, self._begin_write, context=detached()
            )

    def _begin_write(self) -> asyncio.Task[StoreError | None]:
        self._timer = None
        self._task = asyncio.create_task(self._write_in_background(), name="agent_reminiscence uses")
        return self._task

    async def _write_in_background(self) -> StoreError | None:
        failure: StoreError | None = None
        try:
            failure = await self.write()
        finally:
            self._task = None
            # After a failure, the next use tries again: a store that refuses for good is not asked without end.
            if self._pending and failure is None:
                self._set_timer()
        return failure

    async def write_now(self) -> None:
        """Write all that was counted so far, at once. If the caller is cancelled, the writing goes on.

        Raises:
            StoreError: The store did not accept it; it is written later.
        """
        while (writing := self._task) is not None:
            await asyncio.shield(writing)
        if self._timer is not None:
            self._timer.cancel()
        if (failure := await asyncio.shield(self._begin_write())) is not None:
            raise failure

    async def write(self) -> StoreError | None:
        """Write all that was counted so far; what the store does not accept is kept for the next time.

        Returns:
            Why the store did not accept something; None if it accepted all.
        """
        failure: StoreError | None = None
        async with self._writing:
            pending, self._pending, self._pending_chunks = self._pending, defaultdict(_Counted), 0
            for external_id, counted in pending.items():
                try:
                    await self._write(external_id, counted)
                except StoreError as error:
                    failure = failure or error
                    self._keep(external_id, counted)
                    # No traceback: it adds nothing, and there is no need for alarm.
                    _logger.warning(
                        "uses of %d chunks were not counted: %s",
                        len(counted.uses),
                        error,
                        extra={"external_id": external_id},
                    )
        return failure

    def _keep(self, external_id: str, counted: _Counted) -> None:
        """Add what could not be written to what has been counted since, as far as there is room."""
        kept = self._pending[external_id]
        for chunk_id, (number, used_at) in counted.uses.items():
            if (since := kept.uses.get(chunk_id)) is not None:
                kept.uses[chunk_id] = (number + since[0], max(used_at, since[1]))
            elif self._pending_chunks < self._max_pending_chunks:
                kept.uses[chunk_id] = (number, used_at)
                self._pending_chunks += 1
        for day, answers in counted.days.items():
            if day in kept.days:
                answers.durations = [
                    sum(both) for both in zip(answers.durations, kept.days[day].durations, strict=True)
                ]
                answers.found += kept.days[day].found
            kept.days[day] = answers

    async def _write(self, external_id: str, counted: _Counted) -> None:
        async def add() -> None:
            async with self._store.transaction(external_id, settings=_SETTINGS) as db:
                if counted.uses:
                    await self._uses.add(db, external_id, counted.uses, review_within_seconds=USE_REVIEW_SECONDS)
                for day, answers in counted.days.items():
                    await self._recalls.add(db, external_id, answers.of(day))

        await repeated(add, operation="write uses", external_id=external_id)

    async def close(self) -> None:
        """Write the remaining uses, within a short time limit; further uses are not counted."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        writing = self._task
        try:
            async with asyncio.timeout(USE_CLOSE_SECONDS):
                await self.write()
        except TimeoutError:
            _logger.warning("closed before all uses were counted")
            if writing is not None:
                writing.cancel()
                await asyncio.wait([writing])
