"""What a model proposed, as the plan of a consolidation takes it over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.agents.plans import (
    ConsolidationProposal,
    ProposedEndings,
    ProposedEntity,
    ProposedFact,
    ProposedRelationship,
)
from agent_reminiscence.config import constants
from agent_reminiscence.database.repositories.graph.tables import KnownPeriod, StatedRelationship
from agent_reminiscence.database.repositories.memory_chunk import NearChunk
from agent_reminiscence.domain.event import Fallback, ModelUsage
from agent_reminiscence.domain.graph import ANY_TYPE
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.trust import SOURCES, least_trusted, may_end
from agent_reminiscence.services.tiers.entities import PlannedEntity
from agent_reminiscence.services.tiers.relationships import PlannedRelationship
from agent_reminiscence.services.tiers.windows import Window
from agent_reminiscence.text.folding import name_key


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
        usage: What the requests cost, by model.
        fallback: Why chunks were not read, or not compared with less trusted ones, although a model is configured.
        unread: How many were not read.
    """

    importances: dict[int, float] = field(default_factory=dict)
    summaries: list[str] = field(default_factory=list)
    entities: list[PlannedEntity] = field(default_factory=list)
    relationships: list[PlannedRelationship] = field(default_factory=list)
    facts: list[ReadFact] = field(default_factory=list)
    endings: list[ReadEnding] = field(default_factory=list)
    relationship_endings: list[ReadRelationshipEnding] = field(default_factory=list)
    rests_on: set[UUID] = field(default_factory=set)
    usage: tuple[ModelUsage, ...] = ()
    fallback: Fallback | None = None
    unread: int = 0

    @property
    def summary(self) -> str | None:
        """All window summaries, cut to the maximum length of a summary; None if nothing was read."""
        whole = " ".join(self.summaries).strip()
        if len(whole) > constants.MODEL_SUMMARY_CHARACTERS:
            # At a word boundary.
            whole = whole[: constants.MODEL_SUMMARY_CHARACTERS].rsplit(None, 1)[0] + " …"
        return whole or None


def take_over(reading: Reading, window: Window, proposal: ConsolidationProposal) -> None:
    """Add what was proposed for a window to `reading`.

    A passage ends nothing that is more trusted or newer than itself, whatever the agent let through.
    """
    reading.importances |= dict(zip(window.places, proposal.importances, strict=True))
    reading.summaries.append(proposal.summary.strip())
    drafted = [_draft(window, entity) for entity in proposal.entities]
    reading.entities += drafted
    reading.relationships += [
        PlannedRelationship(
            from_id=drafted[one.from_entity].entity_id,
            to_id=drafted[one.to_entity].entity_id,
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


def _draft(window: Window, proposed: ProposedEntity) -> PlannedEntity:
    known = None if proposed.known is None else window.named[proposed.known]
    new_id = uuid7()
    return PlannedEntity(
        entity_id=new_id,
        key=name_key(proposed.name),
        name=proposed.name,
        # Recorded with the model's type: the source of the known one may be erased.
        type=proposed.type,
        confidence=proposed.confidence,
        passages=_places(window, proposed.passages),
        drafts=(new_id,),
        description=proposed.description,
        aliases=proposed.aliases,
        known_key=None if known is None else known.key,
        # Looked up by its known type, not the model's: another type would make it a different entity.
        known_type=None if known is None or known.type == ANY_TYPE else known.type,
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
