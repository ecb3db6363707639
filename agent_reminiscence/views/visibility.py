"""What an agent sees of a ledger that it shares with others: the one rule of every view, index query and prompt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

from pydantic import Field, field_validator

from agent_reminiscence.domain.belief import REFLECTED, grounds_of, read_ids
from agent_reminiscence.domain.event import Event, EventKind, is_user_kind
from agent_reminiscence.domain.model import StrictModel
from agent_reminiscence.exceptions import InvalidInputError

INJECTED: Final = "user.injected"
GLOBAL_KINDS: Final = frozenset({"world.observed", "judge.verdict", INJECTED, "run.started", REFLECTED})
"""The kinds that everybody sees, unless a ledger is configured otherwise."""


class Written(Protocol):
    """What decides who sees an event."""

    @property
    def kind(self) -> str | None:
        """Its kind."""

    @property
    def actor(self) -> str | None:
        """Who wrote it; None if nobody did."""


class Visibility(StrictModel):
    """Which events of a ledger an agent sees: its own, of any kind and turn, and those of global kinds.

    Kinds that begin with `memory.` are the package's own records: no view shows them, whoever wrote them.
    """

    global_kinds: frozenset[str] = Field(default=GLOBAL_KINDS, description="Kinds that every agent sees.")

    @field_validator("global_kinds")
    @classmethod
    def _are_no_records(cls, kinds: frozenset[str]) -> frozenset[str]:
        if records := sorted(kind for kind in kinds if not is_user_kind(kind)):
            raise ValueError(f"no view shows the package's own records; leave out {', '.join(records)}")
        return kinds

    def sees(self, agent_name: str, event: Written) -> bool:
        """Whether the agent sees `event`. A name is compared as it is: `Mara` is not `mara`."""
        if event.kind is not None and not is_user_kind(event.kind):
            return False
        return event.actor == agent_name or event.kind in self.global_kinds


@dataclass(frozen=True, slots=True)
class News:
    """What a batch of events brings.

    Attributes:
        events: The new ones, in order of position, without those that are erased.
        emptied: The new ones that are erased, with nothing in them but what an erasure leaves.
        erased: Ids of all events of which it became known that they are erased, whenever they came.
    """

    events: tuple[Event, ...]
    emptied: tuple[Event, ...] = ()
    erased: frozenset[UUID] = frozenset()


class VisibleEvents:
    """Follows a ledger for one agent and passes on what the agent sees.

    Args:
        agent_name: The `actor` of the agent's own events.

    Raises:
        InvalidInputError: The name is blank.
    """

    def __init__(self, agent_name: str, visibility: Visibility) -> None:
        if not agent_name.strip():
            raise InvalidInputError("agent_name is blank; pass the actor name used in the agent's events")
        self.agent_name = agent_name
        self.visibility = visibility
        self._stream = EventStream()

    def observe(self, events: Iterable[Event]) -> News:
        """What the new events bring, of which only the visible ones are passed on.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        news = self._stream.observe(events)
        seen = tuple(event for event in news.events if self.visibility.sees(self.agent_name, event))
        return News(seen, news.emptied, news.erased)


class EventStream:
    """Follows one ledger: puts a batch in order, passes on what was not seen before, and says what was erased.

    It learns of an erasure from its receipt, the event `memory.erased`, or because an event comes emptied. A reflection
    that rests on an erased event counts as erased, too, since it may repeat what that said; and so on from there.
    """

    def __init__(self) -> None:
        self._external_id: str | None = None
        self._position = 0
        self._erased: set[UUID] = set()
        # By id of an event: the reflections that rest on it.
        self._resting: defaultdict[UUID, list[UUID]] = defaultdict(list)

    def observe(self, events: Iterable[Event]) -> News:
        """What the events after the last position bring; of those before it, whether they have been erased.

        Raises:
            InvalidInputError: The events come from more than one `external_id`; none is taken.
        """
        batch = self._batch(events)
        new: list[Event] = []
        for event in batch:
            if event.position > self._position:
                self._position = event.position
                new.append(event)
        erased = {event_id for event in batch for event_id in _erased_by(event)}
        for event in new:
            for ground in _grounds(event):
                self._resting[ground].append(event.event_id)
                if ground in self._erased:
                    erased.add(event.event_id)
        found = self._spread(erased)
        return News(
            tuple(event for event in new if event.event_id not in self._erased),
            tuple(emptied(event) for event in new if event.event_id in self._erased),
            frozenset(found),
        )

    def _batch(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Some events in order of position, all of one ledger."""
        batch = in_order(events)
        external_id = self._external_id
        for event in batch:
            if external_id is None:
                external_id = event.external_id
            elif event.external_id != external_id:
                raise InvalidInputError(
                    f"events from two external_ids were passed ({external_id!r} and {event.external_id!r}); "
                    f"use one view for each"
                )
        self._external_id = external_id
        return batch

    def _spread(self, erased: set[UUID]) -> set[UUID]:
        """Note that events are erased; returns those of which it was not known, and what rests on them."""
        found: set[UUID] = set()
        left = [event_id for event_id in erased if event_id not in self._erased]
        while left:
            event_id = left.pop()
            if event_id not in found:
                found.add(event_id)
                left += [one for one in self._resting.pop(event_id, ()) if one not in self._erased]
        self._erased |= found
        return found


def emptied(event: Event) -> Event:
    """What an erasure leaves of `event`."""
    if event.is_erased:
        return event
    nothing = dict.fromkeys(("idempotency_key", "request_hash", "salt", "actor", "conversation_id"))
    return event.model_copy(update={"payload": {}, **nothing})


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Events in order of position."""
    return tuple(sorted(events, key=lambda event: event.position))


def last_of(events: dict[UUID, Event], most: int, *, without: AbstractSet[UUID] = frozenset()) -> tuple[Event, ...]:
    """The last `most` of some events but those in `without`, in their order."""
    wanted = (event_id for event_id in reversed(events) if event_id not in without)
    chosen = [events[event_id] for event_id in islice(wanted, most)]
    return tuple(reversed(chosen))


def _erased_by(event: Event) -> Iterator[UUID]:
    """The events that are known to be erased once one has seen `event`."""
    if event.is_erased:
        yield event.event_id
    elif event.kind == EventKind.ERASED:
        yield from read_ids([one["event_id"] for one in event.payload.get("events", ())])


def _grounds(event: Event) -> Iterator[UUID]:
    """The events that a reflection rests on."""
    if event.kind == REFLECTED:
        yield from grounds_of(event.payload)


class Turns:
    """Gives every event of a view a turn, also those that were written without one.

    An event without a turn belongs to the turn of the event before it in the view, and before the first numbered event
    to that one's turn. As long as no event has a number, each is a turn of its own, from 0.
    """

    def __init__(self) -> None:
        self._turns: list[int] = []
        self._is_numbered = False

    def add(self, turn: int | None) -> None:
        """Add the next event's turn."""
        if turn is None:
            self._turns.append(self.last if self._is_numbered else len(self._turns))
            return
        if not self._is_numbered:
            self._is_numbered = True
            self._turns = [turn] * len(self._turns)
        self._turns.append(turn)

    def __getitem__(self, index: int) -> int:
        return self._turns[index]

    @property
    def last(self) -> int:
        """The turn of the last event; 0 if there is none."""
        return self._turns[-1] if self._turns else 0
