"""When a chunk was said, as layouts have it: the day in UTC, and in the flags the quarter of an hour.

Quarters are enough to tell the day in any zone: zones differ from UTC by whole ones. (Some did not before 1972; there
a day may begin up to a quarter of an hour early or late.)
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.text.days import has_time

# The flags below this bit say what kind of chunk it is.
QUARTER_SHIFT: Final = 9
_QUARTER_SECONDS: Final = 900
_DAY_SECONDS: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A day from the ends of what Python can name.
_FIRST_SECOND: Final = ((datetime.min.replace(tzinfo=UTC) - _EPOCH).days + 1) * _DAY_SECONDS
_LAST_SECOND: Final = ((datetime.max.replace(tzinfo=UTC) - _EPOCH).days - 1) * _DAY_SECONDS


def quarter_of(moment: datetime) -> int:
    """The quarter of an hour within the day in UTC, from 1 to 96; 0 if only the day is known."""
    if not has_time(moment):
        return 0
    utc = moment.astimezone(UTC)
    return 1 + utc.hour * 4 + utc.minute // 15


def days_in(entries: NDArray[np.void], zone: tzinfo) -> NDArray[np.int32]:
    """The day of each entry of a layout in a zone, in days since 1970-01-01; shape (n,)."""
    days = entries["day"].astype(np.int32)
    quarters = entries["flags"].astype(np.int64) >> QUARTER_SHIFT
    timed = np.flatnonzero(quarters)
    if zone is UTC or not len(timed):
        return days
    seconds = days[timed].astype(np.int64) * _DAY_SECONDS + (quarters[timed] - 1) * _QUARTER_SECONDS
    days[timed] = (seconds + _offsets(seconds, zone)) // _DAY_SECONDS
    return days


def _offsets(seconds: NDArray[np.int64], zone: tzinfo) -> NDArray[np.int64]:
    """How far local time is ahead of UTC, in seconds, at some moments in seconds since 1970."""
    days, of_day = np.unique(seconds // _DAY_SECONDS, return_inverse=True)
    at_begin = np.array([_offset(zone, day * _DAY_SECONDS) for day in days.tolist()])
    at_end = np.array([_offset(zone, (day + 1) * _DAY_SECONDS) for day in days.tolist()])
    offsets = at_begin[of_day]
    for index in np.flatnonzero((at_begin != at_end)[of_day]).tolist():
        offsets[index] = _offset(zone, int(seconds[index]))
    return offsets


@lru_cache(maxsize=100_000)
def _offset(zone: tzinfo, seconds: int) -> int:
    moment = _EPOCH + timedelta(seconds=min(max(seconds, _FIRST_SECOND), _LAST_SECOND))
    offset = moment.astimezone(zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())
