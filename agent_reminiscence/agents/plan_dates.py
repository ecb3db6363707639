"""Dates in a plan: days, months and years as a model writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from agent_reminiscence.text.days import seen_in

_MAX_YEARS_AHEAD = 100


_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2})([T ]\S+)?)?)?", re.ASCII)


def read_date(text: str, *, is_end: bool = False) -> datetime:
    """The moment that a date in a plan means, in UTC.

    `2024`, `2024-05` and `2024-05-31` are periods in UTC: a start is their beginning; an end, which is exclusive, is
    the beginning of the next period. A date with a time is a moment, in UTC if it has no zone.

    Raises:
        ValueError: It is not such a date, or not within the years 1 to 9999.

    Source: ISO 8601-1:2019, calendar dates in the extended format, also with reduced precision.
    """
    try:
        return _read_date(text, is_end=is_end)
    except (ValueError, OverflowError):
        raise ValueError("not a date within the years 1 to 9999") from None


def _read_date(text: str, *, is_end: bool) -> datetime:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError
    year, month, day, time = match.groups()
    if time is not None:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    start = datetime(int(year), int(month or 1), int(day or 1), tzinfo=UTC)
    return _next_period(start, has_month=month is not None, has_day=day is not None) if is_end else start


def _next_period(start: datetime, *, has_month: bool, has_day: bool) -> datetime:
    if has_day:
        return start + timedelta(days=1)
    if has_month and start.month < 12:
        return start.replace(month=start.month + 1)
    return start.replace(year=start.year + 1, month=1)


def is_date(text: str, *, near: datetime) -> bool:
    """Whether `text` is such a date, as a start and as an end, and no more than 100 years after `near`."""
    try:
        read_date(text)
        read_date(text, is_end=True)
    except ValueError:
        return False
    # The year as written: the end of a year falls in the next one.
    return int(text[:4]) <= near.year + _MAX_YEARS_AHEAD


def starting_date(since: str, said_at: datetime, zone: tzinfo = UTC) -> datetime:
    """When something that is said to hold began.

    A date in a plan stands for that day in UTC. In zones ahead of UTC that may begin after somebody has said so; then
    it began when that was said.

    Args:
        zone: In which the model was told the days.
    """
    start = read_date(since)
    return min(start, said_at.astimezone(UTC)) if _lies_within(said_at, since, zone) else start


def ending_date(on: str | None, said_at: datetime, zone: tzinfo = UTC) -> datetime:
    """When something that is said to be over ended: when that was said, if it lies within the period `on`.

    "It ended this year", said in May, does not mean that it lasts until December.

    Args:
        zone: In which the model was told the days.
    """
    if on is None or _lies_within(said_at, on, zone):
        return said_at.astimezone(UTC)
    return period_end(on, said_at, zone)


def period_end(until: str, said_at: datetime, zone: tzinfo = UTC) -> datetime:
    """When the period `until` ends, exclusive: no later than that was said, if the period was over by then.

    In zones ahead of UTC yesterday is over before the day in UTC that a date in a plan stands for.

    Args:
        zone: In which the model was told the days.
    """
    start, end = read_date(until), read_date(until, is_end=True)
    # A moment is the same in every zone.
    is_over = start < end <= _told(said_at, zone)
    return min(end, said_at.astimezone(UTC)) if is_over else end


def _lies_within(moment: datetime, period: str, zone: tzinfo) -> bool:
    return read_date(period) <= _told(moment, zone) < read_date(period, is_end=True)


def _told(moment: datetime, zone: tzinfo) -> datetime:
    """The local time as if it were UTC: days as the model knows them."""
    return seen_in(moment, zone).replace(tzinfo=UTC)
