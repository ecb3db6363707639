"""Reads the rows of the best chunks, and weighs by what only these tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.apart import run_some_apart
from agent_reminiscence.database.connection import Deferred, Row, SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.history import HistoryRepository
from agent_reminiscence.database.repositories.hit_rows import as_hit
from agent_reminiscence.database.repositories.search import ChunkWeights, SearchRepository
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
from agent_reminiscence.services.recall.joint_numbers import joint_number, own, places_of
from agent_reminiscence.services.recall.outdated import Marks, choose_marks, newer_first, shares, with_newer
from agent_reminiscence.services.recall.question import off_loop_if_long
from agent_reminiscence.services.recall.ranking import Ranked
from agent_reminiscence.services.recall.reading import MEMORIES_AT_ONCE, Reading
from agent_reminiscence.services.recall.texts import TextReader

MAX_CANDIDATES: Final = 400
"""How many ranked chunks are weighed at most.

It does not depend on the limit, so that a smaller limit returns the first hits of a larger one.
"""
_MORE_FOR_COPIES = 40
# So many of the best chunks may be compared by their vectors.
_MOST_COMPARED = 40


class Source(NamedTuple):
    """A memory that hits come from.

    Attributes:
        repeating: Numbers of chunks that stand for another one, which they repeat.
        has_outdated: Whether any chunk of it may be out of date.
    """

    request: SearchRequest
    repeating: tuple[int, ...]
    has_outdated: bool


class FoundRows(NamedTuple):
    """The best chunks.

    Attributes:
        rows: Best first, with the fields of `SearchHit`.
        is_found: Whether the best ones match well enough.
        tells_weak: Whether it says much if they do not; see `Encoder`.
        sources: The memories, each at the place that `further` has for it.
        further: What is ranked after them; None if the request does not keep it.
    """

    rows: list[Row]
    is_found: bool
    tells_weak: bool
    sources: tuple[Source, ...] = ()
    further: Further | None = None


NOTHING_FOUND: Final = FoundRows([], is_found=False, tells_weak=False)


class _Chosen(NamedTuple):
    """The ranked chunks whose rows are read.

    Attributes:
        ranked: Those that are weighed.
        kept: The share of its score that each of these keeps.
        wanted: The places in `ranked` of those that are read, ascending.
    """

    ranked: Ranked
    kept: NDArray[np.float64]
    wanted: NDArray[np.intp]

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Of the chunks that are read."""
        return self.ranked.numbers[self.wanted]

    @property
    def compared(self) -> NDArray[np.int64]:
        """Of those whose vectors are compared: all copies, since it is not known yet which of them is the best."""
        return self.numbers[:_MOST_COMPARED]


class _Read(NamedTuple):
    """What was read of the chosen chunks of one memory, by their numbers there.

    Attributes:
        weights: Of all chunks that were ranked of it, in their order; None unless the request keeps what comes after
            the first hits.
    """

    rows: Mapping[int, Row]
    vectors: Mapping[int, NDArray[np.float32]]
    weights: ChunkWeights | None


class BestRows:
    """Reads the rows of ranked chunks."""

    def __init__(
        self, store: PostgresManager, search: SearchRepository, history: HistoryRepository, texts: TextReader
    ) -> None:
        self._store = store
        self._search = search
        self._history = history
        self._texts = texts

    async def read(self, db: SqlExecutor, reading: Reading, ranked: Ranked) -> FoundRows:
        """Read the best of the ranked chunks of a memory, in the caller's transaction; for the present this ends it.

        Args:
            ranked: The `MAX_CANDIDATES` best, or all there are; for a request that keeps the others, followed by these.

        Returns:
            Those with the best scores once recency, importance, confidence and outcomes count, too: each text once, and
            of what was said again with another value the newest first.
        """
        request, stream = reading.request, reading.stream
        tells_weak = _tells_weak(reading)
        if not len(ranked.scores):
            return FoundRows([], ranked.found, tells_weak)
        weights = await self._ask_weights(db, reading, ranked.numbers)
        marks = await self._marks(db, reading, ranked.numbers)
        chosen = _choose(request, ranked, marks, has_outcomes=stream.has_outcomes)
        repeating = _repeating(reading, ranked.numbers)
        read = await self._read(db, reading, chosen.numbers, chosen.compared, repeating, weights)
        rows, rest = await _ordered(request, ranked, chosen, marks, stream.languages, reading.encoder, read)
        await self._history.name_as_then(db, request, rows)
        sources = (Source(request, repeating, stream.has_outdated),)
        return FoundRows(rows, ranked.found, tells_weak, sources, rest)

    async def read_together(self, readings: Sequence[Reading], ranked: Ranked, languages: Sequence[str]) -> FoundRows:
        """As `read`, of several memories that were ranked together: each is read in a transaction of its own.

        What has been erased or changed since the ranking is left out.

        Args:
            ranked: With joint numbers.
            languages: Of the texts of any of them.
        """
        request, tells_weak = readings[0].request, _tells_weak(readings[0])
        if not len(ranked.scores):
            return FoundRows([], ranked.found, tells_weak)
        places = places_of(ranked.numbers)
        has_outcomes = any(reading.stream.has_outcomes for reading in readings)
        of_each = [own(ranked.numbers[places == place]) for place in range(len(readings))]
        held = await run_some_apart(
            [partial(self._marks_alone, *one) for one in zip(readings, of_each, strict=True)], at_once=MEMORIES_AT_ONCE
        )
        marks = {
            joint_number(place, number): mark._replace(
                number=joint_number(place, number), by_number=joint_number(place, mark.by_number)
            )
            for place, of_one in enumerate(held)
            for number, mark in of_one.items()
        }
        chosen = _choose(request, ranked, marks, has_outcomes=has_outcomes)
        repeating = list(map(_repeating, readings, of_each))

        async def read_one(place: int) -> _Read:
            numbers, compared = (own(some[places_of(some) == place]) for some in (chosen.numbers, chosen.compared))
            return await self._read_alone(readings[place], of_each[place], numbers, compared, repeating[place])

        read = await run_some_apart(
            [partial(read_one, place) for place in range(len(readings))], at_once=MEMORIES_AT_ONCE
        )
        together = _Read(
            {joint_number(place, number): row for place, one in enumerate(read) for number, row in one.rows.items()},
            {joint_number(place, number): it for place, one in enumerate(read) for number, it in one.vectors.items()},
            _joined_weights([one.weights for one in read], places),
        )
        rows, rest = await _ordered(request, ranked, chosen, marks, languages, readings[0].encoder, together)
        await self._name_as_then(readings, rows)
        sources = [
            Source(reading.request, repeating[place], reading.stream.has_outdated)
            for place, reading in enumerate(readings)
        ]
        return FoundRows(rows, ranked.found, tells_weak, tuple(sources), rest)

    async def _marks_alone(self, reading: Reading, numbers: NDArray[np.int64]) -> Marks:
        if not reading.stream.has_outdated or not len(numbers):
            return {}
        async with self._store.read_transaction(reading.request.external_id, ()) as (db, _):
            return await self._marks(db, reading, numbers)

    async def _marks(self, db: SqlExecutor, reading: Reading, numbers: NDArray[np.int64]) -> Marks:
        """What says of these chunks that they are out of date."""
        if not reading.stream.has_outdated:
            return {}
        held = await self._search.find_outdated(db, reading.request, numbers)
        return choose_marks(held, reading.request.query, reading.stream.languages)

    async def _read_alone(
        self,
        reading: Reading,
        ranked: NDArray[np.int64],
        numbers: NDArray[np.int64],
        compared: NDArray[np.int64],
        repeating: Sequence[int],
    ) -> _Read:
        """As `_read`, in a transaction of its own.

        Args:
            ranked: The numbers of all that was ranked of the memory.
        """
        keeps_rest = reading.request.is_streamed and len(ranked)
        if not len(numbers) and not keeps_rest:
            return _Read({}, {}, None)
        async with self._store.read_transaction(reading.request.external_id, ()) as (db, _):
            weights = await self._ask_weights(db, reading, ranked)
            return await self._read(db, reading, numbers, compared, repeating, weights)

    async def _ask_weights(
        self, db: SqlExecutor, reading: Reading, numbers: NDArray[np.int64]
    ) -> Deferred[ChunkWeights] | None:
        """Ask for what weighs beside the rank of all chunks; None if only the first hits are wanted."""
        if not reading.request.is_streamed:
            return None
        # Comes with the rows of the best. Whatever is read later, the order is that of this moment.
        has_outcomes = reading.stream.has_outcomes
        return await self._search.ask_weights(db, reading.request, numbers, with_outcomes=has_outcomes)

    async def _read(
        self,
        db: SqlExecutor,
        reading: Reading,
        numbers: NDArray[np.int64],
        compared: NDArray[np.int64],
        repeating: Sequence[int],
        weights: Deferred[ChunkWeights] | None,
    ) -> _Read:
        """Read the rows of some chunks and the vectors of the best; for the present this ends the transaction.

        Args:
            repeating: Those of all ranked ones that stand for what they repeat.
        """
        request, stream, encoder = reading.request, reading.stream, reading.encoder
        vectors = None
        if encoder is not None and encoder.same_topic is not None:
            vectors = await self._texts.ask_vectors(db, request.external_id, stream.generation, compared)
        rows = await self._search.read_hits(
            db,
            request,
            numbers.tolist(),
            repeating=np.intersect1d(np.array(repeating, dtype=np.int64), numbers).tolist(),
            with_outcomes=stream.has_outcomes,
            is_last=not request.is_past,
        )
        return _Read(
            rows,
            {} if vectors is None else (await vectors.result()).by_number(),
            None if weights is None else await weights.result(),
        )

    async def _name_as_then(self, readings: Sequence[Reading], rows: Sequence[Row]) -> None:
        """Give the rows of a search of another moment the titles that their memories had then."""
        for reading in readings:
            tenant = reading.request.external_id
            of_one = [row for row in rows if row["external_id"] == tenant]
            if not reading.request.is_past or not of_one:
                continue
            async with self._store.read_transaction(tenant, ()) as (db, _):
                await self._history.name_as_then(db, reading.request, of_one)


def _tells_weak(reading: Reading) -> bool:
    return reading.encoder is not None and reading.encoder.tells_weak


def _repeating(reading: Reading, ranked: NDArray[np.int64]) -> tuple[int, ...]:
    """Those of the ranked chunks of a memory that stand for what they repeat, because that may not be a hit."""
    repeating = reading.texts.repeating
    return () if repeating is None else tuple(np.intersect1d(repeating, ranked).tolist())


def _choose(request: SearchRequest, everything: Ranked, marks: Marks, *, has_outcomes: bool) -> _Chosen:
    """Choose the chunks that may be among the first hits."""
    ranked = everything.only(slice(MAX_CANDIDATES)) if request.is_streamed else everything
    kept = shares(ranked.numbers, marks)
    # Near copies are told from their texts only, once these are read.
    most = max(request.limit, NEWEST_AMONG) + _MORE_FOR_COPIES
    # Chunks below this share of a score cannot reach it, whatever their importance and their outcomes.
    spread = (1 + SMALL_WEIGHTS) * (OUTCOME_SPREAD if has_outcomes else 1)
    wanted = with_newer(_wanted(ranked.scores * kept, ranked.alike, most, spread), ranked.numbers, marks)
    return _Chosen(ranked, kept, wanted)


async def _ordered(
    request: SearchRequest,
    everything: Ranked,
    chosen: _Chosen,
    marks: Marks,
    languages: Sequence[str],
    encoder: Encoder | None,
    read: _Read,
) -> tuple[list[Row], Further | None]:
    """The rows of the first hits in their final order, and what comes after them."""
    weighed = []
    for index, number in zip(chosen.wanted.tolist(), chosen.numbers.tolist(), strict=True):
        if row := read.rows.get(number):
            factor = small_factor(row, request.now)
            of_order = {
                "number": number,
                "only_asks": bool(chosen.ranked.only_asks[index]),
                "memory_key": row["memory_key"],
            }
            outcome, share = outcome_factor(row["successes"], row["failures"]), float(chosen.kept[index])
            row["score"] = float(chosen.ranked.scores[index]) * factor * outcome * share
            weighed.append(with_parts(as_hit(row), chosen.ranked, index, factor, share) | of_order)
    weighed.sort(key=lambda row: (-row["score"], row["chunk_id"]))
    same_topic = None if encoder is None else encoder.same_topic

    def order() -> list[Row]:
        texts = newer_first(one_per_text(weighed), marks)
        return newest_first(texts, request.query, languages, read.vectors, same_topic)

    rows = (await off_loop_if_long(request.query, order))[: request.limit]
    rest = None if read.weights is None else further(everything, read.weights, request.now, rows, marks)
    for row in rows:
        del row["number"], row["only_asks"], row["memory_key"]
    return rows, rest


def _joined_weights(weights: Sequence[ChunkWeights | None], places: NDArray[np.int64]) -> ChunkWeights | None:
    """The weights of all ranked chunks, in their order; None if they were not asked for.

    Args:
        weights: Of those of each memory, in their order.
        places: Of the memory of each chunk.
    """
    known = [
        one._replace(places=np.flatnonzero(places == place)[one.places])
        for place, one in enumerate(weights)
        if one is not None
    ]
    if not known:
        return None
    order = np.argsort(np.concatenate([one.places for one in known]))
    return ChunkWeights(*(np.concatenate(values)[order] for values in zip(*known, strict=True)))


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
