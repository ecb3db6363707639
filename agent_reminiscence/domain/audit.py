"""What `verify` and `rebuild` report. No report holds memory text: rows are named by table and key."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

GraphState = Literal["none", "current", "behind", "unavailable"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class LedgerFault(_Frozen):
    """Something in the ledger is not as it was written. No rebuild can mend it; a backup or an export can."""

    position: int = Field(description="Where in the stream, from 1; 0 is the stream as a whole.")
    problem: str


class Drift(_Frozen):
    """A row of a projection that is not what a replay of the ledger gives."""

    table: str = Field(
        description="neo4j.entity and neo4j.relationship are Neo4j's, which is held against PostgreSQL's tables."
    )
    key: str = Field(description="The row's ids, with / between them; '' for the stream's own row.")
    problem: Literal["missing", "unexpected", "changed"]
    columns: tuple[str, ...] = Field(default=(), description="Which columns of a changed row differ.")


class StreamReport(_Frozen):
    """What was found for one `external_id`."""

    external_id: str
    head: int = Field(description="Position of the last event.")
    chain: str = Field(
        description="Chain of the last event, hexadecimal. Kept elsewhere, it shows later whether the ledger up to"
        " `head` is still the same, even to whoever may write to the database."
    )
    events: int
    erased_events: int
    rows: dict[str, int] = Field(description="Rows that a replay gives, by table.")
    missing_vectors: int = Field(description="Chunks that are found by words only until their vectors are made.")
    faults: tuple[LedgerFault, ...] = ()
    drift: tuple[Drift, ...] = ()
    repaired: bool = Field(default=False, description="Whether the drift was mended.")
    graph: GraphState = Field(
        default="none",
        description="Neo4j: none is configured; it was compared and is current; it is behind, or cannot be asked, so"
        " that nothing of it was compared. Neither of the last two is a difference: it catches up by itself.",
    )
    error: str | None = Field(
        default=None,
        description="Why the stream could not be looked at, where others could; the figures are empty then.",
    )

    @property
    def ok(self) -> bool:
        """Whether the ledger is whole and the projections are what it gives, now at the latest."""
        return self.error is None and not self.faults and (self.repaired or not self.drift)


class AuditReport(_Frozen):
    """What was found for all streams that were looked at."""

    started_at: datetime
    seconds: float
    streams: tuple[StreamReport, ...]

    @property
    def ok(self) -> bool:
        """Whether every stream is as its ledger says."""
        return all(stream.ok for stream in self.streams)

    @property
    def events(self) -> int:
        """Events replayed in all."""
        return sum(stream.events for stream in self.streams)


class Progress(_Frozen):
    """How far a long operation has come."""

    external_id: str
    streams_done: int
    streams_total: int
    events_done: int = Field(description="Of the stream at hand.")
    events_total: int
