"""Tells names from the other capitalised words of German, which writes every noun with a capital letter.

A capital letter proves nothing there, so a word counts as a name only for a reason: it is a known given name, place or
organisation, it has more capitals, or no list, ending or vocabulary knows it and no article stands before it. Other
words may still be names; the relationships that a sentence states decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from agent_reminiscence.text.common import capitalised_words, is_common
from agent_reminiscence.text.languages import stop_words
from agent_reminiscence.text.name_lists import german_words
from agent_reminiscence.text.name_words import FUNCTION_WORDS

# What is added to a noun's end; the latter also makes surnames of nouns.
INFLECTIONS: Final = ("", "e", "en", "n", "s", "es", "se", "sen", "ns", "er", "ern", "in", "innen")
PLAIN_INFLECTIONS: Final = INFLECTIONS[:-4]
_MIN_STEM: Final = 3
_MIN_TAIL: Final = 5
_LETTERS: Final = frozenset("äöüß")
_AMBIGUOUS: Final = frozenset({"man", "will", "bin", "pro", "via", "hi", "alle", "sang", "kind", "fast"})


def is_german(words: Iterable[str]) -> bool:
    """Whether a line's words are German, as far as small words and letters show.

    Args:
        words: As they are written.
    """
    german = english = 0
    small, others = _small_words()
    for index, word in enumerate(words):
        lower = word.casefold() if not index else word
        if lower in small:
            german += 1
        elif lower in others:
            english += 1
        elif not word.isascii() and not _LETTERS.isdisjoint(word):
            german += 1
    return german > english


def is_noun(word: str, *, inflections: Sequence[str] = INFLECTIONS) -> bool:
    """Whether a case-folded word is known to be an ordinary noun, or a compound of one.

    Args:
        inflections: What may be added to the noun's end.
    """
    known = german_words()
    if any(stem in known.nouns for stem in _stems(word, inflections)):
        return True
    if word.endswith(known.noun_endings) and len(word) > _MIN_TAIL + 1:
        return True
    tails = (word[cut:] for cut in range(_MIN_STEM, len(word) - _MIN_STEM))
    return any(stem in known.compounds for tail in tails for stem in _stems(tail, inflections) if len(stem) > _MIN_STEM)


def is_uncommon(word: str) -> bool:
    """Whether the vocabulary knows neither a case-folded word nor two words that it is made of."""
    capitalised = capitalised_words()
    if not capitalised or is_common(word):
        return False
    if any(stem in capitalised for stem in _stems(word)):
        return False
    for part in word.split("-"):
        for cut in range(_MIN_STEM, len(part) - _MIN_TAIL + 1):
            head = part[:cut]
            is_head = head in capitalised or head.removesuffix("s") in capitalised or head in german_words().nouns
            if is_head and any(stem in capitalised for stem in _stems(part[cut:])):
                return False
    return True


def is_opener(word: str) -> bool:
    """Whether a case-folded word begins sentences and is no name."""
    known = german_words()
    return word in known.openers or word in stop_words("de") or word in known.determiners or word in known.verbs


@cache
def _small_words() -> tuple[frozenset[str], frozenset[str]]:
    """The small words of German and of English, in lower case, without those that both have."""
    known = german_words()
    german = stop_words("de") | known.determiners | known.verbs | known.openers
    return german - FUNCTION_WORDS - _AMBIGUOUS | {"die", "war", "hat"}, FUNCTION_WORDS - german


def _stems(word: str, inflections: Sequence[str] = INFLECTIONS) -> Iterator[str]:
    for ending in inflections:
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM:
            yield word[: len(word) - len(ending)]
