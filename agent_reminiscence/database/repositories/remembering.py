"""Which conversations a model is still to read, and what was said in them; read from the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.queries import load_queries
from agent_reminiscence.domain.conversation_key import ConversationKeys
from agent_reminiscence.domain.payloads import RememberAsked
from agent_reminiscence.domain.trust import Source

_SQL = load_queries("sql", "remembering")


class PendingConversation(NamedTuple):
    """A conversation with turns that a model is to read.

    Attributes:
        position: Of the event that asks for it.
        after: The turns are those after this position.
        due_in_seconds: In how many seconds it is to be read; not above 0: now.
        is_over: Whether it was to be read at once.
        failed_attempts: How often in a row the model has failed on it.
    """

    conversation_id: str
    position: int
    actor: str | None
    after: int
    due_in_seconds: float
    is_over: bool
    failed_attempts: int

    @property
    def is_due(self) -> bool:
        """Whether it is to be read now."""
        return self.due_in_seconds <= 0


class SaidEvent(NamedTuple):
    """An event that added turns to a conversation."""

    position: int
    kind: str
    source: Source
    occurred_at: datetime
    payload: Mapping[str, Any]


class RememberingRepository:
    """Reads the events about conversations that a model is to read."""

    async def find_pending(
        self, db: SqlExecutor, external_id: str, *, pause_seconds: float, conversation_id: str | None = None
    ) -> list[PendingConversation]:
        """Return the conversations with turns to be read, in the order in which they are due.

        Args:
            pause_seconds: How long nothing must be said before a conversation is due.
            conversation_id: Only this one; None is all.
        """
        params = {"external_id": external_id, "conversation_id": conversation_id, "pause_seconds": pause_seconds}
        return [_pending(row) for row in await db.fetch_all(_SQL["find_pending"], params)]

    async def find_read(self, db: SqlExecutor, external_id: str, conversation_id: str) -> int:
        """Return the position up to which a conversation was read; 0 if it never was."""
        row = await db.fetch_one(_SQL["find_read"], {"external_id": external_id, "conversation_id": conversation_id})
        return 0 if row is None else int(row["through"])

    async def find_off_record(self, db: SqlExecutor, external_id: str, conversation_id: str) -> datetime | None:
        """Return when a conversation's last read turn was said, if it was off the record; else None."""
        row = await db.fetch_one(_SQL["find_read"], {"external_id": external_id, "conversation_id": conversation_id})
        return None if row is None else row["off_record_at"]

    async def read_said(
        self, db: SqlExecutor, external_id: str, keys: ConversationKeys, *, after: int, now: datetime, limit: int
    ) -> list[SaidEvent]:
        """Return at most `limit` events that added turns after a position, in order.

        Args:
            now: Memories that have expired by then are left out, like archived ones.
        """
        params = {
            **keys.params(),
            "external_id": external_id,
            "conversation_id": keys.conversation_id,
            "after": after,
            "now": now,
            "limit": limit,
        }
        rows = await db.fetch_all(_SQL["read_said"], params)
        return [SaidEvent(**(row | {"payload": json.loads(row["payload"])})) for row in rows]


def _pending(row: dict[str, Any]) -> PendingConversation:
    asked = RememberAsked.model_validate_json(row["payload"])
    return PendingConversation(
        conversation_id=row["conversation_id"],
        position=row["position"],
        actor=row["actor"],
        after=row["position"] if asked.after is None else asked.after,
        due_in_seconds=row["due_in_seconds"],
        is_over=asked.is_over,
        failed_attempts=asked.failed_attempts,
    )
