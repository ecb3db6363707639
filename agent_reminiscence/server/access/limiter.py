"""How many requests a credential may make."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from agent_reminiscence.server.access.grants import Grant
from agent_reminiscence.server.problems import ProblemError

# With more credentials in use than this, those that were used least recently begin anew with a full bucket.
_MOST_SUBJECTS: Final = 100_000
_MINUTE: Final = 60.0


class RateLimiter:
    """A bucket for each credential: a request takes one token, and the bucket fills evenly, with one minute's tokens.

    Each process counts for itself. A bucket is stored as the one time at which it will be full again (the generic cell
    rate algorithm).

    Args:
        requests_per_minute: For credentials without a limit of their own; None is no limit.
        clock: Seconds that never go back.
    """

    def __init__(self, requests_per_minute: int | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._default = requests_per_minute
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def take(self, grant: Grant) -> None:
        """Count one request.

        Raises:
            ProblemError: 429 if the bucket is empty; the request does not count.
        """
        limit = grant.requests_per_minute or self._default
        if limit is None:
            return
        now = self._clock()
        full_at = max(now, self._full_at.get(grant.subject, now)) + _MINUTE / limit
        wait = full_at - now - _MINUTE
        # Sums of fractions of a minute are not exact.
        if wait > 1e-6:
            seconds = math.ceil(wait)
            raise ProblemError(
                429,
                "too-many-requests",
                f"this credential may make {limit:,} requests a minute; wait {seconds} s",
                headers={"Retry-After": str(seconds)},
            )
        self._full_at[grant.subject] = full_at
        self._full_at.move_to_end(grant.subject)
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop the bucket that was used least recently if it is full again, or if there are too many."""
        subject, full_at = next(iter(self._full_at.items()))
        if full_at <= now or len(self._full_at) > _MOST_SUBJECTS:
            del self._full_at[subject]
