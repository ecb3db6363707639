"""Conversations that grow turn by turn: in one memory a day, or in several where a day's would be too long.

A memory of bounded size keeps every turn's cost the same, however long the conversation is, and the consolidation of
what a day or a part of it said does not wait for the end of a conversation that may have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, tzinfo
from typing import Any, Final

from agent_reminiscence.config.timezones import stored_zone
from agent_reminiscence.database.connection import PLANNED_ONCE, SqlExecutor
from agent_reminiscence.domain.conversation_key import MAX_CONVERSATION_MEMORIES, ConversationKeys
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.memory import ActiveMemory, MemoryOutline
from agent_reminiscence.domain.payloads import RememberAsked
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.domain.turn import Turn, lay_out_turns, read_turns, source_of, turn_text
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.projections.indexed_text import heading_text
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import (
    AppendTextRequest,
    ConversationRequest,
    CreateRequest,
    WriteRequest,
)
from agent_reminiscence.services.memories.appends import MemoryAppends, check_said, is_repeatable
from agent_reminiscence.services.memories.creation import MemoryCreation
from agent_reminiscence.services.memories.writes import MemoryWrites, Written
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.writing import MadeVectors, WriteVectors
from agent_reminiscence.text.days import day_of, now_in

# A conversation's next memory begins before a turn that would make the last one longer than this.
CONVERSATION_MEMORY_CHARACTERS: Final = 16_000
# How many of a conversation's memories are read at a time.
_PARTS_READ: Final = 4


class Talks:
    """Records what is said in conversations."""

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        vectors: WriteVectors,
        writes: MemoryWrites,
        creation: MemoryCreation,
        appends: MemoryAppends,
    ) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._tables = runtime.repositories.tables
        self._remembering = runtime.repositories.remembering
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._projector = projector
        self._vectors = vectors
        self._writes = writes
        self._creation = creation
        self._appends = appends

    async def add(self, asked: ConversationRequest) -> ActiveMemory:
        """Add the turns that the conversation does not hold yet, all of them in one transaction.

        Returns:
            The memory that holds the last of them; the conversation's last one if all were known.

        Raises:
            QuotaExceededError: A limit of the stream would be exceeded; nothing is written.
        """
        check_said(asked.turns, self._clock())
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._add(request),
            operation="conversation",
            external_id=request.external_id,
            repeatable=is_repeatable(request.turns),
        )

    async def _add(self, request: ConversationRequest) -> ActiveMemory:
        today = now_in(self._clock(), stored_zone(request.timezone or self._writes.timezone)).date()
        heading = heading_text(request.title, today)
        made = await self._appends.make_for(None, request.turns, heading)
        async with self._store.transaction(request.external_id, settings=PLANNED_ONCE) as db:
            has_tables = await self._vectors.look_for_tables(db, made)
            await self._projector.begin(db, request)
            made = await self._vectors.keep_storable(made, has_tables)
            last = await self._tables.active.find_latest_part(db, request.external_id, request.keys)
            turns = await self._appends.find_new(db, request.external_id, request.keys.scope, request.turns)
            if last is not None and not turns:
                return self._writes.to_active(
                    await self._tables.active.get_by_id(db, request.external_id, last.memory_id)
                )
            if request.remember:
                await self._ask_to_remember(db, request)
            # Asked under the lock, so that a later turn has a later time.
            now = self._clock() if last is None else max(self._clock(), last.occurred_at)
            if request.timezone is None and last is not None:
                request = replace(request, timezone=last.timezone)
            zone = stored_zone(request.timezone or self._writes.timezone)
            written: list[Written] = []
            rest = [turn if turn.time is not None else turn.model_copy(update={"time": now}) for turn in turns]
            while rest:
                if written:
                    last = await self._tables.active.get_outline(db, request.external_id, written[-1].memory.memory_id)
                part, is_next = _next_part(last, rest, request.source, now=self._clock(), zone=zone)
                written.append(await self._write(db, request, last, part, made, is_next=is_next))
                rest = rest[len(part) :]
        return await self._writes.finish(*written)

    async def _ask_to_remember(self, db: SqlExecutor, request: ConversationRequest) -> None:
        """Have the turns that follow read by a model, unless those before them still wait for that."""
        pause = self._writes.remember_after_seconds
        if await self._remembering.find_pending(
            db, request.external_id, pause_seconds=pause, conversation_id=request.conversation_id
        ):
            return
        await self._record_asked(db, request, RememberAsked())
        await self._writes.queue_reading(db, request.external_id, delay_seconds=pause)

    async def _record_asked(self, db: SqlExecutor, request: WriteRequest, asked: RememberAsked) -> None:
        event = WriteRequest(
            external_id=request.external_id,
            actor=request.actor,
            conversation_id=request.conversation_id,
            redactions={},
        ).event(EventKind.REMEMBER_ASKED, asked.model_dump(mode="json"), self._clock())
        await self._projector.record(db, event)

    async def end(self, external_id: str, keys: ConversationKeys, *, actor: str | None) -> bool:
        """Have what was said and not yet read by a model read at once; returns whether there is anything.

        Raises:
            StoreError: The store is unavailable.
        """
        request = await self._scrubber.scrub(
            WriteRequest(external_id=external_id, actor=actor, conversation_id=keys.conversation_id)
        )
        return await repeated(
            lambda: self._end(request, keys), operation="conversation.end", external_id=external_id, repeatable=True
        )

    async def _end(self, request: WriteRequest, keys: ConversationKeys) -> bool:
        external_id, conversation_id = request.external_id, keys.conversation_id
        async with self._store.transaction(external_id) as db:
            # Asking about a tenant that is not there must not create it.
            await self._ledger.lock_known(db, external_id)
            pending = await self._remembering.find_pending(
                db, external_id, pause_seconds=self._writes.remember_after_seconds, conversation_id=conversation_id
            )
            after = pending[0].after if pending else await self._remembering.find_read(db, external_id, conversation_id)
            # A model may be reading what came before the last end; what was said since then is to be read at once, too.
            ended = pending[0].position if pending and pending[0].is_over else None
            since = after if ended is None else ended
            if not await self._remembering.read_said(db, external_id, keys, after=since, now=self._clock(), limit=1):
                return ended is not None
            await self._record_asked(db, request, RememberAsked(after=after, is_over=True))
            await self._writes.queue_reading(db, external_id, delay_seconds=0)
        return True

    async def _write(
        self,
        db: SqlExecutor,
        request: ConversationRequest,
        last: MemoryOutline | None,
        turns: Sequence[Turn],
        made: MadeVectors | None,
        *,
        is_next: bool,
    ) -> Written:
        """Write turns of one source into the conversation's last memory, or into its next one."""
        source = source_of(turns[0].speaker, request.source)
        said: dict[str, Any] = {
            "external_id": request.external_id,
            "occurred_at": max(turn.time for turn in turns if turn.time is not None),
            "actor": request.actor,
            "conversation_id": request.conversation_id,
            "source": source,
            "redactions": request.redactions,
        }
        if last is not None and not is_next:
            # A turn that is told late does not make the memory older.
            said["occurred_at"] = max(said["occurred_at"], last.occurred_at)
            return await self._appends.record(db, last, AppendTextRequest(turns=tuple(turns), **said), turns, made)
        number = 1 if last is None else request.keys.number(str(last.key)) + 1
        if number > MAX_CONVERSATION_MEMORIES:
            raise InvalidInputError(
                f"conversation {request.conversation_id!r} has {number - 1:,} memories, which is the limit;"
                " begin another conversation"
            )
        content, entries = lay_out_turns(turns)
        creation = CreateRequest(
            title=request.title,
            content=content,
            description=None,
            metadata={"turns": entries},
            key=request.keys.key(number),
            timezone=request.timezone,
            **said,
        )
        return await self._creation.record_next(db, creation, made, completes=last)

    async def read(self, external_id: str, keys: ConversationKeys, *, limit: int) -> list[Turn]:
        """The last turns of a conversation, oldest first, without those of archived and expired memories."""

        async def read() -> list[Turn]:
            found: list[Turn] = []
            async with self._store.transaction(external_id, read_only=True) as db:
                before: str | None = None
                while len(found) < limit:
                    parts = await self._tables.active.find_parts(
                        db, external_id, keys, now=self._clock(), before=before, limit=_PARTS_READ
                    )
                    for memory in parts:
                        found = [*read_turns(memory.content, memory.metadata), *found]
                    if len(parts) < _PARTS_READ:
                        break
                    before = parts[-1].key
            return found[-limit:]

        return await repeated(read, operation="conversation", external_id=external_id)


def _next_part(
    last: MemoryOutline | None, turns: Sequence[Turn], default: Source, *, now: datetime, zone: tzinfo
) -> tuple[list[Turn], bool]:
    """The first of some turns that one event records, and whether it begins the conversation's next memory.

    Args:
        zone: Of the days of a next memory; the last one has its own.
    """
    of_last = zone if last is None else stored_zone(last.timezone)
    if (
        last is None
        or last.archived_at is not None
        # A turn may be said later than now, by another clock.
        or last.has_expired(max(now, _time(turns[0])))
        or _day(turns[0], of_last) > day_of(last.occurred_at, of_last)
        or last.characters + 1 + len(turn_text(turns[0])) > CONVERSATION_MEMORY_CHARACTERS
    ):
        # No line break comes before the first turn of a text.
        is_next, size, day = True, -1, _day(turns[0], zone)
    else:
        is_next, size, day, zone = False, last.characters, day_of(last.occurred_at, of_last), of_last
    part: list[Turn] = []
    for turn in turns:
        size += 1 + len(turn_text(turn))
        if part and (
            size > CONVERSATION_MEMORY_CHARACTERS
            or _day(turn, zone) > day
            or (not is_next and last is not None and last.has_expired(_time(turn)))
            or source_of(turn.speaker, default) != source_of(part[0].speaker, default)
        ):
            break
        part.append(turn)
    return part, is_next


def _day(turn: Turn, zone: tzinfo) -> date:
    return day_of(_time(turn), zone)


def _time(turn: Turn) -> datetime:
    assert turn.time is not None, "a turn without a time gets one"
    return turn.time
