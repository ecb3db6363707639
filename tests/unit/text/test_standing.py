"""What holds for good is told from what is said in passing, by its form."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agent_reminiscence.text import standing
from agent_reminiscence.text.standing import MAX_CHARACTERS, STANDING_LANGUAGES, is_standing
from agent_reminiscence.text.words import ANALYSER_VERSION
from tests.support.standing_examples import HOLDING, PASSING

_DIGEST_OF_VERSION_5 = "9012c9e6176e6cdf"
_HOLDING = [(language, line) for language, lines in HOLDING.items() for line in lines.strip().splitlines()]
_PASSING = [(language, line) for language, lines in PASSING.items() for line in lines.strip().splitlines()]


@pytest.mark.parametrize(("language", "line"), _HOLDING)
def test_what_holds_for_good_is_told_by_its_form(language: str, line: str) -> None:
    """A wish, a rule, a constraint, a preference; also among other sentences, and whatever its apostrophes are."""
    assert is_standing(line, language)
    assert is_standing(line.replace("'", "’"), language)
    assert is_standing(f"Hm. {line}", language)


@pytest.mark.parametrize(("language", "line"), _PASSING)
def test_what_is_said_in_passing_is_none(language: str, line: str) -> None:
    """It would stand in every prompt."""
    assert not is_standing(line, language)


def test_each_language_with_rules_has_examples() -> None:
    """Of both kinds, more than a few."""
    found = {path.stem for path in Path(standing.__file__).with_name("standing_words").iterdir()}
    assert found == HOLDING.keys() == PASSING.keys() == STANDING_LANGUAGES
    assert min(len(lines.split("\n")) for lines in [*HOLDING.values(), *PASSING.values()]) > 10


def test_a_question_asks_for_something_once() -> None:
    """Unless it says that it is for good, in the polite form of a request."""
    assert not is_standing("Can I use metric units?", "en")
    assert not is_standing("Could you answer in Spanish?", "en")
    assert is_standing("Could you always answer in Spanish?", "en")


def test_a_day_that_is_named_makes_it_passing() -> None:
    """What holds today does not hold for good."""
    assert is_standing("I can't eat rice.", "en")
    assert not is_standing("I can't eat rice today.", "en")
    assert not is_standing("Don't use the 24-hour clock this time.", "en")


def test_a_long_text_and_other_languages_hold_nothing() -> None:
    """A long text explains something; and no rule of one language is tried on another."""
    wish = "Never share my address."
    assert is_standing(wish, "en")
    assert not is_standing(f"{wish} {'It is a long story. ' * (MAX_CHARACTERS // 20)}", "en")
    assert not is_standing(wish, "de")
    assert not is_standing(wish, "nl")
    assert not is_standing("", "en")


def test_the_version_of_the_analyser_stands_for_the_rules() -> None:
    """Flags are stored: whoever changes a rule raises the version, and then the digest."""
    folder = Path(standing.__file__).with_name("standing_words")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()

    assert (ANALYSER_VERSION, digest[:16]) == (5, _DIGEST_OF_VERSION_5)
