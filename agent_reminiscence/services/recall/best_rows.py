"""Reads the rows of the best chunks, and weighs by what only these tell."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.database.repositories.history import HistoryRepository
from agent_reminiscence.database.repositories.hit_rows import as_hit
from agent_reminiscence.database.repositories.search import SearchedStream, SearchRepository
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.services.recall.encoders import Encoder
from agent_reminiscence.services.recall.further import Further, further
from agent_reminiscence.services.recall.hit_order import NEWEST_AMONG, newest_first, one_per_text
from agent_reminiscence.services.recall.hit_weights import (
    OUTCOME_SPREAD,
    SMALL_WEIGHTS,
    outcome_factor,
    small_factor,
    with_parts,
)
from agent_reminiscence.services.recall.outdated import Marks, choose_marks, newer_first, shares, with_newer
from agent_reminiscence.services.recall.question import off_loop_if_long
from agent_reminiscence.services.recall.ranking import Ranked
from agent_reminiscence.services.recall.texts import TextReader

MAX_CANDIDATES: Final = 400
"""How many ranked chunks are weighed at most.

It does not depend on the limit, so that a smaller limit returns the first hits of a larger one.
"""
_MORE_FOR_COPIES = 40
# So many of the best chunks may be compared by their vectors.
_MOST_COMPARED = 40


class FoundRows(NamedTuple):
    """The best chunks.

    Attributes:
        rows: Best first, with the fields of `SearchHit`.
        is_found: Whether the best ones match well enough.
        tells_weak: Whether it says much if they do not; see `Encoder`.
        repeating: Numbers of chunks that stand for another one, which they repeat.
        further: What is ranked after them; None if the request does not keep it.
        has_outdated: Whether any chunk of the tenant may be out of date.
    """

    rows: list[Row]
    is_found: bool
    tells_weak: bool
    repeating: tuple[int, ...] = ()
    further: Further | None = None
    has_outdated: bool = False


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
            ranked: The `MAX_CANDIDATES` best, or all there are; for a request that keeps the others, followed by these.
            repeating: Numbers of duplicates that stand for what they repeat, because that may not be a hit.
            encoder: Of the vectors of `stream.generation`; None if its cosines cannot be read.

        Returns:
            Those with the best scores once recency, importance, confidence and outcomes count, too: each text once, and
            of what was said again with another value the newest first.
        """
        tells_weak = encoder is not None and encoder.tells_weak
        if not len(ranked.scores):
            return FoundRows([], ranked.found, tells_weak)
        everything, weights = ranked, None
        if request.is_streamed:
            # Comes with the rows of the best. Whatever is read later, the order is that of this moment.
            weights = await self._search.ask_weights(db, request, everything.numbers, with_outcomes=stream.has_outcomes)
            ranked = everything.only(slice(MAX_CANDIDATES))
        marks: Marks = {}
        if stream.has_outdated:
            held = await self._search.find_outdated(db, request, everything.numbers)
            marks = choose_marks(held, request.query, stream.languages)
        kept = shares(ranked.numbers, marks)
        # Near copies are told from their texts only, once these are read.
        most = max(request.limit, NEWEST_AMONG) + _MORE_FOR_COPIES
        # Chunks below this share of a score cannot reach it, whatever their importance and their outcomes.
        spread = (1 + SMALL_WEIGHTS) * (OUTCOME_SPREAD if stream.has_outcomes else 1)
        wanted = with_newer(_wanted(ranked.scores * kept, ranked.alike, most, spread), ranked.numbers, marks)
        vectors = None
        if encoder is not None and encoder.same_topic is not None:
            # Of all copies, since it is not known yet which of them is the best.
            compared = ranked.numbers[wanted[:_MOST_COMPARED]]
            vectors = await self._texts.ask_vectors(db, request.external_id, stream.generation, compared)
        numbers = ranked.numbers[wanted].tolist()
        repetitions: list[int] = [] if repeating is None else np.intersect1d(repeating, everything.numbers).tolist()
        stored = await self._search.read_hits(
            db,
            request,
            numbers,
            repeating=np.intersect1d(repetitions, numbers).tolist(),
            with_outcomes=stream.has_outcomes,
            is_last=not request.is_past,
        )
        weighed = []
        for index, number in zip(wanted.tolist(), numbers, strict=True):
            if row := stored.get(number):
                factor = small_factor(row, request.now)
                of_order = {
                    "number": number,
                    "only_asks": bool(ranked.only_asks[index]),
                    "memory_key": row["memory_key"],
                }
                outcome, share = outcome_factor(row["successes"], row["failures"]), float(kept[index])
                row["score"] = float(ranked.scores[index]) * factor * outcome * share
                weighed.append(with_parts(as_hit(row), ranked, index, factor, share) | of_order)
        weighed.sort(key=lambda row: (-row["score"], row["chunk_id"]))
        known = {} if vectors is None else (await vectors.result()).by_number()
        same_topic = None if encoder is None else encoder.same_topic

        def order() -> list[Row]:
            texts = newer_first(one_per_text(weighed), marks)
            return newest_first(texts, request.query, stream.languages, known, same_topic)

        rows = (await off_loop_if_long(request.query, order))[: request.limit]
        rest = None
        if weights is not None:
            rest = further(everything, await weights.result(), request.now, rows, marks)
        for row in rows:
            del row["number"], row["only_asks"], row["memory_key"]
        await self._history.name_as_then(db, request, rows)
        return FoundRows(rows, ranked.found, tells_weak, tuple(repetitions), rest, stream.has_outdated)


def _wanted(scores: NDArray[np.float64], alike: NDArray[np.int64], most: int, spread: float) -> NDArray[np.intp]:
    """The indices of the ranked chunks whose rows are read, ascending.

    These are those that may be among the `most` best texts once they are weighted, and all with the same text as one of
    them.

    Args:
        alike: As in `Ranked`.
    """
    order = np.argsort(-scores, kind="stable")
    firsts = np.sort(np.unique(alike[order], return_index=True)[1])
    last = order[firsts[min(most, len(firsts)) - 1]]
    likely = scores >= scores[last] / spread
    return np.flatnonzero(np.isin(alike, alike[likely]))
