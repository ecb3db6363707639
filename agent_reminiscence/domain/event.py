"""Events of the ledger: what every one of them has, whatever its kind."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import ConfigDict

from agent_reminiscence.domain.model import StrictModel
from agent_reminiscence.domain.trust import Source

RESERVED_PREFIX = "memory."

# In the payload of a user's event: matches per redactor rule. Our own events have a field for it.
USER_REDACTIONS_KEY = "memory.redactions"

# In the payload of a user's event that was too large: where its large values are.
DIVIDED_KEY = "memory.divided"


class EventKind(StrEnum):
    """The kinds this package writes; any other kind comes from users and changes no tier."""

    CREATED = "memory.created"
    UPDATED = "memory.updated"
    APPENDED = "memory.appended"
    ARCHIVED = "memory.archived"
    UNARCHIVED = "memory.unarchived"
    CONSOLIDATED = "memory.consolidated"
    PROMOTED = "memory.promoted"
    CUT = "memory.cut"
    ENDED = "memory.ended"
    OUTDATED = "memory.outdated"
    ENTITIES_MERGED = "memory.entities_merged"
    ENTITIES_UNMERGED = "memory.entities_unmerged"
    RELATIONSHIP_ENDED = "memory.relationship_ended"
    ENTITY_STATED = "memory.entity_stated"
    RELATIONSHIP_STATED = "memory.relationship_stated"
    PROFILE_DEFINED = "memory.profile_defined"
    PROFILE_WRITTEN = "memory.profile_written"
    PROFILE_REMOVED = "memory.profile_removed"
    RECALLED = "memory.recalled"
    OUTCOME = "memory.outcome"
    GRAPH_ERASED = "memory.graph_erased"
    MODEL_ASKED = "memory.model_asked"
    REMEMBER_ASKED = "memory.remember_asked"
    REMEMBERED = "memory.remembered"
    VALUE_PART = "memory.value_part"
    ERASED = "memory.erased"


def is_user_kind(kind: str) -> bool:
    """Whether a kind is one of the users' own; the others are records of this package."""
    return not kind.startswith(RESERVED_PREFIX)


class NewEvent(StrictModel):
    """An event to append; the ledger adds position, recording time, salt and digest."""

    # As in exports. Bytes are no JSON otherwise: `model_dump_json` would take them for UTF-8 and fail.
    model_config = ConfigDict(ser_json_bytes="hex", val_json_bytes="hex")

    external_id: str
    event_id: UUID
    kind: str
    payload: dict[str, Any]
    occurred_at: datetime
    source: Source = "user"
    actor: str | None = None
    conversation_id: str | None = None
    turn: int | None = None
    idempotency_key: str | None = None
    request_hash: bytes | None = None


class Event(NewEvent):
    """An event as the ledger holds it.

    `position` counts from 1 without gaps within its `external_id`; `recorded_at` increases with it.
    `digest` is the SHA-256 of `salt` and everything the caller passed; `chain` is the SHA-256 of the previous
    event's chain and this event's digest, position and recording time. In JSON, bytes are hexadecimal.
    """

    position: int
    recorded_at: datetime
    salt: bytes | None
    digest: bytes
    chain: bytes

    @property
    def is_erased(self) -> bool:
        """Whether an erasure has emptied it. Its id, position, kind, turn, times and digest are left."""
        return self.salt is None and not self.payload

    @property
    def redactions(self) -> dict[str, int]:
        """Number of matches per redactor rule in what was to be written; empty if none matched."""
        key = USER_REDACTIONS_KEY if is_user_kind(self.kind) else "redactions"
        return dict(self.payload.get(key) or {})
