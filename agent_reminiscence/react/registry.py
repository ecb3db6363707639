"""Which users and collections have a memory, and whose is switched off, as a whole or for a conversation.

All of it stands in a stream of its own, `react-users`: a service that starts again has to find the conversations that
have ended, and the purge of a user all of the user's collections.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event
from agent_reminiscence.react.paging import all_events, events_of_conversation
from agent_reminiscence.react.scope import REGISTRY, switch_conversation, user_conversation

OPENED: Final = "react.memory.opened"
SWITCHED: Final = "react.memory.switched"
CONVERSATION_SWITCHED: Final = "react.memory.conversation.switched"


class Registry:
    """The users and collections of one memory."""

    def __init__(self, memory: AgentMem) -> None:
        self._memory = memory

    async def open(self, user: str, collection: str) -> None:
        """Note that a user has this collection, before anything is written to it. A further call only reads."""
        # Not remembered here: another process may have purged the user since.
        if collection in await self.collections(user):
            return
        pair = sha256(f"{len(user)}:{user}{collection}".encode()).hexdigest()
        await self._memory.ledger.append(
            REGISTRY,
            OPENED,
            {"user": user, "collection": collection},
            conversation_id=user_conversation(user),
            idempotency_key=f"react/opened/{pair}",
        )

    async def collections(self, user: str) -> list[str]:
        """The collections of a user, in the order in which they were first used."""
        events = await self._of(user, OPENED)
        return list(dict.fromkeys(event.payload["collection"] for event in events if event.payload["user"] == user))

    async def all(self) -> list[tuple[str, str]]:
        """All users and collections."""
        events = [event async for event in all_events(self._memory, REGISTRY, OPENED) if event.payload]
        return list(dict.fromkeys((event.payload["user"], event.payload["collection"]) for event in events))

    async def switch(self, user: str, *, enabled: bool) -> None:
        """Switch a user's memory off, or on again. What is stored stays."""
        await self._memory.ledger.append(
            REGISTRY, SWITCHED, {"user": user, "enabled": enabled}, conversation_id=user_conversation(user)
        )

    async def is_enabled(self, user: str) -> bool:
        """Whether the memory of a user is on; it is until it is switched off."""
        found = await self._memory.ledger.read_conversation(
            REGISTRY, user_conversation(user), kinds=[SWITCHED], limit=1
        )
        return not found or bool(found[0].payload["enabled"])

    async def switch_conversation(self, user: str, collection: str, conversation_id: str, *, enabled: bool) -> None:
        """Switch the memory of one conversation off, or on again. What is stored stays."""
        await self._memory.ledger.append(
            REGISTRY,
            CONVERSATION_SWITCHED,
            {"user": user, "enabled": enabled},
            conversation_id=switch_conversation(user, collection, conversation_id),
        )

    async def is_conversation_enabled(self, user: str, collection: str, conversation_id: str) -> bool:
        """Whether the memory of a conversation is on, if the user's is; it is until it is switched off."""
        found = await self._memory.ledger.read_conversation(
            REGISTRY, switch_conversation(user, collection, conversation_id), limit=1
        )
        return not found or bool(found[0].payload["enabled"])

    async def allows(self, user: str, collection: str, conversation_id: str | None) -> bool:
        """Whether the memory of a user and, if one is named, of a conversation is on."""
        if not await self.is_enabled(user):
            return False
        return conversation_id is None or await self.is_conversation_enabled(user, collection, conversation_id)

    async def switches(self, user: str) -> list[str]:
        """The conversations of the registry that say so of conversations of a user."""
        events = [event async for event in all_events(self._memory, REGISTRY, CONVERSATION_SWITCHED)]
        own = (event.conversation_id for event in events if event.payload.get("user") == user)
        return list(dict.fromkeys(one for one in own if one is not None))

    async def knows(self, user: str) -> bool:
        """Whether anything is noted about a user."""
        return bool(await self._memory.ledger.read_conversation(REGISTRY, user_conversation(user), limit=1))

    async def _of(self, user: str, kind: str) -> list[Event]:
        return [event async for event in events_of_conversation(self._memory, REGISTRY, user_conversation(user), kind)]
