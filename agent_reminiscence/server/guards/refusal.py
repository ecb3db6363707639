"""How a guard answers in place of the application."""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

from starlette.types import Receive, Scope, Send

from agent_reminiscence.server.guards.client import Wait
from agent_reminiscence.server.problems import ProblemError, as_response

# So many refusals of one subject do not make each other wait for twice as long.
_FEW: Final = 32
_MOST_TIMES: Final = 10.0
MOST_WAITING: Final = 512
"""Refusals of one subject, or checks of one network, that wait at a time."""
HANG_UP: Final = "agent_reminiscence.hang_up"
"""The extension of ASGI that closes a connection at once: a function without arguments."""

REFUSED: Final = "agent_reminiscence.refused"
"""Where a scope has the kind of the problem with which a guard refused it; the metrics count it."""


class Patience:
    """Lets refusals wait: whoever repeats a call at once would otherwise keep the server busy with refusing.

    The more refusals of a subject wait, the longer each of them does: 300 clients that repeat for ever cost about as
    much as 30. There is an end to it: so many wait that each further one would only take room.

    Args:
        seconds: About how long a refusal waits if few do.
        most: Of one subject that wait at a time.
    """

    def __init__(self, seconds: float, *, most: int = MOST_WAITING) -> None:
        self._seconds = seconds
        self._most = most
        self._waiting: Counter[str] = Counter()

    async def wait(self, subject: str, wait: Wait) -> bool:
        """Wait before a subject is refused; False, at once, if as many as may do wait already.

        Args:
            wait: For the client that is refused.
        """
        if self._waiting[subject] >= self._most:
            return False
        self._waiting[subject] += 1
        times = min(_MOST_TIMES, 1 + self._waiting[subject] / _FEW)
        # Those that are refused together would otherwise come back together.
        seconds = self._seconds * times * random.uniform(0.5, 1.5)  # noqa: S311 - nobody gains by knowing it
        try:
            await wait(seconds)
        finally:
            self._waiting[subject] -= 1
            if not self._waiting[subject]:
                del self._waiting[subject]
        return True


async def refuse(problem: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a problem, whatever the application would have said."""
    scope[REFUSED] = problem.kind
    await as_response(problem)(scope, receive, send)


async def hang_up(problem: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
    """Close the connection without an answer, under `serve`; under another server, after a problem."""
    close = scope.get("extensions", {}).get(HANG_UP)
    if close is not None:
        close()
    problem.headers["Connection"] = "close"
    # Nobody gets it if the connection is closed; it is counted as what it would have been.
    await refuse(problem, scope, receive, send)
