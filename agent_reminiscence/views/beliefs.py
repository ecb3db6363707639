"""Who believes what, since when, on what evidence, and who contradicts whom: a graph of all agents' reflections.

Nothing is guessed: a belief is replaced or contradicted only by a reflection that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from agent_reminiscence.domain.belief import REFLECTED, Belief, Reflection, StatedBelief
from agent_reminiscence.domain.event import Event, is_user_kind
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.views.reflection import counts_as_belief, earlier, read_reflection
from agent_reminiscence.views.visibility import EventStream, Sight, Turns, Visibility, emptied, in_order
from agent_reminiscence.views.wording import format_events


class BeliefGraph:
    """The beliefs in a ledger.

    It is fed the whole ledger, so that it can check that every author sees what its beliefs rest on. A query with a
    `reader` answers with what that agent sees; without one with everything, as for the owner of the ledger. Where a
    reader does not see that a belief was replaced, it is current for that reader.

    It keeps all events but the package's own records: any may become evidence.
    """

    def __init__(self, events: Iterable[Event] = (), *, visibility: Visibility | None = None) -> None:
        self._visibility = visibility or Visibility()
        self._stream = EventStream()
        self._events: dict[UUID, Event] = {}
        # By reader: what it sees, as far as somebody has asked for it.
        self._sights: dict[str, Sight] = {}
        self._beliefs = Beliefs(self._seen_by)
        self.observe(events)

    def observe(self, events: Iterable[Event]) -> None:
        """Take in new events, and drop erased ones; others up to the last position seen are passed over.

        Raises:
            InvalidInputError: The events come from more than one `external_id`.
        """
        news = self._stream.observe(events)
        new = [event for event in news.events if is_user_kind(event.kind)]
        self._events.update((event.event_id, event) for event in (*new, *news.emptied))
        for sight in self._sights.values():
            sight.drop(news.erased)
            for event in new:
                sight.add(event)
        if not news.erased:
            self._read(new)
            return
        for event_id in news.erased & self._events.keys():
            self._events[event_id] = emptied(self._events[event_id])
        self._beliefs = Beliefs(self._seen_by)
        written = (event for event in self._events.values() if event.kind == REFLECTED and not event.is_erased)
        self._read(in_order(written))

    def _seen_by(self, reader: str) -> Container[UUID]:
        if reader not in self._sights:
            sight = self._sights[reader] = Sight(reader, self._visibility)
            for event in in_order(self._events.values()):
                sight.add(event)
        return self._sights[reader]

    def _read(self, events: Iterable[Event]) -> None:
        """Add the beliefs that events hold."""
        for event in events:
            reflection = read_reflection(event, earlier(self._events, event), self._visibility)
            if reflection is not None:
                self._beliefs.add(event.event_id, event.actor or "", event.turn, reflection)

    def current(
        self, agent_name: str | None = None, *, turn: int | None = None, reader: str | None = None
    ) -> tuple[Belief, ...]:
        """Beliefs that were not replaced, in order of position.

        Args:
            agent_name: Only this agent's; None is everybody's.
            turn: As they were at the end of this turn; None is now.
        """
        return self._beliefs.current(agent_name, turn=turn, reader=reader)

    def history(self, belief_id: UUID, *, reader: str | None = None) -> tuple[Belief, ...]:
        """A belief and those that it replaced, one after the other, oldest first.

        Raises:
            InvalidInputError: There is no such belief, or the reader does not see it.
        """
        return self._beliefs.history(belief_id, reader=reader)

    def evidence(self, belief_id: UUID, *, reader: str | None = None) -> tuple[Event, ...]:
        """The events that a belief rests on, in order of position; of them those that the reader sees.

        Raises:
            InvalidInputError: There is no such belief, or the reader does not see it.
        """
        belief = self._beliefs.find(belief_id, reader=reader)
        return self._beliefs.shown((self._events[event_id] for event_id in set(belief.based_on)), reader=reader)

    def holders(self, text: str, *, turn: int | None = None, reader: str | None = None) -> tuple[str, ...]:
        """The agents that hold a belief in these words, in alphabetical order; case and spaces make no difference."""
        return self._beliefs.holders(text, turn=turn, reader=reader)

    def conflicts(self, *, turn: int | None = None, reader: str | None = None) -> tuple[tuple[Belief, Belief], ...]:
        """Pairs of current beliefs of two agents of which one contradicts the other; the one that says so is second.

        Two beliefs that contradict each other are one pair.
        """
        return self._beliefs.conflicts(turn=turn, reader=reader)

    def format_for_prompt(self, reader: str | None = None) -> str:
        """The current beliefs of all agents that the reader sees, quoted as data; '' if there are none."""
        return format_events([self._events[belief.id] for belief in self.current(reader=reader)])


@dataclass(frozen=True, slots=True)
class _Held:
    agent_name: str
    reflection: Reflection
    # How many beliefs there were before it.
    number: int


class Beliefs:
    """All beliefs of a ledger, and what is asked of them; in memory, wherever they were read from.

    The queries are those of `BeliefGraph`.

    Args:
        seen_by: Gives what a reader sees of the ledger, of events that are beliefs or that these name.
    """

    def __init__(self, seen_by: Callable[[str], Container[UUID]]) -> None:
        self.seen_by = seen_by
        self._held: dict[UUID, _Held] = {}
        self._turns = Turns()

    @classmethod
    def among(
        cls, stated: Iterable[StatedBelief], visibility: Visibility, seen_by: Callable[[str], Container[UUID]]
    ) -> Beliefs:
        """Those of a ledger's reflections that count, given in order of position."""
        beliefs = cls(seen_by)
        for one in stated:
            known = {named.id: named for named in one.named if named.position is not None}
            if counts_as_belief(one.reflection, one.actor, known.get, visibility):
                beliefs.add(one.id, one.actor, one.turn, one.reflection)
        return beliefs

    def add(self, belief_id: UUID, agent_name: str, turn: int | None, reflection: Reflection) -> None:
        """Add the next belief.

        Args:
            turn: Of its event; None if that has none.
        """
        self._held[belief_id] = _Held(agent_name, reflection, len(self._held))
        self._turns.add(turn)

    def find(self, belief_id: UUID, *, reader: str | None = None) -> Belief:
        """A belief by its id.

        Raises:
            InvalidInputError: There is no such belief, or the reader does not see it.
        """
        if not self._has(belief_id, reader):
            raise InvalidInputError(f"no belief has the id {belief_id}; current() lists the valid ones")
        return self._belief(belief_id, self._held[belief_id])

    def current(
        self, agent_name: str | None = None, *, turn: int | None = None, reader: str | None = None
    ) -> tuple[Belief, ...]:
        """Beliefs that were not replaced, in order of position."""
        then = [belief for belief in self._all(reader) if turn is None or belief.turn <= turn]
        replaced = {belief.replaces for belief in then}
        return tuple(belief for belief in then if belief.id not in replaced and agent_name in (None, belief.agent_name))

    def history(self, belief_id: UUID, *, reader: str | None = None) -> tuple[Belief, ...]:
        """A belief and those that it replaced, oldest first."""
        line = [self.find(belief_id, reader=reader)]
        while (replaced := line[-1].replaces) is not None and self._has(replaced, reader):
            line.append(self.find(replaced, reader=reader))
        return tuple(reversed(line))

    def holders(self, text: str, *, turn: int | None = None, reader: str | None = None) -> tuple[str, ...]:
        """The agents that hold a belief in these words."""
        wanted = _folded(text)
        held = self.current(turn=turn, reader=reader)
        return tuple(sorted({belief.agent_name for belief in held if _folded(belief.text) == wanted}))

    def conflicts(self, *, turn: int | None = None, reader: str | None = None) -> tuple[tuple[Belief, Belief], ...]:
        """Pairs of current beliefs of which the second contradicts the first."""
        current = {belief.id: belief for belief in self.current(turn=turn, reader=reader)}
        return tuple(
            (current[other], belief)
            for belief in current.values()
            for other in dict.fromkeys(belief.contradicts)
            if other in current
        )

    def shown(self, events: Iterable[Event], *, reader: str | None = None) -> tuple[Event, ...]:
        """Those of some events that the reader sees, in order of position."""
        seen = None if reader is None else self.seen_by(reader)
        return in_order(event for event in events if seen is None or event.event_id in seen)

    def _all(self, reader: str | None) -> Iterator[Belief]:
        for belief_id, held in self._held.items():
            if self._has(belief_id, reader):
                yield self._belief(belief_id, held)

    def _belief(self, belief_id: UUID, held: _Held) -> Belief:
        return Belief(
            id=belief_id,
            agent_name=held.agent_name,
            text=held.reflection.belief,
            turn=self._turns[held.number],
            based_on=held.reflection.based_on,
            replaces=held.reflection.replaces,
            contradicts=held.reflection.contradicts,
        )

    def _has(self, belief_id: UUID, reader: str | None) -> bool:
        """Whether there is such a belief, and the reader sees it."""
        return belief_id in self._held and (reader is None or belief_id in self.seen_by(reader))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
