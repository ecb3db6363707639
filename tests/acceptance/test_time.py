"""Both times: when something was true in the world, and when the memory knew it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence import ActiveMemory, AgentMem, InvalidInputError
from tests.conftest import TestServer
from tests.support.factories import superuser
from tests.support.servers import SECOND_SERVER_THOROUGHLY
from tests.support.steps import EVERYTHING, texts

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


async def test_versions_written_while_the_clock_is_behind_are_told_apart(
    memory: AgentMem, test_server: TestServer, database: str
) -> None:
    """After the server's clock was set back, each write still has a time of its own, and `known_at` its state."""
    note = await memory.create_active_memory("clock", "Where Ann lives", "Ann lives in Ulm.")
    async with superuser(test_server, database) as db:
        await db.execute_script("UPDATE memory_stream SET last_recorded_at = now() + interval '1 day'")

    versions = [
        await memory.update_active_memory("clock", note.id, content=f"Ann lives in {town}.")
        for town in ("Bonn", "Kiel", "Jena")
    ]

    known = [await _found(memory, "clock", known_at=version.updated_at) for version in versions]
    assert known == [{"Ann lives in Bonn."}, {"Ann lives in Kiel."}, {"Ann lives in Jena."}]
    assert (await memory.admin.verify("clock")).ok


@SECOND_SERVER_THOROUGHLY
async def test_moved_in_january_and_learned_in_march(memory: AgentMem, tenant: str) -> None:
    """The classic: what was true, what was believed, and what is known today of back then."""
    oslo, lisbon = await _tell(
        memory, tenant, [("Ann lives in Oslo.", JANUARY - timedelta(days=900)), ("Ann lives in Lisbon.", JANUARY)]
    )
    learned = lisbon.recorded_at

    assert await _found(memory, tenant) == {lisbon.text}
    assert await _found(memory, tenant, as_of=JANUARY - TICK) == {oslo.text}
    assert await _found(memory, tenant, as_of=JANUARY) == {lisbon.text}
    # Before it was learned, Oslo was believed of February.
    assert await _found(memory, tenant, as_of=FEBRUARY, known_at=learned - TICK) == {oslo.text}
    assert await _found(memory, tenant, as_of=FEBRUARY, known_at=learned) == {lisbon.text}
    # Before anything was recorded, nothing was known.
    assert await _found(memory, tenant, as_of=FEBRUARY, known_at=oslo.recorded_at - TICK) == set()
    assert await _found(memory, tenant, as_of=FEBRUARY, known_at=oslo.recorded_at) == {oslo.text}
    # Before it was true, it was not, whatever is known today.
    assert await _found(memory, tenant, as_of=oslo.occurred_at - TICK) == set()


# In January Ann moves from Oslo to Lisbon, which is said in March; in May it turns out that it was in December already.
# When it is asked about, and at each of four states of knowledge what was then true as far as was known.
_OSLO, _LISBON = "Ann lives in Oslo.", "Ann lives in Lisbon."
_ANSWERS: dict[datetime, tuple[str | None, str | None, str | None, str | None]] = {
    #                               before all   February   March      May
    datetime(2024, 1, 1, tzinfo=UTC): (None, None, None, None),
    datetime(2025, 6, 1, tzinfo=UTC): (None, _OSLO, _OSLO, _OSLO),
    datetime(2025, 12, 14, tzinfo=UTC): (None, _OSLO, _OSLO, _OSLO),
    datetime(2025, 12, 15, tzinfo=UTC): (None, _OSLO, _OSLO, _LISBON),
    datetime(2026, 1, 9, tzinfo=UTC): (None, _OSLO, _OSLO, _LISBON),
    JANUARY: (None, _OSLO, _LISBON, _LISBON),
    FEBRUARY: (None, _OSLO, _LISBON, _LISBON),
    MARCH: (None, _OSLO, _LISBON, _LISBON),
}


@SECOND_SERVER_THOROUGHLY
async def test_a_correction_of_a_correction_is_answered_at_each_pair_of_times(memory: AgentMem, tenant: str) -> None:
    """Searches, the list of memories and the history all give the answer of the table, now and for what was known."""
    first, second, third = await _tell(
        memory,
        tenant,
        [
            (_OSLO, datetime(2025, 1, 1, tzinfo=UTC)),
            (_LISBON, JANUARY),
            # The same words from an earlier time on: they began then, and Oslo ended then.
            (_LISBON, datetime(2025, 12, 15, tzinfo=UTC)),
        ],
    )
    (note,) = await memory.get_active_memories(tenant)
    history = await memory.admin.history(tenant, note.id)
    known = (first.recorded_at - TICK, first.recorded_at, second.recorded_at, third.recorded_at)

    for as_of, answers in _ANSWERS.items():
        for known_at, answer in [*zip(known, answers, strict=True), (None, answers[-1])]:
            expected = [] if answer is None else [answer]
            assert await _found(memory, tenant, as_of=as_of, known_at=known_at) == set(expected)
            listed = await memory.admin.active_memories(tenant, as_of=as_of, known_at=known_at)
            assert [found.content for found in listed] == expected
            version = history.at(as_of=as_of, known_at=known_at)
            assert (version.content if version is not None else None) == answer


@SECOND_SERVER_THOROUGHLY
async def test_a_hit_bears_the_title_that_its_memory_had_then(memory: AgentMem, tenant: str) -> None:
    """Whoever reads what was believed then sees it as it was filed then; a later title is today's."""
    note = await memory.create_active_memory(tenant, "Ann's flat", "Ann lives in Oslo.", occurred_at=JANUARY)
    told = await memory.update_active_memory(tenant, note.id, title="Ann's house", occurred_at=MARCH)

    for as_of, known_at, title in (
        (FEBRUARY, None, "Ann's flat"),
        (MARCH, None, "Ann's house"),
        (MARCH, told.updated_at - TICK, "Ann's flat"),
        (None, None, "Ann's house"),
    ):
        found = await memory.retrieve_memories(tenant, "where does Ann live?", as_of=as_of, known_at=known_at)
        assert [hit.title for hit in found.hits] == [title]
        (listed,) = await memory.admin.active_memories(tenant, as_of=as_of, known_at=known_at)
        assert listed.title == title


async def _repeated(memory: AgentMem, tenant: str) -> tuple[ActiveMemory, ActiveMemory]:
    """Two memories that say the same, so that the second one's chunk ends as a duplicate of the first one's."""
    text = "The spare key of the blue cabin hangs behind the old clock."
    first = await memory.create_active_memory(tenant, "Cabin", text, occurred_at=JANUARY)
    second = await memory.create_active_memory(tenant, "Keys", text, occurred_at=JANUARY)
    reports = await memory.admin.consolidate(tenant)
    assert [report.duplicates for report in reports] == [0, 1]
    return first, second


async def test_a_repetition_holds_until_it_left_its_text_whenever_the_original_ended(
    memory: AgentMem, tenant: str
) -> None:
    """Two memories said it. One dropped it in time; that the other had ended earlier is learned after that."""
    first, second = await _repeated(memory, tenant)
    later = datetime.now(UTC) + timedelta(days=60)
    await memory.update_active_memory(tenant, second.id, content="The key is lost.", occurred_at=later)
    await memory.update_active_memory(tenant, first.id, content="The cabin is sold.", occurred_at=FEBRUARY)

    before = await memory.retrieve_memories(tenant, "the spare key of the cabin", as_of=later - TICK)
    after = await memory.retrieve_memories(tenant, "the spare key of the cabin", as_of=later)
    assert set(texts(before)) == {
        "The spare key of the blue cabin hangs behind the old clock.",
        "The cabin is sold.",
    }
    assert set(texts(after)) == {"The key is lost.", "The cabin is sold."}


async def test_what_an_archived_memory_said_does_not_come_back_with_the_end_of_what_it_repeated(
    memory: AgentMem,
    tenant: str,
) -> None:
    """Archived first and ended afterwards, it has ended, though at that time another memory stood for its words."""
    first, second = await _repeated(memory, tenant)
    await memory.admin.archive(tenant, second.id)
    await memory.admin.archive(tenant, second.id, end_chunks=True)
    await memory.update_active_memory(tenant, first.id, content="The cabin is sold.")

    assert texts(await memory.retrieve_memories(tenant, "the spare key of the cabin")) == ["The cabin is sold."]


@SECOND_SERVER_THOROUGHLY
async def test_known_at_alone_asks_for_what_was_then_true(memory: AgentMem, tenant: str) -> None:
    """Without `as_of`, the moment of knowing is also the moment asked about."""
    first = await memory.create_active_memory(tenant, "Plan", "Ship on Friday.")
    second = await memory.update_active_memory(tenant, first.id, content="Ship on Monday.")

    for known_at, expected in (
        (first.updated_at - TICK, []),
        (first.updated_at, ["Ship on Friday."]),
        (second.updated_at - TICK, ["Ship on Friday."]),
        (second.updated_at, ["Ship on Monday."]),
        (datetime.now(UTC) + timedelta(days=1), ["Ship on Monday."]),
    ):
        assert texts(await memory.retrieve_memories(tenant, "when do we ship?", known_at=known_at)) == expected


@SECOND_SERVER_THOROUGHLY
async def test_the_future_can_be_asked_about(memory: AgentMem, tenant: str) -> None:
    """What is said to begin later is found now, as what is known, and holds from its time on."""
    now, later = datetime.now(UTC), datetime.now(UTC) + timedelta(days=30)
    note = await memory.create_active_memory(tenant, "Where Ann lives", "Ann lives in Oslo.", occurred_at=JANUARY)
    await memory.update_active_memory(tenant, note.id, content="Ann lives in Lisbon.", occurred_at=later)

    assert await _found(memory, tenant) == {"Ann lives in Lisbon."}
    assert await _found(memory, tenant, as_of=now) == {"Ann lives in Oslo."}
    assert await _found(memory, tenant, as_of=later) == {"Ann lives in Lisbon."}
    assert await _found(memory, tenant, as_of=datetime.max.replace(tzinfo=UTC)) == {"Ann lives in Lisbon."}


MOMENTS = st.integers(0, 6).map(lambda months: JANUARY + timedelta(days=30 * months))


# One database serves all examples; each has a tenant of its own.
@pytest.mark.thorough
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
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


@SECOND_SERVER_THOROUGHLY
async def test_a_hit_shows_both_times(memory: AgentMem, tenant: str) -> None:
    """When it was true and when it was known, so that a reader can judge."""
    before, after = await _tell(memory, tenant, [("Ann lives in Oslo.", JANUARY), ("Ann lives in Turin.", MARCH)])

    (past,) = (await memory.retrieve_memories(tenant, "where does Ann live?", as_of=FEBRUARY)).hits
    (present,) = (await memory.retrieve_memories(tenant, "where does Ann live?")).hits

    assert (past.start_date, past.end_date) == (JANUARY, MARCH)
    assert (past.recorded_at, past.superseded_at) == (before.recorded_at, after.recorded_at)
    assert (present.start_date, present.end_date) == (MARCH, None)
    assert (present.recorded_at, present.superseded_at) == (after.recorded_at, None)


async def test_a_hit_shows_the_end_that_was_known(memory: AgentMem, tenant: str) -> None:
    """No end before one was learned, the first one until it was corrected, and then the corrected one."""
    first, second, third = await _tell(
        memory,
        tenant,
        [("Ann lives in Oslo.", JANUARY), ("Ann lives in Turin.", MARCH), ("Ann is abroad.", FEBRUARY)],
    )

    for known_at, end_date in (
        (second.recorded_at - TICK, None),
        (second.recorded_at, MARCH),
        (third.recorded_at - TICK, MARCH),
        (third.recorded_at, FEBRUARY),
        (None, FEBRUARY),
    ):
        found = await memory.retrieve_memories(tenant, "where does Ann live?", as_of=JANUARY, known_at=known_at)
        assert [(hit.content, hit.end_date) for hit in found.hits] == [(first.text, end_date)]


@SECOND_SERVER_THOROUGHLY
async def test_consolidation_leaves_the_past_as_it_was(memory: AgentMem, tenant: str) -> None:
    """Moving to another tier changes neither what was true nor what was known."""
    statements = await _tell(memory, tenant, [("Ann lives in Oslo.", JANUARY), ("Ann lives in Turin.", MARCH)])
    await memory.admin.consolidate(tenant)

    for as_of in (JANUARY - TICK, JANUARY, FEBRUARY, MARCH):
        for statement in statements:
            assert await _found(memory, tenant, as_of=as_of, known_at=statement.recorded_at) == believed(
                statements, as_of, statement.recorded_at
            )


@pytest.mark.parametrize("year", [1, 800, 1492, 1969, 2026, 9999])
async def test_memories_of_any_year_are_found(memory: AgentMem, tenant: str, year: int) -> None:
    """Recency is a small factor at any distance: what happened long ago is still found, beside what is new."""
    moment = datetime(year, 6, 1, tzinfo=UTC)
    await memory.create_active_memory(tenant, "History", "The harbour was founded.", occurred_at=moment)
    await memory.create_active_memory(tenant, "News", "The harbour was painted.")

    now = await memory.retrieve_memories(tenant, "when was the harbour founded?")
    then = await memory.retrieve_memories(tenant, "the harbour", as_of=moment)

    assert texts(now) == ["The harbour was founded.", "The harbour was painted."]
    assert "The harbour was founded." in texts(then)


@pytest.mark.parametrize("name", ["as_of", "known_at"])
async def test_a_time_that_is_none_is_refused(memory: AgentMem, tenant: str, name: str) -> None:
    """Times carry a zone; a date or a text is none."""
    for wrong, message in (
        (datetime(2026, 3, 5), "has no time zone"),  # noqa: DTZ001
        (datetime(2026, 3, 5).date(), f"{name} must be a datetime, not date"),  # noqa: DTZ001
        ("2026-03-05", f"{name} must be a datetime, not str"),
        (1_772_000_000, f"{name} must be a datetime, not int"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            await memory.retrieve_memories(tenant, "anything", **{name: wrong})  # type: ignore[arg-type]
