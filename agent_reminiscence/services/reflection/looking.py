"""Reads what an agent has seen since its last reflection, and what it and others believe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from pydantic import ValidationError

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.reflection import Counts, Onlooker
from agent_reminiscence.domain.belief import REFLECTED, Reflection
from agent_reminiscence.domain.event import Event
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.views.beliefs import BeliefGraph
from agent_reminiscence.views.reflection import earlier, read_reflection
from agent_reminiscence.views.visibility import Visibility, in_order

# The most events, and the most reflections of the agent and of others, that are read for one reflection.
MAX_EVENTS: Final = 300
MAX_REFLECTIONS: Final = 200


@dataclass(frozen=True, slots=True)
class Eyes:
    """An agent, and what it sees of a ledger."""

    external_id: str
    agent_name: str
    visibility: Visibility

    @property
    def onlooker(self) -> Onlooker:
        """The same for a statement."""
        return Onlooker(self.external_id, self.agent_name, tuple(sorted(self.visibility.global_kinds)))


class Outlook(NamedTuple):
    """What a reflection is made from.

    Attributes:
        base: Position of the agent's last reflection; 0 if there is none.
        events: What it has seen since, in order of position, without the beliefs in `others`; only the last ones if
            there are many.
        own: The reflections that hold the agent's current beliefs, in order of position.
        others: Those of other agents that it sees.
        known: All events that these name or are, for checking what a reflection names.
        last: The last event that it has seen.
        open_to_all: Ids of those events that everybody sees.
    """

    base: int
    events: Sequence[Event]
    own: Sequence[Event]
    others: Sequence[Event]
    known: Sequence[Event]
    last: Event
    open_to_all: AbstractSet[UUID]


class ReflectionReader:
    """Reads the ledger with an agent's eyes."""

    def __init__(self, runtime: Runtime) -> None:
        self._store = runtime.store
        self._reflections = runtime.repositories.reflections

    async def is_due(self, eyes: Eyes, threshold: int, *, is_forced: bool = False) -> bool:
        """Whether the agent has seen `threshold` events since it last reflected, or was last asked to in vain.

        The rule is that of `ReflectionTracker`, which knows nothing of models. But nothing before the last reflection
        is read, and the count stops at the threshold.

        Args:
            is_forced: Whether anything seen since is enough, also if it is less, only reflections, or what a model was
                asked about in vain.

        Raises:
            StoreError: The store is unavailable.
        """

        async def look() -> bool:
            async with self._store.transaction(eyes.external_id, read_only=True) as db:
                last, seen = await self._find_last(db, eyes, most=threshold)
                base = 0 if last is None else last.position
                if is_forced:
                    return await self._are_enough(db, eyes, seen, after=base, threshold=1)
                if not seen.events or not await self._are_enough(db, eyes, seen, after=base, threshold=threshold):
                    return False
                asked = await self._reflections.find_asked(db, eyes.onlooker, after=base, most=threshold)
                if asked is None:
                    return True
                until, since = asked
                return since.events > 0 and await self._are_enough(db, eyes, since, after=until, threshold=threshold)

        return await repeated(look, operation="look for reflections that are due", external_id=eyes.external_id)

    async def _are_enough(self, db: SqlExecutor, eyes: Eyes, seen: Counts, *, after: int, threshold: int) -> bool:
        """Whether an agent has seen so many events; others' reflections are read only if they decide it."""
        sure = seen.events + seen.own
        if sure >= threshold or sure + seen.others < threshold:
            return sure >= threshold
        others, _ = await self._read_others(db, eyes)
        return sure + sum(event.position > after for event in others) >= threshold

    async def _read_others(self, db: SqlExecutor, eyes: Eyes) -> tuple[list[Event], list[Event]]:
        """The last reflections of others, as far as the agent sees them, in order; and what decided that."""
        if REFLECTED not in eyes.visibility.global_kinds:
            return [], []
        written = await self._reflections.read_others(db, eyes.onlooker, limit=MAX_REFLECTIONS)
        heads = await self._reflections.read_grounds(db, eyes.external_id, {event.event_id for event in written})
        seen = {event.event_id for event in eyes.visibility.visible(eyes.agent_name, heads)}
        return [event for event in reversed(written) if event.event_id in seen], heads

    async def find_newer(self, db: SqlExecutor, eyes: Eyes, base: int) -> Event | None:
        """The agent's last reflection, if it is after `base`."""
        last, _ = await self._find_last(db, eyes, most=0)
        return last if last is not None and last.position > base else None

    async def read_last(self, db: SqlExecutor, eyes: Eyes, number: int) -> list[Event]:
        """The agent's last reflections, in order of position."""
        return (await self._reflections.read_own(db, eyes.onlooker, limit=number))[::-1]

    async def look(self, eyes: Eyes) -> Outlook | None:
        """What the agent has seen since its last reflection, and current beliefs; None if it has seen nothing.

        Raises:
            StoreError: The store is unavailable.
        """
        return await repeated(
            lambda: self._look(eyes), operation="read what an agent has seen", external_id=eyes.external_id
        )

    async def _look(self, eyes: Eyes) -> Outlook | None:
        async with self._store.transaction(eyes.external_id, read_only=True) as db:
            last, _ = await self._find_last(db, eyes, most=0)
            base = 0 if last is None else last.position
            seen: Sequence[Event] = await self._reflections.read_seen(db, eyes.onlooker, after=base, limit=MAX_EVENTS)
            visible, grounds = await self._read_others(db, eyes)
            seen = in_order([*seen, *(event for event in visible if event.position > base)])[-MAX_EVENTS:]
            if not seen:
                return None
            own = await self._reflections.read_own(db, eyes.onlooker, limit=MAX_REFLECTIONS)
            grounds += await self._reflections.read_grounds(db, eyes.external_id, {event.event_id for event in own})
            reflections = own + visible
            heads = await self._reflections.read_heads(db, eyes.external_id, _named(reflections))
        known = {event.event_id: event for event in (*grounds, *heads, *reflections, *seen)}
        current = BeliefGraph(known.values(), visibility=eyes.visibility).current(reader=eyes.agent_name)
        written = {event.event_id for event in reflections}
        held = [known[belief.id] for belief in current if belief.id in written]
        others = [event for event in held if event.actor != eyes.agent_name]
        shown = {event.event_id for event in others}
        return Outlook(
            base=base,
            events=[event for event in seen if event.event_id not in shown],
            own=[event for event in held if event.actor == eyes.agent_name],
            others=others,
            known=list(known.values()),
            last=seen[-1],
            open_to_all=eyes.visibility.open_to_all(known.values()),
        )

    async def are_there(self, db: SqlExecutor, external_id: str, event_ids: Collection[UUID]) -> bool:
        """Whether all of some events are there, and none is erased."""
        return await self._reflections.are_there(db, external_id, event_ids)

    async def _find_last(self, db: SqlExecutor, eyes: Eyes, *, most: int) -> tuple[Event | None, Counts]:
        """The agent's last reflection that is one, and how many events it has seen since, counted up to `most`."""
        last, seen = await self._reflections.find_last(db, eyes.onlooker, most=most)
        if last is None or await self._valid(db, eyes, [last]) is not None:
            return last, seen
        # Somebody appended it and named what the agent does not see. That may have been done often.
        while page := await self._reflections.read_own(db, eyes.onlooker, limit=MAX_REFLECTIONS, before=last.position):
            valid = await self._valid(db, eyes, page)
            if valid is not None:
                return await self._reflections.find_last(db, eyes.onlooker, most=most, before=valid.position + 1)
            last = page[-1]
        return await self._reflections.find_last(db, eyes.onlooker, most=most, before=0)

    async def _valid(self, db: SqlExecutor, eyes: Eyes, reflections: Sequence[Event]) -> Event | None:
        """The first of some reflections that names only earlier events that the agent sees."""
        named = await self._reflections.read_heads(db, eyes.external_id, _named(reflections))
        heads = {event.event_id: event for event in named}
        for event in reflections:
            if read_reflection(event, earlier(heads, event), eyes.visibility) is not None:
                return event
        return None


def _named(reflections: Sequence[Event]) -> set[UUID]:
    """The ids that reflections name."""
    named: set[UUID] = set()
    for event in reflections:
        try:
            reflection = Reflection.model_validate(event.payload)
        except ValidationError:
            continue
        named.update(reflection.based_on, reflection.contradicts)
        if reflection.replaces is not None:
            named.add(reflection.replaces)
    return named
