"""Ranks which chunks answer a question: numbers in, order out. Pure: no store, no text, no clock.

Every chunk is scored with four windows of the text around it (`WINDOWS`): by the words it shares with the question
(BM25 per window) and by meaning (the cosine between question and window). Windows follow the layout of a memory's text
and never extend into another memory; the middle chunk's heading counts once in each; a fact stands alone.

    score = (Σ words_w · BM25_w / best BM25_w  +  Σ meaning_w · max(0, cos_w) / best cos_w
             + speaker + date + said + when − question + own_words + graph)  /  sum of the weights that could apply

"Best" is the best among chunks that may be a hit. Windows, document frequencies and lengths refer to the whole text
of the moment, including duplicates.

A score is between 0 and 1: the share of the possible evidence for a chunk that it has. Something is always the best, so
scores only compare hits of the same question; `match` says in absolute terms whether what was asked is there.

The weights were tuned on conversations between two people and on two years of phone use; docs/adr/0022 has tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.domain.index import DUPLICATE, FACT, FIRST, QUESTION, TIME_WORDS, USER, WINDOWS
from agent_reminiscence.services.recall.matching import (
    FOUND_AMONG,
    FOUND_FROM,
    SAID_BY_OTHER_FROM,
    MatchModel,
    match_of,
)

K1: Final = 1.2
B: Final = 0.75
"""BM25's usual saturation and length normalisation; other values did not help."""

DAYS_AFTER_PERIOD: Final = 10
"""People talk about an event for some days after it."""

OWN_WORDS_FROM: Final = 0.6
"""Share of the question's words above which a chunk that contains them itself is preferred to its neighbours."""
OWN_WORDS_MIN_TERMS: Final = 4
"""Too many chunks contain all words of a shorter question."""

UNKNOWN_SPEAKER: Final = 0.5
"""The part of the speaker's weight for a chunk without a known speaker: it is not someone else's."""

_WINDOW_NAMES: Final = ("", "_before", "_around", "_wide")
_ALONE, _BEFORE, _AROUND, _WIDE = range(len(WINDOWS))

# Terms are scored together until they reach about this many numbers: few calls for a small text, and for a large one
# arrays that fit the processor's cache.
_BATCH_NUMBERS: Final = 1 << 14
# Resolution of a token's share in a dot product: as fine as 32-bit floats, and a billion tokens sum exactly in 64 bits.
_STEPS: Final = float(1 << 20)
# Below this length, vectors that cancel out have no direction.
_LEAST_NORM: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each part of the score. Windows in the order of `WINDOWS`; all are at least 0."""

    words: tuple[float, float, float, float] = (0.3, 0.4, 0.3, 0.5)
    meaning: tuple[float, float, float, float] = (0.2, 0.3, 0.2, 0.1)
    speaker: float = 0.6
    date: float = 0.7
    said: float = 0.2
    when: float = 0.4
    question: float = 0.2
    """Subtracted: a chunk that asks a question seldom answers one."""
    own_words: float = 0.5
    graph: float = 2.0
    """Maximum, reached if what the question names is rare: from 1.9 on, questions over two hops are answered."""

    def speaker_of(self, share: float) -> float:
        """The weight of a speaker who has said this share of all chunks."""
        # Someone who has said more than half of everything is less distinctive, the more it is.
        return self.speaker * min(1.0, 2 - 2 * share)


DEFAULT_WEIGHTS: Final = Weights()


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


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, in numbers."""

    terms: Sequence[TermPostings]
    """Each term once, including those found nowhere."""
    speakers: frozenset[int] = frozenset()
    """Hashes of the names that the question may mean, known or not."""
    first_person: bool = False
    """The question says I, my, me or mine."""
    period: tuple[int, int] | None = None
    """First and last day of the period it names, in days since 1970-01-01."""
    asks_when: bool = False
    said: NDArray[np.int64] | None = None
    """Numbers of chunks that mention a time within the period; None is none."""
    graph: Mapping[int, float] | None = None
    """The weight of each chunk that the graph reaches, by number; above 0. None is none."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """What is known of the vectors of chunks and headings."""

    numbers: NDArray[np.int64]
    """Shape (m,): chunks (positive) and headings (negative) with a vector, unique, in any order. They need not be in
    the text."""
    dots: NDArray[np.float32]
    """Shape (m,): cosine between the question's vector and each."""
    norms: NDArray[np.void]
    """Shape (n,), `NORMS_DTYPE`, in the order of the layout."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Chunks, best first; equal scores by day and number, the newest first. All arrays have one entry per chunk."""

    places: NDArray[np.int64]
    """Indices into the layout."""
    numbers: NDArray[np.int64]
    scores: NDArray[np.float64]
    """From 0 to 1."""
    parts: dict[str, NDArray[np.float32]]
    """The contribution of each part of the formula; they add up to the score. Parts that cannot apply are absent."""
    match: NDArray[np.float32]
    """From 0 to 1, in absolute terms: the likelihood that the question is about something discussed here."""
    found: bool
    """Whether one of the `FOUND_AMONG` best matches at least `FOUND_FROM`, even if `limit` is smaller. If only a time
    is asked for: whether anything falls into it."""
    hint: NDArray[np.bool_]
    """True if someone other than the one speaker asked about seems to have said this."""


def rank(
    layout: NDArray[np.void],
    question: Question,
    vectors: Vectors | None,
    *,
    eligible: NDArray[np.bool_] | None = None,
    limit: int | None = None,
    weights: Weights = DEFAULT_WEIGHTS,
    cosine_match: MatchModel | None = None,
    whole: Whole | None = None,
) -> Ranked:
    """Rank the chunks of a text by how well they answer a question.

    Args:
        layout: The text of the moment, memory by memory; shape (n,), `LAYOUT_DTYPE`.
        question: What is asked.
        vectors: Of its chunks and headings; None if the question has no vector. A chunk without a vector gets no score
            for meaning.
        eligible: Shape (n,): which chunks may be hits; None is all. Duplicates never may.
        limit: The maximum number of chunks; None is all.
        weights: The weight of each part.
        cosine_match: The match model for the cosines of `vectors`; None if there is none for their embedder.
        whole: What `layout` is a part of. Word rarity, text lengths and the speaker's share are then based on the
            whole; for windows of several chunks, as if the chunks with a word were spread randomly. None: `layout` is
            everything.

    Returns:
        The chunks with any evidence.
    """
    text = _Text(layout)
    may_be_hit = (text.flags & DUPLICATE) == 0
    if eligible is not None:
        may_be_hit &= eligible
    words = _Words(text, question.terms, whole)
    meaning = None if vectors is None else _Meaning(text, vectors)
    spoken = _asked_speaker(text, question)
    share_said = _share_said(spoken, whole)
    parts, possible = _parts(text, question, words, meaning, spoken, share_said, may_be_hit, weights)

    total = np.zeros(text.size, dtype=np.float64)
    for part in parts:
        total += part.values * part.factor
    spoken_for = may_be_hit & (total > 0)
    asks = ((text.flags & QUESTION) != 0) & ((text.flags & USER) == 0)
    # It subtracts no more than the others gave, so that the parts still add up to a score of at least 0.
    penalty = _Part("question", np.minimum(asks * weights.question, total), -1)
    total -= penalty.values

    best = _best(total, text, spoken_for, None if limit is None else max(limit, FOUND_AMONG))
    match = match_of(words.asked_alone[best], words.asked_around[best])
    if meaning is not None and cosine_match is not None:
        cosine = meaning.cosines[_ALONE][best]
        with_cosine = match_of(words.asked_alone[best], words.asked_around[best], cosine, cosine_match)
        match = np.where(meaning.is_known[best], with_cosine, match)
    found = bool((match[:FOUND_AMONG] >= FOUND_FROM).any())
    if question.period is not None and all(term.is_time for term in question.terms):
        # Only a time is asked for.
        lies_there = (text.day >= question.period[0]) & (text.day <= question.period[1]) | text.are_named(question.said)
        match = lies_there[best].astype(np.float32)
        found = bool((lies_there & may_be_hit).any())
    places = best[:limit]
    scale = 1 / possible if possible else 0.0
    return Ranked(
        places=places,
        numbers=text.number[places],
        # Rounding may put the best slightly above 1.
        scores=np.minimum(total[places] * scale, 1),
        parts={
            part.name: (part.values[places] * (part.factor * scale)).astype(np.float32) for part in [*parts, penalty]
        },
        match=match[:limit],
        found=found,
        hint=_said_by_other(text, words, spoken, may_be_hit, places),
    )


def _said_by_other(
    text: _Text,
    words: _Words,
    spoken: NDArray[np.bool_] | None,
    may_be_hit: NDArray[np.bool_],
    places: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which of `places` someone else has said, if the speaker asked about has said nothing similar."""
    if spoken is None:
        return np.zeros(len(places), dtype=np.bool_)
    of_the_asked = words.share_alone.max(initial=0, where=spoken & may_be_hit)
    is_other = ~spoken[places] & (text.speaker[places] != 0)
    said: NDArray[np.bool_] = is_other & (words.share_alone[places] >= of_the_asked + SAID_BY_OTHER_FROM)
    return said


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the score before division: `values` of shape (n,), each multiplied by `factor`."""

    name: str
    values: NDArray[Any]
    factor: float


def _parts(
    text: _Text,
    question: Question,
    words: _Words,
    meaning: _Meaning | None,
    spoken: NDArray[np.bool_] | None,
    share_said: float,
    may_be_hit: NDArray[np.bool_],
    weights: Weights,
) -> tuple[list[_Part], float]:
    """The evidence for each chunk, and the sum of the weights that could apply to the question."""
    parts: list[_Part] = []
    possible = 0.0

    def best_gets(name: str, values: NDArray[Any], weight: float) -> None:
        best = float(values.max(initial=0, where=may_be_hit))
        parts.append(_Part(name, values, weight / best if best > 0 else 0.0))

    if question.terms:
        possible += sum(weights.words)
        for window, weight in enumerate(weights.words):
            best_gets("words" + _WINDOW_NAMES[window], words.bm25[window], weight)
    if meaning is not None:
        possible += sum(weights.meaning)
        for window, weight in enumerate(weights.meaning):
            best_gets("meaning" + _WINDOW_NAMES[window], meaning.cosines[window], weight)
    if spoken is not None:
        weight = weights.speaker_of(share_said)
        possible += weight
        parts.append(_Part("speaker", np.where(text.speaker == 0, UNKNOWN_SPEAKER, spoken), weight))
    if question.period is not None:
        possible += weights.date + weights.said
        start, end = question.period
        in_period = (text.day >= start) & (text.day <= end + DAYS_AFTER_PERIOD)
        parts.append(_Part("date", in_period, weights.date))
        parts.append(_Part("said", text.are_named(question.said), weights.said))
    if question.asks_when:
        possible += weights.when
        parts.append(_Part("when", (text.flags & TIME_WORDS) != 0, weights.when))
    if len(question.terms) >= OWN_WORDS_MIN_TERMS:
        possible += weights.own_words
        surplus = np.maximum(words.share_alone - OWN_WORDS_FROM, 0)
        parts.append(_Part("own_words", surplus, weights.own_words / (1 - OWN_WORDS_FROM)))
    if question.graph:
        numbers = np.fromiter(question.graph.keys(), np.int64, len(question.graph))
        reached, _ = text.spread(numbers, np.fromiter(question.graph.values(), np.float64, len(question.graph)))
        if reached.any(where=may_be_hit):
            possible += weights.graph
            best_gets("graph", reached, weights.graph)
    return parts, possible


class _Text:
    """A parsed layout: where windows begin and end, and the place of each number.

    Attributes:
        size: The number of chunks, n. Arrays below have shape (n,) unless stated.
        headings: The numbers of the headings, ascending; `heading_of` is the index of each chunk's heading in it, and
            `heading_firsts` the place of the first chunk under each.
        start: The first place of each window around each chunk; one array per window.
        end: The place after its last; one array per window.
        lengths: Its number of terms, including the heading's; one array per window.
    """

    def __init__(self, layout: NDArray[np.void]) -> None:
        self.size = len(layout)
        self.number: NDArray[np.int64] = layout["number"].astype(np.int64)
        self.day = layout["day"].astype(np.int32)
        self.speaker = layout["speaker"].astype(np.uint32)
        self.flags = layout["flags"].astype(np.uint16)

        places = np.arange(self.size)
        fact = (self.flags & FACT) != 0
        begins = ((self.flags & FIRST) != 0) | fact
        begins[:1] = True
        begins[1:] |= fact[:-1]
        firsts = np.flatnonzero(begins)
        ends = np.append(firsts[1:], self.size)[: len(firsts)]
        sizes = ends - firsts
        first, end = np.repeat(firsts, sizes), np.repeat(ends, sizes)
        self.start = [np.maximum(places - before, first) for before, _ in WINDOWS]
        self.end = [np.minimum(places + (after + 1), end) for _, after in WINDOWS]

        self._order = places
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

        length = layout["length"].astype(np.int32)
        heading_length = layout["heading_length"].astype(np.int32)
        sums = _running_sums(length)
        self.lengths = [
            sums.take(end) - sums.take(start) + heading_length for start, end in zip(self.start, self.end, strict=True)
        ]

    def find(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Find which of `numbers` are in the text, and where.

        Returns:
            The rows of `numbers` that are chunks of the text, and their places in it; the rows that are headings of it,
            and their indices in `headings`.
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
        rows, places, heading_rows, heading_places = self.find(numbers)
        of_chunks = np.zeros(self.size, dtype=values.dtype)
        of_chunks[places] = values[rows]
        of_headings = np.zeros(len(self.headings), dtype=values.dtype)
        of_headings[heading_places] = values[heading_rows]
        return of_chunks, of_headings

    def are_named(self, numbers: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """Which chunks are in `numbers`; none if None."""
        named = np.zeros(self.size, dtype=np.bool_)
        if numbers is not None:
            named[self.find(numbers)[1]] = True
        return named


class _Words:
    """BM25 of each window, and the share of the question's words found there.

    Attributes:
        bm25: One array of shape (n,) per window.
        share_alone: Shape (n,): the idf of the terms in the chunk or its heading, divided by that of all terms.
        asked_alone: Shape (n,): the same for terms that express more than the question's period.
        asked_around: Shape (n,): the same for the window of two chunks on each side.
    """

    def __init__(self, text: _Text, terms: Sequence[TermPostings], whole: Whole | None) -> None:
        self.bm25 = [np.zeros(text.size, dtype=np.float32) for _ in WINDOWS]
        self.share_alone = np.zeros(text.size, dtype=np.float32)
        self.asked_alone = np.zeros(text.size, dtype=np.float32)
        self.asked_around = np.zeros(text.size, dtype=np.float32)
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
        rows, places, heading_rows, heading_places = text.find(np.concatenate([term.numbers for term in terms]))
        says_more = np.array([not term.is_time for term in terms])
        all_idf = np.zeros(2)
        step = max(1, _BATCH_NUMBERS // text.size)
        for first in range(0, len(terms), step):
            batch = range(first, min(first + step, len(terms)))
            own = _table(batch, term_of[rows], places, frequencies[rows], text.size)
            of_headings = _table(
                batch, term_of[heading_rows], heading_places, frequencies[heading_rows], len(text.headings)
            )
            own_idf = self._add(
                own,
                of_headings,
                counts[first : batch.stop],
                lacking[:, first : batch.stop],
                says_more[first : batch.stop],
            )
            all_idf += own_idf.sum(), own_idf[says_more[first : batch.stop]].sum()
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
        sums = _running_sums(own)
        # A term missing from the widest window is missing from all, so the others are only checked where that has it.
        terms, places = np.nonzero(self._frequency(sums, of_headings, _WIDE))
        in_sums = terms * sums.shape[1]
        in_heading = of_headings.ravel().take(terms * of_headings.shape[1] + text.heading_of[places])
        own_idf = np.zeros(len(own), dtype=np.float32)
        for window in range(len(WINDOWS)):
            frequency = sums.ravel().take(in_sums + text.end[window][places])
            frequency -= sums.ravel().take(in_sums + text.start[window][places])
            frequency += in_heading
            found = frequency != 0
            rare = self._rarity(window, terms, found, lacking)
            if window == _ALONE:
                own_idf = rare.astype(np.float32)
                self.share_alone += _sum_at(places, own_idf[terms] * found, text.size)
                self.asked_alone += _sum_at(places, (own_idf * says_more)[terms] * found, text.size)
            elif window == _AROUND:
                self.asked_around += _sum_at(places, (own_idf * says_more)[terms] * found, text.size)
            gain = frequency.astype(np.float32)
            gain /= gain + self._saturation[window][places]
            gain *= (counts * rare * (K1 + 1)).astype(np.float32)[terms]
            self.bm25[window] += _sum_at(places, gain, text.size)
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


def _sum_at(places: NDArray[np.intp], values: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """The sum of the values at each place; shape (size,)."""
    sums = np.zeros(size, dtype=np.float32)
    np.add.at(sums, places, values)
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


class _Meaning:
    """How close each window is to the question.

    Attributes:
        cosines: One array of shape (n,) per window; 0 if negative or unknown.
        is_known: Shape (n,): which chunks have a vector.
    """

    def __init__(self, text: _Text, vectors: Vectors) -> None:
        rows, places, heading_rows, heading_places = text.find(vectors.numbers)
        dots = vectors.dots.astype(np.float64)
        of_chunks = np.zeros(text.size, dtype=np.int64)
        of_chunks[places] = _whole_steps(dots[rows] * vectors.norms["mass"][places])
        of_headings = np.zeros(len(text.headings), dtype=np.int64)
        above = text.heading_firsts[heading_places]
        of_headings[heading_places] = _whole_steps(dots[heading_rows] * vectors.norms["heading_mass"][above])
        sums, heading = _running_sums(of_chunks), of_headings.take(text.heading_of)
        self.is_known = np.zeros(text.size, dtype=np.bool_)
        self.is_known[places] = True
        self.cosines: list[NDArray[np.float32]] = []
        norms = vectors.norms["norms"].T.astype(np.float64)
        # An infinite norm gives a cosine of 0.
        norms[norms <= _LEAST_NORM] = np.inf
        norms *= _STEPS
        for start, end, norm in zip(text.start, text.end, norms, strict=True):
            dot = sums.take(end)
            dot -= sums.take(start)
            dot += heading
            # Vectors are stored in 16 bits, so a cosine may be slightly above 1. A chunk without a vector gets nothing
            # for its neighbours or its heading.
            self.cosines.append(np.where(self.is_known, np.clip(dot / norm, 0, 1), 0).astype(np.float32))


def _whole_steps(products: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round to integers, which add up exactly in any context: equal windows get equal cosines."""
    return np.rint(products * _STEPS).astype(np.int64)


def _asked_speaker(text: _Text, question: Question) -> NDArray[np.bool_] | None:
    """Which chunks were said by the one speaker asked about; None if the question names none or several."""
    spoken: list[NDArray[np.bool_]] = [text.speaker == name for name in question.speakers]
    known = [chunks for chunks in spoken if chunks.any()]
    if not known and question.first_person:
        user: NDArray[np.bool_] = (text.flags & USER) != 0
        known = [user] if user.any() else []
    return known[0] if len(known) == 1 else None


def _share_said(spoken: NDArray[np.bool_] | None, whole: Whole | None) -> float:
    """The share of all chunks said by the one speaker asked about."""
    if whole is not None and whole.said_share is not None:
        return whole.said_share
    return 0.0 if spoken is None else float(spoken.mean())


def _running_sums[Whole: (np.int32, np.int64)](values: NDArray[Whole]) -> NDArray[Whole]:
    """Sums of whole numbers, shape (…, n), before each place, and the total; shape (…, n + 1).

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


def _best(
    total: NDArray[np.float64], text: _Text, spoken_for: NDArray[np.bool_], limit: int | None
) -> NDArray[np.int64]:
    """The best of `total`, best first, of equal ones the newest; at most `limit`, and only if `spoken_for`."""
    chosen = np.flatnonzero(spoken_for)
    if limit is not None and limit < len(chosen):
        values = total[chosen]
        # Keep everything that equals the last one, so that age decides what is left out.
        least = np.partition(values, len(values) - limit)[len(values) - limit] if limit else np.inf
        chosen = chosen[values >= least]
    order = np.lexsort((-text.number[chosen], -text.day[chosen], -total[chosen]))
    return chosen[order][:limit]
