"""How like a stored task a question must be, for the lessons of that task to apply to it."""

from __future__ import annotations

from typing import Final

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.retrieval import RetrievalResult

# Measured on tests/support/lesson_pairs.py; those at even places chose these numbers. At 0.3, all of 40 later tasks
# have the match, and 1.4 % of 1,560 pairs of a task and another's lesson. By words alone the same 40 have 0.035, and
# 5.7 % of the others; with WordLlama's vectors all 40, and 3.7 %. A state of 20 words beside the question costs: then
# 29 of 40 have 0.3 among twenty lessons, and 34 of 36 among three.
LEAST_MATCH: Final = 0.3
LEAST_MATCH_BY_WORDS: Final = 0.035


class Likeness:
    """The least match, which depends on whether the vectors of this memory tell tasks apart.

    Whether they do is known for sure only from what was found: it is remembered for the next question.
    """

    def __init__(self, memory: AgentMem) -> None:
        self._by_meaning = memory.config.embedding_provider == "universal"

    @property
    def least(self) -> float:
        """The bound for the next search."""
        return LEAST_MATCH if self._by_meaning else LEAST_MATCH_BY_WORDS

    def must_search_again(self, found: RetrievalResult) -> bool:
        """Whether the bound of a search was too high: the question had no vector, or vectors of another model.

        What was found decides about the next search, too.
        """
        if not found.hits and all(one.reason != "min_match" for one in found.omitted):
            # Nothing is stored, which says nothing about vectors.
            return False
        expected, self._by_meaning = self._by_meaning, found.tells_weak
        return expected and not found.tells_weak

    @staticmethod
    def least_of(found: RetrievalResult) -> float:
        """The bound that fits what was found."""
        return LEAST_MATCH if found.tells_weak else LEAST_MATCH_BY_WORDS
