"""The parts of a score that words add: BM25 over the terms of a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.domain.index import FACT, FIRST, WINDOWS

K1: Final = 1.2
B: Final = 0.75
"""BM25's usual saturation and length normalisation; other values did not help."""


ALONE, BEFORE, _AROUND, _WIDE = range(len(WINDOWS))

# Terms are scored together until they reach about this many numbers: few calls for a small text, and for a large one
# arrays that fit the processor's cache.
_BATCH_NUMBERS: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class TermPostings:
    """One term of a question and where it occurs."""

    term: str
    count: int
    """How often the question has it."""
    numbers: NDArray[np.int64]
    """Chunks (positive) and headings (negative) that have it, unique, in any order. They need not be in the text."""
    frequencies: NDArray[np.float32]
    """How often each has it; above 0."""
    found_in: float = 0
    """How many chunks of all texts have it, themselves or in their heading; used if only some texts are ranked
    (`Whole`)."""
    own_in: float = 0
    """How many of these have it themselves."""
    is_time: bool = False
    """It only expresses the period that the question names, so hits need not have it."""


@dataclass(frozen=True, slots=True)
class Whole:
    """All texts of a tenant, if only some of them are ranked."""

    chunks: int
    """The number of their chunks."""
    mean_length: float
    """The mean number of terms of a chunk with its heading; above 0."""
    mean_heading_length: float
    """How many of these are in the heading."""
    window_chunks: tuple[float, ...]
    """The mean number of chunks in a window, in the order of `WINDOWS`."""
    said_share: float | None = None
    """The share of all chunks said by the one speaker asked about; None computes it from what is ranked."""

    def mean_window_length(self, window: int) -> float:
        """The mean number of terms in a window, including the heading of its middle chunk."""
        own = max(self.mean_length - self.mean_heading_length, 0)
        return own * self.window_chunks[window] + self.mean_heading_length


class Text:
    """A parsed layout: where windows begin and end, and the index of each number.

    Attributes:
        size: The number of chunks, n. Arrays below have shape (n,) unless stated.
        length: Each chunk's number of terms, without its heading's.
        headings: The numbers of the headings, ascending; `heading_of` is the index of each chunk's heading in it, and
            `heading_firsts` the index of the first chunk under each.
        start: The first index of each window around each chunk; one array per window.
        end: The index after its last; one array per window.
        lengths: Its number of terms, including the heading's; one array per window.
    """

    def __init__(self, layout: NDArray[np.void]) -> None:
        self.size = len(layout)
        self.number: NDArray[np.int64] = layout["number"].astype(np.int64)
        self.day = layout["day"].astype(np.int32)
        self.speaker = layout["speaker"].astype(np.uint32)
        self.flags = layout["flags"].astype(np.uint16)

        indices = np.arange(self.size)
        fact = (self.flags & FACT) != 0
        begins = ((self.flags & FIRST) != 0) | fact
        begins[:1] = True
        begins[1:] |= fact[:-1]
        firsts = np.flatnonzero(begins)
        ends = np.append(firsts[1:], self.size)[: len(firsts)]
        sizes = ends - firsts
        first, end = np.repeat(firsts, sizes), np.repeat(ends, sizes)
        self.start = [np.maximum(indices - before, first) for before, _ in WINDOWS]
        self.end = [np.minimum(indices + (after + 1), end) for _, after in WINDOWS]

        self._order = indices
        self._ascending = self.number
        if not (self.number[1:] > self.number[:-1]).all():
            # The stable sort is the fast one here: texts come in long runs of ascending numbers.
            self._order = np.argsort(self.number, kind="stable")
            self._ascending = self.number[self._order]

        # Headings stay the same over long runs, so only the first chunk of each run is checked.
        heading: NDArray[np.int64] = layout["heading"].astype(np.int64)
        changes = np.flatnonzero(heading[1:] != heading[:-1]) + 1
        runs = np.concatenate(([0], changes))[: self.size]
        self.headings, first_runs, of_run = np.unique(heading[runs], return_index=True, return_inverse=True)
        self.heading_firsts = runs[first_runs]
        self.heading_of = np.repeat(of_run, np.diff(runs, append=self.size))

        self.length = length = layout["length"].astype(np.int32)
        heading_length = layout["heading_length"].astype(np.int32)
        sums = running_sums(length)
        self.lengths = [
            sums.take(end) - sums.take(start) + heading_length for start, end in zip(self.start, self.end, strict=True)
        ]

    def find(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Find which of `numbers` are in the text, and where.

        Returns:
            The rows of `numbers` that are chunks of the text, and their indices in it; the rows that are headings of
            it, and their indices in `headings`.
        """
        is_heading = numbers < 0
        heading_rows = np.flatnonzero(is_heading)
        rows = np.flatnonzero(~is_heading)
        rows, at = _present(self._ascending, numbers, rows)
        return rows, self._order[at], *_present(self.headings, numbers, heading_rows)

    def spread[Number: np.number](
        self, numbers: NDArray[np.int64], values: NDArray[Number]
    ) -> tuple[NDArray[Number], NDArray[Number]]:
        """Bring `values` of chunks and headings, shape (m,), into the order of the text.

        Returns:
            Those of the chunks, shape (n,), and those of `headings`; 0 if not in `numbers`.
        """
        rows, indices, heading_rows, heading_indices = self.find(numbers)
        of_chunks = np.zeros(self.size, dtype=values.dtype)
        of_chunks[indices] = values[rows]
        of_headings = np.zeros(len(self.headings), dtype=values.dtype)
        of_headings[heading_indices] = values[heading_rows]
        return of_chunks, of_headings

    def are_named(self, numbers: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """Which chunks are in `numbers`; none if None."""
        named = np.zeros(self.size, dtype=np.bool_)
        if numbers is not None:
            named[self.find(numbers)[1]] = True
        return named


class Words:
    """BM25 of each window, and the share of the question's words found there.

    Attributes:
        bm25: One array of shape (n,) per window.
        share_alone: Shape (n,): the idf of the terms in the chunk or its heading, divided by that of all terms.
        asked_alone: Shape (n,): the same for terms that express more than the question's period.
        asked_around: Shape (n,): the same for the window of two chunks on each side.
        asked_idf: The sum of the idf of the terms that express more than the question's period.
        highest_idf: The idf of a term that one chunk alone has.
    """

    def __init__(self, text: Text, terms: Sequence[TermPostings], whole: Whole | None) -> None:
        self.bm25 = [np.zeros(text.size, dtype=np.float32) for _ in WINDOWS]
        self.share_alone = np.zeros(text.size, dtype=np.float32)
        self.asked_alone = np.zeros(text.size, dtype=np.float32)
        self.asked_around = np.zeros(text.size, dtype=np.float32)
        self.asked_idf = 0.0
        self.highest_idf = float(idf(text.size if whole is None else whole.chunks, 1))
        if not terms or not text.size:
            return
        self._text = text
        self._whole = whole
        self._saturation = [
            _saturation(lengths, float(lengths.mean()) if whole is None else whole.mean_window_length(window))
            for window, lengths in enumerate(text.lengths)
        ]
        # For each term, the share of all chunks that lack it, and that lack it themselves.
        lacking = np.ones((2, len(terms)))
        if whole is not None:
            having = np.array([[term.found_in for term in terms], [term.own_in for term in terms]], dtype=np.float64)
            lacking = 1 - np.minimum(having / whole.chunks, 1)
        counts = np.array([term.count for term in terms], dtype=np.float64)
        term_of = np.repeat(np.arange(len(terms)), [len(term.numbers) for term in terms])
        frequencies = np.concatenate([term.frequencies for term in terms]).astype(np.int32)
        rows, indices, heading_rows, heading_indices = text.find(np.concatenate([term.numbers for term in terms]))
        says_more = np.array([not term.is_time for term in terms])
        all_idf = np.zeros(2)
        step = max(1, _BATCH_NUMBERS // text.size)
        for first in range(0, len(terms), step):
            batch = range(first, min(first + step, len(terms)))
            own = _table(batch, term_of[rows], indices, frequencies[rows], text.size)
            of_headings = _table(
                batch, term_of[heading_rows], heading_indices, frequencies[heading_rows], len(text.headings)
            )
            own_idf = self._add(
                own,
                of_headings,
                counts[first : batch.stop],
                lacking[:, first : batch.stop],
                says_more[first : batch.stop],
            )
            all_idf += own_idf.sum(), own_idf[says_more[first : batch.stop]].sum()
        self.asked_idf = float(all_idf[1])
        self.share_alone /= np.float32(all_idf[0])
        if all_idf[1]:
            self.asked_alone /= np.float32(all_idf[1])
            self.asked_around /= np.float32(all_idf[1])

    def _add(
        self,
        own: NDArray[np.int32],
        of_headings: NDArray[np.int32],
        counts: NDArray[np.float64],
        lacking: NDArray[np.float64],
        says_more: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        """Add what some terms contribute to each window.

        Args:
            own: How often each chunk has each term; shape (terms, n).
            of_headings: How often each heading has each term; shape (terms, headings).
            counts: How often the question has each term; shape (terms,).
            lacking: The share of the chunks of all texts that lack each term, and that lack it themselves; shape
                (2, terms).
            says_more: Which terms express more than the question's period; shape (terms,).

        Returns:
            Their idf among single chunks; shape (terms,).
        """
        text = self._text
        sums = running_sums(own)
        # A term missing from the widest window is missing from all, so the others are only checked where that has it.
        terms, indices = np.nonzero(self._frequency(sums, of_headings, _WIDE))
        in_sums = terms * sums.shape[1]
        in_heading = of_headings.ravel().take(terms * of_headings.shape[1] + text.heading_of[indices])
        own_idf = np.zeros(len(own), dtype=np.float32)
        for window in range(len(WINDOWS)):
            frequency = sums.ravel().take(in_sums + text.end[window][indices])
            frequency -= sums.ravel().take(in_sums + text.start[window][indices])
            frequency += in_heading
            found = frequency != 0
            rare = self._rarity(window, terms, found, lacking)
            if window == ALONE:
                own_idf = rare.astype(np.float32)
                self.share_alone += _sum_at(indices, own_idf[terms] * found, text.size)
                self.asked_alone += _sum_at(indices, (own_idf * says_more)[terms] * found, text.size)
            elif window == _AROUND:
                self.asked_around += _sum_at(indices, (own_idf * says_more)[terms] * found, text.size)
            gain = frequency.astype(np.float32)
            gain /= gain + self._saturation[window][indices]
            gain *= (counts * rare * (K1 + 1)).astype(np.float32)[terms]
            self.bm25[window] += _sum_at(indices, gain, text.size)
        return own_idf

    def _rarity(
        self, window: int, terms: NDArray[np.intp], found: NDArray[np.bool_], lacking: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The idf of each term among the windows of one kind; shape (terms,).

        Args:
            terms: Which of the terms may be in a window, repeated per window.
            found: Whether it is.
            lacking: As in `_add`.
        """
        if self._whole is None:
            return idf(self._text.size, np.bincount(terms[found], minlength=lacking.shape[1]))
        # The middle chunk's heading is in the window, those of its neighbours are not.
        without = lacking[0] * lacking[1] ** (self._whole.window_chunks[window] - 1)
        return idf(self._whole.chunks, self._whole.chunks * (1 - without))

    def _frequency(self, sums: NDArray[np.int32], of_headings: NDArray[np.int32], window: int) -> NDArray[np.int32]:
        """How often a window has each term around each chunk; shape (terms, n)."""
        text = self._text
        frequency: NDArray[np.int32] = sums.take(text.end[window], axis=1)
        frequency -= sums.take(text.start[window], axis=1)
        if of_headings.any():
            frequency += of_headings.take(text.heading_of, axis=1)
        return frequency


def _sum_at(indices: NDArray[np.intp], values: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """The sum of the values at each index; shape (size,)."""
    sums = np.zeros(size, dtype=np.float32)
    np.add.at(sums, indices, values)
    return sums


def _saturation(lengths: NDArray[np.int32], mean: float) -> NDArray[np.float32]:
    """The length term in BM25's denominator; shape (n,), above 0."""
    # A text without words has nothing to divide by, and nothing to score.
    relative = lengths.astype(np.float32) / np.float32(max(mean, 1e-9))
    return np.float32(K1 * (1 - B)) + np.float32(K1 * B) * relative


def idf(size: int, found_in: NDArray[Any] | int) -> NDArray[np.float64]:
    """The inverse document frequency of BM25 for something found in this many of `size` texts; at least 0."""
    rarity: NDArray[np.float64] = np.log1p(np.maximum(size - found_in + 0.5, 0) / (np.asarray(found_in) + 0.5))
    return rarity


def _table(
    terms: range, term_of: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.int32], width: int
) -> NDArray[np.int32]:
    """A row for each of `terms`, with `values` at their `columns` and 0 elsewhere; `term_of` ascends."""
    here = slice(*np.searchsorted(term_of, (terms.start, terms.stop)))
    out = np.zeros((len(terms), width), dtype=np.int32)
    out[term_of[here] - terms.start, columns[here]] = values[here]
    return out


def running_sums[Whole: (np.int32, np.int64)](values: NDArray[Whole]) -> NDArray[Whole]:
    """Sums of whole numbers, shape (…, n), before each index, and the total; shape (…, n + 1).

    Integers, because differences of long float sums lose a window's content. They may overflow: a difference that fits
    is still right.
    """
    sums = np.zeros((*values.shape[:-1], values.shape[-1] + 1), dtype=values.dtype)
    np.cumsum(values, axis=-1, dtype=values.dtype, out=sums[..., 1:])
    return sums


def _present(
    ascending: NDArray[np.int64], numbers: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Those of `rows` whose number is in `ascending`, and its index there."""
    if not len(ascending) or not len(rows):
        return rows[:0], rows[:0]
    wanted = numbers[rows]
    at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    there = ascending[at] == wanted
    return (rows, at) if there.all() else (rows[there], at[there])
