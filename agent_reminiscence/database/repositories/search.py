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
from agent_reminiscence.database.queries import load_queries

# The numbers of the lists in the statement.
LIST_NAMES: Mapping[str, str] = {
    "1": "bm25_text",
    "2": "bm25_before",
    "3": "bm25_around",
    "4": "vector_text",
    "5": "vector_before",
    "6": "vector_around",
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
    """Searches over the chunks and the vectors of one generation."""

    def __init__(self, generation: int, weights: Weights | None = None) -> None:
        self._weights = weights or Weights()
        queries = load_queries("sql", "search")
        scans: tuple[VectorScan, ...] = ("exact", "hnsw", "none")
        self._sql = {
            scan: queries["search"]
            .replace("{vector_distances}", queries[f"vector_distances_{scan}"])
            .replace("{visible}", queries["visible"])
            .replace("{generation}", str(generation))
            for scan in scans
        }

    async def search(self, db: SqlExecutor, request: SearchRequest, *, scan: VectorScan) -> list[Row]:
        """The best chunks, best first.

        Args:
            db: A transaction with `SEARCH_SETTINGS`.
            scan: How to find near vectors; `none` where the request has no vector.

        Returns:
            Columns of `SearchHit`, except that ranks are by name and spans are those of the version they belong to.
        """
        # Not prepared: in a prepared statement pg_textsearch tokenises each ranked row once more.
        rows = await db.fetch_all(self._sql[scan], self.params(request), prepared=False)
        return [_hit(row) for row in rows]

    def params(self, request: SearchRequest) -> dict[str, Any]:
        """The statement's parameters."""
        params: dict[str, Any] = {
            "external_id": request.external_id,
            "query": request.query,
            "speaker_keys": list(request.speaker_keys),
            "tiers": list(request.tiers),
            "min_confidence": request.min_confidence,
            "as_of": request.as_of,
            "known_at": request.known_at,
            "now": request.now,
            "limit": request.limit,
            "depth": max(constants.RANKING_DEPTH, request.limit),
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
    row["chunk_id"], row["memory_id"] = UUID(row["chunk_id"]), UUID(row["memory_id"])
    return row
