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
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.domain.index import DUPLICATE, QUESTION, TIME_WORDS, USER
from agent_reminiscence.services.recall.matching import (
    FOUND_AMONG,
    FOUND_FROM,
    SAID_BY_OTHER_FROM,
    MatchModel,
    match_of,
)
from agent_reminiscence.services.recall.score_parts import ALONE, TermPostings, Text, Whole, Words, running_sums

DAYS_AFTER_PERIOD: Final = 10
"""People talk about an event for some days after it."""

OWN_WORDS_FROM: Final = 0.6
"""Share of the question's words above which a chunk that contains them itself is preferred to its neighbours."""
OWN_WORDS_MIN_TERMS: Final = 4
"""Too many chunks contain all words of a shorter question."""

UNKNOWN_SPEAKER: Final = 0.5
"""The part of the speaker's weight for a chunk without a known speaker: it is not someone else's."""

_WINDOW_NAMES: Final = ("", "_before", "_around", "_wide")

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
class Question:
    """What is asked (`Asked`), in numbers."""

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


class Vectors(NamedTuple):
    """What is known of the vectors of chunks and headings."""

    numbers: NDArray[np.int64]
    """Shape (m,): chunks (positive) and headings (negative) with a vector, unique, in any order. They need not be in
    the text."""
    dots: NDArray[np.float32]
    """Shape (m,): cosine between the question's vector and each."""
    norms: NDArray[np.void]
    """Shape (n,), `NORMS_DTYPE`, in the order of the layout."""


class Ranked(NamedTuple):
    """Chunks, best first; equal scores by day and number, the newest first. All arrays have one entry per chunk."""

    indices: NDArray[np.int64]
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


NOTHING_RANKED: Final = Ranked(
    indices=np.zeros(0, np.int64),
    numbers=np.zeros(0, np.int64),
    scores=np.zeros(0, np.float64),
    parts={},
    match=np.zeros(0, np.float32),
    found=False,
    hint=np.zeros(0, np.bool_),
)


def rank(
    layout: NDArray[np.void],
    question: Question,
    vectors: Vectors | None,
    *,
    eligible: NDArray[np.bool_] | None = None,
    repeating: NDArray[np.int64] | None = None,
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
        eligible: Shape (n,): which chunks may be hits; None is all. Duplicates never may, except `repeating`.
        repeating: Numbers of duplicates that stand for what they repeat, because that may not be a hit; None is none.
        limit: The maximum number of chunks; None is all.
        weights: The weight of each part.
        cosine_match: The match model for the cosines of `vectors`; None if there is none for their embedder.
        whole: What `layout` is a part of. Word rarity, text lengths and the speaker's share are then based on the
            whole; for windows of several chunks, as if the chunks with a word were spread randomly. None: `layout` is
            everything.

    Returns:
        The chunks with any evidence.
    """
    text = Text(layout)
    may_be_hit = ((text.flags & DUPLICATE) == 0) | text.are_named(repeating)
    if eligible is not None:
        may_be_hit &= eligible
    words = Words(text, question.terms, whole)
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
        cosine = meaning.cosines[ALONE][best]
        with_cosine = match_of(words.asked_alone[best], words.asked_around[best], cosine, cosine_match)
        match = np.where(meaning.is_known[best], with_cosine, match)
    found = bool((match[:FOUND_AMONG] >= FOUND_FROM).any())
    if question.period is not None and all(term.is_time for term in question.terms):
        # Only a time is asked for.
        lies_there = (text.day >= question.period[0]) & (text.day <= question.period[1]) | text.are_named(question.said)
        match = lies_there[best].astype(np.float32)
        found = bool((lies_there & may_be_hit).any())
    indices = best[:limit]
    scale = 1 / possible if possible else 0.0
    return Ranked(
        indices=indices,
        numbers=text.number[indices],
        # Rounding may put the best slightly above 1.
        scores=np.minimum(total[indices] * scale, 1),
        parts={
            part.name: (part.values[indices] * (part.factor * scale)).astype(np.float32) for part in [*parts, penalty]
        },
        match=match[:limit],
        found=found,
        hint=_said_by_other(text, words, spoken, may_be_hit, indices),
    )


def _said_by_other(
    text: Text,
    words: Words,
    spoken: NDArray[np.bool_] | None,
    may_be_hit: NDArray[np.bool_],
    indices: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which of `indices` someone else has said, if the speaker asked about has said nothing similar."""
    if spoken is None:
        return np.zeros(len(indices), dtype=np.bool_)
    of_the_asked = words.share_alone.max(initial=0, where=spoken & may_be_hit)
    is_other = ~spoken[indices] & (text.speaker[indices] != 0)
    said: NDArray[np.bool_] = is_other & (words.share_alone[indices] >= of_the_asked + SAID_BY_OTHER_FROM)
    return said


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the score before division: `values` of shape (n,), each multiplied by `factor`."""

    name: str
    values: NDArray[Any]
    factor: float


def _parts(
    text: Text,
    question: Question,
    words: Words,
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


class _Meaning:
    """How close each window is to the question.

    Attributes:
        cosines: One array of shape (n,) per window; 0 if negative or unknown.
        is_known: Shape (n,): which chunks have a vector.
    """

    def __init__(self, text: Text, vectors: Vectors) -> None:
        rows, indices, heading_rows, heading_indices = text.find(vectors.numbers)
        dots = vectors.dots.astype(np.float64)
        of_chunks = np.zeros(text.size, dtype=np.int64)
        of_chunks[indices] = _whole_steps(dots[rows] * vectors.norms["mass"][indices])
        of_headings = np.zeros(len(text.headings), dtype=np.int64)
        above = text.heading_firsts[heading_indices]
        of_headings[heading_indices] = _whole_steps(dots[heading_rows] * vectors.norms["heading_mass"][above])
        sums, heading = running_sums(of_chunks), of_headings.take(text.heading_of)
        self.is_known = np.zeros(text.size, dtype=np.bool_)
        self.is_known[indices] = True
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


def _asked_speaker(text: Text, question: Question) -> NDArray[np.bool_] | None:
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


def _best(
    total: NDArray[np.float64], text: Text, spoken_for: NDArray[np.bool_], limit: int | None
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
