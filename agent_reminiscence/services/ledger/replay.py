"""Replays a stream's events through the handlers, checking on the way that the ledger is unaltered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from agent_reminiscence.config.constants import FORM_VERSION
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.event_ledger import (
    PAGE_EVENTS,
    StreamState,
    event_digest,
    next_chain,
)
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.domain.audit import LedgerFault
from agent_reminiscence.domain.erasure import ErasureReceipt, remains
from agent_reminiscence.domain.event import Event, EventKind, is_user_kind
from agent_reminiscence.domain.payloads import PAYLOADS
from agent_reminiscence.exceptions import ReminiscenceError, StoreError
from agent_reminiscence.projections import HANDLERS, KINDS_WITHOUT_EFFECT, handler_of


@dataclass(slots=True)
class Replay:
    """How far a stream was replayed, and what faults were found."""

    external_id: str
    position: int = 0
    chain: bytes = b""
    recorded_at: datetime | None = None
    events: int = 0
    # The languages in which texts were read.
    languages: set[str] = field(default_factory=set)
    # Whether every event so far could be applied; otherwise the replay is useless.
    is_complete: bool = True
    is_readable: bool = True
    faults: list[LedgerFault] = field(default_factory=list)
    # By position: the digest and remains of emptied events, and those that receipts name.
    emptied: dict[int, tuple[str, str]] = field(default_factory=dict)
    receipted: dict[int, tuple[str, str]] = field(default_factory=dict)

    @property
    def missed_an_erasure(self) -> bool:
        """Whether an event was erased after it had been replayed; then the replay must not be put in place."""
        return not self.receipted.keys() <= self.emptied.keys()

    def report(self, position: int, problem: str) -> None:
        """Record a fault of the ledger."""
        self.faults.append(LedgerFault(position=position, problem=problem))


class Replayer:
    """Runs the handlers over a stream's events, in the tables that the transaction's names refer to."""

    def __init__(
        self,
        repositories: Repositories,
        *,
        graph_follows: bool = False,
    ) -> None:
        self._ledger = repositories.events
        self._tables = repositories.tables
        self._queue = repositories.queue
        # Whether a graph store follows the ledger: a rebuilt stream must be compared with it.
        self._graph_follows = graph_follows

    async def run(
        self,
        db: SqlExecutor,
        replay: Replay,
        *,
        until: int | None = None,
        skip: Callable[[Event], bool] = lambda event: False,
        progress: Callable[[Replay], None] = lambda replay: None,
    ) -> None:
        """Replay what follows `replay.position`, up to the stream's end as this transaction sees it.

        Args:
            until: Where to stop, so that nobody chases writers for ever; None is the end.
            skip: Events to treat as emptied although they are not yet.
            progress: Called after each page of events.
        """
        limit = PAGE_EVENTS
        while until is None or replay.position < until:
            try:
                page = await self._ledger.read_page(db, replay.external_id, after=replay.position, limit=limit)
            except StoreError:
                if db.has_failed:
                    raise
                if limit > 1:
                    # One event of the page cannot be read; read one by one, those before it can.
                    limit = 1
                    continue
                replay.is_complete = replay.is_readable = False
                replay.report(replay.position + 1, "it cannot be parsed as an event")
                return
            if not page:
                return
            # In a thread: hashing long texts takes time that other tasks could use.
            await asyncio.to_thread(check_page, replay, page)
            for event in page:
                if replay.is_complete and not skip(event):
                    await self._apply(db, replay, event)
                    if not replay.is_readable:
                        return
            progress(replay)

    async def settle(self, db: SqlExecutor, replay: Replay) -> None:
        """Store what the replay says about the stream's own row."""
        is_due = await self._ledger.has_due_memory(db, replay.external_id)
        live_chunks = await self._ledger.count_live_chunks(db, replay.external_id)
        texts = await self._ledger.count_texts(db, replay.external_id, replay.languages)
        await self._ledger.set_projected(db, replay.external_id, live_chunks=live_chunks, texts=texts, is_due=is_due)
        # Even if this process knows of no store that follows: another process may.
        await self._ledger.demand_graph_comparison(db, replay.external_id)
        if self._graph_follows:
            await self._queue.enqueue(db)

    async def _apply(self, db: SqlExecutor, replay: Replay, event: Event) -> None:
        if event.salt is None:
            return
        try:
            if handler := handler_of(event.kind):
                change = await handler(db, self._tables, event)
                # Errors that the server reports for this event must surface here.
                await db.flush()
                if change.language is not None:
                    replay.languages.add(change.language)
            elif payload := PAYLOADS.get(event.kind):
                # It changes no table, but its content is counted and read directly from the ledger.
                payload.model_validate(event.payload)
        except (ReminiscenceError, ValidationError, LookupError, TypeError, ValueError) as error:
            # A statement that the server refuses ends the transaction: nothing more can be read in it.
            if db.has_failed and not _refuses_values(error):
                # A full disk or a lost connection is not the event's fault.
                raise
            # Only events that no handler wrote itself get here. The message may quote a text.
            replay.is_complete = False
            replay.is_readable = not db.has_failed
            replay.report(event.position, f"cannot be applied ({type(error).__name__})")


def _refuses_values(error: Exception) -> bool:
    """Whether the server refused the event's values. The driver reports only its message, no code."""
    signs = ("violates", "duplicate key", "invalid input", "out of range", "null value", "cannot cast", "malformed")
    return isinstance(error, StoreError) and any(sign in str(error) for sign in signs)


def check_page(replay: Replay, page: Sequence[Event]) -> None:
    """Check events, in order."""
    for event in page:
        check(replay, event)


def check(replay: Replay, event: Event) -> None:
    """Check an event against its digest and the chain before it, and advance past it.

    After a fault the check continues with the stored values, so that each fault is reported once.
    """
    if event.position != replay.position + 1:
        missing = range(replay.position + 1, event.position)
        replay.report(missing.start, f"{len(missing)} missing; the stream continues at {event.position}")
    elif event.chain != next_chain(replay.chain, event.digest, event.position, event.recorded_at):
        replay.report(event.position, "its chain does not follow from the previous event")
    if replay.recorded_at is not None and event.recorded_at < replay.recorded_at:
        replay.report(event.position, "it was recorded before the previous event")
    if event.salt is None:
        replay.emptied[event.position] = (event.digest.hex(), remains(event))
        labels = (event.idempotency_key, event.request_hash, event.actor, event.conversation_id)
        if event.payload or any(label is not None for label in labels):
            replay.report(event.position, "it has no salt, like an emptied event, but is not empty")
    elif event_digest(event, event.salt) != event.digest:
        replay.report(event.position, "its content does not match its digest")
    elif event.kind == EventKind.ERASED:
        _note_receipt(replay, event)
    elif not is_user_kind(event.kind) and (
        (event.kind not in HANDLERS and event.kind not in KINDS_WITHOUT_EFFECT)
        or event.payload.get("form_version", FORM_VERSION) != FORM_VERSION
    ):
        # From a newer release; with this one, the projected stream would silently lack something.
        replay.report(event.position, "this release does not know its kind or version")
    replay.position, replay.chain, replay.recorded_at = event.position, event.chain, event.recorded_at
    replay.events += 1


def _note_receipt(replay: Replay, event: Event) -> None:
    try:
        receipt = ErasureReceipt.model_validate(event.payload)
    except ValidationError:
        receipt = None
    if receipt is None or receipt.sha256 != receipt.compute_sha256():
        replay.report(event.position, "it is not a valid erasure receipt")
        return
    replay.receipted |= {erased.position: (erased.digest, erased.remains) for erased in receipt.events}


def check_end(replay: Replay, state: StreamState | None) -> None:
    """Check the end of a replay against the stream's own row, and empty events against what was erased."""
    if not replay.is_readable:
        return
    head, chain = (0, b"") if state is None else (state.head, state.chain)
    if head != replay.position:
        replay.report(0, f"its head is {head}, but its last event is {replay.position}")
    elif chain != replay.chain:
        replay.report(0, "its chain differs from that of its last event")
    elif state is not None and state.last_recorded_at != replay.recorded_at:
        replay.report(0, "its last_recorded_at differs from that of its last event")
    check_receipts(replay)


def check_receipts(replay: Replay) -> None:
    """Check emptied events against what receipts say was erased."""
    for position, found in replay.emptied.items():
        if replay.receipted.get(position) != found:
            replay.report(position, "it is empty, but no erasure receipt matches it")
    for position in replay.receipted.keys() - replay.emptied.keys():
        replay.report(position, "a receipt says that it was erased, but it is not empty")
