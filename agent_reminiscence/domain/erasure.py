"""Previews, receipts and checks of erasures. None of them holds erased text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from agent_reminiscence.config.constants import ENTITY_TYPES, RELATIONSHIP_TYPES, Tier
from agent_reminiscence.domain.audit import LedgerFault
from agent_reminiscence.domain.canonical import canonical_json, sha256
from agent_reminiscence.domain.event import Event, is_user_kind
from agent_reminiscence.domain.model import FrozenModel

Scope = Literal["memory", "conversation", "text", "before", "selection", "retention", "tenant"]

_UNSEALED = {"sha256", "graph_erased_at"}
# The fields of our payloads that hold a text as such.
_TEXT_FIELDS = ("key", "title", "content", "description", "summary", "why", "name", "question", "run_id", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """When an `external_id`'s memories are over, as `Config(retention="erase")` has it.

    Attributes:
        now: The moment they are judged at.
        ttl_days: Times to live of passages that nothing touches, by tier; a tier that is not listed has none.
        is_limited: Whether there is a maximum number of passages.
    """

    now: datetime
    ttl_days: Mapping[Tier, float]
    is_limited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to erase; with nothing of it, the whole tenant.

    Attributes:
        memory_id: A memory.
        conversation: A conversation.
        text: All that ever contained it.
        before: All that was recorded before it.
        memory_versions: Memories by id, each if this is still its version.
        event_ids: Events of users' own kinds.
        over: Memories by id, each if it is over by `rules`.
        rules: See `over`.
    """

    memory_id: UUID | None = None
    conversation: str | None = None
    text: str | None = None
    before: datetime | None = None
    memory_versions: Mapping[UUID, int] = field(default_factory=dict)
    event_ids: frozenset[UUID] = frozenset()
    over: frozenset[UUID] = frozenset()
    rules: RetentionRules | None = None

    @property
    def scope(self) -> Scope:
        """What kind of erasure it is."""
        scopes: tuple[tuple[object, Scope], ...] = (
            (self.memory_id, "memory"),
            (self.conversation, "conversation"),
            (self.text, "text"),
            (self.before, "before"),
            (self.memory_versions or self.event_ids or None, "selection"),
            (self.rules, "retention"),
        )
        return next((scope for given, scope in scopes if given is not None), "tenant")


class ErasedEvent(FrozenModel):
    """An emptied event. Its row, position and digest remain, so that the chain still holds."""

    position: int
    event_id: UUID
    digest: str = Field(description="Digest of the erased content, hexadecimal; useless for guessing without the salt.")
    remains: str = Field(description="SHA-256 of what its row still holds, hexadecimal.")


class ErasureReceipt(FrozenModel):
    """Proof of an erasure, and the payload of its `memory.erased` event."""

    receipt_id: UUID
    external_id: str
    scope: Scope
    requested_at: datetime
    actor: str | None
    memory_ids: tuple[UUID, ...]
    events: tuple[ErasedEvent, ...]
    reason: str | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="Why it was erased, as the caller said; 'retention: …' names the settings that removed it.",
    )
    before: datetime | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="What was recorded before this moment was erased; only of an erasure by it.",
    )
    faults: tuple[LedgerFault, ...] = Field(
        default=(), description="Ledger faults found before the erasure; they cannot be checked afterwards."
    )
    rows: dict[str, int] = Field(description="Number of rows removed, by table.")
    sha256: str = Field(description="SHA-256 of the receipt without this field and graph_erased_at, hexadecimal.")
    graph_erased_at: datetime | None = Field(
        default=None,
        description="When the data was erased from Neo4j; set after the rest of the receipt is sealed. None: no Neo4j"
        " is configured, or it was unavailable and follows later; see verify_erased and memory.graph_erased events.",
    )

    @classmethod
    def seal(
        cls,
        *,
        receipt_id: UUID,
        external_id: str,
        scope: Scope,
        requested_at: datetime,
        actor: str | None,
        memory_ids: tuple[UUID, ...],
        events: tuple[ErasedEvent, ...],
        faults: tuple[LedgerFault, ...],
        rows: dict[str, int],
        reason: str | None = None,
        before: datetime | None = None,
    ) -> ErasureReceipt:
        """Create a sealed receipt."""
        draft = cls(
            receipt_id=receipt_id,
            external_id=external_id,
            scope=scope,
            requested_at=requested_at,
            actor=actor,
            reason=reason,
            before=before,
            memory_ids=memory_ids,
            events=events,
            faults=faults,
            rows=rows,
            sha256="",
        )
        return draft.model_copy(update={"sha256": draft.compute_sha256()})

    def compute_sha256(self) -> str:
        """The correct value of `sha256`."""
        return sha256(canonical_json(self.model_dump(mode="json", exclude=_UNSEALED)).encode()).hex()

    def as_recorded(self) -> ErasureReceipt:
        """The receipt as its event holds it, recorded in the erasure's transaction."""
        return self.model_copy(update={"graph_erased_at": None})

    def payload(self) -> dict[str, Any]:
        """The payload of its event."""
        return self.model_dump(mode="json", exclude={"graph_erased_at"})


class ErasureItem(FrozenModel):
    """One thing an erasure would empty: a memory with all its versions, or a single event.

    A single event has a user's own kind, concerns the graph, or is what a model derived from another memory.
    """

    kind: str = Field(description="'memory', or the event's kind.")
    memory_id: UUID | None = Field(description="The memory, or the memory a single event belongs to; None otherwise.")
    position: int = Field(description="Position of the event, or of the event that created the memory.")
    title: str | None = Field(description="The memory's current title.")
    events: int


class ErasurePreview(FrozenModel):
    """What an erasure would erase; nothing is changed."""

    external_id: str
    scope: Scope
    items: tuple[ErasureItem, ...]

    @property
    def events(self) -> int:
        """Number of events that would be emptied."""
        return sum(item.events for item in self.items)


class ErasureFinding(FrozenModel):
    """Something that should have been erased but is still there."""

    place: str = Field(description="Table and column.")
    key: str = Field(description="Key of the row; '' if only the number of rows is known.")
    problem: str


class ErasureCheck(FrozenModel):
    """What a scan after an erasure found."""

    receipt_id: UUID
    checked_at: datetime
    places: tuple[str, ...] = Field(
        description="Every table and column scanned; neo4j.… only if Neo4j is configured and answered."
    )
    findings: tuple[ErasureFinding, ...]
    graph_erased_at: datetime | None = Field(
        default=None, description="When the data was erased from Neo4j; None: not yet, or no Neo4j is configured."
    )

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def event_says(kind: str, payload: Any, text: str) -> bool:
    """Whether an event contains exactly `text`, in what a caller passed or what was derived from it.

    Our own field names, ids and positions do not count as text: "content" or "120" would match every memory.

    Args:
        payload: As JSON, with numbers as `str` in their own spelling.
    """
    return json_says(payload if is_user_kind(kind) else _given(payload), text)


def metadata_says(metadata: Any, text: str) -> bool:
    """Whether the metadata of a memory or chunk contains exactly `text`."""
    return json_says(_given_metadata(metadata), text)


def spelled_json(text: str) -> Any:
    """A JSON value whose numbers keep their spelling, as `str`."""
    return json.loads(text, parse_int=str, parse_float=str)


def json_says(value: Any, text: str) -> bool:
    """Whether a string or key of a JSON value contains `text`."""
    match value:
        case str():
            return text in value
        case dict():
            return any(text in key or json_says(item, text) for key, item in value.items())
        case list():
            return any(json_says(item, text) for item in value)
    return False


def _given(payload: Any) -> list[Any]:
    """The text values of one of our payloads."""
    if not isinstance(payload, dict):
        return [payload]
    given: list[Any] = []
    for fields in (payload, payload.get("changes")):
        if isinstance(fields, dict):
            given += [fields.get(name) for name in _TEXT_FIELDS]
            given.append(_given_metadata(fields.get("metadata")))
    given.append(_given_metadata({"turns": payload.get("turns")}))
    for chunk in _objects(payload, "chunks"):
        given += [chunk.get("speaker"), chunk.get("metadata")]
    # Of a divided value: whole texts and pieces of them, but not how their objects and lists are marked.
    given += [_given_part(part) for part in payload.get("parts", ())]
    given += [fact.get("content") for fact in _objects(payload, "facts")]
    return given + _given_graph(payload.get("graph"))


def _given_part(part: Any) -> Any:
    """The text of a part of a divided value."""
    if not isinstance(part, dict):
        return part
    if "run" not in part:
        return part.get("piece")
    try:
        # Numbers as they are spelled, like those of a payload that is not divided.
        run = spelled_json(part["run"])
        return [one for one in run if isinstance(one, str)]
    except (TypeError, ValueError):
        # It was altered; whatever it says now counts.
        return part["run"]


def _given_graph(graph: Any) -> list[Any]:
    """The text values of a plan's entities and relationships; types from our own lists do not count as text."""
    given: list[Any] = []
    for part, types in (("entities", ENTITY_TYPES), ("relationships", RELATIONSHIP_TYPES)):
        for entry in _objects(graph, part):
            given += [entry.get("name"), entry.get("aliases"), entry.get("description")]
            given.append(_given_metadata(entry.get("metadata")))
            given.append(None if entry.get("type") in types else entry.get("type"))
    return given


def _objects(value: Any, name: str) -> list[dict[str, Any]]:
    """The JSON objects in the list `value[name]`; empty if there is no such list."""
    items = value.get(name) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _given_metadata(metadata: Any) -> list[Any]:
    """Metadata without the field names and start positions of turns."""
    if not isinstance(metadata, dict):
        return [metadata]
    turns = metadata.get("turns")
    given: list[Any] = [{name: value for name, value in metadata.items() if name != "turns"}]
    for turn in turns if isinstance(turns, list) else [turns]:
        if isinstance(turn, dict):
            given.append(turn.get("speaker"))
            given.append({name: value for name, value in turn.items() if name not in {"start", "speaker"}})
        else:
            given.append(turn)
    return given


def remains(event: Event) -> str:
    """SHA-256 of what the row of an emptied event still holds, hexadecimal."""
    left = {
        "event_id": str(event.event_id),
        "kind": event.kind,
        "turn": event.turn,
        "occurred_at": event.occurred_at.astimezone(UTC).isoformat(),
        "source": event.source,
    }
    return sha256(canonical_json(left).encode()).hex()
