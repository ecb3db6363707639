"""Guesses whether a name is a person's, a place's or an organisation's, from its words and those around it.

Precision comes before recall. What two lists claim, or what is also an ordinary word, is `other` unless the sentence
decides: `in Jordan` is a place, `Jordan said` is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent_reminiscence.text.common import is_common
from agent_reminiscence.text.folding import fold_name, name_key, without_possessive
from agent_reminiscence.text.german import is_noun
from agent_reminiscence.text.label_words import GIVEN_NAMES
from agent_reminiscence.text.name_lines import INITIALS, Word, has_title
from agent_reminiscence.text.name_lists import TYPED, english_nouns, german_words, organizations, places, type_words
from agent_reminiscence.text.name_words import ALSO_WORDS

OTHER: Final = "other"
PERSON: Final = "person"
PLACE: Final = "place"
ORGANIZATION: Final = "organization"

# Not "to" and "from": one writes to people, too.
_BEFORE_PLACES: Final = frozenset({"in", "nach", "aus", "near"})
# Given names that texts mean otherwise as often: products, and what everybody talks to.
_NOT_PEOPLE: Final = frozenset({"mercedes", "alexa", "claude", "siri", "oscar", "melody", "chelsea", "india", "asia"})
_MIN_PLACE_LETTERS: Final = 6
_MAX_PERSON_WORDS: Final = 4


def guess_type(run: Sequence[Word], before: str = "", after: str = "", *, is_german: bool = False) -> str:
    """The type that a name has in a sentence; `other` if it is not sure.

    Args:
        run: The words of the name.
        before: The word before it, in lower case; '' if something else than a space separates them.
        after: The same for the word after it.
        is_german: Whether the line is German, so that capital letters do not tell nouns.
    """
    words = [without_possessive(word.text.casefold()).rstrip(".") for word in run]
    if has_title(run):
        return PERSON
    if len(words) > 1 and any(INITIALS.fullmatch(word.text) for word in run[:-1]):
        return PERSON
    if type_ := _by_words(words, after):
        return type_
    key = name_key(" ".join(word.text for word in run))
    if key in organizations():
        return ORGANIZATION
    if key in places() and _is_place(key, words, before):
        return PLACE
    if len(words) == 1:
        return _of_one_word(words[0], before, is_german=is_german)
    if _is_given(words[0]) and len(words) <= _MAX_PERSON_WORDS and not _is_thing(words):
        return PERSON
    return OTHER


def is_person_name(word: str) -> bool:
    """Whether a case-folded word is a given name and hardly ever anything else."""
    return _is_given(word) and word not in ALSO_WORDS and name_key(word) not in places()


def _by_words(words: Sequence[str], after: str) -> str | None:
    for type_ in TYPED:
        known = type_words()[type_]
        if after in known.after:
            return type_
        if len(words) > 1 and (words[-1] in known.last or words[0] in known.first):
            return type_
    return None


def _is_place(key: str, words: Sequence[str], before: str) -> bool:
    """Whether a listed name means the place: it has no other meaning, or stands where only places stand."""
    is_ambiguous = len(words) == 1 and (
        key in ALSO_WORDS or fold_name(key) in GIVEN_NAMES or key in german_words().nouns
    )
    return not is_ambiguous or before in _BEFORE_PLACES


def _of_one_word(word: str, before: str, *, is_german: bool) -> str:
    organization = type_words()[ORGANIZATION].endings
    if len(word) > _MIN_PLACE_LETTERS + 2 and word.endswith(organization) and is_german:
        return ORGANIZATION
    if before in _BEFORE_PLACES and not _is_given(word):
        endings = type_words()[PLACE].endings
        if len(word) >= _MIN_PLACE_LETTERS and word.endswith(endings) and not (is_german and is_noun(word)):
            return PLACE
    if is_person_name(word) and before not in _BEFORE_PLACES:
        return PERSON
    return OTHER


def _is_given(word: str) -> bool:
    folded = fold_name(word)
    return (folded in GIVEN_NAMES or folded.partition("-")[0] in GIVEN_NAMES) and folded not in _NOT_PEOPLE


def _is_thing(words: Sequence[str]) -> bool:
    """Whether a given name stands before ordinary words: `Rose Garden`, but `Rose Miller` is a person."""
    if words[-1] in english_nouns():
        return True
    return words[0] in ALSO_WORDS and words[-1] not in ALSO_WORDS and is_common(words[-1])
