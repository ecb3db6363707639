"""What a caller asks to be written, validated, and the hash that tells a retry from another request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
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
    """What every write may say about itself.

    Attributes:
        redactions: How often which rule of the redactor has matched in what was asked for; None where no redactor has
            looked at it yet, and then it becomes no event.
    """

    external_id: str
    occurred_at: datetime | None = None
    actor: str | None = None
    conversation_id: str | None = None
    turn: int | None = None
    source: Source = "user"
    idempotency_key: str | None = None
    redactions: Mapping[str, int] | None = None

    def hash(self) -> bytes:
        """SHA-256 of all that was asked for; the same key with another hash is no retry.

        The key itself and whose it is are left out: keys are looked up within one `external_id`, and a stream that was
        imported under another one still knows its retries. It is of the redacted texts, so it gives no secret away.

        Raises:
            RuntimeError: No redactor has looked at it.
        """
        self._require_redaction()
        # Not `asdict`, which copies every value at any depth.
        asked = {
            one.name: _plain(getattr(self, one.name))
            for one in fields(self)
            if one.name not in {"external_id", "idempotency_key", "redactions"}
            # Named by few, and by none of the requests that earlier releases have written.
            and not (one.name == "language" and getattr(self, one.name) is None)
        }
        return sha256(canonical_json({"request": type(self).__name__, **asked}).encode())

    def event(self, kind: str, payload: dict[str, Any], now: datetime) -> NewEvent:
        """The event that this request becomes; without a time of its own it happens `now`.

        Raises:
            RuntimeError: No redactor has looked at it.
        """
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

    def _require_redaction(self) -> None:
        """Refuse what carries something of a caller's that may be a secret.

        A plain request that names neither actor nor conversation nor key is the package's own.
        """
        is_ours = type(self) is WriteRequest and not (self.actor or self.conversation_id or self.idempotency_key)
        if self.redactions is None and not is_ours:
            raise RuntimeError(f"a {type(self).__name__} was to be written before a redactor has looked at it")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest(WriteRequest):
    """A new active memory."""

    title: str
    content: str
    description: str | None
    metadata: dict[str, Any]
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest(WriteRequest):
    """A new version of an active memory; `changes` holds new values of title, content, description, metadata."""

    memory_id: UUID
    changes: dict[str, Any]
    expected_version: int | None
    language: str | None = None


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
