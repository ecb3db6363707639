"""The result of reviewing a stream's chunks."""

from __future__ import annotations

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel


class LifecycleReport(FrozenModel):
    """What `memory.admin.review` did for one `external_id`, in chunks unless it says otherwise."""

    external_id: str
    promoted: int = Field(description="Became longterm because they were recalled often enough.")
    expired: int = Field(description="Ended because they were untouched for their tier's time to live.")
    pruned: int = Field(description="Ended as the least important because there were more than max_chunks.")
    memories_expired: int = Field(default=0, description="Memories whose `expires_at` had come.")
    memories_erased: int = Field(default=0, description='Memories erased for being over; only with retention="erase".')
