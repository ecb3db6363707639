"""Statements that speakers make of themselves."""

from __future__ import annotations

import pytest

from agent_reminiscence.text.self_talk import is_of_self


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I'm a night owl.", "en"),
        ("I\u2019ve moved to the coast.", "en"),
        ("It rained. Then I went home.", "en"),
        ("Ich bin Bäckerin.", "de"),
        ("J'habite près du port.", "fr"),
        ("Soy de Sevilla.", "es"),
    ],
)
def test_the_speaker_is_the_subject(text: str, language: str) -> None:
    """In whichever sentence, near its beginning."""
    assert is_of_self(text, language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("My sister is a midwife.", "en"),
        ("The shop that I told you of is closed.", "en"),
        ("Ich bin Bäckerin.", "en"),
        ("I am here.", "xx"),
        ("", "en"),
    ],
)
def test_others_are(text: str, language: str) -> None:
    """And nothing is told in a language without a list."""
    assert not is_of_self(text, language)
