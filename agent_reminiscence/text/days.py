"""Days as they are written for models and in headings: in UTC, whatever the machine's locale is."""

from __future__ import annotations

from datetime import UTC, date, datetime
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


def day_of(moment: datetime) -> date:
    """The day of a moment, in UTC."""
    return moment.astimezone(UTC).date()


def with_weekday(day: date) -> str:
    """A day with its weekday: `2026-05-08 Friday`."""
    return f"{day.isoformat()} {_WEEKDAYS[day.weekday()]}"


def spoken_day(day: date) -> str:
    """A day in words: `Saturday, 28 November 2026`."""
    return f"{_WEEKDAYS[day.weekday()]}, {day.day} {_MONTHS[day.month - 1]} {day.year}"


def iso_day(moment: datetime) -> str:
    """The day of a moment, in UTC: `2026-05-08`."""
    return day_of(moment).isoformat()


def iso_weekday(moment: datetime) -> str:
    """The day of a moment with its weekday, in UTC: `2026-05-08 Friday`."""
    return with_weekday(day_of(moment))
