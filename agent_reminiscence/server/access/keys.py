"""Keys of this database as credentials."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.access import is_key
from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.server.access.grants import DayAllowance, Grant
from agent_reminiscence.server.problems import ProblemError

TRUSTED_SECONDS: Final = 2.0
"""How long a check holds: a key that was revoked is refused no later than this."""
_MOST_GRANTS: Final = 10_000
_logger = logging.getLogger("agent_reminiscence.server")


@dataclass(frozen=True, slots=True)
class _Checked:
    """A key as it was checked last.

    Attributes:
        until: When it is to be checked again.
        revocations: How many keys had been revoked in this process by then.
        secret: Kept where requests are counted for a day, to tell the store of the last ones when the server stops.
    """

    until: float
    revocations: int
    grant: Grant
    secret: str | None = field(repr=False)

    @property
    def made(self) -> int:
        """How many requests of its day the store has not been told of."""
        return 0 if self.grant.day is None else self.grant.day.made


class KeyAuthenticator:
    """Knows the keys that `memory.admin.keys` has created.

    A check takes about as long as reading one memory, so a valid key is checked once in `TRUSTED_SECONDS`, for all of
    its requests. Within these, it still ends when it expires, and when this process revokes it. What is refused is not
    remembered.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, memory: AgentMem, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._memory = memory
        self._clock = clock
        # By the hash of the key, those checked last at the end.
        self._checked: OrderedDict[bytes, _Checked] = OrderedDict()
        self._checks: dict[bytes, asyncio.Task[Grant | None]] = {}

    async def authenticate(self, secret: str) -> Grant | None:
        """What a key allows.

        Raises:
            ProblemError: 503 if the store is unavailable.
        """
        if not is_key(secret):
            return None
        try:
            return await self._known(secret)
        except ReminiscenceError as error:
            raise ProblemError(
                503,
                "unavailable",
                "the memory is unavailable, so the key cannot be checked; try again",
                headers={"Retry-After": "1"},
            ) from error

    async def _known(self, secret: str) -> Grant | None:
        hashed = hashlib.sha256(secret.encode()).digest()
        if (trusted := self._trusted_grant(hashed)) is not None:
            return trusted
        # One check for all requests that wait for it, whichever of them is cancelled.
        check = self._checks.get(hashed)
        if check is None:
            check = self._checks[hashed] = asyncio.create_task(self._check(secret, hashed))
            check.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(check)

    def _trusted_grant(self, hashed: bytes) -> Grant | None:
        """The grant of a key that was checked a moment ago, and has not ended since as far as this process knows."""
        known = self._checked.get(hashed)
        if known is None or self._clock() >= known.until or known.revocations != self._memory.admin.keys.revocations:
            return None
        end = known.grant.expires_at
        return None if end is not None and end <= datetime.now(UTC) else known.grant

    async def close(self) -> None:
        """Tell the store of the requests of the last seconds that count for a day."""
        for known in list(self._checked.values()):
            if known.secret is None or known.made == 0:
                continue
            try:
                await self._memory.admin.keys.check(known.secret, requests=known.made)
            except ReminiscenceError as error:
                _logger.warning("the last requests of some keys were not counted: %s", type(error).__name__)
                return

    async def _check(self, secret: str, hashed: bytes) -> Grant | None:
        try:
            # From the beginning of the check, because it says what held then.
            until = self._clock() + TRUSTED_SECONDS
            revocations = self._memory.admin.keys.revocations
            before = self._checked.get(hashed)
            found = await self._memory.admin.keys.check(secret, requests=0 if before is None else before.made)
            self._checked.pop(hashed, None)
            if found is None:
                return None
            allowed, today = found.requests_per_day, found.requests_today
            grant = Grant(
                subject=f"key:{found.key_id}",
                scopes=frozenset(found.scopes),
                external_id=found.external_id,
                also_reads=found.also_reads,
                expires_at=found.expires_at,
                requests_per_minute=found.requests_per_minute,
                day=None if allowed is None else DayAllowance(allowed, allowed - today),
            )
            self._checked[hashed] = _Checked(until, revocations, grant, None if allowed is None else secret)
            if len(self._checked) > _MOST_GRANTS:
                self._checked.popitem(last=False)
            return grant
        finally:
            del self._checks[hashed]
