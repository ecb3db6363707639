"""What one `external_id` holds, its pending work, and its model usage."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.domain.payloads import ModelUsage

# For how many days questions are counted: a year can be compared with the one before.
KEPT_DAYS: Final = 800
# Upper bounds in seconds of what is counted together; whatever took longer comes last.
DURATION_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RecallDay(FrozenModel):
    """The questions that were answered on one day, in UTC."""

    day: date
    answered: int = Field(description="Questions that were answered, with hits or without.")
    found: int = Field(description="Those whose best hit fits: `RetrievalResult.found`.")
    durations: tuple[int, ...] = Field(
        description="How many took up to 5, 10, 25, 50, 100, 250, 500 ms, 1, 2.5, 5, 10 s, and longer."
    )

    @property
    def found_share(self) -> float | None:
        """The share that found something, from 0 to 1; None if no question was answered."""
        return self.found / self.answered if self.answered else None

    def quantile(self, share: float) -> float | None:
        """How many seconds this share of the questions took at most, from the bounds between which it lies.

        Args:
            share: From 0 to 1, such as 0.95.

        Returns:
            An estimate, at most 10; None if no question was answered.
        """
        wanted, before = share * sum(self.durations), 0
        for number, (low, high) in enumerate(zip((0.0, *DURATION_BOUNDS), DURATION_BOUNDS, strict=False)):
            count = self.durations[number]
            if count and before + count >= wanted:
                return low + (high - low) * (wanted - before) / count
            before += count
        return DURATION_BOUNDS[-1] if before < sum(self.durations) else None


class TierUsage(FrozenModel):
    """The chunks of one tier."""

    live_chunks: int = Field(default=0, description="Chunks that current searches see.")
    ended_chunks: int = Field(default=0, description="Chunks that only searches of earlier times see.")
    text_bytes: int = Field(default=0, description="Size of the live chunks' text in bytes, as UTF-8.")
    tokens: int = Field(default=0, description="Size of the live chunks' text in tokens.")


class ModelSpending(ModelUsage):
    """What one model was used for so far, and what that costs."""

    cost_usd: float | None = Field(
        default=None, description="At today's price, in US dollars; None: no price is known for the model."
    )


class MemoryUsage(FrozenModel):
    """What one `external_id` holds; all zeros if it holds nothing."""

    external_id: str
    active: TierUsage
    shortterm: TierUsage
    longterm: TierUsage
    active_memories: int
    archived_memories: int
    shortterm_memories: int = Field(description="Memories that have been consolidated.")
    profiles: int = Field(description="Standing summaries that are kept up to date.")
    events: int = Field(description="Events in the ledger.")
    vectors_missing: int = Field(description="Chunks found by words only, until their vectors are made.")
    entities: int = Field(description="Entities that memories name or have named; merged ones count once.")
    relationships: int = Field(description="Present and past relationships between them.")
    graph_lag: int = Field(description="Number of events Neo4j's graph is behind; 0 if no Neo4j is configured.")
    graph_store: str | None = Field(
        description="Self-assigned id of the Neo4j that followed the ledger last; None: none has."
    )
    work_waiting: int
    work_running: int
    work_failed: int = Field(description="Work that was given up; memory.admin.jobs says why.")
    models: tuple[ModelSpending, ...] = Field(default=(), description="Total usage so far, by model.")

    @property
    def cost_usd(self) -> float | None:
        """What the models cost so far, in US dollars; None if the price of one of them is unknown."""
        costs = [model.cost_usd for model in self.models]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def live_chunks(self) -> int:
        """Live chunks of all tiers, the number limited by `max_chunks`."""
        return self.active.live_chunks + self.shortterm.live_chunks + self.longterm.live_chunks


class TenantOverview(FrozenModel):
    """One `external_id` of a database, and what is known of it without reading its memories."""

    external_id: str
    head: int = Field(description="Position of its last event; 0 never occurs.")
    last_recorded_at: datetime = Field(description="When that event was recorded.")
    live_chunks: int = Field(description="Chunks that a search may find now.")
