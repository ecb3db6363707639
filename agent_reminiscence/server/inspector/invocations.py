"""Invocations of a ReAct agent, as its events hold them.

They are read here, so that they can be shown without what the agent itself needs.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_reminiscence.domain.event import Event

FINISHED: Final = "react.invocation.finished"
LEARNED: Final = "react.invocation.learned"
RECORDED: Final = "react.invocation.recorded"


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Step(_Stored):
    """A thought, what was done, and what came of it."""

    thought: str = ""
    action: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    observation: str = ""


class Failure(_Stored):
    """Why there is no answer."""

    reason: str
    message: str = ""


class Invocation(_Stored):
    """A question to an agent, as it was recorded before its client got the answer."""

    invocation_id: str
    user: str
    collection: str = ""
    conversation_id: str | None = None
    question: str
    state: str = ""
    steps: tuple[Step, ...] = ()
    new_steps: int = 0
    answer: str = ""
    failure: Failure | None = None
    recalled: tuple[str, ...] = ()


class Lessons(_Stored):
    """What was drawn from an invocation."""

    facts: tuple[str, ...] = ()
    success: bool | None = None
    outcome: str = ""
    lessons: tuple[str, ...] = ()


def invocation_of(event: Event) -> Invocation | None:
    """What an event records; None if it was erased, or is none of that kind."""
    if event.kind != FINISHED:
        return None
    try:
        return Invocation.model_validate(event.payload)
    except ValidationError:
        return None


def lessons_of(event: Event) -> Lessons | None:
    """What an event says was learned; None if it says nothing of that kind."""
    try:
        return Lessons.model_validate(event.payload)
    except ValidationError:
        return None


def is_invocation(event: Event) -> bool:
    """Whether an event records an invocation; anybody may append one of its kind that does not."""
    return invocation_of(event) is not None
