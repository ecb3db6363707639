"""Days as they are written for models and in headings: in somebody's time zone, whatever the machine's locale is.

A stored time of exactly midnight in UTC, to the microsecond, is a day without a time, as dates in files, exports and
models' answers are. It is the same day in every zone.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

# Not strftime: its names follow the locale.
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def has_time(moment: datetime) -> bool:
    """Whether a stored time is more than a day: not exactly midnight in UTC."""
    return moment.astimezone(UTC).time() != time.min


def day_of(moment: datetime, zone: tzinfo = UTC) -> date:
    """The day of a stored time, in a zone."""
    return seen_in(moment, zone).date()


def other_day_in(moment: datetime, zone: tzinfo) -> date | None:
    """The day of a stored time in a zone, where it is another than in UTC; else None."""
    day = day_of(moment, zone)
    return None if day == day_of(moment) else day


def seen_in(moment: datetime, zone: tzinfo) -> datetime:
    """A stored time as it is shown to somebody in a zone: its `date()` is its day there."""
    return now_in(moment, zone) if has_time(moment) else moment.astimezone(UTC)


def now_in(now: datetime, zone: tzinfo) -> datetime:
    """The present in a zone: its `date()` is today."""
    try:
        return now.astimezone(zone)
    except OverflowError:
        # Within a day of the first or the last moment that there is.
        return now.astimezone(UTC)


def moments_of(first: date, last: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """When the days from `first` to `last` begin and end in a zone, in UTC; the end is not part of them."""
    end = datetime.max.replace(tzinfo=UTC) if last == date.max else _beginning(last + timedelta(days=1), zone)
    return _beginning(first, zone), end


def _beginning(day: date, zone: tzinfo) -> datetime:
    try:
        return datetime.combine(day, time.min, zone).astimezone(UTC)
    except OverflowError:
        # Within a day of the first or the last moment that there is.
        return datetime.combine(day, time.min, UTC)


def with_weekday(day: date) -> str:
    """A day with its weekday: `2026-05-08 Friday`."""
    return f"{day.isoformat()} {_WEEKDAYS[day.weekday()]}"


def spoken_day(day: date) -> str:
    """A day in words: `Saturday, 28 November 2026`."""
    return f"{_WEEKDAYS[day.weekday()]}, {day.day} {_MONTHS[day.month - 1]} {day.year}"


def iso_day(moment: datetime, zone: tzinfo = UTC) -> str:
    """The day of a stored time: `2026-05-08`."""
    return day_of(moment, zone).isoformat()


def iso_weekday(moment: datetime, zone: tzinfo = UTC) -> str:
    """The day of a stored time with its weekday: `2026-05-08 Friday`."""
    return with_weekday(day_of(moment, zone))
