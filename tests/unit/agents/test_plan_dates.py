"""Dates in plans: periods and moments as models write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.agents.plan_dates import ending_date, is_date, period_end, read_date, starting_date
from agent_reminiscence.text.days import iso_weekday


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2024", datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
        ("0001", datetime(1, 1, 1, tzinfo=UTC), datetime(2, 1, 1, tzinfo=UTC)),
        ("2024-12", datetime(2024, 12, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
        ("2024-02", datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)),
        ("2024-12-31", datetime(2024, 12, 31, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
        ("2024-05-31T17:30", datetime(2024, 5, 31, 17, 30, tzinfo=UTC), datetime(2024, 5, 31, 17, 30, tzinfo=UTC)),
        ("2024-05-31 17:30:05", datetime(2024, 5, 31, 17, 30, 5, tzinfo=UTC), None),
        ("2024-05-31T00:30:00.5+02:00", datetime(2024, 5, 30, 22, 30, 0, 500_000, tzinfo=UTC), None),
        ("2024-05-31T17:30:00Z", datetime(2024, 5, 31, 17, 30, tzinfo=UTC), None),
    ],
)
def test_a_date_is_a_period_or_a_moment(text: str, start: datetime, end: datetime | None) -> None:
    """A start is where its period begins, an end is where the next one does."""
    assert read_date(text) == start
    assert read_date(text, is_end=True) == (start if end is None else end)
    assert read_date(text).utcoffset() == read_date(text, is_end=True).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0000",
        "24",
        "12024",
        "-2024",
        "2024-13",
        "2024-00",
        "2024-02-30",
        "2023-02-29",
        "2024-5",
        "20240531",
        "2024-W20",
        "2024-151",
        "2024-05-31T",
        "2024-05-31T25:00",
        "2024-05-31T17:30:00+25:00",
        "2024-05-31Z",
        "0001-01-01T00:00+14:00",
        "9999-12-31T23:59-14:00",
        "\u0662\u0660\u0662\u0664",
        "2024-05-31T\u0661\u0667:30",
        "2024/05/31",
        "now",
        "2024-05 ",
    ],
)
def test_what_is_no_date_is_refused(text: str) -> None:
    """Whatever it looks like, and also where its moment is not within the years that there are."""
    with pytest.raises(ValueError, match="not a date within the years 1 to 9999"):
        read_date(text)


@pytest.mark.parametrize("text", ["9999", "9999-12", "9999-12-31"])
def test_time_ends_with_the_year_9999(text: str) -> None:
    """A period that would end after it has a beginning only."""
    assert read_date(text).year == 9999
    with pytest.raises(ValueError, match="not a date within the years 1 to 9999"):
        read_date(text, is_end=True)


@given(text=st.one_of(st.text(max_size=40), st.from_regex(r"\A[0-9]{4}(-[0-9]{2}){0,2}([T ][0-9:+.Z-]{0,14})?\Z")))
def test_any_text_is_a_moment_or_refused(text: str) -> None:
    """In UTC, and an end is never before a start of the same words."""
    try:
        start, end = read_date(text), read_date(text, is_end=True)
    except ValueError:
        return
    assert start.tzinfo is UTC
    assert end.tzinfo is UTC
    assert start <= end


@given(day=st.dates(max_value=date(9999, 12, 30)))
def test_days_months_and_years_follow_each_other_without_a_gap(day: date) -> None:
    """Where one ends, the next one begins."""
    tomorrow = day + timedelta(days=1)
    for length in (10, 7, 4):
        before, after = day.isoformat()[:length], tomorrow.isoformat()[:length]
        if before != after:
            assert read_date(before, is_end=True) == read_date(after)
        elif length < 10:
            assert read_date(before) < read_date(tomorrow.isoformat(), is_end=True)


_SAID_AT = datetime(2024, 5, 20, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("on", "end"),
    [
        (None, _SAID_AT),
        ("2024", _SAID_AT),
        ("2024-05-20", _SAID_AT),
        ("2024-05-20T09:00", datetime(2024, 5, 20, 9, tzinfo=UTC)),
        ("2023", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-08", datetime(2024, 9, 1, tzinfo=UTC)),
    ],
)
def test_what_is_said_to_be_over_is_over_by_then(on: str | None, end: datetime) -> None:
    """A year that is not over yet does not keep it going; a date to come does."""
    assert ending_date(on, _SAID_AT) == end


# Nine in the morning of 2 March in Auckland, which is still 1 March in UTC.
_IN_AUCKLAND = datetime(2026, 3, 1, 20, tzinfo=UTC)
# Nine in the evening of 1 March in New York, which is 2 March in UTC already.
_IN_NEW_YORK = datetime(2026, 3, 2, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("on", "said_at", "zone", "end"),
    [
        ("2026-03-02", _IN_AUCKLAND, "Pacific/Auckland", _IN_AUCKLAND),
        ("2026-03", _IN_AUCKLAND, "Pacific/Auckland", _IN_AUCKLAND),
        # Yesterday is over there, though not in UTC.
        ("2026-03-01", _IN_AUCKLAND, "Pacific/Auckland", _IN_AUCKLAND),
        ("2026-02", _IN_AUCKLAND, "Pacific/Auckland", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-03", _IN_AUCKLAND, "Pacific/Auckland", datetime(2026, 3, 4, tzinfo=UTC)),
        ("2026-03-02T10:00+13:00", _IN_AUCKLAND, "Pacific/Auckland", datetime(2026, 3, 1, 21, tzinfo=UTC)),
        ("2026-03-02", _IN_AUCKLAND, "UTC", datetime(2026, 3, 3, tzinfo=UTC)),
        ("2026-03-01", _IN_NEW_YORK, "America/New_York", _IN_NEW_YORK),
        ("2026-03-02", _IN_NEW_YORK, "America/New_York", datetime(2026, 3, 3, tzinfo=UTC)),
    ],
)
def test_an_ending_of_today_is_when_it_was_said(on: str, said_at: datetime, zone: str, end: datetime) -> None:
    """Today is the day that the model was told, in the memory's zone; what is past does not end after it was said."""
    assert ending_date(on, said_at, ZoneInfo(zone)) == end


@pytest.mark.parametrize(
    ("until", "zone", "end"),
    [
        ("2026-03-01", "Pacific/Auckland", _IN_AUCKLAND),
        ("2026-03-02", "Pacific/Auckland", datetime(2026, 3, 3, tzinfo=UTC)),
        ("2026-03-01", "UTC", datetime(2026, 3, 2, tzinfo=UTC)),
        ("2025", "Pacific/Auckland", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-03-01T20:00:01Z", "Pacific/Auckland", _IN_AUCKLAND + timedelta(seconds=1)),
    ],
)
def test_a_period_that_was_over_does_not_last_longer(until: str, zone: str, end: datetime) -> None:
    """Than until somebody said so; one that is not over lasts to its end."""
    assert period_end(until, _IN_AUCKLAND, ZoneInfo(zone)) == end


@pytest.mark.parametrize(
    ("since", "said_at", "zone", "start"),
    [
        # Midnight in UTC of what is today there has not come yet.
        ("2026-03-02", _IN_AUCKLAND, "Pacific/Auckland", _IN_AUCKLAND),
        ("2026-03-02T09:00+13:00", _IN_AUCKLAND, "Pacific/Auckland", _IN_AUCKLAND),
        ("2026-03-01", _IN_AUCKLAND, "Pacific/Auckland", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026", _IN_AUCKLAND, "Pacific/Auckland", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-03-03", _IN_AUCKLAND, "Pacific/Auckland", datetime(2026, 3, 3, tzinfo=UTC)),
        ("2026-03-02", _IN_AUCKLAND, "UTC", datetime(2026, 3, 2, tzinfo=UTC)),
        ("2026-03-01", _IN_NEW_YORK, "America/New_York", datetime(2026, 3, 1, tzinfo=UTC)),
        # A date without a time is the same day in every zone.
        ("2026-03-02", datetime(2026, 3, 2, tzinfo=UTC), "America/New_York", datetime(2026, 3, 2, tzinfo=UTC)),
    ],
)
def test_what_began_today_began_no_later_than_it_was_said(
    since: str, said_at: datetime, zone: str, start: datetime
) -> None:
    """Where the day begins before that of UTC, and also where it begins later; what is to come stays so."""
    assert starting_date(since, said_at, ZoneInfo(zone)) == start


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("2024-06", True), ("2124", True), ("2125", False), ("9999", False), ("last Friday", False), ("", False)],
)
def test_a_date_far_ahead_is_a_mistake(text: str, is_one: bool) -> None:
    """A hundred years are enough for a lease."""
    assert is_date(text, near=_SAID_AT) == is_one


def test_a_day_comes_with_its_weekday() -> None:
    """In UTC, and in English whatever the machine's locale is."""
    assert iso_weekday(datetime.fromisoformat("2024-05-20T23:30:00-04:00")) == "2024-05-21 Tuesday"
