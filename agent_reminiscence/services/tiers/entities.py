"""What a memory adds to the graph: its names, which of them occur together, and what a model read about them.

Decided in two steps. The slow part, finding names and which known ones they resemble, is drafted without a lock. Which
entities the names belong to is looked up under the stream's lock, so that no other memory can add one at the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from uuid_utils.compat import uuid7

from agent_reminiscence.database.repositories.graph.tables import KnownEntityName
from agent_reminiscence.domain.graph import ANY_TYPE
from agent_reminiscence.domain.memory import StoredChunk
from agent_reminiscence.domain.payloads import EntitiesMerged
from agent_reminiscence.domain.trust import SOURCE_TRUST
from agent_reminiscence.services.graph.naming import find_fitting
from agent_reminiscence.text.folding import name_key
from agent_reminiscence.text.likeness import Match, NamedEntity, find_alike
from agent_reminiscence.text.name_lines import Passage
from agent_reminiscence.text.names import Extract, candidate_keys, extract

# Maximum entities of one consolidation, those mentioned most often.
MAX_PLAN_ENTITIES: Final = 2_000


@dataclass(frozen=True, slots=True)
class PlannedEntity:
    """An entity that a memory's new chunks name, on its way to its entry in the event.

    Attributes:
        entity_id: Its own until `resolve_entities` finds that it is a known entity.
        key: The key of its name.
        passages: Indices of the chunks that name it.
        drafts: The ids that it was drafted under; several if its drafts were combined.
        description: What a model says it is.
        aliases: Other names that the chunks use for it.
        known_key: The known name to look it up by, if not its own.
        known_type: The type to look it up as, if not its own.
        is_guess: Whether rules guessed its type; a guess makes no other entity of a known name.
        is_other: Whether it differs from every known entity of its name.
        likely: The known entity that its name most likely means, if the name is unknown.
        canonical_id: The entity after all merges; None until it is resolved.
    """

    entity_id: UUID
    key: str
    name: str
    type: str
    confidence: float
    passages: tuple[int, ...]
    drafts: tuple[UUID, ...]
    description: str | None = None
    aliases: tuple[str, ...] = ()
    known_key: str | None = None
    known_type: str | None = None
    is_guess: bool = False
    is_other: bool = False
    likely: Match | None = None
    canonical_id: UUID | None = None

    @property
    def sought_key(self) -> str:
        """The name key it is looked up by."""
        return self.known_key or self.key

    @property
    def sought_type(self) -> str:
        """The type it is looked up as."""
        return self.known_type or self.type


def keys_to_look_up(chunks: Sequence[StoredChunk]) -> list[str]:
    """The keys of possible known names in the new chunks."""
    return candidate_keys("\n".join(chunk.content for chunk in chunks if _is_new(chunk)))


def read_names(chunks: Sequence[StoredChunk], known: Sequence[KnownEntityName]) -> Extract:
    """What rules find in a memory's chunks.

    Args:
        chunks: All chunks of the memory that have not ended for good, in text order.
        known: Entities' names for `keys_to_look_up`, most mentioned entities first.
    """
    passages = [Passage(chunk.content, chunk.speaker) for chunk in chunks]
    return extract(passages, known={row.key: row.type for row in reversed(known)})


def draft_entities(chunks: Sequence[StoredChunk], read: Extract) -> list[PlannedEntity]:
    """The entities that a memory's new chunks name.

    Chunks consolidated earlier help to recognise names but are not read again.

    Args:
        read: What `read_names` found in the chunks.
    """
    drafted = []
    for found in read.entities:
        new = tuple(index for index in found.passages if _is_new(chunks[index]))
        if new:
            # A mention is only as certain as its source is trusted.
            trust = max(SOURCE_TRUST[chunks[index].source] for index in new)
            confidence = min(found.confidence, trust)
            new_id = uuid7()
            is_guess = found.is_guess and found.type != ANY_TYPE
            drafted.append(
                PlannedEntity(new_id, found.key, found.name, found.type, confidence, new, (new_id,), is_guess=is_guess)
            )
    best = sorted(drafted, key=lambda entity: -len(entity.passages))
    chosen = {entity.entity_id for entity in best[:MAX_PLAN_ENTITIES]}
    return [entity for entity in drafted if entity.entity_id in chosen]


def find_unknown(drafted: Sequence[PlannedEntity], known: Sequence[KnownEntityName]) -> list[PlannedEntity]:
    """The drafts whose names are unknown."""
    keys = {row.key for row in known}
    return [entity for entity in drafted if entity.sought_key not in keys and not entity.is_other]


def beginnings_of(unknown: Sequence[PlannedEntity]) -> set[str]:
    """The first characters of names; similar names begin alike."""
    return {entity.key.removeprefix("the ")[:1] for entity in unknown}


def find_likely(
    drafted: Sequence[PlannedEntity], unknown: Sequence[PlannedEntity], known: Sequence[KnownEntityName]
) -> list[PlannedEntity]:
    """`drafted`, with the known entity that each unknown name most likely means."""
    passages = {entity.key: frozenset(entity.passages) for entity in drafted}
    new = [
        NamedEntity(entity.entity_id, (entity.key,), entity.name, entity.type, passages[entity.key])
        for entity in unknown
    ]
    likely = {match.new_id: match for match in find_alike(new, _known_entities(known, passages))}
    return [replace(entity, likely=likely.get(entity.entity_id)) for entity in drafted]


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


def resolve_entities(drafted: Sequence[PlannedEntity], known: Sequence[KnownEntityName]) -> list[PlannedEntity]:
    """The entity of each drafted name, once: the known one with that name and a fitting type, else a new one.

    Args:
        known: Entities' current names for the drafted keys, most mentioned entities first.
    """
    by_key: dict[str, list[KnownEntityName]] = {}
    for row in known:
        by_key.setdefault(row.key, []).append(row)
    planned: dict[UUID, PlannedEntity] = {}
    for entity in drafted:
        known_one = None if entity.is_other else _find_known(entity, by_key.get(entity.sought_key, []))
        if known_one is None:
            resolved = replace(entity, canonical_id=entity.entity_id)
        else:
            resolved = replace(entity, entity_id=known_one.entity_id, canonical_id=known_one.canonical_id, likely=None)
        same = planned.get(resolved.entity_id)
        # Otherwise the text has two of its names.
        planned[resolved.entity_id] = resolved if same is None else _unite(same, resolved)
    return list(planned.values())


def _find_known(entity: PlannedEntity, named: Sequence[KnownEntityName]) -> KnownEntityName | None:
    """The known entity that a draft means; a guessed type never makes it another one."""
    fitting = find_fitting(entity.sought_type, named)
    return find_fitting(ANY_TYPE, named) if fitting is None and entity.is_guess else fitting


def _unite(first: PlannedEntity, second: PlannedEntity) -> PlannedEntity:
    return replace(
        first,
        confidence=max(first.confidence, second.confidence),
        passages=tuple(sorted({*first.passages, *second.passages})),
        drafts=(*first.drafts, *second.drafts),
        description=first.description or second.description,
        aliases=tuple(dict.fromkeys((*first.aliases, second.name, *second.aliases))),
    )


def combine(drafted: Iterable[PlannedEntity]) -> list[PlannedEntity]:
    """Combine drafts of the same entity from several readers of one text, by name or by one's alias for another.

    Two drafts that share an alias stay separate, and so does an alias that fits several: there may be two Marias.
    """
    combined: dict[UUID, PlannedEntity] = {}
    by_name: defaultdict[str, list[UUID]] = defaultdict(list)
    by_alias: defaultdict[str, list[UUID]] = defaultdict(list)
    for entity in drafted:
        names = {entity.sought_key, entity.key}
        aliases = set(map(name_key, entity.aliases)) - names
        same = None
        if not entity.is_other:
            named_so = [combined[whole_id] for name in (entity.sought_key, entity.key) for whole_id in by_name[name]]
            called_so = {whole_id for name in names for whole_id in by_alias[name]}
            called_so |= {whole_id for alias in aliases for whole_id in by_name[alias]}
            same = _find_same(entity, named_so) or _find_only_one(entity, [combined[one] for one in called_so])
        whole = entity if same is None else _join(same, entity)
        combined[whole.entity_id] = whole
        if not entity.is_other:
            for name in names:
                by_name[name].append(whole.entity_id)
            for alias in aliases:
                by_alias[alias].append(whole.entity_id)
    return list(combined.values())[:MAX_PLAN_ENTITIES]


def _find_same(entity: PlannedEntity, others: Iterable[PlannedEntity]) -> PlannedEntity | None:
    return next((other for other in others if _is_same_type(other, entity)), None)


def _find_only_one(entity: PlannedEntity, others: Iterable[PlannedEntity]) -> PlannedEntity | None:
    fitting = [other for other in others if _is_same_type(other, entity)]
    return fitting[0] if len(fitting) == 1 else None


def _is_same_type(first: PlannedEntity, second: PlannedEntity) -> bool:
    types = {first.sought_type, second.sought_type}
    return len(types) == 1 or ANY_TYPE in types or first.is_guess or second.is_guess


def _join(first: PlannedEntity, second: PlannedEntity) -> PlannedEntity:
    whole = _unite(first, second)
    meant = first if first.known_key is not None else second
    # The first sure type, else the first guess.
    typed = min((first, second), key=lambda entity: (entity.type == ANY_TYPE, entity.is_guess))
    return replace(
        whole,
        type=typed.type,
        is_guess=typed.is_guess,
        aliases=tuple(name for name in whole.aliases if name != whole.name),
        known_key=meant.known_key,
        known_type=meant.known_type,
    )


def left_to_rules(
    drafted: Sequence[PlannedEntity], proposed: Sequence[PlannedEntity], read: Container[int], sure: Container[str]
) -> list[PlannedEntity]:
    """The names found by rules that count although a model has read some of the chunks.

    In those chunks only names that the rules are sure of count, unless the model says that another entity is meant.

    Args:
        proposed: What the model found.
        read: Indices of the chunks that it read.
        sure: Known names, and speakers' names.
    """
    others = {entity.sought_key for entity in proposed if entity.is_other}
    left = []
    for entity in drafted:
        is_sure = entity.key in sure and entity.key not in others
        passages = tuple(index for index in entity.passages if is_sure or index not in read)
        if passages:
            left.append(replace(entity, passages=passages))
    return left


def plan_merges(planned: Sequence[PlannedEntity]) -> list[EntitiesMerged]:
    """New entities that most likely are known ones under another spelling."""
    return [
        EntitiesMerged(
            survivor_id=entity.likely.known_id, merged_id=entity.entity_id, reason="alike", score=entity.likely.score
        )
        for entity in planned
        if entity.likely is not None
    ]


def _is_new(chunk: StoredChunk) -> bool:
    """Whether no consolidation has read the chunk yet."""
    return chunk.tier == "active"
