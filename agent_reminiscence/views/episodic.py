"""The memory that is always on: the last events that an agent sees."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final
from uuid import UUID

from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.views.visibility import News, Visibility, VisibleEvents, last_of
from agent_reminiscence.views.wording import format_events

DEFAULT_WINDOW: Final = 8


class EpisodicMemory:
    """The most recent visible events.

    Args:
        agent_name: The `actor` of the agent's own events.
        max_recent: At most this many events, from 1.

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
        """The last `max_recent` events that the agent sees, in order of position."""
        follower = self.follow()
        follower.observe(events)
        return follower.visible()

    def follow(self) -> EpisodicFollower:
        """The same view in steps: each `observe` costs what is new."""
        return EpisodicFollower(self)

    def format_for_prompt(self, events: Iterable[Event]) -> str:
        """What the view shows of `events`, quoted as data; '' if that is nothing."""
        return format_events(self.visible(events))


class EpisodicFollower:
    """An episodic memory that follows a ledger.

    It keeps all visible events, because an erasure brings back an older one.
    """

    def __init__(self, memory: EpisodicMemory) -> None:
        self._stream = VisibleEvents(memory.agent_name, memory.visibility)
        self._max_recent = memory.max_recent
        self._events: dict[UUID, Event] = {}

    def observe(self, events: Iterable[Event]) -> None:
        """Take in new events, and drop erased ones; others up to the last position seen are passed over.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        self.take(self._stream.observe(events))

    def take(self, news: News) -> None:
        """As `observe`, for callers that feed several views from one stream."""
        for event_id in news.erased:
            self._events.pop(event_id, None)
        self._events.update((event.event_id, event) for event in news.events)

    def visible(self, *, without: AbstractSet[UUID] = frozenset()) -> tuple[Event, ...]:
        """The most recent visible events, in order of position.

        Args:
            without: These take no place: they are shown elsewhere.
        """
        return last_of(self._events, self._max_recent, without=without)

    def format_for_prompt(self) -> str:
        """What the view shows, quoted as data; '' if that is nothing."""
        return format_events(self.visible())


def checked_window(name: str, value: int) -> int:
    """`value`, if it is a number of events from 1.

    Raises:
        InvalidInputError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"{name} must be a whole number from 1, not {value!r}")
    return value
