"""What came of a conversation that was to be remembered."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from agent_reminiscence.domain.event import ModelUsage


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class RememberedChange(_Frozen):
    """One change that a model has proposed, and what became of it."""

    outcome: Literal["created", "updated", "proposed", "refused"] = Field(
        description="`proposed`: it was only asked what would be done. `refused`: `reason` says why."
    )
    title: str
    content: str
    why: str = Field(description="As the model says.")
    messages: tuple[int, ...] = Field(
        description="Which of the messages that were passed it rests on, by their place, from 0."
    )
    memory_id: UUID | None = Field(default=None, description="None for one that was not created.")
    version: int | None = Field(default=None, description="The version that the change has made.")
    reason: str | None = None


class RememberReport(_Frozen):
    """What was remembered of a conversation, and why."""

    external_id: str
    changes: tuple[RememberedChange, ...] = ()
    why: str = Field(description="What the model says of all of it; or why none was asked.")
    messages: int = Field(description="How many texts were looked at: a message may hold several, or none.")
    recalled_messages: int = Field(
        description="Of these, how many only quote what was recalled; they are not remembered again."
    )
    usage: ModelUsage | None = Field(default=None, description="None where no model was asked.")
