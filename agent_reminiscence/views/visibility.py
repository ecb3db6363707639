"""What an agent sees of a ledger that it shares with others: the one rule of every view, index query and prompt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from pydantic import BaseModel, ConfigDict, Field

from agent_reminiscence.domain.belief import REFLECTED
from agent_reminiscence.domain.event import Event
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


class Visibility(BaseModel):
    """Which events of a ledger an agent sees: its own, of any kind and turn, and those of global kinds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    global_kinds: frozenset[str] = Field(default=GLOBAL_KINDS, description="Kinds that every agent sees.")

    def sees(self, agent_name: str, event: Written) -> bool:
        """Whether the agent sees `event`. A name is compared as it is: `Mara` is not `mara`."""
        return event.actor == agent_name or event.kind in self.global_kinds


class VisibleEvents:
    """Follows a ledger for one agent and passes on what the agent sees.

    Args:
        agent_name: The `actor` of the agent's own events.

    Raises:
        InvalidInputError: The name is blank.
    """

    def __init__(self, agent_name: str, visibility: Visibility) -> None:
        if not agent_name.strip():
            raise InvalidInputError(f"agent_name must not be blank, as {agent_name!r} is; pass the actor of its events")
        self.agent_name = agent_name
        self.visibility = visibility
        self._stream = EventStream()

    def observe(self, events: Iterable[Event]) -> list[Event]:
        """Return the visible ones of the new events, in order of position.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        return [event for event in self._stream.observe(events) if self.visibility.sees(self.agent_name, event)]


class EventStream:
    """Follows one ledger: puts a batch in order and passes on what was not seen before."""

    def __init__(self) -> None:
        self._external_id: str | None = None
        self._position = 0

    def observe(self, events: Iterable[Event]) -> list[Event]:
        """Return the events after the last position seen, in order of position.

        Raises:
            InvalidInputError: The events come from more than one `external_id`; none is taken.
        """
        batch = sorted(events, key=lambda event: event.position)
        external_id, position = self._external_id, self._position
        new: list[Event] = []
        for event in batch:
            if external_id is None:
                external_id = event.external_id
            elif event.external_id != external_id:
                raise InvalidInputError(
                    f"a view reads one ledger, and these events are of {external_id!r} and {event.external_id!r}; "
                    f"make a view for each"
                )
            if event.position > position:
                position = event.position
                new.append(event)
        self._external_id, self._position = external_id, position
        return new


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
