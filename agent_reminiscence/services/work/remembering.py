"""Has a model read conversations that were recorded with `remember=True`, as part of a stream's work.

An event in the turn's transaction says that there is something to read, and another one what was read. So a burst of
turns costs one call, and whatever a crash leaves unread stays pending. A worker killed after a write and before the
event about it reads the same turns again; the model is then shown what it has written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from agent_reminiscence.agents.plans import Role, Said
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.remembering import PendingConversation, SaidEvent
from agent_reminiscence.domain.conversation_key import ConversationKeys
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.payloads import DeletionAsked, RememberAsked, Remembered
from agent_reminiscence.domain.remembering import RememberReport
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.domain.turn import Turn, read_turns
from agent_reminiscence.exceptions import AgentError, ConfigurationError, RedactionError
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import WriteRequest
from agent_reminiscence.services.memories.off_record import keep_on_record
from agent_reminiscence.services.memories.remembering import RememberingService, RememberRequest
from agent_reminiscence.services.model_budget import OutOfTokensError
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.tiers.reading_turns import ReadingTurns
from agent_reminiscence.text.rendering import split_recalled

# How much of a conversation a model reads at a time: some 10,000 tokens. A longer turn is cut.
MAX_READ_CHARACTERS: Final = 40_000
_MAX_EVENTS: Final = 200
# How many parts of a conversation are read before others have their turn.
_MAX_PARTS: Final = 20
# The pause after the first failure of the model; each further one is twice as long, up to a day.
RETRY_PAUSE: Final = timedelta(hours=1)
_LONGEST_PAUSE: Final = timedelta(days=1)
# How soon another worker is to look at a stream that this one has no model for: after as many seconds as the stream has
# waited, but no fewer and no more than these.
_NO_MODEL_SECONDS: Final = (5.0, 300.0)

_ROLES: Final[Mapping[Source, Role]] = {
    "user": "user",
    "agent": "assistant",
    "model": "assistant",
    "tool": "tool",
    "import": "tool",
}
# Speakers that a role says already.
_ROLE_NAMES: Final = frozenset({"user", "human", "assistant", "ai", "model", "agent", "tool", "function"})


class Read(NamedTuple):
    """What a run has read.

    Attributes:
        conversations: How many conversations.
        failure: Why the model gave nothing usable, for the first conversation for which it gave none.
    """

    conversations: int = 0
    failure: Exception | None = None


class _ErasedMeanwhileError(Exception):
    """Something was erased while the model was reading: what it has read may be what is gone."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Turns that a model reads at a time.

    Attributes:
        said: What was said; `message` is the number of the turn.
        positions: Of the event that each turn is from.
        said_at: When the last was said; None if there is none.
        through: Position of the last event.
        is_cut: Whether more was there to read.
    """

    said: Sequence[Said]
    positions: Sequence[int]
    said_at: datetime | None
    through: int
    is_cut: bool


class ConversationReader:
    """Reads what is due and remembers of it.

    Args:
        pause_seconds: How long a conversation must pause before it is read.
    """

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        turns: ReadingTurns,
        remembering: RememberingService,
        *,
        pause_seconds: float,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._pending = runtime.repositories.remembering
        self._memories = runtime.repositories.tables.active
        self._clock = runtime.clock
        self._projector = projector
        self._turns = turns
        self._remembering = remembering
        self._pause_seconds = pause_seconds

    async def next_due_in(self, external_id: str) -> float | None:
        """In how many seconds the next conversation is to be read, 0 for now; None if none is pending."""
        pending = await self._find(external_id)
        if not pending:
            return None
        due_in = pending[0].due_in_seconds
        if due_in <= 0 and not self._remembering.has_model:
            least, most = _NO_MODEL_SECONDS
            return min(max(least, -due_in), most)
        return max(0.0, due_in)

    async def read_due(self, external_id: str) -> Read:
        """Read the conversations that are due; those on which the model fails stay pending, for later.

        Raises:
            StoreError: The store is unavailable.
        """
        due = [one for one in await self._find(external_id) if one.is_due]
        if not due:
            return Read()
        if not self._remembering.has_model:
            return Read(
                failure=ConfigurationError(
                    "conversations wait for a model that this worker does not have; set memory_update_agent_model"
                )
            )
        number = 0
        failure: Exception | None = None
        for conversation in due:
            # So that two workers do not pay for the same turns.
            async with self._turns.hold(external_id):
                was_read, error = await self._read_parts(external_id, conversation.conversation_id)
            number += was_read
            failure = failure or error
        return Read(number, failure)

    async def _read_parts(self, external_id: str, conversation_id: str) -> tuple[bool, Exception | None]:
        """Read a conversation part by part; whether any of it was read, and why the rest was not."""
        was_read = False
        for _ in range(_MAX_PARTS):
            pending = [one for one in await self._find(external_id, conversation_id) if one.is_due]
            if not pending:
                break
            try:
                await self._read(external_id, pending[0])
                was_read = True
            except _ErasedMeanwhileError:
                # It is still due, and read again without what was erased.
                continue
            except (AgentError, RedactionError) as error:
                await self._put_off(external_id, pending[0], error)
                return was_read, error
        return was_read, None

    async def _find(self, external_id: str, conversation_id: str | None = None) -> list[PendingConversation]:
        async with self._store.transaction(external_id, read_only=True) as db:
            return await self._pending.find_pending(
                db, external_id, pause_seconds=self._pause_seconds, conversation_id=conversation_id
            )

    async def _read(self, external_id: str, pending: PendingConversation) -> None:
        keys = ConversationKeys(pending.conversation_id)
        async with self._store.transaction(external_id, read_only=True) as db:
            head = await self._ledger.head(db, external_id)
            said = await self._pending.read_said(
                db, external_id, keys, after=pending.after, now=self._clock(), limit=_MAX_EVENTS
            )
            off_at = await self._pending.find_off_record(db, external_id, pending.conversation_id)
            part = await self._memories.find_latest_part(db, external_id, keys)
        batch = _batch(said)
        report = None
        if batch.said:

            async def check() -> None:
                async with self._store.transaction(external_id, read_only=True) as db:
                    erased = [EventKind.ERASED]
                    if await self._ledger.read(db, external_id, after=head, kinds=erased, actor=None, limit=1):
                        raise _ErasedMeanwhileError

            report = await self._remembering.remember(
                RememberRequest(
                    external_id=external_id,
                    said=batch.said,
                    user_name=None,
                    occurred_at=batch.said_at,
                    actor=pending.actor,
                    conversation_id=pending.conversation_id,
                    is_dry_run=False,
                    besides_conversations=True,
                    off_at=off_at,
                    check=check,
                    timezone=None if part is None else part.timezone,
                )
            )
        await self._record(external_id, pending, batch, report, keep_on_record(batch.said, off_at).off_at)

    async def _record(
        self,
        external_id: str,
        pending: PendingConversation,
        batch: _Batch,
        report: RememberReport | None,
        off_at: datetime | None,
    ) -> None:
        """Record what was read, and what is still to be read: what did not fit, and what was said meanwhile."""
        # Whoever ends a conversation begins the next one on the record.
        has_ended = pending.is_over and not batch.is_cut
        through = max(pending.after, batch.through)
        payload = Remembered(
            after=pending.after,
            through=through,
            turns=len(batch.positions),
            memory_ids=()
            if report is None
            else tuple(
                dict.fromkeys(one.memory_id for one in report.changes if one.outcome != "refused" and one.memory_id)
            ),
            refused=0 if report is None else sum(one.outcome == "refused" for one in report.changes),
            deletion_requests=()
            if report is None
            else tuple(
                DeletionAsked(
                    position=batch.positions[one.message], memory_ids=one.memory_ids, is_replaced=one.is_replaced
                )
                for one in report.deletion_requests
            ),
            off_record=0 if report is None else report.off_record_messages,
            off_record_at=None if has_ended else off_at,
        )
        keys = ConversationKeys(pending.conversation_id)
        async with self._store.transaction(external_id) as db:
            if not await self._is_still_asked(db, external_id, pending):
                return
            is_over = batch.is_cut or await self._has_ended_since(db, external_id, pending)
            await self._append(db, external_id, pending, EventKind.REMEMBERED, payload.model_dump(mode="json"))
            if await self._pending.read_said(db, external_id, keys, after=through, now=self._clock(), limit=1):
                asked = RememberAsked(after=through, is_over=is_over)
                await self._append(db, external_id, pending, EventKind.REMEMBER_ASKED, asked.model_dump(mode="json"))

    async def _put_off(self, external_id: str, pending: PendingConversation, error: Exception) -> None:
        """Record that the model failed, and when to ask it again; after an `end()` meanwhile, it is asked at once."""
        failed = pending.failed_attempts
        if isinstance(error, OutOfTokensError):
            now = self._clock().astimezone(UTC)
            midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
            pause = midnight - now
        else:
            failed += 1
            # So large a power would not be a number of seconds.
            pause = min(RETRY_PAUSE * 2 ** min(failed - 1, 10), _LONGEST_PAUSE)
        asked = RememberAsked(after=pending.after, retry_seconds=pause.total_seconds(), failed_attempts=failed)
        async with self._store.transaction(external_id) as db:
            if await self._is_still_asked(db, external_id, pending) and not await self._has_ended_since(
                db, external_id, pending
            ):
                await self._append(db, external_id, pending, EventKind.REMEMBER_ASKED, asked.model_dump(mode="json"))

    async def _is_still_asked(self, db: SqlExecutor, external_id: str, pending: PendingConversation) -> bool:
        """Lock the stream, and look whether the conversation was not erased meanwhile."""
        await self._projector.begin(db, WriteRequest(external_id=external_id))
        return bool(await self._ledger.read_at(db, external_id, [pending.position]))

    async def _has_ended_since(self, db: SqlExecutor, external_id: str, pending: PendingConversation) -> bool:
        """Whether `end()` was called while the model was reading: what is still to be read is to be read at once."""
        found = await self._pending.find_pending(
            db, external_id, pause_seconds=self._pause_seconds, conversation_id=pending.conversation_id
        )
        return any(one.is_over and one.position > pending.position for one in found)

    async def _append(
        self, db: SqlExecutor, external_id: str, pending: PendingConversation, kind: EventKind, payload: dict[str, Any]
    ) -> None:
        # The identifiers are those of the event that asked, which were checked then.
        request = WriteRequest(
            external_id=external_id,
            actor=pending.actor,
            conversation_id=pending.conversation_id,
            source="model" if kind == EventKind.REMEMBERED else "user",
            redactions={},
        )
        await self._projector.record(db, request.event(kind, payload, self._clock()))


def _batch(said: Sequence[SaidEvent]) -> _Batch:
    """As much of what was said as a model reads at a time; whole events, and at least one."""
    texts: list[Said] = []
    positions: list[int] = []
    said_at: datetime | None = None
    through = characters = 0
    for event in said:
        turns = _turns(event)
        length = sum(len(turn.text) for turn in turns)
        if through and characters + length > MAX_READ_CHARACTERS:
            return _Batch(texts, positions, said_at, through, is_cut=True)
        for turn in turns:
            room = max(0, MAX_READ_CHARACTERS - characters)
            texts += _said(turn, event, len(positions), room)
            positions.append(event.position)
            characters += min(len(turn.text), room)
        said_at, through = event.occurred_at, event.position
    return _Batch(texts, positions, said_at, through, is_cut=len(said) == _MAX_EVENTS)


def _turns(event: SaidEvent) -> list[Turn]:
    payload = event.payload
    if event.kind == EventKind.CREATED:
        return read_turns(payload["content"], payload["metadata"])
    # Turns say where they begin in the memory's whole text; the event holds the end of it.
    entries = [entry | {"start": entry["start"] - payload["start"]} for entry in payload.get("turns", ())]
    return read_turns(payload["content"], {"turns": entries})


def _said(turn: Turn, event: SaidEvent, number: int, room: int) -> list[Said]:
    """A turn as the model is shown it; what only quotes recalled memory is apart."""
    text = turn.text if len(turn.text) <= room else f"{turn.text[:room]}…"
    if turn.speaker is not None and turn.speaker.casefold() not in _ROLE_NAMES:
        text = f"{turn.speaker}: {text}"
    return [
        Said(_ROLES[event.source], part, is_recalled, number, turn.time or event.occurred_at)
        for part, is_recalled in split_recalled(text)
        if part.strip()
    ]
