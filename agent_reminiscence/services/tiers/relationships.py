"""Relationships of a consolidation: drafted, planned, and the changes of the graph that come of them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from typing import Final
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.database.repositories.graph.tables import KnownRelationship
from agent_reminiscence.domain.graph import TOGETHER, together_confidence
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import (
    ChunkRating,
    EntityEntry,
    GraphChanges,
    RelationshipEntry,
)
from agent_reminiscence.domain.trust import SOURCE_TRUST, SOURCES, Source, least_trusted
from agent_reminiscence.services.tiers.entities import PlannedEntity
from agent_reminiscence.text.names import Extract

# Maximum relationships of one consolidation, those mentioned most often.
MAX_PLAN_RELATIONSHIPS: Final = 5_000
# If a chunk names more, only the first ones are related to each other.
MAX_PAIRED_ENTITIES: Final = 8
# The most that can be said for a relationship that rules read from the form of a sentence.
RULES_CONFIDENCE: Final = 0.8

_FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PlannedRelationship:
    """A relationship of two planned entities, on its way to its entry in the event.

    Attributes:
        from_id: Of a draft at first; `plan_relationships` resolves both ends.
        passages: Indices of the chunks that state it.
    """

    from_id: UUID
    to_id: UUID
    type: str
    description: str | None
    confidence: float
    passages: tuple[int, ...]
    start_date: datetime
    end_date: datetime | None = None

    @property
    def ends(self) -> tuple[UUID, UUID]:
        """The ids of both entities."""
        return self.from_id, self.to_id


def draft_relationships(
    chunks: Sequence[StoredChunk], drafted: Sequence[PlannedEntity], read: Extract
) -> list[PlannedRelationship]:
    """The relationships that rules find stated in the new chunks.

    Args:
        chunks: The chunks that were read.
        drafted: Their entities.
        read: What rules found in them.
    """
    by_key = {entity.key: entity for entity in drafted}
    relationships = []
    for stated in read.relationships:
        source, target = by_key.get(stated.from_key), by_key.get(stated.to_key)
        new = tuple(index for index in stated.passages if chunks[index].tier == "active")
        if source is None or target is None or not new:
            continue
        trust = (SOURCE_TRUST[chunks[index].source] for index in new)
        relationships.append(
            PlannedRelationship(
                from_id=source.entity_id,
                to_id=target.entity_id,
                type=stated.type,
                description=None,
                confidence=min(RULES_CONFIDENCE, *trust),
                passages=new,
                start_date=min(chunks[index].said_at for index in new),
            )
        )
    return relationships


def leave_unread(drafted: Sequence[PlannedRelationship], read: Container[int]) -> list[PlannedRelationship]:
    """The relationships that rules find in chunks that no model has read.

    Args:
        read: Indices of the chunks that a model has read.
    """
    left = []
    for one in drafted:
        passages = tuple(index for index in one.passages if index not in read)
        if passages:
            left.append(replace(one, passages=passages))
    return left


def plan_relationships(
    drafted: Sequence[PlannedRelationship],
    planned: Sequence[PlannedEntity],
    sources: Sequence[Source],
) -> list[PlannedRelationship]:
    """The relationships that a model or rules read, each period of one once.

    Statements with different trust are not combined: a web page does not end what a user says.

    Args:
        sources: The trust labels of the memory's chunks.
    """
    entities = {draft: entity for entity in planned for draft in entity.drafts}
    found: dict[tuple[UUID, UUID, str, Source], list[PlannedRelationship]] = {}
    for one in drafted:
        source, target = entities.get(one.from_id), entities.get(one.to_id)
        # An end may have been dropped, and two names may belong to one entity.
        if source is None or target is None or source.canonical_id == target.canonical_id:
            continue
        stated = replace(one, from_id=source.entity_id, to_id=target.entity_id)
        label = least_trusted(sources[passage] for passage in one.passages)
        periods = found.setdefault((*stated.ends, one.type, label), [])
        apart = [period for period in periods if not _overlap(period, stated)]
        for period in periods:
            if period not in apart:
                stated = _unite(period, stated)
        periods[:] = [*apart, stated]
    # Most trusted and longest-lasting last: that one is matched with the known relationship, if there is one.
    ordered = [
        period
        for _, periods in sorted(found.items(), key=lambda item: -SOURCES.index(item[0][-1]))
        for period in sorted(periods, key=lambda one: one.end_date or _FOR_EVER)
    ]
    return ordered[-MAX_PLAN_RELATIONSHIPS:]


def _overlap(first: PlannedRelationship, second: PlannedRelationship) -> bool:
    """Whether two periods overlap or adjoin."""
    return first.start_date <= (second.end_date or _FOR_EVER) and second.start_date <= (first.end_date or _FOR_EVER)


def _unite(first: PlannedRelationship, second: PlannedRelationship) -> PlannedRelationship:
    # A stated end is better information than none.
    ends = [end for end in (first.end_date, second.end_date) if end is not None]
    return replace(
        first,
        description=first.description or second.description,
        confidence=max(first.confidence, second.confidence),
        passages=tuple(sorted({*first.passages, *second.passages})),
        start_date=min(first.start_date, second.start_date),
        end_date=max(ends, default=None),
    )


def find_pairs(
    planned: Sequence[PlannedEntity], stated: Sequence[PlannedRelationship] = ()
) -> dict[tuple[UUID, UUID], tuple[int, ...]]:
    """Which entities occur together in which passages, most frequent pairs first.

    Of a passage that names very many, probably a list, only the first count.

    Args:
        stated: Stated relationships; their pairs are left out because more is known about them than co-occurrence.
    """
    known = {frozenset(relationship.ends) for relationship in stated}
    named: dict[int, list[PlannedEntity]] = {}
    for entity in planned:
        for passage in entity.passages:
            named.setdefault(passage, []).append(entity)
    together: dict[tuple[UUID, UUID], list[int]] = {}
    for passage, entities in sorted(named.items()):
        for first, second in combinations(entities[:MAX_PAIRED_ENTITIES], 2):
            is_stated = frozenset((first.entity_id, second.entity_id)) in known
            if first.canonical_id != second.canonical_id and not is_stated:
                together.setdefault((first.entity_id, second.entity_id), []).append(passage)
    room = MAX_PLAN_RELATIONSHIPS - len(stated)
    best = sorted(together.items(), key=lambda item: -len(item[1]))[:room]
    return {pair: tuple(passages) for pair, passages in best}


def plan_graph(
    planned: Sequence[PlannedEntity],
    pairs: Mapping[tuple[UUID, UUID], tuple[int, ...]],
    existing: Sequence[KnownRelationship],
    ratings: Sequence[ChunkRating],
    stated: Sequence[PlannedRelationship] = (),
    known_ids: Mapping[tuple[UUID, UUID, str], UUID] | None = None,
) -> GraphChanges:
    """What to record: the entities, the pairs that occur together, and the relationships read about them.

    Args:
        existing: Existing relationships between entities of `pairs`, in either direction.
        stated: The relationships that a model or rules read.
        known_ids: Ids of those in `stated` that exist already, by both ends and type.
        ratings: The ratings of the memory's chunks, in order; a passage is an index into them.
    """
    importances = [rating.importance for rating in ratings]
    known = {frozenset((row.stated_from_id, row.stated_to_id)): row for row in existing}
    # Of several periods, the last one is matched with the known relationship.
    last = {(*one.ends, one.type): one for one in stated}
    known_ids = {key: found for key, found in (known_ids or {}).items() if key in last}
    relationships = [
        RelationshipEntry(
            id=known_ids.get((*one.ends, one.type), uuid7()) if last[(*one.ends, one.type)] is one else uuid7(),
            from_id=one.from_id,
            to_id=one.to_id,
            type=one.type,
            description=one.description,
            confidence=one.confidence,
            importance=max(importances[passage] for passage in one.passages),
            start_date=one.start_date,
            end_date=one.end_date,
            chunks=one.passages,
        )
        for one in stated
    ]
    for pair, passages in pairs.items():
        row = known.get(frozenset(pair))
        from_id, to_id = pair if row is None else (row.stated_from_id, row.stated_to_id)
        relationships.append(
            RelationshipEntry(
                id=uuid7() if row is None else row.relationship_id,
                from_id=from_id,
                to_id=to_id,
                type=TOGETHER,
                confidence=together_confidence(len(passages) + (0 if row is None else row.observations)),
                importance=max(importances[passage] for passage in passages),
                chunks=passages,
            )
        )
    entities = tuple(
        EntityEntry(
            id=entity.entity_id,
            name=entity.name,
            type=entity.type,
            description=entity.description,
            confidence=entity.confidence,
            importance=max(importances[passage] for passage in entity.passages),
            aliases=entity.aliases,
            is_guess=entity.is_guess,
            chunks=entity.passages,
        )
        for entity in planned
    )
    return GraphChanges(entities=entities, relationships=tuple(relationships))
