"""Tells what holds for good from what is said in passing, by its form: wishes, rules, constraints, preferences.

"Write to me in Dutch", "I can't eat rye", "no calls after six" share no word with the requests that they rule, so no
search finds them. They are few, and their form shows what they are. One that is missed is still found like anything
else; one that is found wrongly takes room in every prompt, so a form counts only if ordinary talk hardly ever has it.

The rules are data, a file for each language in `standing_words/`: regular expressions, a line each, matched against one
sentence in lower case with straight apostrophes.

- `[names]`: `name = expression`; `<name>` stands for it in the other parts.
- `[courtesies]`: what may precede a request and means nothing; it is taken off first.
- `[beginnings]`: beginnings of sentences that ask for something for good, or name a constraint.
- `[anywhere]`: the same, wherever it begins.
- `[once]`: what shows that a sentence is about one occasion or about the past, whatever else it matches.
- `[asked]`: beginnings of questions that ask for something for good. No other question counts.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from agent_reminiscence.text.sentences import split_sentences

STANDING_LANGUAGES: Final = frozenset({"de", "en", "es", "fr", "it", "pt"})
"""The languages that have rules."""

# Who has something settled says it briefly. A longer text tells or explains something, and would fill a prompt.
MAX_CHARACTERS: Final = 400

_PARTS: Final = ("names", "courtesies", "beginnings", "anywhere", "once", "asked")
_NAME: Final = re.compile(r"<(\w+)>")
_QUESTION: Final = re.compile(r"[?？]\W*$")  # noqa: RUF001 - of Chinese and Japanese
_STRAIGHT: Final = str.maketrans("’‘ʼ", "'''")  # noqa: RUF001
_LEADING: Final = re.compile(r"^[\W_]+")


class _Rules(NamedTuple):
    """The compiled rules of one language."""

    courtesies: re.Pattern[str]
    beginnings: re.Pattern[str]
    anywhere: re.Pattern[str]
    once: re.Pattern[str]
    asked: re.Pattern[str]


def is_standing(text: str, language: str) -> bool:
    """Whether `text` says what holds for good; False in a language without rules.

    Args:
        text: What somebody said, without a label in front.
    """
    if language not in STANDING_LANGUAGES or len(text) > MAX_CHARACTERS:
        return False
    return any(_holds(sentence, _rules(language)) for sentence in split_sentences(text))


def _holds(sentence: str, rules: _Rules) -> bool:
    said = _LEADING.sub("", sentence.casefold().translate(_STRAIGHT))
    if courtesies := rules.courtesies.match(said):
        said = said[courtesies.end() :]
    if rules.once.search(said):
        return False
    if _QUESTION.search(said):
        return rules.asked.match(said) is not None
    return rules.beginnings.match(said) is not None or rules.anywhere.search(said) is not None


@cache
def _rules(language: str) -> _Rules:
    parts = _read(language)
    # Tried only where a word or an ending such as "'m" begins: at every letter it would take a third longer.
    anywhere = rf"(?:(?<!\w)(?=\w)|(?=[',]))(?:{'|'.join(parts['anywhere'])})"
    return _Rules(
        re.compile("|".join(parts["courtesies"])),
        re.compile("|".join(parts["beginnings"])),
        re.compile(anywhere),
        re.compile("|".join(parts["once"])),
        re.compile("|".join(parts["asked"])),
    )


def _read(language: str) -> dict[str, list[str]]:
    """The expressions of each part of a language's file, without names."""
    text = files("agent_reminiscence.text").joinpath("standing_words", f"{language}.txt").read_text(encoding="utf-8")
    parts: dict[str, list[str]] = {part: [] for part in _PARTS}
    part = ""
    # A line that begins with two spaces continues the one before.
    for line in text.replace("\n  ", "").splitlines():
        if line.startswith("[") and line[1:-1] in parts:
            part = line[1:-1]
        elif line and not line.startswith("#"):
            parts[part].append(line)
    names = dict(line.split(" = ", 1) for line in parts.pop("names"))
    return {
        part: [_NAME.sub(lambda found: f"(?:{names[found[1]]})", line) for line in lines]
        for part, lines in parts.items()
    }
