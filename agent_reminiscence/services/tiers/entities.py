"""What a memory adds to the graph: its names, which of them occur together, and what a model read about them.

Decided in two steps. The slow part, finding names and which known ones they resemble, is drafted without a lock. Which
entities the names belong to is looked up under the stream's lock, so that no other memory can add one at the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.config import constants
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName
from agent_reminiscence.domain.event import (
    EntitiesMerged,
)
from agent_reminiscence.domain.graph import ANY_TYPE
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.trust import SOURCE_TRUST
from agent_reminiscence.text.folding import name_key
from agent_reminiscence.text.likeness import NamedEntity, find_alike
from agent_reminiscence.text.name_lines import Passage
from agent_reminiscence.text.names import ExtractedEntity, candidate_keys, extract_entities


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
            trust = max(SOURCE_TRUST[chunks[place].source] for place in new)
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


def _is_new(chunk: StoredChunk) -> bool:
    """Whether no consolidation has read the chunk yet."""
    return chunk.tier == "active"
