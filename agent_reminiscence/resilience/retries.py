"""Retries operations while the store is unavailable, where that is safe."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from agent_reminiscence.exceptions import CommitUnknownError, StoreUnavailableError

_logger = logging.getLogger("agent_reminiscence.retries")

# Retries while the server is unavailable: at most four, after about 0.2, 0.4, 0.8 and 1.6 seconds (jittered, so that
# many callers do not return at once). A restart takes one or two seconds; after that, callers should get an error.
RETRY_ATTEMPTS: Final = 5
RETRY_FIRST_WAIT_SECONDS: Final = 0.2
# No attempt begins later than this after the first.
RETRY_TOTAL_SECONDS: Final = 4.0


async def repeated[T](
    call: Callable[[], Awaitable[T]],
    *,
    operation: str,
    external_id: str,
    repeatable: bool = False,
    total_seconds: float | None = None,
) -> T:
    """Await `call()`, retrying for a few seconds while the store is unavailable.

    A call that ends with StoreUnavailableError has written nothing. All other errors are raised: a statement that was
    refused or too slow would be so again, and a conflict is the caller's to resolve.

    Args:
        call: The whole operation; it reads again whatever it depends on.
        operation: Its name, for the log.
        repeatable: Whether repeating it writes only once, for example thanks to an idempotency key. Then it is also
            retried after CommitUnknownError.
        total_seconds: How long after the first attempt the last may begin; None is `RETRY_TOTAL_SECONDS`.
    """
    safe = (StoreUnavailableError, CommitUnknownError) if repeatable else (StoreUnavailableError,)
    deadline = asyncio.get_running_loop().time() + (RETRY_TOTAL_SECONDS if total_seconds is None else total_seconds)
    for attempt in range(1, RETRY_ATTEMPTS):
        try:
            return await call()
        except safe as error:
            wait = RETRY_FIRST_WAIT_SECONDS * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311 - no secret
            if asyncio.get_running_loop().time() + wait > deadline:
                raise
            _logger.warning(
                "the store was unavailable; retrying %s (attempt %d of %d): %s",
                operation,
                attempt + 1,
                RETRY_ATTEMPTS,
                type(error).__name__,
                extra={"external_id": external_id, "operation": operation, "attempt": attempt + 1},
            )
        await asyncio.sleep(wait)
    return await call()
