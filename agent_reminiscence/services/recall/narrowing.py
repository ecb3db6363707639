"""Which chunks of a large tenant are ranked: pure functions from postings and dot products to numbers.

A small tenant's chunks are all ranked. Of a large one's, those that could be among the best are: by the question's
rare words, by meaning in the cells nearest to it, by the time that it names, and by the graph; and around each of them
as much of the text as its windows reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.repositories.chunk_vector import Dots
from agent_reminiscence.database.repositories.search import FoundTerm
from agent_reminiscence.domain.index import FIRST, WINDOWS
from agent_reminiscence.services.recall.ranking import K1, B, idf

WHOLE_MAX_CHUNKS: Final = 10_000
"""Up to so many chunks, all are ranked."""
MAX_ENTRIES: Final = 20_000
"""Postings of a term that has more are read for chunks that something else speaks for."""

_BY_WORDS: Final = 80
_BY_HEADING: Final = 10
_BY_MEANING: Final = 60
_BY_TIME: Final = 40
_BY_GRAPH: Final = 80
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


def choose(
    words: Sequence[FoundTerm],
    said: NDArray[np.int64] | None,
    near: Dots | None,
    graph: Mapping[int, float],
    *,
    chunks: int,
    mean_length: float,
) -> NDArray[np.int64]:
    """The numbers of chunks and headings that could lead to the best hits.

    Args:
        words: The rare words of the question.
        said: Chunks that speak of a time which the question names; None names none.
        near: Vectors in the nearest cells; None is a question without a vector.
        graph: What each chunk that the graph reaches weighs.
        chunks: How many there are.
        mean_length: How many terms one has on average.

    Returns:
        Ascending, each once.
    """
    numbers, scores = _weigh(words, chunks, mean_length)
    is_chunk = numbers > 0
    chosen = [_best(numbers[is_chunk], scores[is_chunk], _BY_WORDS)]
    chosen.append(_best(numbers[~is_chunk], scores[~is_chunk], _BY_HEADING))
    if said is not None and len(said):
        # Among them those first that have the question's words.
        weights = np.zeros(len(said), dtype=np.float64)
        if len(numbers):
            at = np.minimum(np.searchsorted(numbers, said), len(numbers) - 1)
            weights = np.where(numbers[at] == said, scores[at], 0)
        chosen.append(_best(said, weights, _BY_TIME))
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
    is_chosen |= ~has_chosen[text] & (np.arange(size) - firsts[text] < _BY_WORDS)
    may_be_hit = _around(is_chosen, text, _NEIGHBOURS)
    places = np.flatnonzero(_around(may_be_hit, text, _REACH))
    return places, may_be_hit[places]


def _around(marked: NDArray[np.bool_], text: NDArray[np.intp], reach: int) -> NDArray[np.bool_]:
    """What is marked, and what stands so near to it in the same text."""
    near = marked.copy()
    for distance in range(1, reach + 1):
        same = text[distance:] == text[:-distance]
        near[distance:] |= marked[:-distance] & same
        near[:-distance] |= marked[distance:] & same
    return near


def _weigh(
    words: Sequence[FoundTerm], chunks: int, mean_length: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """BM25 of each chunk and heading alone, by number, ascending."""
    if not words:
        return np.zeros(0, np.int64), np.zeros(0, np.float64)
    gains = []
    for word in words:
        saturation = K1 * (1 - B + B * word.lengths / max(mean_length, 1e-9))
        gains.append(float(idf(chunks, len(word.numbers))) * word.frequencies / (word.frequencies + saturation))
    numbers, places = np.unique(np.concatenate([word.numbers for word in words]), return_inverse=True)
    return numbers, np.bincount(places, weights=np.concatenate(gains), minlength=len(numbers))


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
