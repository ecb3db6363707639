"""The result of asking a model for a reflection."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.payloads import ModelUsage


class ReflectionReport(BaseModel):
    """What came of a reflection."""

    model_config = ConfigDict(frozen=True)

    outcome: Literal["not_due", "nothing", "written", "overtaken"] = Field(
        description="`not_due`: no model was called. `nothing`: it concluded nothing new. `overtaken`: the agent has"
        " reflected meanwhile, and what the model wrote was dropped."
    )
    event: Event | None = Field(
        default=None, description="The reflection: the one written, or the one that was written meanwhile."
    )
    usage: ModelUsage | None = Field(default=None, description="None if no model was called.")
