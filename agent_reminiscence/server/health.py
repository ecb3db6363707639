"""Whether the server is alive, and whether it should be given requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from fastapi import FastAPI

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.work import Health
from agent_reminiscence.server.problems import ProblemError

# Anybody may ask, and as often as they like.
_KEPT_SECONDS = 1.0


class HealthCheck:
    """Asks the memory how it is, for everyone who wants to know at the same time.

    Args:
        timeout_seconds: How long the store may take to answer.
        clock: Seconds that never go back.
    """

    def __init__(
        self, memory: AgentMem, *, timeout_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._memory = memory
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._asking = asyncio.Lock()
        self._last: Health | None = None
        self._looked_at = 0.0

    async def look(self) -> Health:
        """How the memory is, as of a second ago at most."""
        async with self._asking:
            if self._last is None or self._clock() - self._looked_at > _KEPT_SECONDS:
                self._last = await self._memory.admin.health(timeout_seconds=self._timeout_seconds)
                self._looked_at = self._clock()
            return self._last


def add_health(app: FastAPI, check: HealthCheck, stopping: asyncio.Event) -> None:
    """Add the paths that tell whoever started this server how it is. They are open to all, and name nothing else."""

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> dict[str, str]:
        """Requests can be answered, and the work that follows writes gets done."""
        reasons = ["stopping"] if stopping.is_set() else list((await check.look()).problems)
        if reasons:
            raise ProblemError(
                503,
                "not-ready",
                f"the server is not ready: {', '.join(reasons)}",
                headers={"Retry-After": "1"},
                extra={"reasons": reasons},
            )
        return {"status": "ready"}
