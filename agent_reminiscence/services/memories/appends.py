"""Adds to the end of a memory's text: turns of a conversation, or paragraphs.

An append costs what it adds. Its event holds nothing of the text before it, and no chunk of that text changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from agent_reminiscence.config.constants import MAX_CONTENT_CHARACTERS
from agent_reminiscence.database.connection import PLANNED_ONCE, SqlExecutor
from agent_reminiscence.database.repositories.active_memory import Begun
from agent_reminiscence.domain.canonical import beside
from agent_reminiscence.domain.event import EventKind
from agent_reminiscence.domain.memory import ActiveMemory, MemoryOutline
from agent_reminiscence.domain.payloads import MemoryAppended
from agent_reminiscence.domain.turn import Turn, lay_out_turns, said_at, turn_scope, turns_of
from agent_reminiscence.exceptions import InvalidInputError, MemoryNotFoundError
from agent_reminiscence.projections.indexed_text import embedded_text
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import AppendTextRequest, CreateRequest
from agent_reminiscence.services.memories.fold import outcome_of
from agent_reminiscence.services.memories.languages import TenantLanguage
from agent_reminiscence.services.memories.layout import LONG_TEXT_CHARACTERS, appended_entries
from agent_reminiscence.services.memories.updates import check_expiry, check_writable
from agent_reminiscence.services.memories.writes import MemoryWrites, Written, write_event
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.services.vectors.writing import MadeVectors, WriteVectors

# A text begins a new paragraph, a turn a new line.
_BEFORE_TEXT = "\n\n"
_BEFORE_TURN = "\n"
# How far clocks may differ.
_LARGEST_LEAD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Addition:
    """What follows a memory's text.

    Attributes:
        space: The white space between both.
        turns: Those of `body`, as entries of `metadata["turns"]`; their positions count from the text's beginning.
    """

    space: str
    body: str
    turns: Sequence[dict[str, Any]] = ()

    def said_at(self) -> list[datetime]:
        """When its turns were said, as far as they say so."""
        moments = (said_at(turn) for turn in self.turns)
        return [moment for moment in moments if moment is not None]


class MemoryAppends:
    """Appends `memory.appended`."""

    def __init__(
        self,
        runtime: Runtime,
        projector: Projector,
        vectors: WriteVectors,
        writes: MemoryWrites,
    ) -> None:
        self._store = runtime.store
        self._tables = runtime.repositories.tables
        self._scrubber = runtime.scrubber
        self._clock = runtime.clock
        self._projector = projector
        self._vectors = vectors
        self._writes = writes

    async def append(self, asked: AppendTextRequest) -> ActiveMemory:
        """Append `memory.appended`, unless all its turns are stored already, and store the next version.

        Raises:
            MemoryNotFoundError: `external_id` has no such memory.
            VersionConflictError: The memory is not at the request's `expected_version`.
            InvalidInputError: The memory is archived, or its text would be too long.
        """
        check_said(asked.turns, self._clock())
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._append(request),
            operation="append",
            external_id=request.external_id,
            repeatable=request.idempotency_key is not None or is_repeatable(request.turns),
        )

    async def _append(self, request: AppendTextRequest) -> ActiveMemory:
        made = await self.make_for(request.text, request.turns)
        async with self._store.transaction(request.external_id, settings=PLANNED_ONCE) as db:
            has_tables = await self._vectors.look_for_tables(db, made)
            retried = await self._projector.begin(db, request)
            if retried is not None:
                return await self._writes.first_result(db, retried)
            made = await self._vectors.keep_storable(made, has_tables)
            before = await self._find(db, request)
            scope = turn_scope(before.memory_id, before.key)
            turns = await self.find_new(db, request.external_id, scope, request.turns)
            if request.text is None and not turns:
                memory = await self._tables.active.get_by_id(db, request.external_id, before.memory_id)
                return self._writes.to_active(memory)
            # Only now: what is stored already may be told again, whatever became of the memory.
            check_writable(before, request.expected_version, now=self._clock())
            written = await self.record(db, before, request, turns, made)
        return await self._writes.finish(written)

    async def _find(self, db: SqlExecutor, request: AppendTextRequest) -> MemoryOutline:
        if request.memory_id is not None:
            return await self._tables.active.get_outline(db, request.external_id, request.memory_id)
        assert request.key is not None, "a request names a memory by its id or its key"
        memory = await self._tables.active.find_outline_by_key(db, request.external_id, request.key)
        if memory is None or memory.has_expired(self._clock()):
            raise MemoryNotFoundError(request.external_id, key=request.key)
        return memory

    async def find_new(self, db: SqlExecutor, external_id: str, scope: UUID, turns: Sequence[Turn]) -> tuple[Turn, ...]:
        """The turns whose ids are not stored in `scope`; of several with one id the first."""
        named = [turn.id for turn in turns if turn.id is not None]
        seen = await self._tables.turns.find_known(db, external_id, scope, named)
        new = []
        for turn in turns:
            if turn.id is None or turn.id not in seen:
                new.append(turn)
            if turn.id is not None:
                seen.add(turn.id)
        return tuple(new)

    async def make_for(self, text: str | None, turns: Sequence[Turn], *others: str) -> MadeVectors | None:
        """Make the vectors of what is appended, which does not depend on what stands before it.

        Args:
            others: Further texts to make vectors of.

        Returns:
            None if the embedder calls a server: its vectors are made after the write.
        """
        if not await self._vectors.is_local():
            return None

        def texts() -> list[str]:
            body, entries = (text, []) if text is not None else lay_out_turns(turns)
            chunks = appended_entries(body, entries, start=0, speaker=None)
            return [*others, *(embedded_text(body[chunk.start : chunk.end]) for chunk in chunks)]

        return await self._vectors.make(await beside(texts, value=[text, [turn.text for turn in turns]]))

    async def record(
        self,
        db: SqlExecutor,
        before: MemoryOutline,
        request: AppendTextRequest,
        turns: Sequence[Turn],
        made: MadeVectors | None,
    ) -> Written:
        """Append the event in a transaction that has locked the stream; `before` is the memory as it stands there.

        Args:
            request: Redacted. The event keeps its hash as it was made, so that a retry is recognised.
            turns: Those of its turns that are new.
        """
        space = _space_after(before.tail, _BEFORE_TURN if request.text is None else _BEFORE_TEXT)
        start = before.characters + len(space)
        if request.text is not None:
            addition = Addition(space, request.text)
        else:
            addition = Addition(space, *lay_out_turns(turns, start=start))
        return await self._record(db, before, request, addition, made)

    async def record_rest(
        self, db: SqlExecutor, begun: Begun, request: CreateRequest, made: MadeVectors | None
    ) -> Written | None:
        """Append what a text has beyond that of a memory, which is its beginning.

        For a transaction that has locked the stream.

        Returns:
            None if the memory does not end where a turn of the text ends; nothing is written then.
        """
        before = await self._tables.active.get_outline(db, request.external_id, begun.memory_id)
        end = begun.start + before.characters
        turns = [turn for turn in turns_of(request.metadata) if turn["start"] >= end]
        if not turns or request.content[end : turns[0]["start"]].strip():
            return None
        start = turns[0]["start"]
        addition = Addition(
            request.content[end:start],
            request.content[start:],
            # Positions count from the beginning of the memory.
            [turn | {"start": turn["start"] - begun.start} for turn in turns],
        )
        asked = AppendTextRequest(
            external_id=request.external_id,
            memory_id=begun.memory_id,
            text=addition.body,
            actor=request.actor,
            conversation_id=request.conversation_id,
            source=request.source,
            idempotency_key=request.idempotency_key,
            redactions=request.redactions,
        )
        return await self._record(db, before, asked, addition, made)

    async def _record(
        self,
        db: SqlExecutor,
        before: MemoryOutline,
        request: AppendTextRequest,
        addition: Addition,
        made: MadeVectors | None,
    ) -> Written:
        external_id, memory_id = request.external_id, before.memory_id
        said = [request.occurred_at] if request.occurred_at is not None else addition.said_at() or [self._clock()]
        # Never before the version that this follows: what is told late is dated by itself.
        occurred_at = max([before.occurred_at, *said])
        check_expiry(before.expires_at, occurred_at=occurred_at, now=self._clock())
        payload = await beside(lambda: self._plan(before, request, addition), value=addition.body)
        self._writes.check_length(external_id, before.chunks + len(payload.chunks))
        is_work = self._vectors.leaves_work(made)
        asked = await write_event(request, EventKind.APPENDED, payload, occurred_at)
        # Of a request that names a time, too; the hash is of what it named.
        event = await self._projector.record(
            db, asked.model_copy(update={"occurred_at": occurred_at}), makes_work=is_work
        )
        has_vectors = made is not None and await self._vectors.store_updated(db, external_id, made, memory_id)
        if made is not None:
            await self._vectors.settle(db, event, is_work=is_work, is_complete=has_vectors)
        await self._writes.queue_work(db, external_id, is_due=payload.consolidation_due)
        after = await self._tables.active.get_by_id(db, external_id, memory_id)
        outcome = outcome_of(event, payload.chunks, before.chunks, due=payload.consolidation_due, appends=True)
        return Written(after, outcome, event, has_vectors=has_vectors)

    def _plan(self, before: MemoryOutline, request: AppendTextRequest, addition: Addition) -> MemoryAppended:
        """Decide what the event says."""
        content = addition.space + addition.body
        start = before.characters + len(addition.space)
        if before.characters + len(content) > MAX_CONTENT_CHARACTERS:
            raise InvalidInputError(
                f"memory {str(before.memory_id)!r} has {before.characters:,} characters and would have"
                f" {before.characters + len(content):,}; the limit is {MAX_CONTENT_CHARACTERS:,}. Begin a new memory;"
                " memory.conversation() does that by itself"
            )
        read = TenantLanguage.settle_append(before, before.tail + content, setting=self._writes.language)
        version = before.version + 1
        return MemoryAppended(
            memory_id=before.memory_id,
            version=version,
            start=before.characters,
            content=content,
            turns=tuple(addition.turns),
            language=None if read.language == before.language else read.language,
            language_origin=None if read.origin == before.language_origin else read.origin,
            chunks=appended_entries(
                addition.body, addition.turns, start=start, speaker=before.speaker, start_date=request.occurred_at
            ),
            consolidation_due=before.due_version > before.consolidated_version
            or len(addition.body) > LONG_TEXT_CHARACTERS
            or self._writes.updates_left(version, before.consolidated_version) == 0,
            redactions=dict(request.redactions or {}),
        )


def check_said(turns: Sequence[Turn], now: datetime) -> None:
    """Refuse a turn that was not said yet: every later one would be dated by it.

    Raises:
        InvalidInputError: The time of one is more than a day ahead of `now`.
    """
    for turn in turns:
        if turn.time is not None and turn.time > now + _LARGEST_LEAD:
            raise InvalidInputError(
                f"a turn's time {turn.time.isoformat()!r} is more than a day ahead of the clock, {now.isoformat()!r};"
                " pass when it was said, or leave the time out"
            )


def is_repeatable(turns: Sequence[Turn]) -> bool:
    """Whether turns may be appended again after a COMMIT of unknown outcome: all have ids, so none stands twice."""
    return bool(turns) and all(turn.id is not None for turn in turns)


def _space_after(tail: str, wanted: str) -> str:
    """The line breaks that are missing at the end of a text."""
    has = len(tail) - len(tail.rstrip("\n"))
    return wanted[: max(0, len(wanted) - has)] if tail else ""
