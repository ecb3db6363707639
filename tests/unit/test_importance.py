"""How much a chunk matters: the documented formula, and what counts as a detail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.config.constants import SOURCES, Source
from agent_reminiscence.services.importance import count_details, importance


@pytest.mark.parametrize(
    ("source", "recurrences", "details", "survived", "expected"),
    [
        ("user", 0, 0, 0, 0.30),
        ("model", 0, 0, 0, 0.15),
        ("user", 1, 0, 0, 0.425),
        ("user", 2, 0, 0, 0.4875),
        ("user", 0, 1, 0, 0.383333),
        ("user", 0, 3, 0, 0.55),
        ("user", 0, 9, 0, 0.55),
        ("user", 0, 0, 1, 0.34),
        ("user", 0, 0, 5, 0.50),
        ("user", 0, 0, 50, 0.50),
        ("tool", 1, 3, 5, 0.785),
        ("user", 60, 3, 5, 1.0),
    ],
)
def test_importance_is_the_documented_sum(
    source: Source, recurrences: int, details: int, survived: int, expected: float
) -> None:
    """0.30 trust + 0.25 recurrence + 0.25 specificity + 0.20 stability, rounded to six digits."""
    found = importance(source=source, recurrences=recurrences, details=details, updates_survived=survived)

    assert found == pytest.approx(expected, abs=1e-6)


@given(
    source=st.sampled_from(SOURCES),
    recurrences=st.integers(0, 1_000),
    details=st.integers(0, 1_000),
    survived=st.integers(0, 1_000),
)
def test_importance_is_a_share_and_never_falls_with_more_of_anything(
    source: Source, recurrences: int, details: int, survived: int
) -> None:
    """From 0 to 1; one recurrence, detail or survived update more is worth no less."""
    base = importance(source=source, recurrences=recurrences, details=details, updates_survived=survived)

    assert 0 <= base <= 1
    assert importance(source=source, recurrences=recurrences + 1, details=details, updates_survived=survived) >= base
    assert importance(source=source, recurrences=recurrences, details=details + 1, updates_survived=survived) >= base
    assert importance(source=source, recurrences=recurrences, details=details, updates_survived=survived + 1) >= base


@pytest.mark.parametrize(
    ("text", "details"),
    [
        ("nothing in particular happened here", 0),
        ("Sentences begin with capitals. That is no detail. Nor is this.", 0),
        ("we met Ann", 1),
        ("we met Ann, and Ann met us", 1),
        ("we met Ann Miller in New York", 4),
        ("it cost 300 crowns on 5 May 2026", 4),
        ("version v2 of the plan", 1),
        ("Ann wrote to Bob", 1),
        ("I think that I am late", 0),
        ("what a day!\nTomorrow is another", 0),
        ("see: Nothing", 0),
        ("", 0),
    ],
)
def test_details_are_names_and_numbers_inside_sentences(text: str, details: int) -> None:
    """Each counts once; a word that begins a sentence is capitalised anyway."""
    assert count_details(text) == details
