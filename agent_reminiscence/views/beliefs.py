"""Who believes what, since when, on what evidence, and who contradicts whom: a graph of all agents' reflections.

Nothing is guessed: a belief is replaced or contradicted only by a reflection that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.views.reflection import Reflection, read_reflection
from agent_reminiscence.views.visibility import EventStream, Turns, Visibility


@dataclass(frozen=True, slots=True)
class Belief:
    """A belief of one agent.

    Attributes:
        id: Of its reflection.
        turn: Of its reflection; one without a turn belongs to the turn of the reflection before it.
        based_on: Ids of the events that it rests on.
        replaces: The belief of the same agent that it revises.
        contradicts: Beliefs of other agents that it says are wrong.
    """

    id: UUID
    agent_name: str
    text: str
    turn: int
    based_on: tuple[UUID, ...]
    replaces: UUID | None
    contradicts: tuple[UUID, ...]


class BeliefGraph:
    """The beliefs in a ledger.

    It is fed the whole ledger, so that it can check that every author sees what its beliefs rest on. A query with a
    `reader` answers with what that agent sees; without one with everything, as for the owner of the ledger.
    """

    def __init__(self, events: Iterable[Event] = (), *, visibility: Visibility | None = None) -> None:
        self._visibility = visibility or Visibility()
        self._stream = EventStream()
        self._events: dict[UUID, Event] = {}
        self._reflections: dict[UUID, tuple[int, Reflection]] = {}
        self._turns = Turns()
        self.observe(events)

    def observe(self, events: Iterable[Event]) -> None:
        """Take in new events; those up to the last position seen are passed over.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        for event in self._stream.observe(events):
            reflection = read_reflection(event, self._events.get, self._visibility)
            self._events[event.event_id] = event
            if reflection is not None:
                self._reflections[event.event_id] = len(self._reflections), reflection
                self._turns.add(event.turn)

    def current(
        self, agent_name: str | None = None, *, turn: int | None = None, reader: str | None = None
    ) -> tuple[Belief, ...]:
        """Beliefs that were not replaced, in order of position.

        Args:
            agent_name: Only this agent's; None is everybody's.
            turn: As they were at the end of this turn; None is now.
        """
        then = [belief for belief in self._all(reader) if turn is None or belief.turn <= turn]
        replaced = {belief.replaces for belief in then}
        return tuple(belief for belief in then if belief.id not in replaced and agent_name in (None, belief.agent_name))

    def history(self, belief_id: UUID, *, reader: str | None = None) -> tuple[Belief, ...]:
        """A belief and those that it replaced, one after the other, oldest first.

        Raises:
            InvalidInputError: There is no such belief, or the reader does not see it.
        """
        line = [self._belief(belief_id, reader)]
        while line[-1].replaces is not None and line[-1].replaces in self._reflections:
            line.append(self._belief(line[-1].replaces, None))
        return tuple(reversed(line))

    def evidence(self, belief_id: UUID, *, reader: str | None = None) -> tuple[Event, ...]:
        """The events that a belief rests on, in order of position; of them those that the reader sees.

        Raises:
            InvalidInputError: There is no such belief, or the reader does not see it.
        """
        named = {event_id: self._events[event_id] for event_id in self._belief(belief_id, reader).based_on}
        seen = [event for event in named.values() if self._is_seen(event, reader)]
        return tuple(sorted(seen, key=lambda event: event.position))

    def holders(self, text: str, *, turn: int | None = None, reader: str | None = None) -> tuple[str, ...]:
        """The agents that hold a belief in these words, in alphabetical order; case and spaces make no difference."""
        wanted = _folded(text)
        held = self.current(turn=turn, reader=reader)
        return tuple(sorted({belief.agent_name for belief in held if _folded(belief.text) == wanted}))

    def conflicts(self, *, turn: int | None = None, reader: str | None = None) -> tuple[tuple[Belief, Belief], ...]:
        """Pairs of current beliefs of two agents of which one contradicts the other; the one that says so is second.

        Two beliefs that contradict each other are one pair.
        """
        current = {belief.id: belief for belief in self.current(turn=turn, reader=reader)}
        return tuple(
            (current[other], belief)
            for belief in current.values()
            for other in dict.fromkeys(belief.contradicts)
            if other in current
        )

    def _all(self, reader: str | None) -> Iterator[Belief]:
        for event_id in self._reflections:
            if self._is_seen(self._events[event_id], reader):
                yield self._belief(event_id, None)

    def _belief(self, belief_id: UUID, reader: str | None) -> Belief:
        if belief_id not in self._reflections or not self._is_seen(self._events[belief_id], reader):
            raise InvalidInputError(f"{belief_id} is the id of no belief; current() lists them")
        number, reflection = self._reflections[belief_id]
        return Belief(
            id=belief_id,
            agent_name=self._events[belief_id].actor or "",
            text=reflection.belief,
            turn=self._turns[number],
            based_on=reflection.based_on,
            replaces=reflection.replaces,
            contradicts=reflection.contradicts,
        )

    def _is_seen(self, event: Event, reader: str | None) -> bool:
        return reader is None or self._visibility.sees(reader, event)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
