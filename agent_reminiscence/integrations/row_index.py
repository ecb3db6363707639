"""An index of events over a store that keeps texts with metadata and finds them by meaning.

The store is somebody else's: it may lose rows, repeat them, hold what others wrote, and be slow. The index makes one
row for each event, and returns events that it has read back whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import weakref
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched
from types import TracebackType
from typing import Final, Protocol, Self
from uuid import UUID

from agent_reminiscence.config.constants import MAX_ID_CHARACTERS
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_json import read_event, write_event
from agent_reminiscence.domain.event_text import indexed_event_text
from agent_reminiscence.exceptions import InvalidInputError, NotInitializedError, ReminiscenceError, StoreError

_logger = logging.getLogger("agent_reminiscence.integrations")

DEFAULT_NAME: Final = "events"
# How many events one request asks the store about.
_BATCH: Final = 64
# Scores that differ by less are equal: vectors of one text differ in their last bits, as they were computed together
# with others or alone.
_SCORE_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a store.

    Attributes:
        id: The store's name for it.
        event_id: The event's id as text, as it was written; None if the row has none.
        event: The event as `write_event` wrote it; None if the row has none.
        score: How well it answers a search; higher is better, 0 where nothing was searched.
    """

    id: str
    event_id: str | None
    event: str | None
    score: float = 0.0


class RowStore(Protocol):
    """What the index needs of a store. A scope separates its rows from all others. All calls come from one thread."""

    max_found: int
    """At most so many rows can be searched for."""

    def find(self, scope: str, event_ids: Sequence[str]) -> Sequence[Row]:
        """Rows of these events; at least one if there is any."""

    def add(self, scope: str, text: str, event_id: str, event: str) -> None:
        """Add a row, which may become visible later."""

    def search(self, scope: str, query: str, k: int) -> Sequence[Row]:
        """The best `k` rows for `query`."""

    def remove(self, row_ids: Sequence[str]) -> None:
        """Remove rows, and whatever else the store keeps of them."""

    def clear(self, scope: str) -> None:
        """Remove all rows of a scope."""

    def close(self) -> None:
        """Release connections and files."""


class RowIndex:
    """A `MemoryIndex` over a `RowStore`; the base of the indexes that users make.

    Calls are carried out one after another, in a thread of the index: they do not block the event loop, and calls
    from several tasks do not add an event twice.
    """

    def __init__(self, external_id: str | None, name: str, open_store: Callable[[], RowStore]) -> None:
        self._external_id = None if external_id is None else _identifier("external_id", external_id)
        self._name = _identifier("name", name)
        self._known: set[UUID] = set()
        self._damaged: set[str] = set()
        # Erased events that may be in the store, while the name of this index there is not known yet.
        self._unforgotten: set[UUID] = set()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memory-index")
        try:
            self._store = self._thread.submit(open_store).result()
        except BaseException:
            self._thread.shutdown(wait=False)
            raise
        self._finalizer = weakref.finalize(self, _abandon, self._store, self._thread)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(external_id={self._external_id!r}, name={self._name!r})"

    async def index(self, events: Iterable[Event]) -> None:
        """Take in events; one that is there already changes nothing, and one that says nothing is passed over.

        An index made without an `external_id` takes that of the first event.

        Raises:
            InvalidInputError: An event is of another `external_id`, or its payload is not JSON.
            StoreError: The store failed. Events before the failure are indexed; call again for the others.
        """
        taken = tuple(events)
        self._claim(taken)
        if self._unforgotten and self._external_id is not None:
            await self.forget(frozenset(self._unforgotten))
            self._unforgotten.clear()
        if any(event.event_id not in self._known for event in taken):
            await self._run(self._index, taken)

    async def search(self, query: str, k: int = 8) -> list[Event]:
        """The events that answer a question best, best first; of equals the later one first.

        Fewer than `k` if there are no others. A blank question finds nothing, and so does an index that was made
        without an `external_id` and has not been given an event yet.

        Args:
            k: At most this many, from 1.

        Raises:
            InvalidInputError: `k` is less than 1.
            StoreError: The store failed.
        """
        if k < 1:
            raise InvalidInputError(f"k must be at least 1, not {k}")
        if not query.strip() or self._external_id is None:
            return []
        return await self._run(self._search, query, k)

    async def delete(self, event_ids: Iterable[UUID]) -> int:
        """Remove events, for example those that `erase()` has erased from the ledger.

        Returns:
            How many of them were found.

        Raises:
            InvalidInputError: The index has no `external_id` yet.
            StoreError: The store failed; what it removed before stays removed.
        """
        return await self._run(self._delete, tuple(event_ids))

    async def forget(self, event_ids: AbstractSet[UUID]) -> None:
        """Remove erased events: views that follow a ledger call this on their own.

        An index that does not know its `external_id` yet removes them as soon as it is given an event.

        Raises:
            StoreError: The store failed; what it removed before stays removed.
        """
        if self._external_id is None:
            self._unforgotten.update(event_ids)
        elif event_ids:
            await self.delete(event_ids)

    async def clear(self) -> None:
        """Remove everything that belongs to this `external_id` and name, whoever indexed it, and nothing else.

        Raises:
            InvalidInputError: The index has no `external_id` yet.
            StoreError: The store failed.
        """
        await self._run(self._clear)

    def close(self) -> None:
        """Release the store; what is indexed stays there. Calls that have begun are finished first."""
        if self._finalizer.detach() is not None:
            self._thread.submit(self._store.close).result()
            self._thread.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    async def _run[*Arguments, Result](
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> Result:
        """Call a function in the thread of the index."""
        if not self._finalizer.alive:
            raise NotInitializedError("this index is closed; make another one")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
        except ReminiscenceError:
            raise
        except Exception as error:
            # Its text may quote a memory.
            raise StoreError(f"the store of {self!r} failed: {type(error).__name__}") from error

    def _claim(self, events: Sequence[Event]) -> None:
        """Take over the `external_id` of the first event; refuse events of another one."""
        claimed = self._external_id
        for event in events:
            if claimed is None:
                claimed = event.external_id
            if event.external_id != claimed:
                raise InvalidInputError(
                    f"an event of external_id {event.external_id!r} cannot be indexed for {claimed!r}; make an index"
                    " of its own for it"
                )
        self._external_id = claimed

    @property
    def _scope(self) -> str:
        """The name of this index in the store. Ledgers never share one, and it does not tell whose it is."""
        if self._external_id is None:
            raise InvalidInputError(
                "this index does not know its external_id yet; name one when you make it, or index an event first"
            )
        digest = hashlib.sha256(json.dumps([self._name, self._external_id]).encode()).hexdigest()
        return f"agent-reminiscence-{digest[:32]}"

    def _index(self, events: Sequence[Event]) -> None:
        new = {event.event_id: event for event in events if event.event_id not in self._known}
        # All of them before anything is written: what cannot be read back is refused.
        written = {event_id: write_event(event) for event_id, event in new.items()}
        # The event itself is kept whole.
        texts = {event_id: indexed_event_text(event) for event_id, event in new.items()}
        for batch in batched((event_id for event_id in new if texts[event_id]), _BATCH):
            held = self._held([str(event_id) for event_id in batch])
            for event_id in batch:
                if str(event_id) not in held:
                    self._store.add(self._scope, texts[event_id], str(event_id), written[event_id])
                self._known.add(event_id)
        self._known.update(new)

    def _held(self, event_ids: Sequence[str]) -> set[str]:
        """Which of these events are in the store."""
        held: set[str] = set()
        missing = set(event_ids)
        # One that is there more than once may have taken another one's place in the answer.
        while missing:
            found = {row.event_id for row in self._store.find(self._scope, sorted(missing)) if row.event_id in missing}
            if not found:
                break
            held.update(event_id for event_id in found if event_id is not None)
            missing -= held
        return held

    def _search(self, query: str, k: int) -> list[Event]:
        # One more than wanted shows whether the last one has equals that were cut off.
        asked = k + 1
        while True:
            rows = self._store.search(self._scope, query, min(asked, self._store.max_found))
            best: dict[UUID, tuple[float, Event]] = {}
            for row in rows:
                event = self._read(row)
                if event is not None:
                    score = round(row.score, _SCORE_DIGITS)
                    best[event.event_id] = max(best.get(event.event_id, (score, event)), (score, event), key=_score)
            ranked = sorted(best.values(), key=lambda one: (-one[0], -one[1].position))
            is_settled = len(ranked) > k and ranked[k - 1][0] > ranked[k][0]
            if is_settled or len(rows) < asked or asked >= self._store.max_found:
                return [event for _, event in ranked[:k]]
            asked *= 2

    def _read(self, row: Row) -> Event | None:
        """The event of a row; None if it is damaged or of another ledger."""
        try:
            event = read_event(row.event or "")
        except ValueError:
            event = None
        if event is None or str(event.event_id) != row.event_id or event.external_id != self._external_id:
            if row.id not in self._damaged:
                self._damaged.add(row.id)
                _logger.warning(
                    "row %s is not as %r wrote it and is passed over; clear() the index and index the ledger again",
                    row.id,
                    self,
                )
            return None
        return event

    def _delete(self, event_ids: Sequence[UUID]) -> int:
        deleted: set[str] = set()
        removed: set[str] = set()
        for batch in batched({str(event_id) for event_id in event_ids}, _BATCH):
            # Until none is left; a store that goes on to show what it has removed is not asked again.
            while rows := [row for row in self._store.find(self._scope, batch) if row.id not in removed]:
                self._store.remove([row.id for row in rows])
                removed.update(row.id for row in rows)
                deleted.update(row.event_id for row in rows if row.event_id is not None)
        self._known.difference_update(event_ids)
        return len(deleted)

    def _clear(self) -> None:
        self._store.clear(self._scope)
        self._known.clear()
        self._damaged.clear()


def _score(scored: tuple[float, Event]) -> float:
    return scored[0]


def _identifier(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_ID_CHARACTERS:
        raise InvalidInputError(
            f"{name} must be a str of 1 to {MAX_ID_CHARACTERS} characters that is not blank, not {value!r:.80}"
        )
    return value


def _abandon(store: RowStore, thread: ThreadPoolExecutor) -> None:
    """Release what nobody closed, when the index is forgotten or the program ends."""
    thread.shutdown(wait=False)
    with contextlib.suppress(Exception):
        store.close()
