"""What becomes of asking a model: plain values, for which nothing has to be installed."""

from __future__ import annotations

from dataclasses import dataclass

from agent_reminiscence.domain.event import FailureReason, ModelUsage
from agent_reminiscence.exceptions import AgentError


@dataclass(slots=True)
class Meter:
    """What a call of a model has cost, however it ended.

    Attributes:
        usage: None until the call has ended. Of a request without an answer it counts what was sent, by an estimate.
        unanswered: How many requests had no answer, or only a part of it, when the call ended.
    """

    usage: ModelUsage | None = None
    unanswered: int = 0


class AgentFailedError(AgentError):
    """A model gave no answer that can be used. The message quotes nothing of what it was shown or has answered.

    Attributes:
        reason: `timeout`: it took too long. `limit`: it wanted more than it may. `unavailable`: it could not be asked.
            `invalid`: what it answered was refused until its retries were used up. `failed`: anything else.
        usage: What it was asked for until then.
    """

    def __init__(self, message: str, *, reason: FailureReason, usage: ModelUsage) -> None:
        super().__init__(message)
        self.reason = reason
        self.usage = usage
