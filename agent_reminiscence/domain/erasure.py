"""What an erasure says of itself: before it, afterwards, and whenever it is checked. None of it holds erased text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from agent_reminiscence.config.constants import ENTITY_TYPES, RELATIONSHIP_TYPES
from agent_reminiscence.domain.audit import LedgerFault
from agent_reminiscence.domain.canonical import canonical_json, sha256
from agent_reminiscence.domain.event import RESERVED_PREFIX, Event

Scope = Literal["memory", "conversation", "text", "tenant"]

_UNSEALED = {"sha256", "graph_erased_at"}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class ErasedEvent(_Frozen):
    """An event that was emptied. Its row, its place and its digest stay, so that the chain still holds."""

    position: int
    event_id: UUID
    digest: str = Field(description="Digest of what it said, hexadecimal; without the salt nothing can be guessed.")
    remains: str = Field(description="SHA-256 of what its row still says, hexadecimal.")


class ErasureReceipt(_Frozen):
    """Proof of an erasure, and the payload of its `memory.erased` event."""

    receipt_id: UUID
    external_id: str
    scope: Scope
    requested_at: datetime
    actor: str | None
    memory_ids: tuple[UUID, ...]
    events: tuple[ErasedEvent, ...]
    faults: tuple[LedgerFault, ...] = Field(
        default=(), description="What was not as it was written before the erasure: it cannot be checked afterwards."
    )
    rows: dict[str, int] = Field(description="How many rows fewer there are, by table.")
    sha256: str = Field(description="SHA-256 over everything else in the receipt but graph_erased_at, hexadecimal.")
    graph_erased_at: datetime | None = Field(
        default=None,
        description="When Neo4j had followed; None: no Neo4j is configured, or it was away and follows later, which"
        " verify_erased says, and a memory.graph_erased event. The rest of the receipt is sealed before.",
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
    ) -> ErasureReceipt:
        """A receipt over what is given."""
        draft = cls(
            receipt_id=receipt_id,
            external_id=external_id,
            scope=scope,
            requested_at=requested_at,
            actor=actor,
            memory_ids=memory_ids,
            events=events,
            faults=faults,
            rows=rows,
            sha256="",
        )
        return draft.model_copy(update={"sha256": draft.compute_sha256()})

    def compute_sha256(self) -> str:
        """What `sha256` has to be."""
        return sha256(canonical_json(self.model_dump(mode="json", exclude=_UNSEALED)).encode()).hex()

    def as_recorded(self) -> ErasureReceipt:
        """As its event holds it, in the transaction of the erasure."""
        return self.model_copy(update={"graph_erased_at": None})

    def payload(self) -> dict[str, Any]:
        """The payload of its event."""
        return self.model_dump(mode="json", exclude={"graph_erased_at"})


class ErasureItem(_Frozen):
    """One thing that an erasure would empty: a memory with all its versions, or a single event.

    Such an event is of a user's own kind, tells of the graph, or is what a model made of another memory.
    """

    kind: str = Field(description="'memory', or the event's kind.")
    memory_id: UUID | None = Field(description="The memory, or the one that a single event is of; None for others.")
    position: int = Field(description="Of the event, or of the one that created the memory.")
    title: str | None = Field(description="The memory's title as it is now.")
    events: int


class ErasurePreview(_Frozen):
    """What an erasure would reach; nothing is changed."""

    external_id: str
    scope: Scope
    items: tuple[ErasureItem, ...]

    @property
    def events(self) -> int:
        """How many events would be emptied."""
        return sum(item.events for item in self.items)


class ErasureFinding(_Frozen):
    """Something that should not be there any more."""

    place: str = Field(description="Table and column.")
    key: str = Field(description="Which row; '' where only their number is known.")
    problem: str


class ErasureCheck(_Frozen):
    """What a scan after an erasure found."""

    receipt_id: UUID
    checked_at: datetime
    places: tuple[str, ...] = Field(
        description="Every table and column that was looked at; neo4j.… only where one is configured and answered."
    )
    findings: tuple[ErasureFinding, ...]
    graph_erased_at: datetime | None = Field(
        default=None, description="When Neo4j had followed the erasure; None: not yet, or no Neo4j is configured."
    )

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def event_says(kind: str, payload: Any, text: str) -> bool:
    """Whether `text` stands in what a caller gave to an event or what was made of it, exactly as it is spelled.

    Names of our own fields, ids and positions are no text: "content" or "120" would reach every memory.

    Args:
        payload: As JSON, its numbers as `str` in their own spelling.
    """
    return json_says(_given(payload) if kind.startswith(RESERVED_PREFIX) else payload, text)


def metadata_says(metadata: Any, text: str) -> bool:
    """The same of a memory's or a chunk's metadata."""
    return json_says(_given_metadata(metadata), text)


def json_says(value: Any, text: str) -> bool:
    """Whether `text` stands in a string or a key of a JSON value."""
    match value:
        case str():
            return text in value
        case dict():
            return any(text in key or json_says(item, text) for key, item in value.items())
        case list():
            return any(json_says(item, text) for item in value)
    return False


def _given(payload: Any) -> list[Any]:
    """Of a payload of ours, the values that are text."""
    if not isinstance(payload, dict):
        return [payload]
    given: list[Any] = []
    for fields in (payload, payload.get("changes")):
        if isinstance(fields, dict):
            given += [fields.get(name) for name in ("title", "content", "description", "summary", "why")]
            given.append(_given_metadata(fields.get("metadata")))
    for chunk in _objects(payload, "chunks"):
        given += [chunk.get("speaker"), chunk.get("metadata")]
    given += [fact.get("content") for fact in _objects(payload, "facts")]
    return given + _given_graph(payload.get("graph"))


def _given_graph(graph: Any) -> list[Any]:
    """Of what a plan says of entities and relationships, the values that are text; a type of our own list is none."""
    given: list[Any] = []
    for part, types in (("entities", ENTITY_TYPES), ("relationships", RELATIONSHIP_TYPES)):
        for entry in _objects(graph, part):
            given += [entry.get("name"), entry.get("aliases"), entry.get("description")]
            given.append(_given_metadata(entry.get("metadata")))
            given.append(None if entry.get("type") in types else entry.get("type"))
    return given


def _objects(value: Any, name: str) -> list[dict[str, Any]]:
    """The JSON objects in the list that `value` holds under a name; none where there is no such list."""
    items = value.get(name) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _given_metadata(metadata: Any) -> list[Any]:
    """Metadata without the names of the fields that make a turn, and without the place where it begins."""
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
    """SHA-256 of what the row of an emptied event still says, hexadecimal."""
    left = {
        "event_id": str(event.event_id),
        "kind": event.kind,
        "turn": event.turn,
        "occurred_at": event.occurred_at.astimezone(UTC).isoformat(),
        "source": event.source,
    }
    return sha256(canonical_json(left).encode()).hex()
