"""How many questions were answered each day, how many found something, and how long they took."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from agent_reminiscence import AgentMem, Config, InvalidInputError, RecallDay
from tests.support.fakes import SetClock

_NOW = datetime(2026, 3, 5, 23, 59, 50, tzinfo=UTC)


@pytest.fixture
def clock() -> SetClock:
    """Ten seconds before midnight."""
    return SetClock(_NOW)


@pytest.fixture
async def timed(config: Callable[..., Config], clock: SetClock) -> AsyncIterator[AgentMem]:
    """A memory that reads this clock."""
    async with AgentMem(config(), clock=clock) as memory:
        yield memory


async def _ask(memory: AgentMem, *queries: str, external_id: str = "agent-1") -> None:
    for query in queries:
        await memory.retrieve_memories(external_id, query)
    await memory._ready().uses.write()


async def test_questions_are_counted_by_day_and_by_what_they_found(timed: AgentMem, clock: SetClock) -> None:
    """Each with the time that it took; the day is that of UTC, and the next one begins at midnight."""
    await timed.create_active_memory("agent-1", "Tea", "The jasmine tea is in the blue tin.")
    await _ask(timed, "Where is the jasmine tea?", "zxqv wvut")
    await _ask(timed, "Where is the jasmine tea?")
    clock.advance(timedelta(seconds=20))
    await _ask(timed, "zxqv wvut")

    first, second = await timed.admin.recalls("agent-1")

    assert (first.day, first.answered, first.found) == (date(2026, 3, 5), 3, 2)
    assert (second.day, second.answered, second.found) == (date(2026, 3, 6), 1, 0)
    assert (sum(first.durations), sum(second.durations)) == (3, 1)
    assert first.found_share == pytest.approx(2 / 3)
    assert await timed.admin.recalls("agent-1", days=1) == [second]


async def test_only_what_was_asked_of_a_tenant_counts_for_it(memory: AgentMem) -> None:
    """Another tenant's questions do not, nor those of one for which nothing was ever stored."""
    await memory.create_active_memory("agent-1", "Tea", "The jasmine tea is in the blue tin.")
    await memory.create_active_memory("agent-2", "Tea", "The jasmine tea is in the red tin.")
    await _ask(memory, "Where is the jasmine tea?")
    await _ask(memory, "Where is the jasmine tea?", external_id="agent-3")

    assert [day.answered for day in await memory.admin.recalls("agent-1")] == [1]
    assert await memory.admin.recalls("agent-2") == []
    assert await memory.admin.recalls("agent-3") == []


async def test_closing_writes_what_was_counted(config: Callable[..., Config]) -> None:
    """The next memory reads it."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Tea", "The jasmine tea is in the blue tin.")
        await memory.retrieve_memories("agent-1", "Where is the jasmine tea?")
    async with AgentMem(config()) as memory:
        assert [day.answered for day in await memory.admin.recalls("agent-1")] == [1]


async def test_what_is_old_is_deleted(timed: AgentMem, clock: SetClock) -> None:
    """By the first question after its time."""
    await timed.create_active_memory("agent-1", "Tea", "The jasmine tea is in the blue tin.")
    await _ask(timed, "Where is the jasmine tea?")
    clock.advance(timedelta(days=799))
    assert [day.day for day in await timed.admin.recalls("agent-1", days=800)] == [date(2026, 3, 5)]
    clock.advance(timedelta(days=2))
    await _ask(timed, "Where is the jasmine tea?")
    clock.advance(timedelta(days=-2))

    assert [day.day for day in await timed.admin.recalls("agent-1", days=800)] == [date(2028, 5, 14)]


async def test_erasing_a_tenant_takes_its_questions(memory: AgentMem) -> None:
    """Erasing one memory leaves them."""
    note = await memory.create_active_memory("agent-1", "Tea", "The jasmine tea is in the blue tin.")
    await _ask(memory, "Where is the jasmine tea?")
    await memory.admin.erase("agent-1", memory_id=note.id)
    assert len(await memory.admin.recalls("agent-1")) == 1

    await memory.admin.erase("agent-1")
    assert await memory.admin.recalls("agent-1") == []


async def test_questions_asked_just_before_an_erasure_do_not_come_back(memory: AgentMem) -> None:
    """They are counted in memory, and written after the tenant is gone."""
    await memory.create_active_memory("agent-1", "Tea", "The jasmine tea is in the blue tin.")
    await memory.retrieve_memories("agent-1", "Where is the jasmine tea?")
    await memory.admin.erase("agent-1")
    await memory._ready().uses.write()

    assert await memory.admin.recalls("agent-1") == []


@pytest.mark.parametrize("days", [0, 801, "7", None])
async def test_a_wrong_number_of_days_is_refused(memory: AgentMem, days: object) -> None:
    """The message names the limits."""
    with pytest.raises(InvalidInputError, match="days must be"):
        await memory.admin.recalls("agent-1", days=days)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("durations", "share", "seconds"),
    [
        ((0,) * 12, 0.5, None),
        ((0, 0, 4) + (0,) * 9, 0.5, 0.0175),
        ((0, 0, 4) + (0,) * 9, 1, 0.025),
        ((90, 0, 0, 10) + (0,) * 8, 0.5, 0.005 * 50 / 90),
        ((90, 0, 0, 10) + (0,) * 8, 0.95, 0.0375),
        ((0,) * 11 + (7,), 0.5, 10),
        ((1,) + (0,) * 11, 0, 0),
    ],
)
def test_a_quantile_lies_between_its_bounds(durations: tuple[int, ...], share: float, seconds: float | None) -> None:
    """As exactly as the bounds allow; what took longer than the last is at least that."""
    day = RecallDay(day=date(2026, 3, 5), answered=sum(durations), found=0, durations=durations)
    assert day.quantile(share) == (None if seconds is None else pytest.approx(seconds))
