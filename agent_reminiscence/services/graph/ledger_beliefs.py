"""Beliefs as users ask for them: read from the store of the graph, and judged by the rules of the view."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from agent_reminiscence.database.repositories.graph.store import GraphStore
from agent_reminiscence.domain.belief import Belief, StatedBelief
from agent_reminiscence.domain.canonical import beside_many
from agent_reminiscence.domain.event import Event
from agent_reminiscence.resilience.retries import repeated
from agent_reminiscence.services import validation
from agent_reminiscence.services.runtime import Runtime
from agent_reminiscence.views.beliefs import Beliefs
from agent_reminiscence.views.visibility import Visibility

_LAST_TURN: Final = 2**31 - 1


class LedgerBeliefs:
    """`memory.admin.beliefs`: what the agents of a ledger believe, since when, on what evidence, and who disagrees.

    Answers what `views.BeliefGraph` answers for the same events, without reading them: beliefs stand in the graph. A
    query reads the reflections of the ledger, however many other events it has; from Neo4j if it is configured, which
    may be a moment behind.

    With a `reader`, answers hold what that agent sees; without one everything, as for the owner of the ledger. If a
    ledger has other global kinds than usual, pass its `visibility`, as to its views.
    """

    def __init__(self, runtime: Runtime, graph: GraphStore) -> None:
        self._store = runtime.store
        self._ledger = runtime.repositories.events
        self._reflections = runtime.repositories.reflections
        self._graph = graph

    async def current(
        self,
        external_id: str | int | UUID,
        agent_name: str | None = None,
        *,
        turn: int | None = None,
        reader: str | None = None,
        visibility: Visibility | None = None,
    ) -> tuple[Belief, ...]:
        """Beliefs that were not replaced, in order of position.

        Args:
            agent_name: Only this agent's; None is everybody's.
            turn: As they were at the end of this turn, from 0; None is now.
            reader: Only what this agent sees; None is everything.
            visibility: Which kinds of events everybody sees in this ledger; None is the usual ones.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        agent, when, who = validation.optional_identifier("agent_name", agent_name), _turn(turn), _reader(reader)
        return await self._ask(tenant, visibility, who, lambda all_: all_.current(agent, turn=when, reader=who))

    async def history(
        self,
        external_id: str | int | UUID,
        belief_id: UUID | str,
        *,
        reader: str | None = None,
        visibility: Visibility | None = None,
    ) -> tuple[Belief, ...]:
        """A belief and those that it replaced, one after the other, oldest first.

        Args:
            belief_id: Of its reflection.
            reader: As in `current`, like `visibility`.

        Raises:
            InvalidInputError: An argument is refused, there is no such belief, or the reader does not see it.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        wanted, who = validation.belief_id(belief_id), _reader(reader)
        return await self._ask(tenant, visibility, who, lambda all_: all_.history(wanted, reader=who))

    async def evidence(
        self,
        external_id: str | int | UUID,
        belief_id: UUID | str,
        *,
        reader: str | None = None,
        visibility: Visibility | None = None,
    ) -> tuple[Event, ...]:
        """The events that a belief rests on, in order of position; of them those that the reader sees.

        The events are read from PostgreSQL. An erased event is returned without its content.

        Args:
            belief_id: Of its reflection.
            reader: As in `current`, like `visibility`.

        Raises:
            InvalidInputError: An argument is refused, there is no such belief, or the reader does not see it.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        wanted, who = validation.belief_id(belief_id), _reader(reader)
        belief, seen = await self._ask(
            tenant,
            visibility,
            who,
            lambda all_: (all_.find(wanted, reader=who), None if who is None else all_.seen_by(who)),
        )
        evidence = await self._read(tenant, set(belief.based_on))
        return tuple(event for event in evidence if seen is None or event.event_id in seen)

    async def holders(
        self,
        external_id: str | int | UUID,
        text: str,
        *,
        turn: int | None = None,
        reader: str | None = None,
        visibility: Visibility | None = None,
    ) -> tuple[str, ...]:
        """The agents that hold a belief in these words, in alphabetical order; case and spaces make no difference.

        Args:
            turn: As in `current`, like the arguments not described here.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is unavailable.
        """
        tenant, words = validation.external_id(external_id), validation.query(text, "text")
        when, who = _turn(turn), _reader(reader)
        return await self._ask(tenant, visibility, who, lambda all_: all_.holders(words, turn=when, reader=who))

    async def conflicts(
        self,
        external_id: str | int | UUID,
        *,
        turn: int | None = None,
        reader: str | None = None,
        visibility: Visibility | None = None,
    ) -> tuple[tuple[Belief, Belief], ...]:
        """Pairs of current beliefs of two agents of which one contradicts the other; the one that says so is second.

        Args:
            turn: As in `current`, like the arguments not described here.

        Raises:
            InvalidInputError: An argument is refused.
            StoreError: The store is unavailable.
        """
        tenant = validation.external_id(external_id)
        when, who = _turn(turn), _reader(reader)
        return await self._ask(tenant, visibility, who, lambda all_: all_.conflicts(turn=when, reader=who))

    async def _ask[T](
        self, external_id: str, visibility: Visibility | None, reader: str | None, ask: Callable[[Beliefs], T]
    ) -> T:
        """The answer of everything that is believed in a ledger, of which a reader sees a part."""
        sees = visibility or Visibility()

        async def read() -> T:
            stated = await self._graph.read_beliefs(external_id)
            heads = [] if reader is None else await self._read_grounds(external_id, stated)

            def answer() -> T:
                seen = frozenset() if reader is None else frozenset(one.event_id for one in sees.visible(reader, heads))
                return ask(Beliefs.among(stated, sees, lambda _: seen))

            return await beside_many(answer, items=len(stated))

        return await repeated(read, operation="read_beliefs", external_id=external_id)

    async def _read_grounds(self, external_id: str, stated: Sequence[StatedBelief]) -> list[Event]:
        """What decides who sees some beliefs; from the ledger, which knows what each rests on."""
        async with self._store.transaction(external_id, read_only=True) as db:
            return await self._reflections.read_grounds(db, external_id, {one.id for one in stated})

    async def _read(self, external_id: str, event_ids: Collection[UUID]) -> list[Event]:
        async def read() -> list[Event]:
            async with self._store.transaction(external_id, read_only=True) as db:
                return await self._ledger.read_named(db, external_id, event_ids)

        return await repeated(read, operation="read_events", external_id=external_id)


def _reader(value: object) -> str | None:
    return validation.optional_identifier("reader", value)


def _turn(value: object) -> int | None:
    return None if value is None else validation.whole_number("turn", value, minimum=0, maximum=_LAST_TURN)
