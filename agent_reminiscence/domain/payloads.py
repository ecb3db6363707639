"""The payloads of this package's own kinds of events.

A payload holds everything its handler needs: ids, chunk spans, and what a formula, an embedder or a model
decided. So a replay of the same events gives the same rows, whatever the configuration is by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, model_validator

from agent_reminiscence.config.constants import (
    FORM_VERSION,
    MAX_ENTITY_NAME_CHARACTERS,
    MAX_GRAPH_TYPE_CHARACTERS,
    Tier,
)
from agent_reminiscence.config.timezones import UTC_NAME
from agent_reminiscence.domain.canonical import INLINE_ITEMS, beside_many
from agent_reminiscence.domain.event import Event, EventKind
from agent_reminiscence.domain.model import StrictModel
from agent_reminiscence.domain.said import SaidFrom, check_said
from agent_reminiscence.domain.trust import Source


def _is_empty(value: object) -> bool:
    return not value


def _is_none(value: object) -> bool:
    return value is None


# Events that do not name a language are English. Another default would change their meaning.
_ENGLISH = "en"

LanguageOrigin = Literal["chosen", "recognised", "default"]
"""How a memory's language was determined: named by a call or the setting, detected in its text, or neither."""
_BY_DEFAULT: LanguageOrigin = "default"


def _is_utc(value: object) -> bool:
    return value == UTC_NAME


def _is_english(value: object) -> bool:
    return value == _ENGLISH


def _is_by_default(value: object) -> bool:
    return value == _BY_DEFAULT


# Omitted if empty, so that most payloads, and all older ones, do without it.
_Redactions = Annotated[
    dict[str, int],
    Field(
        exclude_if=_is_empty,
        description="Number of matches per redactor rule; omitted if none matched.",
    ),
]


class ChunkEntry(StrictModel):
    """One chunk of a memory's text. Entries are in text order, and their spans tile the text."""

    id: UUID
    start: int = Field(description="First character, counted from 0.")
    end: int = Field(description="One past the last character.")
    speaker: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict, description="The caller's metadata for this turn.")
    new: bool = Field(description="Whether this event added the chunk; otherwise it existed before.")
    start_date: datetime | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="When it was said, and from when it holds; omitted if when the event occurred.",
    )
    said_at: AwareDatetime | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="When most of its words were first said, if an update has changed only the others; omitted if when"
        " it begins to hold.",
    )
    said_lines: Annotated[tuple[SaidFrom, ...], AfterValidator(check_said)] = Field(
        default=(), exclude_if=_is_empty, description="When each of its lines was; omitted if all have one date."
    )
    source: Source | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="For a new chunk with another label than the event: whose words it holds. Otherwise omitted.",
    )

    def first_said(self, occurred_at: datetime) -> datetime:
        """When most of its words were first said, in an event that occurred then."""
        return self.said_at or self.start_date or occurred_at


class MemoryCreated(StrictModel):
    """Payload of `memory.created`."""

    memory_id: UUID
    key: str | None = Field(
        default=None, exclude_if=_is_empty, description="The caller's own name for the memory; omitted if it has none."
    )
    title: str
    content: str
    description: str | None
    metadata: dict[str, Any]
    language: str = Field(
        default=_ENGLISH,
        exclude_if=_is_english,
        description="Language of the memory as ISO 639-1; omitted for English.",
    )
    language_origin: LanguageOrigin = Field(
        default=_BY_DEFAULT,
        exclude_if=_is_by_default,
        description="How the language was determined; omitted if it was neither named nor detected.",
    )
    timezone: str = Field(
        default=UTC_NAME,
        exclude_if=_is_utc,
        description="Time zone in which its words are understood, as an IANA name; omitted for UTC.",
    )
    pinned: bool = Field(
        default=False, exclude_if=_is_empty, description="Whether it is shown whatever is asked; omitted if not."
    )
    expires_at: datetime | None = Field(
        default=None, exclude_if=_is_empty, description="From when on nothing finds it; omitted if it does not expire."
    )
    chunks: tuple[ChunkEntry, ...]
    consolidation_due: bool = Field(description="Whether this write made a consolidation due.")
    completes: UUID | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="The conversation's memory before this one: it takes no more turns, so the rest of it is due for"
        " consolidation. Omitted if there is none.",
    )
    form_version: int = FORM_VERSION
    redactions: _Redactions = Field(default_factory=dict)


class MemoryUpdated(StrictModel):
    """Payload of `memory.updated`: the fields that changed, and the chunks of the text as it is now."""

    memory_id: UUID
    version: int
    changes: dict[str, Any] = Field(
        description="New values of the changed fields among title, content, description, metadata, pinned and"
        " expires_at."
    )
    language: str | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="Language of the whole memory from this version on; omitted if unchanged.",
    )
    language_origin: LanguageOrigin | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="How that language was determined; omitted if unchanged.",
    )
    timezone: str | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="Time zone of the whole memory from this version on; omitted if unchanged.",
    )
    chunks: tuple[ChunkEntry, ...]
    consolidation_due: bool
    form_version: int = FORM_VERSION
    redactions: _Redactions = Field(default_factory=dict)


class MemoryAppended(StrictModel):
    """Payload of `memory.appended`: what was added at the end of a memory's text, and nothing of what stood there."""

    memory_id: UUID
    version: int
    start: int = Field(ge=0, description="How many characters the text had before.")
    content: str = Field(description="What follows them, from the white space between old and new on.")
    turns: tuple[dict[str, Any], ...] = Field(
        default=(),
        exclude_if=_is_empty,
        description="New entries of the metadata's `turns`; omitted if there are none.",
    )
    language: str | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="Language of the whole memory from this version on; omitted if unchanged.",
    )
    language_origin: LanguageOrigin | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="How that language was determined; omitted if unchanged.",
    )
    chunks: tuple[ChunkEntry, ...] = Field(
        description="The new chunks, which tile what was added but that white space."
    )
    consolidation_due: bool
    form_version: int = FORM_VERSION
    redactions: _Redactions = Field(default_factory=dict)


async def read_payload[P: BaseModel](payload: type[P], entry: type[BaseModel], event: Event) -> P:
    """Read the payload of an event that lists the chunks of a text.

    Args:
        entry: The model of each chunk. For long texts, chunks are validated one by one in a thread; a single call
            would hold the GIL throughout.

    Raises:
        ValidationError: The event's payload does not fit the model.
    """
    entries = event.payload.get("chunks")
    if not isinstance(entries, list) or len(entries) <= INLINE_ITEMS:
        return payload.model_validate(event.payload)
    return await beside_many(
        lambda: payload.model_validate(event.payload | {"chunks": [entry.model_validate(one) for one in entries]}),
        items=len(entries),
    )


async def write_payload(payload: BaseModel, entries: Sequence[BaseModel]) -> dict[str, Any]:
    """Render as JSON a payload that lists the chunks of a text; the inverse of `read_payload`.

    Args:
        entries: The payload's chunks.
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


class MemoryArchived(StrictModel):
    """Payload of `memory.archived`: the memory leaves the active list."""

    memory_id: UUID
    version: int
    end_chunks: bool = Field(default=False, description="Whether its chunks end too and leave current searches.")
    expired: bool = Field(
        default=False, exclude_if=_is_empty, description="Whether its `expires_at` has come; omitted if not."
    )


class MemoryUnarchived(StrictModel):
    """Payload of `memory.unarchived`: the memory is back on the active list.

    If archiving had ended its chunks, a `memory.updated` follows, whose chunks hold from now on.
    """

    memory_id: UUID
    version: int


class ChunkRating(StrictModel):
    """What a consolidation decided about one chunk."""

    id: UUID
    importance: float = Field(ge=0, le=1)
    confidence: float = Field(ge=0, le=1)
    estimate: float | None = Field(
        default=None, ge=0, le=1, description="A model's importance estimate; None if no model read it this time."
    )


class Duplicate(StrictModel):
    """A chunk that repeats another one."""

    id: UUID
    duplicate_of: UUID


def _no_blank(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("a name or type must not be blank or contain NUL")
    return text


_Name = Annotated[str, Field(max_length=MAX_ENTITY_NAME_CHARACTERS), AfterValidator(_no_blank)]
_GraphType = Annotated[str, Field(max_length=MAX_GRAPH_TYPE_CHARACTERS), AfterValidator(_no_blank)]


class EntityEntry(StrictModel):
    """An entity that a memory names. The entry is complete by itself, because other events may be erased."""

    id: UUID
    name: _Name
    type: _GraphType
    description: str | None = None
    confidence: float = Field(ge=0, le=1)
    importance: float = Field(ge=0, le=1)
    aliases: tuple[_Name, ...] = Field(default=(), description="Other names this memory uses for it.")
    is_guess: bool = Field(default=False, description="Whether rules guessed the type; one that is stated replaces it.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    chunks: tuple[int, ...] = Field(description="Indexes, from 0, of the plan's chunks that name it.")


class RelationshipEntry(StrictModel):
    """A relationship between two entities, according to a memory."""

    id: UUID
    from_id: UUID = Field(description="Id of an entity in the same plan.")
    to_id: UUID
    type: _GraphType
    description: str | None = None
    confidence: float = Field(ge=0, le=1)
    importance: float = Field(ge=0, le=1)
    start_date: datetime | None = Field(default=None, description="None: the start date of its earliest chunk.")
    end_date: datetime | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    chunks: tuple[int, ...] = Field(description="Indexes, from 0, of the plan's chunks that support it.")


class GraphChanges(StrictModel):
    """Entities and relationships found by a consolidation."""

    entities: tuple[EntityEntry, ...] = ()
    relationships: tuple[RelationshipEntry, ...] = ()


class ModelUsage(StrictModel):
    """What one model was used for, in requests and tokens."""

    model: str = Field(description="The model's name as given by the provider.")
    requests: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)


# Why passages end that no update removed from their text.
type EndReason = Literal["expired", "pruned", "contradicted", "replaced"]

type FailureReason = Literal["timeout", "limit", "unavailable", "invalid", "failed"]
# Outcome of a call: answered, one of the model's failures, a store failure, or cancelled by the caller.
type AskOutcome = Literal["answered", "timeout", "limit", "unavailable", "invalid", "failed", "store", "cancelled"]


# Why a plan, or part of it, was made without the configured model: it failed, the day's tokens were used up, or the
# memory changes too fast ("busy") for its writers to wait for a model.
type Fallback = Literal["timeout", "limit", "unavailable", "invalid", "failed", "busy"]


class ReflectionAsked(StrictModel):
    """A reflection that a model was asked for in vain: it answered, and no belief came of it."""

    agent_name: str = Field(description="Whose reflection.")
    until: int = Field(ge=0, description="Position of the last event that the agent had seen by then.")


class ModelAsked(StrictModel):
    """Payload of `memory.model_asked`: the cost of a model call that led to no other event of ours."""

    agent: str = Field(description="The agent that called the model.")
    outcome: AskOutcome
    usage: tuple[ModelUsage, ...]
    unanswered: int = Field(
        default=0,
        ge=0,
        description="Number of requests unanswered when the call ended; their tokens are estimated.",
    )
    prompt: str | None = Field(
        default=None,
        description="Version of the instructions and the answer's schema that were sent; None if no request was.",
    )
    profile: int | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="Position of the definition of the profile that a text was asked for; omitted for other agents.",
    )
    reflection: ReflectionAsked | None = Field(
        default=None,
        exclude_if=_is_empty,
        description="What a reflector was asked in vain; omitted for other agents, and if it wrote a belief.",
    )


class RememberAsked(StrictModel):
    """Payload of `memory.remember_asked`: a model is to read turns of the event's conversation."""

    after: int | None = Field(
        default=None,
        ge=0,
        exclude_if=_is_none,
        description="The turns after this position; omitted: those after this event.",
    )
    is_over: bool = Field(
        default=False, exclude_if=_is_empty, description="Whether to read them at once; omitted: after a pause."
    )
    retry_seconds: float | None = Field(
        default=None,
        ge=0,
        exclude_if=_is_none,
        description="How long to wait because the model has failed; omitted if it has not.",
    )
    failed_attempts: int = Field(
        default=0, ge=0, exclude_if=_is_empty, description="How often in a row it has failed; omitted if it has not."
    )


class DeletionAsked(StrictModel):
    """A turn in which the user asks to have something forgotten, by a model's reading."""

    position: int = Field(ge=1, description="Of the event that holds the turn.")
    memory_ids: tuple[UUID, ...] = Field(default=(), description="The active memories that hold it.")
    is_replaced: bool = Field(
        default=False,
        exclude_if=_is_empty,
        description="Whether lines of each of them were changed to what is true now, so that only earlier versions may"
        " hold it; omitted if not.",
    )


class Remembered(StrictModel):
    """Payload of `memory.remembered`: a model has read turns of the event's conversation."""

    after: int = Field(ge=0, description="It has read the turns after this position,")
    through: int = Field(ge=0, description="up to this one.")
    turns: int = Field(ge=0, description="How many turns that were.")
    memory_ids: tuple[UUID, ...] = Field(default=(), description="Memories that were created or updated for it.")
    refused: int = Field(
        default=0,
        ge=0,
        exclude_if=_is_empty,
        description="How many of its changes were refused, such as for a limit; omitted if none.",
    )
    deletion_requests: tuple[DeletionAsked, ...] = Field(
        default=(), exclude_if=_is_empty, description="What the user asks to have forgotten; omitted if nothing."
    )
    off_record: int = Field(
        default=0,
        ge=0,
        exclude_if=_is_empty,
        description="How many texts the model was not shown because the user said they are off the record; omitted if"
        " none.",
    )
    off_record_at: AwareDatetime | None = Field(
        default=None,
        exclude_if=_is_none,
        description="When the last turn was said, if it was off the record: what follows is, too; omitted if it was"
        " not.",
    )


class FactEntry(StrictModel):
    """A statement a model derived from some of a memory's chunks, which remain unchanged."""

    id: UUID
    content: str = Field(min_length=1)
    chunks: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        min_length=1, description="Indexes, from 0, of the plan's chunks it is based on."
    )
    start: int = Field(description="First character of these chunks in the text of the version, from 0.")
    end: int = Field(description="One past the last character of these chunks.")
    importance: float = Field(ge=0, le=1)
    confidence: float = Field(ge=0, le=1)
    start_date: datetime = Field(description="When it became true in the world.")
    end_date: datetime | None = Field(default=None, description="When it ceased to be true; None: still true.")


# An event based on what other memories say does not outlive them.
_RestsOn = Annotated[
    tuple[UUID, ...],
    Field(description="Other memories whose text the model was shown; erasing one of them also erases this event."),
]


class MemoryConsolidated(StrictModel):
    """Payload of `memory.consolidated`: the whole plan; its handler moves the memory's chunks to shortterm."""

    memory_id: UUID
    version: int = Field(description="The version of the memory that was consolidated.")
    title: str
    summary: str
    chunks: tuple[ChunkRating, ...]
    duplicates: tuple[Duplicate, ...] = ()
    reinforced: tuple[ChunkRating, ...] = Field(default=(), description="Older chunks that the new ones repeat.")
    embedding_generation: int = Field(description="The vector generation used to find near-duplicates.")
    graph: GraphChanges = GraphChanges()
    usage: tuple[ModelUsage, ...] = Field(
        default=(), description="The models called, and their usage; empty without a model."
    )
    prompts: tuple[str, ...] = Field(
        default=(), description="Versions of the instructions and schemas that were sent; empty without a model."
    )
    facts: tuple[FactEntry, ...] = ()
    fallback: Fallback | None = Field(
        default=None, description="Why rules decided all or part of it although a model is configured; else None."
    )
    fallback_chunks: int = Field(default=0, ge=0, description="Number of chunks therefore handled by rules.")
    rests_on: _RestsOn = ()
    form_version: int = FORM_VERSION


class Promotion(StrictModel):
    """A chunk that becomes longterm, with its validity in the world's time."""

    id: UUID
    importance: float = Field(ge=0, le=1)
    confidence: float = Field(ge=0, le=1)
    start_date: datetime
    end_date: datetime | None = None
    uses: int = Field(default=0, ge=0, description="Number of recalls that raised its importance above the rated one.")


class MemoryPromoted(StrictModel):
    """Payload of `memory.promoted`."""

    memory_id: UUID
    threshold: float
    chunks: tuple[Promotion, ...]


class ChunkPiece(StrictModel):
    """A part of a chunk that is cut. It is a chunk itself from then on."""

    id: UUID
    start: int = Field(ge=0, description="Its first character in the chunk, counted from 0.")
    end: int = Field(description="One past its last character.")
    items: tuple[UUID, ...] = Field(
        default=(),
        exclude_if=_is_empty,
        description="The entities and relationships that it names, of those that the chunk names; omitted if unknown."
        " What no piece of a chunk is known to name, all of them do.",
    )
    facts: tuple[UUID, ...] = Field(
        default=(),
        exclude_if=_is_empty,
        description="The facts that rest on it, of those that rest on the chunk; omitted if unknown. What is known to"
        " rest on no piece of a chunk, rests on all of them.",
    )


def _tiled(pieces: tuple[ChunkPiece, ...]) -> tuple[ChunkPiece, ...]:
    starts, ends = [piece.start for piece in pieces], [piece.end for piece in pieces]
    if starts != [0, *ends[:-1]] or any(end <= start for start, end in zip(starts, ends, strict=True)):
        raise ValueError("the pieces of a chunk must follow each other from its first character on")
    return pieces


class ChunkCut(StrictModel):
    """A chunk that is cut into pieces, because a part of it is over."""

    chunk: UUID
    pieces: Annotated[tuple[ChunkPiece, ...], AfterValidator(_tiled)] = Field(
        min_length=2, description="All of it, in order."
    )


class MemoryCut(StrictModel):
    """Payload of `memory.cut`: pieces take the place of chunks; the memory's text is unchanged, and nothing ends.

    What is over ends by `memory.ended` afterwards. This event does not say why, so that it can stay when the memory
    that was the reason is erased: later events name the pieces.
    """

    memory_id: UUID
    cuts: tuple[ChunkCut, ...] = Field(min_length=1)
    form_version: int = FORM_VERSION


class MemoryEnded(StrictModel):
    """Payload of `memory.ended`: passages of a memory leave current searches; its text is unchanged."""

    memory_id: UUID
    reason: EndReason
    chunks: tuple[UUID, ...]
    duplicates: tuple[Duplicate, ...] = Field(
        default=(), description="Chunks that ended earlier as duplicates of these; they do not come back."
    )
    tier: Tier | None = Field(default=None, description="The tier of expired chunks.")
    ttl_days: float | None = Field(default=None, description="That tier's time to live, in days.")
    limit: int | None = Field(default=None, description="The maximum number of live chunks, if these were pruned.")
    by: tuple[UUID, ...] = Field(default=(), description="Newer chunks that contradict or replace them.")
    why: str | None = Field(default=None, description="Reason given by the model that proposed it.")
    rests_on: _RestsOn = ()


class OutdatedPart(StrictModel):
    """What is probably out of date: a chunk, or a part of it."""

    chunk: UUID = Field(description="A chunk of the memory, or a fact drawn from one.")
    start: int | None = Field(
        default=None,
        ge=0,
        exclude_if=_is_none,
        description="First character of the part in the chunk, counted from 0; omitted: the whole chunk.",
    )
    end: int | None = Field(
        default=None, exclude_if=_is_none, description="One past its last character; omitted: the whole chunk."
    )

    @model_validator(mode="after")
    def _check_span(self) -> Self:
        if (self.start is None) != (self.end is None):
            raise ValueError("a part needs both its start and its end")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError(f"a part from {self.start} to {self.end} has no characters")
        return self


class MemoryOutdated(StrictModel):
    """Payload of `memory.outdated`: passages of a memory are probably out of date since the event occurred.

    They stay, and searches find them.
    """

    memory_id: UUID
    parts: tuple[OutdatedPart, ...] = Field(min_length=1)
    by: UUID = Field(description="The newer chunk that they seem to contradict.")
    why: str | None = Field(default=None, description="Reason given by the model that proposed it.")
    rests_on: _RestsOn = ()


class EntitiesMerged(StrictModel):
    """Payload of `memory.entities_merged`: two entities become one. It holds no memory text.

    If one of them no longer exists, because what named it was erased, nothing happens.
    """

    survivor_id: UUID
    merged_id: UUID
    reason: Literal["alike", "asked"]
    score: float | None = Field(default=None, ge=0, le=1, description="Similarity of their names.")


class EntitiesUnmerged(StrictModel):
    """Payload of `memory.entities_unmerged`: an entity becomes separate again, with what was merged into it."""

    entity_id: UUID


class RelationshipEnded(StrictModel):
    """Payload of `memory.relationship_ended`: the relationship is no longer true."""

    relationship_id: UUID
    end_date: datetime
    why: str | None = Field(default=None, description="Reason given by a model; None if a caller ended it.")
    rests_on: _RestsOn = ()


class GraphStated(StrictModel):
    """Payload of `memory.entity_stated` and `memory.relationship_stated`: what a caller states, and what supports it.

    It holds as long as one of the passages stands. A stated relationship comes with both of its entities, so that the
    event is complete by itself.
    """

    memory_id: UUID = Field(description="The memory that supports it; erasing that memory also erases this event.")
    chunks: tuple[UUID, ...] = Field(min_length=1, description="Its passages that support it.")
    graph: GraphChanges = Field(description="What is stated; its entries name passages by their index in `chunks`.")
    rests_on: Annotated[
        tuple[UUID, ...],
        Field(description="Other memories that gave entities the names repeated here; erasing one erases this event."),
    ] = ()
    redactions: _Redactions = Field(default_factory=dict)


# When a profile is written again: after a consolidation, or a day after the last time; each only if memory has changed.
ProfileRefresh = Literal["consolidation", "daily"]
PROFILE_REFRESHES: tuple[ProfileRefresh, ...] = ("consolidation", "daily")
# Who wrote a profile's text: a model, or rules that quote memory.
type ProfileMaker = Literal["model", "extractive"]


class ProfileDefined(StrictModel):
    """Payload of `memory.profile_defined`: a question that a standing summary answers from now on."""

    name: str
    question: str
    refresh: ProfileRefresh
    max_tokens: int = Field(ge=1, description="The longest text, in estimated tokens.")
    refresh_tokens: int | None = Field(
        default=None, ge=1, description="How many tokens a model may read and write for one text; None: as configured."
    )
    redactions: _Redactions = Field(default_factory=dict)


class ProfileCitation(StrictModel):
    """What a line of a profile rests on."""

    memory_id: UUID
    chunk_id: UUID | None = Field(default=None, description="None: the whole text of an active memory.")


class ProfileWritten(StrictModel):
    """Payload of `memory.profile_written`: a new text of a profile."""

    name: str
    definition: int = Field(description="Position of the event that defined the question it answers.")
    content: str = Field(description="One statement on each line, without numbers; empty if memory holds nothing.")
    citations: tuple[tuple[ProfileCitation, ...], ...] = Field(description="What each line rests on, in order.")
    made_by: ProfileMaker
    model: str | None = Field(default=None, description="The model that wrote it; None if its lines are quoted.")
    cited_source: Source | None = Field(
        default=None, description="The least trusted label of what it cites; None if it cites nothing."
    )
    written_from: int = Field(description="The ledger's last position when memory was read for it.")
    usage: tuple[ModelUsage, ...] = ()
    prompt: str | None = Field(
        default=None,
        description="Version of the instructions and the answer's schema that were sent; None if no request was.",
    )
    rests_on: Annotated[
        tuple[UUID, ...],
        Field(description="Memories that were cited or shown; erasing one of them also erases this event."),
    ] = ()


class ProfileRemoved(StrictModel):
    """Payload of `memory.profile_removed`: it is no longer updated; its texts stay for questions of the past."""

    name: str


class MemoryRecalled(StrictModel):
    """Payload of `memory.recalled`: passages that a search gave to a run. It holds no memory text and no question.

    A passage that the run was given before is not named again. One that no longer exists, because its memory was
    erased, counts for nothing.
    """

    run_id: str
    chunks: tuple[UUID, ...] = Field(min_length=1, description="Chunks and facts, best first.")


class RunOutcomeReported(StrictModel):
    """Payload of `memory.outcome`: how a run ended, which counts for what was recalled in it by then."""

    run_id: str
    success: bool
    memory_ids: tuple[UUID, ...] | None = Field(
        default=None, description="The memories whose passages it counts for; None: all that was recalled."
    )
    note: str | None = Field(default=None, description="The caller's remark; it is kept nowhere else.")
    redactions: _Redactions = Field(default_factory=dict)


class ValuePart(StrictModel):
    """Payload of `memory.value_part`: some of what an event has under `memory.divided` instead of its large values."""

    value: UUID = Field(description="The same in all events of the divided payload.")
    number: int = Field(ge=0, description="From 0; the event itself comes after the last one.")
    parts: list[Any] = Field(
        description="Parts of the values, in order. A text that was cut is several objects: `piece`, how many of its"
        " characters are `repeated` from the one before, and whether the text `ends` with it. A `run` is several parts"
        " without strings, as the text of a JSON list."
    )


class GraphErased(StrictModel):
    """Payload of `memory.graph_erased`: an erasure has reached the graph store that follows the ledger."""

    receipt_id: UUID
    store: str = Field(description="The graph store's self-assigned id.")
    erased_at: datetime


PAYLOADS: Mapping[str, type[BaseModel]] = {
    EventKind.CREATED: MemoryCreated,
    EventKind.UPDATED: MemoryUpdated,
    EventKind.APPENDED: MemoryAppended,
    EventKind.ARCHIVED: MemoryArchived,
    EventKind.UNARCHIVED: MemoryUnarchived,
    EventKind.CONSOLIDATED: MemoryConsolidated,
    EventKind.PROMOTED: MemoryPromoted,
    EventKind.CUT: MemoryCut,
    EventKind.ENDED: MemoryEnded,
    EventKind.OUTDATED: MemoryOutdated,
    EventKind.ENTITIES_MERGED: EntitiesMerged,
    EventKind.ENTITIES_UNMERGED: EntitiesUnmerged,
    EventKind.RELATIONSHIP_ENDED: RelationshipEnded,
    EventKind.ENTITY_STATED: GraphStated,
    EventKind.RELATIONSHIP_STATED: GraphStated,
    EventKind.PROFILE_DEFINED: ProfileDefined,
    EventKind.PROFILE_WRITTEN: ProfileWritten,
    EventKind.PROFILE_REMOVED: ProfileRemoved,
    EventKind.RECALLED: MemoryRecalled,
    EventKind.OUTCOME: RunOutcomeReported,
    EventKind.GRAPH_ERASED: GraphErased,
    EventKind.MODEL_ASKED: ModelAsked,
    EventKind.REMEMBER_ASKED: RememberAsked,
    EventKind.REMEMBERED: Remembered,
    EventKind.VALUE_PART: ValuePart,
}
