"""Which chunks of a large tenant are ranked: pure functions from postings and dot products to numbers.

A small tenant's chunks are all ranked. Of a large one's, those that could be among the best are: by the question's
rare words in and around them, by meaning in the cells nearest to it, by the speaker and the time that it names, and by
the graph; and around each of them as much of the text as its windows reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.repositories.chunk_vector import Dots
from agent_reminiscence.database.repositories.search import FoundTerm
from agent_reminiscence.domain.index import FIRST, WINDOWS, are_among
from agent_reminiscence.services.recall.ranking import K1, B, Weights, idf

WHOLE_MAX_CHUNKS: Final = 10_000
"""Up to so many chunks, all are ranked."""
MAX_ENTRIES: Final = 20_000
"""Postings of a term that has more are read for chunks that something else speaks for."""

_BY_PROMISE: Final = 80
_BY_WORDS: Final = 20
_BY_HEADING: Final = 10
_BY_MEANING: Final = 20
_BY_TIME: Final = 40
_BY_GRAPH: Final = 80
# So many chunks of a text that was found only by its heading or its day.
_OF_BEGINNING: Final = 80
MAX_SAID: Final = 1_000
"""What somebody has said who has said no more chunks is compared by meaning in whatever cell it is."""
LIKELY: Final = 200
"""Of somebody who has said more than `MAX_ENTRIES` chunks, those among so many of the most promising ones are told."""
DATED_TEXTS: Final = 20
"""So many texts of a period that the question names are looked at besides."""

_REACH: Final = max(max(window) for window in WINDOWS)
# Neighbours of what was found may be hits themselves: an answer often stands beside the words of the question.
_NEIGHBOURS: Final = 2


def choose_rare(counts: Mapping[str, int]) -> list[str]:
    """The terms whose postings are read whole: the rare ones, and in any case the rarest."""
    if not counts:
        return []
    rarest = min(counts, key=lambda term: (counts[term], term))
    return [term for term, count in counts.items() if count <= MAX_ENTRIES or term == rarest]


def readable(counts: Mapping[str, int]) -> list[str]:
    """The terms of which all postings may be read."""
    return [term for term, count in counts.items() if count <= MAX_ENTRIES]


class Weighed(NamedTuple):
    """What some words say of chunks and headings alone: BM25, by number, ascending."""

    numbers: NDArray[np.int64]
    scores: NDArray[np.float64]


class Promise(NamedTuple):
    """What may be expected of the scores of some chunks, by number, in no order; the larger the better."""

    numbers: NDArray[np.int64]
    values: NDArray[np.float64]

    def best(self, count: int) -> NDArray[np.int64]:
        """The numbers of the most promising chunks."""
        return _best(self.numbers, self.values, count)

    def raised(self, numbers: NDArray[np.int64], by: float) -> Promise:
        """Raise some chunks, and add those of them that promised nothing yet.

        Args:
            numbers: Ascending, each once.
        """
        are_named, places = are_among(self.numbers, numbers)
        is_new = np.ones(len(numbers), dtype=np.bool_)
        is_new[places[are_named]] = False
        return Promise(
            np.concatenate((self.numbers, numbers[is_new])),
            np.concatenate((self.values + by * are_named, np.full(np.count_nonzero(is_new), by))),
        )


def promise(weighed: Weighed, near: Dots | None, weights: Weights) -> Promise:
    """Weigh the words of chunks and of the text around them, and their meaning, roughly as the ranking does.

    The chunks that an event has brought in are numbered in the order of the text, so neighbours are told by their
    numbers before any text is read. Meaning counts for the chunk alone: of its neighbours most stand in other cells.

    Args:
        weighed: By the rare words of the question.
        near: Dot products, as far as they are known.
        weights: Those of the ranking.
    """
    is_chunk = weighed.numbers > 0
    numbers, scores = weighed.numbers[is_chunk], weighed.scores[is_chunk]
    values = np.zeros(len(numbers), dtype=np.float64)
    for (before, after), weight in zip(WINDOWS, weights.words, strict=True):
        values += weight * _share_of_best(_sums_around(numbers, scores, before, after))
    if near is None:
        return Promise(numbers, values)
    of_chunks = near.numbers > 0
    close = near.numbers[of_chunks]
    closeness = weights.meaning[0] * _share_of_best(np.maximum(near.dots[of_chunks], 0).astype(np.float64))
    are_known, places = are_among(close, numbers)
    values[places[are_known]] += closeness[are_known]
    return Promise(np.concatenate((numbers, close[~are_known])), np.concatenate((values, closeness[~are_known])))


def _sums_around(
    numbers: NDArray[np.int64], scores: NDArray[np.float64], before: int, after: int
) -> NDArray[np.float64]:
    """The score of each number with those of the numbers so far below and above it; they ascend, each once."""
    sums = scores.copy()
    for step in range(1, max(before, after) + 1):
        apart = numbers[step:] - numbers[:-step]
        sums[step:] += np.where(apart <= before, scores[:-step], 0)
        sums[:-step] += np.where(apart <= after, scores[step:], 0)
    return sums


def choose(
    promised: Promise,
    weighed: Weighed,
    said: NDArray[np.int64] | None,
    near: Dots | None,
    graph: Mapping[int, float],
) -> NDArray[np.int64]:
    """The numbers of chunks and headings that could lead to the best hits.

    Args:
        promised: What words, meaning and speaker promise together.
        weighed: By the rare words of the question.
        said: Chunks that speak of a time which the question names; None names none.
        near: Vectors in the nearest cells, and others whose dot products are known; None is a question without a
            vector.
        graph: What each chunk that the graph reaches weighs.

    Returns:
        Ascending, each once.
    """
    numbers, scores = weighed
    is_chunk = numbers > 0
    chosen = [promised.best(_BY_PROMISE)]
    # What stands out in one way alone may be the best though its text promises little.
    chosen.append(_best(numbers[is_chunk], scores[is_chunk], _BY_WORDS))
    chosen.append(_best(numbers[~is_chunk], scores[~is_chunk], _BY_HEADING))
    if said is not None and len(said):
        # Among them those first that have the question's words.
        chosen.append(_best(said, _values_at(said, numbers, scores), _BY_TIME))
    if near is not None and len(near.numbers):
        of_chunks = near.numbers > 0
        chosen.append(_best(near.numbers[of_chunks], near.dots[of_chunks], _BY_MEANING))
        chosen.append(_best(near.numbers[~of_chunks], near.dots[~of_chunks], _BY_HEADING))
    if graph:
        reached = np.fromiter(graph.keys(), np.int64, len(graph))
        chosen.append(_best(reached, np.fromiter(graph.values(), np.float64, len(graph)), _BY_GRAPH))
    return np.unique(np.concatenate(chosen))


def zone(entries: NDArray[np.void], numbers: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """What of some texts is ranked.

    Args:
        entries: Shape (n,), `LAYOUT_DTYPE`.
        numbers: What was chosen, ascending. Of a text in which no chunk was chosen the beginning is taken for chosen:
            it was found by its heading or its date.

    Returns:
        The places of what is ranked, and which of these may be hits.
    """
    size = len(entries)
    at = np.minimum(np.searchsorted(numbers, entries["number"]), max(len(numbers) - 1, 0))
    is_chosen = numbers[at] == entries["number"] if len(numbers) else np.zeros(size, dtype=np.bool_)
    begins = (entries["flags"] & FIRST) != 0
    begins[:1] = True
    text = np.cumsum(begins) - 1
    has_chosen = np.bincount(text[is_chosen], minlength=int(text[-1]) + 1 if size else 0) > 0
    firsts = np.flatnonzero(begins)
    is_chosen |= ~has_chosen[text] & (np.arange(size) - firsts[text] < _OF_BEGINNING)
    may_be_hit = _around(is_chosen, text, _NEIGHBOURS)
    places = np.flatnonzero(_around(may_be_hit, text, _REACH))
    return places, may_be_hit[places]


class Occurrence(NamedTuple):
    """In how many chunks of a tenant a term is; estimated for the texts that were not read.

    Attributes:
        found_in: In the chunk itself or in its heading.
        own_in: In the chunk itself.
    """

    found_in: float
    own_in: float


class ReadTexts:
    """The texts around what was chosen, whole: what they say of the texts that were not read.

    Attributes:
        mean_heading_length: How many terms the heading of a chunk has on average.
        window_chunks: How many chunks a window has on average; in the order of `WINDOWS`.
    """

    def __init__(self, entries: NDArray[np.void], chunks: int) -> None:
        """Look at some texts.

        Args:
            entries: Shape (n,), `LAYOUT_DTYPE`; n is at least 1.
            chunks: How many all texts of the tenant have.
        """
        numbers = entries["number"].astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[order]
        self._headings, heading_of, self._under = np.unique(
            entries["heading"].astype(np.int64), return_inverse=True, return_counts=True
        )
        self._heading_of = heading_of[order]
        self._speakers = entries["speaker"]
        # Facts have no heading.
        under = self._under[self._headings != 0]
        self._mean_under = float(under.mean()) if len(under) else 0.0
        self._unread = max(chunks - len(entries), 0)
        self.mean_heading_length = float(entries["heading_length"].mean())
        begins = (entries["flags"] & FIRST) != 0
        begins[:1] = True
        sizes = np.diff(np.flatnonzero(begins), append=len(entries))
        self.window_chunks = tuple(
            float((sizes + _reached(sizes, before) + _reached(sizes, after)).sum() / len(entries))
            for before, after in WINDOWS
        )

    def share_said(self, speakers: frozenset[int]) -> float:
        """Which share of the chunks some speakers have said."""
        return float(np.isin(self._speakers, list(speakers)).mean())

    def count(self, numbers: NDArray[np.int64], total: int) -> Occurrence:
        """In how many chunks a word is: counted in the texts that were read, and estimated from its postings beyond.

        Args:
            numbers: Of chunks and headings that have it; of a frequent one, as far as they were read.
            total: How many postings it has at least.
        """
        is_chunk = numbers > 0
        places = _places(self._numbers, numbers[is_chunk])
        has = np.zeros(len(self._headings), dtype=np.bool_)
        has[_places(self._headings, numbers[~is_chunk])] = True
        # Of a frequent term's other postings as many are headings' as of those that were read.
        headings = np.count_nonzero(~is_chunk)
        more = max(total / len(numbers), 1.0) if len(numbers) else 1.0
        own_beyond = (len(numbers) - headings) * more - len(places)
        headings_beyond = headings * more - np.count_nonzero(has)
        lacking_itself = 1 - min(own_beyond / self._unread, 1.0) if self._unread else 1.0
        lacking_above = 1 - min(headings_beyond * self._mean_under / self._unread, 1.0) if self._unread else 1.0
        under = int(self._under[has].sum())
        beside = int(np.count_nonzero(~has[self._heading_of[places]]))
        return Occurrence(
            under + beside + self._unread * (1 - lacking_itself * lacking_above),
            len(places) + self._unread * (1 - lacking_itself),
        )


def _reached(sizes: NDArray[np.intp], reach: int) -> NDArray[np.intp]:
    """How many neighbours on one side all chunks of a text have together, at most `reach` each."""
    near = np.minimum(sizes, reach)
    reached: NDArray[np.intp] = near * (near - 1) // 2 + reach * (sizes - near)
    return reached


def _places(ascending: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where those of `numbers` stand that are in `ascending`."""
    are_there, places = are_among(numbers, ascending)
    return places[are_there]


def _around(marked: NDArray[np.bool_], text: NDArray[np.intp], reach: int) -> NDArray[np.bool_]:
    """What is marked, and what stands so near to it in the same text."""
    near = marked.copy()
    for distance in range(1, reach + 1):
        same = text[distance:] == text[:-distance]
        near[distance:] |= marked[:-distance] & same
        near[:-distance] |= marked[distance:] & same
    return near


def weigh(words: Sequence[FoundTerm], chunks: int, mean_length: float) -> Weighed:
    """BM25 of each chunk and heading alone.

    Args:
        words: Where each word is.
        chunks: How many there are.
        mean_length: How many terms one has on average.
    """
    if not words:
        return Weighed(np.zeros(0, np.int64), np.zeros(0, np.float64))
    gains = []
    for word in words:
        saturation = K1 * (1 - B + B * word.lengths / max(mean_length, 1e-9))
        gains.append(float(idf(chunks, len(word.numbers))) * word.frequencies / (word.frequencies + saturation))
    numbers, places = np.unique(np.concatenate([word.numbers for word in words]), return_inverse=True)
    return Weighed(numbers, np.bincount(places, weights=np.concatenate(gains), minlength=len(numbers)))


def _share_of_best(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each as a share of the largest, as the ranking counts them; 0 where none is above 0."""
    return values / max(float(values.max(initial=0)), 1e-9)


def _values_at(
    wanted: NDArray[np.int64], numbers: NDArray[np.int64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The value of each of `wanted`; 0 where `numbers`, which ascend, have it not."""
    are_there, places = are_among(wanted, numbers)
    found = np.zeros(len(wanted), dtype=np.float64)
    found[are_there] = values[places[are_there]]
    return found


def _best(
    numbers: NDArray[np.int64], weights: NDArray[np.float64] | NDArray[np.float32], count: int
) -> NDArray[np.int64]:
    """The numbers of the largest weights, in no order; of equal ones the newest."""
    if len(numbers) <= count:
        return numbers
    # All that weigh as much as the last one stay, so that their age decides which are left out.
    least = np.partition(weights, len(weights) - count)[len(weights) - count]
    likely = np.flatnonzero(weights >= least)
    order = np.lexsort((-np.abs(numbers[likely]), -weights[likely]))
    return numbers[likely[order[:count]]]
