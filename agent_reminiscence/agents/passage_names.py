"""Which names new passages use: nothing that a model made up enters the graph."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from rapidfuzz.distance import JaroWinkler

from agent_reminiscence.agents.plans import ConsolidationMaterial
from agent_reminiscence.text.folding import name_key, without_speaker

# `Anna` and its accusative `Annu` score 0.88, `Robert Downey` and `Bob` 0.44.
_FORM_SIMILARITY = 0.8

# A shorter name must match a whole word; a longer one may have an ending, as Helsinki in `Helsinkiin`.
_INFLECTED_CHARACTERS = 4

# In capitals these are names: IT, US, WHO.
_PRONOUNS = frozenset((
    "he", "her", "hers", "herself", "him", "himself", "his", "i", "it", "its", "itself", "me", "mine", "my", "myself",
    "our", "ours", "ourselves", "she", "that", "their", "theirs", "them", "themselves", "these", "they", "this",
    "those", "us", "we", "who", "you", "your", "yours", "yourself", "yourselves",
))  # fmt: skip


class PassageNames:
    """The text of a window's new passages, searched for names without case, diacritics and surplus space."""

    def __init__(self, material: ConsolidationMaterial) -> None:
        self._passages = [_plain(f"{one.speaker or ''}\n{one.text}") for one in material.passages]
        self._texts = [_plain(without_speaker(one.text, one.speaker)) for one in material.passages]
        self._title = _plain(material.title or "")

    def find(self, names: Iterable[str]) -> tuple[int, ...]:
        """The indices of the passages that have one of `names`, ascending."""
        forms = {form for name in names for form in _forms(name)}
        return tuple(
            index for index, text in enumerate(self._passages) if any(_has_words(text, form) for form in forms)
        )

    def says(self, index: int, names: Iterable[str]) -> bool:
        """Whether the words of a passage have one of `names`; its speaker's name does not count."""
        return any(_has_words(self._texts[index], form) for name in names for form in _forms(name))

    def has(self, name: str) -> bool:
        """Whether a passage or the title has `name`."""
        return bool(self.find([name])) or any(_has_words(self._title, form) for form in _forms(name))


def is_name(text: str) -> bool:
    """Whether `text` can name something: a pronoun cannot."""
    return bool(name_key(text)) and not _is_pronoun(text)


def is_form_of(name: str, other: str) -> bool:
    """Whether one name is an inflected form of the other, judged mostly by how they begin."""
    return JaroWinkler.similarity(name_key(name), name_key(other)) >= _FORM_SIMILARITY


def find_named(name: str, groups: Sequence[Sequence[str]]) -> int | None:
    """The index of the first of several groups of names that has `name`; None if none has."""
    key = name_key(name)
    return next((index for index, names in enumerate(groups) if key and key in map(name_key, names)), None)


def _is_pronoun(name: str) -> bool:
    return name.casefold() in _PRONOUNS and (len(name) == 1 or not name.isupper())


def _forms(name: str) -> set[str]:
    """`name` as it is, and without a title and possessive ending."""
    return {_plain(name), _plain(name_key(name))} - {""}


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.replace("’", "'"))
    return " ".join("".join(filter(_is_no_mark, decomposed)).casefold().split())


def _is_no_mark(character: str) -> bool:
    return not unicodedata.combining(character)


def _has_words(text: str, words: str) -> bool:
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        begins = not _is_within_word(text, start)
        may_go_on = len(words) >= _INFLECTED_CHARACTERS and not words[-1].isdecimal()
        ends = may_go_on or not _is_within_word(text, end)
        if begins and ends:
            return True
        start = text.find(words, start + 1)
    return False


def _is_within_word(text: str, offset: int) -> bool:
    """Whether `offset` is inside a word."""
    return 0 < offset < len(text) and all(map(_is_spaced, text[offset - 1 : offset + 1]))


def _is_spaced(character: str) -> bool:
    """Whether its script puts spaces between words; certain only for digits and scripts that have capitals."""
    return character.isdecimal() or character.upper() != character.lower()
