"""Appends an event and runs its handler in one transaction, so that the ledger and the tiers never disagree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from uuid import UUID

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.event_ledger import TextTotals
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.canonical import beside
from agent_reminiscence.domain.event import Event, EventKind, NewEvent, is_user_kind
from agent_reminiscence.exceptions import IdempotencyConflictError
from agent_reminiscence.projections import handler_of
from agent_reminiscence.services.ledger.requests import WriteRequest

RenewNorms = Callable[[SqlExecutor, str, Collection[UUID]], Awaitable[None]]
"""Recomputes what is stored with the chunk layouts of some memories of an `external_id`."""


class Projector:
    """The only way anything is written.

    Args:
        renew_norms: Called after an event that changed texts that may have vectors.
        graph_follows: Whether a graph store follows the ledger.
    """

    def __init__(
        self,
        repositories: Repositories,
        renew_norms: RenewNorms,
        *,
        graph_follows: bool = False,
    ) -> None:
        self._ledger = repositories.events
        self._tables = repositories.tables
        self._queue = repositories.queue
        self._renew_norms = renew_norms
        # Then every change to the graph makes work.
        self._graph_follows = graph_follows

    async def begin(self, db: SqlExecutor, request: WriteRequest) -> Event | None:
        """Lock the stream, then look up the idempotency key, before anything else is checked.

        Returns:
            The event of an earlier identical request with this key; then nothing is to be written.

        Raises:
            IdempotencyConflictError: The key was used for a different request.
        """
        await self._ledger.lock(db, request.external_id)
        if request.idempotency_key is None:
            return None
        event = await self._ledger.find_by_idempotency_key(db, request.external_id, request.idempotency_key)
        if event is not None and event.request_hash != await beside(request.hash, value=event.payload):
            raise IdempotencyConflictError(request.external_id, request.idempotency_key)
        return event

    async def begin_many(
        self, db: SqlExecutor, external_id: str, requests: Sequence[WriteRequest]
    ) -> dict[str, UUID | None]:
        """Lock the stream and look up the idempotency keys of `requests`, all of `external_id`, at once.

        Returns:
            The events of the keys already used; whether they were used for the same request is not checked.
        """
        await self._ledger.lock(db, external_id)
        keys = [request.idempotency_key for request in requests if request.idempotency_key is not None]
        return await self._ledger.find_idempotency_keys(db, external_id, keys) if keys else {}

    async def record(self, db: SqlExecutor, new_event: NewEvent, *, makes_work: bool = False) -> Event:
        """Append to the stream that `begin` has locked, and apply the event to the tiers.

        Args:
            makes_work: Whether the write leaves work for the stream, such as missing vectors.
        """
        event = await self._ledger.append(db, new_event, makes_work=makes_work)
        handler = handler_of(event.kind)
        if handler is None:
            return event
        is_ours = not is_user_kind(event.kind)
        if is_ours:
            # Everything these events change is looked up by chunk.
            await db.plan_for(len(event.payload.get("chunks", ())))
        change = await handler(db, self._tables, event)
        if not is_ours and not change.states_belief:
            # It is indexed, and the stream's own row says nothing of it.
            return event
        # A new memory has no vectors yet.
        if change.memory_ids and event.kind != EventKind.CREATED:
            await self._renew_norms(db, event.external_id, change.memory_ids)
        # Recorded even if this process knows of no store that follows: another process may.
        has_changed = await self._ledger.note_event(
            db,
            event,
            live_chunks=change.live_chunks,
            texts=TextTotals(
                change.text_chunks, change.text_words, () if change.language is None else (change.language,)
            ),
            may_change_graph=is_ours and event.kind != EventKind.CREATED,
            states_belief=change.states_belief,
            is_work=self._graph_follows,
        )
        if self._graph_follows and await has_changed.result():
            await self._queue.enqueue(db)
        return event
