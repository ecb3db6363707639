"""What happens around invocations: the end of conversations, retention, purge, and what was left undone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
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
    StoreError,
)
from agent_reminiscence.react.config import ReactMemConfig
from agent_reminiscence.react.conversations import all_latest, latest_invocations
from agent_reminiscence.react.ending import ConversationEnd, Ending
from agent_reminiscence.react.episodes import EPISODE_PREFIX
from agent_reminiscence.react.facts import FACT_PREFIX, as_fact, promote
from agent_reminiscence.react.journal import ENDED, Journal
from agent_reminiscence.react.learning import Closing, Learning, LearningFailedError, without_sensitive
from agent_reminiscence.react.maintenance import one_at_a_time
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.models import DEFAULT_COLLECTION, ConversationMemory
from agent_reminiscence.react.recording import NotRecordedError, Recorder
from agent_reminiscence.react.registry import Registry
from agent_reminiscence.react.retention import Retention, memories
from agent_reminiscence.react.scope import REGISTRY, Scope, user_conversation
from agent_reminiscence.react.service_models import (
    ConversationOutline,
    GetConversationMemoryRequest,
    ListConversationsRequest,
    StoreEpisodeRequest,
)
from agent_reminiscence.services import validation
from agent_reminiscence.telemetry import Telemetry

_logger = logging.getLogger("agent_reminiscence.react")

# That all that a conversation taught is recorded.
CLOSED: Final = "react.conversation.closed"
_WHOLE_CONVERSATION: Final = 500
_CONVERSATIONS: Final = 1_000
_LOOK_BACK: Final = 50
_CALLED: Final = Ending(reason="call", why="its end was called for")


class MaintenanceReport(FrozenModel):
    """What a maintenance did for a user and collection.

    What retention removes is counted as archived, or with `retention="erase"` as erased, with receipts.
    """

    user: str
    collection: str
    recorded: int = 0
    not_recorded: int = 0
    ended: tuple[ConversationEnd, ...] = ()
    archived_facts: int = 0
    archived_episodes: int = 0
    archived_conversations: int = 0
    erased_facts: int = 0
    erased_episodes: int = 0
    erased_conversations: int = 0
    receipts: tuple[ErasureReceipt, ...] = ()


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
        self._retention = Retention(memory, services, journal, config=config, clock=clock)
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
        if not await self._may_record(event):
            return
        with self._telemetry.operation("react.record"):
            await self._recorder.record(external_id, event)

    async def _may_write(self, user: str, collection: str, conversation_id: str | None = None) -> bool:
        """Whether anything may be written now about a user, and about a conversation if one is named."""
        return self._config.memory_mode == "write" and await self._registry.allows(user, collection, conversation_id)

    async def _may_record(self, event: Event) -> bool:
        """Whether what follows from an invocation may be written now; not from one that was erased."""
        user, collection = event.payload.get("user"), event.payload.get("collection", DEFAULT_COLLECTION)
        return user is not None and await self._may_write(user, collection, event.conversation_id)

    async def usage(self, user: str, collection: str = DEFAULT_COLLECTION) -> CollectionUsage:
        """How much a user's collection holds, to be watched while it grows. Reads all of it.

        Raises:
            StoreError: The store is unavailable.
        """
        external_id = self._scope(user, collection)
        return CollectionUsage(
            facts=len([one async for one in memories(self._memory, external_id, FACT_PREFIX)]),
            episodes=len([one async for one in memories(self._memory, external_id, EPISODE_PREFIX)]),
            conversations=await self._count_conversations(user, collection, external_id),
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
        return await self.end(user, conversation_id, collection, _CALLED)

    async def end(
        self, user: str, conversation_id: str, collection: str, ending: Ending, *, until: Event | None = None
    ) -> ConversationEnd:
        """End a conversation for a reason, or the part of it before an invocation; see `end_conversation`.

        Args:
            until: The invocation that begins something else, of an ending that `is_before` it.
        """
        nothing = ConversationEnd(conversation_id=conversation_id, is_new=False, reason=ending.reason, why=ending.why)
        if not await self._may_write(user, collection, conversation_id):
            return nothing
        external_id = self._scope(user, collection)
        # The facts of its last invocations are to be there.
        for event in await self._journal.unrecorded(external_id):
            if event.conversation_id == conversation_id and (until is None or event.position < until.position):
                await self.record(external_id, event)
        conversation = await self._part(external_id, await self._conversation(user, collection, conversation_id), until)
        if conversation is None or not conversation.invocations:
            return nothing
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
            try:
                await self._memory.ledger.append(
                    external_id,
                    CLOSED,
                    {
                        "ending": _ending(conversation),
                        "last_at": conversation.invocations[-1].timestamp.isoformat(),
                        "reason": ending.reason,
                        "why": ending.why,
                        "is_part": ending.is_before,
                    },
                    conversation_id=conversation_id,
                    idempotency_key=f"react/closed/{_ending(conversation)}",
                )
            except IdempotencyConflictError:
                # It has just ended elsewhere, for another reason.
                is_new = False
        return nothing.model_copy(update={"is_new": is_new, "promoted_facts": promoted, "episode_id": episode_id})

    async def _part(
        self, external_id: str, conversation: ConversationMemory | None, until: Event | None
    ) -> ConversationMemory | None:
        """The part of a conversation that ends: after the last end that was only of a part, and before `until`."""
        if conversation is None:
            return None
        since: datetime | None = None
        for event in await self._closed(external_id, conversation.conversation_id):
            if event.payload.get("is_part"):
                since = datetime.fromisoformat(event.payload["last_at"])
                break
        kept = tuple(
            one
            for one in conversation.invocations
            if (since is None or one.timestamp > since) and (until is None or one.timestamp < until.occurred_at)
        )
        return conversation.model_copy(update={"invocations": kept})

    async def _closed(self, external_id: str, conversation_id: str) -> list[Event]:
        """The last ends of a conversation, the newest first."""
        return await self._memory.ledger.read_conversation(
            external_id, conversation_id, kinds=[CLOSED], limit=_LOOK_BACK
        )

    async def maintain(self, user: str, collection: str = DEFAULT_COLLECTION) -> MaintenanceReport:
        """Do what is due: what a crash left unrecorded, conversations that have been idle, retention and pruning.

        With `retention="erase"` at most 5,000 memories and 10,000 events are erased at once.

        Raises:
            StoreError: The store is unavailable; what was done is kept.
        """
        return await self._maintain(user, collection, is_paced=False)

    async def _maintain(self, user: str, collection: str, *, is_paced: bool) -> MaintenanceReport:
        if not await self._may_write(user, collection):
            return MaintenanceReport(user=user, collection=collection)
        external_id = self._scope(user, collection)
        recorded = failed = 0
        for event in await self._journal.unrecorded(external_id):
            if not await self._may_record(event):
                # Its conversation's memory is off.
                continue
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
        removed = await self._retention.apply(
            user, collection, external_id, await self._bounded_conversations(user, collection), is_paced=is_paced
        )
        done = MaintenanceReport(
            user=user, collection=collection, recorded=recorded, not_recorded=failed, ended=tuple(ended)
        )
        what = "erased" if self._config.retention == "erase" else "archived"
        return done.model_copy(
            update={
                f"{what}_facts": removed.facts,
                f"{what}_episodes": removed.episodes,
                f"{what}_conversations": removed.conversations,
                "receipts": tuple(removed.receipts),
            }
        )

    async def _bounded_conversations(self, user: str, collection: str) -> list[ConversationOutline]:
        """All conversations if anything bounds them; none otherwise, as nobody asks for them."""
        is_bounded = self._config.conversation_ttl_days is not None or self._config.max_conversations is not None
        return await self._conversations(user, collection) if is_bounded else []

    async def maintain_all(self) -> list[MaintenanceReport]:
        """Do what is due for every user and collection; one that fails is logged and left for the next time.

        If this process maintains the same memory already, it waits for that first.
        """
        return await self._maintain_all(is_paced=False)

    async def _maintain_all(self, *, is_paced: bool) -> list[MaintenanceReport]:
        reports: list[MaintenanceReport] = []
        async with one_at_a_time(self._memory):
            for user, collection in await self._registry.all():
                try:
                    reports.append(await self._maintain(user, collection, is_paced=is_paced))
                except Exception as error:  # noqa: BLE001 - one user's trouble is not another's
                    _logger.warning("maintenance failed and is repeated later: %s", type(error).__name__)
        return reports

    async def run(self, interval_seconds: float = 60.0) -> None:
        """Maintain everything again and again, until the task is cancelled.

        A service that is open does so by itself every `maintenance_seconds`; this is for a process without one.
        Erasures of a collection, which take as long as its ledger is long, then take a twentieth of the time at most.
        """
        while True:
            await self.maintain_quietly()
            await asyncio.sleep(interval_seconds)

    async def maintain_quietly(self) -> None:
        """Maintain everything; whatever fails is logged and left for the next time."""
        try:
            await self._maintain_all(is_paced=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, maintenance must not silently stop
            _logger.warning("maintenance failed and is repeated later: %s", type(error).__name__)

    async def settle(self) -> None:
        """Wait for what this process is recording."""
        while self._recording:
            await asyncio.wait(self._recording.values())

    async def set_memory(
        self,
        user: str,
        *,
        enabled: bool,
        conversation_id: str | None = None,
        collection: str = DEFAULT_COLLECTION,
    ) -> None:
        """Switch a user's memory off, or on again; or that of one conversation.

        While it is off, nothing is read and nothing written, in any process, by the agent or by the memory's services.
        What is stored stays, and can be deleted and purged. A conversation's memory is used only while the user's is on
        as well.

        Args:
            conversation_id: Only this conversation; None is all of the user's collections.
            collection: The collection of that conversation.

        Raises:
            InvalidInputError: An argument is invalid; nothing is switched.
            StoreError: The store is unavailable; nothing is switched.
        """
        user = validation.identifier("user", user)
        enabled = validation.flag("enabled", enabled)
        if conversation_id is None:
            if collection != DEFAULT_COLLECTION:
                raise InvalidInputError(
                    f"collection is {collection!r}, but conversation_id names no conversation in it; pass it as well,"
                    " or leave both out to switch all of the user's collections"
                )
            await self._registry.switch(user, enabled=enabled)
            return
        await self._registry.switch_conversation(
            user,
            validation.identifier("collection", collection),
            validation.identifier("conversation_id", conversation_id),
            enabled=enabled,
        )

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
        noted = await self._registry.switches(user)
        if await self._registry.knows(user):
            noted.append(user_conversation(user))
        return receipts + [await self._memory.admin.erase(REGISTRY, conversation_id=one) for one in noted]

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

    async def _count_conversations(self, user: str, collection: str, external_id: str) -> int:
        if await self._registry.is_enabled(user):
            return len(await self._conversations(user, collection))
        # The service shows nothing of a memory that is off; how many there are may be counted.
        return len(await latest_invocations(self._memory, external_id))

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
        events = await self._closed(external_id, conversation.conversation_id)
        return any(event.payload.get("ending") == _ending(conversation) for event in events)

    async def _end_idle(self, user: str, collection: str, external_id: str) -> list[ConversationEnd]:
        limit = self._clock() - timedelta(seconds=self._config.conversation_timeout)
        ended = {
            event.conversation_id: datetime.fromisoformat(event.payload["last_at"])
            async for event in all_latest(self._memory, external_id, CLOSED)
            if event.payload
        }
        idle = Ending(reason="timeout", why=f"nothing was said for {self._config.conversation_timeout:,.0f} s")
        ends: list[ConversationEnd] = []
        for one in await self._conversations(user, collection):
            if one.updated_at > limit or ended.get(one.conversation_id) == one.updated_at:
                continue
            try:
                ends.append(await self.end(user, one.conversation_id, collection, idle))
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - one conversation holds up no other
                _logger.warning("a conversation is ended at the next maintenance: %s", type(error).__name__)
        return ends


def _ending(conversation: ConversationMemory) -> str:
    """Names the end of a conversation after its last invocation: it ends again if it goes on."""
    last = conversation.invocations[-1]
    named = f"{len(conversation.conversation_id)}:{conversation.conversation_id}{last.invocation_id}{last.timestamp}"
    return sha256(named.encode()).hexdigest()[:32]
