"""Reads the rows of the best chunks, and weighs by what only these tell: age, importance, confidence, outcomes."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.repositories.history import HistoryRepository
from agent_reminiscence.database.repositories.search import SearchedStream, SearchRepository, as_hit
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.services.recall.encoders import Encoder
from agent_reminiscence.services.recall.hit_order import NEWEST_AMONG, newest_first, one_per_text
from agent_reminiscence.services.recall.question import off_loop_if_long
from agent_reminiscence.services.recall.ranking import Ranked
from agent_reminiscence.services.recall.texts import TextReader

MAX_CANDIDATES: Final = 400
"""How many ranked chunks are weighed at most.

It does not depend on the limit, so that a smaller limit returns the first hits of a larger one.
"""
# Small multiplicative factors, as a share of the score at their extremes.
RECENCY_WEIGHT: Final = 0.02
RECENCY_HALF_LIFE_DAYS: Final = 90.0
IMPORTANCE_WEIGHT: Final = 0.02
CONFIDENCE_WEIGHT: Final = 0.02
# The most that the outcomes of runs add to a score, or take from it; approached as they become many and agree.
OUTCOME_WEIGHT: Final = 0.15
# So many runs, half of each kind, are assumed before the first: a single one moves a score by a third of that.
OUTCOME_PRIOR: Final = 2

_SMALL_WEIGHTS = RECENCY_WEIGHT + IMPORTANCE_WEIGHT + CONFIDENCE_WEIGHT
# How far outcomes can lift a chunk over another one.
_OUTCOME_SPREAD = (1 + OUTCOME_WEIGHT) / (1 - OUTCOME_WEIGHT)
_MORE_FOR_COPIES = 40
# So many of the best chunks may be compared by their vectors.
_MOST_COMPARED = 40


class FoundRows(NamedTuple):
    """The best chunks.

    Attributes:
        rows: Best first, with the fields of `SearchHit`.
        is_found: Whether the best ones match well enough.
        tells_weak: Whether it says much if they do not; see `Encoder`.
    """

    rows: list[Row]
    is_found: bool
    tells_weak: bool


class BestRows:
    """Reads the rows of ranked chunks, in the caller's transaction."""

    def __init__(self, search: SearchRepository, history: HistoryRepository, texts: TextReader) -> None:
        self._search = search
        self._history = history
        self._texts = texts

    async def read(
        self,
        db: SqlExecutor,
        request: SearchRequest,
        stream: SearchedStream,
        ranked: Ranked,
        repeating: NDArray[np.int64] | None,
        encoder: Encoder | None,
    ) -> FoundRows:
        """Read the best of the ranked chunks. For the present this ends the transaction of `db`.

        Args:
            ranked: The `MAX_CANDIDATES` best, or all there are.
            repeating: Numbers of duplicates that stand for what they repeat, because that may not be a hit.
            encoder: Of the vectors of `stream.generation`; None if its cosines cannot be read.

        Returns:
            Those with the best scores once recency, importance, confidence and outcomes count, too: each text once, and
            of what was said again with another value the newest first.
        """
        tells_weak = encoder is not None and encoder.tells_weak
        if not len(ranked.scores):
            return FoundRows([], ranked.found, tells_weak)
        # Near copies are told from their texts only, once these are read.
        most = max(request.limit, NEWEST_AMONG) + _MORE_FOR_COPIES
        # Chunks below this share of a score cannot reach it, whatever their importance and their outcomes.
        spread = (1 + _SMALL_WEIGHTS) * (_OUTCOME_SPREAD if stream.has_outcomes else 1)
        wanted = _wanted(ranked, most, spread)
        vectors = None
        if encoder is not None and encoder.same_topic is not None:
            # Of all copies, since it is not known yet which of them is the best.
            compared = ranked.numbers[wanted[:_MOST_COMPARED]]
            vectors = await self._texts.ask_vectors(db, request.external_id, stream.generation, compared)
        numbers = ranked.numbers[wanted].tolist()
        stored = await self._search.read_hits(
            db,
            request,
            numbers,
            repeating=[] if repeating is None else np.intersect1d(repeating, numbers).tolist(),
            with_outcomes=stream.has_outcomes,
            is_last=not request.is_past,
        )
        weighed = []
        for index, number in zip(wanted.tolist(), numbers, strict=True):
            if row := stored.get(number):
                factor = _small_factor(row, request.now)
                of_order = {
                    "number": number,
                    "only_asks": bool(ranked.only_asks[index]),
                    "memory_key": row["memory_key"],
                }
                row["score"] = float(ranked.scores[index]) * factor * outcome_factor(row["successes"], row["failures"])
                weighed.append(_with_parts(as_hit(row), ranked, index, factor) | of_order)
        weighed.sort(key=lambda row: (-row["score"], row["chunk_id"]))
        known = {} if vectors is None else (await vectors.result()).by_number()
        same_topic = None if encoder is None else encoder.same_topic

        def order() -> list[Row]:
            return newest_first(one_per_text(weighed), request.query, stream.languages, known, same_topic)

        rows = (await off_loop_if_long(request.query, order))[: request.limit]
        for row in rows:
            del row["number"], row["only_asks"], row["memory_key"]
        await self._history.name_as_then(db, request, rows)
        return FoundRows(rows, ranked.found, tells_weak)


def _wanted(ranked: Ranked, most: int, spread: float) -> NDArray[np.intp]:
    """The indices of the ranked chunks whose rows are read, ascending.

    These are those that may be among the `most` best texts once they are weighted, and all with the same text as one of
    them.
    """
    firsts = np.sort(np.unique(ranked.alike, return_index=True)[1])
    last = firsts[min(most, len(firsts)) - 1]
    likely = ranked.scores >= ranked.scores[last] / spread
    return np.flatnonzero(np.isin(ranked.alike, ranked.alike[likely]))


def _with_parts(row: Row, ranked: Ranked, index: int, factor: float) -> Row:
    """The row of a hit with its scores."""
    row["score_parts"] = {
        name: round(float(values[index]) * factor, 6) for name, values in ranked.parts.items() if values[index]
    }
    if row["successes"] != row["failures"]:
        row["score_parts"]["outcome"] = round(row["score"] - float(ranked.scores[index]) * factor, 6)
    row["match"] = float(ranked.match[index])
    row["is_of_other"] = bool(ranked.hint[index])
    return row


def _small_factor(row: Row, now: datetime) -> float:
    """The factor for recency, importance and confidence, at most 1."""
    age = (now - row["start_date"]).total_seconds() / (RECENCY_HALF_LIFE_DAYS * 86_400)
    # Beyond a thousand half-lives the power is practically 0.
    recency = 0.5 ** min(1000.0, max(0.0, age))
    weighed = RECENCY_WEIGHT * recency + IMPORTANCE_WEIGHT * row["importance"] + CONFIDENCE_WEIGHT * row["confidence"]
    return float(1 + weighed) / (1 + _SMALL_WEIGHTS)


def outcome_factor(successes: int, failures: int) -> float:
    """The factor for how runs with a chunk ended, between 0.85 and 1.15: exactly 1 without any, or as many of each."""
    return 1 + OUTCOME_WEIGHT * (successes - failures) / (successes + failures + OUTCOME_PRIOR)
