"""Records what follows from an invocation: its place in the conversation, facts, an episode, and how it ended.

Each step can be repeated without doing anything twice, so whatever interrupts it, it is repeated as a whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.react.config import ReactMemConfig
from agent_reminiscence.react.facts import FACT_PREFIX, fact_id_of, promote
from agent_reminiscence.react.journal import (
    FINISHED,
    Finished,
    Journal,
    Learned,
    as_finished,
    episode_id_of,
    summary_of,
)
from agent_reminiscence.react.learning import Learning, LearningByRules, LearningFailedError, without_sensitive
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.memory_tools import own_tools
from agent_reminiscence.react.models import AgentFailure, Fact, InvocationSummary
from agent_reminiscence.react.own_tools import (
    calls_of_task,
    steps_of_task,
    steps_to_learn_from,
    without_sensitive_words,
)
from agent_reminiscence.react.scope import invocation_conversation
from agent_reminiscence.react.service_models import (
    RecordUseRequest,
    RetrieveFactsRequest,
    StoreEpisodeRequest,
    StoreFactRequest,
    UpdateConversationMemoryRequest,
)

_logger = logging.getLogger("agent_reminiscence.react")

# After this, rules decide what a model has failed to.
_GIVE_UP_AFTER: Final = timedelta(hours=24)
_KNOWN_FACTS: Final = 10
# Trying again would change nothing.
_FINAL_REASONS: Final = ("invalid_request", "quota_exceeded", "conflict")


class NotRecordedError(Exception):
    """Something could not be recorded now; the rest is, and all of it can be tried again."""


class Recorder:
    """Records invocations."""

    def __init__(
        self,
        memory: AgentMem,
        services: MemoryServices,
        journal: Journal,
        learning: Learning,
        *,
        config: ReactMemConfig,
        clock: Callable[[], datetime],
    ) -> None:
        self._memory = memory
        self._services = services
        self._journal = journal
        self._learning = learning
        self._config = config
        self._clock = clock
        self._own_tools = own_tools(config.memory_tools)

    async def record(self, external_id: str, event: Event) -> None:
        """Record all that follows from an invocation.

        Raises:
            NotRecordedError: A service or the model failed; the next call does the rest.
            StoreError: The store is unavailable; likewise.
        """
        event = await self._journal.whole(event)
        finished = as_finished(event)
        if finished is None or not await self._is_there(external_id, event):
            return
        await self.speak(event)
        learned = await self._learn(external_id, event, finished)
        if learned is None:
            return
        await self._store_facts(finished, learned)
        await self._store_episode(finished, learned, event)
        await self._judge(finished, learned)
        if finished.conversation_id is None:
            # Of a conversation, the facts that matter are promoted when it has ended.
            await self._promote(external_id, finished, learned)
        await self._journal.record(external_id, event)

    async def speak(self, event: Event) -> None:
        """Add an invocation that was answered to its conversation.

        Raises:
            NotRecordedError: The service failed.
        """
        finished = as_finished(event)
        if finished is None or finished.failure is not None or finished.conversation_id is None:
            return
        did, result = summary_of(finished)
        done = await self._services.conversations.update_conversation(
            UpdateConversationMemoryRequest(
                user=finished.user,
                collection=finished.collection,
                conversation_id=finished.conversation_id,
                invocation_summary=InvocationSummary(
                    query=finished.question,
                    summary=did,
                    result=result,
                    timestamp=event.occurred_at,
                    invocation_id=finished.invocation_id,
                ),
            )
        )
        _check(done.error)

    async def _learn(self, external_id: str, event: Event, finished: Finished) -> Learned | None:
        """What was drawn from the invocation; None if it was purged meanwhile: nothing of it may be written again.

        A model is asked once, and its answer recorded before it is used.
        """
        wants_facts = self._config.enable_auto_fact_extraction and finished.failure is None
        wants_episode = self._is_episode(finished) or self._is_short_with_lessons(finished)
        if not wants_facts and not wants_episode:
            return Learned()
        if (before := await self._journal.learned(external_id, event)) is not None:
            return before
        known = await self._known(finished) if wants_facts else ()
        finished = finished.model_copy(update={"steps": steps_to_learn_from(finished.steps, self._own_tools)})
        try:
            learned = await self._learning.learn(finished, known, facts=wants_facts, episode=wants_episode)
        except LearningFailedError as error:
            if self._clock() - event.occurred_at < _GIVE_UP_AFTER:
                raise NotRecordedError(str(error)) from None
            _logger.warning("rules decide what is learned from an invocation: %s", error)
            learned = await LearningByRules().learn(finished, known, facts=wants_facts, episode=wants_episode)
        allowed = self._config.allow_sensitive
        learned = learned.model_copy(
            update={
                "facts": without_sensitive(learned.facts, allowed),
                "lessons": without_sensitive(learned.lessons, allowed),
                "outcome": " ".join(without_sensitive([learned.outcome], allowed)),
            }
        )
        if not await self._is_there(external_id, event):
            return None
        return await self._journal.learn(external_id, event, learned)

    async def _known(self, finished: Finished) -> tuple[Fact, ...]:
        """Facts near the question, so that they are not drawn again."""
        found = await self._services.fact_retrieval.retrieve_facts(
            RetrieveFactsRequest(
                user=finished.user, collection=finished.collection, query=finished.question, top_k=_KNOWN_FACTS
            )
        )
        return found.facts

    def _is_episode(self, finished: Finished) -> bool:
        called = calls_of_task(finished.steps, self._own_tools)
        return self._config.enable_episode_recording and called >= self._config.episode_min_steps

    def _is_short_with_lessons(self, finished: Finished) -> bool:
        """Whether how a task ended matters though it is too short to be kept: lessons may have made it so short."""
        return (
            self._config.enable_episode_recording
            and self._config.judge_outcome
            and bool(finished.shown_lessons)
            and calls_of_task(finished.steps, self._own_tools) > 0
        )

    def _is_kept(self, finished: Finished, learned: Learned) -> bool:
        """Whether an episode is stored; of a short task that followed lessons, only what they did not say."""
        if self._is_episode(finished):
            return True
        return self._is_short_with_lessons(finished) and learned.success is False and bool(learned.lessons)

    async def _store_facts(self, finished: Finished, learned: Learned) -> None:
        source = invocation_conversation(finished.conversation_id, finished.invocation_id)
        for fact in learned.facts:
            done = await self._services.fact_storage.store_fact(
                StoreFactRequest(
                    user=finished.user,
                    collection=finished.collection,
                    content=fact,
                    source=source,
                    metadata={"invocation_id": finished.invocation_id},
                )
            )
            _check(done.error)

    async def _store_episode(self, finished: Finished, learned: Learned, event: Event) -> None:
        if not self._is_kept(finished, learned):
            return
        allowed = self._config.allow_sensitive
        of_task = steps_of_task(finished.steps, self._own_tools)
        done = await self._services.episode_storage.store_episode(
            StoreEpisodeRequest(
                user=finished.user,
                collection=finished.collection,
                goal=finished.question,
                steps=tuple(without_sensitive_words(step, allowed) for step in of_task),
                outcome=learned.outcome,
                lessons=learned.lessons,
                success=learned.success,
                source=invocation_conversation(finished.conversation_id, finished.invocation_id),
                metadata={"invocation_id": finished.invocation_id},
                id=episode_id_of(str(event.event_id)),
            )
        )
        _check(done.error)

    async def _judge(self, finished: Finished, learned: Learned) -> None:
        """Say how an invocation ended that was shown something of its memory."""
        if not self._config.judge_outcome or learned.success is None:
            return
        done = await self._services.episode_storage.record_use(
            RecordUseRequest(
                user=finished.user,
                collection=finished.collection,
                invocation_id=finished.invocation_id,
                success=learned.success,
            )
        )
        _check(done.error)

    async def _promote(self, external_id: str, finished: Finished, learned: Learned) -> None:
        """Consolidate the facts of an invocation that belongs to no conversation: learned, or stored by the tool."""
        own = Filter(conversation_ids=[invocation_conversation(None, finished.invocation_id)], key_prefix=FACT_PREFIX)
        facts = {fact.id: fact for fact in await self._memory.get_active_memories(external_id, where=own)}
        # One that was known before is another invocation's, and is confirmed by this one.
        if keys := [FACT_PREFIX + fact_id_of(fact) for fact in learned.facts]:
            facts |= {fact.id: fact for fact in await self._memory.get_active_memories(external_id, keys=keys)}
        await promote(self._memory, external_id, list(facts.values()))

    async def _is_there(self, external_id: str, event: Event) -> bool:
        """Whether the event of the invocation still says something; a purge may have been quicker."""
        found = await self._memory.ledger.read(external_id, after=event.position - 1, kinds=[FINISHED], limit=1)
        return bool(found) and found[0].event_id == event.event_id and bool(found[0].payload)


def _check(failure: AgentFailure | None) -> None:
    if failure is None:
        return
    if failure.reason in _FINAL_REASONS:
        _logger.warning("part of an invocation is not recorded: %s", failure.reason)
        return
    raise NotRecordedError(f"a service of the memory failed: {failure.reason}")
