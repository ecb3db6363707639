# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.services.ledger.memory_ledger.MemoryLedger`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.services.ledger.memory_ledger import MemoryLedger as AsyncMemoryLedger
from agent_reminiscence.sync.lifecycle import Twin


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
        idempotency_key: str | None = None,
    ) -> Event:
        """Append an event of a kind of your own, such as `world.observed`.

        It is stored, can be read back and is covered by the stream's digest chain; it changes no tier and no search
        finds it.

        Args:
            kind: Lower-case words joined by dots, outside the prefix `memory.`.
            payload: A JSON object of at most 1 MiB. If secrets in its keys and strings were redacted,
                `memory.redactions` in it says how often each rule matched.
            turn: Number of the turn in its conversation, from 0.
            occurred_at: When it was true in the world; None is now.
            idempotency_key: A second call with the same key and request returns the first one's event.

        Raises:
            InvalidInputError: An argument is refused, or a reflection rests on an erased event; nothing is written.
            RedactionError: Your redactor failed; nothing is written.
            IdempotencyConflictError: The key was used for a different request.
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
                idempotency_key=idempotency_key,
            )
        )

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

    def subscribe(
        self,
        external_id: str | int | UUID,
        *,
        after: int | None = 0,
        kinds: Sequence[str] | None = None,
        actor: str | None = None,
    ) -> Generator[Event]:
        """Yield events in order of position: those that are there, then each new one soon after its write.

        It does not end by itself: leave the loop, and close the iterator (`contextlib.closing`). Each event comes
        once, without gaps, also if the connection or the server is lost and comes back: meanwhile it waits. To continue
        later, or in another process, pass the position of the last event you handled as `after`. Events are read in
        pages, when you ask for them, so a slow reader holds back nobody.

        Args:
            after: Start after this position; 0 is the beginning. None starts after the last event that is there when
                the first one is asked for.
            kinds: Only these kinds; None is all.
            actor: Only this actor's events; None is everybody's.

        Raises:
            InvalidInputError: An argument is refused.
            NotInitializedError: The `AgentMem` was closed.
            StoreError: The store refused to be read. While it is unavailable, the subscription waits.
        """
        return self._thread.iterate(lambda: self._wrapped.subscribe(external_id, after=after, kinds=kinds, actor=actor))
