"""Ranks which chunks answer a question: numbers in, order out. Pure: no store, no text, no clock.

Every chunk is scored with four windows of the text around it (`WINDOWS`): by the words it shares with the question
(BM25 per window) and by meaning (the cosine between question and window). Windows follow the layout of a memory's text
and never extend into another memory; the middle chunk's heading counts once in each; a fact stands alone.

    W_w   = BM25_w / best BM25_w,   M_w = max(0, cos_w) / best cos_w
    own   = trust · W_0 + (1 − trust) · M_0
    score = (Σ words_w   · (trust · (near_w · W_w + (1 − near_w) · own) + (1 − trust) · M_0)
             + Σ meaning_w · (near_w · M_w + (1 − near_w) · M_0)
             + speaker + date + said + when − question + own_words + of_self + graph)
            / sum of the weights that could apply

Two numbers between 0 and 1 decide what counts. `trust` is how far the question's words lead: they count for as much as
the best window has of them, and meaning for the rest (`_Evidence.trust_in_words`). `near_w` is how far the passages of
a window speak of one thing: an answer leans on its neighbours in a conversation, and a statement among others stands
alone (`_nearness`). A chunk that only asks ranks below what states something about the question.

"Best" is the best among chunks that may be a hit and do not only ask. Windows, document frequencies and lengths refer
to the whole text of the moment, including duplicates.

A score is between 0 and 1: the share of the possible evidence for a chunk that it has. Something is always the best, so
scores only compare hits of the same question; `match` says in absolute terms whether what was asked is there.

The weights were tuned on ten kinds of everyday use, on conversations between two people, and on two years of phone use
at once; docs/adr/0051 has tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.domain.index import ASKS, DUPLICATE, OF_SELF, QUESTION, TIME_WORDS, USER
from agent_reminiscence.services.recall.encoders import Encoder
from agent_reminiscence.services.recall.matching import (
    FOUND_AMONG,
    FOUND_FROM,
    LEADS_OVER,
    LEADS_OVER_AT_LEAST,
    SAID_BY_OTHER_FROM,
    match_of,
)
from agent_reminiscence.services.recall.score_parts import ALONE, BEFORE, TermPostings, Text, Whole, Words, running_sums

DAYS_AFTER_PERIOD: Final = 10
"""People talk about an event for some days after it."""

OWN_WORDS_FROM: Final = 0.6
"""Share of the question's words above which a chunk that contains them itself is preferred to its neighbours."""
OWN_WORDS_MIN_TERMS: Final = 4
"""Too many chunks contain all words of a shorter question."""

TRUSTED_WORDS: Final = 2.0
"""Words are trusted fully from here on: so many words that one chunk alone has, or more that are less rare; of a
shorter question all."""
TRUSTED_SHARE: Final = 0.5
"""Words are trusted fully only if the best window has this share of the question's, weighted by rarity …"""
TRUSTED_IN_ANY: Final = 4.0
"""… or, however long the question is, so many rare words."""

WITHOUT_WORDS: Final = 2.0
"""Who and when weigh up to this much more, as a factor above 1, where the question's words lead nowhere."""

ASKING_SHARE: Final = 0.25
"""A chunk that only asks keeps this share of its score, and of no more than the best of the others has: it often has
all words of the question, and nothing that answers it."""

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

    words: tuple[float, float, float, float] = (0.3, 0.7, 0.4, 0.5)
    meaning: tuple[float, float, float, float] = (0.2, 0.3, 0.2, 0.1)
    speaker: float = 0.6
    date: float = 0.7
    said: float = 0.2
    when: float = 0.4
    question: float = 0.3
    """Subtracted: a chunk that asks a question seldom answers one."""
    own_words: float = 0.5
    of_self: float = 3.0
    """What users say of themselves, if the question is about nothing else: no word leads to it."""
    graph: float = 2.0
    """Maximum, reached if what the question names is rare: from 1.9 on, questions over two hops are answered."""

    def raised(self, factor: float) -> Weights:
        """With more weight on who spoke and on when."""
        return replace(
            self,
            speaker=self.speaker * factor,
            date=self.date * factor,
            said=self.said * factor,
            when=self.when * factor,
        )

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
    about_user: bool = False
    """The question is about the user and nothing else: "What do you know about me?"."""
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
    is asked for: whether anything falls into it; if only the user is: whether the user said anything of themselves."""
    hint: NDArray[np.bool_]
    """True if someone other than the one speaker asked about seems to have said this."""
    only_asks: NDArray[np.bool_]
    alike: NDArray[np.int64]
    """Equal for chunks whose texts may be the same; different texts of chunks with vectors seldom have the same."""

    def only(self, places: NDArray[np.intp] | slice) -> Ranked:
        """Those at some places, in the order of these."""
        return Ranked(
            indices=self.indices[places],
            numbers=self.numbers[places],
            scores=self.scores[places],
            parts={name: values[places] for name, values in self.parts.items()},
            match=self.match[places],
            found=self.found,
            hint=self.hint[places],
            only_asks=self.only_asks[places],
            alike=self.alike[places],
        )


NOTHING_RANKED: Final = Ranked(
    indices=np.zeros(0, np.int64),
    numbers=np.zeros(0, np.int64),
    scores=np.zeros(0, np.float64),
    parts={},
    match=np.zeros(0, np.float32),
    found=False,
    hint=np.zeros(0, np.bool_),
    only_asks=np.zeros(0, np.bool_),
    alike=np.zeros(0, np.int64),
)


def rank(
    layout: NDArray[np.void],
    question: Question,
    vectors: Vectors | None,
    *,
    eligible: NDArray[np.bool_] | None = None,
    repeating: NDArray[np.int64] | None = None,
    limit: int | None = None,
    with_rest: bool = False,
    weights: Weights = DEFAULT_WEIGHTS,
    encoder: Encoder | None = None,
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
        with_rest: Whether all others follow those that `limit` admits, best first, too.
        weights: The weight of each part.
        encoder: What is known of the embedder of `vectors`; None is nothing.
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
    meaning = None if vectors is None else _Meaning(text, vectors, encoder)
    spoken = _asked_speaker(text, question)
    only_asks = (text.flags & ASKS) != 0
    states = may_be_hit & ~only_asks
    evidence = _Evidence(text, may_be_hit, states if states.any() else may_be_hit, words, meaning)
    parts, possible = _parts(evidence, question, spoken, _share_said(spoken, whole), weights)

    total = np.zeros(text.size, dtype=np.float64)
    for part in parts.values():
        total += part
    spoken_for = may_be_hit & (total > 0)
    asks = ((text.flags & QUESTION) != 0) & ((text.flags & USER) == 0)
    left = total - np.minimum(asks * weights.question, total)
    best_stated = float(left.max(initial=0, where=states))
    if best_stated > 0:
        left[only_asks] = ASKING_SHARE * np.minimum(left[only_asks], best_stated)
    # What asking costs is a part of its own, so that the parts still add up to the score.
    parts["question"] = left - total
    total = left

    best = _best(total, text, spoken_for, None if limit is None else max(limit, FOUND_AMONG))
    alike = _alike(evidence, best)
    if len(best) < np.count_nonzero(spoken_for) and len(np.unique(alike)) < len(best):
        # One text may have been stored a thousand times. First each text once, then each twice …
        everything = _best(total, text, spoken_for, None)
        alike = _alike(evidence, everything)
        kept = np.sort(np.argsort(_copies(alike), kind="stable")[: len(best)])
        best, alike = everything[kept], alike[kept]
    chosen = best[:limit]
    if with_rest and limit is not None and len(chosen) < np.count_nonzero(spoken_for):
        everything = _best(total, text, spoken_for, None)
        best = np.concatenate((chosen, everything[~np.isin(everything, chosen)]))
        alike, limit = _alike(evidence, best), None
    match = _match(evidence, best, encoder)
    found = bool((match[:FOUND_AMONG] >= FOUND_FROM).any(where=~only_asks[best[:FOUND_AMONG]]))
    if question.period is not None and all(term.is_time for term in question.terms):
        # Only a time is asked for.
        lies_there = (text.day >= question.period[0]) & (text.day <= question.period[1]) | text.are_named(question.said)
        match = lies_there[best].astype(np.float32)
        found = bool((lies_there & may_be_hit).any())
    if question.about_user:
        of_self = (text.flags & OF_SELF) != 0
        match = np.where(of_self[best], 1, match).astype(np.float32)
        found = found or bool((of_self & may_be_hit).any())
    indices = best[:limit]
    scale = 1 / possible if possible else 0.0
    return Ranked(
        indices=indices,
        numbers=text.number[indices],
        # Rounding may put the best slightly above 1.
        scores=np.minimum(total[indices] * scale, 1),
        parts={name: (values[indices] * scale).astype(np.float32) for name, values in parts.items()},
        match=match[:limit],
        found=found,
        hint=_said_by_other(text, words, spoken, may_be_hit, indices),
        only_asks=only_asks[indices],
        alike=alike[:limit],
    )


def _alike(evidence: _Evidence, indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each of `indices`, equal for equal texts: these have the same length, speaker and dot product.

    Without a vector nothing tells whether texts are equal, so each has a number of its own.
    """
    text, meaning = evidence.text, evidence.meaning
    told = np.zeros((len(indices), 4), dtype=np.int64)
    told[:, 0] = text.length[indices]
    told[:, 1] = text.speaker[indices]
    told[:, 2] = indices
    if meaning is not None:
        is_known = meaning.is_known[indices]
        told[:, 2] = np.where(is_known, meaning.steps[indices], indices)
        told[:, 3] = is_known
    _, alike = np.unique(told, axis=0, return_inverse=True)
    return alike.reshape(-1).astype(np.int64)


def _copies(alike: NDArray[np.int64]) -> NDArray[np.intp]:
    """For each entry, how many before it have the same number."""
    order = np.argsort(alike, kind="stable")
    _, firsts = np.unique(alike[order], return_index=True)
    begins = np.zeros(len(alike), dtype=np.intp)
    begins[firsts] = firsts
    copies = np.zeros(len(alike), dtype=np.intp)
    copies[order] = np.arange(len(alike)) - np.maximum.accumulate(begins)
    return copies


def _match(evidence: _Evidence, best: NDArray[np.int64], encoder: Encoder | None) -> NDArray[np.float32]:
    """How well each of `best` matches the question, in absolute terms; from 0 to 1."""
    words, meaning = evidence.words, evidence.meaning
    shares = words.asked_alone[best], words.asked_around[best]
    match = match_of(*shares)
    if meaning is None or encoder is None or encoder.match is None:
        return match
    cosines = meaning.cosines[ALONE]
    rivals = np.sort(cosines[evidence.judged])
    led = max(float(rivals[-LEADS_OVER]) if len(rivals) >= LEADS_OVER else 0.0, LEADS_OVER_AT_LEAST)
    with_cosine = match_of(*shares, cosines[best], encoder.match, cosines[best] - np.float32(led))
    return np.where(meaning.is_known[best], with_cosine, match)


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


class _Evidence(NamedTuple):
    """What speaks for the chunks of a text.

    Attributes:
        may_be_hit: Shape (n,).
        judged: Shape (n,): the chunks whose best evidence is the measure of all.
        meaning: None if the question has no vector.
    """

    text: Text
    may_be_hit: NDArray[np.bool_]
    judged: NDArray[np.bool_]
    words: Words
    meaning: _Meaning | None

    def of_best(self, values: NDArray[Any]) -> NDArray[Any]:
        """`values` as shares of the best."""
        best = float(values.max(initial=0, where=self.judged))
        return values / best if best > 0 else np.zeros(self.text.size)

    def trust_in_words(self) -> float:
        """How far the question's words lead, from 0 to 1: by the best window of two chunks on each side.

        One common word that a chunk shares by chance says little, two rare ones nearly everything, in a short question
        as in a long one.
        """
        words = self.words
        if not words.asked_idf:
            # Only a time is asked for.
            return 1.0
        share = float(words.asked_around.max(initial=0, where=self.judged))
        # In words as rare as possible: how many the question has, and how many of them the best window.
        asked = words.asked_idf / words.highest_idf
        had = share * asked
        is_about = min(max(share / TRUSTED_SHARE, had / TRUSTED_IN_ANY), 1.0)
        return is_about * min(had / min(asked, TRUSTED_WORDS), 1.0)


def _parts(
    evidence: _Evidence,
    question: Question,
    spoken: NDArray[np.bool_] | None,
    share_said: float,
    weights: Weights,
) -> tuple[dict[str, NDArray[Any]], float]:
    """The evidence for each chunk, part by part, and the sum of the weights that could apply to the question."""
    text = evidence.text
    trust = evidence.trust_in_words() if question.terms else 0.0
    parts, possible = _words_and_meaning(evidence, question, weights, trust)
    # Where no word leads anywhere, the vectors of all texts are about as near, and who and when tell more.
    if evidence.meaning is not None:
        weights = weights.raised(1 + WITHOUT_WORDS * (1 - trust) ** 2)
    if spoken is not None:
        weight = weights.speaker_of(share_said)
        possible += weight
        parts["speaker"] = weight * np.where(text.speaker == 0, UNKNOWN_SPEAKER, spoken)
    if question.period is not None:
        possible += weights.date + weights.said
        start, end = question.period
        parts["date"] = weights.date * ((text.day >= start) & (text.day <= end + DAYS_AFTER_PERIOD))
        parts["said"] = weights.said * text.are_named(question.said)
    if question.asks_when:
        possible += weights.when
        parts["when"] = weights.when * ((text.flags & TIME_WORDS) != 0)
    if question.about_user:
        possible += weights.of_self
        parts["of_self"] = weights.of_self * ((text.flags & OF_SELF) != 0)
    if len(question.terms) >= OWN_WORDS_MIN_TERMS:
        possible += weights.own_words
        surplus = np.maximum(evidence.words.share_alone - OWN_WORDS_FROM, 0)
        parts["own_words"] = surplus * (weights.own_words / (1 - OWN_WORDS_FROM))
    if question.graph:
        numbers = np.fromiter(question.graph.keys(), np.int64, len(question.graph))
        reached, _ = text.spread(numbers, np.fromiter(question.graph.values(), np.float64, len(question.graph)))
        if reached.any(where=evidence.may_be_hit):
            possible += weights.graph
            parts["graph"] = weights.graph * evidence.of_best(reached)
    return parts, possible


def _words_and_meaning(
    evidence: _Evidence, question: Question, weights: Weights, trust_in_words: float
) -> tuple[dict[str, NDArray[Any]], float]:
    """The evidence of words and of meaning, window by window, and the sum of their weights."""
    words, meaning = evidence.words, evidence.meaning
    if meaning is None:
        if not question.terms:
            return {}, 0.0
        without_meaning = {
            "words" + name: weight * evidence.of_best(bm25)
            for name, weight, bm25 in zip(_WINDOW_NAMES, weights.words, words.bm25, strict=True)
        }
        return without_meaning, sum(weights.words)
    # A chunk without a vector is judged by its words.
    trust = np.where(meaning.is_known, trust_in_words, 1.0)
    parts: dict[str, NDArray[Any]] = {}
    # The weight of the chunk's own words and of its own meaning, which grow where windows and words count less.
    own_words, own_meaning = np.zeros(evidence.text.size), np.zeros(evidence.text.size)
    by_words = [evidence.of_best(bm25) for bm25 in words.bm25]
    by_meaning = [evidence.of_best(cosines) for cosines in meaning.cosines]
    for window, name in enumerate(_WINDOW_NAMES):
        near = meaning.nearness[window]
        of_words = weights.words[window] * trust
        apart = of_words * (1 - near)
        own_words += apart * trust
        own_meaning += apart * (1 - trust) + weights.words[window] - of_words
        own_meaning += weights.meaning[window] * (1 - near)
        parts["words" + name] = of_words * near * by_words[window]
        parts["meaning" + name] = weights.meaning[window] * near * by_meaning[window]
    parts["words"] += own_words * by_words[ALONE]
    parts["meaning"] += own_meaning * by_meaning[ALONE]
    return parts, sum(weights.words) + sum(weights.meaning)


class _Meaning:
    """How close each window is to the question.

    Attributes:
        cosines: One array of shape (n,) per window; 0 if negative or unknown.
        is_known: Shape (n,): which chunks have a vector.
        steps: Shape (n,): the dot product of each chunk with the question, in steps; 0 without a vector.
        nearness: One array of shape (n,) per window, from 0 to 1: how far what it adds to the chunk speaks of the same.
    """

    def __init__(self, text: Text, vectors: Vectors, encoder: Encoder | None) -> None:
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
        self.steps = np.zeros(text.size, dtype=np.int64)
        self.steps[indices] = _whole_steps(dots[rows])
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
        self.nearness = _nearness(text, vectors.norms, self.is_known, encoder)


def _nearness(
    text: Text, norms: NDArray[np.void], is_known: NDArray[np.bool_], encoder: Encoder | None
) -> list[NDArray[np.float64]]:
    """How far the passages of each window speak of one thing; 1 if that cannot be told, and for the chunk alone.

    It follows from the length of a sum of vectors: |Σ m·u|² = Σ m² + Σ m·m'·cos, so the mean cosine between the
    passages of a window, weighted by their token counts m, needs no vector.
    """
    ones = np.ones(text.size)
    if encoder is None or encoder.unrelated is None or encoder.related is None:
        return [ones for _ in text.start]
    masses = np.rint(norms["mass"]).astype(np.int64)
    heading_mass = np.rint(norms["heading_mass"]).astype(np.int64)
    sums, squares = running_sums(masses), running_sums(masses**2)
    answers = _answers(text)
    nearness = [ones]
    for window in range(1, len(text.start)):
        start, end = text.start[window], text.end[window]
        total = sums.take(end) - sums.take(start) + heading_mass
        alone = squares.take(end) - squares.take(start) + heading_mass**2
        between = (total**2 - alone).astype(np.float64)
        mean_cosine = (norms["norms"][:, window].astype(np.float64) ** 2 - alone) / np.maximum(between, 1)
        near = np.clip((mean_cosine - encoder.unrelated) / (encoder.related - encoder.unrelated), 0, 1)
        nearness.append(np.where((between > 0) & is_known & ~answers, near, 1.0))
    return nearness


def _answers(text: Text) -> NDArray[np.bool_]:
    """Which chunks answer the one before, so that they may say little alone.

    "Who has the key?" "I have." Not what an agent replies to the user: it often does not know, and says in full what it
    knows.
    """
    answers = np.zeros(text.size, dtype=np.bool_)
    asks = ((text.flags & QUESTION) != 0) & ((text.flags & USER) == 0)
    has_before = text.start[BEFORE] < np.arange(text.size)
    answers[1:] = asks[:-1] & (text.speaker[:-1] != text.speaker[1:]) & has_before[1:]
    return answers


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
