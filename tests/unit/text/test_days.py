"""Days of moments in time zones, and the quarters of an hour by which layouts know them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.config.timezones import stored_zone, zone_named
from agent_reminiscence.domain.index import LAYOUT_DTYPE
from agent_reminiscence.domain.said_times import QUARTER_SHIFT, days_in, quarter_of
from agent_reminiscence.text.days import day_of, now_in, other_day_in, seen_in

_ZONES = sorted(zone for zone in available_timezones() if "/" in zone and not zone.startswith(("posix", "right")))
_FIRST = datetime(1975, 1, 1, tzinfo=UTC)
# To the microsecond.
_MOMENTS = st.timedeltas(timedelta(0), timedelta(days=365 * 85)).map(lambda since: _FIRST + since)


def _entries(moments: list[datetime]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    entries = np.zeros(len(moments), dtype=LAYOUT_DTYPE)
    entries["day"] = [(moment.date() - date(1970, 1, 1)).days for moment in moments]
    # Whatever else the flags say of a chunk.
    entries["flags"] = [quarter_of(moment) << QUARTER_SHIFT | 511 for moment in moments]
    return entries


@settings(deadline=None)
@given(zone=st.sampled_from(_ZONES), moments=st.lists(_MOMENTS, max_size=30))
def test_layouts_know_the_day_in_any_zone(zone: str, moments: list[datetime]) -> None:
    """A quarter of an hour is exact enough: since 1972, zones differ from UTC by whole ones."""
    days = days_in(_entries(moments), ZoneInfo(zone))

    assert [date(1970, 1, 1) + timedelta(days=int(day)) for day in days] == [
        day_of(moment, ZoneInfo(zone)) for moment in moments
    ]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Pacific/Auckland", "Australia/Lord_Howe", "America/Santiago"])
@pytest.mark.parametrize("year", [2026, 2027])
def test_days_on_which_clocks_change_are_told_to_the_quarter(zone: str, year: int) -> None:
    """Every quarter of every hour of a year; Chile's clocks change at midnight."""
    first = datetime(year, 1, 1, 0, 7, tzinfo=UTC)
    moments = [first + timedelta(minutes=15 * number) for number in range(96 * 366)]

    days = days_in(_entries(moments), ZoneInfo(zone))

    assert days.tolist() == [(moment.astimezone(ZoneInfo(zone)).date() - date(1970, 1, 1)).days for moment in moments]


def test_midnight_in_utc_is_a_day() -> None:
    """Dates in files and in models' answers stay what they are, wherever they are read."""
    midnight = datetime(2026, 3, 2, tzinfo=UTC)
    for zone in map(ZoneInfo, ("America/New_York", "Pacific/Auckland")):
        assert day_of(midnight, zone) == date(2026, 3, 2)
        assert seen_in(midnight, zone).date() == date(2026, 3, 2)
        assert days_in(_entries([midnight]), zone).tolist() == days_in(_entries([midnight]), UTC).tolist()
    # But what the clock shows is a time.
    assert now_in(midnight, ZoneInfo("America/New_York")).date() == date(2026, 3, 1)
    assert day_of(midnight + timedelta(microseconds=1), ZoneInfo("America/New_York")) == date(2026, 3, 1)
    assert other_day_in(midnight, ZoneInfo("America/New_York")) is None


def test_a_day_at_the_end_of_time_is_that_of_utc() -> None:
    """There is none before the first day and after the last."""
    last = datetime.max.replace(tzinfo=UTC)
    first = datetime.min.replace(tzinfo=UTC) + timedelta(seconds=1)

    assert day_of(last, ZoneInfo("Pacific/Auckland")) == last.date()
    assert day_of(first, ZoneInfo("America/New_York")) == first.date()
    assert len(days_in(_entries([first, last]), ZoneInfo("Pacific/Auckland"))) == 2


def test_a_zone_that_this_machine_does_not_know_is_read_in_utc() -> None:
    """A memory that was written where it is known must not stop a ledger from being read."""
    assert stored_zone("Mars/Olympus") is UTC
    assert zone_named("UTC") is UTC
    with pytest.raises(ValueError, match="use an IANA name such as Europe/Lisbon"):
        zone_named("Mars/Olympus")
