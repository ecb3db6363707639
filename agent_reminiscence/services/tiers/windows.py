"""What a model has read of a memory, window by window, in the form a consolidation uses.

A model proposes with numbers and words. What they refer to, and what it may change at all, is decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.agents.plans import (
    ConsolidationMaterial,
    ConsolidationProposal,
    KnownEntity,
    KnownRelation,
    NewPassage,
    ProposedEndings,
    ProposedEntity,
    ProposedFact,
    ProposedRelationship,
    StoredPassage,
)
from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import SOURCES, Source, least_trusted
from agent_reminiscence.database.repositories.graph.tables import KnownPeriod, StatedRelationship
from agent_reminiscence.database.repositories.memory_chunk import NearChunk
from agent_reminiscence.domain.event import Fallback, ModelUsage
from agent_reminiscence.domain.graph import name_key
from agent_reminiscence.domain.memory import StoredChunk, StoredMemory
from agent_reminiscence.projections.indexed_text import without_speaker
from agent_reminiscence.services.tiers.entities import ANY_TYPE, DraftedEntity, DraftedRelationship, PlannedRelationship
from agent_reminiscence.text.names import ExtractedEntity
from agent_reminiscence.text.sentences import first_sentence
from agent_reminiscence.text.tokens import count_tokens


@dataclass(frozen=True, slots=True)
class ReadFact:
    """A statement derived from some chunks, given by their places in the memory."""

    text: str
    importance: float
    confidence: float
    places: tuple[int, ...]
    start_date: datetime
    end_date: datetime | None


@dataclass(frozen=True, slots=True)
class ReadEnding:
    """A stored chunk that the chunk at a place contradicts or replaces."""

    chunk: NearChunk
    by: int
    reason: Literal["contradicted", "replaced"]
    why: str


@dataclass(frozen=True, slots=True)
class ReadRelationshipEnding:
    """A known relationship that the chunk at a place says is over.

    Attributes:
        is_compared: Whether it was proposed in a comparison with less trusted text; then only that text may end.
    """

    relationship: StatedRelationship
    by: int
    end_date: datetime
    why: str
    is_compared: bool = False


@dataclass(slots=True)
class Reading:
    """What a model made of a memory's new chunks; a place is an index into all chunks of the memory.

    Attributes:
        importances: Its ratings of the chunks it has read, by place.
        summaries: One per window.
        rests_on: Other memories that it was shown parts of and that may have influenced it.
        usage: What the requests cost.
        unanswered: How many of these requests got no answer.
        fallback: Why chunks were not read, or not compared with less trusted ones, although a model is configured.
        unread: How many were not read.
        is_recorded: Whether the consolidation event records the cost.
    """

    importances: dict[int, float] = field(default_factory=dict)
    summaries: list[str] = field(default_factory=list)
    entities: list[DraftedEntity] = field(default_factory=list)
    relationships: list[DraftedRelationship] = field(default_factory=list)
    facts: list[ReadFact] = field(default_factory=list)
    endings: list[ReadEnding] = field(default_factory=list)
    relationship_endings: list[ReadRelationshipEnding] = field(default_factory=list)
    rests_on: set[UUID] = field(default_factory=set)
    usage: list[ModelUsage] = field(default_factory=list)
    unanswered: int = 0
    fallback: Fallback | None = None
    unread: int = 0
    is_recorded: bool = False

    @property
    def summary(self) -> str | None:
        """All window summaries, cut to the maximum length of a summary; None if nothing was read."""
        whole = " ".join(self.summaries).strip()
        if len(whole) > constants.MODEL_SUMMARY_CHARACTERS:
            # At a word boundary.
            whole = whole[: constants.MODEL_SUMMARY_CHARACTERS].rsplit(None, 1)[0] + " …"
        return whole or None


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a memory's new chunks, with the context the model is shown.

    Attributes:
        places: The places of its chunks in the memory.
        title: The memory's title, if its writer is trusted no less than the window.
        named: Known entities that its chunks name, by the drafts.
        spelled: What its chunks call known entities, by canonical id.
    """

    places: tuple[int, ...]
    chunks: tuple[StoredChunk, ...]
    context: tuple[str, ...]
    title: str | None = None
    near: Sequence[NearChunk] = ()
    named: Sequence[DraftedEntity] = ()
    spelled: Mapping[UUID, str] = field(default_factory=dict)
    relationships: Sequence[StatedRelationship] = ()

    @property
    def source(self) -> Source:
        """The label of all its chunks."""
        return self.chunks[0].source

    @property
    def trusted(self) -> Sequence[Source]:
        """The labels that are trusted at least as much as its own."""
        return SOURCES[: SOURCES.index(self.source) + 1]

    @property
    def lesser(self) -> Sequence[Source]:
        """The less trusted labels, most trusted first."""
        return SOURCES[len(self.trusted) :]

    def material(self, memory: StoredMemory) -> ConsolidationMaterial:
        """The window as shown to an agent."""
        return ConsolidationMaterial(
            title=self.title,
            dated=memory.occurred_at,
            passages=tuple(
                NewPassage(
                    text=without_speaker(chunk.content, chunk.speaker).strip(),
                    speaker=chunk.speaker,
                    source=chunk.source,
                    said_at=chunk.start_date,
                )
                for chunk in self.chunks
            ),
            context=self.context,
            stored=tuple(
                StoredPassage(
                    text=chunk.content.strip()[: constants.NEAR_SHOWN_CHARACTERS],
                    speaker=chunk.speaker,
                    source=chunk.source,
                    said_at=chunk.start_date,
                )
                for chunk in self.near
            ),
            entities=tuple(
                # A type in a model's own words could reveal another memory's text, which is not shown here.
                KnownEntity(
                    name=entity.extracted.name,
                    type=entity.extracted.type if entity.extracted.type in constants.ENTITY_TYPES else ANY_TYPE,
                )
                for entity in self.named
            ),
            relationships=tuple(
                KnownRelation(
                    from_name=self._called(one.from_id, one.from_name),
                    type=one.type,
                    to_name=self._called(one.to_id, one.to_name),
                    since=one.start_date,
                    last_said_at=one.last_observed,
                    source=_most_trusted(one.seen),
                    held_by=_most_trusted(one.sources),
                )
                for one in self.relationships
            ),
        )

    def _called(self, entity_id: UUID, name: str) -> str:
        """A known name as the passages spell it, otherwise cut to the length of a name: anyone may have written it."""
        return self.spelled.get(entity_id, name[: constants.KNOWN_NAME_SHOWN_CHARACTERS])

    def rests_on(self, memory: StoredMemory) -> set[UUID]:
        """Other memories that are partly shown."""
        shown = {chunk.memory_id for chunk in self.near}.union(*(one.memory_ids for one in self.relationships))
        return shown - {memory.memory_id}


def make_windows(chunks: Sequence[StoredChunk]) -> list[Window]:
    """Split the chunks that no consolidation has read into windows of bounded size, each with an outline of the rest.

    All chunks of a window have one label, so whichever passages a model cites, it cannot gain trust. The outline only
    uses text that is trusted no less, so that nothing else speaks for the window's passages.
    """
    windows: list[Window] = []
    places: list[int] = []
    tokens = 0
    for place, chunk in enumerate(chunks):
        if chunk.tier != "active":
            continue
        length = count_tokens(chunk.content)
        is_full = tokens + length > constants.WINDOW_TOKENS or len(places) == constants.WINDOW_CHUNKS
        if places and (is_full or chunk.source != chunks[places[0]].source):
            windows.append(_window(chunks, places))
            places, tokens = [], 0
        places.append(place)
        tokens += length
    return [*windows, _window(chunks, places)] if places else windows


def _window(chunks: Sequence[StoredChunk], places: Sequence[int]) -> Window:
    """A window with sentences from the most important other chunks, in text order."""
    inside = set(places)
    source = chunks[places[0]].source
    others = [place for place in range(len(chunks)) if place not in inside and may_end(chunks[place].source, [source])]
    best = sorted(others, key=lambda place: (-chunks[place].importance, place))[: constants.WINDOW_CONTEXT_SENTENCES]
    context = (first_sentence(chunks[place].content) for place in sorted(best))
    return Window(
        places=tuple(places),
        chunks=tuple(chunks[place] for place in places),
        context=tuple(sentence[: constants.WINDOW_CONTEXT_CHARACTERS] for sentence in context if sentence),
    )


def set_apart(
    window: Window, near: Sequence[NearChunk], relationships: Sequence[StatedRelationship]
) -> tuple[Window, list[Window]]:
    """Return the window with equally or more trusted context, and one comparison window per lesser label.

    Text may talk a model into anything. So text of a less trusted label is never shown beside more trusted text; it is
    compared with the window separately, and only it can be ended by that comparison. A relationship has the label of
    the most trusted source that states it. Text newer than the whole window is not compared with it.
    """
    last = max(chunk.start_date for chunk in window.chunks)

    def beside(labels: Sequence[Source]) -> Window:
        return replace(
            window,
            near=[one for one in near if one.source in labels],
            relationships=[one for one in relationships if _most_trusted(one.seen) in labels],
        )

    def compared(label: Source) -> Window:
        lesser = beside([label])
        return replace(
            lesser,
            title=None,
            context=(),
            named=(),
            near=[one for one in lesser.near if one.start_date <= last],
            relationships=[
                one
                for one in lesser.relationships
                # So many state it that not all were checked; one of them may be more trusted.
                if one.last_observed <= last and _most_trusted(one.sources) == label
            ],
        )

    apart = map(compared, window.lesser)
    return beside(window.trusted), [one for one in apart if one.near or one.relationships]


def _most_trusted(labels: Sequence[Source]) -> Source:
    return min(labels, key=SOURCES.index)


def take_over(reading: Reading, window: Window, proposal: ConsolidationProposal) -> None:
    """Add what was proposed for a window to `reading`.

    A passage ends nothing that is more trusted or newer than itself, whatever the agent let through.
    """
    reading.importances |= dict(zip(window.places, proposal.importances, strict=True))
    reading.summaries.append(proposal.summary.strip())
    drafted = [_draft(window, entity) for entity in proposal.entities]
    reading.entities += drafted
    reading.relationships += [
        DraftedRelationship(
            from_id=drafted[one.from_entity].new_id,
            to_id=drafted[one.to_entity].new_id,
            type=one.type,
            description=one.description,
            confidence=one.confidence,
            passages=_places(window, one.passages),
            start_date=_start(window, one),
            end_date=one.end_date,
        )
        for one in proposal.relationships
    ]
    reading.facts += [
        ReadFact(
            text=fact.text.strip(),
            importance=fact.importance,
            confidence=fact.confidence,
            places=_places(window, fact.passages),
            start_date=fact.start_date or _said_at(window, fact.passages),
            end_date=_fact_end(window, fact),
        )
        for fact in proposal.facts
    ]
    take_over_endings(reading, window, proposal)


def take_over_endings(
    reading: Reading, window: Window, proposal: ProposedEndings, *, is_compared: bool = False
) -> None:
    """Add the proposed endings to `reading`, with the same limits."""
    reading.endings += [
        ReadEnding(window.near[one.stored], window.places[one.by], one.reason, one.why)
        for one in proposal.endings
        if may_end(window.chunks[one.by].source, [window.near[one.stored].source])
        and window.near[one.stored].start_date <= window.chunks[one.by].start_date
    ]
    reading.relationship_endings += [
        ReadRelationshipEnding(
            window.relationships[one.relationship], window.places[one.by], one.end_date, one.why, is_compared
        )
        for one in proposal.relationship_endings
        if may_end(window.chunks[one.by].source, window.relationships[one.relationship].sources)
        and window.relationships[one.relationship].last_observed <= window.chunks[one.by].start_date
    ]


def may_end(source: Source, others: Collection[Source]) -> bool:
    """Whether text labelled `source` may end what the others say: it is trusted at least as much as each of them."""
    return all(SOURCES.index(source) <= SOURCES.index(other) for other in others)


def may_restate(said: Sequence[StoredChunk], stated: PlannedRelationship, known: KnownPeriod) -> bool:
    """Whether a statement concerns a known relationship, rather than a separate period of it.

    To change the period of a known relationship, a statement must be trusted as much as its sources and, to end it, be
    no older. It is not known who stated an end, so only the most trusted label may revoke it. A statement that begins
    after that end, or was over before the known one began, is a separate period, whoever says it.

    Args:
        said: The chunks that state it.
    """
    label = least_trusted(chunk.source for chunk in said)
    is_trusted = may_end(label, known.sources)
    ended_at = known.end_date if known.end_is_stated else None
    if ended_at is not None and stated.start_date > ended_at:
        return False
    if stated.end_date is not None and stated.end_date < known.start_date:
        return False
    if stated.end_date is None:
        takes_end_back = ended_at is not None and max(chunk.start_date for chunk in said) >= ended_at
        if takes_end_back and not may_end(label, SOURCES):
            return False
    elif stated.end_date != known.end_date:
        is_late_enough = min(chunk.start_date for chunk in said) >= known.last_observed
        if not is_trusted or not is_late_enough:
            return False
    return is_trusted or stated.start_date >= known.start_date


def _draft(window: Window, proposed: ProposedEntity) -> DraftedEntity:
    known = None if proposed.known is None else window.named[proposed.known]
    # Looked up by its known type, not the model's: another type would make it a different entity.
    # Recorded with the model's type: the source of the known one may be erased.
    is_typed = known is not None and known.extracted.type != ANY_TYPE
    return DraftedEntity(
        new_id=uuid7(),
        extracted=ExtractedEntity(
            key=name_key(proposed.name),
            name=proposed.name,
            type=proposed.type,
            confidence=proposed.confidence,
            passages=_places(window, proposed.passages),
        ),
        description=proposed.description,
        aliases=proposed.aliases,
        known_key=None if known is None else known.key,
        known_type=known.extracted.type if known is not None and is_typed else None,
        is_other=proposed.is_other and known is None,
    )


def _start(window: Window, stated: ProposedRelationship) -> datetime:
    """When it begins: as stated, otherwise when it was said; if over by then, it began before it ended."""
    if stated.start_date is not None:
        return stated.start_date
    said_at = _said_at(window, stated.passages)
    return said_at if stated.end_date is None else min(said_at, stated.end_date)


def _fact_end(window: Window, fact: ProposedFact) -> datetime | None:
    """When it ends. A statement that something is over holds from when it was said and does not end."""
    if fact.end_date is None or (fact.start_date is None and fact.end_date <= _said_at(window, fact.passages)):
        return None
    return fact.end_date


def _said_at(window: Window, passages: Sequence[int]) -> datetime:
    return min(window.chunks[passage].start_date for passage in passages)


def _places(window: Window, passages: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({window.places[passage] for passage in passages}))
