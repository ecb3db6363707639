"""Reads a ledger backwards, which it is shown in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError

WINDOW: Final = 1_000
# What is rare may stand far back; a page that has looked this far says so, and goes on when asked.
_MOST_WINDOWS: Final = 20


@dataclass(frozen=True, slots=True)
class Page:
    """Some events, newest first.

    Attributes:
        older: The next page is before this position; None: there are no older events.
        head: The ledger's last position.
    """

    events: tuple[Event, ...]
    older: int | None
    head: int


async def backwards(
    memory: AgentMem,
    tenant: str,
    *,
    before: int | None = None,
    kinds: Sequence[str] | None = None,
    actor: str | None = None,
) -> AsyncIterator[Event]:
    """Events before a position, newest first, as far back as a page may look."""
    end = await memory.ledger.head(tenant) + 1 if before is None else max(before, 1)
    for _ in range(_MOST_WINDOWS):
        if end <= 1:
            return
        start = max(end - WINDOW, 1)
        found = await memory.ledger.read(tenant, after=start - 1, kinds=kinds, actor=actor, limit=WINDOW)
        for event in reversed([one for one in found if one.position < end]):
            yield event
        end = start


async def page(
    memory: AgentMem,
    tenant: str,
    *,
    before: int | None = None,
    kinds: Sequence[str] | None = None,
    actor: str | None = None,
    limit: int = 50,
) -> Page:
    """The newest events before a position.

    Raises:
        InvalidInputError: No event is before it.
    """
    if before is not None and before < 1:
        raise InvalidInputError(f"before must be a position, from 1, not {before}")
    head = await memory.ledger.head(tenant)
    end = head + 1 if before is None else before
    events: list[Event] = []
    async for event in backwards(memory, tenant, before=end, kinds=kinds, actor=actor):
        events.append(event)
        if len(events) == limit:
            return Page(tuple(events), event.position if event.position > 1 else None, head)
    reached = end - WINDOW * _MOST_WINDOWS
    return Page(tuple(events), reached if reached > 1 else None, head)


async def everything(memory: AgentMem, tenant: str, *, after: int = 0, most: int) -> list[Event]:
    """Events in order, from a position on, at most so many."""
    events: list[Event] = []
    while len(events) < most:
        found = await memory.ledger.read(tenant, after=after, limit=min(WINDOW, most - len(events)))
        if not found:
            break
        events += found
        after = found[-1].position
    return events
