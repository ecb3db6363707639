"""Memory ranked by what matters now: how relevant an event is to the scene, how recent, and how important its kind is.

score = 0.30 · relevance + 0.40 · recency + 0.30 · importance
recency = exp(−0.1 · (turn − the event's turn)), which halves in about 7 turns; 1 for an event of a later turn
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from types import MappingProxyType
from typing import Annotated, Final, Self
from uuid import UUID

from pydantic import Field, model_validator

from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.event_text import event_text
from agent_reminiscence.domain.model import StrictModel
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.invisible import INVISIBLE
from agent_reminiscence.text.words import analyse
from agent_reminiscence.views.episodic import DEFAULT_WINDOW, checked_window
from agent_reminiscence.views.index import IndexAdapter, MemoryIndex, run_plain
from agent_reminiscence.views.visibility import News, Turns, Visibility, VisibleEvents
from agent_reminiscence.views.wording import format_events

IMPORTANCE: Final[Mapping[str, float]] = MappingProxyType(
    {
        "verdict.final": 1.00,
        "user.injected": 0.95,
        "judge.verdict": 0.90,
        "agent.reflected": 0.85,
        "clue.found": 0.80,
        "world.observed": 0.70,
        "agent.spoke": 0.50,
        "agent.thought": 0.40,
        "run.started": 0.30,
    }
)
"""How important an event is by its kind, from 0 to 1."""

# An index that holds more of other agents' events than this before ours is asked no further.
_MOST_ASKED: Final = 1 << 20
# One that was asked for twice as many so often and named no further event is exhausted.
_MOST_FRUITLESS: Final = 2
# The longest query that an index need take.
_MOST_QUERY_CHARACTERS: Final = 20_000

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SalienceWeights(StrictModel):
    """How the parts of a score are weighed. They need not add up to 1; only their proportions decide the order."""

    relevance: _Weight = 0.30
    recency: _Weight = 0.40
    importance: _Weight = 0.30
    decay: _Weight = Field(default=0.1, description="How fast recency fades, per turn; ln 2 / decay turns halve it.")
    kinds: Mapping[str, _Share] = Field(
        default_factory=dict, description="Importance of kinds, where it differs from `IMPORTANCE`."
    )
    default_importance: _Share = Field(default=0.50, description="Importance of a kind that is in neither.")

    @model_validator(mode="after")
    def _weighs_something(self) -> Self:
        if not self.relevance + self.recency + self.importance:
            raise ValueError("relevance, recency and importance are all 0; give one of them a weight")
        return self

    def importance_of(self, kind: str) -> float:
        """The importance of a kind, from 0 to 1."""
        return self.kinds.get(kind, IMPORTANCE.get(kind, self.default_importance))

    def recency_of(self, age: int) -> float:
        """The recency of an event `age` turns old, from 0 to 1."""
        return math.exp(-self.decay * max(age, 0))

    def score(self, relevance: float, age: int, kind: str) -> float:
        """The score of an event.

        Args:
            relevance: From 0 to 1.
            age: How many turns ago it happened.
        """
        return (
            self.relevance * relevance
            + self.recency * self.recency_of(age)
            + self.importance * self.importance_of(kind)
        )


class SalienceMemory:
    """The visible events with the highest scores.

    Args:
        agent_name: The `actor` of the agent's own events.
        window: At most this many events, from 1.
        index: Where relevance comes from; None compares words. One with asynchronous methods needs `recall`.
        language: The language whose stop words and endings are removed before words are compared.

    Raises:
        InvalidInputError: The name is blank, the window is less than 1, or the index lacks a method.
    """

    def __init__(
        self,
        agent_name: str,
        window: int = DEFAULT_WINDOW,
        *,
        weights: SalienceWeights | None = None,
        visibility: Visibility | None = None,
        index: MemoryIndex | None = None,
        language: str = "en",
    ) -> None:
        self.agent_name = agent_name
        self.window = checked_window("window", window)
        self.weights = weights or SalienceWeights()
        self.visibility = visibility or Visibility()
        self.index = None if index is None else IndexAdapter(index)
        self.language = language
        self.follow()

    def visible(
        self,
        events: Iterable[Event],
        scene: str,
        turn: int | None = None,
        relevance: Mapping[UUID, float] | None = None,
    ) -> tuple[Event, ...]:
        """The `window` visible events with the highest scores, in order of position.

        Of equal scores the event of the later turn wins, then the one of the later position.

        Args:
            scene: What happens now.
            turn: The current turn; None is that of the last visible event.
            relevance: By event id, from 0 to 1, and 0 for an id that it does not name. None is what the index gives, as
                in `recall`; without an index it compares words: the share of the words of event and scene that both
                have.

        Raises:
            InvalidInputError: A relevance is not from 0 to 1, the events come from more than one `external_id`, or the
                index is asynchronous and no `relevance` is passed.
        """
        follower = self.follow()
        follower.observe(events)
        return follower.visible(scene, turn, relevance)

    async def recall(self, events: Iterable[Event], scene: str, turn: int | None = None) -> tuple[Event, ...]:
        """As `visible`, also with an asynchronous index.

        The index is given the visible events and asked for more until `window` of them are ranked or it is exhausted.
        Whatever else it returns is passed over. Of n ranked events the first has relevance 1, the next 1 − 1/n … Of a
        very long scene it is given the last 20,000 characters. If the index fails, its error is raised.
        """
        follower = self.follow()
        follower.observe(events)
        return await follower.recall(scene, turn)

    def follow(self) -> SalienceFollower:
        """The same view in steps.

        `observe` costs what is new, and `visible` what shares words with the scene; after an erasure, the next of each
        costs as much as at the beginning. `recall` costs what the index makes of it.
        """
        return SalienceFollower(self)

    def format_for_prompt(
        self,
        events: Iterable[Event],
        scene: str,
        turn: int | None = None,
        relevance: Mapping[UUID, float] | None = None,
    ) -> str:
        """What the view shows, quoted as data; '' if that is nothing."""
        return format_events(self.visible(events, scene, turn, relevance))


class SalienceFollower:
    """A salience memory that follows a ledger; it keeps all visible events."""

    def __init__(self, memory: SalienceMemory) -> None:
        self._memory = memory
        self._stream = VisibleEvents(memory.agent_name, memory.visibility)
        # What the index has yet to be told: of new events, and of erased ones.
        self._unindexed: dict[UUID, Event] = {}
        self._unforgotten: set[UUID] = set()
        self._begin(())

    def _begin(self, events: Iterable[Event]) -> None:
        """Start anew from some events."""
        self._events: list[Event] = []
        self._numbers: dict[UUID, int] = {}
        self._turns = Turns()
        self._analysed = 0
        self._sizes: list[int] = []
        self._postings: defaultdict[str, list[int]] = defaultdict(list)
        self._by_importance: defaultdict[float, list[int]] = defaultdict(list)
        for event in events:
            self._add(event)

    def _add(self, event: Event) -> None:
        number = len(self._events)
        self._events.append(event)
        self._numbers[event.event_id] = number
        self._turns.add(event.turn)
        group = self._by_importance[self._memory.weights.importance_of(event.kind)]
        bisect.insort(group, number, key=self._age_key)

    def observe(self, events: Iterable[Event]) -> None:
        """Take in new events, and drop erased ones; others up to the last position seen are passed over.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        self.take(self._stream.observe(events))

    def take(self, news: News) -> None:
        """As `observe`, for callers that feed several views from one stream."""
        if any(event_id in self._numbers for event_id in news.erased):
            self._begin([event for event in self._events if event.event_id not in news.erased])
        for event_id in news.erased:
            self._unindexed.pop(event_id, None)
        for event in news.events:
            self._add(event)
        if self._memory.index is not None:
            self._unforgotten |= news.erased
            self._unindexed.update((event.event_id, event) for event in news.events)

    def visible(
        self,
        scene: str,
        turn: int | None = None,
        relevance: Mapping[UUID, float] | None = None,
        *,
        newest: int = 0,
        without: AbstractSet[UUID] = frozenset(),
    ) -> tuple[Event, ...]:
        """As `SalienceMemory.visible`, of all events observed.

        Args:
            newest: So many places of the window are for the newest events, whatever their scores.
            without: These take no place: they are shown elsewhere.
        """
        if relevance is None and self._memory.index is not None:
            relevance = run_plain(self._rank(scene, self._memory.index.plain()))
        passed = {self._numbers[event_id] for event_id in without if event_id in self._numbers}
        weights, window = self._memory.weights, self._memory.window
        now = self._turns.last if turn is None else turn
        relevant = self._shared_words(scene) if relevance is None else self._numbered(relevance)
        # Of events that are equally important and not relevant, the latest have the highest scores.
        candidates = set(relevant)
        for group in self._by_importance.values():
            rest = (number for number in reversed(group) if number not in relevant and number not in passed)
            candidates.update(islice(rest, window))
        numbers = (number for number in reversed(range(len(self._events))) if number not in passed)
        kept = list(islice(numbers, min(newest, window)))
        candidates -= passed.union(kept)
        best = heapq.nlargest(
            window - len(kept),
            candidates,
            key=lambda number: (
                weights.score(relevant.get(number, 0.0), now - self._turns[number], self._events[number].kind),
                *self._age_key(number),
            ),
        )
        # Chosen by score, returned by position: a prompt out of order misleads the model.
        return tuple(self._events[number] for number in sorted([*best, *kept]))

    async def recall(self, scene: str, turn: int | None = None) -> tuple[Event, ...]:
        """As `SalienceMemory.recall`, of all events observed; only new ones are given to the index."""
        return self.visible(scene, turn, await self.rank(scene))

    async def rank(self, scene: str) -> dict[UUID, float] | None:
        """The relevance of visible events according to the index; None without one."""
        index = self._memory.index
        return None if index is None else await self._rank(scene, index)

    async def _rank(self, scene: str, index: IndexAdapter) -> dict[UUID, float]:
        await self._tell(index)
        query = INVISIBLE.sub(" ", scene)[-_MOST_QUERY_CHARACTERS:]
        wanted = min(self._memory.window, len(self._events))
        if not wanted or not query.strip():
            return {}
        if index.searches_among:
            hits = await index.search_among(query, wanted, tuple(self._events))
        else:
            hits = await self._search(index, query, wanted)
        ranked = self._known(hits)[:wanted]
        return {event_id: 1 - rank / len(ranked) for rank, event_id in enumerate(ranked)}

    async def _tell(self, index: IndexAdapter) -> None:
        """Tell the index what is erased and what is new."""
        if erased := frozenset(self._unforgotten):
            await index.forget(erased)
            self._unforgotten -= erased
        if new := tuple(self._unindexed.values()):
            again = await index.index(new)
            for event in new:
                if event.event_id not in again:
                    self._unindexed.pop(event.event_id, None)

    async def _search(self, index: IndexAdapter, query: str, wanted: int) -> Sequence[Event]:
        """Ask for more and more until enough of the hits are known here, or the index is exhausted."""
        asked, named, fruitless = wanted, 0, 0
        while True:
            hits = await index.search(query, asked)
            found = len({hit.event_id for hit in hits})
            fruitless = 0 if found > named else fruitless + 1
            is_exhausted = len(hits) < asked or fruitless >= _MOST_FRUITLESS or asked >= _MOST_ASKED
            if is_exhausted or len(self._known(hits)) >= wanted:
                return hits
            named, asked = found, min(asked * 2, _MOST_ASKED)

    def _known(self, hits: Sequence[Event]) -> list[UUID]:
        """The visible events among some hits, each once."""
        return [event_id for event_id in dict.fromkeys(hit.event_id for hit in hits) if event_id in self._numbers]

    def format_for_prompt(
        self, scene: str, turn: int | None = None, relevance: Mapping[UUID, float] | None = None
    ) -> str:
        """What the view shows, quoted as data; '' if that is nothing."""
        return format_events(self.visible(scene, turn, relevance))

    def _age_key(self, number: int) -> tuple[int, int]:
        return self._turns[number], number

    def _numbered(self, relevance: Mapping[UUID, float]) -> dict[int, float]:
        for event_id, share in relevance.items():
            if not 0 <= share <= 1:
                raise InvalidInputError(f"the relevance of event {event_id} must be from 0 to 1, not {share!r}")
        return {self._numbers[one]: share for one, share in relevance.items() if one in self._numbers and share}

    def _shared_words(self, scene: str) -> dict[int, float]:
        """By number of event: the words it shares with `scene`, as a share of all words of both (Jaccard)."""
        language = self._memory.language
        # Texts are analysed only where words are compared.
        for event in self._events[self._analysed :]:
            terms = set(analyse(event_text(event), language))
            for term in terms:
                self._postings[term].append(self._analysed)
            self._sizes.append(len(terms))
            self._analysed += 1
        wanted = set(analyse(scene, language))
        shared = Counter(number for term in wanted for number in self._postings.get(term, ()))
        return {number: both / (len(wanted) + self._sizes[number] - both) for number, both in shared.items()}
