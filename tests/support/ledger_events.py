"""Events as a ledger would hold them, for views that need no ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from hypothesis import strategies as st

from agent_reminiscence import AgentMem, testing
from agent_reminiscence.domain.event import Event

START = datetime(2026, 3, 5, 9, tzinfo=UTC)
AGENTS = ("mara", "odo", "ilse")
WORDS = ("mill", "river", "bread", "wolf", "lantern", "bridge", "key", "storm")
KINDS = (
    "agent.spoke",
    "agent.thought",
    "agent.reflected",
    "world.observed",
    "judge.verdict",
    "verdict.final",
    "user.injected",
    "run.started",
    "clue.found",
    "dice.rolled",
    "memory.created",
)


def make_event(
    position: int,
    text: str | dict[str, Any] = "",
    *,
    actor: str | None = "mara",
    kind: str = "agent.spoke",
    turn: int | None = None,
    external_id: str = "village",
) -> Event:
    """An event whose id and times follow from its position."""
    return testing.make_event(
        kind,
        text,
        actor,
        turn,
        position=position,
        external_id=external_id,
        occurred_at=START + timedelta(minutes=position),
    )


def event_id(position: int) -> UUID:
    """The id of the event at `position`."""
    return UUID(int=position)


def positions(events: Iterable[Event]) -> list[int]:
    """Where they stand in their ledger."""
    return [event.position for event in events]


def erase(position: int, *erased: int, actor: str | None = None) -> Event:
    """The receipt of an erasure, as far as views read it."""
    listed = [{"position": one, "event_id": str(event_id(one))} for one in erased]
    return make_event(position, {"scope": "text", "events": listed}, actor=actor, kind="memory.erased")


def as_read(events: Sequence[Event]) -> list[Event]:
    """What the ledger returns of these events, after the erasures among them."""
    gone = _listed(events)
    emptied: dict[str, Any] = {"payload": {}, "salt": None, "actor": None, "conversation_id": None}
    return [event.model_copy(update=emptied) if event.event_id in gone else event for event in events]


def without_erased(events: Sequence[Event]) -> list[Event]:
    """What is left of a ledger: neither erased events nor reflections that rest on one, nor the package's records."""
    gone = _listed(events) | {event.event_id for event in events if event.salt is None}
    while True:
        resting = {
            event.event_id
            for event in events
            if event.kind == "agent.reflected" and gone & {UUID(one) for one in _grounds(event)}
        }
        if resting <= gone:
            return [one for one in events if one.event_id not in gone and not one.kind.startswith("memory.")]
        gone |= resting


def seen_by(agent: str, events: Sequence[Event]) -> list[Event]:
    """What an agent sees of a ledger, said again, without the order of events: a belief with all its grounds only."""
    left = {event.event_id: event for event in without_erased(events)}

    def is_seen(event: Event | None) -> bool:
        if event is None:
            return False
        if event.actor == agent:
            return True
        if event.kind != "agent.reflected":
            return event.kind in {"world.observed", "judge.verdict", "user.injected", "run.started"}
        if event.payload.get("public") is True:
            return True
        needed = [*_grounds(event), *([event.payload["replaces"]] if "replaces" in event.payload else ())]
        named = [left.get(UUID(one)) for one in needed]
        return bool(_grounds(event)) and all(
            one is not None and one.position < event.position and is_seen(one) for one in named
        )

    return [event for event in left.values() if is_seen(event)]


def _grounds(event: Event) -> list[str]:
    return [*event.payload.get("based_on", ()), *event.payload.get("rests_on", ())]


def _listed(events: Sequence[Event]) -> set[UUID]:
    receipts = [event for event in events if event.kind == "memory.erased"]
    return {UUID(one["event_id"]) for receipt in receipts for one in receipt.payload["events"]}


@st.composite
def ledgers(draw: st.DrawFn, most: int = 40) -> list[Event]:
    """A short ledger of a few agents, with turns or without or with some, and a small vocabulary.

    It may have erasures; its events are whole, as they were when they came.
    """
    sentence = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
    rows = draw(
        st.lists(
            st.tuples(
                sentence,
                st.sampled_from((*AGENTS, None)),
                st.sampled_from(KINDS),
                st.none() | st.integers(0, 50),
                st.none() | st.none() | st.none() | st.lists(st.integers(1, most), min_size=1, max_size=4),
            ),
            max_size=most,
        )
    )
    events: list[Event] = []
    for position, (text, actor, kind, turn, erased) in enumerate(rows, start=1):
        there = [one for one in erased or () if one < position and events[one - 1].kind != "memory.erased"]
        if there:
            events.append(erase(position, *there, actor=actor))
        else:
            events.append(make_event(position, text, actor=actor, kind=kind, turn=turn))
    return events


@st.composite
def reflective_ledgers(draw: st.DrawFn) -> list[Event]:
    """Ledgers whose reflections name any events, also ones they must not, and say anything of who may read them."""
    events = draw(ledgers())
    for index, event in enumerate(events):
        if event.kind != "agent.reflected":
            continue
        ids = st.integers(1, len(events)).map(event_id).map(str)
        payload: dict[str, Any] = {"belief": f"so it is {event.position}", "based_on": draw(st.lists(ids, max_size=2))}
        if draw(st.booleans()):
            payload["replaces"] = draw(ids)
        if draw(st.booleans()):
            payload["contradicts"] = [draw(ids)]
        if draw(st.booleans()):
            payload["rests_on"] = draw(st.lists(ids, max_size=2))
        if draw(st.booleans()):
            payload["public"] = draw(st.sampled_from([True, False, False, "yes", 1]))
        events[index] = event.model_copy(update={"payload": payload})
    return events


def looks(most: int = 40) -> st.SearchStrategy[list[tuple[int, int]]]:
    """When a follower reads a ledger: how many events were there, and how many of them it takes; both only grow."""
    numbers = st.lists(st.integers(0, most), max_size=4)
    return st.tuples(numbers, numbers).map(
        lambda both: [(max(one, other), min(one, other)) for one, other in zip(*map(sorted, both), strict=False)]
    )


def seen_in(events: Sequence[Event], look: tuple[int, int]) -> list[Event]:
    """What a follower reads of a ledger at such a moment."""
    there, taken = look
    return as_read(events[:there])[:taken]


@dataclass
class LyingIndex:
    """Returns whatever it likes, as often as it likes, whatever it was given."""

    lies: Sequence[Event]
    given: list[Event] = field(default_factory=list)

    def index(self, events: tuple[Event, ...]) -> None:
        self.given += events

    def search(self, query: str, k: int) -> list[Event]:
        repeated = [*self.lies] * (k // max(len(self.lies), 1) + 1)
        return repeated[:k]


@dataclass
class RemoteIndex:
    """An index at the other end of a wire: asynchronous, and a write is searchable only after some requests.

    Args:
        pending: How many searches a write takes to arrive.
    """

    inner: Any
    pending: int = 0
    _waiting: list[tuple[int, tuple[Event, ...]]] = field(default_factory=list)
    _searches: int = 0

    async def index(self, events: tuple[Event, ...]) -> None:
        await asyncio.sleep(0)
        self._waiting.append((self._searches + self.pending, events))

    async def search(self, query: str, k: int) -> list[Event]:
        await asyncio.sleep(0)
        due = [events for when, events in self._waiting if when <= self._searches]
        self._waiting = [one for one in self._waiting if one[0] > self._searches]
        for events in due:
            self.inner.index(events)
        self._searches += 1
        found: list[Event] = self.inner.search(query, k)
        return found


class LedgerIndex:
    """`memory.event_index` of a ledger that gets each event before it is indexed, there with an id of its own."""

    def __init__(self, memory: AgentMem) -> None:
        self._memory = memory
        self._ledger = f"village-{uuid4()}"
        self._index = memory.event_index(self._ledger)
        self._written: dict[UUID, Event] = {}
        self._given: dict[UUID, Event] = {}

    async def index(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.event_id not in self._written:
                written = await self._memory.ledger.append(
                    self._ledger, event.kind, event.payload, actor=event.actor, turn=event.turn
                )
                self._written[event.event_id] = written
                self._given[written.event_id] = event
        assert await self._index.index([self._written[event.event_id] for event in events]) == []

    async def search(self, query: str, k: int) -> list[Event]:
        return self._as_given(await self._index.search(query, k))

    async def search_among(self, query: str, k: int, events: tuple[Event, ...]) -> list[Event]:
        written = [self._written[event.event_id] for event in events if event.event_id in self._written]
        return self._as_given(await self._index.search_among(query, k, written))

    def _as_given(self, found: Sequence[Event]) -> list[Event]:
        given = [self._given[event.event_id] for event in found]
        # Whole and unchanged, but for what a ledger adds.
        for one, event in zip(given, found, strict=True):
            assert (event.kind, event.payload, event.actor, event.turn) == (one.kind, one.payload, one.actor, one.turn)
        return given
