"""One statement that ranks, fuses and returns the chunks that answer a query."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from agent_reminiscence.config import constants
from agent_reminiscence.config.constants import Tier
from agent_reminiscence.database.postgres_manager import Row, SqlExecutor
from agent_reminiscence.database.queries import NamedQuery, load_queries
from agent_reminiscence.database.repositories.graph_progress import graph_lag

# The numbers of the lists in the statement.
LIST_NAMES: Mapping[str, str] = {
    "1": "bm25_text",
    "2": "bm25_before",
    "3": "bm25_around",
    "4": "vector_text",
    "5": "vector_before",
    "6": "vector_around",
    "7": "graph",
}

VectorScan = Literal["exact", "hnsw", "none"]

# Without these the planner may sort instead of scanning the BM25 index, and every row scores 0; seen on small tables
# and on those that were never analysed. A plan made for no tenant in particular would look at every partition.
SEARCH_SETTINGS: Mapping[str, str] = {
    "enable_sort": "off",
    "jit": "off",
    "plan_cache_mode": "force_custom_plan",
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": str(constants.HNSW_EF_SEARCH),
    "hnsw.max_scan_tuples": str(constants.HNSW_MAX_SCAN_TUPLES),
}


@dataclass(frozen=True, slots=True)
class Weights:
    """What the fusion is tuned with; the defaults are the measured ones."""

    bm25: float = constants.BM25_WEIGHT
    vector: float = constants.VECTOR_WEIGHT
    # The constant is in units of the undivided sum of the lists.
    speaker: float = (
        constants.SPEAKER_BOOST * (constants.RRF_K + 1) / (3 * constants.BM25_WEIGHT + 3 * constants.VECTOR_WEIGHT)
    )
    recency: float = constants.RECENCY_WEIGHT
    importance: float = constants.IMPORTANCE_WEIGHT
    confidence: float = constants.CONFIDENCE_WEIGHT
    # Of the graph's list, where what the query names is as rare as can be.
    graph: float = constants.GRAPH_WEIGHT


@dataclass(frozen=True, slots=True)
class SearchedStream:
    """What a search wants to know of a stream before it begins.

    Attributes:
        has_graph: Whether there is any entity.
        graph_lag: How many positions a store of graphs that follows is behind; without one it says nothing.
        generation: The generation of vectors that is searched at this moment.
    """

    generation: int
    live_chunks: int
    has_graph: bool
    graph_lag: int


@dataclass(frozen=True, slots=True)
class GraphWeights:
    """What a query's names reach in the graph, and how much each of it counts.

    Attributes:
        certainty: How much the whole list counts, 0 to 1.
    """

    entities: Mapping[UUID, float]
    relationships: Mapping[UUID, float]
    certainty: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """The chunks behind an entity or a relationship that one search may see, under one of its ids.

    Attributes:
        id: Of the canonical entity, or of the relationship.
        item_id: Of the entity as it was stated.
        name: And how it was called; None of a relationship, and so its type.
        chunk_ids: Newest first.
    """

    id: UUID
    item_id: UUID
    name: str | None
    type: str | None
    chunk_ids: tuple[UUID, ...]
    first_start: datetime
    last_start: datetime
    last_recorded_at: datetime


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What to look for and among what.

    `as_of` None is what is known and valid now; otherwise what was known at `known_at` to be true at `as_of`.
    `vector` None searches by words only.
    """

    external_id: str
    query: str
    vector: Sequence[float] | None
    speaker_keys: Sequence[str]
    tiers: Sequence[Tier]
    min_confidence: float
    as_of: datetime | None
    known_at: datetime
    now: datetime
    limit: int


class SearchRepository:
    """Searches over the chunks and their vectors."""

    def __init__(self, weights: Weights | None = None) -> None:
        self._weights = weights or Weights()
        self._of_generations: dict[tuple[str, int], NamedQuery] = {}
        queries = load_queries("sql", "search")
        scans: tuple[VectorScan, ...] = ("exact", "hnsw", "none")

        def completed(name: str, **parts: str) -> NamedQuery:
            statement = queries[name]
            for part, chosen in (parts | {"newest_mentions": "newest_mentions", "visible": "visible"}).items():
                statement = statement.replace(f"{{{part}}}", queries[chosen])
            return statement

        self._sql = {name: completed(name) for name in ("describe_stream", "graph_evidence")}
        for scan in scans:
            part = f"vector_distances_{scan}"
            self._sql[scan] = completed("search", vector_distances=part, fusion="fusion")
            self._sql[f"{scan}_with_graph"] = completed(
                "search",
                vector_distances=part,
                fusion="fusion_with_graph",
            )

    async def describe(self, db: SqlExecutor, external_id: str) -> SearchedStream | None:
        """What there is to search; None for an unknown stream."""
        row = await db.fetch_one(self._sql["describe_stream"], {"external_id": external_id})
        if row is None:
            return None
        lag = graph_lag(row["graph_head"], row["graph_position"])
        return SearchedStream(row["generation"], row["live_chunks"], has_graph=row["has_graph"], graph_lag=lag)

    async def search(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        *,
        generation: int,
        scan: VectorScan,
        graph: GraphWeights | None = None,
    ) -> list[Row]:
        """The best chunks, best first.

        Args:
            db: A transaction with `SEARCH_SETTINGS`.
            generation: Whose vectors are searched; the request's vector is one of its model.
            scan: How to find near vectors; `none` where the request has no vector.
            graph: What makes the graph's list; None is no such list.

        Returns:
            Columns of `SearchHit`, except that ranks are by name and spans are those of the version they belong to.
        """
        # Not prepared: in a prepared statement pg_textsearch tokenises each ranked row once more.
        if graph is not None and (self._weights.graph <= 0 or graph.certainty < constants.GRAPH_LEAST_CERTAINTY):
            graph = None
        statement = self.statement(scan if graph is None else f"{scan}_with_graph", generation)
        rows = await db.fetch_all(statement, self.params(request, graph), prepared=False)
        return [_hit(row) for row in rows]

    def statement(self, name: str, generation: int) -> NamedQuery:
        """A statement of this module, about the vectors of `generation`."""
        key = (name, generation)
        if key not in self._of_generations:
            self._of_generations[key] = self._sql[name].replace("{generation}", str(generation))
        return self._of_generations[key]

    async def find_evidence(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        *,
        entity_ids: Sequence[UUID],
        relationship_ids: Sequence[UUID],
        mentions: int,
    ) -> list[Evidence]:
        """Of canonical entities and of relationships the chunks that the search may see; what has none is left out.

        Args:
            mentions: How many mentions of each are looked at, newest first.
        """
        params = self._moment(request) | {
            "entity_ids": list(entity_ids),
            "relationship_ids": list(relationship_ids),
            "mentions": mentions,
        }
        return [
            Evidence(
                id=UUID(row["id"]),
                item_id=UUID(row["item_id"]),
                name=row["name"],
                type=row["type"],
                chunk_ids=tuple(UUID(chunk_id) for chunk_id in row["chunk_ids"]),
                first_start=row["first_start"],
                last_start=row["last_start"],
                last_recorded_at=row["last_recorded_at"],
            )
            for row in await db.fetch_all(self._sql["graph_evidence"], params)
        ]

    def _moment(self, request: SearchRequest) -> dict[str, Any]:
        """What says which rows a search may see."""
        return {
            "external_id": request.external_id,
            "tiers": list(request.tiers),
            "min_confidence": request.min_confidence,
            "as_of": request.as_of,
            "known_at": request.known_at,
        }

    def params(self, request: SearchRequest, graph: GraphWeights | None = None) -> dict[str, Any]:
        """The statement's parameters."""
        params: dict[str, Any] = self._moment(request) | {
            "query": request.query,
            "speaker_keys": list(request.speaker_keys),
            "now": request.now,
            "limit": request.limit,
            "depth": max(constants.RANKING_DEPTH, request.limit),
            "text_depth": max(constants.RANKING_DEPTH, request.limit),
            "has_vector": request.vector is not None,
            "rrf_k": constants.RRF_K,
            "bm25_weight": self._weights.bm25,
            "vector_weight": self._weights.vector,
            "speaker_boost": self._weights.speaker,
            "recency_weight": self._weights.recency,
            "recency_half_life_seconds": constants.RECENCY_HALF_LIFE_DAYS * 86_400,
            "importance_weight": self._weights.importance,
            "confidence_weight": self._weights.confidence,
        }
        if request.vector is not None:
            params["vector"] = halfvec(request.vector)
        if graph is not None:
            params |= {
                "text_depth": params["depth"] * constants.GRAPH_TEXT_DEPTH,
                "graph_entity_ids": list(graph.entities),
                "graph_entity_weights": list(graph.entities.values()),
                "graph_relationship_ids": list(graph.relationships),
                "graph_relationship_weights": list(graph.relationships.values()),
                "graph_list_weight": self._weights.graph * graph.certainty,
                "graph_least_share": constants.GRAPH_LEAST_SHARE,
                "graph_floor": constants.GRAPH_FLOOR,
                "mentions": constants.RECALL_MENTIONS,
            }
        return params


def halfvec(vector: Sequence[float]) -> bytes:
    """pgvector's binary form of a halfvec: dimension, two zero bytes, then float16 values, all big-endian."""
    return struct.pack(f">HH{len(vector)}e", len(vector), 0, *vector)


def _hit(row: Row) -> Row:
    current_version, current_start = row.pop("current_version"), row.pop("current_start")
    if current_start is not None:
        row["memory_version"] = current_version
        row["span_start"], row["span_end"] = current_start, current_start + len(row["content"])
    row["ranks"] = {LIST_NAMES[number]: place for number, place in row["ranks"].items()}
    row["metadata"] = json.loads(row["metadata"])
    row["derived_from"] = tuple(row["derived_from"] or ())
    row["chunk_id"], row["memory_id"] = UUID(row["chunk_id"]), UUID(row["memory_id"])
    return row
