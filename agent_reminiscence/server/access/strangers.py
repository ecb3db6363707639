"""Checks the credentials of requests, and is in no hurry to tell an address that tries many wrong ones."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

from agent_reminiscence.server.access.authenticators import Authenticator
from agent_reminiscence.server.access.grants import Grant
from agent_reminiscence.server.access.limiter import WrongAttempts, network_of
from agent_reminiscence.server.guards.client import Wait
from agent_reminiscence.server.guards.gate import Gate
from agent_reminiscence.server.guards.refusal import MOST_WAITING, Patience
from agent_reminiscence.server.problems import ProblemError

# A wrong key does not become a right one. A token may, when its issuer's keys have been fetched.
_REFUSED_SECONDS: Final = 2.0
_MOST_REMEMBERED: Final = 10_000
# Of addresses that have used up their allowance, together; each has one of these.
_CHECKS: Final = 4
_WAITING_CHECKS: Final = 1_000
_WAIT_SECONDS: Final = 5.0


class TooManyWaitError(ProblemError):
    """So many requests of a network wait to be refused that one more is not worth an answer."""

    def __init__(self) -> None:
        super().__init__(
            429,
            "too-many-requests",
            "too many requests without a valid credential come from your address; wait 30 s",
            headers={"Retry-After": "30"},
        )


class Strangers:
    """Finds the grant of a request, and bounds what requests without one cost.

    An address may send so many wrong credentials a minute, or none at all, and is answered at once. Beyond that, each
    such answer comes after a delay, and one check at a time is made for the address. Nothing is refused for it, since
    an address may be that of a proxy with all its clients: a credential that was valid before is checked at once, and a
    new one after the delay. Of a network, 512 checks and as many refusals wait at a time.

    Args:
        wrong_per_minute: From one address.
        delay_seconds: Before an answer beyond that.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        wrong_per_minute: int,
        delay_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authenticator = authenticator
        self._wrong = WrongAttempts(wrong_per_minute, clock=clock)
        self._delay_seconds = delay_seconds
        self._patience = Patience(delay_seconds, most=MOST_WAITING)
        self._clock = clock
        # By network, checks of credentials that come after a delay.
        self._late: Counter[str] = Counter()
        self._checks = Gate(_CHECKS, share=1, queue=_WAITING_CHECKS, wait_seconds=_WAIT_SECONDS)
        # By hash: until when a refusal holds; and what was valid when it was checked last.
        self._refused: OrderedDict[bytes, float] = OrderedDict()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    async def authenticate(self, secret: str | None, address: str, wait: Wait) -> Grant | None:
        """What a credential allows; None if there is none, or it is not valid.

        Args:
            wait: For the client that sends it.

        Raises:
            TooManyWaitError: So many requests of the network wait that this one is not even refused in order.
            ProblemError: 429 if too many wait to be checked; 503 if it cannot be checked.
        """
        if secret is None:
            await self.refuse(address, wait)
            return None
        hashed = hashlib.sha256(secret.encode()).digest()
        if hashed in self._known:
            grant = await self._authenticator.authenticate(secret)
        elif self._is_refused(hashed):
            await self.refuse(address, wait)
            return None
        elif self._wrong.wait(address):
            return await self._check_late(secret, hashed, address, wait)
        else:
            grant = await self._authenticator.authenticate(secret)
        self._remember(hashed, grant)
        if grant is None:
            await self.refuse(address, wait)
        return grant

    async def _check_late(self, secret: str, hashed: bytes, address: str, wait: Wait) -> Grant | None:
        subject = network_of(address)
        if self._late[subject] >= MOST_WAITING:
            raise TooManyWaitError
        self._late[subject] += 1
        try:
            await wait(self._delay_seconds)
            grant = await self._check_in_turn(secret, subject)
        finally:
            self._late[subject] -= 1
            if not self._late[subject]:
                del self._late[subject]
        self._remember(hashed, grant)
        if grant is None:
            await self.refuse(address, wait)
        return grant

    async def _check_in_turn(self, secret: str, subject: str) -> Grant | None:
        if not await self._checks.enter(subject):
            raise ProblemError(
                429,
                "too-many-requests",
                "too many wrong credentials come from your address, so this one was not checked; wait 5 s",
                headers={"Retry-After": "5"},
            )
        try:
            return await self._authenticator.authenticate(secret)
        finally:
            self._checks.leave(subject)

    async def refuse(self, address: str, wait: Wait) -> None:
        """Count a request that is refused, and let its answer wait if there were too many.

        Raises:
            TooManyWaitError: So many of the network wait that this one gets no answer.
        """
        if self._wrong.wait(address):
            # Not counted: a flood that has ended leaves no debt for the rest of the day.
            if not await self._patience.wait(network_of(address), wait):
                raise TooManyWaitError
        else:
            self._wrong.count(address)

    def _is_refused(self, hashed: bytes) -> bool:
        return self._refused.get(hashed, 0.0) > self._clock()

    def _remember(self, hashed: bytes, grant: Grant | None) -> None:
        if grant is None:
            self._known.pop(hashed, None)
            self._refused[hashed] = self._clock() + _REFUSED_SECONDS
            self._refused.move_to_end(hashed)
        else:
            self._refused.pop(hashed, None)
            self._known[hashed] = None
            self._known.move_to_end(hashed)
        for remembered in (self._refused, self._known):
            if len(remembered) > _MOST_REMEMBERED:
                remembered.popitem(last=False)
