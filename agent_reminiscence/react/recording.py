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
from agent_reminiscence.react.grounds import ended_facts, may_be_wrong, trust_of
from agent_reminiscence.react.journal import (
    FINISHED,
    Finished,
    Journal,
    Learned,
    as_finished,
    episode_id_of,
    summary_of,
)
from agent_reminiscence.react.learning import (
    Known,
    Learning,
    LearningByRules,
    LearningFailedError,
    without_sensitive,
)
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.memory_tools import own_tools
from agent_reminiscence.react.models import AgentFailure, Fact, InvocationSummary
from agent_reminiscence.react.numbering import Numbering, ShownLesson, lesson_id_of
from agent_reminiscence.react.own_tools import (
    calls_of_task,
    steps_of_task,
    steps_to_learn_from,
    without_sensitive_words,
)
from agent_reminiscence.react.protocols import LessonCorrection
from agent_reminiscence.react.rendering import facts_room
from agent_reminiscence.react.scope import invocation_conversation
from agent_reminiscence.react.service_models import (
    DeleteFactRequest,
    EndLessonsRequest,
    RecordUseRequest,
    RetrieveEpisodesRequest,
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
        await self._store_facts(finished, learned, event)
        await self._store_episode(finished, learned, event)
        await self._judge(finished, learned)
        await self._correct(finished, learned, event)
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
        if not wants_facts and not wants_episode and not finished.shown_lessons:
            return Learned()
        if (before := await self._journal.learned(external_id, event)) is not None:
            return before
        known = await self._known(finished, with_facts=wants_facts)
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
        # After that: what is not stored takes the place of nothing.
        learned = _checked(learned, known, finished, event.occurred_at)
        if not await self._is_there(external_id, event):
            return None
        return await self._journal.learn(external_id, event, learned)

    async def _known(self, finished: Finished, *, with_facts: bool) -> Known:
        """What need not be drawn again, and may be over or wrong: facts, and the lessons that the run was shown."""
        return Known(
            await self._known_facts(finished) if with_facts else (),
            await self._shown_lessons(finished),
            Numbering(finished.shown_facts, finished.shown_lessons),
        )

    async def _known_facts(self, finished: Finished) -> list[Fact]:
        """All facts if they fit where a run is shown them; else the nearest, and those that the run was shown."""
        asked = RetrieveFactsRequest(
            user=finished.user,
            collection=finished.collection,
            query=finished.question,
            top_k=_KNOWN_FACTS,
            room_tokens=facts_room(self._config.memory_token_budget),
        )
        found = (await self._services.fact_retrieval.retrieve_facts(asked)).facts
        known = {fact.id: fact for fact in found}
        if missing := [fact_id for fact_id in finished.shown_facts if fact_id not in known]:
            # What was shown and is gone since, or what a service without ids finds instead, is left out.
            by_id = asked.model_copy(update={"ids": tuple(missing)})
            shown = (await self._services.fact_retrieval.retrieve_facts(by_id)).facts
            known |= {fact.id: fact for fact in shown if fact.id in missing}
        return list(known.values())

    async def _shown_lessons(self, finished: Finished) -> dict[ShownLesson, str]:
        """The lessons that the run was shown and that still hold, with their texts."""
        shown = finished.shown_lessons
        if not shown:
            return {}
        found = await self._services.episode_retrieval.retrieve_episodes(
            RetrieveEpisodesRequest(
                user=finished.user,
                collection=finished.collection,
                query=finished.question,
                ids=tuple(dict.fromkeys(one.episode_id for one in shown)),
            )
        )
        texts = {
            ShownLesson(episode_id=episode.id, lesson_id=lesson_id_of(lesson)): lesson
            for episode in found.episodes
            for lesson in episode.lessons
        }
        return {one: texts[one] for one in shown if one in texts}

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

    async def _store_facts(self, finished: Finished, learned: Learned, event: Event) -> None:
        source = invocation_conversation(finished.conversation_id, finished.invocation_id)
        task = finished.model_copy(update={"steps": steps_of_task(finished.steps, self._own_tools)})
        for fact in learned.facts:
            done = await self._services.fact_storage.store_fact(
                StoreFactRequest(
                    user=finished.user,
                    collection=finished.collection,
                    content=fact,
                    source=source,
                    metadata={"invocation_id": finished.invocation_id},
                    trust=trust_of(fact, task),
                    occurred_at=event.occurred_at,
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
                episode_ids=_followed(learned),
            )
        )
        _check(done.error)

    async def _correct(self, finished: Finished, learned: Learned, event: Event) -> None:
        """End facts that are over and lessons that are wrong, since the invocation that said so."""
        user, collection = finished.user, finished.collection
        if learned.replaced:
            found = await self._services.fact_retrieval.retrieve_facts(
                RetrieveFactsRequest(user=user, collection=collection, query=finished.question, ids=learned.replaced)
            )
            _check(found.error)
            for fact in found.facts:
                # If this is done again after a crash, the fact may hold again since.
                if fact.id in learned.replaced and fact.timestamp <= event.occurred_at:
                    gone = await self._services.fact_storage.delete_fact(
                        DeleteFactRequest(
                            user=user, collection=collection, fact_id=fact.id, occurred_at=event.occurred_at
                        )
                    )
                    _check(gone.error)
        storage = self._services.episode_storage
        if not learned.wrong_lessons or not isinstance(storage, LessonCorrection):
            return
        wrong: dict[str, list[str]] = {}
        for one in learned.wrong_lessons:
            wrong.setdefault(one.episode_id, []).append(one.lesson_id)
        for episode_id, lesson_ids in wrong.items():
            ended = await storage.end_lessons(
                EndLessonsRequest(
                    user=user,
                    collection=collection,
                    episode_id=episode_id,
                    lesson_ids=tuple(lesson_ids),
                    occurred_at=event.occurred_at,
                )
            )
            _check(ended.error)

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


def _checked(learned: Learned, known: Known, finished: Finished, at: datetime) -> Learned:
    """What was drawn, with only those endings that may be: a model's word alone ends nothing."""
    stored = {fact_id_of(fact) for fact in learned.facts}
    # A fact that was learned since, by an invocation that was recorded earlier, is newer than what this one says.
    before = {fact.id: fact for fact in known.facts if fact.id not in stored and fact.timestamp <= at}
    named = [one for one in learned.wrong_lessons if one in known.lessons]
    allowed = may_be_wrong([known.lessons[one] for one in named], finished)
    ids = {one.lesson_id for one, may_end in zip(named, allowed, strict=True) if may_end}
    followed = learned.followed_lessons
    return learned.model_copy(
        update={
            "replaced": ended_facts(learned.replaced, before, learned.facts, finished),
            # The same words in another episode are as wrong.
            "wrong_lessons": tuple(one for one in known.lessons if one.lesson_id in ids),
            "lessons": tuple(one for one in learned.lessons if lesson_id_of(one) not in ids),
            "followed_lessons": None
            if followed is None
            else tuple(one for one in followed if one in known.lessons and one not in learned.wrong_lessons),
        }
    )


def _followed(learned: Learned) -> tuple[str, ...] | None:
    """The episodes whose lessons were followed; None: nobody knows."""
    if learned.followed_lessons is None:
        return None
    return tuple(dict.fromkeys(one.episode_id for one in learned.followed_lessons))


def _check(failure: AgentFailure | None) -> None:
    if failure is None:
        return
    if failure.reason in _FINAL_REASONS:
        _logger.warning("part of an invocation is not recorded: %s", failure.reason)
        return
    raise NotRecordedError(f"a service of the memory failed: {failure.reason}")
