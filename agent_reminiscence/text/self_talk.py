"""Tells statements that speakers make of themselves."""

from __future__ import annotations

from typing import Final

from agent_reminiscence.text.folding import WORD
from agent_reminiscence.text.sentences import split_sentences

# "I" as a subject, as words of a text without case. Spanish and other languages leave it out more often than not: their
# verbs say who.
_SUBJECTS: Final = {
    "en": frozenset({"i"}),
    "de": frozenset({"ich"}),
    "fr": frozenset({"je", "j"}),
    "es": frozenset({"yo", "soy", "tengo", "estoy", "vivo", "trabajo", "prefiero"}),
    "it": frozenset({"io", "sono", "ho", "vivo", "lavoro", "preferisco"}),
    "pt": frozenset({"eu", "sou", "tenho", "estou", "moro", "trabalho", "prefiro"}),
    "nl": frozenset({"ik"}),
    "ru": frozenset({"я"}),
}
# The subject stands near the beginning: "After the flood I moved", but not in "the shop that I told you of".
_FIRST_WORDS: Final = 2
_MOST_SENTENCES: Final = 8


def is_of_self(text: str, language: str) -> bool:
    """Whether a sentence of `text` has its speaker as the subject; False in languages without a list."""
    subjects = _SUBJECTS.get(language)
    if subjects is None:
        return False
    for _, sentence in zip(range(_MOST_SENTENCES), split_sentences(text), strict=False):
        words = (part for word in WORD.findall(sentence.casefold()) for part in word.replace("\u2019", "'").split("'"))
        if any(word in subjects for _, word in zip(range(_FIRST_WORDS), words, strict=False)):
            return True
    return False
