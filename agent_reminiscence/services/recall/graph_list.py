"""What a query's names reach in the graph: from the entities it names, up to two hops away."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from agent_reminiscence.config import constants
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.repositories.graph.store import (
    EntityOutline,
    GraphFilter,
    GraphOutline,
    GraphStore,
    RelationshipOutline,
)
from agent_reminiscence.database.repositories.graph.tables import KnownEntityName
from agent_reminiscence.database.repositories.repositories import Repositories
from agent_reminiscence.database.repositories.search import (
    Evidence,
    GraphWeights,
    SearchedStream,
)
from agent_reminiscence.domain.graph import TOGETHER, Entity, Relationship, strength, together_confidence
from agent_reminiscence.domain.retrieval import EntityHit, Omission, RelationshipHit
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.exceptions import StoreError, StoreTimeoutError
from agent_reminiscence.resilience.breaker import Breaker
from agent_reminiscence.services.memories.admission import Admission
from agent_reminiscence.services.recall.activation import Activation, activate, rarity
from agent_reminiscence.text.names import candidate_keys, mentioned_keys

_logger = logging.getLogger("agent_reminiscence.graph")

# How far recall follows the graph from the entities a query names, and how much it reads: relationships per entity,
# strongest first, and entities and relationships in total.
RECALL_HOPS: Final = 2
RECALL_FAN_OUT: Final = 10
RECALL_MAX_ENTITIES: Final = 40
RECALL_MAX_RELATIONSHIPS: Final = 80
# Maximum starting entities: several may share a name.
RECALL_SEEDS: Final = 10
# How many mentions are examined in a search of an earlier time, when most may not have existed yet.
RECALL_PAST_MENTIONS: Final = 500
# The graph's share of its weight if it reaches nothing beyond the named entities, and the weight something beyond them
# needs for the full share: about what a name in a single chunk passes to the only other name there, if both are rare.
GRAPH_NAMED_SHARE: Final = 0.1
GRAPH_CERTAIN_WEIGHT: Final = 0.15
# Up to this certainty the graph counts for nothing; above it, in proportion. Around a name that many chunks mention,
# much is unrelated to the question, yet each bit of it gets nearly as much weight as the best.
GRAPH_CERTAIN_FROM: Final = 0.2
# Maximum entities and relationships in a result.
RESULT_ENTITIES: Final = 10
RESULT_RELATIONSHIPS: Final = 10
# How long opening a memory waits for a first answer of a separate server.
_WARM_SECONDS: Final = 2.0
_NOBODY: Final = UUID(int=0)
# Recall ignores a graph store that is more events than this behind the ledger.
GRAPH_MAX_LAG_EVENTS: Final = 100
# Minimum interval between log messages about a slow graph.
GRAPH_LOG_SECONDS: Final = 60.0

DEADLINE = Omission(reason="graph_deadline", count=1)
# How much of the graph recall looks at.
RECALL_CAPS = GraphFilter(
    fan_out=RECALL_FAN_OUT,
    max_entities=RECALL_MAX_ENTITIES,
    max_relationships=RECALL_MAX_RELATIONSHIPS,
)


class GraphServer(NamedTuple):
    """A separate server that follows the graph in Postgres.

    Attributes:
        breaker: Says whether to call it. It belongs to recall alone and tolerates a single missed deadline, because
            recall's patience says little about the server.
    """

    graph: GraphStore
    breaker: Breaker


class Named(NamedTuple):
    """The entities that a question names.

    Attributes:
        entity_ids: Canonical ones, in the order of the question; for one name, the most mentioned first. Not empty.
        stream: What was read of the stream with them.
        names: Of these entities, which the question may name by aliases. Empty for another moment: an alias may have
            been learned later.
    """

    request: SearchRequest
    entity_ids: Sequence[UUID]
    stream: SearchedStream
    names: Sequence[str] = ()


class Reached(NamedTuple):
    """What lies around the entities that a question names, or why that is left out: Postgres took too long."""

    named: Named
    outline: GraphOutline | Omission


class GraphPart(NamedTuple):
    """What the graph adds to a search.

    Attributes:
        weights: None if it adds nothing.
        entities: Best first, like the relationships.
        omitted: Why it adds nothing, although the question names an entity.
    """

    weights: GraphWeights | None = None
    entities: tuple[EntityHit, ...] = ()
    relationships: tuple[RelationshipHit, ...] = ()
    omitted: tuple[Omission, ...] = ()


NO_GRAPH = GraphPart()


def merged_graph(parts: Sequence[GraphPart]) -> GraphPart:
    """The entities and relationships that the graphs of several memories show; their weights are in the ranking."""
    entities = sorted((hit for part in parts for hit in part.entities), key=lambda hit: (-hit.score, hit.hops, hit.id))
    shown = {hit.id for hit in entities[:RESULT_ENTITIES]}
    relationships = [hit for part in parts for hit in part.relationships if {hit.from_id, hit.to_id} <= shown]
    relationships.sort(key=lambda hit: (-hit.score, hit.hops, hit.id))
    return GraphPart(
        entities=tuple(entities[:RESULT_ENTITIES]),
        relationships=tuple(relationships[:RESULT_RELATIONSHIPS]),
        omitted=tuple(dict.fromkeys(omission for part in parts for omission in part.omitted)),
    )


def mentioned_names(
    question: str, rows: Sequence[KnownEntityName], speakers: Collection[str] = ()
) -> tuple[list[str], list[UUID]]:
    """The names that a question mentions, as keys, and the entities that have them, each once, in order.

    Args:
        rows: Known names that it may mean.
        speakers: Keys of names under which somebody has spoken.
    """
    known = dict.fromkeys(speakers, "person") | {row.key: row.type for row in reversed(rows)}
    by_key: defaultdict[str, list[UUID]] = defaultdict(list)
    for row in rows:
        by_key[row.key].append(row.canonical_id)
    keys = mentioned_keys(question, known=known)
    return keys, list(dict.fromkeys(entity_id for key in keys for entity_id in by_key[key]))


class GraphRecall:
    """Finds what the graph adds to a search, in three steps that carry their own state.

    `find_named` looks names up in Postgres. `reach` reads their surroundings, which only selects: `read` takes the
    entities and relationships it shows from Postgres, in the snapshot of the hits. So a server that is behind may reach
    less or different things, but nothing that only it still holds is shown.

    Postgres holds the whole graph. It answers wherever a separate server does not, so a recall has the same hits and
    scores whether that server is up, cold, down or not configured.

    Args:
        tables: The graph in Postgres, which ends its statements itself after `deadline_seconds`.
        deadline_seconds: How long a read from the separate server may take.
        server: A separate server, which is asked first; None: there is none.
    """

    def __init__(
        self,
        repositories: Repositories,
        tables: GraphStore,
        *,
        deadline_seconds: float,
        server: GraphServer | None = None,
    ) -> None:
        self._repository = repositories.graph
        self._search = repositories.search
        self._tables = tables
        self._deadline_seconds = deadline_seconds
        self._server = server
        self._silent_until = 0.0

    async def warm(self) -> None:
        """Ask the separate server once about nobody, so that no question waits for a first connection and a plan.

        Whatever goes wrong is for the first question to find out.
        """
        if self._server is None:
            return
        graph, breaker = self._server
        try:
            async with asyncio.timeout(_WARM_SECONDS):
                await graph.outline("", [_NOBODY], hops=RECALL_HOPS, where=RECALL_CAPS)
        except (TimeoutError, StoreError) as error:
            breaker.failed(error)
        else:
            breaker.succeeded()

    async def find_named(self, db: SqlExecutor, request: SearchRequest, stream: SearchedStream) -> Named | None:
        """Find the entities that the question names; None if it names none."""
        keys = candidate_keys(request.query)[: constants.NAME_LOOKUP_KEYS] if stream.has_graph else []
        rows = await self._repository.known_names(db, request.external_id, keys) if keys else []
        if not rows:
            return None
        _, found = mentioned_names(request.query, rows)
        entity_ids = found[:RECALL_SEEDS]
        if not entity_ids:
            return None
        names = () if request.is_past else [row.name for row in rows if row.canonical_id in entity_ids]
        return Named(request, entity_ids, stream, list(dict.fromkeys(names)))

    async def reach(self, named: Named) -> Reached:
        """Read what lies around what is named. The graph may keep it waiting, so no transaction is open meanwhile."""
        outline = None if self._server is None else await self._ask_server(named, *self._server)
        if outline is not None:
            return Reached(named, outline)
        try:
            return Reached(named, await _read_around(self._tables, named))
        except StoreTimeoutError:
            self._note("it was left out: PostgreSQL took longer than graph_deadline_seconds")
            return Reached(named, DEADLINE)

    async def _ask_server(self, named: Named, graph: GraphStore, breaker: Breaker) -> GraphOutline | None:
        """Read it from a separate server; None if it gives no answer in time that can be relied on."""
        if named.stream.graph_lag > GRAPH_MAX_LAG_EVENTS or not breaker.allows():
            return None
        try:
            async with asyncio.timeout(self._deadline_seconds):
                found = await _read_around(graph, named)
        except (TimeoutError, StoreTimeoutError) as error:
            self._note("it was read from PostgreSQL: Neo4j took longer than graph_deadline_seconds")
            breaker.failed(error)
            return None
        except StoreError as error:
            breaker.failed(error)
            return None
        except Exception as error:  # noqa: BLE001 - data changed there by hand may cause anything
            self._note(f"it was read from PostgreSQL: Neo4j's data cannot be read ({type(error).__name__})")
            return None
        breaker.succeeded()
        # Emptied, restored from a backup, or behind: entities are missing that Postgres has just found.
        return found if set(named.entity_ids) <= {entity.id for entity in found.entities} else None

    def _note(self, what: str) -> None:
        """Log where the graph of a recall was read; now and then, not on every call."""
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + GRAPH_LOG_SECONDS
            _logger.warning("the graph of a recall: %s", what)

    async def read(self, db: SqlExecutor, reached: Reached, admission: Admission | None = None) -> GraphPart:
        """Weigh what was reached and read, in the snapshot of the hits, what of it may be shown.

        Args:
            admission: What the request's filter admits; None if it has none.
        """
        request, outline = reached.named.request, reached.outline
        if isinstance(outline, Omission):
            return GraphPart(omitted=(outline,))
        if request.is_past:
            outline = await self._as_then(db, request, outline, admission)
        weights = _weigh(outline, reached.named)
        entities, relationships = await self._find_hits(db, request, outline, weights, admission)
        return GraphPart(weights, entities, relationships)

    async def _as_then(
        self, db: SqlExecutor, request: SearchRequest, outline: GraphOutline, admission: Admission | None
    ) -> GraphOutline:
        """The part of `outline` stated by chunks that were known then, counted as often as they state it."""
        said = await self._find_evidence(
            db,
            request,
            [entity.id for entity in outline.entities],
            [relationship.id for relationship in outline.relationships],
            admission,
            mentions=RECALL_PAST_MENTIONS,
        )
        # How often it is stated now does not show how strong it was then.
        counts = {item_id: len(_newest(evidence)) for item_id, evidence in said.items()}
        entities = [replace(entity, mentions=counts[entity.id]) for entity in outline.entities if entity.id in counts]
        there = {entity.id for entity in entities}
        relationships = [
            replace(relationship, strength=strength(counts[relationship.id]))
            for relationship in outline.relationships
            if relationship.id in counts and {relationship.from_id, relationship.to_id} <= there
        ]
        return replace(outline, entities=entities, relationships=relationships)

    async def _find_hits(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        outline: GraphOutline,
        weights: GraphWeights,
        admission: Admission | None,
    ) -> tuple[tuple[EntityHit, ...], tuple[RelationshipHit, ...]]:
        """The entities and relationships that count most, with the chunks behind them that the search may see."""
        distances = outline.distances
        # A few more than are shown: some may have no visible chunk.
        entity_ids = _best(outline.entities, weights.entities, distances)[: 2 * RESULT_ENTITIES]
        relationship_ids = _between(outline.relationships, weights.relationships, entity_ids)
        is_past = request.is_past
        # A filter may leave most mentions out.
        is_few = not is_past and admission is None
        mentions = constants.GRAPH_EVIDENCE_CHUNKS if is_few else RECALL_PAST_MENTIONS
        evidence = await self._find_evidence(db, request, entity_ids, relationship_ids, admission, mentions=mentions)
        # Read again in this snapshot: the outline is from an earlier one, or from a store that may be behind.
        states = await self._repository.find_entities(db, request.external_id, ids=entity_ids)
        by_id = {entity.id: entity for entity in states}
        between = await self._repository.find_relationships(db, request.external_id, ids=relationship_ids)
        entities = [
            EntityHit(
                **_seen_entity(by_id[entity_id], evidence[entity_id], is_past=is_past).model_dump(),
                score=round(weights.entities.get(entity_id, 0.0), 6),
                hops=distances[entity_id],
            )
            for entity_id in entity_ids
            if entity_id in by_id and entity_id in evidence
        ][:RESULT_ENTITIES]
        shown = {entity.id for entity in entities}
        relationships = [
            RelationshipHit(
                **_seen_relationship(relationship, evidence[relationship.id], is_past=is_past).model_dump(),
                score=round(weights.relationships.get(relationship.id, 0.0), 6),
                hops=min(distances[relationship.from_id], distances[relationship.to_id]),
            )
            for relationship in between
            if relationship.id in evidence and {relationship.from_id, relationship.to_id} <= shown
        ]
        relationships.sort(key=lambda hit: (-hit.score, hit.hops, hit.id))
        return tuple(entities), tuple(relationships[:RESULT_RELATIONSHIPS])

    async def _find_evidence(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        entity_ids: Sequence[UUID],
        relationship_ids: Sequence[UUID],
        admission: Admission | None,
        *,
        mentions: int,
    ) -> dict[UUID, list[Evidence]]:
        items = {"entity_ids": entity_ids, "relationship_ids": relationship_ids}
        rows = await self._search.find_evidence(db, request, **items, mentions=mentions)
        if admission is not None:
            chunk_ids = list(dict.fromkeys(chunk_id for row in rows for chunk_id in row.chunk_ids))
            admitted = await admission.among_ids(db, chunk_ids)
            if len(admitted) < len(chunk_ids):
                # Again, because dates and counts are those of all chunks behind an item.
                rows = await self._search.find_evidence(db, request, **items, mentions=mentions, among=admitted)
        evidence: dict[UUID, list[Evidence]] = {}
        for row in rows:
            evidence.setdefault(row.id, []).append(row)
        return evidence


async def _read_around(graph: GraphStore, named: Named) -> GraphOutline:
    request = named.request
    where = replace(RECALL_CAPS, at=request.as_of)
    return await graph.outline(request.external_id, named.entity_ids, hops=RECALL_HOPS, where=where)


def _weigh(outline: GraphOutline, named: Named) -> GraphWeights:
    """Weigh each entity and relationship for the question."""
    activation = activate(outline, named.entity_ids, live_chunks=named.stream.live_chunks)
    # A smaller weight changes no rank, and each item costs the search a lookup of its mentions.
    least = max(activation.entities.values(), default=0.0) * constants.GRAPH_LEAST_SHARE / 2
    return GraphWeights(
        {item_id: weight for item_id, weight in activation.entities.items() if weight >= least},
        {item_id: weight for item_id, weight in activation.relationships.items() if weight >= least},
        certainty=_certainty(outline, activation, named.entity_ids, named.stream.live_chunks),
    )


def _certainty(outline: GraphOutline, activation: Activation, seeds: Collection[UUID], live_chunks: int) -> float:
    """How much the graph's list counts, 0 to 1, given how telling the query's rarest name is and what the graph adds.

    Word search also finds what is named, so the list adds little if it reaches nothing else with much weight, and
    nothing up to `GRAPH_CERTAIN_FROM`.
    """
    rarest = max((rarity(entity, live_chunks) for entity in outline.entities if entity.id in seeds), default=0.0)
    beyond = max((weight for entity_id, weight in activation.entities.items() if entity_id not in seeds), default=0.0)
    known = min(1.0, beyond / GRAPH_CERTAIN_WEIGHT)
    certain = rarest * (GRAPH_NAMED_SHARE + (1 - GRAPH_NAMED_SHARE) * known)
    return max(0.0, certain - GRAPH_CERTAIN_FROM) / (1 - GRAPH_CERTAIN_FROM)


def _best(
    entities: Sequence[EntityOutline], weights: Mapping[UUID, float], distances: Mapping[UUID, int]
) -> list[UUID]:
    """What has weight for the query, and what it names even without weight; best first."""
    chosen = [entity for entity in entities if entity.id in weights or distances[entity.id] == 0]
    chosen.sort(key=lambda entity: (-weights.get(entity.id, 0.0), distances[entity.id], -entity.mentions, entity.id))
    return [entity.id for entity in chosen]


def _between(
    relationships: Sequence[RelationshipOutline], weights: Mapping[UUID, float], entity_ids: Collection[UUID]
) -> list[UUID]:
    """Relationships between some entities, best first; a few more than are shown."""
    chosen = [one for one in relationships if one.from_id in entity_ids and one.to_id in entity_ids]
    chosen.sort(key=lambda one: (-weights.get(one.id, 0.0), -one.strength, one.id))
    return [one.id for one in chosen[: 2 * RESULT_RELATIONSHIPS]]


def _newest(evidence: Sequence[Evidence]) -> tuple[UUID, ...]:
    return tuple(sorted({chunk_id for row in evidence for chunk_id in row.chunk_ids}, reverse=True))


def _seen_entity(entity: Entity, evidence: Sequence[Evidence], *, is_past: bool) -> Entity:
    """`entity` with the chunks that a search may see; for another moment, only as these chunks describe it.

    Even then these are today's: which names mean one entity (`id`), `confidence`, `importance`, `tier` and
    `shortterm_memory_id`.
    """
    chunk_ids = _newest(evidence)
    newest = chunk_ids[: constants.GRAPH_EVIDENCE_CHUNKS]
    if not is_past:
        return entity.model_copy(update={"chunk_ids": newest, "positions": _positions(entity, newest)})
    # It may have been merged since; at that time it had the name of one of its members.
    named = next((row for row in evidence if row.item_id == entity.id), evidence[0])
    return entity.model_copy(
        update={
            "name": named.name,
            "type": named.type,
            "description": None,
            "aliases": (),
            "merged_ids": (),
            "metadata": {},
            "first_seen": min(row.first_start for row in evidence),
            "last_seen": max(row.last_start for row in evidence),
            "mentions": len(chunk_ids),
            "chunk_ids": newest,
            "positions": (),
        }
    )


def _seen_relationship(relationship: Relationship, evidence: Sequence[Evidence], *, is_past: bool) -> Relationship:
    """As `_seen_entity`.

    Today's values are `id`, the ends, `type`, `importance`, `tier` and a stated `confidence`; the confidence of a
    co-occurrence comes from the visible chunks.
    """
    chunk_ids = _newest(evidence)
    newest = chunk_ids[: constants.GRAPH_EVIDENCE_CHUNKS]
    if not is_past:
        return relationship.model_copy(update={"chunk_ids": newest, "positions": _positions(relationship, newest)})
    first = min(row.first_start for row in evidence)
    is_derived = relationship.type == TOGETHER
    return relationship.model_copy(
        update={
            "description": None,
            "confidence": together_confidence(len(chunk_ids)) if is_derived else relationship.confidence,
            "metadata": {},
            "observations": len(chunk_ids),
            "strength": strength(len(chunk_ids)),
            "first_observed": first,
            "last_observed": max(row.last_start for row in evidence),
            "start_date": first,
            "end_date": None,
            "last_updated": max(row.last_recorded_at for row in evidence),
            "chunk_ids": newest,
            "positions": (),
        }
    )


def _positions(item: Entity | Relationship, chunk_ids: tuple[UUID, ...]) -> tuple[int, ...]:
    """The positions of `item`; it only knows those of its own newest chunks."""
    return item.positions if item.chunk_ids == chunk_ids else ()
