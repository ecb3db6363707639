"""The result of asking a model for a reflection."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.domain.payloads import ModelUsage


class ReflectionReport(FrozenModel):
    """What came of a reflection."""

    outcome: Literal["not_due", "nothing", "written", "overtaken"] = Field(
        description="`not_due`: no model was called. `nothing`: it concluded nothing new. `overtaken`: the agent has"
        " reflected meanwhile, and what the model wrote was dropped."
    )
    events: tuple[Event, ...] = Field(
        default=(),
        description="The reflections: those written, one for each belief, or the one that was written meanwhile.",
    )
    usage: ModelUsage | None = Field(default=None, description="None if no model was called.")

    @property
    def event(self) -> Event | None:
        """The first of the reflections."""
        return self.events[0] if self.events else None
