"""How many requests a credential may make."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from ipaddress import ip_address, ip_network
from typing import Final

from agent_reminiscence.server.access.grants import Grant
from agent_reminiscence.server.problems import ProblemError

# With more names in use than this, those that were used least recently start again with a full bucket.
_MOST_NAMES: Final = 100_000
_MINUTE: Final = 60.0
_WRONG_A_MINUTE: Final = 10
# Whoever has one address of IPv6 has all that begin like it.
_IPV6_PREFIX: Final = 64


class _Buckets:
    """A bucket for each name: whatever is counted takes one token, and it fills evenly, with one minute's tokens.

    Each process counts for itself. A bucket is stored as the one time at which it will be full again (the generic cell
    rate algorithm).

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, name: str, limit: int) -> int:
        """Seconds until there is a token; 0 if there is one."""
        now = self._clock()
        seconds = max(now, self._full_at.get(name, now)) + _MINUTE / limit - now - _MINUTE
        # Sums of fractions of a minute are not exact.
        return math.ceil(seconds) if seconds > 1e-6 else 0

    def take(self, name: str, limit: int) -> None:
        """Take a token."""
        now = self._clock()
        self._full_at[name] = max(now, self._full_at.get(name, now)) + _MINUTE / limit
        self._full_at.move_to_end(name)
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop the bucket that was used least recently if it is full again, or if there are too many."""
        name, full_at = next(iter(self._full_at.items()))
        if full_at <= now or len(self._full_at) > _MOST_NAMES:
            del self._full_at[name]


class RateLimiter:
    """Counts the requests of each credential.

    Args:
        requests_per_minute: For credentials without a limit of their own; None is no limit.
        clock: Seconds that never go back.
    """

    def __init__(self, requests_per_minute: int | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._default = requests_per_minute
        self._buckets = _Buckets(clock)

    def take(self, grant: Grant) -> None:
        """Count one request.

        Raises:
            ProblemError: 429 if the bucket is empty or the day's requests are used up; this one does not count.
        """
        limit, day = grant.requests_per_minute or self._default, grant.day
        if limit is not None and (seconds := self._buckets.wait(grant.subject, limit)):
            raise _too_many(f"{limit:,} requests a minute", seconds)
        if day is not None and day.left <= 0:
            raise _too_many(f"{day.limit:,} requests a day", _seconds_to_midnight())
        if limit is not None:
            self._buckets.take(grant.subject, limit)
        if day is not None:
            day.take()


def _too_many(allowed: str, seconds: int) -> ProblemError:
    return ProblemError(
        429,
        "too-many-requests",
        f"this credential may make {allowed}; wait {seconds} s",
        headers={"Retry-After": str(seconds)},
    )


def _seconds_to_midnight() -> int:
    """Until the next day begins in UTC, rounded up."""
    now = datetime.now(UTC)
    midnight = datetime.combine(now.date() + timedelta(days=1), time_of_day.min, UTC)
    return math.ceil((midnight - now).total_seconds())


class WrongAttempts:
    """Counts the wrong secrets that come from each address.

    Args:
        per_minute: How many are allowed.
        clock: Seconds that never go back.
    """

    def __init__(self, per_minute: int = _WRONG_A_MINUTE, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._buckets = _Buckets(clock)

    def wait(self, address: str) -> int:
        """Seconds until another one may be tried; 0 is at once."""
        return self._buckets.wait(network_of(address), self._per_minute)

    def count(self, address: str) -> None:
        """Count a wrong one."""
        self._buckets.take(network_of(address), self._per_minute)


def network_of(address: str) -> str:
    """What an address is counted as."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return address if parsed.version == 4 else str(ip_network((parsed.packed, _IPV6_PREFIX), strict=False))
