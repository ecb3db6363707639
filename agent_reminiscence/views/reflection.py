"""Reflections: beliefs that an agent writes down from time to time, and the memory that consists of them.

A reflection is an event of kind `agent.reflected`. Its payload:

    {"belief": "Odo guards the key.", "based_on": [ids of events],
     "replaces": id of an own reflection, "contradicts": [ids of others' reflections]}

The last two are optional. Every id names an earlier event that the author sees; a reflection that names another one is
no belief, whoever appended it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from agent_reminiscence.domain.belief import REFLECTED, Reflection
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.views.episodic import DEFAULT_WINDOW, checked_window
from agent_reminiscence.views.visibility import Visibility, VisibleEvents, Written
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
) -> dict[str, Any]:
    """The payload of a reflection, checked, to be appended as `agent.reflected` with `actor=agent_name`.

    Args:
        based_on: Ids of the events that it rests on; at least one.
        events: The ledger so far, or the part of it that holds the named events.
        replaces: The id of an earlier reflection of this agent.
        contradicts: Ids of reflections of other agents.

    Raises:
        InvalidInputError: The belief is blank, or an id names no event that the agent sees.
    """
    known = {event.event_id: event for event in events}
    try:
        reflection = Reflection(
            belief=belief, based_on=tuple(based_on), replaces=replaces, contradicts=tuple(contradicts)
        )
    except ValidationError as error:
        named = ", ".join(sorted({str(one["loc"][0]) for one in error.errors()}))
        raise InvalidInputError(
            f"a reflection needs a belief in words and the events that it is based on; check {named}"
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
        if event is None or not visibility.sees(author, event):
            return f"based_on names {event_id}, which is no earlier event that {author!r} sees"
    if reflection.replaces is not None:
        event = find(reflection.replaces)
        if event is None or event.kind != REFLECTED or event.actor != author:
            return f"replaces names {reflection.replaces}, which is no earlier reflection of {author!r}"
    for event_id in reflection.contradicts:
        event = find(event_id)
        if event is None or event.kind != REFLECTED or event.actor == author or not visibility.sees(author, event):
            return f"contradicts names {event_id}, which is no earlier reflection of another agent that {author!r} sees"
    return None


class ReflectionTracker:
    """Says when an agent should reflect: when it has seen enough since it last did. The agent writes the reflection.

    Args:
        agent_name: The `actor` of the agent's own events.
        threshold: So many visible events make a reflection due; None: none is ever due.

    Raises:
        InvalidInputError: The name is blank, or the threshold is less than 1.
    """

    def __init__(self, agent_name: str, threshold: int | None = None, *, visibility: Visibility | None = None) -> None:
        self.agent_name = agent_name
        self.threshold = None if threshold is None else checked_window("threshold", threshold)
        self._stream = VisibleEvents(agent_name, visibility or Visibility())
        self._seen: dict[UUID, Event] = {}
        self._since: list[Event] = []

    def observe(self, events: Iterable[Event]) -> bool:
        """Take in new events; returns whether a reflection is due then.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        for event in self._stream.observe(events):
            if self._is_own_reflection(event):
                self._since.clear()
            else:
                self._since.append(event)
            self._seen[event.event_id] = event
        return self.is_due

    @property
    def is_due(self) -> bool:
        """Whether the agent has seen `threshold` events since its last valid reflection."""
        return self.threshold is not None and len(self._since) >= self.threshold

    @property
    def since(self) -> tuple[Event, ...]:
        """What the agent has seen since its last valid reflection, in order of position: what to reflect on."""
        return tuple(self._since)

    def _is_own_reflection(self, event: Event) -> bool:
        return event.actor == self.agent_name and bool(read_reflection(event, self._seen.get, self._stream.visibility))


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
    """A reflection memory that follows a ledger."""

    def __init__(self, memory: ReflectionMemory) -> None:
        self._agent_name = memory.agent_name
        self._stream = VisibleEvents(memory.agent_name, memory.visibility)
        self._seen: dict[UUID, Event] = {}
        self._beliefs: dict[UUID, Event] = {}
        self._recent: deque[Event] = deque(maxlen=memory.max_recent)

    def observe(self, events: Iterable[Event]) -> list[Event]:
        """Take in new events; those up to the last position seen are passed over.

        Returns:
            The visible ones that are not beliefs of the agent, in order of position.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        others: list[Event] = []
        for event in self._stream.observe(events):
            reflection = None
            if event.actor == self._agent_name:
                reflection = read_reflection(event, self._seen.get, self._stream.visibility)
            self._seen[event.event_id] = event
            if reflection is None:
                others.append(event)
                continue
            self._beliefs[event.event_id] = event
            if reflection.replaces is not None:
                self._beliefs.pop(reflection.replaces, None)
        self._recent.extend(others)
        return others

    def beliefs(self) -> tuple[Event, ...]:
        """The agent's reflections that no later one of it replaces, in order of position."""
        return tuple(self._beliefs.values())

    def recent(self) -> tuple[Event, ...]:
        """The last events that are not its reflections, in order of position."""
        return tuple(self._recent)

    def visible(self) -> tuple[Event, ...]:
        """Beliefs and recent events, in order of position."""
        return in_order([*self._beliefs.values(), *self._recent])

    def format_for_prompt(self) -> str:
        """What the view shows, quoted as data; '' if that is nothing."""
        return format_events(self.visible())


def in_order(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events in order of position."""
    return tuple(sorted(events, key=lambda event: event.position))
