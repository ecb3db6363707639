"""What one `external_id` holds, what is waiting for it, and what models were asked for."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from agent_reminiscence.domain.event import ModelUsage


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class TierUsage(_Frozen):
    """The chunks of one tier."""

    live_chunks: int = Field(default=0, description="Chunks that the searches of now see.")
    ended_chunks: int = Field(default=0, description="Chunks that only searches of earlier times see.")
    text_bytes: int = Field(default=0, description="Text of the live chunks in bytes, as UTF-8.")
    tokens: int = Field(default=0, description="Text of the live chunks in tokens.")


class MemoryUsage(_Frozen):
    """What one `external_id` holds; all zeros for one that holds nothing."""

    external_id: str
    active: TierUsage
    shortterm: TierUsage
    longterm: TierUsage
    active_memories: int
    archived_memories: int
    shortterm_memories: int = Field(description="Memories that have been consolidated.")
    events: int = Field(description="Events of the ledger.")
    vectors_missing: int = Field(description="Chunks that are found by words only until their vectors are made.")
    entities: int = Field(description="What memories name, now or at some time; merged ones count once.")
    relationships: int = Field(description="Between them, now or at some time.")
    graph_lag: int = Field(description="How many events Neo4j is behind in the graph; 0 where none is configured.")
    graph_store: str | None = Field(
        description="Which Neo4j has followed last, by the id that it gave itself; None: none has."
    )
    work_waiting: int
    work_running: int
    work_failed: int = Field(description="Work that was given up; memory.admin.jobs says why.")
    models: tuple[ModelUsage, ...] = Field(default=(), description="What models were asked for so far, by model.")

    @property
    def live_chunks(self) -> int:
        """Live chunks of all tiers: what `max_chunks` limits."""
        return self.active.live_chunks + self.shortterm.live_chunks + self.longterm.live_chunks
