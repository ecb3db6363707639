"""What a model proposes, as the plan of a consolidation takes it over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.agents.plans import ReadEnding, ReadEntity, ReadFact, ReadRelationship, WindowReading
from agent_reminiscence.database.repositories.chunk_similarity import NearChunk
from agent_reminiscence.database.repositories.graph.tables import KnownPeriod, StatedRelationship
from agent_reminiscence.domain.graph import ANY_TYPE
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import Fallback, ModelUsage
from agent_reminiscence.domain.trust import SOURCE_TRUST, least_trusted, may_end
from agent_reminiscence.services.graph.periods import Statement, restates
from agent_reminiscence.services.tiers.ending_decisions import Decision
from agent_reminiscence.services.tiers.entities import PlannedEntity
from agent_reminiscence.services.tiers.relationships import PlannedRelationship
from agent_reminiscence.services.tiers.windows import Window
from agent_reminiscence.text.folding import name_key

# The most that can be said for what a model derives, however far its passages are trusted.
DERIVED_CONFIDENCE: Final = 0.9
# A model's summaries of all windows together.
MODEL_SUMMARY_CHARACTERS: Final = 2_000


class PlannedFact(NamedTuple):
    """A statement derived from some chunks, given by their indices in the memory."""

    text: str
    importance: float
    confidence: float
    passages: tuple[int, ...]
    start_date: datetime


class PlannedEnding(NamedTuple):
    """A chunk, stored or new, that a new one shows to be over, in whole or in part.

    Attributes:
        by: The index of that new one.
        said_at: When its words that do so were said.
        span: The characters of the chunk that are over, from 0, the end not included; None: the whole chunk.
        is_hard: Whether they end. Otherwise they stay, and are marked as probably out of date.
    """

    chunk_id: UUID
    by: int
    said_at: datetime
    why: str
    span: tuple[int, int] | None = None
    is_hard: bool = True


class PlannedRelationshipEnding(NamedTuple):
    """A known relationship that a chunk says is over.

    Attributes:
        by: The index of that chunk.
        said_at: When its words that say so were said.
        is_compared: Whether it was proposed in a comparison with less trusted text; then only that text may end.
    """

    relationship: StatedRelationship
    by: int
    said_at: datetime
    end_date: datetime
    why: str
    is_compared: bool = False


@dataclass(slots=True)
class Proposal:
    """What a model proposes for a memory's new chunks; an index counts all chunks of the memory, from 0.

    Attributes:
        read: The chunks it has read, by index.
        importances: Its ratings of them; one that it did not rate is left to the rules.
        summarized: The chunks that its summaries speak of.
        summaries: At most one per window.
        rests_on: Other memories that it was shown parts of and that may have influenced it.
        usage: What the requests cost, by model.
        prompts: Versions of the prompts that were sent.
        fallback: Why chunks were not read, or not compared with less trusted ones, although a model is configured.
        unread: How many were not read.
    """

    read: set[int] = field(default_factory=set)
    importances: dict[int, float] = field(default_factory=dict)
    summarized: set[int] = field(default_factory=set)
    summaries: list[str] = field(default_factory=list)
    entities: list[PlannedEntity] = field(default_factory=list)
    relationships: list[PlannedRelationship] = field(default_factory=list)
    facts: list[PlannedFact] = field(default_factory=list)
    endings: list[PlannedEnding] = field(default_factory=list)
    relationship_endings: list[PlannedRelationshipEnding] = field(default_factory=list)
    rests_on: set[UUID] = field(default_factory=set)
    usage: tuple[ModelUsage, ...] = ()
    prompts: tuple[str, ...] = ()
    fallback: Fallback | None = None
    unread: int = 0

    @property
    def summary(self) -> str | None:
        """All window summaries, cut to the maximum length of a summary; None if there is none."""
        whole = " ".join(self.summaries).strip()
        if len(whole) > MODEL_SUMMARY_CHARACTERS:
            # At a word boundary.
            whole = whole[:MODEL_SUMMARY_CHARACTERS].rsplit(None, 1)[0] + " …"
        return whole or None


def take_over(proposal: Proposal, window: Window, reading: WindowReading, decisions: Sequence[Decision] = ()) -> None:
    """Add what a model made of a window to `proposal`.

    What is derived from passages is trusted no more than the least trusted of them: the confidence of an entity, a
    relationship or a fact is at most the lowest `SOURCE_TRUST` of its passages.

    Args:
        decisions: What its endings of passages do.
    """
    proposal.read |= set(window.indices)
    for index, rating in reading.importances.items():
        # A chunk that is shown in parts is as important as the most important of them.
        whole = window.indices[index]
        proposal.importances[whole] = max(rating, proposal.importances.get(whole, 0.0))
    if reading.summary:
        proposal.summarized |= set(window.indices)
        proposal.summaries.append(reading.summary)
    planned = [_plan_entity(window, entity) for entity in reading.entities]
    # An entity that no passage names can only stand in a relationship, which brings its passages along.
    proposal.entities += [entity for entity in planned if entity.passages]
    proposal.relationships += [_plan_relationship(window, one, planned) for one in reading.relationships]
    # A fact does not rest on what another passage has ended; where only earlier words of its own have ended, it may.
    over = {ending.index for ending, _, is_hard in decisions if is_hard and ending.kind == "new"}
    over -= {ending.index for ending, _, _ in decisions if ending.kind == "new" and ending.index == ending.by}
    for fact in reading.facts:
        if passages := tuple(index for index in fact.passages if index not in over):
            proposal.facts.append(_plan_fact(window, replace(fact, passages=passages)))
    take_over_endings(proposal, window, reading, decisions)


def take_over_endings(
    proposal: Proposal,
    window: Window,
    reading: WindowReading,
    decisions: Sequence[Decision],
    *,
    is_compared: bool = False,
) -> None:
    """Add the endings of a reading to `proposal`.

    Args:
        decisions: What those of passages do.
        is_compared: Whether the window was shown beside less trusted text; then only that text may end.
    """
    for ending in reading.endings:
        if ending.kind != "relationship":
            continue
        by, known = window.chunks[ending.by], window.relationships[ending.index]
        if may_end(by.source, known.sources) and known.last_observed <= by.said_at:
            proposal.relationship_endings.append(
                PlannedRelationshipEnding(
                    known, window.indices[ending.by], by.said_at, ending.on, ending.why, is_compared
                )
            )
    for ending, span, is_hard in decisions:
        by, chunk_id = window.chunks[ending.by], _over(window, ending).chunk_id
        proposal.endings.append(
            PlannedEnding(chunk_id, window.indices[ending.by], by.said_at, ending.why, span, is_hard)
        )


def possible_endings(window: Window, reading: WindowReading, *, is_compared: bool = False) -> list[ReadEnding]:
    """The endings of passages that may be, going by who said what when; what they do is decided elsewhere.

    A passage ends nothing that is more trusted or newer than itself, whatever the agent let through. It is as old
    as its words, but what it would end is only as old as the last update that kept it.

    Args:
        is_compared: Whether the window was shown beside less trusted text; then only that text may end.
    """
    possible = []
    for ending in reading.endings:
        if ending.kind == "relationship" or (is_compared and ending.kind == "new"):
            continue
        by, over = window.chunks[ending.by], _over(window, ending)
        # Parts of one chunk end each other only in words, of which the rest stays.
        is_another = over.chunk_id != by.chunk_id or ending.span is not None
        if is_another and may_end(by.source, [over.source]) and over.start_date <= by.said_at:
            possible.append(ending)
    return possible


def _over(window: Window, ending: ReadEnding) -> StoredChunk | NearChunk:
    """The passage that is said to be over."""
    return window.chunks[ending.index] if ending.kind == "new" else window.near[ending.index]


def may_restate(said: Sequence[StoredChunk], stated: PlannedRelationship, known: KnownPeriod) -> bool:
    """Whether a statement concerns a known relationship; see `restates`.

    Args:
        said: The chunks that state it.
    """
    statement = Statement(
        label=least_trusted(chunk.source for chunk in said),
        said=[date for chunk in said for date in chunk.said_dates],
        start_date=stated.start_date,
        end_date=stated.end_date,
    )
    return restates(statement, known)


def _plan_entity(window: Window, entity: ReadEntity) -> PlannedEntity:
    known = None if entity.known is None else window.named[entity.known]
    new_id = uuid7()
    return PlannedEntity(
        entity_id=new_id,
        key=name_key(entity.name),
        name=entity.name,
        # Recorded with the model's type: the source of the known one may be erased.
        type=entity.type,
        confidence=_confidence(window, entity.passages),
        passages=_indices(window, entity.passages),
        drafts=(new_id,),
        description=entity.description,
        aliases=entity.also_called,
        known_key=None if known is None else known.key,
        # Looked up by its known type, not the model's: another type would make it a different entity.
        known_type=None if known is None or known.type == ANY_TYPE else known.type,
        # It may only repeat the type that it was shown.
        is_guess=known is not None and known.is_guess and known.type == entity.type,
        is_other=entity.is_other,
    )


def _plan_relationship(window: Window, one: ReadRelationship, planned: Sequence[PlannedEntity]) -> PlannedRelationship:
    start = one.start
    if start is None:
        # It began when it was said; if it was over by then, before it ended.
        said_at = _said_at(window, one.passages)
        start = said_at if one.end is None else min(said_at, one.end)
    return PlannedRelationship(
        from_id=planned[one.who].entity_id,
        to_id=planned[one.whom].entity_id,
        type=one.relation,
        description=None,
        confidence=_confidence(window, one.passages),
        passages=_indices(window, one.passages),
        start_date=start,
        end_date=one.end,
    )


def _plan_fact(window: Window, fact: ReadFact) -> PlannedFact:
    return PlannedFact(
        text=fact.text.strip(),
        importance=fact.importance,
        confidence=_confidence(window, fact.passages),
        passages=_indices(window, fact.passages),
        # Before the last of its passages was said, nobody could conclude it. The sentence says when what it tells was,
        # is or will be; it holds until something replaces it.
        start_date=max(window.chunks[index].said_at for index in fact.passages),
    )


def _confidence(window: Window, passages: Sequence[int]) -> float:
    return min([DERIVED_CONFIDENCE, *(SOURCE_TRUST[window.chunks[index].source] for index in passages)])


def _said_at(window: Window, passages: Sequence[int]) -> datetime:
    return min(window.chunks[index].said_at for index in passages)


def _indices(window: Window, passages: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({window.indices[index] for index in passages}))
