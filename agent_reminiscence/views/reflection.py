"""Reflections: beliefs that an agent writes down from time to time, and the memory that consists of them.

A reflection is an event of kind `agent.reflected`. Its payload:

    {"belief": "Odo guards the key.", "based_on": [ids of events],
     "replaces": id of an own reflection, "contradicts": [ids of others' reflections], "public": true}

The last three are optional. Every id names an earlier event that the author sees; a reflection that names another one
is no belief, whoever appended it. Other agents read a reflection if they see all that it rests on, or if it is public.

An erasure takes with it the reflections that rest on what is erased: they are shown no more, and what they replaced is
a belief again, as if they had never been written. One that only replaces or contradicts an erased reflection stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from agent_reminiscence.domain.belief import REFLECTED, Reflection
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.views.episodic import DEFAULT_WINDOW, checked_window
from agent_reminiscence.views.visibility import (
    EventStream,
    News,
    Visibility,
    VisibleEvents,
    Written,
    emptied,
    in_order,
    last_of,
    unread,
)
from agent_reminiscence.views.wording import format_events

FindEvent = Callable[[UUID], Written | None]
"""Gives the earlier event with an id; None if there is none."""


def reflection_payload(
    agent_name: str,
    belief: str,
    based_on: Iterable[UUID],
    events: Iterable[Event],
    *,
    replaces: UUID | None = None,
    contradicts: Iterable[UUID] = (),
    visibility: Visibility | None = None,
    public: bool = False,
) -> dict[str, Any]:
    """The payload of a reflection, checked, to be appended as `agent.reflected` with `actor=agent_name`.

    Args:
        based_on: Ids of the events that it rests on; at least one.
        events: The ledger so far, or the part of it that holds the named events.
        replaces: The id of an earlier reflection of this agent.
        contradicts: Ids of reflections of other agents.
        public: Whether all agents may read it. Otherwise those may who see all that it rests on, and what it replaces.

    Raises:
        InvalidInputError: The belief is blank, an id names no event that the agent sees, or one that is erased; the
            events come from more than one `external_id`; or `public` is neither true nor false.
    """
    if not isinstance(public, bool):
        raise InvalidInputError(f"public must be True or False, not {public!r:.80}")
    known = {event.event_id: event for event in EventStream().observe(events).events}
    try:
        reflection = Reflection(
            belief=belief,
            based_on=tuple(based_on),
            replaces=replaces,
            contradicts=tuple(contradicts),
            public=public,
        )
    except ValidationError as error:
        named = ", ".join(sorted({str(one["loc"][0]) for one in error.errors()}))
        raise InvalidInputError(
            f"belief must not be blank, and based_on must name at least one event; check {named}"
        ) from error
    fault = _fault(reflection, agent_name, known.get, visibility or Visibility())
    if fault:
        raise InvalidInputError(fault)
    return reflection.model_dump(mode="json", exclude_defaults=True)


def read_reflection(event: Event, find: FindEvent, visibility: Visibility) -> Reflection | None:
    """The reflection that an event holds; None if it is not one, or names what its author does not see.

    Args:
        find: Looks only among events before `event`.
    """
    if event.kind != REFLECTED or event.actor is None:
        return None
    try:
        reflection = Reflection.model_validate(event.payload)
    except ValidationError:
        return None
    return reflection if counts_as_belief(reflection, event.actor, find, visibility) else None


def counts_as_belief(reflection: Reflection, author: str, find: FindEvent, visibility: Visibility) -> bool:
    """Whether every id in a reflection names what it may: only then is it a belief of its author."""
    return _fault(reflection, author, find, visibility) is None


def _fault(reflection: Reflection, author: str, find: FindEvent, visibility: Visibility) -> str | None:
    """What is wrong with the ids of a reflection; None if nothing is."""
    for event_id in reflection.based_on:
        event = find(event_id)
        if event is None or not visibility.may_name(author, event):
            return f"based_on names {event_id}, which is not an earlier event visible to {author!r}"
    if reflection.replaces is not None:
        event = find(reflection.replaces)
        # An erased one has no actor any more, and nothing is left to replace.
        if event is None or event.kind != REFLECTED or event.actor not in {author, None}:
            return f"replaces names {reflection.replaces}, which is not an earlier reflection of {author!r}"
    for event_id in reflection.contradicts:
        event = find(event_id)
        if event is None or event.kind != REFLECTED or event.actor == author or not visibility.may_name(author, event):
            return (
                f"contradicts names {event_id}, which is not an earlier reflection of another agent visible to"
                f" {author!r}"
            )
    return None


def earlier(events: Mapping[UUID, Event], event: Event) -> FindEvent:
    """Finds the events before `event`."""

    def find(event_id: UUID) -> Event | None:
        found = events.get(event_id)
        return found if found is not None and found.position < event.position else None

    return find


class ReflectionTracker:
    """Says when an agent should reflect: when it has seen enough since it last did. The agent writes the reflection.

    Reflections alone make none due: agents would answer one another's without end.

    Args:
        agent_name: The `actor` of the agent's own events.
        threshold: Visible events after which a reflection is due; None: none is ever due, and no event is kept.

    Raises:
        InvalidInputError: The name is blank, or the threshold is less than 1.
    """

    def __init__(self, agent_name: str, threshold: int | None = None, *, visibility: Visibility | None = None) -> None:
        self.agent_name = agent_name
        self.threshold = None if threshold is None else checked_window("threshold", threshold)
        self._stream = VisibleEvents(agent_name, visibility or Visibility())
        self._known: dict[UUID, Event] = {}
        self._since: dict[UUID, Event] = {}

    def observe(self, events: Iterable[Event]) -> bool:
        """Take in new events, and drop erased ones; returns whether a reflection is due then.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        news = self._stream.observe(events)
        if self.threshold is None:
            return False
        _note(self._known, news)
        if news.erased:
            # What was seen before an erased reflection has not been reflected on.
            self._since.clear()
            self._count(in_order(event for event in self._known.values() if not event.is_erased))
        else:
            self._count(news.events)
        return self.is_due

    @property
    def is_due(self) -> bool:
        """Whether the agent has seen `threshold` events since its last valid reflection, and not only reflections."""
        if self.threshold is None or len(self._since) < self.threshold:
            return False
        return any(event.kind != REFLECTED for event in self._since.values())

    @property
    def since(self) -> tuple[Event, ...]:
        """What the agent has seen since its last valid reflection, in order of position: what to reflect on.

        Empty without a threshold.
        """
        return tuple(self._since.values())

    def _count(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._is_own_reflection(event):
                self._since.clear()
            else:
                self._since[event.event_id] = event

    def _is_own_reflection(self, event: Event) -> bool:
        if event.actor != self.agent_name:
            return False
        return read_reflection(event, earlier(self._known, event), self._stream.visibility) is not None


class ReflectionMemory:
    """An agent's beliefs, and its recent window: after K reflections, K beliefs and the last events.

    Args:
        agent_name: The `actor` of the agent's own events.
        max_recent: At most this many events beside the beliefs, from 1.

    Raises:
        InvalidInputError: The name is blank, or `max_recent` is less than 1.
    """

    def __init__(
        self, agent_name: str, max_recent: int = DEFAULT_WINDOW, *, visibility: Visibility | None = None
    ) -> None:
        self.agent_name = agent_name
        self.max_recent = checked_window("max_recent", max_recent)
        self.visibility = visibility or Visibility()
        self.follow()

    def visible(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """The agent's reflections that no later one of it replaces, and the other last events, in order of position."""
        follower = self.follow()
        follower.observe(events)
        return follower.visible()

    def follow(self) -> ReflectionFollower:
        """The same view in steps: each `observe` costs what is new."""
        return ReflectionFollower(self)

    def format_for_prompt(self, events: Iterable[Event]) -> str:
        """What the view shows of `events`, quoted as data; '' if that is nothing."""
        return format_events(self.visible(events))


class ReflectionFollower:
    """A reflection memory that follows a ledger.

    It keeps all visible events, because an erasure brings back older ones.
    """

    def __init__(self, memory: ReflectionMemory) -> None:
        self._agent_name = memory.agent_name
        self._max_recent = memory.max_recent
        self._stream = VisibleEvents(memory.agent_name, memory.visibility)
        self._known: dict[UUID, Event] = {}
        self._own: dict[UUID, Event] = {}
        self._beliefs: dict[UUID, Event] = {}
        self._others: dict[UUID, Event] = {}

    def observe(self, events: Iterable[Event]) -> None:
        """Take in new events, and drop erased ones; others up to the last position seen are passed over.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        self.take(self._stream.observe(events))

    def take(self, news: News) -> News:
        """As `observe`, for callers that feed several views from one stream.

        Returns:
            The same without the agent's beliefs; an event that turns out to be one is named among the erased.
        """
        _note(self._known, news)
        for event_id in news.erased:
            for kept in (self._own, self._beliefs, self._others):
                kept.pop(event_id, None)
        others: dict[UUID, Event] = {}
        for event in news.events:
            reflection = self._read(event)
            if event.actor == self._agent_name and event.kind == REFLECTED:
                self._own[event.event_id] = event
            if reflection is None:
                others[event.event_id] = event
                continue
            self._beliefs[event.event_id] = event
            if reflection.replaces is not None:
                self._beliefs.pop(reflection.replaces, None)
        self._others |= others
        found = self._read_again() if news.erased else frozenset()
        left = tuple(event for event_id, event in others.items() if event_id not in found)
        return News(left, news.emptied, news.erased | found)

    def _read(self, event: Event) -> Reflection | None:
        """The reflection in an own event; None if there is none."""
        if event.actor != self._agent_name:
            return None
        return read_reflection(event, earlier(self._known, event), self._stream.visibility)

    def _read_again(self) -> frozenset[UUID]:
        """Find out which own reflections count, now that some events are erased; returns those that now do."""
        read = {event_id: one for event_id, event in self._own.items() if (one := self._read(event)) is not None}
        replaced = {one.replaces for one in read.values()}
        self._beliefs = {event_id: self._own[event_id] for event_id in read if event_id not in replaced}
        found = frozenset(read.keys() & self._others.keys())
        for event_id in found:
            del self._others[event_id]
        return found

    def beliefs(self) -> tuple[Event, ...]:
        """The agent's reflections that no later one of it replaces, in order of position."""
        return tuple(self._beliefs.values())

    def recent(self, *, without: AbstractSet[UUID] = frozenset()) -> tuple[Event, ...]:
        """The last events that are not its reflections, in order of position.

        Args:
            without: These take no place: they are shown elsewhere.
        """
        return last_of(self._others, self._max_recent, without=without)

    def visible(self) -> tuple[Event, ...]:
        """Beliefs and recent events, in order of position."""
        return in_order([*self._beliefs.values(), *self.recent()])

    def format_for_prompt(self) -> str:
        """What the view shows, quoted as data; '' if that is nothing."""
        return format_events(self.visible())


def _note(known: dict[UUID, Event], news: News) -> None:
    """Keep new events, and of erased and hidden ones what is left, because reflections may name them."""
    known.update((event.event_id, event) for event in (*news.events, *news.emptied, *news.hidden))
    for event_id in news.erased & known.keys():
        left = unread if event_id in news.lost else emptied
        known[event_id] = left(known[event_id])
