"""What a model proposes, as the plan of a consolidation takes it over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.agents.plan_dates import end_date, ending_date, start_date
from agent_reminiscence.database.repositories.graph.tables import KnownPeriod, StatedRelationship
from agent_reminiscence.database.repositories.memory_chunk import NearChunk
from agent_reminiscence.domain.event import Fallback, ModelUsage
from agent_reminiscence.domain.graph import ANY_TYPE
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.trust import SOURCE_TRUST, SOURCES, least_trusted, may_end
from agent_reminiscence.services.tiers.entities import PlannedEntity
from agent_reminiscence.services.tiers.relationships import PlannedRelationship
from agent_reminiscence.services.tiers.windows import Window
from agent_reminiscence.text.folding import name_key, snake_case

if TYPE_CHECKING:
    from agent_reminiscence.agents.memorizer_plan import (
        ConsolidationPlan,
        EndingsPlan,
        Fact,
        FoundEntity,
        FoundRelationship,
    )

# A model's summaries of all windows together.
MODEL_SUMMARY_CHARACTERS: Final = 2_000


@dataclass(frozen=True, slots=True)
class PlannedFact:
    """A statement derived from some chunks, given by their indices in the memory."""

    text: str
    importance: float
    confidence: float
    passages: tuple[int, ...]
    start_date: datetime
    end_date: datetime | None


@dataclass(frozen=True, slots=True)
class PlannedEnding:
    """A stored chunk that another one contradicts or replaces.

    Attributes:
        by: The index of that other chunk.
    """

    chunk: NearChunk
    by: int
    reason: Literal["contradicted", "replaced"]
    why: str


@dataclass(frozen=True, slots=True)
class PlannedRelationshipEnding:
    """A known relationship that a chunk says is over.

    Attributes:
        by: The index of that chunk.
        is_compared: Whether it was proposed in a comparison with less trusted text; then only that text may end.
    """

    relationship: StatedRelationship
    by: int
    end_date: datetime
    why: str
    is_compared: bool = False


@dataclass(slots=True)
class Proposal:
    """What a model proposes for a memory's new chunks; an index counts all chunks of the memory, from 0.

    Attributes:
        importances: Its ratings of the chunks it has read, by index.
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
    facts: list[PlannedFact] = field(default_factory=list)
    endings: list[PlannedEnding] = field(default_factory=list)
    relationship_endings: list[PlannedRelationshipEnding] = field(default_factory=list)
    rests_on: set[UUID] = field(default_factory=set)
    usage: tuple[ModelUsage, ...] = ()
    fallback: Fallback | None = None
    unread: int = 0

    @property
    def summary(self) -> str | None:
        """All window summaries, cut to the maximum length of a summary; None if nothing was read."""
        whole = " ".join(self.summaries).strip()
        if len(whole) > MODEL_SUMMARY_CHARACTERS:
            # At a word boundary.
            whole = whole[:MODEL_SUMMARY_CHARACTERS].rsplit(None, 1)[0] + " …"
        return whole or None


def take_over(proposal: Proposal, window: Window, plan: ConsolidationPlan) -> None:
    """Add what a model made of a window to `proposal`.

    What is derived from passages is trusted no more than the least trusted of them: the confidence of an entity, a
    relationship or a fact is at most the lowest `SOURCE_TRUST` of its passages, whatever the model says.

    Args:
        plan: One that `check` has nothing against.
    """
    ratings = {rated.ref: rated.importance for rated in plan.chunks}
    proposal.importances |= {index: ratings[ref] for ref, index in enumerate(window.indices, start=1)}
    proposal.summaries.append(plan.summary.strip())
    planned = {found.ref: _plan_entity(window, found) for found in plan.auto_resolve.entities}
    proposal.entities += planned.values()
    proposal.relationships += [_plan_relationship(window, found, planned) for found in plan.auto_resolve.relationships]
    proposal.facts += [_plan_fact(window, fact) for fact in plan.facts]
    take_over_endings(proposal, window, plan)


def take_over_endings(
    proposal: Proposal, window: Window, plan: ConsolidationPlan | EndingsPlan, *, is_compared: bool = False
) -> None:
    """Add the endings of a plan to `proposal`.

    A passage ends nothing that is more trusted or newer than itself, whatever the agent let through.
    """
    for ended in plan.ended_chunks:
        stored, by = window.near[ended.stored - 1], window.chunks[ended.by - 1]
        if may_end(by.source, [stored.source]) and stored.start_date <= by.start_date:
            proposal.endings.append(PlannedEnding(stored, window.indices[ended.by - 1], ended.reason, ended.why))
    for over in plan.ended_relationships:
        known, by = window.relationships[over.relationship - 1], window.chunks[over.by - 1]
        if may_end(by.source, known.sources) and known.last_observed <= by.start_date:
            ended_at = ending_date(over.on, by.start_date)
            proposal.relationship_endings.append(
                PlannedRelationshipEnding(known, window.indices[over.by - 1], ended_at, over.why, is_compared)
            )


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


def _plan_entity(window: Window, found: FoundEntity) -> PlannedEntity:
    known = None if found.known is None else window.named[found.known - 1]
    # Each name once, in its first spelling.
    names = {name_key(found.name): found.name}
    for alias in found.aliases:
        names.setdefault(name_key(alias), alias)
    new_id = uuid7()
    return PlannedEntity(
        entity_id=new_id,
        key=name_key(found.name),
        name=found.name,
        # Recorded with the model's type: the source of the known one may be erased.
        type=snake_case(found.type),
        confidence=_bound(window, found),
        passages=_indices(window, found),
        drafts=(new_id,),
        description=found.description,
        aliases=tuple(names.values())[1:],
        known_key=None if known is None else known.key,
        # Looked up by its known type, not the model's: another type would make it a different entity.
        known_type=None if known is None or known.type == ANY_TYPE else known.type,
        is_other=found.is_other and known is None,
    )


def _plan_relationship(
    window: Window, found: FoundRelationship, planned: Mapping[int, PlannedEntity]
) -> PlannedRelationship:
    start, end = start_date(found.start), end_date(found.end)
    if start is None:
        # It began when it was said; if it was over by then, before it ended.
        start = _said_at(window, found) if end is None else min(_said_at(window, found), end)
    return PlannedRelationship(
        from_id=planned[found.from_entity].entity_id,
        to_id=planned[found.to_entity].entity_id,
        type=snake_case(found.type),
        description=found.description,
        confidence=_bound(window, found),
        passages=_indices(window, found),
        start_date=start,
        end_date=end,
    )


def _plan_fact(window: Window, fact: Fact) -> PlannedFact:
    start, end, said_at = start_date(fact.start), end_date(fact.end), _said_at(window, fact)
    if start is None and end is not None and end <= said_at:
        # A statement that something is over holds from when it was said and does not end.
        end = None
    return PlannedFact(
        text=fact.text.strip(),
        importance=fact.importance,
        confidence=_bound(window, fact),
        passages=_indices(window, fact),
        start_date=start or said_at,
        end_date=end,
    )


type _Found = FoundEntity | FoundRelationship | Fact


def _bound(window: Window, found: _Found) -> float:
    return min(found.confidence, *(SOURCE_TRUST[window.chunks[ref - 1].source] for ref in found.chunks))


def _said_at(window: Window, found: _Found) -> datetime:
    return min(window.chunks[ref - 1].start_date for ref in found.chunks)


def _indices(window: Window, found: _Found) -> tuple[int, ...]:
    return tuple(sorted({window.indices[ref - 1] for ref in found.chunks}))
