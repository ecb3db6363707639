"""Selects which chunks of a large tenant are ranked: pure functions from postings and dot products to numbers.

All chunks of a small tenant are ranked. For a large one, only those that could be among the best: by the question's
rare words in and around them, by meaning in the nearest cells, by the speaker and time it names, and by the graph; and
around each, as much of the text as its windows reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.repositories.chunk_vector import Dots
from agent_reminiscence.database.repositories.search import FoundTerm
from agent_reminiscence.domain.index import FIRST, WINDOWS, are_among, distinct
from agent_reminiscence.services.recall.ranking import Weights
from agent_reminiscence.services.recall.score_parts import K1, B, idf

WHOLE_MAX_CHUNKS: Final = 10_000
"""Up to this many chunks, all are ranked."""
MAX_ENTRIES: Final = 20_000
"""The postings of a term with more are read only for chunks that something else supports."""

MAX_ADMITTED: Final = 1_000
"""If a filter admits no more chunks than this, all of them are ranked."""
POOLS: Final = (200, 500, 1_250, 4_000)
"""As many candidates of each kind are held against a filter that admits more; the larger pool if too few are left."""
ENOUGH_ADMITTED: Final = 80
"""As many admitted candidates are enough to choose from."""

_BY_PROMISE: Final = 80
_BY_WORDS: Final = 20
_BY_HEADING: Final = 10
_BY_MEANING: Final = 60
_BY_TIME: Final = 40
_BY_GRAPH: Final = 80
# How many chunks are taken of a text that was found only by its heading or day.
_OF_BEGINNING: Final = 80
MAX_SAID: Final = 1_000
"""Chunks of a speaker with no more chunks than this are compared by meaning in every cell."""
LIKELY: Final = 200
"""For a speaker with more than `MAX_ENTRIES` chunks, only this many of the most promising chunks are checked."""
DATED_TEXTS: Final = 20
"""How many additional texts are considered from a period that the question names."""

_REACH: Final = max(max(window) for window in WINDOWS)
# Neighbours may be hits themselves: an answer is often next to the words of the question.
_NEIGHBOURS: Final = 2


def choose_rare(counts: Mapping[str, int]) -> list[str]:
    """The terms whose postings are read whole: the rare ones, and always the rarest."""
    if not counts:
        return []
    rarest = min(counts, key=lambda term: (counts[term], term))
    return [term for term, count in counts.items() if count <= MAX_ENTRIES or term == rarest]


def readable(counts: Mapping[str, int]) -> list[str]:
    """The terms whose postings may all be read."""
    return [term for term, count in counts.items() if count <= MAX_ENTRIES]


class Weighed(NamedTuple):
    """The word score (BM25) of chunks and headings alone, by number, ascending."""

    numbers: NDArray[np.int64]
    scores: NDArray[np.float64]

    def only(self, numbers: NDArray[np.int64]) -> Weighed:
        """The headings, and the chunks that are in `numbers`, which ascend."""
        are_kept = (self.numbers < 0) | are_among(self.numbers, numbers)[0]
        return Weighed(self.numbers[are_kept], self.scores[are_kept])


class Promise(NamedTuple):
    """The expected scores of some chunks, by number, in no order; larger is better."""

    numbers: NDArray[np.int64]
    values: NDArray[np.float64]

    def best(self, count: int) -> NDArray[np.int64]:
        """The numbers of the most promising chunks."""
        return _best(self.numbers, self.values, count)

    def only(self, numbers: NDArray[np.int64]) -> Promise:
        """Those that are in `numbers`, which ascend."""
        are_kept = are_among(self.numbers, numbers)[0]
        return Promise(self.numbers[are_kept], self.values[are_kept])

    def raised(self, numbers: NDArray[np.int64], by: float) -> Promise:
        """Raise some chunks, adding those that were not yet included.

        Args:
            numbers: Ascending and unique.
        """
        are_named, indices = are_among(self.numbers, numbers)
        is_new = np.ones(len(numbers), dtype=np.bool_)
        is_new[indices[are_named]] = False
        return Promise(
            np.concatenate((self.numbers, numbers[is_new])),
            np.concatenate((self.values + by * are_named, np.full(np.count_nonzero(is_new), by))),
        )


def promise(weighed: Weighed, near: Dots | None, weights: Weights) -> Promise:
    """Roughly score the words of chunks and the text around them, and their meaning, like the ranking does.

    The chunks added by an event are numbered in text order, so numbers identify neighbours before any text is read.
    Meaning counts only for the chunk itself: most of its neighbours are in other cells.

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
    # What the neighbours' meaning weighs goes to the chunk's where they speak of something else.
    closeness = sum(weights.meaning) * _share_of_best(np.maximum(near.dots[of_chunks], 0).astype(np.float64))
    are_known, indices = are_among(close, numbers)
    values[indices[are_known]] += closeness[are_known]
    return Promise(np.concatenate((numbers, close[~are_known])), np.concatenate((values, closeness[~are_known])))


def _sums_around(
    numbers: NDArray[np.int64], scores: NDArray[np.float64], before: int, after: int
) -> NDArray[np.float64]:
    """Each number's score plus those of the numbers within reach below and above; ascending and unique."""
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
    """Select the numbers of chunks and headings that could lead to the best hits.

    Args:
        promised: What words, meaning and speaker promise together.
        weighed: By the rare words of the question.
        said: Chunks that mention a time within the question's period; None if it names none.
        near: Vectors in the nearest cells, and others with known dot products; None if the question has no vector.
        graph: The graph's weight of each chunk it reaches.

    Returns:
        Ascending and unique.
    """
    numbers, scores = weighed
    is_chunk = numbers > 0
    chosen = [promised.best(_BY_PROMISE)]
    # Something outstanding in one respect may be best, although its words promise little.
    chosen.append(_best(numbers[is_chunk], scores[is_chunk], _BY_WORDS))
    chosen.append(_best(numbers[~is_chunk], scores[~is_chunk], _BY_HEADING))
    if said is not None and len(said):
        # Of these, first those with the question's words.
        chosen.append(_best(said, _values_at(said, numbers, scores), _BY_TIME))
    if near is not None and len(near.numbers):
        of_chunks = near.numbers > 0
        chosen.append(_best(near.numbers[of_chunks], near.dots[of_chunks], _BY_MEANING))
        chosen.append(_best(near.numbers[~of_chunks], near.dots[~of_chunks], _BY_HEADING))
    if graph:
        reached = np.fromiter(graph.keys(), np.int64, len(graph))
        chosen.append(_best(reached, np.fromiter(graph.values(), np.float64, len(graph)), _BY_GRAPH))
    return distinct(np.concatenate(chosen))


def pool(
    promised: Promise,
    weighed: Weighed,
    said: NDArray[np.int64] | None,
    near: Dots | None,
    graph: Mapping[int, float],
    *,
    size: int,
) -> NDArray[np.int64]:
    """The chunks that `choose` might select if a filter left out the others; arguments as there.

    Args:
        size: How many of each kind.
    """
    is_chunk = weighed.numbers > 0
    likely = [
        promised.best(size),
        _best(weighed.numbers[is_chunk], weighed.scores[is_chunk], size),
        np.fromiter(graph.keys(), np.int64, len(graph)),
    ]
    if said is not None and len(said):
        likely.append(_best(said, _values_at(said, weighed.numbers, weighed.scores), size))
    if near is not None:
        of_chunks = near.numbers > 0
        likely.append(_best(near.numbers[of_chunks], near.dots[of_chunks], size))
    return distinct(np.concatenate(likely))


def only_near(near: Dots | None, numbers: NDArray[np.int64]) -> Dots | None:
    """The dot products of headings, and of the chunks that are in `numbers`, which ascend."""
    if near is None:
        return None
    return near.only((near.numbers < 0) | are_among(near.numbers, numbers)[0])


def zone(entries: NDArray[np.void], numbers: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Select the part of some texts that is ranked.

    Args:
        entries: Shape (n,), `LAYOUT_DTYPE`.
        numbers: The selected numbers, ascending. For a text without a selected chunk, its beginning is used: it was
            found by its heading or its date.

    Returns:
        The indices of what is ranked, and which of these may be hits.
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
    indices = np.flatnonzero(_around(may_be_hit, text, _REACH))
    return indices, may_be_hit[indices]


class Occurrence(NamedTuple):
    """How many chunks of a tenant contain a term; estimated for texts that were not read.

    Attributes:
        found_in: In the chunk itself or its heading.
        own_in: In the chunk itself.
    """

    found_in: float
    own_in: float


class ReadTexts:
    """The complete texts around the selected chunks, as a sample of the texts that were not read.

    Attributes:
        mean_heading_length: The mean number of terms in a chunk's heading.
        window_chunks: The mean number of chunks in a window, in the order of `WINDOWS`.
    """

    def __init__(self, entries: NDArray[np.void], chunks: int) -> None:
        """Analyse some texts.

        Args:
            entries: Shape (n,), `LAYOUT_DTYPE`; n is at least 1.
            chunks: The number of chunks in all of the tenant's texts.
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
        """The share of the chunks that some speakers have said."""
        return float(np.isin(self._speakers, list(speakers)).mean())

    def count(self, numbers: NDArray[np.int64], total: int) -> Occurrence:
        """How many chunks have a word: counted in the texts that were read, estimated from its postings for the rest.

        Args:
            numbers: Chunks and headings that have it; for a frequent word, as far as they were read.
            total: The minimum number of its postings.
        """
        is_chunk = numbers > 0
        indices = _indices(self._numbers, numbers[is_chunk])
        has = np.zeros(len(self._headings), dtype=np.bool_)
        has[_indices(self._headings, numbers[~is_chunk])] = True
        # For a frequent term, assume the same share of headings among its unread postings as among the read ones.
        headings = np.count_nonzero(~is_chunk)
        more = max(total / len(numbers), 1.0) if len(numbers) else 1.0
        own_beyond = (len(numbers) - headings) * more - len(indices)
        headings_beyond = headings * more - np.count_nonzero(has)
        lacking_itself = 1 - min(own_beyond / self._unread, 1.0) if self._unread else 1.0
        lacking_above = 1 - min(headings_beyond * self._mean_under / self._unread, 1.0) if self._unread else 1.0
        under = int(self._under[has].sum())
        beside = int(np.count_nonzero(~has[self._heading_of[indices]]))
        return Occurrence(
            under + beside + self._unread * (1 - lacking_itself * lacking_above),
            len(indices) + self._unread * (1 - lacking_itself),
        )


def _reached(sizes: NDArray[np.intp], reach: int) -> NDArray[np.intp]:
    """How many neighbours all chunks of a text have on one side in total, at most `reach` each."""
    near = np.minimum(sizes, reach)
    reached: NDArray[np.intp] = near * (near - 1) // 2 + reach * (sizes - near)
    return reached


def _indices(ascending: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.intp]:
    """The indices in `ascending` of those `numbers` that it contains."""
    are_there, indices = are_among(numbers, ascending)
    return indices[are_there]


def _around(marked: NDArray[np.bool_], text: NDArray[np.intp], reach: int) -> NDArray[np.bool_]:
    """Everything marked, plus entries within `reach` in the same text."""
    near = marked.copy()
    for distance in range(1, reach + 1):
        same = text[distance:] == text[:-distance]
        near[distance:] |= marked[:-distance] & same
        near[:-distance] |= marked[distance:] & same
    return near


def weigh(words: Sequence[FoundTerm], chunks: int, mean_length: float) -> Weighed:
    """BM25 of each chunk and heading alone.

    Args:
        words: Where each word occurs.
        chunks: How many chunks and headings there are.
        mean_length: Their mean number of terms.
    """
    if not words:
        return Weighed(np.zeros(0, np.int64), np.zeros(0, np.float64))
    gains = []
    for word in words:
        saturation = K1 * (1 - B + B * word.lengths / max(mean_length, 1e-9))
        gains.append(float(idf(chunks, len(word.numbers))) * word.frequencies / (word.frequencies + saturation))
    numbers, indices = np.unique(np.concatenate([word.numbers for word in words]), return_inverse=True)
    return Weighed(numbers, np.bincount(indices, weights=np.concatenate(gains), minlength=len(numbers)))


def _share_of_best(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each value as a share of the largest, like in the ranking; 0 if none is above 0."""
    return values / max(float(values.max(initial=0)), 1e-9)


def _values_at(
    wanted: NDArray[np.int64], numbers: NDArray[np.int64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The value of each of `wanted`; 0 if not in `numbers`, which ascend."""
    are_there, indices = are_among(wanted, numbers)
    found = np.zeros(len(wanted), dtype=np.float64)
    found[are_there] = values[indices[are_there]]
    return found


def _best(
    numbers: NDArray[np.int64], weights: NDArray[np.float64] | NDArray[np.float32], count: int
) -> NDArray[np.int64]:
    """The numbers of the largest weights, in no order; of equal ones the newest."""
    if len(numbers) <= count:
        return numbers
    # Keep everything that equals the last one, so that age decides what is left out.
    least = np.partition(weights, len(weights) - count)[len(weights) - count]
    likely = np.flatnonzero(weights >= least)
    order = np.lexsort((-np.abs(numbers[likely]), -weights[likely]))
    return numbers[likely[order[:count]]]
