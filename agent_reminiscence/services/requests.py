"""What a caller asks to be written, validated, and the hash that tells a retry from another request."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.config.constants import Source
from agent_reminiscence.domain.canonical import canonical_json, sha256
from agent_reminiscence.domain.event import NewEvent


class Unset(Enum):
    """Tells an argument that was left out from None."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What every write may say about itself."""

    external_id: str
    occurred_at: datetime | None = None
    actor: str | None = None
    conversation_id: str | None = None
    turn: int | None = None
    source: Source = "user"
    idempotency_key: str | None = None

    def hash(self) -> bytes:
        """SHA-256 of all that was asked for; the same key with another hash is no retry.

        The key itself and whose it is are left out: keys are looked up within one `external_id`, and a stream that was
        imported under another one still knows its retries.
        """
        asked = {
            name: _plain(value)
            for name, value in asdict(self).items()
            if name not in {"external_id", "idempotency_key"}
        }
        return sha256(canonical_json({"request": type(self).__name__, **asked}).encode())

    def event(self, kind: str, payload: dict[str, Any], now: datetime) -> NewEvent:
        """The event that this request becomes; without a time of its own it happens `now`."""
        return NewEvent(
            external_id=self.external_id,
            event_id=uuid7(),
            kind=kind,
            payload=payload,
            occurred_at=self.occurred_at or now,
            source=self.source,
            actor=self.actor,
            conversation_id=self.conversation_id,
            turn=self.turn,
            idempotency_key=self.idempotency_key,
            request_hash=self.hash(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest(WriteRequest):
    """A new active memory."""

    title: str
    content: str
    description: str | None
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest(WriteRequest):
    """A new version of an active memory; `changes` holds new values of title, content, description, metadata."""

    memory_id: UUID
    changes: dict[str, Any]
    expected_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRequest(WriteRequest):
    """An active memory is finished; with `end_chunks`, what it says is no longer true."""

    memory_id: UUID
    end_chunks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest(WriteRequest):
    """An event of a user's own kind."""

    kind: str
    payload: dict[str, Any]


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case UUID():
            return str(value)
    return value
