"""Generations of vectors: those of one model each, of which searches use one."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

GenerationState = Literal["building", "current", "retired", "dropped"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Generation(_Frozen):
    """The vectors of all chunks, made by one model."""

    number: int
    model_name: str
    dimension: int
    state: GenerationState = Field(
        description="building: being filled beside the current one; current: what searches use; retired: replaced, and"
        " kept true until it is dropped; dropped: only its number and its model are still known."
    )
    state_since: datetime
    provider: str | None = Field(
        default=None, description="What any process can make the embedder from; None is an embedder of your own."
    )
    model: str | None = Field(default=None, description="The provider's name of the model; None is its default.")

    @property
    def made_by(self) -> str:
        """The model and the length of its vectors, for messages."""
        return f"{self.model_name!r} with {self.dimension} dimensions"


class GenerationFill(Generation):
    """A generation, and how far it is filled."""

    chunks: int = Field(description="Chunks of all external_ids.")
    vectors_missing: int = Field(description="How many of them have no vectors in this generation.")
    size_bytes: int = Field(description="What its table and indexes take on the disk.")


class ReembedProgress(_Frozen):
    """How far a new generation is."""

    generation: int
    chunks_done: int
    chunks_total: int


class ReembedReport(_Frozen):
    """What a call of `reembed` has done."""

    generation: Generation = Field(description="The new one, current now.")
    replaced: Generation | None = Field(
        description="The one that was current until this call switched; None where an earlier call had."
    )
    streams: int = Field(description="How many external_ids were looked at.")
    vectors_filled: int = Field(description="Chunks that got their vectors in this call.")
    vectors_missing: int = Field(
        description="Chunks that still have none: the model refuses a text of theirs, as the log says of each, or they"
        " were written while the call ended, and who writes them fills them in."
    )
    seconds: float
