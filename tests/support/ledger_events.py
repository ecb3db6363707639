"""Events as a ledger would hold them, for views that need no ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from agent_reminiscence.domain.event import Event

START = datetime(2026, 3, 5, 9, tzinfo=UTC)
AGENTS = ("mara", "odo", "ilse")
WORDS = ("mill", "river", "bread", "wolf", "lantern", "bridge", "key", "storm")
KINDS = (
    "agent.spoke",
    "agent.thought",
    "agent.reflected",
    "world.observed",
    "judge.verdict",
    "verdict.final",
    "user.injected",
    "run.started",
    "clue.found",
    "dice.rolled",
)


def make_event(
    position: int,
    text: str | dict[str, Any] = "",
    *,
    actor: str | None = "mara",
    kind: str = "agent.spoke",
    turn: int | None = None,
    external_id: str = "village",
) -> Event:
    """An event whose id follows from its position."""
    return Event(
        external_id=external_id,
        event_id=event_id(position),
        kind=kind,
        payload={"text": text} if isinstance(text, str) else text,
        occurred_at=START + timedelta(minutes=position),
        actor=actor,
        turn=turn,
        position=position,
        recorded_at=START + timedelta(minutes=position),
        salt=None,
        digest=b"",
        chain=b"",
    )


def event_id(position: int) -> UUID:
    """The id of the event at `position`."""
    return UUID(int=position)


def positions(events: Iterable[Event]) -> list[int]:
    """Where they stand in their ledger."""
    return [event.position for event in events]


@st.composite
def ledgers(draw: st.DrawFn, most: int = 40) -> list[Event]:
    """A short ledger of a few agents, with turns or without or with some, and a small vocabulary."""
    sentence = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
    rows = draw(
        st.lists(
            st.tuples(
                sentence,
                st.sampled_from((*AGENTS, None)),
                st.sampled_from(KINDS),
                st.none() | st.integers(0, 50),
            ),
            max_size=most,
        )
    )
    return [
        make_event(position, text, actor=actor, kind=kind, turn=turn)
        for position, (text, actor, kind, turn) in enumerate(rows, start=1)
    ]


@dataclass
class LyingIndex:
    """Returns whatever it likes, as often as it likes, whatever it was given."""

    lies: Sequence[Event]
    given: list[Event] = field(default_factory=list)

    def index(self, events: tuple[Event, ...]) -> None:
        self.given += events

    def search(self, query: str, k: int) -> list[Event]:
        repeated = [*self.lies] * (k // max(len(self.lies), 1) + 1)
        return repeated[:k]


@dataclass
class RemoteIndex:
    """An index at the other end of a wire: asynchronous, and a write is searchable only after some requests.

    Args:
        pending: How many searches a write takes to arrive.
    """

    inner: Any
    pending: int = 0
    _waiting: list[tuple[int, tuple[Event, ...]]] = field(default_factory=list)
    _searches: int = 0

    async def index(self, events: tuple[Event, ...]) -> None:
        await asyncio.sleep(0)
        self._waiting.append((self._searches + self.pending, events))

    async def search(self, query: str, k: int) -> list[Event]:
        await asyncio.sleep(0)
        due = [events for when, events in self._waiting if when <= self._searches]
        self._waiting = [one for one in self._waiting if one[0] > self._searches]
        for events in due:
            self.inner.index(events)
        self._searches += 1
        found: list[Event] = self.inner.search(query, k)
        return found
