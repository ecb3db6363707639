"""Days are the user's: what "yesterday" means in texts and questions, and which day a rendering shows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.exceptions import InvalidInputError
from tests.support.fakes import SetClock
from tests.support.memorizing import Shown, memorizing, reads
from tests.support.scripted import ScriptedModel

_AUCKLAND = ZoneInfo("Pacific/Auckland")

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


# What agents are told --------------------------------------------------------------------------------


def _moves(shown: Shown) -> dict[str, object]:
    return {
        "entities": [{"name": "Mara", "type": "person"}, {"name": "Acme", "type": "organization"}],
        "relationships": [
            {"who": "Mara", "relation": "works_for", "whom": "Acme", "passages": shown.new(), "since": "2026-03-02"}
        ],
    }


def _leaves(shown: Shown) -> dict[str, object]:
    number = shown.ref("known_relationships", "works_for")
    return {"over": [{"number": number, "by": 1, "on": "2026-03-03", "why": "She left today."}]}


async def test_a_memorizer_is_told_days_of_the_memory_and_its_dates_are_read_so(config: Callable[..., Config]) -> None:
    """Today is today there. In UTC it was the day before, so that "since today" would begin in the future.

    The question's zone has no part in it, nor has the setting.
    """
    model = ScriptedModel(reads(_moves), reads(_leaves))
    async with memorizing(config, model, timezone="America/New_York") as memory:
        began, left = (datetime(2026, 3, day, 9, tzinfo=_AUCKLAND) for day in (2, 3))
        note = await memory.create_active_memory(
            "agent-1",
            "Work",
            "- The bakery was closed.\n- Mara starts at Acme today.",
            occurred_at=began - timedelta(hours=10),
            timezone="Pacific/Auckland",
        )
        # The first line stays, and was said on Sunday at 23:00; the second one is said on Monday.
        await memory.update_active_memory(
            "agent-1",
            note.id,
            content="- The bakery was closed.\n- Mara works for Acme from today on.",
            occurred_at=began,
        )
        await memory.admin.consolidate("agent-1", note.id)
        news = await memory.create_active_memory(
            "agent-1", "News", "Mara left Acme today.", occurred_at=left, timezone="Pacific/Auckland"
        )

        (report,) = await memory.admin.consolidate("agent-1", news.id)

        first, second = (Shown(asked) for asked in model.asked)
        assert '"dated": "2026-03-02 Monday"' in first.prompt
        assert [(row["day"], row["text"]) for row in first.parts["new_passages"]] == [
            ("2026-03-01", "- The bakery was closed."),
            ("2026-03-02", "- Mara works for Acme from today on."),
        ]
        assert '"dated": "2026-03-03 Tuesday"' in second.prompt
        assert {row["day"] for row in second.parts["stored_passages"]} <= {"2026-03-01", "2026-03-02"}
        [known] = second.parts["known_relationships"]
        assert (known["since"], known["last_said_on"]) == ("2026-03-02", "2026-03-02")
        assert report.relationships_ended == 1
        graph = memory.admin.graph
        [held] = (await graph.neighbourhood("agent-1", "Mara", types=["works_for"], at=began)).relationships
        assert (held.start_date, held.end_date) == (began, left)
        assert (await memory.admin.verify("agent-1")).ok


# A memory moves to another zone -----------------------------------------------------------------------

_FENCE = "I painted the fence yesterday."
# A quarter past nine in the morning of 2 March in Auckland.
_MORNING = datetime(2026, 3, 1, 20, 15, tzinfo=UTC)


async def _days_told(memory: AgentMem, tenant: str) -> list[str]:
    """Of which days the text of the first hit tells, of three that are asked about."""
    told = []
    for day in ("28 February 2026", "1 March 2026", "2 March 2026"):
        found = await memory.retrieve_memories(tenant, f"What happened on {day}?")
        if "said" in found.hits[0].score_parts:
            told.append(day)
    return told


async def test_a_zone_alone_is_a_change(memory: AgentMem, tenant: str) -> None:
    """The text and its passages stay; what "yesterday" in it means, and the day above it, are read again."""
    note = await memory.create_active_memory(tenant, "Garden", _FENCE, occurred_at=_MORNING)
    # Said on 1 March in UTC.
    assert await _days_told(memory, tenant) == ["28 February 2026"]

    moved = await memory.update_active_memory(
        tenant, note.id, timezone="Pacific/Auckland", occurred_at=_MORNING + timedelta(days=9)
    )

    # It was said on 2 March there.
    assert await _days_told(memory, tenant) == ["1 March 2026"]
    assert (moved.timezone, moved.version, moved.content) == ("Pacific/Auckland", 2, _FENCE)
    assert moved.write is not None
    assert (moved.write.chunks_added, moved.write.chunks_kept, moved.write.chunks_ended) == (0, 1, 0)
    # What does not name a zone keeps it.
    longer = await memory.update_active_memory(tenant, note.id, content=f"{_FENCE} It is red.", occurred_at=_MORNING)
    appended = await memory.update_active_memory(tenant, note.id, append="It dried quickly.")
    assert (longer.timezone, appended.timezone) == ("Pacific/Auckland", "Pacific/Auckland")
    assert [one.timezone for one in await memory.get_active_memories(tenant)] == ["Pacific/Auckland"]
    assert (await memory.admin.verify(tenant)).ok


async def test_before_it_moved_a_memory_had_its_former_zone(memory: AgentMem, tenant: str) -> None:
    """By the world's time and by what was known; restoring a version brings its zone back."""
    later = _MORNING + timedelta(days=5)
    note = await memory.create_active_memory(
        tenant, "Garden", _FENCE, occurred_at=_MORNING, timezone="Pacific/Auckland", key="garden"
    )
    moved = await memory.update_active_memory(
        tenant, note.id, content="The fence is red.", timezone="America/New_York", occurred_at=later
    )

    [then] = await memory.admin.active_memories(tenant, as_of=later - timedelta(days=1))
    [known] = await memory.admin.active_memories(tenant, as_of=later, known_at=note.updated_at)
    [now] = await memory.admin.active_memories(tenant, as_of=later)
    assert (then.timezone, known.timezone, now.timezone) == (
        "Pacific/Auckland",
        "Pacific/Auckland",
        "America/New_York",
    )

    restored = await memory.admin.restore_version(tenant, note.id, 1)

    assert (restored.version, restored.timezone, restored.content) == (3, "Pacific/Auckland", _FENCE)
    assert (await memory.get_active_memories(tenant, keys=["garden"]))[0].timezone == "Pacific/Auckland"
    assert moved.timezone == "America/New_York"
    assert (await memory.admin.verify(tenant)).ok
    await memory.admin.rebuild(tenant)
    assert (await memory.get_active_memories(tenant))[0] == restored.model_copy(update={"write": None})


async def test_a_create_that_updates_moves_the_memory_only_if_it_says_so(memory: AgentMem, tenant: str) -> None:
    """`if_exists="update"` makes a memory what the request says; a zone it does not name is not said."""
    same: dict[str, Any] = {"key": "garden", "if_exists": "update", "occurred_at": _MORNING}
    await memory.create_active_memory(tenant, "Garden", _FENCE, timezone="Pacific/Auckland", **same)

    unnamed = await memory.create_active_memory(tenant, "Garden", _FENCE, **same)
    named = await memory.create_active_memory(tenant, "Garden", _FENCE, timezone="UTC", **same)

    assert (unnamed.version, unnamed.timezone) == (1, "Pacific/Auckland")
    assert (named.version, named.timezone) == (2, "UTC")
    assert (await memory.admin.verify(tenant)).ok
