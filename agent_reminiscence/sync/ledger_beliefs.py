# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.services.graph.ledger_beliefs.LedgerBeliefs`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from agent_reminiscence.domain.belief import Belief
from agent_reminiscence.domain.event import Event
from agent_reminiscence.sync.lifecycle import Twin
from agent_reminiscence.views.visibility import Visibility

if TYPE_CHECKING:
    from agent_reminiscence.services.graph.ledger_beliefs import LedgerBeliefs as AsyncLedgerBeliefs


class LedgerBeliefs(Twin):
    """`memory.admin.beliefs`: what the agents of a ledger believe, since when, on what evidence, and who disagrees.

    Answers what `views.BeliefGraph` answers for the same events, without reading them: beliefs stand in the graph. A
    query reads the reflections of the ledger, however many other events it has; from Neo4j if it is configured, which
    may be a moment behind.

    With a `reader`, answers hold what that agent sees; without one everything, as for the owner of the ledger. If a
    ledger has other global kinds than usual, pass its `visibility`, as to its views.
    """

    _wrapped: AsyncLedgerBeliefs

    def current(
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
        return self._thread.call(
            lambda: self._wrapped.current(external_id, agent_name, turn=turn, reader=reader, visibility=visibility)
        )

    def history(
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
        return self._thread.call(
            lambda: self._wrapped.history(external_id, belief_id, reader=reader, visibility=visibility)
        )

    def evidence(
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
        return self._thread.call(
            lambda: self._wrapped.evidence(external_id, belief_id, reader=reader, visibility=visibility)
        )

    def holders(
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
        return self._thread.call(
            lambda: self._wrapped.holders(external_id, text, turn=turn, reader=reader, visibility=visibility)
        )

    def conflicts(
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
        return self._thread.call(
            lambda: self._wrapped.conflicts(external_id, turn=turn, reader=reader, visibility=visibility)
        )
