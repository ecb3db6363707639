"""Validated write requests, and the hash that distinguishes a retry from another request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel
from uuid_utils.compat import uuid7

from agent_reminiscence.domain.canonical import canonical_json, sha256
from agent_reminiscence.domain.conversation_key import ConversationKeys
from agent_reminiscence.domain.event import NewEvent
from agent_reminiscence.domain.memory import IfExists
from agent_reminiscence.domain.payloads import ProfileRefresh
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.domain.wording import kind_of


class Unset(Enum):
    """Distinguishes an omitted argument from None."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


# Fields that are not part of a request's hash while they have this value, so that older requests keep their hash.
_SINCE: Final[Mapping[str, object]] = {
    "language": None,
    "timezone": None,
    "key": None,
    "if_exists": "error",
    "expected_position": None,
    "pinned": None,
    "expires_at": None,
    "memory_ids": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What every write may say about itself.

    Attributes:
        redactions: How often each redactor rule matched in the request; None if it was not redacted yet, and then it
            cannot become an event.
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
        """SHA-256 of everything requested; the same key with another hash is not a retry.

        The key and its external_id are left out: keys are looked up within one `external_id`, and a stream imported
        under another one still recognises its retries. Texts are hashed after redaction, so the hash reveals no secret.

        Raises:
            RuntimeError: The request was not redacted.
        """
        self._require_redaction()
        # Not `asdict`, which deep-copies every value.
        asked = {
            one.name: _plain(getattr(self, one.name))
            for one in fields(self)
            if one.name not in {"external_id", "idempotency_key", "redactions"}
            # Set by few requests, and by none of earlier releases.
            and not (one.name in _SINCE and getattr(self, one.name) == _SINCE[one.name])
        }
        return sha256(canonical_json({"request": type(self).__name__, **asked}).encode())

    def event(self, kind: str, payload: dict[str, Any], now: datetime) -> NewEvent:
        """Build the event of this request; without its own time it occurs `now`.

        Raises:
            RuntimeError: The request was not redacted.
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
        """Refuse a request with caller data that may hold a secret.

        A plain request without actor, conversation and key is the package's own.
        """
        is_ours = type(self) is WriteRequest and not (self.actor or self.conversation_id or self.idempotency_key)
        if self.redactions is None and not is_ours:
            raise RuntimeError(f"{kind_of(self)} must be redacted before it is written")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest(WriteRequest):
    """A new active memory."""

    title: str
    content: str
    description: str | None
    metadata: dict[str, Any]
    language: str | None = None
    timezone: str | None = None
    key: str | None = None
    if_exists: IfExists = "error"
    pinned: bool | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest(WriteRequest):
    """A new version of an active memory.

    `changes` holds new values of title, content, description, metadata, pinned and expires_at.

    It names the memory by its id or by its key, and the other one is None.
    """

    memory_id: UUID | None = None
    key: str | None = None
    changes: dict[str, Any]
    expected_version: int | None
    language: str | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTextRequest(WriteRequest):
    """Adds a text, or turns, at the end of a memory that is named by its id or its key."""

    memory_id: UUID | None = None
    key: str | None = None
    text: str | None = None
    turns: tuple[Turn, ...] = ()
    expected_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRequest(WriteRequest):
    """Adds turns to the last memory of a conversation, or begins its next one.

    Attributes:
        keys: Those of the conversation's memories.
        title: Of memories that this begins.
        remember: Whether a model is to read the turns and remember of them, as a job.
        timezone: Of memories that this begins; None keeps that of the conversation's last memory, or uses the setting.
    """

    keys: ConversationKeys
    title: str
    turns: tuple[Turn, ...]
    remember: bool = False
    timezone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRequest(WriteRequest):
    """Archives a memory, named by its id or its key; with `end_chunks`, its content is no longer true."""

    memory_id: UUID | None = None
    key: str | None = None
    end_chunks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UnarchiveRequest(WriteRequest):
    """Takes an archived memory back. Archived memories have no key, so the id names it."""

    memory_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRequest(WriteRequest):
    """What a memory supports, named by its id or its key."""

    memory_id: UUID | None = None
    key: str | None = None
    description: str | None = None
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntityRequest(StateRequest):
    """A memory is about an entity."""

    name: str
    entity_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRelationshipRequest(StateRequest):
    """A memory says how two entities are related, each named by its id or by a name and a type."""

    from_entity: UUID | str
    relationship_type: str
    to_entity: UUID | str
    from_type: str
    to_type: str
    start_date: datetime | None
    end_date: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefineProfileRequest(WriteRequest):
    """A standing summary, new or with another question."""

    name: str
    question: str
    refresh: ProfileRefresh
    max_tokens: int
    refresh_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveProfileRequest(WriteRequest):
    """A standing summary is no longer updated."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRecallRequest(WriteRequest):
    """A search has given passages to a run."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOutcomeRequest(WriteRequest):
    """A run has ended, well or badly."""

    run_id: str
    success: bool
    note: str | None
    memory_ids: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest(WriteRequest):
    """An event of a custom kind."""

    kind: str
    payload: dict[str, Any]
    expected_position: int | None = None


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case UUID():
            return str(value)
        case BaseModel():
            return value.model_dump(mode="json")
        case tuple():
            return [_plain(item) for item in value]
        case {"expires_at": datetime() as moment}:
            # The one change that is not JSON already.
            return value | {"expires_at": moment.isoformat()}
    return value
