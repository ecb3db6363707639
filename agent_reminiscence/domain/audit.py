"""What `verify` and `rebuild` report. No report holds memory text: rows are named by table and key."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel

GraphState = Literal["none", "current", "behind", "unavailable"]


class LedgerFault(FrozenModel):
    """An altered part of the ledger. No rebuild can repair it; a backup or an export can."""

    position: int = Field(description="Position in the stream, from 1; 0 is the whole stream.")
    problem: str


class Drift(FrozenModel):
    """A projection row that differs from a replay of the ledger."""

    table: str = Field(
        description="Table name; neo4j.entity and neo4j.relationship are Neo4j's, compared with PostgreSQL's tables."
    )
    key: str = Field(description="The row's ids, separated by /; '' for the stream's own row.")
    problem: Literal["missing", "unexpected", "changed"]
    columns: tuple[str, ...] = Field(default=(), description="Which columns of a changed row differ.")


class StreamReport(FrozenModel):
    """What was found for one `external_id`."""

    external_id: str
    head: int = Field(description="Position of the last event.")
    chain: str = Field(
        description="Chain of the last event, hexadecimal. Keep it elsewhere to detect later changes to the ledger up"
        " to `head`, even by someone with write access to the database."
    )
    events: int
    erased_events: int
    rows: dict[str, int] = Field(description="Number of rows a replay gives, by table.")
    missing_vectors: int = Field(description="Chunks found by words only, until their vectors are made.")
    faults: tuple[LedgerFault, ...] = ()
    drift: tuple[Drift, ...] = ()
    repaired: bool = Field(default=False, description="Whether the drift was repaired.")
    graph: GraphState = Field(
        default="none",
        description="Neo4j: none configured; current and compared; behind or unavailable, and so not compared. The last"
        " two are not differences: Neo4j catches up by itself.",
    )
    error: str | None = Field(
        default=None,
        description="Why this stream could not be checked; its figures are then empty.",
    )

    @property
    def ok(self) -> bool:
        """Whether the ledger is unaltered and the projections match it, if need be after a repair."""
        return self.error is None and not self.faults and (self.repaired or not self.drift)


class AuditReport(FrozenModel):
    """What was found for all checked streams."""

    started_at: datetime
    seconds: float
    streams: tuple[StreamReport, ...]

    @property
    def ok(self) -> bool:
        """Whether every stream is ok."""
        return all(stream.ok for stream in self.streams)

    @property
    def events(self) -> int:
        """Total number of events replayed."""
        return sum(stream.events for stream in self.streams)


class AuditProgress(FrozenModel):
    """Progress of `verify` or `rebuild`."""

    external_id: str
    streams_done: int
    streams_total: int
    events_done: int = Field(description="Events of the current stream.")
    events_total: int

    @property
    def done(self) -> int:
        """Events of the current stream."""
        return self.events_done

    @property
    def total(self) -> int:
        """How many events the current stream has."""
        return self.events_total

    @property
    def unit(self) -> str:
        """What is counted."""
        return "events"
