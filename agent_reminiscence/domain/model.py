"""The bases of the package's models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """A value that does not change.

    Pydantic builds a model's validator when it is first used: a program imports a hundred models and uses few. Since
    pydantic 2.14 it does so under a lock, so that threads may use a model for the first time at once.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)


class StrictModel(FrozenModel):
    """A value that does not change and refuses fields it does not have."""

    model_config = ConfigDict(extra="forbid")
