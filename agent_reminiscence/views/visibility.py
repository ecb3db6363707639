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

from agent_reminiscence.domain.belief import REFLECTED, grounds_of, is_published, needed_to_read, read_ids
from agent_reminiscence.domain.event import Event, EventKind, is_user_kind
from agent_reminiscence.domain.model import StrictModel
from agent_reminiscence.exceptions import InvalidInputError

INJECTED: Final = "user.injected"
GLOBAL_KINDS: Final = frozenset({"world.observed", "judge.verdict", INJECTED, "run.started", REFLECTED})
"""The kinds that everybody sees, unless a ledger is configured otherwise; of reflections see `Visibility`."""


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

    A reflection says what its author concluded from events that others may not see. So another agent sees one only if
    it sees all that the reflection rests on and the belief that it replaces, and so on along the line; or if the
    application made it public (`reflection_payload(…, public=True)`).

    Kinds that begin with `memory.` are the package's own records: no view shows them, whoever wrote them.
    """

    global_kinds: frozenset[str] = Field(default=GLOBAL_KINDS, description="Kinds that every agent sees.")

    @field_validator("global_kinds")
    @classmethod
    def _are_no_records(cls, kinds: frozenset[str]) -> frozenset[str]:
        if records := sorted(kind for kind in kinds if not is_user_kind(kind)):
            raise ValueError(f"no view shows the package's own records; leave out {', '.join(records)}")
        return kinds

    def sees(self, agent_name: str | None, event: Written) -> bool:
        """Whether the agent sees `event`, as far as the event by itself tells. `Mara` is not `mara`.

        Of other agents' reflections it knows only those that are public: `visible` reads what the others rest on.

        Args:
            agent_name: None is somebody who wrote nothing.
        """
        if not self.may_name(agent_name, event):
            return False
        if event.kind != REFLECTED or (agent_name is not None and event.actor == agent_name):
            return True
        return isinstance(event, Event) and is_published(event.payload)

    def may_name(self, agent_name: str | None, event: Written) -> bool:
        """Whether a reflection of the agent may name `event`: this decides which reflections are beliefs.

        Their kind decides for reflections, too. Otherwise an agent would lose what it concluded from another's belief
        when that turns out to rest on something private.
        """
        if event.kind is not None and not is_user_kind(event.kind):
            return False
        return event.kind in self.global_kinds or (agent_name is not None and event.actor == agent_name)

    def visible(self, agent_name: str, events: Iterable[Event]) -> tuple[Event, ...]:
        """What the agent sees of a whole ledger, in order of position.

        Args:
            events: All events, in any order. A reflection that rests on one that is missing here is not seen.

        Raises:
            InvalidInputError: The name is blank, or the events come from more than one `external_id`.
        """
        return VisibleEvents(agent_name, self).observe(events).events

    def open_to_all(self, events: Iterable[Event]) -> frozenset[UUID]:
        """Which events of a whole ledger everybody sees, also who wrote none of them."""
        sight = Sight(None, self)
        return frozenset(event.event_id for event in EventStream().observe(events).events if sight.add(event))


@dataclass(frozen=True, slots=True)
class News:
    """What a batch of events brings.

    Attributes:
        events: The new ones, in order of position, without those that are erased.
        emptied: The new ones that are erased, with nothing in them but what an erasure leaves.
        erased: Ids of all events that are to be dropped, whenever they came: because it became known that they are
            erased, or as `lost`.
        hidden: Of the new ones, other agents' reflections that the agent does not see, without what they say.
        lost: Of the earlier ones, reflections that the agent sees no longer: what they replace is erased, so nobody
            can tell whether it may be read.
    """

    events: tuple[Event, ...]
    emptied: tuple[Event, ...] = ()
    erased: frozenset[UUID] = frozenset()
    hidden: tuple[Event, ...] = ()
    lost: frozenset[UUID] = frozenset()


class Sight:
    """Which events of a ledger one agent sees: fed all of them, in order of position.

    Args:
        agent_name: None is somebody who wrote none of them: such a one sees what everybody does.
    """

    def __init__(self, agent_name: str | None, visibility: Visibility) -> None:
        self._agent_name = agent_name
        self._visibility = visibility
        self._seen: set[UUID] = set()
        # What the reflections of others need that are seen because of it, in order of position.
        self._needed: dict[UUID, frozenset[UUID]] = {}

    def __contains__(self, event_id: object) -> bool:
        return event_id in self._seen

    def add(self, event: Event) -> bool:
        """Take in the next event; returns whether the agent sees it."""
        if event.is_erased:
            return False
        if not self._visibility.sees(self._agent_name, event):
            if event.kind != REFLECTED or not self._visibility.may_name(self._agent_name, event):
                return False
            needed = needed_to_read(event.payload)
            if not needed or not needed <= self._seen:
                return False
            self._needed[event.event_id] = needed
        self._seen.add(event.event_id)
        return True

    def drop(self, erased: AbstractSet[UUID]) -> frozenset[UUID]:
        """Forget erased events; returns the reflections that the agent sees no longer, because they need one."""
        self._seen -= erased
        lost: set[UUID] = set()
        # Each needs only earlier ones, so one pass finds all.
        for event_id, needed in list(self._needed.items()):
            if event_id in erased:
                del self._needed[event_id]
            elif not needed <= self._seen:
                del self._needed[event_id]
                self._seen.discard(event_id)
                lost.add(event_id)
        return frozenset(lost)


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
        self._sight = Sight(agent_name, visibility)

    def observe(self, events: Iterable[Event]) -> News:
        """What the new events bring, of which only the visible ones are passed on.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        news = self._stream.observe(events)
        lost = self._sight.drop(news.erased)
        seen: list[Event] = []
        hidden: list[Event] = []
        for event in news.events:
            if self._sight.add(event):
                seen.append(event)
            elif event.kind == REFLECTED:
                hidden.append(unread(event))
        return News(tuple(seen), news.emptied, news.erased | lost, tuple(hidden), lost)


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
    if event.is_erased and event.actor is None:
        return event
    nothing = dict.fromkeys(("idempotency_key", "request_hash", "salt", "actor", "conversation_id"))
    return event.model_copy(update={"payload": {}, **nothing})


def unread(event: Event) -> Event:
    """A reflection for an agent that does not see it: that there is one, and whose, but not what it says."""
    return event.model_copy(update={"payload": {}, "salt": None})


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
