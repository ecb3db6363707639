"""What this process's worker is doing, for whoever asks how it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_reminiscence.domain.work import WorkReport


class WorkerWatch:
    """What a worker has last done.

    Attributes:
        is_connected: Whether it takes jobs.
        trouble: Why it is restarting; None if it is not.
        failing: The tenant for whom it worked last, if that failed.
    """

    def __init__(self) -> None:
        self.is_connected = False
        self.trouble: str | None = None
        self.failing: str | None = None

    def connected(self) -> None:
        """It takes jobs from now on."""
        self.is_connected, self.trouble = True, None

    def lost(self, trouble: str) -> None:
        """It takes no jobs until it has restarted."""
        self.is_connected, self.trouble = False, trouble

    def ran(self, report: WorkReport) -> None:
        """It has done a tenant's work, or has failed to."""
        self.failing = None if report.error is None else report.external_id
