"""A session's items as events of the ledger: to add some, to take the last one back and to clear all are events.

What stands in a session is computed from its events, from the newest back, and no more of them are read than it takes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event
from agent_reminiscence.domain.exact_json import restore
from agent_reminiscence.exceptions import PositionConflictError, StoreError

KIND: Final = "openai_agents.session"
"""Of all events of a session, because an append is compared with the last event of its own kind.

The payload has one key: `added`, a list of items, each as `flatten` writes it; `popped`, the position of the event that
added the item, and the item's index there; or `cleared`.
"""

_PAGE: Final = 100


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

    async def add(self, items: Sequence[Sequence[Any]]) -> Event:
        """Add some items, each as `flatten` writes it, in one event; what it has no room for stands beside it."""
        return await self._append({"added": items})

    async def clear(self) -> None:
        """Take all items away that stand in the session at this moment."""
        await self._append({"cleared": True})

    async def pop(self) -> Any | None:
        """Take the last item away and return it; None if there is none.

        The event is refused if another one of the session came after those that were read. So the item is the last one
        at the moment it goes, and of several callers one gets it; the others choose again.
        """
        while True:
            newest, standing = await self.read(1)
            if not standing:
                return None
            [last] = standing
            try:
                await self._append({"popped": [last.position, last.index]}, expected_position=newest)
            except PositionConflictError:
                continue
            return last.value

    async def read(self, limit: int | None = None) -> tuple[int, list[StoredItem]]:
        """Return the position of the session's newest event, 0 if it has none, and its last items, newest first.

        Args:
            limit: At most this many; None is all.
        """
        newest = 0
        found: list[StoredItem] = []
        popped: set[tuple[int, int]] = set()
        async with aclosing(self._newest_first(limit)) as events:
            async for event in events:
                newest = newest or event.position
                match event.payload:
                    case {"cleared": True}:
                        break
                    case {"popped": [int() as position, int() as index]}:
                        popped.add((position, index))
                    case _:
                        values = items_of(event)
                        found += [
                            StoredItem(event.position, index, values[index])
                            for index in reversed(range(len(values)))
                            if (event.position, index) not in popped
                        ]
                if limit is not None and len(found) >= limit:
                    break
        return newest, found[:limit]

    async def whole(self, event: Event) -> Event:
        """An event that `add` returned, with all that it added."""
        return await self._ledger.whole(event)

    async def added_after(self, position: int) -> list[Event]:
        """The events after a position that added items, in order."""
        found = []
        async with aclosing(self._newest_first()) as events:
            async for event in events:
                if event.position <= position:
                    break
                if "added" in event.payload:
                    found.append(event)
        return found[::-1]

    async def _newest_first(self, expected: int | None = None) -> AsyncGenerator[Event]:
        """The session's events.

        Args:
            expected: How many are likely to be enough; None if all are read.
        """
        # Room for what was taken back.
        limit = _PAGE if expected is None else min(expected + 4, _PAGE)
        before: int | None = None
        while True:
            page = await self._ledger.read_conversation(
                self._external_id, self._session_id, kinds=[KIND], before=before, limit=limit
            )
            for event in page:
                yield await self._ledger.whole(event)
            if len(page) < limit:
                return
            before, limit = page[-1].position, _PAGE

    async def _append(self, payload: Mapping[str, Any], *, expected_position: int | None = None) -> Event:
        return await self._ledger.append(
            self._external_id,
            KIND,
            payload,
            conversation_id=self._session_id,
            expected_position=expected_position,
            # With a key, a COMMIT whose outcome is unknown is asked for again instead of repeated.
            idempotency_key=f"{KIND}:{uuid4()}",
        )


def items_of(event: Event) -> list[Any]:
    """The items that an event added.

    Raises:
        StoreError: Somebody else wrote an event of this kind, which is not read as one.
    """
    try:
        return [restore(parts) for parts in event.payload["added"]]
    except (KeyError, TypeError, ValueError):
        raise StoreError(
            f"event {event.position} of external_id {event.external_id!r} cannot be read as items of a session; erase"
            " it, or have nothing else write events of that kind"
        ) from None
