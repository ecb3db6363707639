# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.services.ledger.memory_ledger.MemoryLedger`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.sync.lifecycle import Twin

if TYPE_CHECKING:
    from agent_reminiscence.services.ledger.memory_ledger import MemoryLedger as AsyncMemoryLedger


class MemoryLedger(Twin):
    """`memory.ledger`: append, read and follow events of one `external_id`."""

    _wrapped: AsyncMemoryLedger

    def append(
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
        return self._thread.call(
            lambda: self._wrapped.append(
                external_id,
                kind,
                payload,
                actor=actor,
                conversation_id=conversation_id,
                turn=turn,
                occurred_at=occurred_at,
                source=source,
                expected_position=expected_position,
                idempotency_key=idempotency_key,
            )
        )

    def whole(self, event: Event) -> Event:
        """`event` with all its payload, if the large values of it stand in other events; else the event itself.

        Its digest is of the payload without them; each of the other events has its own.

        Raises:
            StoreError: The store is unavailable, or lacks a part of the payload.
        """
        return self._thread.call(lambda: self._wrapped.whole(event))

    def redacted(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """`payload` as `append` would store it: without secrets. Nothing is written.

        Compare with it what was read back, which is not what was given if a secret was taken out.

        Raises:
            InvalidInputError: `payload` would be refused.
            RedactionError: Your redactor failed.
        """
        return self._thread.call(lambda: self._wrapped.redacted(payload))

    def head(self, external_id: str | int | UUID) -> int:
        """Position of the last event; 0 if there is none.

        Raises:
            InvalidInputError: The id is refused.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.head(external_id))

    def read(
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
        return self._thread.call(
            lambda: self._wrapped.read(external_id, after=after, kinds=kinds, actor=actor, limit=limit)
        )

    def read_conversation(
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
        return self._thread.call(
            lambda: self._wrapped.read_conversation(
                external_id, conversation_id, kinds=kinds, before=before, after=after, limit=limit
            )
        )

    def read_latest(
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
        return self._thread.call(lambda: self._wrapped.read_latest(external_id, kind, before=before, limit=limit))

    def subscribe(
        self,
        external_id: str | int | UUID,
        *,
        after: int = 0,
        kinds: Sequence[str] | None = None,
        actor: str | None = None,
    ) -> Generator[Event]:
        """Yield events in order of position: those that are there, then each new one soon after its write.

        It does not end by itself: leave the loop, and close the iterator (`contextlib.closing`). Each event comes
        once, without gaps, also if the connection or the server is lost and comes back: meanwhile it waits. To continue
        later, or in another process, pass the position of the last event you handled as `after`. Events are read in
        pages, when you ask for them, so a slow reader holds back nobody.

        Args:
            after: Start after this position; 0 is the beginning. For what is written from now on, pass
                `memory.ledger.head(external_id)`.
            kinds: Only these kinds; None is all.
            actor: Only this actor's events; None is everybody's.

        Raises:
            InvalidInputError: An argument is refused.
            NotInitializedError: The `AgentMem` was closed.
            StoreError: The store refused to be read. While it is unavailable, the subscription waits.
        """
        return self._thread.iterate(lambda: self._wrapped.subscribe(external_id, after=after, kinds=kinds, actor=actor))
