"""Finds quoted words in a text, and cuts a text into statements, each of which can be over without the others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from agent_reminiscence.text.sentences import sentence_spans, without_space

# Within a sentence, what follows one of these can be true by itself: "It closes at six, and parking costs 12 euros."
_CLAUSE_END: Final = re.compile(
    r";\s|,\s+(?:and|but|while|whereas|und|aber|doch|während|et|mais|y|pero|e|ma|mas)\s", re.IGNORECASE
)


class Span(NamedTuple):
    """Characters of a text, the end exclusive."""

    start: int
    end: int


def statement_spans(text: str) -> Iterator[Span]:
    """The statements of `text` in order: sentences, lines, and clauses that a semicolon or conjunction separates."""
    for start, end in sentence_spans(text):
        cuts = [match.start() + 1 for match in _CLAUSE_END.finditer(text, start, end)]
        for first, last in pairwise([start, *cuts, end]):
            yield from (Span(*span) for span in without_space(text, first, last))


def find_words(text: str, words: str) -> Span | None:
    """Where `words` first stand in `text`; None if they do not, or are no words.

    Compared are letters and digits alone, without case: who quotes a text may change its line breaks and other signs.
    A match begins and ends where words do, as far as the script shows where that is.
    """
    sought = "".join(character for character, _ in _folded(words))
    places = list(_folded(text))
    written = "".join(character for character, _ in places)
    found = written.find(sought) if sought else -1
    while found >= 0:
        first, last = places[found][1], places[found + len(sought) - 1][1]
        if not _is_within_word(text, first) and not _is_within_word(text, last + 1):
            return Span(first, last + 1)
        found = written.find(sought, found + 1)
    return None


def _folded(text: str) -> Iterator[tuple[str, int]]:
    """The letters and digits of `text` as they are compared, each with its place."""
    for place, character in enumerate(text):
        for one in unicodedata.normalize("NFKD", character).casefold():
            if one.isalnum():
                yield one, place


def _is_within_word(text: str, place: int) -> bool:
    return 0 < place < len(text) and _is_spaced(text[place - 1]) and _is_spaced(text[place])


def _is_spaced(character: str) -> bool:
    """Whether words of its script have spaces between them; certain only for digits and letters with capitals."""
    return character.isdecimal() or character.upper() != character.lower()
