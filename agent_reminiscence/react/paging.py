"""All events of a kind, read page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event

_PAGE: Final = 500


async def all_events(memory: AgentMem, external_id: str, *kinds: str, after: int = 0) -> AsyncGenerator[Event]:
    """The events of some kinds after a position, oldest first."""
    while page := await memory.ledger.read(external_id, after=after, kinds=kinds, limit=_PAGE):
        for event in page:
            yield event
        after = page[-1].position


async def events_of_conversation(
    memory: AgentMem, external_id: str, conversation_id: str, kind: str, *, after: int = 0
) -> AsyncGenerator[Event]:
    """The events of one kind in a conversation after a position, oldest first."""
    ledger = memory.ledger
    while page := await ledger.read_conversation(external_id, conversation_id, kinds=[kind], after=after, limit=_PAGE):
        for event in page:
            yield event
        after = page[-1].position
