"""Tells what holds always from what is said in passing, by its form: wishes, rules, constraints, preferences.

"Answer me in Italian", "I am allergic to walnuts", "never before ten" share no word with the requests they rule, so no
search finds them. They are few and say by their form what they are. What is missed is still found like anything else;
what is found wrongly takes room in every prompt, so a form counts only if ordinary talk hardly ever has it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from agent_reminiscence.text.sentences import split_sentences
from agent_reminiscence.text.standing_words import STANDING_WORDS

# Who has something settled says it briefly. A longer text tells or explains something, and would fill a prompt.
MAX_CHARACTERS: Final = 400

_QUESTION: Final = re.compile(r"[?？]\W*$")  # noqa: RUF001 - of Chinese and Japanese
_STRAIGHT: Final = str.maketrans("’‘ʼ", "'''")  # noqa: RUF001
_LEADING: Final = re.compile(r"^[\W_]+")


class _Rules(NamedTuple):
    """The compiled rules of one language."""

    courtesies: re.Pattern[str]
    statement: re.Pattern[str]
    anywhere: re.Pattern[str]
    once: re.Pattern[str]
    asked: re.Pattern[str]


def is_standing(text: str, language: str) -> bool:
    """Whether `text` says what holds from now on; False in languages without rules.

    Args:
        text: What somebody said, without a label in front.
    """
    if language not in STANDING_WORDS or len(text) > MAX_CHARACTERS:
        return False
    return any(_holds(sentence, _rules(language)) for sentence in split_sentences(text))


def _holds(sentence: str, rules: _Rules) -> bool:
    said = _LEADING.sub("", sentence.casefold().translate(_STRAIGHT))
    said = said[_end_of(rules.courtesies, said) :]
    if rules.once.search(said):
        return False
    if _QUESTION.search(said):
        return rules.asked.match(said) is not None
    return rules.statement.match(said) is not None or rules.anywhere.search(said) is not None


def _end_of(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.match(text)
    return 0 if match is None else match.end()


@cache
def _rules(language: str) -> _Rules:
    words = STANDING_WORDS[language]
    return _Rules(
        re.compile(words.courtesies),
        _any_of(words.beginnings),
        # Tried only where a word or an ending such as "'m" begins: at each letter it would take four times as long.
        re.compile(rf"(?:(?<!\w)(?=\w)|(?=[',]))(?:{'|'.join(words.anywhere)})"),
        _any_of(words.once),
        _any_of(words.asked),
    )


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
