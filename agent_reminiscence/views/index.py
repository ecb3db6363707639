"""Indexes that find events by meaning or words, and one in memory that ranks by BM25."""

from __future__ import annotations

import heapq
import inspect
import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Coroutine, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol, runtime_checkable
from uuid import UUID

from agent_reminiscence.apart import run_apart
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_text import event_text
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.words import analyse

# Of BM25: how fast further occurrences of a word count less, and how much long texts are marked down.
_K1: Final = 1.2
_B: Final = 0.75


@runtime_checkable
class MemoryIndex(Protocol):
    """Finds events for a scene. Methods may be plain or asynchronous; a plain one runs on the caller's thread.

    Two more are called if an index has them:

    - `forget(event_ids)`: these events are erased, and it drops what it holds of them; unknown ids change nothing.
    - `search_among(query, k, events)`: as `search`, but of these events only. Without it, an index is searched for more
      and more hits until enough of them are events that the agent sees.
    """

    def index(self, events: tuple[Event, ...]) -> object:
        """Take in events; one whose id is known changes nothing.

        Returns:
            A list of those to be passed again next time, because they could not be taken in whole, or None.
        """

    def search(self, query: str, k: int) -> list[Event] | Awaitable[list[Event]]:
        """The best `k` events for `query`, best first; fewer only if there are no more."""


class IndexAdapter:
    """Calls an index the same way whether its methods are plain or asynchronous, and whichever it has.

    Raises:
        InvalidInputError: The object lacks one of the two methods that every index has.
    """

    def __init__(self, index: MemoryIndex) -> None:
        if not isinstance(index, MemoryIndex):
            raise InvalidInputError(
                f"index must have the methods index(events) and search(query, k), and {type(index).__name__} lacks at"
                " least one of them"
            )
        self._index = index

    def plain(self) -> PlainIndexAdapter:
        """The same index for callers that cannot await: an asynchronous method of it is refused."""
        return PlainIndexAdapter(self._index)

    async def index(self, events: tuple[Event, ...]) -> frozenset[UUID]:
        """Index `events`; returns the ids of those to be passed again."""
        again = await self._result(self._index.index(events))
        # An index of a user's may return anything: what is not an event is passed over.
        listed = again if isinstance(again, list | tuple) else ()
        return frozenset(event.event_id for event in listed if isinstance(event, Event))

    async def search(self, query: str, k: int) -> Sequence[Event]:
        """The best `k` events for `query`, best first."""
        found: Sequence[Event] = await self._result(self._index.search(query, k))
        return found

    @property
    def searches_among(self) -> bool:
        """Whether the index can search among some events only."""
        return hasattr(self._index, "search_among")

    async def search_among(self, query: str, k: int, events: tuple[Event, ...]) -> Sequence[Event]:
        """The best `k` of `events`, best first, if `searches_among`."""
        found: Sequence[Event] = await self._result(getattr(self._index, "search_among")(query, k, events))  # noqa: B009
        return found

    async def forget(self, event_ids: AbstractSet[UUID]) -> None:
        """Drop what the index holds of erased events, if it can."""
        if (forget := getattr(self._index, "forget", None)) is not None:
            await self._result(forget(event_ids))

    async def _result(self, made: Any) -> Any:
        return await run_apart(made) if inspect.isawaitable(made) else made


class PlainIndexAdapter(IndexAdapter):
    """Calls plain methods only, so that its own methods never wait, and `run_plain` can run what calls them."""

    async def _result(self, made: Any) -> Any:
        if inspect.isawaitable(made):
            if inspect.iscoroutine(made):
                made.close()
            raise InvalidInputError(
                f"the index {type(self._index).__name__} is asynchronous: await recall(), pass relevance=, or leave"
                " out the index to compare words"
            )
        return made


def run_plain[T](work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing, such as one that asks a `PlainIndexAdapter`."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("the coroutine waits for something")


class BM25Index:
    """An index in memory: events that share words with a query, ranked by BM25; of equals the later one first.

    Args:
        language: The language whose stop words and endings are removed; an unknown one keeps its words.
    """

    def __init__(self, language: str = "en") -> None:
        self._language = language
        self._events: dict[int, Event] = {}
        self._lengths: dict[int, int] = {}
        self._numbers: dict[UUID, int] = {}
        self._postings: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._words = 0
        self._next = 0

    def index(self, events: tuple[Event, ...]) -> None:
        """Take in events; one whose id is known changes nothing."""
        for event in events:
            if event.event_id in self._numbers:
                continue
            number, self._next = self._next, self._next + 1
            terms = self._terms(event)
            for term, count in Counter(terms).items():
                self._postings[term][number] = count
            self._numbers[event.event_id] = number
            self._events[number] = event
            self._lengths[number] = len(terms)
            self._words += len(terms)

    def forget(self, event_ids: AbstractSet[UUID]) -> None:
        """Drop events and their words; unknown ids change nothing."""
        for event_id in event_ids & self._numbers.keys():
            number = self._numbers.pop(event_id)
            for term in set(self._terms(self._events.pop(number))):
                del self._postings[term][number]
                if not self._postings[term]:
                    del self._postings[term]
            self._words -= self._lengths.pop(number)

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
            postings = self._postings.get(term, {})
            rarity = math.log1p((len(self._events) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, count in postings.items():
                length = 1 - _B + _B * self._lengths[number] / mean
                scores[number] += rarity * count * (_K1 + 1) / (count + _K1 * length)
        best = heapq.nlargest(k, scores, key=lambda number: (scores[number], self._events[number].position))
        return [self._events[number] for number in best]

    def _terms(self, event: Event) -> list[str]:
        return list(analyse(event_text(event), self._language))
