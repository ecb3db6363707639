"""What leaves a user's collection: by its age, because there is too much, or because no question was shown it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.erasure import ErasureReceipt
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.exceptions import InvalidInputError, MemoryNotFoundError
from agent_reminiscence.react.config import ReactMemConfig
from agent_reminiscence.react.conversations import INVOCATION, MemoryConversations, all_latest
from agent_reminiscence.react.episodes import EPISODE_PREFIX
from agent_reminiscence.react.facts import FACT_PREFIX, fact_id_of
from agent_reminiscence.react.journal import ENDED, FINISHED, LEARNED, Journal, as_finished, episode_id_of
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.paging import all_events
from agent_reminiscence.react.service_models import ConversationOutline, DeleteConversationRequest

# Of one erasure; what is more waits for the next maintenance.
_MAX_MEMORIES: Final = 5_000
_MAX_EVENTS: Final = 10_000
_PAGE: Final = 500
_OURS: Final = "react."
# An erasure replays what stays. In the background, it takes at most this share of the time.
_SHARE_OF_TIME: Final = 0.05


@dataclass(slots=True)
class Removed:
    """What a retention removed, in numbers; the receipts are of what it erased."""

    facts: int = 0
    episodes: int = 0
    conversations: int = 0
    receipts: list[ErasureReceipt] = field(default_factory=list)


class Retention:
    """Archives or erases what is over, as the settings say."""

    def __init__(
        self,
        memory: AgentMem,
        services: MemoryServices,
        journal: Journal,
        *,
        config: ReactMemConfig,
        clock: Callable[[], datetime],
    ) -> None:
        self._memory = memory
        self._services = services
        self._journal = journal
        self._config = config
        self._clock = clock
        # From when on the background may erase again, by external_id.
        self._rests_until: dict[str, float] = {}

    async def apply(
        self,
        user: str,
        collection: str,
        external_id: str,
        conversations: Sequence[ConversationOutline],
        *,
        is_paced: bool = False,
    ) -> Removed:
        """Remove what is over.

        Args:
            conversations: All that there are, the most recent first.
            is_paced: Whether this is done again and again: then erasures of a collection leave time to others.

        Raises:
            StoreError: The store is unavailable; the next call does what is left.
        """
        erases = self._config.retention == "erase"
        if erases and is_paced and time.monotonic() < self._rests_until.get(external_id, 0.0):
            return Removed()
        used = await self._recently_used(external_id)
        facts = await self._over(external_id, FACT_PREFIX, self._config.fact_ttl_days, self._config.max_facts, used)
        episodes = await self._over(
            external_id, EPISODE_PREFIX, self._config.episode_ttl_days, self._config.max_episodes, used
        )
        over = self._over_conversations(conversations)
        if erases:
            began = time.monotonic()
            removed = await self._erase(user, collection, external_id, facts, episodes, over)
            if removed.receipts:
                now = time.monotonic()
                self._rests_until[external_id] = now + (now - began) / _SHARE_OF_TIME
            return removed
        for one in (*facts, *episodes):
            # Another process may have archived it since.
            with suppress(MemoryNotFoundError, InvalidInputError):
                await self._memory.admin.archive(external_id, one.id, end_chunks=True)
        deleted = [await self._delete(user, collection, one.conversation_id, purge=False) for one in over]
        return Removed(len(facts), len(episodes), sum(deleted))

    async def _erase(
        self,
        user: str,
        collection: str,
        external_id: str,
        facts: Sequence[ActiveMemory],
        episodes: Sequence[ActiveMemory],
        over: Sequence[ConversationOutline],
    ) -> Removed:
        """Erase memories and conversations in one transaction: a crash leaves all of them, for the next time.

        Of very many notes, those that do not fit go before: they are found by their facts, which are then still there.
        """
        facts, episodes = facts[:_MAX_MEMORIES], episodes[: _MAX_MEMORIES - len(facts[:_MAX_MEMORIES])]
        waiting = await self._journal.unrecorded(external_id)
        notes = sorted(await self._find_notes(external_id, facts, episodes, waiting))
        reason = f"retention: {', '.join(self._settings(facts, episodes, ()))}"
        removed = Removed(len(facts), len(episodes))
        while len(notes) > _MAX_EVENTS:
            part, notes = notes[:_MAX_EVENTS], notes[_MAX_EVENTS:]
            receipt = await self._memory.admin.erase(external_id, event_ids=part, actor="retention", reason=reason)
            removed.receipts.append(receipt)
        events = set(notes)
        ended: list[str] = []
        for conversation_id in await self._find_ended(external_id, over, waiting):
            said = await self._events_of(external_id, conversation_id)
            room = _MAX_EVENTS - len(events)
            if len(said) > room and events:
                break
            events |= set(said[:room])
            ended.append(conversation_id)
        if not isinstance(self._services.conversations, MemoryConversations):
            for one in over:
                await self._delete(user, collection, one.conversation_id, purge=True)
        removed.conversations = len(ended)
        if facts or episodes or events:
            receipt = await self._memory.admin.erase(
                external_id,
                memory_versions={one.id: one.version for one in (*facts, *episodes)},
                event_ids=events,
                actor="retention",
                reason=f"retention: {', '.join(self._settings(facts, episodes, ended))}",
            )
            removed.receipts.append(receipt)
        return removed

    def _settings(
        self, facts: Sequence[ActiveMemory], episodes: Sequence[ActiveMemory], ended: Sequence[str]
    ) -> list[str]:
        """The settings that bound what is removed."""
        config = self._config
        bounds: list[tuple[str, object, bool]] = [
            ("fact_ttl_days", config.fact_ttl_days, bool(facts)),
            ("max_facts", config.max_facts, bool(facts)),
            ("episode_ttl_days", config.episode_ttl_days, bool(episodes)),
            ("max_episodes", config.max_episodes, bool(episodes)),
            ("prune_unused_days", config.prune_unused_days, bool(facts or episodes)),
            ("conversation_ttl_days", config.conversation_ttl_days, bool(ended)),
            ("max_conversations", config.max_conversations, bool(ended)),
        ]
        return [name for name, value, applies in bounds if value is not None and applies]

    async def _over(
        self, external_id: str, prefix: str, ttl_days: float | None, most: int | None, used: _Used | None
    ) -> list[ActiveMemory]:
        """Facts or episodes that are too old, unused, or too many; the oldest first."""
        if ttl_days is None and most is None and used is None:
            return []
        old = None if ttl_days is None else self._clock() - timedelta(days=ttl_days)
        over: list[ActiveMemory] = []
        kept: list[ActiveMemory] = []
        async for one in memories(self._memory, external_id, prefix):
            is_over = old is not None and one.occurred_at < old
            (over if is_over or (used is not None and used.lacks(one)) else kept).append(one)
        return over + kept[: 0 if most is None else max(len(kept) - most, 0)]

    def _over_conversations(self, conversations: Sequence[ConversationOutline]) -> list[ConversationOutline]:
        """Conversations that are too old, or too many."""
        old, most = self._conversations_end_before(), self._config.max_conversations
        return [
            one
            for number, one in enumerate(conversations, start=1)
            if (old is not None and one.updated_at < old) or (most is not None and number > most)
        ]

    def _conversations_end_before(self) -> datetime | None:
        days = self._config.conversation_ttl_days
        return None if days is None else self._clock() - timedelta(days=days)

    async def _find_ended(
        self, external_id: str, over: Sequence[ConversationOutline], waiting: Sequence[Event]
    ) -> list[str]:
        """The conversations of which all events are over, also those that were archived before, or are no list's.

        One in which an invocation waits to be recorded stays, unless that is over as well.
        """
        latest: dict[str, datetime] = {}
        old = self._conversations_end_before()
        if old is not None:
            for kind in (INVOCATION, FINISHED):
                async for event in all_latest(self._memory, external_id, kind):
                    name = event.conversation_id or ""
                    latest[name] = max(event.occurred_at, latest.get(name, event.occurred_at))
        found = dict.fromkeys(one.conversation_id for one in over)
        found |= dict.fromkeys(name for name, last in latest.items() if old is not None and last < old)
        busy = {event.conversation_id for event in waiting if old is None or event.occurred_at >= old}
        return [name for name in found if name not in busy]

    async def _events_of(self, external_id: str, conversation_id: str) -> list[UUID]:
        """The events that this package's agent has left in a conversation, but for facts and episodes."""
        found: list[UUID] = []
        after = 0
        while page := await self._memory.ledger.read_conversation(
            external_id, conversation_id, after=after, limit=_PAGE
        ):
            found += [event.event_id for event in page if event.kind.startswith(_OURS)]
            after = page[-1].position
        return found

    async def _find_notes(
        self,
        external_id: str,
        facts: Sequence[ActiveMemory],
        episodes: Sequence[ActiveMemory],
        waiting: Sequence[Event],
    ) -> set[UUID]:
        """Notes of what was learned, from which these facts and episodes were stored, and which say the same.

        They are needed until all of it is recorded.
        """
        fact_ids = {(one.key or "").removeprefix(FACT_PREFIX) for one in facts}
        episode_ids = {(one.key or "").removeprefix(EPISODE_PREFIX) for one in episodes}
        if not fact_ids and not episode_ids:
            return set()
        needed = {str(event.event_id) for event in waiting}
        found: set[UUID] = set()
        async for event in all_events(self._memory, external_id, LEARNED, ENDED):
            if not event.payload:
                continue
            if event.kind == ENDED:
                is_of_these = event.payload["ending"] in episode_ids
            else:
                finished = event.payload["finished"]
                stated = (await self._journal.whole(event)).payload["facts"]
                is_of_these = finished not in needed and (
                    episode_id_of(finished) in episode_ids or not fact_ids.isdisjoint(map(fact_id_of, stated))
                )
            if is_of_these:
                found.add(event.event_id)
        return found

    async def _delete(self, user: str, collection: str, conversation_id: str, *, purge: bool) -> bool:
        done = await self._services.conversations.delete_conversation(
            DeleteConversationRequest(user=user, collection=collection, conversation_id=conversation_id, purge=purge)
        )
        return done.success

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


async def memories(memory: AgentMem, external_id: str, prefix: str) -> AsyncIterator[ActiveMemory]:
    """Facts or episodes, oldest first. One that is archived meanwhile still marks its place."""
    after = None
    while page := await memory.get_active_memories(external_id, key_prefix=prefix, limit=_PAGE, after=after):
        for one in page:
            yield one
        after = page[-1].id
