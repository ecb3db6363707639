"""Errors of the memory as values."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from agent_reminiscence.exceptions import (
    IdempotencyConflictError,
    QuotaExceededError,
    ReminiscenceError,
    StoreError,
    UsageError,
)
from agent_reminiscence.react.models import AgentFailure, FailureReason
from agent_reminiscence.react.permission import MemoryOffError

_logger = logging.getLogger("agent_reminiscence.react")


async def guarded[T](work: Callable[[], Awaitable[T]], failed: Callable[[AgentFailure], T]) -> T:
    """What `work` returns; if the memory fails, what `failed` makes of the failure."""
    try:
        return await work()
    except ReminiscenceError as error:
        return failed(failure_of(error))


def failure_of(error: ReminiscenceError) -> AgentFailure:
    """An error as a value, logged without its text."""
    reason: FailureReason = "memory_failed"
    if isinstance(error, MemoryOffError):
        # As the user or the deployment wants it.
        return AgentFailure(reason="memory_off", message=str(error))
    match error:
        case IdempotencyConflictError():
            reason = "conflict"
        case QuotaExceededError():
            reason = "quota_exceeded"
        case StoreError():
            reason = "memory_failed"
        case UsageError():
            reason = "invalid_request"
    _logger.warning("the memory of a ReAct agent failed: %s", type(error).__name__)
    return AgentFailure(reason=reason, message=f"{type(error).__name__}: {error}")
