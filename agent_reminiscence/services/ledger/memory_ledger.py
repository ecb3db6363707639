"""The ledger as users see it: events of their own kinds, and everything recorded, in pages or as it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import EventLedger
from agent_reminiscence.domain.belief import REFLECTED, grounds_of
from agent_reminiscence.domain.canonical import beside, beside_many
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import InvalidInputError, PositionConflictError, StoreError
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services import validation
from agent_reminiscence.services.ledger.division import (
    MAX_DIVIDED_PAYLOAD_BYTES,
    MAX_DIVIDED_PAYLOAD_VALUES,
    divide,
    parts_of,
    put_together,
)
from agent_reminiscence.services.ledger.projector import Projector
from agent_reminiscence.services.ledger.requests import AppendRequest
from agent_reminiscence.services.ledger.scrubber import Scrubber
from agent_reminiscence.services.ledger.subscriptions import Subscriptions

MAX_LEDGER_PAGE: Final = 1_000


class MemoryLedger:
    """`memory.ledger`: append, read and follow events of one `external_id`."""

    def __init__(
        self,
        store: PostgresManager,
        ledger: EventLedger,
        projector: Projector,
        scrubber: Scrubber,
        subscriptions: Subscriptions,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._projector = projector
        self._scrubber = scrubber
        self._subscriptions = subscriptions
        self._clock = clock

    async def append(
        self,
        external_id: str | int | UUID,
        kind: str,
        payload: Mapping[str, Any],
        *,
        actor: str | None = None,
        conversation_id: str | None = None,
        turn: int | None = None,
        occurred_at: datetime | None = None,
        source: Source = "agent",
        expected_position: int | None = None,
        idempotency_key: str | None = None,
    ) -> Event:
        """Append an event of a kind of your own, such as `world.observed`.

        It is stored, can be read back and is covered by the stream's digest chain; it changes no tier and no search
        finds it.

        Args:
            kind: Lower-case words joined by dots, outside the prefix `memory.`.
            payload: A JSON object of at most 32 MiB and 1,000,000 keys and values. Of one of more than 1 MiB, the large
                values stand in events of kind `memory.value_part` right before this one, which has `memory.divided`
                instead; `whole` reads them. What a reflection believes and names always stands in its own event, within
                1 MiB. If secrets in its keys and strings were redacted, `memory.redactions` in it says how often each
                rule matched.
            turn: Number of the turn in its conversation, from 0.
            occurred_at: When it was true in the world; None is now.
            expected_position: The position of the last event of this kind in `conversation_id` that you know of; 0 if
                there is none. The event is refused if there is a later one, or that one was erased. None does not ask.
            idempotency_key: A second call with the same key and request returns the first one's event.

        Raises:
            InvalidInputError: An argument is refused, or a reflection rests on an erased event; nothing is written.
            RedactionError: Your redactor failed; nothing is written.
            IdempotencyConflictError: The key was used for a different request.
            PositionConflictError: With `expected_position`: another writer was first; nothing is written.
            StoreError: The store is unavailable or refused the write.
        """
        asked = AppendRequest(
            external_id=validation.external_id(external_id),
            kind=validation.event_kind(kind),
            payload=await _checked(payload),
            actor=validation.optional_identifier("actor", actor),
            conversation_id=validation.optional_identifier("conversation_id", conversation_id),
            turn=None if turn is None else validation.whole_number("turn", turn, minimum=0, maximum=2**31 - 1),
            occurred_at=validation.optional_moment("occurred_at", occurred_at),
            source=validation.source(source),
            expected_position=(
                None
                if expected_position is None
                else validation.whole_number("expected_position", expected_position, minimum=0, maximum=2**63 - 1)
            ),
            idempotency_key=validation.optional_identifier("idempotency_key", idempotency_key),
        )
        if asked.expected_position is not None and asked.conversation_id is None:
            raise InvalidInputError("expected_position is asked of one conversation; pass conversation_id, too")
        request = await self._scrubber.scrub(asked)
        return await repeated(
            lambda: self._append(request),
            operation="append",
            external_id=request.external_id,
            repeatable=request.idempotency_key is not None,
        )

    async def whole(self, event: Event) -> Event:
        """`event` with all its payload, if the large values of it stand in other events; else the event itself.

        Its digest is of the payload without them; each of the other events has its own.

        Raises:
            StoreError: The store is unavailable, or lacks a part of the payload.
        """
        named = parts_of(event.payload)
        if named is None:
            return event
        _, count = named
        tenant = event.external_id

        async def read() -> list[Event]:
            return await self._store.read_once(
                tenant,
                lambda db: self._ledger.read(
                    db,
                    tenant,
                    after=event.position - count - 1,
                    kinds=[EventKind.VALUE_PART],
                    actor=None,
                    limit=count,
                ),
            )

        parts = await repeated(read, operation="read", external_id=tenant)
        try:
            payload = await beside_many(
                lambda: put_together(event.payload, [part.payload for part in parts]), items=1_000 * count
            )
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"event {event.position} of external_id {tenant!r} has values in {count:,} other events, of which one"
                " is missing or altered; verify() says what else is"
            ) from None
        return event.model_copy(update={"payload": payload})

    async def redacted(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """`payload` as `append` would store it: without secrets. Nothing is written.

        Compare with it what was read back, which is not what was given if a secret was taken out.

        Raises:
            InvalidInputError: `payload` would be refused.
            RedactionError: Your redactor failed.
        """
        asked = AppendRequest(external_id="nobody", kind="user.asked", payload=await _checked(payload))
        return (await self._scrubber.scrub(asked)).payload

    async def _append(self, request: AppendRequest) -> Event:
        divided = await beside(lambda: divide(request.kind, request.payload), value=request.payload)
        async with self._store.transaction(request.external_id) as db:
            retried = await self._projector.begin(db, request)
            if retried is not None:
                return retried
            if request.expected_position is not None:
                await self._check_position(db, request, request.expected_position)
            if request.kind == REFLECTED:
                await self._check_grounds(db, request)
            now = self._clock()
            event = await beside(lambda: request.event(request.kind, divided.payload, now), value=request.payload)
            for part in divided.parts:
                # Erased with it by whatever names it: its conversation, or a text in any of them.
                update = {"kind": EventKind.VALUE_PART, "payload": part, "event_id": uuid7()}
                keyless = {"idempotency_key": None, "request_hash": None}
                await self._projector.record(db, event.model_copy(update=update | keyless))
            return await self._projector.record(db, event)

    async def _check_position(self, db: SqlExecutor, request: AppendRequest, expected: int) -> None:
        """Refuse an append to a conversation that went on. The stream is locked, so none can go on from here."""
        assert request.conversation_id is not None, "append() refuses a position without a conversation"
        last = await self._ledger.last_position(db, request.external_id, request.conversation_id, request.kind)
        if last != expected:
            raise PositionConflictError(request.external_id, request.conversation_id, request.kind, expected, last)

    async def _check_grounds(self, db: SqlExecutor, request: AppendRequest) -> None:
        """Refuse a reflection on something erased: an erasure takes all that rests on it, and this would come after."""
        erased = await self._ledger.find_erased(db, request.external_id, set(grounds_of(request.payload)))
        if erased:
            raise InvalidInputError(
                f"the reflection rests on event {erased[0]}, which is erased; leave it out of based_on and rests_on, or"
                " reflect on what is left"
            )

    async def head(self, external_id: str | int | UUID) -> int:
        """Position of the last event; 0 if there is none.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)

        async def read() -> int:
            return await self._store.read_once(tenant, lambda db: self._ledger.head(db, tenant))

        return await repeated(read, operation="head", external_id=tenant)

    async def read(
        self,
        external_id: str | int | UUID,
        *,
        after: int = 0,
        kinds: Sequence[str] | None = None,
        actor: str | None = None,
        limit: int = 100,
    ) -> list[Event]:
        """One page of events in order of position.

        Args:
            after: Start after this position; 0 is the beginning. The next page starts after the last event of this
                one; an empty page is the end.
            kinds: Only these kinds; None is all.
            actor: Only this actor's events; None is everybody's.
            limit: At most this many, from 1 to 1,000.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        wanted = validation.kinds(kinds)
        page = validation.whole_number("limit", limit, minimum=1, maximum=MAX_LEDGER_PAGE)
        position = validation.whole_number("after", after, minimum=0, maximum=2**63 - 1)
        who = validation.optional_identifier("actor", actor)

        async def read() -> list[Event]:
            return await self._store.read_once(
                tenant,
                lambda db: self._ledger.read(db, tenant, after=position, kinds=wanted, actor=who, limit=page),
            )

        return await repeated(read, operation="read", external_id=tenant)

    async def read_conversation(
        self,
        external_id: str | int | UUID,
        conversation_id: str,
        *,
        kinds: Sequence[str] | None = None,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[Event]:
        """One page of the events of a conversation, the newest first; with `after`, the oldest first.

        An erased event belongs to no conversation any more.

        Args:
            kinds: Only these kinds; None is all.
            before: Only events before this position; None begins with the last one. The next page is before the last
                event of this one; an empty page is the end.
            after: Only events after this position, in order; 0 begins with the first one. The next page is after the
                last event of this one.
            limit: At most this many, from 1 to 1,000.

        Raises:
            InvalidInputError: An argument is refused, or both `before` and `after` are given.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        conversation = validation.identifier("conversation_id", conversation_id)
        wanted = validation.kinds(kinds)
        if before is not None and after is not None:
            raise InvalidInputError("before and after are two directions to read in; pass one of them")
        position = _before(before)
        start = None if after is None else validation.whole_number("after", after, minimum=0, maximum=2**63 - 1)
        page = validation.whole_number("limit", limit, minimum=1, maximum=MAX_LEDGER_PAGE)

        async def page_of(db: SqlExecutor) -> list[Event]:
            if start is not None:
                return await self._ledger.read_conversation_on(
                    db, tenant, conversation, after=start, kinds=wanted, limit=page
                )
            return await self._ledger.read_conversation_back(
                db, tenant, conversation, before=position, kinds=wanted, limit=page
            )

        async def read() -> list[Event]:
            return await self._store.read_once(tenant, page_of)

        return await repeated(read, operation="read_conversation", external_id=tenant)

    async def read_latest(
        self, external_id: str | int | UUID, kind: str, *, before: int | None = None, limit: int = 100
    ) -> list[Event]:
        """The last event of a kind in each conversation, the newest first.

        Args:
            before: Only conversations whose last event of this kind is before this position; None is all. The next page
                is before the last event of this one; an empty page is the end.
            limit: At most this many, from 1 to 1,000.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        wanted = validation.identifier("kind", kind)
        position = _before(before)
        page = validation.whole_number("limit", limit, minimum=1, maximum=MAX_LEDGER_PAGE)

        async def read() -> list[Event]:
            return await self._store.read_once(
                tenant, lambda db: self._ledger.read_latest(db, tenant, wanted, before=position, limit=page)
            )

        return await repeated(read, operation="read_latest", external_id=tenant)

    def subscribe(
        self,
        external_id: str | int | UUID,
        *,
        after: int = 0,
        kinds: Sequence[str] | None = None,
        actor: str | None = None,
    ) -> AsyncGenerator[Event]:
        """Yield events in order of position: those that are there, then each new one soon after its write.

        It does not end by itself: leave the loop, and close the iterator (`contextlib.aclosing`). Each event comes
        once, without gaps, also if the connection or the server is lost and comes back: meanwhile it waits. To continue
        later, or in another process, pass the position of the last event you handled as `after`. Events are read in
        pages, when you ask for them, so a slow reader holds back nobody.

        Args:
            after: Start after this position; 0 is the beginning. For what is written from now on, pass
                `await memory.ledger.head(external_id)`.
            kinds: Only these kinds; None is all.
            actor: Only this actor's events; None is everybody's.

        Raises:
            InvalidInputError: An argument is refused.
            NotInitializedError: The `AgentMem` was closed.
            StoreError: The store refused to be read. While it is unavailable, the subscription waits.
        """
        tenant = validation.external_id(external_id)
        return self._subscriptions.follow(
            tenant,
            after=_start(after),
            kinds=validation.kinds(kinds),
            actor=validation.optional_identifier("actor", actor),
        )


async def _checked(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload that may be written, copied. Value by value, which takes seconds for those with the most values."""
    return await beside(
        lambda: validation.json_object(
            "payload", payload, MAX_DIVIDED_PAYLOAD_BYTES, max_values=MAX_DIVIDED_PAYLOAD_VALUES
        ),
        value=payload,
    )


def _start(after: int) -> int:
    """The position that a subscription starts after.

    None was once the end of the stream when the first event was asked for: what was written before that was missed.
    """
    if after is None:
        raise InvalidInputError(
            "after is a position, got None; for events written from now on, pass after=await ledger.head(external_id)"
        )
    return validation.whole_number("after", after, minimum=0, maximum=2**63 - 1)


def _before(before: int | None) -> int:
    """The position that a page ends before; for None one that no event has."""
    return 2**63 - 1 if before is None else validation.whole_number("before", before, minimum=1, maximum=2**63 - 1)
