"""Remembers that a store is away, so that not every call waits to find out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from agent_reminiscence.config.constants import BREAKER_FIRST_PAUSE_SECONDS, BREAKER_MAX_PAUSE_SECONDS
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    EmbedderAwayError,
    ReminiscenceError,
    StoreTimeoutError,
    StoreUnavailableError,
)

_logger = logging.getLogger("agent_reminiscence.breaker")

_AWAY = (TimeoutError, StoreTimeoutError, StoreUnavailableError, CommitUnknownError, EmbedderAwayError)


class Breaker:
    """Says whether a store is worth asking.

    A failure begins a pause, in which it is not. After it one caller is let through, and the others wait for what
    becomes of that: another failure begins a pause twice as long, a success ends the outage. Everyone who asks the
    store reports here, whoever they are: what one has found out spares the others the waiting. One that refuses is left
    alone like one that is away.

    Args:
        name: What it guards, for the log.
        timeouts: So many in a row begin a pause; each other failure does at once.
        first_pause_seconds: How long the first pause of an outage is.
        max_pause_seconds: How long a pause may become.
        patience_seconds: How long a question to the store may take. For so long after a pause one caller asks alone.
        clock: Seconds that only ever grow.
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
        """Whether the store is known to be away; asking changes nothing."""
        return self._pause_seconds > 0

    @property
    def pause_left_seconds(self) -> float:
        """How long the store is to be left alone; 0 where it may be asked."""
        return max(0.0, self._paused_until - self._clock()) if self.is_open else 0.0

    def allows(self) -> bool:
        """Whether to ask the store now; who is told so reports what became of it.

        Where a pause is over, the next to be let through comes after another one: a caller who never reports, because
        it was cancelled, keeps nobody away for good.
        """
        if not self.is_open:
            return True
        if self.pause_left_seconds > 0:
            return False
        self._is_probing = True
        self._paused_until = self._clock() + max(self._pause_seconds, self._patience_seconds)
        return True

    def succeeded(self) -> None:
        """The store has answered."""
        self._timeouts_in_a_row = 0
        if self.is_open:
            self._pause_seconds, self._is_probing = 0.0, False
            _logger.info("%s answers again", self._name)

    def failed(self, error: BaseException) -> None:
        """The store has not answered."""
        # Calls that were under way together fail together, which is one outage and one line in the log.
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
        # However long an outage is, it has a line for each longer pause and no more.
        level = logging.WARNING if self._pause_seconds > before else logging.DEBUG
        what = "is away" if isinstance(error, _AWAY) else "refuses"
        # The words of our own errors quote nothing.
        why = str(error) if isinstance(error, ReminiscenceError) else ""
        _logger.log(
            level,
            "%s %s and is left alone for %.3g s: %s",
            self._name,
            what,
            self._pause_seconds,
            why or type(error).__name__,
        )
