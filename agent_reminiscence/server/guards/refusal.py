"""How a guard answers in place of the application."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from agent_reminiscence.server.problems import ProblemError, as_response

# So many refusals of one subject do not make each other wait for twice as long.
_FEW: Final = 32
_MOST_TIMES: Final = 10.0

REFUSED: Final = "agent_reminiscence.refused"
"""Where a scope has the kind of the problem with which a guard refused it; the metrics count it."""


class Patience:
    """Lets refusals wait: whoever repeats a call at once would otherwise keep the server busy with refusing.

    The more refusals of a subject wait, the longer each of them does: 300 clients that repeat for ever cost about as
    much as 30.

    Args:
        seconds: About how long a refusal waits if few do.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: Counter[str] = Counter()

    async def wait(self, subject: str, *, stopping: asyncio.Event | None = None) -> None:
        """Wait before a subject is refused.

        Args:
            stopping: Ends the waiting when it is set.
        """
        self._waiting[subject] += 1
        times = min(_MOST_TIMES, 1 + self._waiting[subject] / _FEW)
        # Those that are refused together would otherwise come back together.
        seconds = self._seconds * times * random.uniform(0.5, 1.5)  # noqa: S311 - nobody gains by knowing it
        try:
            if stopping is None:
                await asyncio.sleep(seconds)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await stopping.wait()
        finally:
            self._waiting[subject] -= 1
            if not self._waiting[subject]:
                del self._waiting[subject]


async def refuse(problem: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a problem, whatever the application would have said."""
    scope[REFUSED] = problem.kind
    await as_response(problem)(scope, receive, send)
