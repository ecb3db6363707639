"""Work that follows writes: what is queued, what became of it, and what finally failed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field


class Job(BaseModel):
    """Work of one `external_id` that waits, runs, or was given up.

    A job stands for whatever is due when it starts, so there is at most one that waits for each `external_id`.
    """

    model_config = ConfigDict(frozen=True)

    external_id: str
    state: Literal["waiting", "running", "failed"]
    job_id: int | None = Field(default=None, description="Procrastinate's number; None for work that was given up.")
    queued_at: datetime | None = None
    scheduled_at: datetime | None = Field(default=None, description="Not before this moment; None is at once.")
    started_at: datetime | None = None
    failed_attempts: int = Field(default=0, description="How often in a row it has failed so far.")
    failed_at: datetime | None = Field(default=None, description="Since when it is not tried again by itself.")
    error: str | None = Field(default=None, description="Why the last attempt failed, without any text of memories.")


class WorkReport(BaseModel):
    """What one run of a stream's work did."""

    model_config = ConfigDict(frozen=True)

    external_id: str
    consolidated: tuple[UUID, ...] = Field(default=(), description="Memories of which a version was consolidated.")
    promoted: int = Field(default=0, description="Chunks that became longterm.")
    expired: int = Field(default=0, description="Chunks that ended at the end of their time to live.")
    pruned: int = Field(default=0, description="Chunks that ended because there were too many.")
    vectors_filled: int = Field(default=0, description="Chunks that got their vectors.")
    graph_followed: bool | None = Field(
        default=None,
        description="Whether Neo4j holds the graph up to the end of the ledger now; where not, it is away, and follows"
        " when it is back. None: no Neo4j is configured.",
    )
    error: str | None = Field(default=None, description="What failed; it is tried again later.")
    error_type: str | None = Field(default=None, description="The class of that error.")
