# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.services.reflection.event_index.EventIndex`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_reminiscence.domain.event import Event
from agent_reminiscence.sync.lifecycle import Twin

if TYPE_CHECKING:
    from agent_reminiscence.services.reflection.event_index import EventIndex as AsyncEventIndex


class EventIndex(Twin):
    """`memory.event_index(…)`: searches events of your own kinds by their text.

    It is a `MemoryIndex` of `agent_reminiscence.views`. Every event is in the index of words from its append on, and an
    erasure takes it out; `index` adds vectors, by which a search finds it in other words, too. Recall reads nothing of
    it: whatever you append, `retrieve_memories` gives the same.

    The object holds nothing: make it whenever you need it, in any process.
    """

    _wrapped: AsyncEventIndex

    def index(self, events: Sequence[Event]) -> list[Event]:
        """Make the vectors that events lack; those that have one cost nothing.

        Without an embedder, or while it fails, the events are found by their words. Erased events and those whose kind
        begins with `memory.` are passed over.

        Args:
            events: As the ledger returned them.

        Returns:
            Those to be passed again, because the embedder failed. Views do so by themselves.

        Raises:
            InvalidInputError: An event is not in the ledger of this `external_id`.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.index(events))

    def search(self, query: str, k: int = 8) -> list[Event]:
        """The events that answer a question best, best first; fewer than `k` if no other event matches.

        With an actor, another agent's reflection is found only if that actor sees all that it rests on (its own events,
        and those of `kinds`), or if it is public.

        Args:
            query: At most 20,000 characters.
            k: At most this many, from 1 to 1,048,576.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.search(query, k))

    def search_among(self, query: str, k: int, events: Sequence[Event]) -> list[Event]:
        """As `search`, but of `events` only: views look for what an agent sees in one search.

        Raises:
            InvalidInputError: An argument is invalid.
            StoreError: The store is unavailable.
        """
        return self._thread.call(lambda: self._wrapped.search_among(query, k, events))
