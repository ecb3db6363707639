"""Events: what is appended to the ledger, and the payloads of the kinds that change the tiers.

A payload holds all that its handler needs: ids, chunk spans, and what a formula, an embedder or a model
decided. A replay of the same events therefore gives the same rows, whatever the configuration is by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agent_reminiscence.config.constants import (
    FORM_VERSION,
    MAX_ENTITY_NAME_CHARACTERS,
    MAX_GRAPH_TYPE_CHARACTERS,
    Source,
    Tier,
)
from agent_reminiscence.domain.canonical import INLINE_ITEMS, beside_many

RESERVED_PREFIX = "memory."

# In the payload of a user's event: how often which rule of the redactor has matched. Ours have a field for it.
USER_REDACTIONS_KEY = "memory.redactions"


class EventKind(StrEnum):
    """The kinds that this package writes; any other kind comes from users and changes no tier."""

    CREATED = "memory.created"
    UPDATED = "memory.updated"
    ARCHIVED = "memory.archived"
    CONSOLIDATED = "memory.consolidated"
    PROMOTED = "memory.promoted"
    ENDED = "memory.ended"
    ENTITIES_MERGED = "memory.entities_merged"
    ENTITIES_UNMERGED = "memory.entities_unmerged"
    RELATIONSHIP_ENDED = "memory.relationship_ended"
    GRAPH_ERASED = "memory.graph_erased"
    MODEL_ASKED = "memory.model_asked"
    ERASED = "memory.erased"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NewEvent(_Frozen):
    """An event that is about to be appended; the ledger adds position, recording time, salt and digest."""

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

    `position` counts from 1 without gaps within its `external_id`; `recorded_at` never runs against it.
    `digest` is the SHA-256 of `salt` and all that the caller gave; `chain` that of the previous event's chain,
    this digest, position and recording time.
    """

    position: int
    recorded_at: datetime
    salt: bytes | None
    digest: bytes
    chain: bytes

    @property
    def redactions(self) -> dict[str, int]:
        """How often which rule of the redactor has matched in what was to be written; empty where none has."""
        key = "redactions" if self.kind.startswith(RESERVED_PREFIX) else USER_REDACTIONS_KEY
        return dict(self.payload.get(key) or {})


def _is_empty(value: object) -> bool:
    return not value


# Events that do not say in which language their texts are. Another default would change what they mean.
_ENGLISH = "en"

LanguageOrigin = Literal["chosen", "recognised", "default"]
"""How a memory's language came about: a call or the setting named it, its text showed it, or neither did."""
_BY_DEFAULT: LanguageOrigin = "default"


def _is_english(value: object) -> bool:
    return value == _ENGLISH


def _is_by_default(value: object) -> bool:
    return value == _BY_DEFAULT


# Left out where it is empty, so that most payloads, and all older ones, do without it.
_Redactions = Annotated[
    dict[str, int],
    Field(
        exclude_if=_is_empty,
        description="How often which rule of the redactor has matched; left out where none has.",
    ),
]


class ChunkEntry(_Frozen):
    """One chunk of a memory's text, in text order; the spans of all entries tile the text."""

    id: UUID
    start: int = Field(description="First character, counted from 0.")
    end: int = Field(description="One past the last character.")
    speaker: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict, description="What the caller's metadata says of this turn.")
    new: bool = Field(description="Whether the chunk came in with this event; otherwise it was there before.")


class MemoryCreated(_Frozen):
    """Payload of `memory.created`."""

    memory_id: UUID
    title: str
    content: str
    description: str | None
    metadata: dict[str, Any]
    language: str = Field(
        default=_ENGLISH,
        exclude_if=_is_english,
        description="In which its words are read, by ISO 639-1; left out for English.",
    )
    language_origin: LanguageOrigin = Field(
        default=_BY_DEFAULT,
        exclude_if=_is_by_default,
        description="How that came about; left out where the text shows no language and nobody named one.",
    )
    chunks: tuple[ChunkEntry, ...]
    consolidation_due: bool = Field(description="Whether this write made a consolidation due.")
    form_version: int = FORM_VERSION
    redactions: _Redactions = Field(default_factory=dict)


class MemoryUpdated(_Frozen):
    """Payload of `memory.updated`: the fields that changed, and the chunks of the text as it is now."""

    memory_id: UUID
    version: int
    changes: dict[str, Any] = Field(
        description="New values of those of title, content, description, metadata that changed."
    )
    language: str | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="In which all of the memory is read from this version on; left out where that is as before.",
    )
    language_origin: LanguageOrigin | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="How the language came about that it is read in now; left out where that is as before.",
    )
    chunks: tuple[ChunkEntry, ...]
    consolidation_due: bool
    form_version: int = FORM_VERSION
    redactions: _Redactions = Field(default_factory=dict)


async def read_payload[P: BaseModel](payload: type[P], entry: type[BaseModel], event: Event) -> P:
    """What an event says of the chunks of a text.

    Args:
        entry: What it says of each. Those of a long text are checked one by one beside the event loop: all in one call
            would hold the interpreter's lock for as long as it takes.

    Raises:
        ValidationError: The event says something else.
    """
    entries = event.payload.get("chunks")
    if not isinstance(entries, list) or len(entries) <= INLINE_ITEMS:
        return payload.model_validate(event.payload)
    return await beside_many(
        lambda: payload.model_validate(event.payload | {"chunks": [entry.model_validate(one) for one in entries]}),
        items=len(entries),
    )


async def write_payload(payload: BaseModel, entries: Sequence[BaseModel]) -> dict[str, Any]:
    """What an event says of the chunks of a text, as JSON; the other way round, and in the same way.

    Args:
        entries: Its chunks.
    """
    if len(entries) <= INLINE_ITEMS:
        return payload.model_dump(mode="json")
    return await beside_many(
        lambda: (
            payload.model_dump(mode="json", exclude={"chunks"})
            | {"chunks": [entry.model_dump(mode="json") for entry in entries]}
        ),
        items=len(entries),
    )


class MemoryArchived(_Frozen):
    """Payload of `memory.archived`: the memory is finished and leaves the active list."""

    memory_id: UUID
    version: int
    end_chunks: bool = Field(default=False, description="Whether its chunks end too, and leave the searches of now.")


class ChunkRating(_Frozen):
    """What a consolidation decided about one chunk."""

    id: UUID
    importance: float = Field(ge=0, le=1)
    confidence: float = Field(ge=0, le=1)
    estimate: float | None = Field(
        default=None, ge=0, le=1, description="How important a model holds it; None where none has read it now."
    )


class Duplicate(_Frozen):
    """A chunk that says what another one says already."""

    id: UUID
    duplicate_of: UUID


def _no_blank(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("a name or a type is not blank and holds no NUL")
    return text


_Name = Annotated[str, Field(max_length=MAX_ENTITY_NAME_CHARACTERS), AfterValidator(_no_blank)]
_GraphType = Annotated[str, Field(max_length=MAX_GRAPH_TYPE_CHARACTERS), AfterValidator(_no_blank)]


class EntityEntry(_Frozen):
    """An entity that a memory names. All that is said of it is said here: another event may be erased."""

    id: UUID
    name: _Name
    type: _GraphType
    description: str | None = None
    confidence: float = Field(ge=0, le=1)
    importance: float = Field(ge=0, le=1)
    aliases: tuple[_Name, ...] = Field(default=(), description="Other names by which this memory calls it.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    chunks: tuple[int, ...] = Field(description="Which of the plan's chunks name it, by their place, from 0.")


class RelationshipEntry(_Frozen):
    """That two entities have to do with each other, as a memory says."""

    id: UUID
    from_id: UUID = Field(description="Of an entity of the same plan.")
    to_id: UUID
    type: _GraphType
    description: str | None = None
    confidence: float = Field(ge=0, le=1)
    importance: float = Field(ge=0, le=1)
    start_date: datetime | None = Field(default=None, description="None is from when on its earliest chunk holds.")
    end_date: datetime | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    chunks: tuple[int, ...] = Field(description="Which of the plan's chunks say it, by their place, from 0.")


class GraphChanges(_Frozen):
    """What a consolidation found out about entities and relationships."""

    entities: tuple[EntityEntry, ...] = ()
    relationships: tuple[RelationshipEntry, ...] = ()


class ModelUsage(_Frozen):
    """What one model was asked for."""

    model: str = Field(description="Its name, as the provider gives it.")
    requests: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)


# Why passages end that no update has taken out of their text.
type EndReason = Literal["expired", "pruned", "contradicted", "replaced"]

type FailureReason = Literal["timeout", "limit", "unavailable", "invalid", "failed"]
# Of a call: that it was answered, that the model failed, that the store did, or that the caller gave up.
type AskOutcome = Literal["answered", "timeout", "limit", "unavailable", "invalid", "failed", "store", "cancelled"]


# Why a plan, or a part of it, was made without the model that there is: it failed, the day's tokens were used up, or
# the memory changes so fast that its writers had to wait, which they do not for a model.
type Fallback = Literal["timeout", "limit", "unavailable", "invalid", "failed", "busy"]


class ModelAsked(_Frozen):
    """Payload of `memory.model_asked`: what asking a model cost where no event of its own came of it."""

    agent: str = Field(description="Which agent asked it.")
    outcome: AskOutcome
    usage: tuple[ModelUsage, ...]
    unanswered: int = Field(
        default=0,
        ge=0,
        description="How many of the requests had no answer when the call ended; their tokens are estimated.",
    )


class FactEntry(_Frozen):
    """A statement that a model has made of some of a memory's chunks, which stand as they are beside it."""

    id: UUID
    content: str = Field(min_length=1)
    chunks: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        min_length=1, description="Which of the plan's chunks it rests on, from 0."
    )
    start: int = Field(description="First character of these chunks in the text of the version, from 0.")
    end: int = Field(description="One past the last character of these chunks.")
    importance: float = Field(ge=0, le=1)
    confidence: float = Field(ge=0, le=1)
    start_date: datetime = Field(description="From when on it is true in the world.")
    end_date: datetime | None = Field(default=None, description="Until when; None is still.")


# An event that rests on what other memories say does not outlive them.
_RestsOn = Annotated[
    tuple[UUID, ...],
    Field(description="Other memories whose text a model was shown for it; erasing one of them erases this event too."),
]


class MemoryConsolidated(_Frozen):
    """Payload of `memory.consolidated`: the whole plan; its handler moves the memory's chunks to shortterm."""

    memory_id: UUID
    version: int = Field(description="The version of the memory that was consolidated.")
    title: str
    summary: str
    chunks: tuple[ChunkRating, ...]
    duplicates: tuple[Duplicate, ...] = ()
    reinforced: tuple[ChunkRating, ...] = Field(default=(), description="Older chunks that the new ones repeat.")
    embedding_generation: int = Field(description="The generation of vectors that near-duplicates were found with.")
    graph: GraphChanges = GraphChanges()
    usage: tuple[ModelUsage, ...] = Field(default=(), description="Models that were asked; none without a model.")
    facts: tuple[FactEntry, ...] = ()
    fallback: Fallback | None = Field(
        default=None, description="Why not all was decided by the model though there is one; None where it was."
    )
    fallback_chunks: int = Field(default=0, ge=0, description="How many chunks were dealt with by rules for that.")
    rests_on: _RestsOn = ()
    form_version: int = FORM_VERSION


class Promotion(_Frozen):
    """One chunk that becomes longterm, with its validity in the world's time."""

    id: UUID
    importance: float = Field(ge=0, le=1)
    confidence: float = Field(ge=0, le=1)
    start_date: datetime
    end_date: datetime | None = None
    uses: int = Field(default=0, ge=0, description="Recalls that its importance rests on, besides what was decided.")


class MemoryPromoted(_Frozen):
    """Payload of `memory.promoted`."""

    memory_id: UUID
    threshold: float
    chunks: tuple[Promotion, ...]


class MemoryEnded(_Frozen):
    """Payload of `memory.ended`: passages of a memory leave the searches of now; its text stays as it is."""

    memory_id: UUID
    reason: EndReason
    chunks: tuple[UUID, ...]
    duplicates: tuple[Duplicate, ...] = Field(
        default=(), description="Chunks that had ended because they repeat these; they do not come back."
    )
    tier: Tier | None = Field(default=None, description="Of those that expired.")
    ttl_days: float | None = Field(default=None, description="How long they may live untouched in their tier.")
    limit: int | None = Field(default=None, description="How many live chunks there may be, where they were pruned.")
    by: tuple[UUID, ...] = Field(default=(), description="Newer chunks that contradict or replace them.")
    why: str | None = Field(default=None, description="As the model says that found it out.")
    rests_on: _RestsOn = ()


class EntitiesMerged(_Frozen):
    """Payload of `memory.entities_merged`: two entities are one. It holds no text of memories.

    Where one of them is not there, because what named it was erased, nothing happens.
    """

    survivor_id: UUID
    merged_id: UUID
    reason: Literal["alike", "asked"]
    score: float | None = Field(default=None, ge=0, le=1, description="How alike their names are.")


class EntitiesUnmerged(_Frozen):
    """Payload of `memory.entities_unmerged`: an entity stands for itself again, with what was merged into it."""

    entity_id: UUID


class RelationshipEnded(_Frozen):
    """Payload of `memory.relationship_ended`: it is not true any more."""

    relationship_id: UUID
    end_date: datetime
    why: str | None = Field(default=None, description="As the model says that found it out; None where it was asked.")
    rests_on: _RestsOn = ()


class GraphErased(_Frozen):
    """Payload of `memory.graph_erased`: an erasure has reached the store of graphs that follows the ledger."""

    receipt_id: UUID
    store: str = Field(description="Which store it is, by the id that it gave itself.")
    erased_at: datetime


PAYLOADS: Mapping[str, type[BaseModel]] = {
    EventKind.CREATED: MemoryCreated,
    EventKind.UPDATED: MemoryUpdated,
    EventKind.ARCHIVED: MemoryArchived,
    EventKind.CONSOLIDATED: MemoryConsolidated,
    EventKind.PROMOTED: MemoryPromoted,
    EventKind.ENDED: MemoryEnded,
    EventKind.ENTITIES_MERGED: EntitiesMerged,
    EventKind.ENTITIES_UNMERGED: EntitiesUnmerged,
    EventKind.RELATIONSHIP_ENDED: RelationshipEnded,
    EventKind.GRAPH_ERASED: GraphErased,
    EventKind.MODEL_ASKED: ModelAsked,
}
