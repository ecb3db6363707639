"""A session's items as events of the ledger: adding, taking the last one back, and clearing all are events, too.

What stands in a session is computed from its events, newest first, and no more of them is read than is needed. An event
says which session it is of by its actor, `session:<id>`, because the ledger can be read by actor; and by its
conversation, because that is what can be erased.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import StoreError
from agent_reminiscence.integrations.exact_json import restore

ITEMS_ADDED: Final = "openai_agents.items_added"
ITEM_POPPED: Final = "openai_agents.item_popped"
SESSION_CLEARED: Final = "openai_agents.session_cleared"

_KINDS: Final = (ITEMS_ADDED, ITEM_POPPED, SESSION_CLEARED)
_FIRST_WINDOW: Final = 16
_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item that stands in a session.

    Attributes:
        position: Of the event that added it.
        index: Among the items of that event.
    """

    position: int
    index: int
    value: Any


class SessionLog:
    """The events of one session."""

    def __init__(self, memory: AgentMem, external_id: str | int | UUID, session_id: str) -> None:
        self._ledger = memory.ledger
        self._external_id = external_id
        self._session_id = session_id
        self._actor = f"session:{session_id}"

    async def add(self, items: Sequence[Sequence[Any]]) -> Event:
        """Add some items, each in the parts of `flatten`, in one event."""
        return await self._append(ITEMS_ADDED, {"items": items})

    async def clear(self) -> None:
        """Take all items away that stand in the session at this moment."""
        await self._append(SESSION_CLEARED, {})

    async def pop(self) -> Any | None:
        """Take the last item away and return it; None if there is none.

        The event names the item, and the session's newest event when it was chosen. It counts only if nothing came in
        between: so the item is the last one when it goes, and of several callers one gets it. The others choose again.
        """
        while True:
            newest, standing = await self.read(1)
            if not standing:
                return None
            [last] = standing
            popped = await self._append(ITEM_POPPED, {"after": newest, "item": [last.position, last.index]})
            following = await self._ledger.read(
                self._external_id, after=newest, kinds=_KINDS, actor=self._actor, limit=1
            )
            if following and following[0].position == popped.position:
                return last.value

    async def read(self, limit: int | None = None) -> tuple[int, list[StoredItem]]:
        """Return the position of the session's newest event, 0 if it has none, and its last items, newest first.

        Args:
            limit: At most this many; None is all.
        """
        newest = 0
        found: list[StoredItem] = []
        popped: set[tuple[int, int]] = set()
        pop: Event | None = None
        async with aclosing(self._newest_first()) as events:
            async for event in events:
                newest = newest or event.position
                if pop is not None:
                    popped |= _taken(pop, event)
                pop = event if event.kind == ITEM_POPPED else None
                if event.kind == SESSION_CLEARED:
                    break
                if event.kind == ITEMS_ADDED:
                    values = items_of(event)
                    found += [
                        StoredItem(event.position, index, values[index])
                        for index in reversed(range(len(values)))
                        if (event.position, index) not in popped
                    ]
                if limit is not None and len(found) >= limit:
                    break
        return newest, found[:limit]

    async def added_after(self, position: int) -> list[Event]:
        """One page of the events that added items, in order; empty at the end."""
        return await self._ledger.read(
            self._external_id, after=position, kinds=[ITEMS_ADDED], actor=self._actor, limit=_PAGE
        )

    async def _newest_first(self) -> AsyncGenerator[Event]:
        """The session's events. Looks back through windows of the ledger, which grow while they hold few of them."""
        end = await self._ledger.head(self._external_id)
        width = _FIRST_WINDOW
        while end > 0:
            start = max(0, end - width)
            page = await self._ledger.read(
                self._external_id, after=start, kinds=_KINDS, actor=self._actor, limit=min(width, _PAGE)
            )
            if width > _PAGE and len(page) == _PAGE and page[-1].position < end:
                # There are more in the window than a page holds. A smaller one cannot hold more.
                width = _PAGE
                continue
            inside = [event for event in page if event.position <= end]
            for event in reversed(inside):
                yield event
            end = start
            is_sparse = 4 * len(inside) < min(width, _PAGE)
            width = 4 * width if is_sparse else min(4 * width, _PAGE)

    async def _append(self, kind: str, payload: Mapping[str, Any]) -> Event:
        return await self._ledger.append(
            self._external_id,
            kind,
            payload,
            actor=self._actor,
            conversation_id=self._session_id,
            # With a key, a COMMIT whose outcome is unknown is asked for again instead of repeated.
            idempotency_key=f"session-event-{uuid4()}",
        )


def _taken(pop: Event, before: Event) -> set[tuple[int, int]]:
    """The item that a pop took away, as position and index; none if the event before it is not the one it names."""
    match pop.payload:
        case {"after": before.position, "item": [int() as position, int() as index]}:
            return {(position, index)}
    return set()


def items_of(event: Event) -> list[Any]:
    """The items that an event added.

    Raises:
        StoreError: Somebody else wrote an event of this kind, which is not read as one.
    """
    try:
        return [restore(parts) for parts in event.payload["items"]]
    except (KeyError, TypeError, ValueError):
        raise StoreError(
            f"event {event.position} of external_id {event.external_id!r} cannot be read as items of a session; erase"
            " it, or have nothing else write events of that kind"
        ) from None
