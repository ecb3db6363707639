"""What a call to a model cost, and why it failed: plain values that need nothing installed."""

from __future__ import annotations

from dataclasses import dataclass

from agent_reminiscence.domain.payloads import AskOutcome, FailureReason, ModelUsage
from agent_reminiscence.exceptions import AgentError


@dataclass(slots=True)
class Meter:
    """What a call to a model cost, however it ended.

    Attributes:
        usage: None until the call has ended. For a request without an answer it counts an estimate of what was sent.
        unanswered: How many requests had no answer, or only part of one, when the call ended.
        prompt: Version of the instructions and schema that were sent; None if no request was.
        outcome: How it ended, as far as is known.
        is_recorded: Whether an event records the cost already.
    """

    usage: ModelUsage | None = None
    unanswered: int = 0
    prompt: str | None = None
    outcome: AskOutcome = "failed"
    is_recorded: bool = False


class AgentFailedError(AgentError):
    """A model gave no usable answer. The message quotes nothing of what it was shown or answered.

    Attributes:
        reason: `timeout`: it took too long. `limit`: it needed more than its limits allow. `unavailable`: its
            provider refused or could not be reached. `invalid`: its answers were refused until its retries were used
            up. `failed`: anything else.
        usage: What the call had used by then.
    """

    def __init__(self, message: str, *, reason: FailureReason, usage: ModelUsage) -> None:
        super().__init__(message)
        self.reason = reason
        self.usage = usage
