"""Days are the user's: what "yesterday" means in texts and questions, and which day a rendering shows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.exceptions import ConfigurationError, InvalidInputError
from tests.support.fakes import SetClock

# Zones far ahead of UTC and far behind it, with half an hour, and with summer time in either half of the year.
_ZONES = (
    "Pacific/Auckland",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "America/Los_Angeles",
    "Pacific/Kiritimati",
)
# Local time of asking, and a question about a day: around midnight, at a month's and a year's end, on and after the
# days on which the clocks of Auckland, New York, Los Angeles and Berlin change.
_ASKED = (
    ("2026-03-02 09:00", "What did I note yesterday?"),
    ("2026-03-02 00:05", "What did I note yesterday?"),
    ("2026-03-01 23:55", "What did I note today?"),
    ("2026-03-01 00:30", "Which of my notes are from yesterday?"),
    ("2027-01-01 08:00", "What did I note on 31 December 2026?"),
    ("2026-03-09 07:00", "What did I note on Sunday?"),
    ("2026-03-30 07:00", "What did I note yesterday?"),
    ("2026-04-06 06:00", "What did I note on Sunday?"),
    ("2026-10-26 06:00", "What did I note yesterday?"),
    ("2026-11-02 22:00", "What did I note on Sunday?"),
)
# Days before the question, local time, and words.
_NOTES = (
    (2, "00:02", "The tiles are red."),
    (2, "23:57", "The kettle hums."),
    (1, "00:02", "The gate is green."),
    (1, "12:30", "Mara painted the fence yesterday."),
    (1, "23:57", "The plums are ripe."),
    (0, "00:02", "The shed is blue."),
)


async def _ask(memory: AgentMem, clock: SetClock, user: str, zone: tzinfo, number: int) -> tuple[list[Any], str]:
    """Store the notes at their local times, and ask: the hits with their scores, and the rendering."""
    asked, question = _ASKED[number]
    now = datetime.fromisoformat(asked).replace(tzinfo=zone)
    clock.now = now
    for days, time, text in _NOTES:
        day = (now - timedelta(days=days)).date()
        said = datetime.fromisoformat(f"{day} {time}").replace(tzinfo=zone)
        if said <= now:
            await memory.create_active_memory(user, "Note", text, occurred_at=said, timezone=str(zone))
    found = await memory.retrieve_memories(user, question, timezone=str(zone))
    # Importance fades by the hour, and a day on which the clocks change has one more or less.
    hits = [(hit.content, pytest.approx(hit.score, abs=1e-3), pytest.approx(hit.match)) for hit in found.hits]
    return hits, found.as_prompt()


@pytest.mark.parametrize("zone", _ZONES)
async def test_a_day_is_what_it_would_be_in_utc(config: Callable[..., Config], zone: str) -> None:
    """Whoever lives by the clock of a zone gets the answers, scores and renderings of one who lives by UTC.

    Source: what the clocks on the walls show decides; the table has the days on which these are changed.
    """
    clock = SetClock(datetime(2026, 1, 1, tzinfo=UTC))
    async with AgentMem(config(worker=False), clock=clock) as memory:
        for number in range(len(_ASKED)):
            there = await _ask(memory, clock, f"there-{number}", ZoneInfo(zone), number)
            here = await _ask(memory, clock, f"here-{number}", UTC, number)

            assert there == here, _ASKED[number]


async def test_this_morning_in_auckland_was_not_yesterday(config: Callable[..., Config]) -> None:
    """It was in UTC. The question's zone decides also about what was stored without one."""
    now = datetime(2026, 3, 2, 9, tzinfo=ZoneInfo("Pacific/Auckland"))
    async with AgentMem(config(worker=False), clock=SetClock(now)) as memory:
        for hours, text in ((1, "The shed is blue."), (22, "The gate is green.")):
            await memory.create_active_memory("ana", "Note", text, occurred_at=now - timedelta(hours=hours))

        found = await memory.retrieve_memories("ana", "What did I note yesterday?", timezone="Pacific/Auckland")

    prompt = found.as_prompt()
    assert prompt.index("2026-03-01 Sunday") < prompt.index("The gate is green.")
    assert prompt.index("2026-03-02 Monday") < prompt.index("The shed is blue.")


@pytest.mark.parametrize("name", ["Mars/Olympus", "utc+1", "../etc/passwd", "", "localtime", 7])
async def test_what_is_no_zone_is_refused(memory: AgentMem, name: Any) -> None:
    """Before anything is written."""
    with pytest.raises(InvalidInputError, match="use an IANA name such as Europe/Lisbon"):
        await memory.create_active_memory("ana", "Note", "The gate is green.", timezone=name)
    with pytest.raises(InvalidInputError, match="use an IANA name such as Europe/Lisbon"):
        await memory.retrieve_memories("ana", "gate", timezone=name)
    assert await memory.ledger.head("ana") == 0


def test_a_setting_that_is_no_zone_is_refused() -> None:
    """With the way out."""
    with pytest.raises(ConfigurationError, match="use an IANA name such as Europe/Lisbon"):
        Config(timezone="Mars/Olympus")
