"""Where the words of a question occur: from what was read of the index to what `rank` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.repositories.search import FoundTerm
from agent_reminiscence.domain.index import distinct
from agent_reminiscence.projections.indexed_text import USER_KEY
from agent_reminiscence.services.recall.question import Asked
from agent_reminiscence.services.recall.ranking import Question
from agent_reminiscence.services.recall.score_parts import TermPostings, idf
from agent_reminiscence.text.words import analyse

_NOWHERE: Final = FoundTerm(np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.float32))


def in_numbers(
    asked: Asked,
    words: Mapping[tuple[str, ...], TermPostings],
    said: NDArray[np.int64] | None,
    reached: Mapping[int, float],
) -> Question:
    """The question in numbers; see `Question`."""
    return Question(
        terms=list(words.values()),
        speakers=asked.speakers,
        first_person=asked.first_person,
        period=asked.period,
        asks_when=asked.asks_when,
        about_user=asked.about == USER_KEY,
        said=said,
        graph=reached or None,
    )


def occurrences(
    asked: Asked, found: Mapping[str, FoundTerm], counts: Mapping[str, int]
) -> dict[tuple[str, ...], TermPostings]:
    """Where each word of the question occurs, by the terms it is read as.

    Args:
        counts: How many chunks and headings have each term, if `found` does not list all.
    """
    words = {}
    for terms, count in asked.words.items():
        where = _together([found[term] for term in terms if term in found])
        is_whole = all(term in found for term in terms if term in counts)
        having = max(counts.get(term, 0) for term in terms)
        if is_whole:
            having = int(np.count_nonzero(where.numbers > 0))
        words[terms] = TermPostings(
            terms[0], count, where.numbers, where.frequencies, having, having, terms in asked.time_words
        )
    return words


def _together(found: Sequence[FoundTerm]) -> FoundTerm:
    """Where any of some terms occurs, and how often in total."""
    if not found:
        return _NOWHERE
    if len(found) == 1:
        return found[0]
    numbers, indices = np.unique(np.concatenate([one.numbers for one in found]), return_inverse=True)
    weights = np.concatenate([one.frequencies for one in found])
    lengths = np.zeros(len(numbers), dtype=np.float32)
    lengths[indices] = np.concatenate([one.lengths for one in found])
    return FoundTerm(numbers, np.bincount(indices, weights=weights).astype(np.float32), lengths)


def said_within(asked: Asked, found: Mapping[str, FoundTerm]) -> NDArray[np.int64] | None:
    """The chunks that mention a time in the question's period."""
    spoken_of = [found[term].numbers for term in asked.period_terms if term in found]
    return distinct(np.concatenate(spoken_of)) if spoken_of else None


def rarity_weights(
    words: Mapping[tuple[str, ...], TermPostings], languages: Sequence[str], chunks: int
) -> Callable[[str], float]:
    """How rare each word of a question is among some chunks; 0 for a stop word."""
    having = np.array([word.own_in for word in words.values()], dtype=np.float64)
    rarity_of = zip(words, idf(chunks, having).tolist(), strict=True)
    rarities = {term: rarity for terms, rarity in rarity_of for term in terms}

    def weigh(word: str) -> float:
        read = (term for language in languages for term in analyse(word, language))
        return max((rarities.get(term, 0.0) for term in read), default=0.0)

    return weigh
