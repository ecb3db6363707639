"""Indexes that find events by meaning or words, and one in memory that ranks by BM25."""

from __future__ import annotations

import heapq
import inspect
import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Sequence
from typing import Final, Protocol, runtime_checkable
from uuid import UUID

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_text import event_text
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.words import analyse

# Of BM25: how fast further occurrences of a word count less, and how much long texts are marked down.
_K1: Final = 1.2
_B: Final = 0.75


@runtime_checkable
class MemoryIndex(Protocol):
    """Finds events for a scene. Both methods may be plain or asynchronous; a plain one runs on the caller's thread."""

    def index(self, events: tuple[Event, ...]) -> Awaitable[None] | None:
        """Take in events; one whose id is known changes nothing."""

    def search(self, query: str, k: int) -> list[Event] | Awaitable[list[Event]]:
        """The best `k` events for `query`, best first; fewer only if there are no more."""


class IndexAdapter:
    """Calls an index the same way whether its methods are plain or asynchronous.

    Raises:
        InvalidInputError: The object lacks one of the two methods.
    """

    def __init__(self, index: MemoryIndex) -> None:
        if not isinstance(index, MemoryIndex):
            raise InvalidInputError(
                f"index must have the methods index(events) and search(query, k), and {type(index).__name__} has not"
            )
        self._index = index

    async def index(self, events: tuple[Event, ...]) -> None:
        """Index `events`."""
        done = self._index.index(events)
        if inspect.isawaitable(done):
            await done

    async def search(self, query: str, k: int) -> Sequence[Event]:
        """The best `k` events for `query`, best first."""
        found = self._index.search(query, k)
        return await found if inspect.isawaitable(found) else found


class BM25Index:
    """An index in memory: events that share words with a query, ranked by BM25; of equals the later one first.

    Args:
        language: The language whose stop words and endings are removed; an unknown one keeps its words.
    """

    def __init__(self, language: str = "en") -> None:
        self._language = language
        self._events: list[Event] = []
        self._lengths: list[int] = []
        self._known: set[UUID] = set()
        self._postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._words = 0

    def index(self, events: tuple[Event, ...]) -> None:
        """Take in events; one whose id is known changes nothing."""
        for event in events:
            if event.event_id in self._known:
                continue
            terms = analyse(event_text(event), self._language)
            for term, count in Counter(terms).items():
                self._postings[term].append((len(self._events), count))
            self._known.add(event.event_id)
            self._events.append(event)
            self._lengths.append(len(terms))
            self._words += len(terms)

    def search(self, query: str, k: int) -> list[Event]:
        """The best `k` events that share a word with `query`, best first.

        Raises:
            InvalidInputError: `k` is less than 1.
        """
        if k < 1:
            raise InvalidInputError(f"k must be at least 1, not {k}")
        scores: defaultdict[int, float] = defaultdict(float)
        mean = self._words / len(self._events) if self._words else 1.0
        # In the order of the query, so that sums do not depend on the hash seed.
        for term in dict.fromkeys(analyse(query, self._language)):
            postings = self._postings.get(term, [])
            rarity = math.log1p((len(self._events) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, count in postings:
                length = 1 - _B + _B * self._lengths[number] / mean
                scores[number] += rarity * count * (_K1 + 1) / (count + _K1 * length)
        best = heapq.nlargest(k, scores, key=lambda number: (scores[number], self._events[number].position))
        return [self._events[number] for number in best]
