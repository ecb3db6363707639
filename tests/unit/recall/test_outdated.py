"""What is probably out of date: which mark counts for a question, and who stands where."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.database.repositories.search import HitMark
from agent_reminiscence.services.recall.best_rows import _wanted
from agent_reminiscence.services.recall.outdated import (
    OUTDATED_SHARE,
    choose_marks,
    newer_among,
    order_of,
    shares,
    with_newer,
)

_MARCH = datetime(2026, 3, 2, tzinfo=UTC)
_HOURS, _PARKING = "The office closes at 18:00.", "Parking costs 12 euros a day."


def _mark(number: int, by_number: int, *, days: int = 0, **fields: Any) -> HitMark:
    since = _MARCH + timedelta(days=days)
    return HitMark(number, since, UUID(int=by_number), by_number, **({"start": None, "end": None} | fields))


def _on_hours(number: int, by_number: int, **fields: Any) -> HitMark:
    return _mark(number, by_number, start=0, end=len(_HOURS), part=_HOURS, rest=_PARKING, **fields)


@pytest.mark.parametrize(
    ("question", "is_asked"),
    [
        ("When does the office close?", True),
        ("What does parking cost a day?", False),
        # Nothing tells which of the two is meant.
        ("Until when may I come by?", True),
    ],
)
def test_a_mark_on_a_part_counts_if_the_part_is_asked_about(question: str, is_asked: bool) -> None:
    """At least as much as the rest of the chunk."""
    assert choose_marks([_on_hours(1, 2)], question, ["en"])[1].is_asked == is_asked


def test_of_several_marks_that_on_the_part_asked_about_counts() -> None:
    """One on the whole chunk does as well; of equal ones the newest."""
    parking = _mark(1, 3, start=len(_HOURS) + 1, end=70, part=_PARKING, rest=_HOURS)

    assert choose_marks([_on_hours(1, 2), parking], "What does parking cost?", ["en"])[1].by_number == 3
    assert choose_marks([_on_hours(1, 2), parking], "When does the office close?", ["en"])[1].by_number == 2
    assert choose_marks([parking, _mark(1, 4)], "When does the office close?", ["en"])[1].by_number == 4
    assert choose_marks([_mark(1, 2, days=1), _mark(1, 5)], "When?", ["en"])[1].by_number == 2


def test_what_is_out_of_date_keeps_a_share_of_its_score() -> None:
    """And all of it, if the question is about something else in it."""
    marks = {2: _mark(2, 9), 3: _mark(3, 9)._replace(is_asked=False)}

    assert shares(np.array([1, 2, 3]), marks).tolist() == [1, OUTDATED_SHARE, 1]
    assert shares(np.array([1, 2, 3]), {}).tolist() == [1, 1, 1]


def test_a_newer_chunk_is_read_with_what_it_makes_out_of_date() -> None:
    """However far down it is, and the one that makes that one out of date, too."""
    numbers = np.array([5, 6, 7, 8, 9])
    marks = {5: _mark(5, 8), 8: _mark(8, 9), 6: _mark(6, 100)}

    assert with_newer(np.array([0, 1]), numbers, marks).tolist() == [0, 1, 3, 4]
    assert with_newer(np.array([0, 1]), numbers, {}).tolist() == [0, 1]


def test_a_newer_chunk_takes_the_place_of_the_older_one() -> None:
    """That which it would have without a mark; the newest of a chain stands first."""
    numbers = np.array([1, 2, 3, 4])
    scores = np.array([0.9, 0.8 * OUTDATED_SHARE, 0.3, 0.2 * OUTDATED_SHARE])
    marks = {2: _mark(2, 3), 4: _mark(4, 1)}

    assert order_of(scores, newer_among(numbers, marks)) == [0, 2, 1, 3]
    chain = {1: _mark(1, 2, days=1), 2: _mark(2, 3, days=2)}
    assert order_of(np.array([0.9, 0.5, 0.1]) * OUTDATED_SHARE, newer_among(numbers, chain)) == [2, 1, 0]


_SCORES = st.lists(st.integers(1, 60), min_size=1, max_size=30).map(lambda all_: sorted(all_, reverse=True))


@settings(max_examples=80, deadline=None)
@given(scores=_SCORES, data=st.data())
def test_nothing_is_lost_and_each_newer_one_precedes(scores: list[int], data: st.DataObject) -> None:
    """Whatever is marked: nothing goes, no newer one follows what it makes out of date, the others keep their order."""
    places = st.integers(0, len(scores) - 1)
    # The newer one was said later: no circles.
    pairs = [(min(one, other), max(one, other)) for one, other in data.draw(st.lists(st.tuples(places, places)))]
    newer = {older: by for older, by in pairs if older != by}
    kept = np.array([score * (OUTDATED_SHARE if place in newer else 1) for place, score in enumerate(scores)])
    best = np.argsort(-kept, kind="stable")
    at = {place: index for index, place in enumerate(best.tolist())}
    named = [(at[older], at[by]) for older, by in sorted(newer.items())]

    order = [int(best[index]) for index in order_of(kept[best], named)]

    assert sorted(order) == list(range(len(scores)))
    for older, by in newer.items():
        assert order.index(by) < order.index(older)
    others = [place for place in order if place not in newer.values()]
    assert others == [place for place in best.tolist() if place not in newer.values()]


def test_as_many_are_read_as_may_be_among_the_best() -> None:
    """Those that fall below others because they are out of date make room for these."""
    scores = np.array([0.9, 0.8, 0.7, 0.69, 0.3])
    marked = scores * np.array([1, OUTDATED_SHARE, 1, 1, 1])
    alike = np.arange(5)

    assert _wanted(scores, alike, 2, 1.0).tolist() == [0, 1]
    assert _wanted(marked, alike, 2, 1.0).tolist() == [0, 2]
