"""How far a long call is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pydantic import Field

from agent_reminiscence.domain.model import FrozenModel


class Progress(Protocol):
    """What every long call tells its `progress=`: enough for a bar that knows nothing of the call."""

    @property
    def done(self) -> int:
        """How much is done."""
        ...

    @property
    def total(self) -> int | None:
        """How much there is; None if that is not known yet."""
        ...

    @property
    def unit(self) -> str:
        """What is counted, in the plural, such as `events`."""
        ...


class Step(FrozenModel):
    """How far a call is, with nothing to add."""

    done: int = Field(description="How much is done.")
    total: int | None = Field(description="How much there is; None if that is not known yet.")
    unit: str = Field(description="What is counted: `events`, `memories`, `characters` or `vectors`.")


StepCallback = Callable[[Step], None]


def no_progress(step: object) -> None:
    """Ignore progress."""
