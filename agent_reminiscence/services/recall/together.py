"""Ranks what was read of several memories as one text: the numbers of each follow those of the one before.

Each memory's text begins anew, so that no window reaches from one into the next. Document frequencies, lengths, norms
and best values are those of all. Where all texts of all memories are ranked, the ranking is that of one memory with all
of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.domain.index import FIRST, speaker_term
from agent_reminiscence.domain.said_times import days_in
from agent_reminiscence.services.recall import narrowing
from agent_reminiscence.services.recall.best_rows import MAX_CANDIDATES
from agent_reminiscence.services.recall.joint_numbers import joint
from agent_reminiscence.services.recall.occurrences import in_numbers, occurrences, said_within
from agent_reminiscence.services.recall.question import Asked
from agent_reminiscence.services.recall.ranking import Ranked, Vectors, Weights, rank
from agent_reminiscence.services.recall.reading import Reading, may_be_hits
from agent_reminiscence.services.recall.score_parts import TermPostings, Whole


def rank_readings(readings: Sequence[Reading], asked: Asked, weights: Weights, *, with_rest: bool) -> Ranked:
    """Rank what was read of one or several memories, all with the same question; joint numbers come out.

    Args:
        readings: Each of at least one chunk.
        asked: The question, with the names of speakers of any of the memories.
        with_rest: Whether all others follow the best `MAX_CANDIDATES`.
    """
    is_part = any(reading.part is not None for reading in readings)
    words = [_words(reading, asked, is_part=is_part) for reading in readings]
    certainty = max(reading.reach.certainty for reading in readings)
    said = [
        joint(place, spoken_of)
        for place, reading in enumerate(readings)
        if (spoken_of := said_within(asked, reading.found)) is not None
    ]
    repeating = [
        joint(place, reading.texts.repeating)
        for place, reading in enumerate(readings)
        if reading.texts.repeating is not None
    ]
    told = [reading.texts.eligible is not None for reading in readings]
    return rank(
        _entries(readings),
        in_numbers(asked, _joined_words(words), np.concatenate(said) if said else None, _reached(readings, certainty)),
        _vectors(readings),
        eligible=np.concatenate(list(map(may_be_hits, readings))) if any(told) else None,
        repeating=np.concatenate(repeating) if repeating else None,
        limit=MAX_CANDIDATES,
        with_rest=with_rest,
        weights=replace(weights, graph=weights.graph * certainty),
        encoder=readings[0].encoder,
        whole=_whole(readings, asked) if is_part else None,
    )


def _entries(readings: Sequence[Reading]) -> NDArray[np.void]:
    zone = readings[0].request.zone
    if len(readings) == 1 and zone is UTC:
        return readings[0].texts.entries
    parts = []
    for place, reading in enumerate(readings):
        entries = reading.texts.entries.copy()
        entries["day"] = days_in(entries, zone)
        for name in ("number", "heading"):
            entries[name] = joint(place, entries[name].astype(np.int64))
        entries["flags"][:1] |= FIRST
        parts.append(entries)
    return np.concatenate(parts)


def _vectors(readings: Sequence[Reading]) -> Vectors | None:
    if len(readings) == 1:
        return readings[0].vectors
    # The question has a vector or none, for all of them.
    known = [reading.vectors for reading in readings if reading.vectors is not None]
    if not known:
        return None
    return Vectors(
        np.concatenate([joint(place, one.numbers) for place, one in enumerate(known)]),
        np.concatenate([one.dots for one in known]),
        np.concatenate([one.norms for one in known]),
    )


def _reached(readings: Sequence[Reading], certainty: float) -> dict[int, float]:
    """How far the graph reaches each chunk: compared with the best of all, and less where it is less certain."""
    most = max((max(reading.reach.weights.values(), default=0.0) for reading in readings), default=0.0)
    reached: dict[int, float] = {}
    for place, reading in enumerate(readings):
        if not reading.reach.weights:
            continue
        part = reading.reach.certainty / certainty
        shares = reading.reach.shares(most)
        numbers = joint(place, np.fromiter(shares, np.int64, len(shares))).tolist()
        reached |= dict(zip(numbers, (share * part for share in shares.values()), strict=True))
    return reached


def _words(reading: Reading, asked: Asked, *, is_part: bool) -> dict[tuple[str, ...], TermPostings]:
    """Where each word of the question occurs in a memory.

    Args:
        is_part: Whether only some texts of any of the memories are ranked, so that it is told how often each word
            occurs in all.
    """
    counts = {} if reading.part is None else reading.part.counts
    words = occurrences(asked, reading.found, counts)
    if not is_part:
        return words
    read = _sample(reading)
    counted = {}
    for terms, word in words.items():
        found_in, own_in = read.count(word.numbers, max((counts.get(term, 0) for term in terms), default=0))
        counted[terms] = replace(word, found_in=found_in, own_in=own_in)
    return counted


def _joined_words(words: Sequence[Mapping[tuple[str, ...], TermPostings]]) -> Mapping[tuple[str, ...], TermPostings]:
    if len(words) == 1:
        return words[0]
    return {
        terms: replace(
            word,
            numbers=np.concatenate([joint(place, one[terms].numbers) for place, one in enumerate(words)]),
            frequencies=np.concatenate([one[terms].frequencies for one in words]),
            found_in=sum(one[terms].found_in for one in words),
            own_in=sum(one[terms].own_in for one in words),
        )
        for terms, word in words[0].items()
    }


def _whole(readings: Sequence[Reading], asked: Asked) -> Whole:
    """What is known of all texts of all memories, of which only some are ranked."""
    wholes = [_whole_of(reading) for reading in readings]
    chunks = sum(one.chunks for one in wholes)

    def mean(values: Sequence[float]) -> float:
        return sum(one.chunks * value for one, value in zip(wholes, values, strict=True)) / chunks

    said = [] if len(asked.names) != 1 else [_share_said(reading, asked) for reading in readings]
    return Whole(
        chunks,
        mean([one.mean_length for one in wholes]),
        mean([one.mean_heading_length for one in wholes]),
        tuple(map(mean, zip(*(one.window_chunks for one in wholes), strict=True))),
        mean(said) if said else None,
    )


def _whole_of(reading: Reading) -> Whole:
    if reading.part is not None:
        return reading.part.whole
    read, entries = _sample(reading), reading.texts.entries
    words = float(entries["length"].sum() + entries["heading_length"].sum())
    return Whole(len(entries), words / len(entries), read.mean_heading_length, read.window_chunks)


def _share_said(reading: Reading, asked: Asked) -> float:
    """The share of a memory's chunks that the one speaker asked about has said."""
    if reading.part is not None:
        return reading.part.share_said(asked.speakers, speaker_term(*asked.names))
    return _sample(reading).share_said(asked.speakers)


def _sample(reading: Reading) -> narrowing.ReadTexts:
    if reading.part is not None:
        return reading.part.read
    return narrowing.ReadTexts(reading.texts.entries, len(reading.texts.entries))
