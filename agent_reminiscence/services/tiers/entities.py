"""What a memory adds to the graph: its names, which of them occur together, and what a model read about them.

Decided in two steps. The slow part, finding names and which known ones they resemble, is drafted without a lock. Which
entities the names belong to is looked up under the stream's lock, so that no other memory can add one at the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import SOURCES, Source, least_trusted
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName, KnownRelationship
from agent_reminiscence.domain.event import (
    ChunkRating,
    EntitiesMerged,
    EntityEntry,
    GraphChanges,
    RelationshipEntry,
)
from agent_reminiscence.domain.graph import name_key
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.text.likeness import NamedEntity, find_alike
from agent_reminiscence.text.names import ExtractedEntity, Passage, candidate_keys, extract_entities

# An entity of this type may turn out to be of any other.
ANY_TYPE = "other"
TOGETHER = "related_to"
_FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Likely:
    """A known entity that a new name most likely means."""

    entity_id: UUID
    score: float


@dataclass(frozen=True, slots=True)
class DraftedEntity:
    """A name in a memory's new chunks, and the id for its entity if the name is unknown.

    Attributes:
        description: What a model says it is.
        aliases: Other names that the chunks use for it.
        known_key: The known name to look it up by, if not its own.
        known_type: The type to look it up as, if not its own.
        is_other: Whether it differs from every known entity of its name.
    """

    new_id: UUID
    extracted: ExtractedEntity
    likely: Likely | None = None
    description: str | None = None
    aliases: tuple[str, ...] = ()
    known_key: str | None = None
    known_type: str | None = None
    is_other: bool = False

    @property
    def key(self) -> str:
        """The name key it is looked up by."""
        return self.known_key or self.extracted.key

    @property
    def type(self) -> str:
        """The type it is looked up as."""
        return self.known_type or self.extracted.type


@dataclass(frozen=True, slots=True)
class DraftedRelationship:
    """A relationship of two drafted entities, by their draft ids."""

    from_id: UUID
    to_id: UUID
    type: str
    description: str | None
    confidence: float
    passages: tuple[int, ...]
    start_date: datetime
    end_date: datetime | None


@dataclass(frozen=True, slots=True)
class PlannedEntity:
    """An entity that a memory's new chunks name, with its ids: as stated, and after all merges.

    Attributes:
        drafts: The ids it was drafted under.
    """

    entity_id: UUID
    canonical_id: UUID
    name: str
    type: str
    confidence: float
    passages: tuple[int, ...]
    drafts: tuple[UUID, ...]
    description: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedRelationship:
    """A relationship of two planned entities."""

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


def keys_to_look_up(chunks: Sequence[StoredChunk]) -> list[str]:
    """The keys of possible known names in the new chunks."""
    return candidate_keys("\n".join(chunk.content for chunk in chunks if _is_new(chunk)))


def draft_entities(chunks: Sequence[StoredChunk], known: Sequence[KnownEntityName]) -> list[DraftedEntity]:
    """The entities that a memory's new chunks name.

    Chunks consolidated earlier help to recognise names but are not read again.

    Args:
        chunks: All chunks of the memory that have not ended for good, in text order.
        known: Entities' names for `keys_to_look_up`, most mentioned entities first.
    """
    passages = [Passage(chunk.content, chunk.speaker) for chunk in chunks]
    drafted = []
    for found in extract_entities(passages, known={row.key: row.type for row in reversed(known)}):
        new = tuple(place for place in found.passages if _is_new(chunks[place]))
        if new:
            # A mention is only as certain as its source is trusted.
            trust = max(constants.SOURCE_TRUST[chunks[place].source] for place in new)
            bounded = replace(found, passages=new, confidence=min(found.confidence, trust))
            drafted.append(DraftedEntity(uuid7(), bounded))
    best = sorted(drafted, key=lambda entity: -len(entity.extracted.passages))
    chosen = {entity.new_id for entity in best[: constants.MAX_PLAN_ENTITIES]}
    return [entity for entity in drafted if entity.new_id in chosen]


def find_unknown(drafted: Sequence[DraftedEntity], known: Sequence[KnownEntityName]) -> list[DraftedEntity]:
    """The drafts whose names are unknown."""
    keys = {row.key for row in known}
    return [entity for entity in drafted if entity.key not in keys and not entity.is_other]


def beginnings_of(unknown: Sequence[DraftedEntity]) -> set[str]:
    """The first characters of names; similar names begin alike."""
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
    """Each known entity once, with all its names and where this text has them."""
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
    """The entity of each drafted name, once: the known one with that name and a fitting type, else a new one.

    Args:
        known: Entities' current names for the drafted keys, most mentioned entities first.
    """
    by_key: dict[str, list[KnownEntityName]] = {}
    for row in known:
        by_key.setdefault(row.key, []).append(row)
    planned: dict[UUID, PlannedEntity] = {}
    for entity in drafted:
        found = entity.extracted
        same_name = None if entity.is_other else _fitting(entity.type, by_key.get(entity.key, []))
        entity_id = entity.new_id if same_name is None else same_name.entity_id
        canonical_id = entity.new_id if same_name is None else same_name.canonical_id
        same = planned.get(entity_id)
        if same is None:
            planned[entity_id] = PlannedEntity(
                entity_id,
                canonical_id,
                found.name,
                found.type,
                found.confidence,
                found.passages,
                (entity.new_id,),
                entity.description,
                entity.aliases,
            )
        else:
            # The text has two of its names.
            planned[entity_id] = replace(
                same,
                confidence=max(same.confidence, found.confidence),
                passages=tuple(sorted({*same.passages, *found.passages})),
                drafts=(*same.drafts, entity.new_id),
                description=same.description or entity.description,
                aliases=tuple(dict.fromkeys((*same.aliases, found.name, *entity.aliases))),
            )
    return list(planned.values())


def combine(drafted: Iterable[DraftedEntity]) -> tuple[list[DraftedEntity], dict[UUID, UUID]]:
    """Combine drafts of the same entity from several readers of one text, by name or by one's alias for another.

    Two drafts that share an alias stay separate, and so does an alias that fits several: there may be two Marias.

    Returns:
        The combined drafts, and for each given draft's id, the id of the one it became part of.
    """
    combined: dict[UUID, DraftedEntity] = {}
    by_name: defaultdict[str, list[UUID]] = defaultdict(list)
    by_alias: defaultdict[str, list[UUID]] = defaultdict(list)
    became: dict[UUID, UUID] = {}
    for entity in drafted:
        names = {entity.key, entity.extracted.key}
        aliases = set(map(name_key, entity.aliases)) - names
        same = None
        if not entity.is_other:
            named_so = [combined[new_id] for name in (entity.key, entity.extracted.key) for new_id in by_name[name]]
            called_so = {new_id for name in names for new_id in by_alias[name]}
            called_so |= {new_id for alias in aliases for new_id in by_name[alias]}
            same = _find_same(entity, named_so) or _find_only_one(entity, [combined[new_id] for new_id in called_so])
        whole_id = entity.new_id if same is None else same.new_id
        combined[whole_id] = entity if same is None else _join(same, entity)
        became[entity.new_id] = whole_id
        if not entity.is_other:
            for name in names:
                by_name[name].append(whole_id)
            for alias in aliases:
                by_alias[alias].append(whole_id)
    return list(combined.values())[: constants.MAX_PLAN_ENTITIES], became


def _find_same(entity: DraftedEntity, others: Iterable[DraftedEntity]) -> DraftedEntity | None:
    return next((other for other in others if _is_same_type(other, entity)), None)


def _find_only_one(entity: DraftedEntity, others: Iterable[DraftedEntity]) -> DraftedEntity | None:
    fitting = [other for other in others if _is_same_type(other, entity)]
    return fitting[0] if len(fitting) == 1 else None


def _is_same_type(first: DraftedEntity, second: DraftedEntity) -> bool:
    types = {first.type, second.type}
    return len(types) == 1 or ANY_TYPE in types


def _join(first: DraftedEntity, second: DraftedEntity) -> DraftedEntity:
    mine, other = first.extracted, second.extracted
    names = dict.fromkeys((*first.aliases, other.name, *second.aliases))
    meant = first if first.known_key is not None else second
    return replace(
        first,
        extracted=replace(
            mine,
            type=other.type if mine.type == ANY_TYPE else mine.type,
            confidence=max(mine.confidence, other.confidence),
            passages=tuple(sorted({*mine.passages, *other.passages})),
        ),
        description=first.description or second.description,
        aliases=tuple(name for name in names if name != mine.name),
        known_key=meant.known_key,
        known_type=meant.known_type,
    )


def _fitting(type_: str, rows: Sequence[KnownEntityName]) -> KnownEntityName | None:
    """The first of the same type, else the first of an open type; if the requested type is open, the first of all."""
    if type_ == ANY_TYPE:
        return next(iter(rows), None)
    fitting = [row for row in rows if row.type in (type_, ANY_TYPE)]
    return min(fitting, key=lambda row: row.type != type_, default=None)


def left_to_rules(
    drafted: Sequence[DraftedEntity], reading: Sequence[DraftedEntity], places: Container[int], sure: Container[str]
) -> list[DraftedEntity]:
    """The names found by rules that count although a model has read some of the chunks.

    In those chunks only names that the rules are sure of count, unless the model says that another entity is meant.

    Args:
        reading: What the model found.
        places: Indexes of the chunks that it read.
        sure: Known names, and speakers' names.
    """
    others = {entity.key for entity in reading if entity.is_other}
    left = []
    for entity in drafted:
        is_sure = entity.key in sure and entity.key not in others
        passages = tuple(place for place in entity.extracted.passages if is_sure or place not in places)
        if passages:
            left.append(replace(entity, extracted=replace(entity.extracted, passages=passages)))
    return left


def plan_relationships(
    drafted: Sequence[DraftedRelationship],
    became: Mapping[UUID, UUID],
    planned: Sequence[PlannedEntity],
    sources: Sequence[Source],
) -> list[PlannedRelationship]:
    """The relationships a model read, each period of one once.

    Statements with different trust are not combined: a web page does not end what a user says.

    Args:
        became: For each drafted entity's id, the id of the one it became part of, from `combine`.
        sources: The trust labels of the memory's chunks.
    """
    by_draft = {draft: entity for entity in planned for draft in entity.drafts}
    entities = {draft: by_draft[whole] for draft, whole in became.items() if whole in by_draft}
    found: dict[tuple[UUID, UUID, str, Source], list[PlannedRelationship]] = {}
    for one in drafted:
        source, target = entities.get(one.from_id), entities.get(one.to_id)
        # An end may have been dropped, and two names may belong to one entity.
        if source is None or target is None or source.canonical_id == target.canonical_id:
            continue
        key = (source.entity_id, target.entity_id, one.type)
        stated = PlannedRelationship(*key, one.description, one.confidence, one.passages, one.start_date, one.end_date)
        label = least_trusted(sources[passage] for passage in one.passages)
        periods = found.setdefault((*key, label), [])
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
    return ordered[-constants.MAX_PLAN_RELATIONSHIPS :]


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
        for first, second in combinations(entities[: constants.MAX_PAIRED_ENTITIES], 2):
            is_stated = frozenset((first.entity_id, second.entity_id)) in known
            if first.canonical_id != second.canonical_id and not is_stated:
                together.setdefault((first.entity_id, second.entity_id), []).append(passage)
    room = constants.MAX_PLAN_RELATIONSHIPS - len(stated)
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
        stated: The relationships a model read.
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
    """How certain it is that two names that occur together in so many chunks are related.

    0.3 the first time, 0.45 the second, and never above 0.6: co-occurrence shows that they are related, not how.
    """
    grown = 1 - 0.5 ** (observations - 1)
    return round(constants.TOGETHER_CONFIDENCE + constants.TOGETHER_CONFIDENCE_GROWTH * grown, 6)


def _is_new(chunk: StoredChunk) -> bool:
    """Whether no consolidation has read the chunk yet."""
    return chunk.tier == "active"
