"""Both times: when something was true in the world, and when the memory knew it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence import ActiveMemory, AgentMem, InvalidInputError
from tests.acceptance.servers import BOTH_SERVERS
from tests.acceptance.steps import EVERYTHING, texts

JANUARY = datetime(2026, 1, 10, tzinfo=UTC)
FEBRUARY = datetime(2026, 2, 10, tzinfo=UTC)
MARCH = datetime(2026, 3, 10, tzinfo=UTC)
TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Statement:
    """What a memory was told: a text, since when it is true, and when it was recorded."""

    text: str
    occurred_at: datetime
    recorded_at: datetime


def believed(statements: list[Statement], as_of: datetime, known_at: datetime) -> set[str]:
    """What was known at `known_at` to be true at `as_of`, by the definition.

    Of what was known, the last that had begun by then: each statement holds from its own time on, over all that was
    said before it.
    """
    begun = [s for s in statements if s.recorded_at <= known_at and s.occurred_at <= as_of]
    return {begun[-1].text} if begun else set()


async def _tell(memory: AgentMem, tenant: str, said: list[tuple[str, datetime]]) -> list[Statement]:
    """One memory that is told one thing after the other."""
    note: ActiveMemory | None = None
    statements = []
    for text, occurred_at in said:
        if note is None:
            note = await memory.create_active_memory(tenant, "Where Ann lives", text, occurred_at=occurred_at)
        else:
            note = await memory.update_active_memory(tenant, note.id, content=text, occurred_at=occurred_at)
        statements.append(Statement(text, occurred_at, note.updated_at))
    return statements


async def _found(
    memory: AgentMem, tenant: str, *, as_of: datetime | None = None, known_at: datetime | None = None
) -> set[str]:
    found = await memory.retrieve_memories(
        tenant, "where does Ann live?", limit=EVERYTHING, as_of=as_of, known_at=known_at
    )
    return set(texts(found))


@BOTH_SERVERS
async def test_moved_in_january_and_learned_in_march(memory: AgentMem) -> None:
    """The classic: what was true, what was believed, and what is known today of back then."""
    oslo, lisbon = await _tell(
        memory, "agent-1", [("Ann lives in Oslo.", JANUARY - timedelta(days=900)), ("Ann lives in Lisbon.", JANUARY)]
    )
    learned = lisbon.recorded_at

    assert await _found(memory, "agent-1") == {lisbon.text}
    assert await _found(memory, "agent-1", as_of=JANUARY - TICK) == {oslo.text}
    assert await _found(memory, "agent-1", as_of=JANUARY) == {lisbon.text}
    # Before it was learned, Oslo was believed of February.
    assert await _found(memory, "agent-1", as_of=FEBRUARY, known_at=learned - TICK) == {oslo.text}
    assert await _found(memory, "agent-1", as_of=FEBRUARY, known_at=learned) == {lisbon.text}
    # Before anything was recorded, nothing was known.
    assert await _found(memory, "agent-1", as_of=FEBRUARY, known_at=oslo.recorded_at - TICK) == set()
    assert await _found(memory, "agent-1", as_of=FEBRUARY, known_at=oslo.recorded_at) == {oslo.text}
    # Before it was true, it was not, whatever is known today.
    assert await _found(memory, "agent-1", as_of=oslo.occurred_at - TICK) == set()


@BOTH_SERVERS
async def test_known_at_alone_asks_for_what_was_then_true(memory: AgentMem) -> None:
    """Without `as_of`, the moment of knowing is also the moment asked about."""
    first = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
    second = await memory.update_active_memory("agent-1", first.id, content="Ship on Monday.")

    for known_at, expected in (
        (first.updated_at - TICK, []),
        (first.updated_at, ["Ship on Friday."]),
        (second.updated_at - TICK, ["Ship on Friday."]),
        (second.updated_at, ["Ship on Monday."]),
        (datetime.now(UTC) + timedelta(days=1), ["Ship on Monday."]),
    ):
        assert texts(await memory.retrieve_memories("agent-1", "when do we ship?", known_at=known_at)) == expected


@BOTH_SERVERS
async def test_the_future_can_be_asked_about(memory: AgentMem) -> None:
    """What is said to begin later is found now, as what is known, and holds from its time on."""
    now, later = datetime.now(UTC), datetime.now(UTC) + timedelta(days=30)
    note = await memory.create_active_memory("agent-1", "Where Ann lives", "Ann lives in Oslo.", occurred_at=JANUARY)
    await memory.update_active_memory("agent-1", note.id, content="Ann lives in Lisbon.", occurred_at=later)

    assert await _found(memory, "agent-1") == {"Ann lives in Lisbon."}
    assert await _found(memory, "agent-1", as_of=now) == {"Ann lives in Oslo."}
    assert await _found(memory, "agent-1", as_of=later) == {"Ann lives in Lisbon."}
    assert await _found(memory, "agent-1", as_of=datetime.max.replace(tzinfo=UTC)) == {"Ann lives in Lisbon."}


MOMENTS = st.integers(0, 6).map(lambda months: JANUARY + timedelta(days=30 * months))


# One database serves all examples; each has a tenant of its own.
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(occurred=st.lists(MOMENTS, min_size=1, max_size=4))
async def test_each_pair_of_times_finds_what_was_then_believed(memory: AgentMem, occurred: list[datetime]) -> None:
    """Corrections in any order, asked about at every pair of moments, against the definition in plain Python."""
    tenant = str(uuid4())
    cities = ["Oslo", "Lisbon", "Turin", "Gdansk"]
    statements = await _tell(
        memory, tenant, [(f"Ann lives in {cities[number]}.", moment) for number, moment in enumerate(occurred)]
    )

    asked = {moment + shift for moment in occurred for shift in (-TICK, timedelta())}
    knowing = {statement.recorded_at + shift for statement in statements for shift in (-TICK, timedelta())}
    for as_of in asked:
        for known_at in knowing:
            expected = believed(statements, as_of, known_at)
            assert await _found(memory, tenant, as_of=as_of, known_at=known_at) == expected
        assert await _found(memory, tenant, as_of=as_of) == believed(statements, as_of, statements[-1].recorded_at)


@BOTH_SERVERS
async def test_a_hit_shows_both_times(memory: AgentMem) -> None:
    """When it was true and when it was known, so that a reader can judge."""
    before, after = await _tell(memory, "agent-1", [("Ann lives in Oslo.", JANUARY), ("Ann lives in Turin.", MARCH)])

    (past,) = (await memory.retrieve_memories("agent-1", "where does Ann live?", as_of=FEBRUARY)).hits
    (present,) = (await memory.retrieve_memories("agent-1", "where does Ann live?")).hits

    assert (past.start_date, past.end_date) == (JANUARY, MARCH)
    assert (past.recorded_at, past.superseded_at) == (before.recorded_at, after.recorded_at)
    assert (present.start_date, present.end_date) == (MARCH, None)
    assert (present.recorded_at, present.superseded_at) == (after.recorded_at, None)


@BOTH_SERVERS
async def test_consolidation_leaves_the_past_as_it_was(memory: AgentMem) -> None:
    """Moving to another tier changes neither what was true nor what was known."""
    statements = await _tell(memory, "agent-1", [("Ann lives in Oslo.", JANUARY), ("Ann lives in Turin.", MARCH)])
    await memory.admin.consolidate("agent-1")

    for as_of in (JANUARY - TICK, JANUARY, FEBRUARY, MARCH):
        for statement in statements:
            assert await _found(memory, "agent-1", as_of=as_of, known_at=statement.recorded_at) == believed(
                statements, as_of, statement.recorded_at
            )


@pytest.mark.parametrize("year", [1, 800, 1492, 1969, 2026, 9999])
async def test_memories_of_any_year_are_found(memory: AgentMem, year: int) -> None:
    """Recency is a small factor at any distance: what happened long ago is still found, beside what is new."""
    moment = datetime(year, 6, 1, tzinfo=UTC)
    await memory.create_active_memory("agent-1", "History", "The harbour was founded.", occurred_at=moment)
    await memory.create_active_memory("agent-1", "News", "The harbour was painted.")

    now = await memory.retrieve_memories("agent-1", "when was the harbour founded?")
    then = await memory.retrieve_memories("agent-1", "the harbour", as_of=moment)

    assert texts(now) == ["The harbour was founded.", "The harbour was painted."]
    assert "The harbour was founded." in texts(then)


@pytest.mark.parametrize("name", ["as_of", "known_at"])
async def test_a_time_that_is_none_is_refused(memory: AgentMem, name: str) -> None:
    """Times carry a zone; a date or a text is none."""
    for wrong, message in (
        (datetime(2026, 3, 5), "has no time zone"),  # noqa: DTZ001
        (datetime(2026, 3, 5).date(), f"{name} must be a datetime, not date"),  # noqa: DTZ001
        ("2026-03-05", f"{name} must be a datetime, not str"),
        (1_772_000_000, f"{name} must be a datetime, not int"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            await memory.retrieve_memories("agent-1", "anything", **{name: wrong})  # type: ignore[arg-type]
