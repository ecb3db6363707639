"""What of a memory is read for a question: what is ranked of it, and what is known of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.repositories.search import FoundTerm, SearchedStream
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.services.recall import narrowing
from agent_reminiscence.services.recall.encoders import Encoder
from agent_reminiscence.services.recall.question import Asked
from agent_reminiscence.services.recall.ranking import Vectors
from agent_reminiscence.services.recall.score_parts import Whole
from agent_reminiscence.services.recall.texts import Texts

# A chunk gets this power of its share of the best weight: weights fall by an order of magnitude per hop, and the answer
# may be one hop beyond what is named. The least share still gets two thirds of the graph's part; words and meaning
# decide which chunk answers.
GRAPH_REACH_POWER: Final = 0.1


class Heard(NamedTuple):
    """A question as it is put to several memories alike.

    Attributes:
        vector: None searches by words.
        encoder: How to read its cosines; None if that is not known.
    """

    asked: Asked
    vector: Sequence[float] | None
    encoder: Encoder | None


class Reach(NamedTuple):
    """The chunks of a memory that the graph reaches from what a question names.

    Attributes:
        weights: By number; above 0.
        certainty: The share of its weight that the graph has in the ranking, 0 to 1.
    """

    weights: Mapping[int, float]
    certainty: float

    def shares(self, most: float) -> dict[int, float]:
        """How far each chunk is reached, above 0 and up to 1, where `most` is the best weight."""
        return {number: (weight / most) ** GRAPH_REACH_POWER for number, weight in self.weights.items()}


@dataclass(frozen=True, slots=True)
class Reading:
    """What of a memory is ranked.

    Attributes:
        texts: `eligible` says which of them may be hits; None is all.
        asked: With the names of this memory's speakers only.
        found: Where the words of the question occur.
        vectors: None if the question has none.
        encoder: How to read its cosines; None if that is not known.
        part: What the texts are a part of; None if they are all.
    """

    request: SearchRequest
    stream: SearchedStream
    texts: Texts
    asked: Asked
    found: Mapping[str, FoundTerm]
    reach: Reach
    vectors: Vectors | None
    encoder: Encoder | None
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The rest of a large memory.

    Attributes:
        counts: How many chunks and headings have each term.
        read: The texts around what is ranked, from beginning to end, as a sample of it.
    """

    stream: SearchedStream
    counts: Mapping[str, int]
    read: narrowing.ReadTexts

    @property
    def whole(self) -> Whole:
        """What is known of all texts; for what a speaker has said of them see `share_said`."""
        stream = self.stream
        return Whole(stream.text_chunks, mean_length(stream), self.read.mean_heading_length, self.read.window_chunks)

    def share_said(self, speakers: frozenset[int], term: str) -> float:
        """The share of all chunks that a speaker has said.

        Args:
            speakers: The hash of the name.
            term: Under which it is indexed.
        """
        # Postings outlive chunks, so they tell only if none ended.
        return min(self.counts.get(term, 0) / self.stream.text_chunks, self.read.share_said(speakers))


def mean_length(stream: SearchedStream) -> float:
    """The mean number of terms of a chunk with its heading."""
    return max(stream.text_words / stream.text_chunks, 1e-9)


def may_be_hits(reading: Reading) -> NDArray[np.bool_]:
    """Which entries may be hits, as far as that is told."""
    told = reading.texts.eligible
    return np.ones(len(reading.texts.entries), dtype=np.bool_) if told is None else told


def not_among(terms: Sequence[str], known: Sequence[str]) -> list[str]:
    """The `terms` that are not known; a long question has thousands."""
    there = frozenset(known)
    return [term for term in terms if term not in there]
