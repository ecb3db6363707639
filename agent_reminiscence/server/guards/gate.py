"""Lets in so many at a time, each subject up to its share, and lets others wait in turn, but not for long."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class _Turn:
    """One call that waits: its price, and whether it was given a place."""

    price: int
    given: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Gate:
    """Places for calls, and a queue for them.

    A subject has no more places than its share, so there are places for others, whatever it does. Those that wait are
    served round robin: after one of a subject, one of each other that waits. When the queue is full, a call of a
    subject that has fewer in it than another takes the place of that one's last.

    A queue without a bound turns too much load into waiting: everyone is served, and everyone too late, for work that
    its clients have long given up.

    Args:
        places: Calls at a time.
        share: Of these, for one subject; None is all.
        queue: Calls that may wait for a place.
        wait_seconds: How long each may wait.
    """

    def __init__(self, places: int, *, share: int | None = None, queue: int, wait_seconds: float) -> None:
        self.taken = 0
        self.waiting = 0
        self._places = places
        self._share = places if share is None else min(share, places)
        self._queue = queue
        self._wait_seconds = wait_seconds
        # What the calls of each subject that have a place cost together.
        self._held: Counter[str] = Counter()
        # By subject, the one whose turn is next first.
        self._lines: OrderedDict[str, deque[_Turn]] = OrderedDict()

    async def enter(self, subject: str, price: int = 1) -> bool:
        """Take a place, and `leave` it later; False if there was none, and none became free in time.

        Args:
            price: How many places of its subject's share a call takes, all of them at most. Of the others it takes one.
        """
        price = min(price, self._share)
        # Whoever waits has no place that is free for them, or would have it.
        if subject not in self._lines and self._fits(subject, price):
            self._give(subject, price)
            return True
        if self.waiting >= self._queue and not self._push_out(subject):
            return False
        turn = _Turn(price)
        self._lines.setdefault(subject, deque()).append(turn)
        self.waiting += 1
        expiry = asyncio.get_running_loop().call_later(self._wait_seconds, self._refuse, subject, turn)
        try:
            return await turn.given
        except asyncio.CancelledError:
            if turn.given.cancelled():
                self._remove(subject, turn)
                self._give_to_next()
            elif turn.given.result():
                # It was given a place at the moment of its end.
                self.leave(subject, price)
            raise
        finally:
            expiry.cancel()

    def leave(self, subject: str, price: int = 1) -> None:
        """Give a place back, to whoever's turn is next; with what it was taken for."""
        self.taken -= 1
        self._held[subject] -= min(price, self._share)
        if not self._held[subject]:
            del self._held[subject]
        self._give_to_next()

    def _give_to_next(self) -> None:
        """Give free places to those whose turn it is, after a place or the first turn of a line has gone.

        What stood behind that turn may cost less, and fit.
        """
        while (following := self._next()) is not None:
            turn = self._lines[following][0]
            self._remove(following, turn)
            if following in self._lines:
                self._lines.move_to_end(following)
            if not turn.given.done():
                self._give(following, turn.price)
                turn.given.set_result(True)

    def _fits(self, subject: str, price: int) -> bool:
        return self.taken < self._places and self._held[subject] + price <= self._share

    def _give(self, subject: str, price: int) -> None:
        self.taken += 1
        self._held[subject] += price

    def _next(self) -> str | None:
        """The subject whose turn it is, if there is a place for it."""
        if self.taken >= self._places:
            return None
        return next((subject for subject, line in self._lines.items() if self._fits(subject, line[0].price)), None)

    def _push_out(self, subject: str) -> bool:
        """Refuse the last call of the subject that has most of them waiting, if those are more than this one's."""
        if not self._lines:
            return False
        most = max(self._lines, key=lambda one: len(self._lines[one]))
        if len(self._lines[most]) <= len(self._lines.get(subject, ())) + 1:
            return False
        self._refuse(most, self._lines[most][-1])
        return True

    def _refuse(self, subject: str, turn: _Turn) -> None:
        if not turn.given.done():
            self._remove(subject, turn)
            turn.given.set_result(False)
            self._give_to_next()

    def _remove(self, subject: str, turn: _Turn) -> None:
        line = self._lines.get(subject)
        if line is None:
            return
        with suppress(ValueError):
            line.remove(turn)
            self.waiting -= 1
        if not line:
            del self._lines[subject]
