"""Days and times as the models of an agent read them: in the time zone of the memory (its setting `timezone`)."""

from __future__ import annotations

from datetime import datetime, tzinfo

from agent_reminiscence.react.prompts import ReactPrompts
from agent_reminiscence.react.shortened import shown_line
from agent_reminiscence.text.days import now_in, spoken_day, with_weekday


def today_line(prompts: ReactPrompts, moment: datetime, zone: tzinfo, user_name: str) -> str:
    """`Today is Saturday, 28 November 2026; you work for Jana.`, without the name if none is known."""
    day = spoken_day(now_in(moment, zone).date())
    name = shown_line(user_name)
    said = prompts.today_for if name else prompts.today
    # Not `format`: a text of the application may have braces of its own. The name last: it may hold a placeholder.
    return said.replace("{today}", day).replace("{user}", name)


def day_line(moment: datetime) -> str:
    """The day of what follows: `2026-11-28 Saturday`. The moment is in the zone in which it is shown."""
    return with_weekday(moment.date())


def clock_time(moment: datetime) -> str:
    """The time of day: `14:05`. The moment is in the zone in which it is shown."""
    return f"{moment:%H:%M}"
