"""Vector generations: the vectors of one model each; searches use one generation."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel

GenerationState = Literal["building", "current", "retired", "dropped"]


class Generation(FrozenModel):
    """A vector generation: the vectors of all chunks, made by one model."""

    number: int
    model_name: str
    dimension: int
    state: GenerationState = Field(
        description="building: being filled alongside the current one; current: used by searches; retired: replaced,"
        " but kept up to date until dropped; dropped: only its number and model are still known."
    )
    state_since: datetime
    provider: str | None = Field(
        default=None, description="Provider from which any process can create the embedder; None: your own embedder."
    )
    model: str | None = Field(default=None, description="The provider's name for the model; None: its default.")

    @property
    def made_by(self) -> str:
        """The model and its vector dimension, for messages."""
        return f"{self.model_name!r} with {self.dimension} dimensions"


class GenerationFill(Generation):
    """A generation, and how complete it is."""

    chunks: int = Field(description="Chunks of all external_ids.")
    vectors_missing: int = Field(description="Those of them without vectors in this generation.")
    size_bytes: int = Field(description="Disk space of its table and indexes.")


class ReembedProgress(FrozenModel):
    """Progress of building a generation."""

    generation: int
    chunks_done: int
    chunks_total: int

    @property
    def done(self) -> int:
        """Chunks that have their vector."""
        return self.chunks_done

    @property
    def total(self) -> int:
        """How many chunks there are."""
        return self.chunks_total

    @property
    def unit(self) -> str:
        """What is counted."""
        return "chunks"


class ReembedReport(FrozenModel):
    """What a call to `reembed` did."""

    generation: Generation = Field(description="The new generation, now current.")
    replaced: Generation | None = Field(
        description="The generation this call replaced; None if an earlier call already switched."
    )
    streams: int = Field(description="Number of external_ids processed.")
    vectors_filled: int = Field(description="Chunks that got their vectors in this call.")
    vectors_missing: int = Field(
        description="Chunks still without vectors: the model refused one of their texts (the log names each), or they"
        " were written as the call ended and their writer fills them in."
    )
    seconds: float
