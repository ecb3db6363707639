"""Days and times as the models of an agent read them, all by one clock and in one time zone."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final

from agent_reminiscence.react.prompts import ReactPrompts
from agent_reminiscence.react.shortened import shown_line
from agent_reminiscence.text.days import spoken_day, with_weekday

# The one place that knows the zone; a setting for it would be read here.
_ZONE: Final[tzinfo] = UTC


def today_line(prompts: ReactPrompts, moment: datetime, user_name: str) -> str:
    """`Today is Saturday, 28 November 2026; you work for Jana.`, without the name if none is known."""
    day = spoken_day(_local(moment).date())
    name = shown_line(user_name)
    said = prompts.today_for if name else prompts.today
    # Not `format`: a text of the application may have braces of its own. The name last: it may hold a placeholder.
    return said.replace("{today}", day).replace("{user}", name)


def day_line(moment: datetime) -> str:
    """The day of what follows: `2026-11-28 Saturday`."""
    return with_weekday(_local(moment).date())


def clock_time(moment: datetime) -> str:
    """The time of day: `14:05`."""
    return f"{_local(moment):%H:%M}"


def _local(moment: datetime) -> datetime:
    return moment.astimezone(_ZONE)
