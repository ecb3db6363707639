"""Daily token limits for models per `external_id`, and recording of what calls cost in the ledger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from agent_reminiscence.agents.model_call import AgentFailedError, Meter
from agent_reminiscence.agents.models import AgentLimits
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.payloads import AskOutcome, ModelAsked, ReflectionAsked
from agent_reminiscence.exceptions import AgentError, StoreError
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.runtime import Runtime

_logger = logging.getLogger("agent_reminiscence.models")

# Outcomes of calls that were paid for, and that would most likely end the same way again.
_IN_VAIN: Final[frozenset[AskOutcome]] = frozenset({"invalid", "limit"})
# A cancelled call waits at most this long for its cost to be recorded.
_RECORD_SECONDS = 10.0


class OutOfTokensError(AgentError):
    """Too little is left of the day's tokens."""

    def __init__(self) -> None:
        super().__init__("this external_id has reached its daily token limit (agent_daily_tokens)")


class ModelBudget:
    """Limits a call to what is left of the day's tokens, and records its cost.

    Args:
        daily_tokens: How many tokens models may read and write for one `external_id` between two midnights UTC; None
            is unlimited. The last request of a call, and concurrent calls, may exceed the limit.
    """

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        limits: AgentLimits,
        *,
        daily_tokens: int | None,
    ) -> None:
        self._store = runtime.store
        self._projector = projector
        self._usage = runtime.repositories.totals
        self._limits = limits
        self._clock = runtime.clock
        self._daily_tokens = daily_tokens

    async def limits(self, external_id: str, *, spent: int = 0, least: int = 1) -> AgentLimits | None:
        """What the next call may cost; None if too little is left of the day.

        Args:
            spent: Tokens spent but not yet in the ledger.
            least: How many tokens must be left of the day.

        Raises:
            StoreError: The store is unavailable.
        """
        if self._daily_tokens is None:
            return self._limits
        async with self._store.transaction(external_id, read_only=True) as db:
            spent_today = await self._usage.sum_tokens_today(db, external_id)
        left = self._daily_tokens - spent_today - spent
        return replace(self._limits, max_tokens=min(self._limits.max_tokens, left)) if left >= least else None

    @asynccontextmanager
    async def metered(
        self, external_id: str, agent: str, *, profile: int | None = None, reflection: ReflectionAsked | None = None
    ) -> AsyncIterator[Meter]:
        """Record the cost of the enclosed call, however it ends, unless an event records it already.

        Args:
            profile: Position of the definition of the profile that a text is asked for.
            reflection: What a reflector is asked; recorded if its model answers with nothing that can be used.
        """
        meter = Meter()
        try:
            yield meter
            meter.outcome = "answered"
        except AgentFailedError as error:
            meter.outcome = error.reason
            raise
        except StoreError:
            meter.outcome = "store"
            raise
        except asyncio.CancelledError:
            meter.outcome = "cancelled"
            raise
        finally:
            if meter.usage is not None and not meter.is_recorded:
                payload = ModelAsked(
                    agent=agent,
                    outcome=meter.outcome,
                    usage=(meter.usage,),
                    unanswered=meter.unanswered,
                    prompt=meter.prompt,
                    profile=profile,
                    reflection=reflection if meter.outcome in _IN_VAIN else None,
                )
                await self.record(external_id, payload)

    async def record(self, external_id: str, payload: ModelAsked) -> None:
        """Record the cost of a call that no other event records. A failure is only logged: the answer matters more."""
        if not any(usage.requests for usage in payload.usage):
            return
        try:
            async with asyncio.timeout(_RECORD_SECONDS), self._store.transaction(external_id) as db:
                await self.record_within(db, external_id, payload)
        except (StoreError, TimeoutError) as error:
            _logger.warning("the cost of a model call was not recorded: %s", error, extra={"external_id": external_id})

    async def record_within(self, db: SqlExecutor, external_id: str, payload: ModelAsked) -> None:
        """Record a cost in an open transaction, with what the model's answer led to: both or neither.

        Raises:
            StoreError: The store is unavailable.
        """
        request = WriteRequest(external_id=external_id, source="model")
        await self._projector.begin(db, request)
        event = request.event(EventKind.MODEL_ASKED, payload.model_dump(mode="json"), self._clock())
        await self._projector.record(db, event)
