"""CPU time in addition to wall time: on a shared machine, only CPU time is comparable between runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]

from tests.support.neo4j_server import Neo4jServer


@dataclass(slots=True)
class Effort:
    """What a part of a run took: seconds, and seconds of a processor by who used them."""

    seconds: float = 0.0
    processor_seconds: dict[str, float] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """The figures as they are printed."""
        rounded = {who: round(seconds, 1) for who, seconds in self.processor_seconds.items()}
        return {"seconds": round(self.seconds, 1), "processor_seconds": rounded}


@dataclass(frozen=True, slots=True)
class Meter:
    """Reads the clocks of the client and of both servers.

    Args:
        backend: Process id of one connection of PostgreSQL's.
    """

    backend: int
    neo4j: Neo4jServer

    @contextmanager
    def measured(self) -> Iterator[Effort]:
        """What the block takes; known at its end."""
        effort = Effort()
        before, started = self._read(), time.perf_counter()
        yield effort
        effort.seconds = time.perf_counter() - started
        effort.processor_seconds = {who: seconds - before[who] for who, seconds in self._read().items()}

    def _read(self) -> dict[str, float]:
        postmaster = psutil.Process(self.backend).parent()
        assert postmaster is not None
        # Those that have ended are in the postmaster's own account.
        reaped = postmaster.cpu_times()
        server = _processor_seconds(postmaster) + reaped.children_user + reaped.children_system
        return {
            "client": time.process_time(),
            "PostgreSQL": float(server + sum(map(_processor_seconds, postmaster.children()))),
            "Neo4j": _processor_seconds(psutil.Process(self.neo4j.pid)),
        }


def _processor_seconds(process: Any) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
