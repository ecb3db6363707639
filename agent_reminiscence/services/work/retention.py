"""Erases what is over if `retention="erase"`; otherwise passages only end, and the ledger keeps them.

What is over is read from the tables each time, and judged again in the erasure's own transaction. So a worker may be
killed at any point: what it did not erase is found by the next review, and what was touched meanwhile stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from agent_reminiscence.config.constants import Tier
from agent_reminiscence.database.repositories.retention import OverMemory, RetentionRepository
from agent_reminiscence.domain.erasure import RetentionRules, Target
from agent_reminiscence.domain.lifecycle import LifecycleReport
from agent_reminiscence.services.audit.erasure import EraseRequest, ErasureService, NothingOverError
from agent_reminiscence.services.recall.uses import UseRecorder
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.review import LifecycleService

# One erasure's share. Nearly all of its time is the replay of what stays, which costs the same for one memory.
ERASED_AT_ONCE: Final = 5_000
# How long a worker rests between two erasures of a stream, for each of its events, of which it replays some 200 in a
# second: where memories expire one by one, they wait for each other.
_PAUSE_SECONDS_PER_EVENT: Final = 0.1
RETENTION_ACTOR: Final = "retention"


class Retention:
    """Reviews streams, and erases what is over.

    Args:
        erases: Whether anything is erased at all.
        ttl_days: As `LifecycleService` has it.
        is_limited: Whether there is a maximum number of chunks.
    """

    def __init__(
        self,
        runtime: Runtime,
        lifecycle: LifecycleService,
        erasure: ErasureService,
        uses: UseRecorder,
        *,
        erases: bool,
        ttl_days: Mapping[Tier, float],
        is_limited: bool,
    ) -> None:
        self._store = runtime.store
        self._over = RetentionRepository()
        self._clock = runtime.clock
        self._lifecycle = lifecycle
        self._erasure = erasure
        self._uses = uses
        self._erases = erases
        self._ttl_days = dict(ttl_days)
        self._is_limited = is_limited

    async def review(self, external_id: str) -> LifecycleReport:
        """End and erase everything that is due, in as many transactions as it takes.

        Raises:
            StoreError: The store is unavailable; what was done is kept, and the next call does the rest.
        """
        await self.count_uses()
        # First, so that no expiry is recorded of what goes.
        erased = await self._erase(external_id, await self._find_over(external_id))
        report = await self._lifecycle.review(external_id)
        while more := await self._erase(external_id, await self._find_over(external_id)):
            erased += more
            # A passage that repeated an erased one counts again, and may be over, too.
            again = await self._lifecycle.review(external_id)
            report = report.model_copy(
                update={
                    "promoted": report.promoted + again.promoted,
                    "expired": report.expired + again.expired,
                    "pruned": report.pruned + again.pruned,
                    "memories_expired": report.memories_expired + again.memories_expired,
                }
            )
        return report.model_copy(update={"memories_erased": erased})

    async def count_uses(self) -> None:
        """Write what this process has recalled lately, where it decides what is erased."""
        if self._erases:
            await self._uses.write_now()

    async def erase_due(self, external_id: str) -> int:
        """Erase up to 5,000 memories that are over, in one transaction; returns how many.

        Returns 0 if the stream is still resting after its last erasure.

        Raises:
            StoreError: The store is unavailable, or the ledger was altered; nothing is erased.
        """
        found = await self._find_over(external_id)
        if not found:
            return 0
        may_at = await self._may_erase_at(external_id)
        if may_at is not None and may_at > self._clock():
            return 0
        return await self._erase(external_id, found)

    async def _find_over(self, external_id: str) -> list[OverMemory]:
        if not self._erases:
            return []
        rules = self._rules()
        return await self._store.read_once(
            external_id, lambda db: self._over.find_over(db, external_id, rules, limit=ERASED_AT_ONCE)
        )

    async def _may_erase_at(self, external_id: str) -> datetime | None:
        """When a worker may erase again; None if it may at once."""
        erased_at, events = await self._store.read_once(
            external_id, lambda db: self._over.find_last_erasure(db, external_id)
        )
        return None if erased_at is None else erased_at + timedelta(seconds=_PAUSE_SECONDS_PER_EVENT * events)

    async def _erase(self, external_id: str, found: Sequence[OverMemory]) -> int:
        if not found:
            return 0
        rules = self._rules()
        settings = sorted({one.setting for one in found})
        request = EraseRequest(
            external_id=external_id,
            target=Target(over=frozenset(one.memory_id for one in found), rules=rules),
            actor=RETENTION_ACTOR,
            reason=f"retention: {', '.join(settings)}",
        )
        try:
            return len((await self._erasure.erase_here(request)).memory_ids)
        except NothingOverError:
            return 0

    async def next_at(self, external_id: str) -> datetime | None:
        """When the next review is due; None if none is."""
        moments = [await self._lifecycle.next_review_at(external_id)]
        if self._erases:
            rules = self._rules()
            over_at = await self._store.read_once(
                external_id, lambda db: self._over.find_next_over(db, external_id, rules)
            )
            if over_at is not None:
                may_at = await self._may_erase_at(external_id)
                over_at = over_at if may_at is None else max(over_at, may_at)
            moments.append(over_at)
        return min((moment for moment in moments if moment is not None), default=None)

    def _rules(self) -> RetentionRules:
        return RetentionRules(now=self._clock(), ttl_days=self._ttl_days, is_limited=self._is_limited)
