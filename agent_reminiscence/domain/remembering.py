"""The result of remembering a conversation."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.domain.payloads import ModelUsage

type OnFailure = Literal["raise", "record"]
"""What `remember` does where its model gives no usable answer: raise, or record the turns as they were said."""


class RememberedChange(FrozenModel):
    """A change proposed by a model, and its outcome."""

    outcome: Literal["created", "updated", "proposed", "refused"] = Field(
        description="`proposed`: the call was a dry run. `refused`: `reason` says why."
    )
    title: str
    content: str
    why: str = Field(description="The model's reason.")
    messages: tuple[int, ...] = Field(description="Indexes, from 0, of the passed messages it is based on.")
    memory_id: UUID | None = Field(default=None, description="None for a memory that was not created.")
    version: int | None = Field(default=None, description="The version this change created.")
    reason: str | None = None


class DeletionRequest(FrozenModel):
    """Something the user asked to have forgotten; nothing was deleted."""

    what: str = Field(description="What to forget, in the model's words.")
    memory_ids: tuple[UUID, ...] = Field(
        description="The active memories that hold it, by the model's reading; to be passed to `erase` or"
        " `admin.archive`, or changed."
    )
    message: int = Field(description="Index, from 0, of the passed message in which the user asked.")
    is_replaced: bool = Field(
        default=False,
        description="Whether this call also changed lines of each of these memories to what is true now, or would in a"
        " dry run: what to forget may then be left only in their earlier versions.",
    )


class RememberReport(FrozenModel):
    """What was remembered from a conversation, and why."""

    external_id: str
    changes: tuple[RememberedChange, ...] = ()
    deletion_requests: tuple[DeletionRequest, ...] = Field(
        default=(), description="What the user asked to have forgotten, for you to decide on."
    )
    why: str = Field(description="The model's overall reason, or why no model was called.")
    messages: int = Field(description="Number of texts examined; a message may hold several or none.")
    recalled_messages: int = Field(
        description="Number of these that only quote recalled memory; they are not remembered again."
    )
    off_record_messages: int = Field(
        default=0, description="Number of texts left out because the user did not want them kept; no model read them."
    )
    failure: str | None = Field(
        default=None,
        description='With `on_failure="record"`: why the model gave no usable answer; None if it gave one.',
    )
    recorded_in: str | None = Field(
        default=None,
        description="The conversation in which the turns were recorded because the model failed; None if none were.",
    )
    recorded_turns: int = Field(default=0, description="How many turns of it are new.")
    usage: ModelUsage | None = Field(
        default=None, description="None if no model was called, or it failed: `admin.usage` has what that cost."
    )
