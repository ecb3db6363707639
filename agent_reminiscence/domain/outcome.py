"""How a run of an agent ended, for which memories were recalled."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel


class RunOutcome(FrozenModel):
    """How a run ended, as it was recorded: what `memory.admin.report_outcome` returns."""

    run_id: str
    success: bool
    note: str | None = Field(description="The remark that was recorded with it, redacted.")
    chunks: int = Field(description="The number of passages for which it counts: those recalled in the run before.")
    recorded_at: datetime
