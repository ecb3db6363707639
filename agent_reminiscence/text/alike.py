"""Tells whether two statements say nearly the same, or one thing with another value."""

from __future__ import annotations

from typing import Final

from agent_reminiscence.text.folding import WORD
from agent_reminiscence.text.periods import is_question

# Two statements are similar if they share this many words, and this share of all their words.
_SIMILAR_WORDS: Final = 3
_SIMILAR_SHARE: Final = 0.5


def statement_words(text: str) -> frozenset[str]:
    """The words of a statement, to be compared; a question has none."""
    return frozenset() if is_question(text) else frozenset(WORD.findall(text.casefold()))


def share_most_words(words: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two statements with these words are similar."""
    fewer, more = sorted((len(words), len(others)))
    if fewer < _SIMILAR_WORDS or fewer < _SIMILAR_SHARE * more:
        return False
    shared = len(words & others)
    return shared >= _SIMILAR_WORDS and shared >= _SIMILAR_SHARE * (fewer + more - shared)
