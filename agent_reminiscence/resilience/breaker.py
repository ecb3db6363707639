"""Remembers that a store is unavailable so that not every call waits to find out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from agent_reminiscence.config.constants import BREAKER_MAX_PAUSE_SECONDS
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    EmbedderAwayError,
    ReminiscenceError,
    StoreTimeoutError,
    StoreUnavailableError,
)

_logger = logging.getLogger("agent_reminiscence.breaker")

# How long the breaker pauses calls to a store that does not answer; doubled each time, up to a limit.
BREAKER_FIRST_PAUSE_SECONDS: Final = 1.0

_AWAY = (TimeoutError, StoreTimeoutError, StoreUnavailableError, CommitUnknownError, EmbedderAwayError)


class Breaker:
    """A circuit breaker: says whether to call a store.

    A failure starts a pause without calls. After it one caller is let through while the others keep waiting: another
    failure starts a pause twice as long, a success ends the outage. All callers report here, so that what one finds out
    spares the others the wait. A store that refuses calls is treated like one that is unavailable.

    Args:
        name: What it guards, for the log.
        timeouts: This many timeouts in a row start a pause; any other failure starts one at once.
        first_pause_seconds: Length of an outage's first pause.
        max_pause_seconds: Longest pause.
        patience_seconds: How long a call to the store may take; after a pause, one caller has this long to itself.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        timeouts: int = 1,
        first_pause_seconds: float = BREAKER_FIRST_PAUSE_SECONDS,
        max_pause_seconds: float = BREAKER_MAX_PAUSE_SECONDS,
        patience_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._timeouts = timeouts
        self._timeouts_in_a_row = 0
        self._first_pause_seconds = first_pause_seconds
        self._max_pause_seconds = max_pause_seconds
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._pause_seconds = 0.0
        self._paused_until = 0.0
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        """Whether the store is known to be away; reading this changes nothing."""
        return self._pause_seconds > 0

    @property
    def pause_left_seconds(self) -> float:
        """How long not to call the store; 0 if it may be called."""
        return max(0.0, self._paused_until - self._clock()) if self.is_open else 0.0

    def allows(self) -> bool:
        """Whether to call the store now; a caller who gets True reports the outcome.

        After a pause, each caller let through starts another wait for the rest, so one that is cancelled and never
        reports does not block the others for good.
        """
        if not self.is_open:
            return True
        if self.pause_left_seconds > 0:
            return False
        self._is_probing = True
        self._paused_until = self._clock() + max(self._pause_seconds, self._patience_seconds)
        return True

    def succeeded(self) -> None:
        """Report that the store answered."""
        self._timeouts_in_a_row = 0
        if self.is_open:
            self._pause_seconds, self._is_probing = 0.0, False
            _logger.info("%s is answering again", self._name)

    def failed(self, error: BaseException) -> None:
        """Report that the store did not answer."""
        # Concurrent calls fail together: one outage, one line in the log.
        if self.pause_left_seconds > 0 and not self._is_probing:
            return
        if not self.is_open and isinstance(error, TimeoutError | StoreTimeoutError):
            self._timeouts_in_a_row += 1
            if self._timeouts_in_a_row < self._timeouts:
                return
        self._is_probing = False
        before = self._pause_seconds
        self._pause_seconds = min(before * 2 or self._first_pause_seconds, self._max_pause_seconds)
        self._paused_until = self._clock() + self._pause_seconds
        # An outage logs one line for each longer pause, however long it lasts.
        level = logging.WARNING if self._pause_seconds > before else logging.DEBUG
        what = "is unavailable" if isinstance(error, _AWAY) else "refuses calls"
        # Messages of our own errors quote nothing.
        why = str(error) if isinstance(error, ReminiscenceError) else ""
        _logger.log(
            level,
            "%s %s; not calling it for %.3g s: %s",
            self._name,
            what,
            self._pause_seconds,
            why or type(error).__name__,
        )
