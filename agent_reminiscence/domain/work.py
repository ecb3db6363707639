"""Work that follows writes: queued jobs, their results, final failures, and whether all of it works."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel


class Job(FrozenModel):
    """Work of one `external_id` that is waiting, running, or given up.

    A job covers whatever is due when it starts, so each `external_id` has at most one waiting job.
    """

    external_id: str
    state: Literal["waiting", "running", "failed"]
    job_id: int | None = Field(
        default=None,
        description="Procrastinate's job id; None for work that was given up, or that a worker has yet to queue.",
    )
    queued_at: datetime | None = None
    scheduled_at: datetime | None = Field(default=None, description="Earliest start; None: immediately.")
    started_at: datetime | None = None
    failed_attempts: int = Field(default=0, description="Number of consecutive failures so far.")
    failed_at: datetime | None = Field(default=None, description="When it was given up; it is not retried by itself.")
    error: str | None = Field(default=None, description="Why the last attempt failed, without memory text.")
    vectors_missing: int = Field(
        default=0,
        description="Chunks of this external_id without vectors, because the embedder refused their texts or was"
        " unavailable; as of the last attempt. Searches find them by their words.",
    )
    vectors_missing_since: datetime | None = Field(
        default=None, description="Since when vectors have been missing; None if none are."
    )
    vectors_error: str | None = Field(
        default=None, description="Why they could not be made at the last attempt, without memory text."
    )


class WorkReport(FrozenModel):
    """What one run of a stream's work did."""

    external_id: str
    consolidated: tuple[UUID, ...] = Field(default=(), description="Memories that were consolidated.")
    promoted: int = Field(default=0, description="Chunks that became longterm.")
    expired: int = Field(default=0, description="Chunks that reached the end of their time to live.")
    pruned: int = Field(default=0, description="Chunks that ended because there were too many.")
    memories_expired: int = Field(default=0, description="Memories whose `expires_at` had come.")
    memories_erased: int = Field(default=0, description='Memories erased for being over; only with retention="erase".')
    profiles: tuple[str, ...] = Field(default=(), description="Standing summaries that got a new text.")
    conversations_read: int = Field(
        default=0, description="Conversations recorded with `remember=True` that a model has read."
    )
    vectors_filled: int = Field(default=0, description="Chunks that got their vectors.")
    graph_followed: bool | None = Field(
        default=None,
        description="Whether Neo4j's graph is now up to date with the ledger; if not, Neo4j is unavailable and catches"
        " up when it is back. None: no Neo4j is configured.",
    )
    error: str | None = Field(default=None, description="What failed; it is retried later.")
    error_type: str | None = Field(default=None, description="The class of that error.")


class JobCounts(FrozenModel):
    """How much work of all tenants waits, runs, and was given up."""

    waiting: int = Field(default=0, description="Jobs that wait, also those that wait for a retry.")
    running: int = 0
    failed: int = Field(default=0, description="Tenants whose work was given up; it is not retried by itself.")
    next_waits_seconds: float = Field(
        default=0.0,
        description="For how long the next job could have started. It grows while no worker runs anywhere, or all of"
        " them have too much to do.",
    )


class MissingVectors(FrozenModel):
    """Chunks of all tenants whose vectors could not be made, as of the last attempt of each."""

    external_ids: int = Field(description="How many tenants have such chunks.")
    chunks: int = Field(description="How many there are; 0 if only headings lack vectors.")
    since: datetime = Field(description="Since when the first of these tenants has lacked vectors.")
    error: str | None = Field(
        description="Why that tenant's could not be made at the last attempt, without memory text."
    )


WorkerState = Literal["off", "starting", "working", "restarting", "stopped"]


class Health(FrozenModel):
    """Whether a memory works, as one process sees it. No text of a memory is in it."""

    store_error: str | None = Field(default=None, description="Why the store has not answered; None if it has.")
    worker: WorkerState = Field(
        description="This process's worker: `off` if the settings want none here, `restarting` after it failed."
    )
    worker_error: str | None = Field(default=None, description="Why the worker is restarting.")
    work_error: str | None = Field(
        default=None,
        description="Why the work that this process's worker did last has failed, if it is still to be tried again.",
    )
    jobs: JobCounts | None = Field(default=None, description="None if the store has not answered.")
    vectors: MissingVectors | None = Field(
        default=None,
        description="Chunks that lack vectors; None if none do, or the store has not answered. Not among `problems`:"
        " they are found by their words, and one tenant's text must not end the service for all.",
    )

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not work: `store`, `worker` (this process has none although it should), `work` (it fails)."""
        return tuple(
            name
            for name, is_wrong in (
                ("store", self.store_error is not None),
                ("worker", self.worker not in ("off", "working")),
                ("work", self.work_error is not None),
            )
            if is_wrong
        )

    @property
    def is_ready(self) -> bool:
        """Whether everything works."""
        return not self.problems
