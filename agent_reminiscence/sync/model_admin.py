# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.admin.models.ModelAdmin`."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from agent_reminiscence.config.constants import Tier
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.remembering import OnFailure, RememberReport
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.sync.lifecycle import Twin

if TYPE_CHECKING:
    from agent_reminiscence.admin.models import ModelAdmin as AsyncModelAdmin


class ModelAdmin(Twin):
    """What asks a language model: remembering from a conversation, and an answer as a stream."""

    _wrapped: AsyncModelAdmin

    @property
    def can_answer(self) -> bool:
        """Whether a model is configured that answers questions (`memory_retrieve_agent_model`)."""
        return self._wrapped.can_answer

    def remember(
        self,
        external_id: str | int | UUID,
        messages: Iterable[Any],
        *,
        user_name: str | None = None,
        occurred_at: datetime | None = None,
        actor: str | None = None,
        conversation_id: str | None = None,
        timezone: str | None = None,
        dry_run: bool = False,
        on_failure: OnFailure = "raise",
    ) -> RememberReport:
        """Have a model decide what in a conversation is worth remembering, and remember it.

        The model sees the conversation and the active memories that matter for it, without secrets (`redaction`), and
        proposes memories to create and lines to change. They are written like any caller's, with the trust label
        `model`; lines that an update leaves as they are keep their label. The model can do nothing else: what the user
        asks to have forgotten is reported (`deletion_requests`), and nothing is deleted. Mere thanks and greetings call
        no model, what the user says off the record reaches none, and text recalled into the conversation is not
        remembered again.

        Args:
            messages: Pydantic AI messages, or mappings with `role` (user, assistant, tool, system) and `content`, and
                optionally a time (`timestamp`, `time`, `created_at` or `date`: a datetime, ISO 8601 or seconds since
                1970); at most 1,000, with 100,000 characters in total. System prompts are ignored.
            user_name: What the user is called, as memories should; up to 256 characters. None if unknown.
            occurred_at: When the conversation took place, with a time zone; None is now. The model is told the day, and
                all writes are dated by it, as in `create_active_memory`.
            actor: As in `create_active_memory`, like `conversation_id`; applies to all writes.
            timezone: Where it took place, as an IANA name such as Europe/Lisbon. The model is told days there, and new
                memories get this zone. None uses the setting.
            dry_run: Only report what would be done.
            on_failure: What to do if the model gives no usable answer, or the day's tokens are used up. "raise" raises
                AgentError. "record" records the turns in the conversation `conversation_id`, as `conversation().add`
                does, except those that it holds already; the report's `failure` says why. A dry run raises.

        Returns:
            What was done, and why.

        Raises:
            InvalidInputError: An argument is invalid; nothing is written.
            ConfigurationError: No model is configured (`memory_update_agent_model`).
            AgentError: The model gave no usable answer; nothing is written. Not with `on_failure="record"`.
            RedactionError: Your redactor failed; nothing is written.
            QuotaExceededError: The turns to be recorded would exceed a limit; nothing is written.
            StoreError: The store is unavailable; completed writes are kept. A second call shows them to the model,
                which then proposes what it sees is missing.
        """
        return self._thread.call(
            lambda: self._wrapped.remember(
                external_id,
                messages,
                user_name=user_name,
                occurred_at=occurred_at,
                actor=actor,
                conversation_id=conversation_id,
                timezone=timezone,
                dry_run=dry_run,
                on_failure=on_failure,
            )
        )

    def stream_answer(
        self,
        external_id: str | int | UUID | Collection[str | int | UUID],
        query: str,
        *,
        limit: int | None = None,
        tiers: Iterable[Tier] | None = None,
        token_budget: int | None = None,
        min_confidence: float | None = None,
        min_match: float | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        where: Filter | None = None,
        timezone: str | None = None,
        strict: bool = False,
    ) -> Generator[RetrievalResult]:
        """Yield the hits at once, then the answer as it is written, and last the result of `retrieve_memories`.

        Each result replaces the one before, and differs from it. The first has the hits and no `synthesis`; it comes
        before the model is asked. While the answer is written, `synthesis.is_checked` is false, nothing is cited, and
        `is_known` is None until the model has said so; if the model has to retry, its answer starts over. The last one
        is that of a call with `synthesis=True`; without an answer, its `omitted` says why. If you stop early, close the
        iterator (`contextlib.closing`) to end the model's call.

        Args:
            query: As in `retrieve_memories`, like all other arguments.

        Raises:
            InvalidInputError: An argument is invalid.
            ConfigurationError: No model is configured (`memory_retrieve_agent_model`).
            AgentError: With `strict`: the model gave no usable answer.
            RedactionError: With `strict`: your redactor failed on the question.
            StoreError: The store is unavailable; without `strict`, only if recall itself fails.
        """
        return self._thread.iterate(
            lambda: self._wrapped.stream_answer(
                external_id,
                query,
                limit=limit,
                tiers=tiers,
                token_budget=token_budget,
                min_confidence=min_confidence,
                min_match=min_match,
                as_of=as_of,
                known_at=known_at,
                where=where,
                timezone=timezone,
                strict=strict,
            )
        )
