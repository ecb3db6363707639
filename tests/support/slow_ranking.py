"""The ranking formula, read off the texts one window at a time: what the fast one is compared with.

It knows no arrays, no numbers that are looked up and no sums that are reused. Every window is a list of chunks, and its
words, length and vector are put together from them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from agent_reminiscence.domain.index import (
    ASKS,
    DUPLICATE,
    FACT,
    FIRST,
    LAYOUT_DTYPE,
    NORMS_DTYPE,
    OF_SELF,
    QUESTION,
    TIME_WORDS,
    USER,
    WINDOWS,
)
from agent_reminiscence.services.recall.encoders import Encoder
from agent_reminiscence.services.recall.ranking import Question, Vectors, Weights
from agent_reminiscence.services.recall.score_parts import TermPostings

Vector = tuple[float, ...]

_NAMES = ("", "_before", "_around", "_wide")


@dataclass(frozen=True)
class Heading:
    """The heading of some chunks; `vector` has length 1, None is a heading whose vector is missing."""

    number: int
    words: tuple[str, ...]
    vector: Vector | None
    mass: int


@dataclass(frozen=True)
class Chunk:
    """A chunk with its words; `vector` as in `Heading`."""

    number: int
    words: tuple[str, ...]
    vector: Vector | None
    mass: int
    heading: Heading | None = None
    day: int = 0
    speaker: int = 0
    flags: int = 0


@dataclass(frozen=True)
class Asked:
    """A question in words."""

    words: tuple[str, ...]
    vector: Vector | None = None
    speakers: frozenset[int] = frozenset()
    first_person: bool = False
    period: tuple[int, int] | None = None
    asks_when: bool = False
    about_user: bool = False
    said: frozenset[int] = frozenset()
    graph: dict[int, float] = field(default_factory=dict)


Memory = Sequence[Chunk]
"""The chunks of a text in order, or one fact."""


def slow_scores(
    memories: Sequence[Memory],
    asked: Asked,
    eligible: frozenset[int],
    weights: Weights,
    encoder: Encoder | None = None,
) -> dict[int, dict[str, float]]:
    """What each part of the formula gives each chunk that may be a hit and that anything speaks for."""
    chunks = [chunk for memory in memories for chunk in memory]
    chunk_indices = [(memory, index) for memory in memories for index in range(len(memory))]
    hits = [i for i, chunk in enumerate(chunks) if chunk.number in eligible and not chunk.flags & DUPLICATE]
    parts: dict[int, dict[str, float]] = {i: {} for i in hits}
    possible = 0.0

    def give(name: str, values: list[float], weight: float) -> None:
        nonlocal possible
        possible += weight
        for i in hits:
            parts[i][name] = weight * values[i]

    stated = [i for i in hits if not chunks[i].flags & ASKS]
    judged = stated or hits

    def of_best(values: list[float]) -> list[float]:
        best = max((values[i] for i in judged), default=0.0)
        return [value / best if best > 0 else 0.0 for value in values]

    windows = [[_window(memory, index, before, after) for memory, index in chunk_indices] for before, after in WINDOWS]
    raised = 1.0
    by_words = [
        of_best(_bm25([_words(chunk, window) for chunk, window in zip(chunks, of_window, strict=True)], asked.words))
        for of_window in windows
    ]
    if asked.vector is None:
        for name, shares, weight in zip(_NAMES, by_words, weights.words, strict=True):
            if asked.words:
                give("words" + name, shares, weight)
    else:
        by_meaning = [
            of_best(
                [
                    0.0 if chunk.vector is None else max(0.0, _cosine(asked.vector, _vector(chunk, window)))
                    for chunk, window in zip(chunks, of_window, strict=True)
                ]
            )
            for of_window in windows
        ]
        around = [_words(chunk, window) for chunk, window in zip(chunks, windows[2], strict=True)]
        own = [_words(chunk, [chunk]) for chunk in chunks]
        trusted = _trust(own, [around[i] for i in judged], asked)
        raised = 1 + 2 * (1 - trusted) ** 2
        possible += sum(weights.words) + sum(weights.meaning)
        for i in hits:
            trust = 1.0 if chunks[i].vector is None else trusted
            own_evidence = (trust * by_words[0][i], (1 - trust) * by_meaning[0][i])
            words, meaning = [0.0] * len(WINDOWS), [0.0] * len(WINDOWS)
            for k, of_window in enumerate(windows):
                near = 1.0 if k == 0 or _answers(*chunk_indices[i]) else _nearness(chunks[i], of_window[i], encoder)
                words[k] += weights.words[k] * trust * near * by_words[k][i]
                words[0] += weights.words[k] * trust * (1 - near) * own_evidence[0]
                meaning[0] += weights.words[k] * (trust * (1 - near) * own_evidence[1] + (1 - trust) * by_meaning[0][i])
                meaning[k] += weights.meaning[k] * near * by_meaning[k][i]
                meaning[0] += weights.meaning[k] * (1 - near) * by_meaning[0][i]
            parts[i] |= {"words" + name: value for name, value in zip(_NAMES, words, strict=True)}
            parts[i] |= {"meaning" + name: value for name, value in zip(_NAMES, meaning, strict=True)}
    said_by = _asked_speaker(chunks, asked)
    if said_by is not None:
        share = sum(said_by) / len(chunks)
        values = [0.5 if chunk.speaker == 0 else float(said) for chunk, said in zip(chunks, said_by, strict=True)]
        give("speaker", values, raised * weights.speaker * min(1.0, 2 * (1 - share)))
    if asked.period is not None:
        start, end = asked.period
        give("date", [float(start <= chunk.day <= end + 10) for chunk in chunks], raised * weights.date)
        give("said", [float(chunk.number in asked.said) for chunk in chunks], raised * weights.said)
    if asked.asks_when:
        give("when", [float(chunk.flags & TIME_WORDS != 0) for chunk in chunks], raised * weights.when)
    if asked.about_user:
        give("of_self", [float(chunk.flags & OF_SELF != 0) for chunk in chunks], weights.of_self)
    if len(set(asked.words)) >= 4:
        shares = word_shares([_words(chunk, [chunk]) for chunk in chunks], [[*_words(c, [c])] for c in chunks], asked)
        give("own_words", [max(0.0, (share - 0.6) / 0.4) for share in shares], weights.own_words)
    reached = [asked.graph.get(chunk.number, 0.0) for chunk in chunks]
    if any(reached[i] > 0 for i in hits):
        give("graph", of_best(reached), weights.graph)

    totals = {i: sum(parts[i].values()) for i in hits}
    left = {
        i: total - min(weights.question, total) * (chunks[i].flags & QUESTION != 0 and not chunks[i].flags & USER)
        for i, total in totals.items()
    }
    best_stated = max((left[i] for i in stated), default=0.0)
    scored = {}
    for i in hits:
        if totals[i] > 0:
            if chunks[i].flags & ASKS and best_stated > 0:
                left[i] = 0.25 * min(left[i], best_stated)
            parts[i]["question"] = left[i] - totals[i]
            scored[chunks[i].number] = {name: value / possible for name, value in parts[i].items()}
    return scored


def _trust(own: list[list[str]], around: list[list[str]], asked: Asked) -> float:
    """How far the question's words lead: by how many rare ones the best of the texts `around` has."""
    if not asked.words:
        return 0.0
    share = max(word_shares(own, around, asked), default=0.0)
    whole = sum(_idf(own, word) for word in set(asked.words))
    rare_words = whole / math.log(1 + (len(own) - 0.5) / 1.5)
    had = share * rare_words
    return min(had / min(rare_words, 2), 1.0) * min(max(share / 0.5, had / 4), 1.0)


def _answers(memory: Memory, index: int) -> bool:
    """Whether a chunk comes after a question of somebody else, who is not the user."""
    if index == 0:
        return False
    before, chunk = memory[index - 1], memory[index]
    return bool(before.flags & QUESTION and not before.flags & USER and before.speaker != chunk.speaker)


def _nearness(centre: Chunk, window: Sequence[Chunk], encoder: Encoder | None) -> float:
    """How far the passages of a window speak of one thing, by the cosine of each two of them."""
    if encoder is None or centre.vector is None:
        return 1.0
    assert encoder.unrelated is not None
    assert encoder.related is not None
    summands: list[Chunk | Heading] = [*window, *([centre.heading] if centre.heading else [])]
    known = [(summand.vector, summand.mass) for summand in summands if summand.vector is not None]
    pairs = [
        (mass * other_mass, math.sumprod(vector, other))
        for (vector, mass), (other, other_mass) in permutations(known, 2)
    ]
    if not pairs:
        return 1.0
    mean = sum(mass * cosine for mass, cosine in pairs) / sum(mass for mass, _ in pairs)
    return min(max((mean - encoder.unrelated) / (encoder.related - encoder.unrelated), 0.0), 1.0)


def word_shares(own: list[list[str]], texts: list[list[str]], asked: Asked) -> list[float]:
    """The share of the question's words, weighted by how rare they are among `own`, that each of `texts` has."""
    weight = {word: _idf(own, word) for word in set(asked.words)}
    whole = sum(weight.values())
    return [sum(value for word, value in weight.items() if word in text) / whole for text in texts]


def _window(memory: Memory, index: int, before: int, after: int) -> list[Chunk]:
    return list(memory[max(0, index - before) : index + after + 1])


def _words(centre: Chunk, window: Sequence[Chunk]) -> list[str]:
    heading = centre.heading.words if centre.heading else ()
    return [*heading, *(word for chunk in window for word in chunk.words)]


def _vector(centre: Chunk, window: Sequence[Chunk]) -> list[float]:
    summands: list[Chunk | Heading] = [*window, *([centre.heading] if centre.heading else [])]
    known = [(summand.vector, summand.mass) for summand in summands if summand.vector is not None]
    return [sum(vector[axis] * mass for vector, mass in known) for axis in range(len(known[0][0]))]


def _cosine(question: Vector, vector: Sequence[float]) -> float:
    norm = math.hypot(*vector)
    # What is left of vectors that cancel out has no direction, and the fast one rounds products to about a millionth.
    cosine = math.sumprod(question, vector) / norm if norm > 1e-3 else 0.0
    return cosine if abs(cosine) > 1e-5 else 0.0


def _idf(texts: list[list[str]], word: str) -> float:
    found_in = sum(word in text for text in texts)
    return math.log(1 + (len(texts) - found_in + 0.5) / (found_in + 0.5))


def _bm25(texts: list[list[str]], words: Sequence[str]) -> list[float]:
    mean = sum(map(len, texts)) / len(texts)
    idf = {word: _idf(texts, word) for word in words}
    scores = []
    for text in texts:
        counts = Counter(text)
        score = 0.0
        for word in words:
            if counts[word]:
                relative = len(text) / mean
                score += idf[word] * counts[word] * 2.2 / (counts[word] + 1.2 * (0.25 + 0.75 * relative))
        scores.append(score)
    return scores


def _asked_speaker(chunks: Sequence[Chunk], asked: Asked) -> list[bool] | None:
    known = {chunk.speaker for chunk in chunks} & asked.speakers
    if len(known) == 1:
        return [chunk.speaker in known for chunk in chunks]
    by_user = [chunk.flags & USER != 0 for chunk in chunks]
    return by_user if asked.first_person and not known and any(by_user) else None


def encode_layout(memories: Sequence[Memory]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """The text as the store keeps it."""
    entries = [
        (
            chunk.number,
            chunk.heading.number if chunk.heading else 0,
            chunk.day,
            chunk.speaker,
            len(chunk.words),
            chunk.flags | (FIRST if index == 0 or chunk.flags & FACT else 0),
            len(chunk.heading.words) if chunk.heading else 0,
        )
        for memory in memories
        for index, chunk in enumerate(memory)
    ]
    return np.array(entries, dtype=LAYOUT_DTYPE)


def encode_question(memories: Sequence[Memory], asked: Asked) -> Question:
    """The question with the postings of its words."""
    texts = _summands(memories)
    terms = []
    for word, count in Counter(asked.words).items():
        having = [(text.number, text.words.count(word)) for text in texts if word in text.words]
        numbers = np.array([number for number, _ in having], dtype=np.int64)
        frequencies = np.array([frequency for _, frequency in having], dtype=np.float32)
        terms.append(TermPostings(word, count, numbers, frequencies))
    return Question(
        terms=terms,
        speakers=asked.speakers,
        first_person=asked.first_person,
        period=asked.period,
        asks_when=asked.asks_when,
        about_user=asked.about_user,
        said=np.array(sorted(asked.said), dtype=np.int64),
        graph=asked.graph,
    )


def encode_vectors(memories: Sequence[Memory], asked: Asked) -> Vectors | None:
    """What the store knows of the vectors; those of chunks and headings that have none are missing."""
    if asked.vector is None:
        return None
    rows = [(text.number, text.vector) for text in _summands(memories) if text.vector is not None]
    return Vectors(
        numbers=np.array([number for number, _ in rows], dtype=np.int64),
        dots=np.array([math.sumprod(asked.vector, vector) for _, vector in rows], dtype=np.float32),
        norms=np.array(
            [_norms(memory, index) for memory in memories for index in range(len(memory))], dtype=NORMS_DTYPE
        ),
    )


def _norms(memory: Memory, index: int) -> tuple[int, int, list[float]]:
    chunk = memory[index]
    heading_mass = chunk.heading.mass if chunk.heading and chunk.heading.vector is not None else 0
    if chunk.vector is None:
        return 0, heading_mass, [0.0] * len(WINDOWS)
    windows = [_window(memory, index, before, after) for before, after in WINDOWS]
    return chunk.mass, heading_mass, [math.hypot(*_vector(chunk, window)) for window in windows]


def _summands(memories: Sequence[Memory]) -> list[Chunk | Heading]:
    chunks = [chunk for memory in memories for chunk in memory]
    headings = {chunk.heading.number: chunk.heading for chunk in chunks if chunk.heading}
    return [*headings.values(), *chunks]
