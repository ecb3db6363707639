"""What a memory adds to the graph, without a model: the names in it, and which of them stand together.

Decided in two steps. What takes long, to find the names and whom they are like, is drafted while nobody waits. Which
entities the names belong to is looked up under the stream's lock, where no other memory can add one at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.config import constants
from agent_reminiscence.database.repositories.entity_graph import KnownEntityName, KnownRelationship
from agent_reminiscence.domain.event import (
    ChunkRating,
    EntitiesMerged,
    EntityEntry,
    GraphChanges,
    RelationshipEntry,
)
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.services.extraction import ExtractedEntity, Passage, candidate_keys, extract_entities
from agent_reminiscence.services.likeness import NamedEntity, find_alike

# An entity of this type may turn out to be of any other.
_ANY_TYPE = "other"
TOGETHER = "related_to"


@dataclass(frozen=True, slots=True)
class Likely:
    """A known entity that a new name most likely means."""

    entity_id: UUID
    score: float


@dataclass(frozen=True, slots=True)
class DraftedEntity:
    """A name that a memory's new chunks have, and the id of its entity if nobody knows the name."""

    new_id: UUID
    extracted: ExtractedEntity
    likely: Likely | None = None


@dataclass(frozen=True, slots=True)
class PlannedEntity:
    """An entity that a memory's new chunks name, with the ids that it has: as stated, and with all merges."""

    entity_id: UUID
    canonical_id: UUID
    name: str
    type: str
    confidence: float
    passages: tuple[int, ...]
    aliases: tuple[str, ...] = ()


def keys_to_look_up(chunks: Sequence[StoredChunk]) -> list[str]:
    """What might be a name that is known already, in the chunks that are new."""
    return candidate_keys("\n".join(chunk.content for chunk in chunks if _is_new(chunk)))


def draft_entities(chunks: Sequence[StoredChunk], known: Sequence[KnownEntityName]) -> list[DraftedEntity]:
    """The entities that a memory's new chunks name.

    Chunks that were consolidated before help to tell what is a name, and are not read again.

    Args:
        chunks: All of the memory that have not ended for good, in the order of the text.
        known: Names of `keys_to_look_up` that entities have, those of the most mentioned first.
    """
    passages = [Passage(chunk.content, chunk.speaker) for chunk in chunks]
    drafted = []
    for found in extract_entities(passages, known={row.key: row.type for row in reversed(known)}):
        new = tuple(place for place in found.passages if _is_new(chunks[place]))
        if new:
            drafted.append(DraftedEntity(uuid7(), replace(found, passages=new)))
    best = sorted(drafted, key=lambda entity: -len(entity.extracted.passages))
    chosen = {entity.new_id for entity in best[: constants.MAX_PLAN_ENTITIES]}
    return [entity for entity in drafted if entity.new_id in chosen]


def find_unknown(drafted: Sequence[DraftedEntity], known: Sequence[KnownEntityName]) -> list[DraftedEntity]:
    """Those whose names nobody knows."""
    keys = {row.key for row in known}
    return [entity for entity in drafted if entity.extracted.key not in keys]


def beginnings_of(unknown: Sequence[DraftedEntity]) -> set[str]:
    """The first characters of names; what is like one of them begins as it does."""
    return {entity.extracted.key.removeprefix("the ")[:1] for entity in unknown}


def find_likely(
    drafted: Sequence[DraftedEntity], unknown: Sequence[DraftedEntity], known: Sequence[KnownEntityName]
) -> list[DraftedEntity]:
    """`drafted`, with the known entity that each unknown name most likely means."""
    passages = {entity.extracted.key: frozenset(entity.extracted.passages) for entity in drafted}
    new = [
        NamedEntity(
            id=entity.new_id,
            keys=(entity.extracted.key,),
            name=entity.extracted.name,
            type=entity.extracted.type,
            passages=passages[entity.extracted.key],
        )
        for entity in unknown
    ]
    likely = {
        match.new_id: Likely(match.known_id, match.score) for match in find_alike(new, _known_entities(known, passages))
    }
    return [replace(entity, likely=likely.get(entity.new_id)) for entity in drafted]


def _known_entities(rows: Iterable[KnownEntityName], passages: Mapping[str, frozenset[int]]) -> list[NamedEntity]:
    """Each known entity once, with all its names and where the text at hand has them."""
    by_entity: dict[UUID, dict[str, KnownEntityName]] = {}
    for row in rows:
        by_entity.setdefault(row.canonical_id, {})[row.key] = row
    return [
        NamedEntity(
            entity_id,
            tuple(names),
            next(iter(names.values())).name,
            next(iter(names.values())).type,
            frozenset().union(*(passages.get(key, frozenset()) for key in names)),
        )
        for entity_id, names in by_entity.items()
    ]


def resolve_entities(drafted: Sequence[DraftedEntity], known: Sequence[KnownEntityName]) -> list[PlannedEntity]:
    """The entity of each drafted name, once: the known one of that name whose type fits, else a new one.

    Args:
        known: Names of the drafted keys that entities have now, those of the most mentioned first.
    """
    by_key: dict[str, list[KnownEntityName]] = {}
    for row in known:
        by_key.setdefault(row.key, []).append(row)
    planned: dict[UUID, PlannedEntity] = {}
    for entity in drafted:
        found = entity.extracted
        same_name = _fitting(found.type, by_key.get(found.key, []))
        entity_id = entity.new_id if same_name is None else same_name.entity_id
        canonical_id = entity.new_id if same_name is None else same_name.canonical_id
        same = planned.get(entity_id)
        if same is None:
            planned[entity_id] = PlannedEntity(
                entity_id, canonical_id, found.name, found.type, found.confidence, found.passages
            )
        else:
            # Two of its names in one text.
            planned[entity_id] = replace(
                same,
                confidence=max(same.confidence, found.confidence),
                passages=tuple(sorted({*same.passages, *found.passages})),
                aliases=(*same.aliases, found.name),
            )
    return list(planned.values())


def _fitting(type_: str, rows: Sequence[KnownEntityName]) -> KnownEntityName | None:
    """The first of the same type, else the first of an open one; where the type asked for is open, the first of all."""
    if type_ == _ANY_TYPE:
        return next(iter(rows), None)
    fitting = [row for row in rows if row.type in (type_, _ANY_TYPE)]
    return min(fitting, key=lambda row: row.type != type_, default=None)


def find_pairs(planned: Sequence[PlannedEntity]) -> dict[tuple[UUID, UUID], tuple[int, ...]]:
    """Which entities stand together in which passages, those that do so most often first.

    Of a passage that names very many, a list most likely, only the first count.
    """
    named: dict[int, list[PlannedEntity]] = {}
    for entity in planned:
        for passage in entity.passages:
            named.setdefault(passage, []).append(entity)
    together: dict[tuple[UUID, UUID], list[int]] = {}
    for passage, entities in sorted(named.items()):
        for first, second in combinations(entities[: constants.MAX_PAIRED_ENTITIES], 2):
            if first.canonical_id != second.canonical_id:
                together.setdefault((first.entity_id, second.entity_id), []).append(passage)
    best = sorted(together.items(), key=lambda item: -len(item[1]))[: constants.MAX_PLAN_RELATIONSHIPS]
    return {pair: tuple(passages) for pair, passages in best}


def plan_graph(
    planned: Sequence[PlannedEntity],
    pairs: Mapping[tuple[UUID, UUID], tuple[int, ...]],
    existing: Sequence[KnownRelationship],
    ratings: Sequence[ChunkRating],
) -> GraphChanges:
    """What to record of entities, and of those that stand together.

    Args:
        existing: Relationships between entities of `pairs` that there are already, whichever way they point.
        ratings: Of the memory's chunks, in order; a passage is a place among them.
    """
    importances = [rating.importance for rating in ratings]
    known = {frozenset((row.stated_from_id, row.stated_to_id)): row for row in existing}
    relationships = []
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
            confidence=entity.confidence,
            importance=max(importances[passage] for passage in entity.passages),
            aliases=entity.aliases,
            chunks=entity.passages,
        )
        for entity in planned
    )
    return GraphChanges(entities=entities, relationships=tuple(relationships))


def plan_merges(drafted: Sequence[DraftedEntity], planned: Sequence[PlannedEntity]) -> list[EntitiesMerged]:
    """New entities that most likely are known ones under another spelling."""
    new = {entity.entity_id for entity in planned}
    return [
        EntitiesMerged(
            survivor_id=entity.likely.entity_id, merged_id=entity.new_id, reason="alike", score=entity.likely.score
        )
        for entity in drafted
        if entity.likely is not None and entity.new_id in new
    ]


def together_confidence(observations: int) -> float:
    """How sure it is that two names have to do with each other that stand together in so many chunks.

    0.3 at first, 0.45 at the second time, and never above 0.6: standing together says that, and not what it is.
    """
    grown = 1 - 0.5 ** (observations - 1)
    return round(constants.TOGETHER_CONFIDENCE + constants.TOGETHER_CONFIDENCE_GROWTH * grown, 6)


def _is_new(chunk: StoredChunk) -> bool:
    """Whether no consolidation has read the chunk yet."""
    return chunk.tier == "active"
