"""How much a chunk matters: the documented formula, and what counts as a detail."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.domain.trust import SOURCE_TRUST, SOURCES, Source
from agent_reminiscence.services.tiers.importance import count_details, effective_importance, estimated, importance

_NOW = datetime(2026, 5, 1, tzinfo=UTC)
_PAGE = Path(__file__).parents[3] / "docs" / "guide" / "tiers.md"


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


_shares = st.floats(0, 1)


@pytest.mark.parametrize(
    ("source", "details", "estimate", "threshold", "expected"),
    [
        # Half of each.
        ("user", 0, 0.5, 0.7, 0.40),
        ("user", 3, 0.0, 0.7, 0.275),
        # What a user or an agent says reaches the threshold if the estimate does.
        ("user", 0, 0.7, 0.7, 0.70),
        ("user", 0, 1.0, 0.7, 0.70),
        ("user", 3, 1.0, 0.7, 0.775),
        ("user", 0, 0.69, 0.7, 0.495),
        ("agent", 0, 0.9, 0.7, 0.70),
        ("agent", 0, 0.9, 0.85, 0.52),
        # No estimate exceeds the trust in its source, nor lifts another source over the threshold.
        ("tool", 0, 1.0, 0.7, 0.455),
        ("tool", 3, 1.0, 0.5, 0.49),
        ("import", 3, 1.0, 0.58, 0.57),
        # Nor does a higher one count for less than a lower one that stays below it.
        ("tool", 3, 0.68, 0.575, 0.565),
        ("tool", 3, 0.70, 0.575, 0.565),
        ("model", 0, 1.0, 0.3, 0.29),
        # One that has reached it without the estimate keeps half of each.
        ("tool", 3, 0.5, 0.4, 0.48),
    ],
)
def test_an_estimate_counts_for_half_and_the_source_decides_on_longterm(
    source: Source, details: int, estimate: float, threshold: float, expected: float
) -> None:
    """The documented rule, to six digits."""
    found = importance(
        source=source, recurrences=0, details=details, updates_survived=0, estimate=estimate, threshold=threshold
    )

    assert found == pytest.approx(expected, abs=1e-6)


@given(seen=_shares, estimate=_shares, more=_shares, source=st.sampled_from(SOURCES), threshold=_shares)
def test_no_estimate_alone_makes_longterm_of_what_is_trusted_little(
    seen: float, estimate: float, more: float, source: Source, threshold: float
) -> None:
    """From 0 to 1; a higher estimate is worth no less; only a user's or an agent's reaches the threshold by it."""
    found = estimated(seen, estimate, source, threshold=threshold)

    assert 0 <= found <= 1
    assert estimated(seen, max(estimate, more), source, threshold=threshold) >= found
    if source in {"user", "agent"}:
        assert found >= threshold or min(estimate, SOURCE_TRUST[source]) < threshold
    else:
        assert found < threshold or seen >= threshold


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


def _effective(base: float, uses: int, idle_days: float) -> float:
    return effective_importance(base, uses=uses, touched_at=_NOW - timedelta(days=idle_days), now=_NOW)


@pytest.mark.parametrize(
    ("base", "uses", "idle_days", "expected"),
    [
        (0.55, 0, 0, 0.55),
        (0.55, 1, 0, 0.629081),
        (0.55, 2, 0, 0.685),
        (0.55, 3, 0, 0.724541),
        (0.55, 0, 90, 0.495),
        (0.55, 0, 36_500, 0.44),
        (0.55, 2, 90, 0.6165),
        (0.30, 8, 0, 0.69375),
        (0.30, 9, 0, 0.701438),
        (0.15, 10_000, 0, 0.66),
        (1.0, 5, 0, 1.0),
        (0.0, 0, 0, 0.0),
    ],
)
def test_what_importance_becomes_is_the_documented_formula(
    base: float, uses: int, idle_days: float, expected: float
) -> None:
    """Half of what is to be gained after two uses; a tenth lost after ninety idle days, a fifth in the end."""
    assert _effective(base, uses, idle_days) == pytest.approx(expected, abs=1e-6)


def test_a_specific_sentence_of_the_user_is_longterm_after_three_recalls() -> None:
    """Also when the review comes three weeks later; after two it is not, and age alone never gets it there."""
    specific = importance(source="user", recurrences=0, details=3, updates_survived=0)

    assert _effective(specific, 3, 21) >= 0.7
    assert _effective(specific, 2, 0) < 0.7
    assert all(_effective(specific, 0, days) <= specific for days in range(0, 4_000, 10))


@given(
    base=st.floats(0, 1),
    uses=st.integers(0, 2**31 - 1),
    idle_days=st.floats(-10, 700_000),
)
def test_use_never_takes_away_and_age_never_adds(base: float, uses: int, idle_days: float) -> None:
    """From 0 to 1, whatever the clocks say of each other."""
    found = _effective(base, uses, idle_days)

    assert 0 <= found <= 1
    assert _effective(base, uses + 1, idle_days) >= found
    assert _effective(base, uses, idle_days + 10) <= found
    assert _effective(base, 0, idle_days) <= round(base, 6)


def test_the_table_of_uses_and_age_on_the_page_is_what_the_formula_gives() -> None:
    """The numbers of the guide are computed, not remembered."""
    rows = re.findall(r"^\| ([\d.]+) \| (\d+) \| (\d+) \| ([\d.]+) \|", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert len(rows) >= 6
    for base, uses, idle_days, expected in rows:
        assert f"{_effective(float(base), int(uses), int(idle_days)):.2f}" == expected
