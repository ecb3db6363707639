"""How a run of an agent ended, for which memories were recalled."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field


class RunOutcome(BaseModel):
    """How a run ended, as it was recorded: what `memory.admin.report_outcome` returns."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    success: bool
    note: str | None = Field(description="The remark that was recorded with it, redacted.")
    chunks: int = Field(description="The number of passages for which it counts: those recalled in the run before.")
    recorded_at: datetime
