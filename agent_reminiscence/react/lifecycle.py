"""What happens around invocations: the end of conversations, retention, purge, and what was left undone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.erasure import ErasureReceipt
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.filter import Filter
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.domain.usage import MemoryUsage
from agent_reminiscence.exceptions import (
    ExternalIdNotFoundError,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    ReminiscenceError,
    StoreError,
)
from agent_reminiscence.react.config import ReactMemConfig
from agent_reminiscence.react.conversations import all_latest
from agent_reminiscence.react.episodes import EPISODE_PREFIX
from agent_reminiscence.react.facts import FACT_PREFIX, as_fact, promote
from agent_reminiscence.react.journal import FINISHED, Journal, as_finished
from agent_reminiscence.react.learning import Closing, Learning, LearningFailedError, without_sensitive
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.models import DEFAULT_COLLECTION, ConversationMemory
from agent_reminiscence.react.paging import all_events
from agent_reminiscence.react.recording import NotRecordedError, Recorder
from agent_reminiscence.react.registry import Registry
from agent_reminiscence.react.scope import REGISTRY, Scope, user_conversation
from agent_reminiscence.react.service_models import (
    ConversationOutline,
    DeleteConversationRequest,
    GetConversationMemoryRequest,
    ListConversationsRequest,
    StoreEpisodeRequest,
)
from agent_reminiscence.telemetry import Telemetry

_logger = logging.getLogger("agent_reminiscence.react")

# What a conversation taught, and that all of it is recorded.
ENDED: Final = "react.conversation.ended"
CLOSED: Final = "react.conversation.closed"
_WHOLE_CONVERSATION: Final = 500
_PAGE: Final = 500
_CONVERSATIONS: Final = 1_000
_LOOK_BACK: Final = 50


class ConversationEnd(FrozenModel):
    """What came of the end of a conversation."""

    conversation_id: str
    is_new: bool
    promoted_facts: int = 0
    episode_id: str | None = None


class MaintenanceReport(FrozenModel):
    """What a maintenance did for a user and collection."""

    user: str
    collection: str
    recorded: int = 0
    not_recorded: int = 0
    ended: tuple[ConversationEnd, ...] = ()
    archived_facts: int = 0
    archived_episodes: int = 0
    archived_conversations: int = 0


class CollectionUsage(FrozenModel):
    """How much a user's collection holds."""

    facts: int
    episodes: int
    conversations: int
    memory: MemoryUsage


class Lifecycle:
    """Everything but answering."""

    def __init__(
        self,
        memory: AgentMem,
        services: MemoryServices,
        journal: Journal,
        registry: Registry,
        learning: Learning,
        *,
        config: ReactMemConfig,
        scope: Scope,
        clock: Callable[[], datetime],
        telemetry: Telemetry,
    ) -> None:
        self._memory = memory
        self._services = services
        self._journal = journal
        self._registry = registry
        self._learning = learning
        self._config = config
        self._scope = scope
        self._clock = clock
        self._telemetry = telemetry
        self._recorder = Recorder(memory, services, journal, learning, config=config, clock=clock)
        # Invocations that are being recorded in this process, by their event.
        self._recording: dict[tuple[str, int], asyncio.Task[None]] = {}

    async def speak(self, event: Event) -> None:
        """Add an invocation to its conversation; if that fails, recording does it later."""
        try:
            await self._recorder.speak(event)
        except Exception as error:  # noqa: BLE001 - a replaced service may raise anything; the answer is not its to hold
            _logger.warning("an invocation joins its conversation later: %s", type(error).__name__)

    async def record(self, external_id: str, event: Event) -> None:
        """Record what follows from an invocation; once, however often it is called at the same time.

        Raises:
            NotRecordedError: Part of it is not recorded; `maintain` tries again.
            StoreError: The store is unavailable; likewise.
        """
        place = (external_id, event.position)
        task = self._recording.get(place)
        if task is None:
            task = asyncio.ensure_future(self._observed(external_id, event))
            self._recording[place] = task
            task.add_done_callback(lambda _: self._recording.pop(place, None))
        await asyncio.shield(task)

    async def _observed(self, external_id: str, event: Event) -> None:
        if not await self._may_write(event.payload.get("user")):
            return
        with self._telemetry.operation("react.record"):
            await self._recorder.record(external_id, event)

    async def _may_write(self, user: str | None) -> bool:
        """Whether anything may be written about a user now."""
        return self._config.memory_mode == "write" and user is not None and await self._registry.is_enabled(user)

    async def usage(self, user: str, collection: str = DEFAULT_COLLECTION) -> CollectionUsage:
        """How much a user's collection holds, to be watched while it grows. Reads all of it.

        Raises:
            StoreError: The store is unavailable.
        """
        external_id = self._scope(user, collection)
        return CollectionUsage(
            facts=len([one async for one in self._memories(external_id, FACT_PREFIX)]),
            episodes=len([one async for one in self._memories(external_id, EPISODE_PREFIX)]),
            conversations=len(await self._conversations(user, collection)),
            memory=await self._memory.admin.usage(external_id),
        )

    async def end_conversation(
        self, user: str, conversation_id: str, collection: str = DEFAULT_COLLECTION
    ) -> ConversationEnd:
        """End a conversation: promote the facts that will matter, and record an episode if it had a theme.

        A conversation that goes on afterwards can end again.

        Raises:
            NotRecordedError: The model or a service failed; a second call does the rest.
            ReminiscenceError: The memory failed; likewise.
        """
        if not await self._may_write(user):
            return ConversationEnd(conversation_id=conversation_id, is_new=False)
        external_id = self._scope(user, collection)
        # The facts of its last invocations are to be there.
        for event in await self._journal.unrecorded(external_id):
            if event.conversation_id == conversation_id:
                await self.record(external_id, event)
        conversation = await self._conversation(user, collection, conversation_id)
        if conversation is None or not conversation.invocations:
            return ConversationEnd(conversation_id=conversation_id, is_new=False)
        facts = await self._facts_of(external_id, conversation_id)
        closing, lasting = await self._close(external_id, conversation, facts)
        promoted = await promote(self._memory, external_id, [fact for fact in facts if str(fact.id) in lasting])
        episode_id: str | None = None
        theme = " ".join(without_sensitive([closing.theme.strip()], self._config.allow_sensitive))
        if theme and self._config.enable_episode_recording:
            stored = await self._services.episode_storage.store_episode(
                StoreEpisodeRequest(
                    user=user,
                    collection=collection,
                    goal=theme,
                    outcome=" ".join(without_sensitive([closing.outcome], self._config.allow_sensitive)),
                    lessons=without_sensitive(closing.lessons, self._config.allow_sensitive),
                    success=closing.success,
                    source=conversation_id,
                    id=_ending(conversation),
                )
            )
            if stored.error is not None and stored.error.reason == "memory_failed":
                raise NotRecordedError(f"the episode of a conversation is not recorded: {stored.error.reason}")
            episode_id = stored.episode_id
        is_new = not await self._is_closed(external_id, conversation)
        if is_new:
            await self._memory.ledger.append(
                external_id,
                CLOSED,
                {"ending": _ending(conversation), "last_at": conversation.invocations[-1].timestamp.isoformat()},
                conversation_id=conversation_id,
                idempotency_key=f"react/closed/{_ending(conversation)}",
            )
        return ConversationEnd(
            conversation_id=conversation_id, is_new=is_new, promoted_facts=promoted, episode_id=episode_id
        )

    async def maintain(self, user: str, collection: str = DEFAULT_COLLECTION) -> MaintenanceReport:
        """Do what is due: what a crash left unrecorded, conversations that have been idle, retention and pruning.

        Raises:
            StoreError: The store is unavailable; what was done is kept.
        """
        if not await self._may_write(user):
            return MaintenanceReport(user=user, collection=collection)
        external_id = self._scope(user, collection)
        recorded = failed = 0
        for event in await self._journal.unrecorded(external_id):
            try:
                await self.record(external_id, event)
                recorded += 1
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - one invocation that cannot be recorded holds up no other
                _logger.warning("an invocation cannot be recorded: %s", type(error).__name__)
                failed += 1
        await self._journal.check(external_id)
        ended = [one for one in await self._end_idle(user, collection, external_id) if one.is_new]
        used = await self._recently_used(external_id)
        return MaintenanceReport(
            user=user,
            collection=collection,
            recorded=recorded,
            not_recorded=failed,
            ended=tuple(ended),
            archived_facts=await self._retain(
                external_id, FACT_PREFIX, self._config.fact_ttl_days, self._config.max_facts, used
            ),
            archived_episodes=await self._retain(
                external_id, EPISODE_PREFIX, self._config.episode_ttl_days, self._config.max_episodes, used
            ),
            archived_conversations=await self._retain_conversations(user, collection),
        )

    async def maintain_all(self) -> list[MaintenanceReport]:
        """Do what is due for every user and collection; one that fails is logged and left for the next time."""
        reports: list[MaintenanceReport] = []
        for user, collection in await self._registry.all():
            try:
                reports.append(await self.maintain(user, collection))
            except Exception as error:  # noqa: BLE001 - one user's trouble is not another's
                _logger.warning("maintenance failed and is repeated later: %s", type(error).__name__)
        return reports

    async def run(self, interval_seconds: float = 60.0) -> None:
        """Maintain everything again and again, until the task is cancelled."""
        while True:
            try:
                await self.maintain_all()
            except ReminiscenceError as error:
                _logger.warning("maintenance failed and is repeated later: %s", type(error).__name__)
            await asyncio.sleep(interval_seconds)

    async def set_memory(self, user: str, *, enabled: bool) -> None:
        """Switch a user's memory off, or on again. While it is off, nothing is read and nothing written."""
        await self._registry.switch(user, enabled=enabled)

    async def purge_conversation(
        self, user: str, conversation_id: str, collection: str = DEFAULT_COLLECTION
    ) -> ErasureReceipt:
        """Erase a conversation, with the facts and episodes that come from it.

        Raises:
            ExternalIdNotFoundError: The user has no such collection.
        """
        external_id = self._scope(user, collection)
        await self._settled(external_id)
        return await self._memory.admin.erase(external_id, conversation_id=conversation_id)

    async def purge_collection(self, user: str, collection: str = DEFAULT_COLLECTION) -> ErasureReceipt:
        """Erase everything in a user's collection.

        Raises:
            ExternalIdNotFoundError: The user has no such collection.
        """
        external_id = self._scope(user, collection)
        await self._settled(external_id)
        return await self._memory.admin.erase(external_id)

    async def purge_user(self, user: str) -> list[ErasureReceipt]:
        """Erase everything of a user, in all collections, and that there was such a user.

        Afterwards the user's memory is on, as for anybody who is unknown.
        """
        receipts: list[ErasureReceipt] = []
        for collection in await self._registry.collections(user):
            try:
                receipts.append(await self.purge_collection(user, collection))
            except ExternalIdNotFoundError:
                continue
        if await self._registry.knows(user):
            receipts.append(await self._memory.admin.erase(REGISTRY, conversation_id=user_conversation(user)))
        return receipts

    async def _settled(self, external_id: str) -> None:
        """Wait for what this process is recording: it must not come after the purge."""
        tasks = [task for (of, _), task in self._recording.items() if of == external_id]
        if tasks:
            await asyncio.wait(tasks)

    async def _conversation(self, user: str, collection: str, conversation_id: str) -> ConversationMemory | None:
        found = await self._services.conversations.get_conversation(
            GetConversationMemoryRequest(
                user=user, collection=collection, conversation_id=conversation_id, limit=_WHOLE_CONVERSATION
            )
        )
        if found.error is not None:
            raise NotRecordedError(f"a conversation cannot be read: {found.error.reason}")
        return found.conversation

    async def _conversations(self, user: str, collection: str) -> list[ConversationOutline]:
        """All conversations, the most recent first."""
        found: dict[str, ConversationOutline] = {}
        while True:
            listed = await self._services.conversations.list_conversations(
                ListConversationsRequest(user=user, collection=collection, limit=_CONVERSATIONS, offset=len(found))
            )
            if listed.error is not None:
                raise NotRecordedError(f"conversations cannot be listed: {listed.error.reason}")
            # A service that knows no offset gives the same ones again.
            new = {one.conversation_id: one for one in listed.conversations if one.conversation_id not in found}
            found |= new
            if len(new) < _CONVERSATIONS:
                return list(found.values())

    async def _facts_of(self, external_id: str, conversation_id: str) -> list[ActiveMemory]:
        return await self._memory.get_active_memories(
            external_id, where=Filter(conversation_ids=[conversation_id], key_prefix=FACT_PREFIX)
        )

    async def _close(
        self, external_id: str, conversation: ConversationMemory, facts: Sequence[ActiveMemory]
    ) -> tuple[Closing, frozenset[str]]:
        """What the conversation teaches, and the ids of the facts that will matter.

        A model is asked once, and its answer recorded before it is used.
        """
        ending = _ending(conversation)
        if (before := await self._ended(external_id, conversation.conversation_id, ending)) is not None:
            return before
        try:
            closing = await self._learning.close(conversation, [as_fact(fact) for fact in facts])
        except LearningFailedError as error:
            raise NotRecordedError(str(error)) from None
        lasting = [str(facts[number - 1].id) for number in closing.lasting_facts if 1 <= number <= len(facts)]
        try:
            await self._memory.ledger.append(
                external_id,
                ENDED,
                closing.model_dump(mode="json") | {"ending": ending, "lasting": lasting},
                conversation_id=conversation.conversation_id,
                source="model",
                idempotency_key=f"react/ended/{ending}",
            )
        except IdempotencyConflictError:
            if (before := await self._ended(external_id, conversation.conversation_id, ending)) is None:
                raise
            return before
        return closing, frozenset(lasting)

    async def _ended(
        self, external_id: str, conversation_id: str, ending: str
    ) -> tuple[Closing, frozenset[str]] | None:
        """What was recorded of this very end."""
        events = await self._memory.ledger.read_conversation(
            external_id, conversation_id, kinds=[ENDED], limit=_LOOK_BACK
        )
        for event in events:
            if event.payload.get("ending") == ending:
                return Closing.model_validate(event.payload), frozenset(event.payload["lasting"])
        return None

    async def _is_closed(self, external_id: str, conversation: ConversationMemory) -> bool:
        events = await self._memory.ledger.read_conversation(
            external_id, conversation.conversation_id, kinds=[CLOSED], limit=_LOOK_BACK
        )
        return any(event.payload.get("ending") == _ending(conversation) for event in events)

    async def _end_idle(self, user: str, collection: str, external_id: str) -> list[ConversationEnd]:
        limit = self._clock() - timedelta(seconds=self._config.conversation_timeout)
        ended = {
            event.conversation_id: datetime.fromisoformat(event.payload["last_at"])
            async for event in all_latest(self._memory, external_id, CLOSED)
            if event.payload
        }
        ends: list[ConversationEnd] = []
        for one in await self._conversations(user, collection):
            if one.updated_at > limit or ended.get(one.conversation_id) == one.updated_at:
                continue
            try:
                ends.append(await self.end_conversation(user, one.conversation_id, collection))
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - one conversation holds up no other
                _logger.warning("a conversation is ended at the next maintenance: %s", type(error).__name__)
        return ends

    async def _retain(
        self, external_id: str, prefix: str, ttl_days: float | None, most: int | None, used: _Used | None
    ) -> int:
        """Archive facts or episodes that are too old, unused, or too many; the oldest first."""
        if ttl_days is None and most is None and used is None:
            return 0
        old = None if ttl_days is None else self._clock() - timedelta(days=ttl_days)
        kept: list[ActiveMemory] = []
        archived = 0
        async for one in self._memories(external_id, prefix):
            is_over = old is not None and one.occurred_at < old
            if is_over or (used is not None and used.lacks(one)):
                await self._archive(external_id, one)
                archived += 1
            else:
                kept.append(one)
        too_many = 0 if most is None else max(len(kept) - most, 0)
        for one in kept[:too_many]:
            await self._archive(external_id, one)
        return archived + too_many

    async def _memories(self, external_id: str, prefix: str) -> AsyncIterator[ActiveMemory]:
        """Facts or episodes, oldest first. One that is archived meanwhile still marks its place."""
        after = None
        while page := await self._memory.get_active_memories(external_id, key_prefix=prefix, limit=_PAGE, after=after):
            for one in page:
                yield one
            after = page[-1].id

    async def _archive(self, external_id: str, one: ActiveMemory) -> None:
        # Another process may have archived it since.
        with suppress(MemoryNotFoundError, InvalidInputError):
            await self._memory.admin.archive(external_id, one.id, end_chunks=True)

    async def _retain_conversations(self, user: str, collection: str) -> int:
        """Archive conversations that are too old, or too many."""
        ttl_days, most = self._config.conversation_ttl_days, self._config.max_conversations
        if ttl_days is None and most is None:
            return 0
        old = None if ttl_days is None else self._clock() - timedelta(days=ttl_days)
        archived = 0
        for number, one in enumerate(await self._conversations(user, collection), start=1):
            is_over = old is not None and one.updated_at < old
            if not is_over and (most is None or number <= most):
                continue
            done = await self._services.conversations.delete_conversation(
                DeleteConversationRequest(user=user, collection=collection, conversation_id=one.conversation_id)
            )
            archived += done.success
        return archived

    async def _recently_used(self, external_id: str) -> _Used | None:
        """Which facts and episodes were shown to a question lately; None if unused ones are kept."""
        if self._config.prune_unused_days is None:
            return None
        since = self._clock() - timedelta(days=self._config.prune_unused_days)
        keys: set[str] = set()
        async for event in all_events(self._memory, external_id, FINISHED):
            if event.occurred_at < since:
                continue
            finished = as_finished(await self._memory.ledger.whole(event))
            if finished is not None:
                keys.update(finished.recalled)
        return _Used(since, frozenset(keys))


@dataclass(frozen=True, slots=True)
class _Used:
    """The keys of what was shown to a question since some time."""

    since: datetime
    keys: frozenset[str]

    def lacks(self, one: ActiveMemory) -> bool:
        """Whether a memory is older than that time and was not shown since."""
        return one.occurred_at < self.since and one.key not in self.keys


def _ending(conversation: ConversationMemory) -> str:
    """Names the end of a conversation after its last invocation: it ends again if it goes on."""
    last = conversation.invocations[-1]
    named = f"{len(conversation.conversation_id)}:{conversation.conversation_id}{last.invocation_id}{last.timestamp}"
    return sha256(named.encode()).hexdigest()[:32]
