"""What becomes of chunks by use and by age: promotion by recall, times to live, pruning, and refused writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import ActiveMemory, AgentMem, Config, LifecycleReport, QuotaExceededError, StoreError
from agent_reminiscence.database.connection import SqlExecutor, open_connection
from tests.acceptance.conftest import Server
from tests.support.fakes import SetClock
from tests.support.servers import SECOND_SERVER_THOROUGHLY
from tests.support.steps import EVERYTHING, in_turn, lines, texts

# A user's own words with three details and more: 0.55.
FACT = "Please note that Ann Miller owes Bob Stone 300 dollars since 5 May."
# A user's own words without any: 0.30.
REMARK = "somebody has watered the plants again and closed the windows"
DAY = timedelta(days=1)


@pytest.fixture
def clock() -> SetClock:
    """A clock that stands at the test's beginning; recording times are the server's, which goes on."""
    return SetClock(datetime.now(UTC) + timedelta(seconds=5))


@pytest.fixture
async def superuser(server: Server, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection that no policy holds."""
    db = await open_connection(server.superuser(database))
    await db.execute_script("SET search_path = reminiscence, public")
    yield db
    db.close()


async def _recall(memory: AgentMem, query: str, *, times: int = 1, external_id: str = "agent-1") -> None:
    """Ask so often, and have it counted."""
    for _ in range(times):
        await memory.retrieve_memories(external_id, query)
    await memory._ready().uses.write()


async def _uses(db: SqlExecutor, external_id: str = "agent-1") -> list[int]:
    """The counts of all chunks that were ever used."""
    rows = await db.fetch_all(
        "SELECT uses FROM chunk_use WHERE external_id = $(external_id)p ORDER BY chunk_id", {"external_id": external_id}
    )
    return [row["uses"] for row in rows]


async def _live(memory: AgentMem, external_id: str = "agent-1", **moment: Any) -> list[str]:
    """All that a search finds, in alphabetical order: each passage stands below the year in which it came in."""
    found = await memory.retrieve_memories(external_id, "2025 2026 2027", limit=EVERYTHING, **moment)
    return sorted(texts(found))


async def _check(memory: AgentMem, external_id: str = "agent-1") -> None:
    """The ledger gives every row again."""
    (report,) = (await memory.admin.verify(external_id)).streams
    assert (report.faults, report.drift) == ((), ())


async def _kinds(memory: AgentMem, external_id: str = "agent-1") -> list[str]:
    return [event.kind.removeprefix("memory.") for event in await memory.ledger.read(external_id, limit=1_000)]


def _nothing(external_id: str = "agent-1") -> LifecycleReport:
    return LifecycleReport(external_id=external_id, promoted=0, expired=0, pruned=0)


# --- Use -------------------------------------------------------------------------------------------------------------


@SECOND_SERVER_THOROUGHLY
async def test_what_is_recalled_three_times_becomes_longterm(memory: AgentMem, superuser: SqlExecutor) -> None:
    """A user's own specific sentence proves important by being needed; the event says how, and counting begins anew."""
    note = await memory.create_active_memory("agent-1", "Accounts", FACT)
    await memory.admin.consolidate("agent-1")
    await _recall(memory, "who owes whom?", times=2)
    assert await memory.admin.review("agent-1") == _nothing()

    await _recall(memory, "who owes whom?")
    report = await memory.admin.review("agent-1")

    assert (report.promoted, report.expired, report.pruned) == (1, 0, 0)
    (hit,) = (await memory.retrieve_memories("agent-1", "who owes whom?")).hits
    assert hit.tier == "longterm"
    assert hit.importance == pytest.approx(0.7245, abs=1e-3)
    (event,) = await memory.ledger.read("agent-1", kinds=["memory.promoted"])
    assert (event.source, event.payload["chunks"][0]["uses"]) == ("user", 3)
    assert await _uses(superuser) == [0]
    assert (await memory.admin.history("agent-1", note.id)).versions[0].derived[-1].kind == "memory.promoted"
    await _check(memory)


async def test_what_is_not_recalled_is_not_promoted_however_old_it_becomes(
    config: Callable[..., Config], clock: SetClock
) -> None:
    """Age makes nothing important, and neither does one recall of long ago."""
    async with AgentMem(config(), clock=clock) as memory:
        await memory.create_active_memory("agent-1", "Accounts", FACT)
        await memory.admin.consolidate("agent-1")
        await _recall(memory, "who owes whom?")
        for _ in range(10):
            clock.advance(100 * DAY)
            assert await memory.admin.review("agent-1") == _nothing()


async def test_only_searches_of_now_count(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Looking into the past, and being looked for in vain, is no use."""
    await memory.create_active_memory("agent-1", "Accounts", FACT)
    now = datetime.now(UTC) + DAY

    await memory.retrieve_memories("agent-1", "who owes whom?", as_of=now)
    await memory.retrieve_memories("agent-1", "who owes whom?", known_at=now)
    await memory.retrieve_memories("agent-1", "who owes whom?", tiers=["longterm"])
    await memory.retrieve_memories("agent-2", "who owes whom?")
    await memory._ready().uses.write()

    assert await _uses(superuser) == []


async def test_uses_are_written_in_the_background_and_ask_for_a_review(
    memory: AgentMem, superuser: SqlExecutor
) -> None:
    """Recall only counts; a moment later the counts are stored, and within an hour the stream is looked at."""
    recorder = memory._ready().uses
    recorder._write_seconds = 0.05
    await memory.create_active_memory("agent-1", "Accounts", FACT)

    for _ in range(4):
        await memory.retrieve_memories("agent-1", "who owes whom?")
    async with asyncio.timeout(60):
        while await _uses(superuser) != [4]:  # noqa: ASYNC110 - the server has no event to wait for
            await asyncio.sleep(0.05)

    row = await superuser.fetch_one(
        "SELECT review_at > now() + interval '50 minutes' AND review_at <= now() + interval '1 hour' AS is_soon"
        " FROM memory_stream"
    )
    assert row == {"is_soon": True}


async def test_closing_writes_what_was_counted(config: Callable[..., Config], superuser: SqlExecutor) -> None:
    """A short program's recalls count too."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Accounts", FACT)
        await memory.retrieve_memories("agent-1", "who owes whom?")

    assert await _uses(superuser) == [1]


async def test_uses_that_cannot_be_written_harm_nobody(
    memory: AgentMem, superuser: SqlExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    """The table may even be away: recall answers, a warning is logged, and they are counted with the next."""
    await memory.create_active_memory("agent-1", "Accounts", FACT)
    await superuser.execute_script("ALTER TABLE chunk_use RENAME TO elsewhere")
    try:
        await _recall(memory, "who owes whom?", times=2)
    finally:
        await superuser.execute_script("ALTER TABLE elsewhere RENAME TO chunk_use")

    assert [record.getMessage()[:31] for record in caplog.records] == ["uses of 1 chunks were not count"]
    assert FACT not in caplog.text
    await _recall(memory, "who owes whom?")
    assert await _uses(superuser) == [3]


async def test_uses_that_a_crash_loses_harm_nothing(config: Callable[..., Config], superuser: SqlExecutor) -> None:
    """They are no part of what the ledger gives: without them everything is as it was, and is counted from there."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Accounts", FACT)
        await memory.admin.consolidate("agent-1")
        await _recall(memory, "who owes whom?", times=3)
        await superuser.execute_script("DELETE FROM chunk_use")

        assert await memory.admin.review("agent-1") == _nothing()
        await _check(memory)
        await _recall(memory, "who owes whom?", times=3)
        assert (await memory.admin.review("agent-1")).promoted == 1


async def test_too_many_uses_at_once_are_left_out(memory: AgentMem, superuser: SqlExecutor) -> None:
    """What is counted in memory is bounded; what was known before goes on being counted."""
    await memory.create_active_memory("agent-1", "Notes", lines(f"Note {n} of the day." for n in range(5)))
    recorder = memory._ready().uses
    recorder._max_pending_chunks = 2

    await _recall(memory, "note of the day", times=3)

    assert await _uses(superuser) == [3, 3]


async def test_a_promotion_counts_anew_and_nothing_else_does(memory: AgentMem, superuser: SqlExecutor) -> None:
    """Uses led to it once; those of other chunks go on counting, whatever is consolidated, said again or rebuilt."""
    note = await memory.create_active_memory("agent-1", "Accounts", lines([FACT, REMARK]))
    await _recall(memory, "who owes whom, and who watered the plants?", times=3)
    assert await _uses(superuser) == [3, 3]

    (report,) = await memory.admin.consolidate("agent-1", note.id)

    assert report.promoted == 1
    assert sorted(await _uses(superuser)) == [0, 3]
    again = await memory.create_active_memory("agent-1", "Plants", REMARK)
    (report,) = await memory.admin.consolidate("agent-1", again.id)
    assert report.duplicates == 1
    assert sorted(await _uses(superuser)) == [0, 3]
    assert (await memory.admin.rebuild("agent-1")).ok
    assert sorted(await _uses(superuser)) == [0, 3]


async def test_what_use_has_earned_survives_the_next_consolidation(memory: AgentMem) -> None:
    """A promoted chunk keeps the importance that it was promoted with, and replays keep it too."""
    note = await memory.create_active_memory("agent-1", "Accounts", FACT)
    await memory.admin.consolidate("agent-1")
    await _recall(memory, "who owes whom?", times=3)
    await memory.admin.review("agent-1")
    (earned,) = (await memory.retrieve_memories("agent-1", "who owes whom?")).hits
    assert earned.tier == "longterm"

    await memory.update_active_memory("agent-1", note.id, title="Debts")
    await memory.admin.consolidate("agent-1")

    (hit,) = (await memory.retrieve_memories("agent-1", "who owes whom?")).hits
    assert (hit.chunk_id, hit.tier, hit.importance) == (earned.chunk_id, "longterm", earned.importance)
    await _check(memory)


# --- Times to live ---------------------------------------------------------------------------------------------------


@SECOND_SERVER_THOROUGHLY
@pytest.mark.parametrize("tier", ["active", "shortterm", "longterm"])
async def test_what_nothing_touches_ends_after_its_tiers_time(
    config: Callable[..., Config], clock: SetClock, tier: str
) -> None:
    """It leaves the searches of now, stays in the text and in those of before, and the ledger says why."""
    settings = {f"{tier}_ttl_days": 30.0, "shortterm_promotion_threshold": 0.5 if tier == "longterm" else 1.0}
    async with AgentMem(config(**settings), clock=clock) as memory:
        note = await memory.create_active_memory("agent-1", "Accounts", FACT)
        if tier != "active":
            await memory.admin.consolidate("agent-1")
        assert (await memory.retrieve_memories("agent-1", "who owes whom?")).hits[0].tier == tier
        memory._ready().uses._pending.clear()
        clock.advance(29 * DAY)
        assert await memory.admin.review("agent-1") == _nothing()

        clock.advance(2 * DAY)
        report = await memory.admin.review("agent-1")

        assert (report.promoted, report.expired, report.pruned) == (0, 1, 0)
        assert await _live(memory) == []
        assert await _live(memory, as_of=clock.now - DAY) == [FACT]
        assert await _live(memory, as_of=clock.now + DAY) == []
        assert [one.content for one in await memory.get_active_memories("agent-1")] == [FACT]
        (event,) = await memory.ledger.read("agent-1", kinds=["memory.ended"])
        assert {name: event.payload[name] for name in ("memory_id", "reason", "tier", "ttl_days", "limit")} == {
            "memory_id": str(note.id),
            "reason": "expired",
            "tier": tier,
            "ttl_days": 30.0,
            "limit": None,
        }
        history = await memory.admin.history("agent-1", note.id)
        assert (history.versions[0].derived[-1].kind, history.versions[0].derived[-1].reason) == (
            "memory.ended",
            "expired",
        )
        assert await memory.admin.review("agent-1") == _nothing()
        await _check(memory)


async def test_other_tiers_have_no_time_to_live(config: Callable[..., Config], clock: SetClock) -> None:
    """Each tier has its own, and none by default."""
    async with AgentMem(config(active_ttl_days=1.0), clock=clock) as memory:
        await memory.create_active_memory("agent-1", "Accounts", FACT)
        await memory.admin.consolidate("agent-1")
        clock.advance(10_000 * DAY)

        assert await memory.admin.review("agent-1") == _nothing()
        assert await memory._ready().admin._services.review.next_review_at("agent-1") is None


async def test_a_touch_prolongs_a_life(config: Callable[..., Config], clock: SetClock, superuser: SqlExecutor) -> None:
    """Being recalled, or being said again elsewhere; asked about in the past, it is not touched."""
    async with AgentMem(config(shortterm_ttl_days=30.0), clock=clock) as memory:
        for title, text in (("Accounts", FACT), ("Plants", REMARK), ("Ferry", "the ferry leaves early on most days")):
            await memory.create_active_memory("agent-1", title, text)
            await memory.admin.consolidate("agent-1")
        clock.advance(25 * DAY)
        found = await memory.retrieve_memories("agent-1", "who owes whom?", limit=1)
        assert texts(found) == [FACT]
        await memory._ready().uses.write()
        # As if the server's clock had gone on, too.
        again = await memory.create_active_memory("agent-1", "Plants again", REMARK)
        await memory.admin.consolidate("agent-1", again.id)
        await superuser.execute(
            "UPDATE memory_chunk SET recorded_at = $(now)p WHERE duplicate_of IS NOT NULL", {"now": clock.now}
        )
        clock.advance(6 * DAY)
        await memory.retrieve_memories("agent-1", "when does the ferry leave?", as_of=clock.now - DAY)

        assert (await memory.admin.review("agent-1")).expired == 1
        assert await _live(memory) == sorted([FACT, REMARK])


async def test_an_update_touches_the_whole_memory_while_it_is_active(
    config: Callable[..., Config], clock: SetClock, superuser: SqlExecutor
) -> None:
    """Whoever works on a text has looked at all of it."""
    async with AgentMem(config(active_ttl_days=30.0), clock=clock) as memory:
        note = await memory.create_active_memory("agent-1", "Accounts", lines([FACT, REMARK]))
        other = await memory.create_active_memory("agent-1", "Other", "the ferry leaves early on most days")
        clock.advance(20 * DAY)
        await memory.update_active_memory("agent-1", note.id, title="All accounts")
        await superuser.execute(
            "UPDATE active_memory SET updated_at = $(now)p WHERE memory_id = $(note)p",
            {"now": clock.now, "note": note.id},
        )
        clock.advance(11 * DAY)

        assert (await memory.admin.review("agent-1")).expired == 1
        assert await _live(memory) == sorted([FACT, REMARK])
        (event,) = await memory.ledger.read("agent-1", kinds=["memory.ended"])
        assert event.payload["memory_id"] == str(other.id)


async def test_the_next_review_is_when_the_next_chunk_expires(config: Callable[..., Config], clock: SetClock) -> None:
    """Not earlier, and never in the past once a review was made."""
    async with AgentMem(config(active_ttl_days=10.0, shortterm_ttl_days=30.0), clock=clock) as memory:
        lifecycle = memory._ready().admin._services.review
        assert await lifecycle.next_review_at("agent-1") is None
        first = await memory.create_active_memory("agent-1", "Accounts", FACT)
        await memory.admin.consolidate("agent-1")
        second = await memory.create_active_memory("agent-1", "Plants", REMARK)

        due = await lifecycle.next_review_at("agent-1")

        assert due == second.occurred_at + 10 * DAY
        clock.now = due
        assert (await memory.admin.review("agent-1")).expired == 1
        due = await lifecycle.next_review_at("agent-1")
        assert due is not None
        assert timedelta() < due - (first.updated_at + 30 * DAY) < DAY


async def test_what_begins_later_does_not_end_before(config: Callable[..., Config], clock: SetClock) -> None:
    """An appointment in three months outlives a time to live of one, and is found on its day and pruned by nobody."""
    day = clock.now + 90 * DAY
    async with AgentMem(config(active_ttl_days=30.0, max_chunks=1), clock=clock) as memory:
        await memory.create_active_memory("agent-1", "Dentist", FACT, occurred_at=day)
        await memory.create_active_memory("agent-1", "Plants", REMARK)
        clock.advance(31 * DAY)
        await memory.admin.review("agent-1")
        assert await _live(memory) == [FACT]

        clock.now = day + DAY
        assert (await memory.admin.review("agent-1")).expired == 0
        assert await _live(memory) == await _live(memory, as_of=clock.now) == [FACT]


async def test_a_repetition_that_takes_the_place_of_another_begins_anew(
    config: Callable[..., Config], clock: SetClock
) -> None:
    """It lived through the one that was searched and found instead, and does not end with the next review."""
    async with AgentMem(config(shortterm_ttl_days=30.0), clock=clock) as memory:
        first = await memory.create_active_memory("agent-1", "Accounts", lines([FACT, REMARK]))
        await memory.admin.consolidate("agent-1", first.id)
        second = await memory.create_active_memory("agent-1", "Debts", FACT)
        (report,) = await memory.admin.consolidate("agent-1", second.id)
        assert report.duplicates == 1
        clock.advance(25 * DAY)
        await _recall(memory, "who owes whom?")
        clock.advance(10 * DAY)

        await memory.update_active_memory("agent-1", first.id, content=REMARK)
        await memory.admin.review("agent-1")

        assert FACT in await _live(memory)
        clock.advance(31 * DAY)
        await memory.admin.review("agent-1")
        assert FACT not in await _live(memory)
        await _check(memory)


# --- Pruning ---------------------------------------------------------------------------------------------------------


async def _fill(memory: AgentMem, memories: int, chunks: int) -> list[ActiveMemory]:
    """Many memories of many chunks, some with details and some without, consolidated."""
    notes = []
    for number in range(memories):
        passages = [
            f"On {n} May Ann Miller paid Bob Stone {100 * number + n} dollars."
            if n % 4 == 0
            else f"somebody has put entry {'x' * (number + 1)} {'y' * (n + 1)} into the book"
            for n in range(chunks)
        ]
        notes.append(await memory.create_active_memory("agent-1", f"Book {number}", lines(passages)))
    await memory.admin.consolidate("agent-1")
    return notes


async def _prune(config: Callable[..., Config], *, to: int) -> int:
    """A review under another limit than that of the writers."""
    async with AgentMem(config(max_chunks=to)) as memory:
        return (await memory.admin.review("agent-1")).pruned


async def _importances(db: SqlExecutor, *, live: bool) -> list[float]:
    rows = await db.fetch_all(
        "SELECT importance FROM memory_chunk WHERE external_id = 'agent-1' AND (superseded_at IS NULL) = $(live)p",
        {"live": live},
    )
    return [row["importance"] for row in rows]


@pytest.mark.thorough
@SECOND_SERVER_THOROUGHLY
async def test_too_many_chunks_are_pruned_to_the_limit(
    config: Callable[..., Config], server: Server, database: str, superuser: SqlExecutor
) -> None:
    """Hundreds of chunks: the least important end, as few as needed, in every memory; before that they are found."""
    async with AgentMem(config()) as memory:
        notes = await _fill(memory, memories=20, chunks=20)
        before = await _live_chunks(superuser)
        assert before == 400
        moment = datetime.now(UTC)
        contents = [note.content for note in await memory.get_active_memories("agent-1")]

    async with AgentMem(config(max_chunks=150)) as memory:
        report = await memory.admin.review("agent-1")

        assert report == LifecycleReport(external_id="agent-1", promoted=0, expired=0, pruned=250)
        assert await _live_chunks(superuser) == 150
        ended, live = await _importances(superuser, live=False), await _importances(superuser, live=True)
        assert max(ended) <= min(live)
        assert [note.content for note in await memory.get_active_memories("agent-1")] == contents
        events = await memory.ledger.read("agent-1", kinds=["memory.ended"], limit=1_000)
        assert {event.payload["memory_id"] for event in events} <= {str(note.id) for note in notes}
        gone = [UUID(chunk) for event in events for chunk in event.payload["chunks"]]
        assert len(gone) == len(set(gone)) == 250
        assert {(event.payload["reason"], event.payload["limit"]) for event in events} == {("pruned", 150)}
        # No search of now finds what ended, and each search of before does.
        for number, chunk_id in enumerate(gone[::25]):
            words = await _content(superuser, chunk_id)
            now = await memory.retrieve_memories("agent-1", words, limit=EVERYTHING)
            assert not set(gone) & {hit.chunk_id for hit in now.hits}
            every: list[dict[str, Any]] = [
                {"as_of": moment},
                {"known_at": moment},
                {"as_of": moment, "known_at": moment},
            ]
            times = every[number % 3]
            then = await memory.retrieve_memories("agent-1", words, limit=EVERYTHING, **times)
            assert chunk_id in {hit.chunk_id for hit in then.hits}
        assert await memory.admin.review("agent-1") == _nothing()
        await _check(memory)
        await _check_rebuilt_from_nothing(memory, superuser)


async def _content(db: SqlExecutor, chunk_id: UUID) -> str:
    row = await db.fetch_one("SELECT content FROM memory_chunk WHERE chunk_id = $(chunk_id)p", {"chunk_id": chunk_id})
    assert row is not None
    return str(row["content"])


async def _live_chunks(db: SqlExecutor) -> int:
    row = await db.fetch_one(
        "SELECT s.live_chunks, (SELECT count(*) FROM memory_chunk AS c WHERE c.superseded_at IS NULL"
        " AND c.external_id = s.external_id) AS counted FROM memory_stream AS s WHERE s.external_id = 'agent-1'"
    )
    assert row is not None
    assert row["live_chunks"] == row["counted"]
    return int(row["counted"])


async def _check_rebuilt_from_nothing(memory: AgentMem, db: SqlExecutor) -> None:
    """Every chunk, with every date, comes back as it was."""
    query = "SELECT t::text AS row FROM memory_chunk AS t WHERE external_id = 'agent-1' ORDER BY chunk_id"
    before = await db.fetch_all(query)
    await db.execute_script("DELETE FROM memory_chunk WHERE external_id = 'agent-1'")
    assert (await memory.admin.rebuild("agent-1")).ok
    assert await db.fetch_all(query) == before


async def test_what_is_new_is_not_pruned_for_what_is_proven(config: Callable[..., Config]) -> None:
    """What has not been rated yet ends last: a tenant that is full of good memories still takes in new ones."""
    async with AgentMem(config(max_chunks=2, shortterm_promotion_threshold=0.5)) as memory:
        for number in range(2):
            await memory.create_active_memory("agent-1", f"Accounts {number}", FACT.replace("300", str(number)))
            await memory.admin.consolidate("agent-1")
        await memory.create_active_memory("agent-1", "Plants", REMARK)

        report = await memory.admin.run_due("agent-1")

        assert report.pruned == 1
        assert REMARK in await _live(memory)


async def test_equal_chunks_end_by_age(config: Callable[..., Config], superuser: SqlExecutor) -> None:
    """Where nothing else tells them apart, the oldest go first."""
    async with AgentMem(config(max_chunks=3)) as memory:
        for number in range(6):
            await memory.create_active_memory("agent-1", "Note", f"somebody has put entry {'x' * (number + 1)} there")

        assert (await memory.admin.review("agent-1")).pruned == 3

        assert await _live(memory) == [f"somebody has put entry {'x' * number} there" for number in (4, 5, 6)]


async def test_what_is_used_outlives_what_is_not(config: Callable[..., Config]) -> None:
    """Of two chunks with the same rating the one that is recalled stays."""
    async with AgentMem(config(max_chunks=1)) as memory:
        await memory.create_active_memory("agent-1", "Plants", "somebody has watered the plants")
        await memory.create_active_memory("agent-1", "Ferry", "the ferry leaves early on most days")
        for _ in range(2):
            await memory.retrieve_memories("agent-1", "who watered the plants?", limit=1)
        await memory._ready().uses.write()

        assert (await memory.admin.review("agent-1")).pruned == 1
        assert await _live(memory) == ["somebody has watered the plants"]


@pytest.mark.thorough
async def test_a_repetition_of_what_was_pruned_does_not_come_back(
    config: Callable[..., Config], superuser: SqlExecutor
) -> None:
    """Otherwise pruning one chunk would let another one live with the same words; before, both memories said it."""
    async with AgentMem(config()) as memory:
        first = await memory.create_active_memory("agent-1", "Accounts", REMARK)
        await memory.admin.consolidate("agent-1")
        second = await memory.create_active_memory("agent-1", "Again", REMARK)
        (report,) = await memory.admin.consolidate("agent-1", second.id)
        assert report.duplicates == 1
        await memory.create_active_memory("agent-1", "Facts", lines([FACT, FACT.replace("300", "500")]))
        await memory.admin.consolidate("agent-1")
        moment = datetime.now(UTC)

    async with AgentMem(config(max_chunks=2)) as memory:
        assert (await memory.admin.review("agent-1")).pruned == 1

        assert REMARK not in await _live(memory)
        assert REMARK in await _live(memory, as_of=moment)
        (event,) = await memory.ledger.read("agent-1", kinds=["memory.ended"])
        (pair,) = event.payload["duplicates"]
        assert (event.payload["memory_id"], [pair["duplicate_of"]]) == (str(first.id), event.payload["chunks"])
        assert await superuser.fetch_all("SELECT FROM memory_chunk WHERE duplicate_of IS NOT NULL") == []
        # Nor when the older memory drops it.
        await memory.update_active_memory("agent-1", first.id, content="nothing of note")
        assert REMARK not in await _live(memory)
        await _check(memory)


@pytest.mark.thorough
async def test_an_update_that_keeps_an_ended_passage_leaves_it_ended(config: Callable[..., Config]) -> None:
    """Writing around it is no new statement; writing it anew is, and it lives."""
    async with AgentMem(config()) as memory:
        note = await memory.create_active_memory("agent-1", "Notes", lines([REMARK, FACT]))
        await memory.admin.consolidate("agent-1")
        assert await _prune(config, to=1) == 1
        assert await _live(memory) == [FACT]

        await memory.update_active_memory("agent-1", note.id, content=lines([REMARK, FACT, "and more"]))
        assert await _live(memory) == sorted([FACT, "and more"])
        await memory.admin.consolidate("agent-1")
        assert await _live(memory) == sorted([FACT, "and more"])

        await memory.update_active_memory("agent-1", note.id, content=lines([f"{REMARK} too", FACT]))
        assert await _live(memory) == sorted([FACT, f"{REMARK} too"])
        await _check(memory)


async def test_of_equal_passages_the_live_one_is_kept(config: Callable[..., Config], superuser: SqlExecutor) -> None:
    """One of them ended; when the text says it only once more, that is the one that is still found."""
    async with AgentMem(config()) as memory:
        note = await memory.create_active_memory("agent-1", "Notes", lines([REMARK, REMARK, FACT]))
        await memory.admin.consolidate("agent-1")
        assert await _prune(config, to=2) == 1
        assert await _live(memory) == sorted([REMARK, FACT])

        await memory.update_active_memory("agent-1", note.id, content=lines([REMARK, FACT]))

        assert await _live(memory) == sorted([REMARK, FACT])
        await _check(memory)


async def test_a_late_correction_moves_the_end_of_what_was_pruned(config: Callable[..., Config]) -> None:
    """An update that holds from before the pruning ended the passage then; what was known before stays known."""
    june, august = datetime(2025, 6, 1, tzinfo=UTC), datetime(2025, 8, 1, tzinfo=UTC)
    async with AgentMem(config()) as memory:
        note = await memory.create_active_memory("agent-1", "Notes", lines([REMARK, FACT]), occurred_at=june)
        await memory.admin.consolidate("agent-1")
        assert await _prune(config, to=1) == 1
        pruned_at = (await memory.ledger.read("agent-1", kinds=["memory.ended"]))[0].recorded_at

        await memory.update_active_memory("agent-1", note.id, content=FACT, occurred_at=august)

        september = august + 30 * DAY
        assert await _live(memory, as_of=september) == [FACT]
        assert await _live(memory, as_of=september, known_at=pruned_at) == sorted([FACT, REMARK])
        assert await _live(memory, as_of=august - DAY) == sorted([FACT, REMARK])
        await _check(memory)


async def test_only_the_tenant_that_has_too_much_is_pruned(config: Callable[..., Config]) -> None:
    """The limit is each tenant's own, and a review concerns one tenant."""
    async with AgentMem(config(max_chunks=2)) as memory:
        for tenant in ("agent-1", "agent-2"):
            for number in range(3):
                await memory.create_active_memory(tenant, "Note", f"note {number} of the day")
        assert (await memory.admin.review("agent-1")).pruned == 1

        assert (len(await _live(memory)), len(await _live(memory, "agent-2"))) == (2, 3)
        assert await memory.admin.review("agent-3") == _nothing("agent-3")
        assert await memory.ledger.head("agent-3") == 0


# --- Beside writers --------------------------------------------------------------------------------------------------


async def test_what_was_rewritten_meanwhile_is_not_ended(
    config: Callable[..., Config], server: Server, database: str, clock: SetClock
) -> None:
    """Both wait for the stream, the update first: the review finds that its memory has been looked at."""
    async with AgentMem(config(active_ttl_days=0.5), clock=clock) as memory:
        # Long ago, so that it is the time of recording that counts.
        note = await memory.create_active_memory("agent-1", "Notes", lines([REMARK, FACT]), occurred_at=clock.now - DAY)
        clock.now = note.updated_at + timedelta(hours=12, milliseconds=1)
        update, review = await in_turn(
            server.superuser(database),
            lambda: memory.update_active_memory("agent-1", note.id, content=lines([REMARK, "and so on"])),
            lambda: memory.admin.review("agent-1"),
        )

        assert review == _nothing()
        assert await _live(memory) == sorted([REMARK, "and so on"])
        assert update.version == 2
        await _check(memory)


async def test_what_ended_first_can_be_rewritten(
    config: Callable[..., Config], server: Server, database: str, clock: SetClock
) -> None:
    """The other order: what the update keeps has ended, and what it writes anew lives."""
    async with AgentMem(config(active_ttl_days=0.5), clock=clock) as memory:
        note = await memory.create_active_memory("agent-1", "Notes", lines([REMARK, FACT]))
        clock.advance(timedelta(hours=13))
        review, _ = await in_turn(
            server.superuser(database),
            lambda: memory.admin.review("agent-1"),
            lambda: memory.update_active_memory("agent-1", note.id, content=lines([REMARK, "and so on"])),
        )

        assert review.expired == 2
        assert await _live(memory) == ["and so on"]
        await _check(memory)


async def test_an_update_makes_room_before_anything_is_pruned(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """There were too many when the review began, and no more when its turn came: never below the limit."""
    async with AgentMem(config(max_chunks=2)) as memory:
        note = await memory.create_active_memory("agent-1", "Notes", lines([REMARK, FACT]))
        await memory.create_active_memory("agent-1", "More", "the ferry leaves early on most days")
        _, review = await in_turn(
            server.superuser(database),
            lambda: memory.update_active_memory("agent-1", note.id, content=REMARK),
            lambda: memory.admin.review("agent-1"),
        )

        assert review == _nothing()
        assert len(await _live(memory)) == 2


@pytest.mark.thorough
async def test_what_is_erased_during_a_review_stays_erased(
    config: Callable[..., Config], server: Server, database: str, superuser: SqlExecutor
) -> None:
    """The erasure comes first: nothing is left to end, nor any trace of its use."""
    async with AgentMem(config(max_chunks=2)) as memory:
        note = await memory.create_active_memory("agent-1", "Notes", lines([REMARK, FACT]))
        await memory.create_active_memory("agent-1", "More", "the ferry leaves early on most days")
        await _recall(memory, "who waters the plants, who owes whom, and when does the ferry leave?")
        receipt, review = await in_turn(
            server.superuser(database),
            lambda: memory.admin.erase("agent-1", memory_id=note.id),
            lambda: memory.admin.review("agent-1"),
        )

        assert review == _nothing()
        assert (await memory.admin.verify_erased(receipt)).ok
        assert await _uses(superuser) == [1]
        await _check(memory)
        await memory.admin.erase("agent-1")
        assert await _uses(superuser) == []


@pytest.mark.thorough
async def test_what_ended_can_be_erased(config: Callable[..., Config], superuser: SqlExecutor) -> None:
    """The event of its end is emptied with the others; a repetition in another memory stands for itself again."""
    async with AgentMem(config()) as memory:
        note = await memory.create_active_memory("agent-1", "Accounts", REMARK)
        await memory.admin.consolidate("agent-1")
        again = await memory.create_active_memory("agent-1", "Again", REMARK)
        await memory.admin.consolidate("agent-1", again.id)
        await memory.create_active_memory("agent-1", "Facts", FACT)
    async with AgentMem(config(max_chunks=1)) as memory:
        assert (await memory.admin.review("agent-1")).pruned == 1
        assert await _live(memory) == [FACT]

        receipt = await memory.admin.erase("agent-1", memory_id=note.id)

        assert (await memory.admin.verify_erased(receipt)).ok
        assert await _live(memory) == sorted([FACT, REMARK])
        assert "ended" in await _kinds(memory)
        await _check(memory)


@pytest.mark.thorough
async def test_reviews_at_the_same_time_end_each_chunk_once(
    config: Callable[..., Config], superuser: SqlExecutor
) -> None:
    """Several workers, writers between them: not one chunk less than the limit, none ended twice."""
    async with AgentMem(config(max_chunks=40)) as memory:
        await _fill(memory, memories=6, chunks=20)

        await asyncio.gather(
            *(memory.admin.review("agent-1") for _ in range(4)),
            *(memory.create_active_memory("agent-1", "Note", f"note {n} of the day") for n in range(5)),
        )
        await memory.admin.review("agent-1")

        assert await _live_chunks(superuser) == 40
        events = await memory.ledger.read("agent-1", kinds=["memory.ended"], limit=1_000)
        ended = [chunk for event in events for chunk in event.payload["chunks"]]
        assert len(ended) == len(set(ended)) == 85
        await _check(memory)


async def test_a_review_that_is_interrupted_goes_on_where_it_was(
    config: Callable[..., Config], superuser: SqlExecutor
) -> None:
    """What could not be written is not half-written, and the next review does it."""
    async with AgentMem(config(max_chunks=5)) as memory:
        await memory.create_active_memory("agent-1", "Notes", "note 0 of the day")
        for number in range(1, 8):
            await memory.create_active_memory("agent-1", "Note", f"note {number} of the day")
        await superuser.execute_script(
            "ALTER TABLE memory_event ADD CONSTRAINT of_a_test CHECK (kind <> 'memory.ended') NOT VALID"
        )
        try:
            with pytest.raises(StoreError):
                await memory.admin.review("agent-1")
        finally:
            await superuser.execute_script("ALTER TABLE memory_event DROP CONSTRAINT of_a_test")
        assert await _live_chunks(superuser) == 8

        assert (await memory.admin.review("agent-1")).pruned == 3
        await _check(memory)


# --- Writes that are refused -----------------------------------------------------------------------------------------


@SECOND_SERVER_THOROUGHLY
async def test_one_active_memory_too_many_is_refused(config: Callable[..., Config]) -> None:
    """Nothing is written, a retry of a write that went through still is one, and archiving makes room."""
    async with AgentMem(config(max_active_memories=2)) as memory:
        first = await memory.create_active_memory("agent-1", "One", "first", idempotency_key="one")
        await memory.create_active_memory("agent-1", "Two", "second")

        with pytest.raises(QuotaExceededError) as refused:
            await memory.create_active_memory("agent-1", "Three", "third")

        assert str(refused.value) == (
            "max_active_memories allows 2 for external_id 'agent-1', and this would be 3;"
            " archive finished memories (memory.admin.archive), or raise the limit"
        )
        assert await memory.ledger.head("agent-1") == 2
        again = await memory.create_active_memory("agent-1", "One", "first", idempotency_key="one")
        assert again.id == first.id
        await memory.update_active_memory("agent-1", first.id, content="first, changed")
        await memory.create_active_memory("agent-2", "Three", "third")
        await memory.admin.archive("agent-1", first.id)
        await memory.create_active_memory("agent-1", "Three", "third")


async def test_writers_at_the_same_time_do_not_exceed_the_limit(config: Callable[..., Config]) -> None:
    """It is looked at under the stream's lock."""
    async with AgentMem(config(max_active_memories=3)) as memory:
        results = await asyncio.gather(
            *(memory.create_active_memory("agent-1", "Note", f"note {n}") for n in range(8)), return_exceptions=True
        )

        assert sum(isinstance(result, QuotaExceededError) for result in results) == 5
        assert len(await memory.get_active_memories("agent-1")) == 3


async def test_a_text_that_alone_is_too_long_is_refused(config: Callable[..., Config]) -> None:
    """A part of it would end at once. What is shorter is taken, however much there is already."""
    async with AgentMem(config(max_chunks=3)) as memory:
        long = lines(f"passage {n} of the text" for n in range(4))
        with pytest.raises(QuotaExceededError, match=r"max_chunks allows 3 .* this would be 4; split the text"):
            await memory.create_active_memory("agent-1", "Long", long)
        note = await memory.create_active_memory("agent-1", "Short", lines(["one", "two", "three"]))
        with pytest.raises(QuotaExceededError, match="max_chunks"):
            await memory.update_active_memory("agent-1", note.id, content=long)

        assert (await memory.get_active_memories("agent-1"))[0].version == 1
        await memory.create_active_memory("agent-1", "Another", lines(["four", "five", "six"]))
        assert (await memory.admin.review("agent-1")).pruned == 3


async def test_a_title_can_be_changed_whatever_the_limit_is_now(config: Callable[..., Config]) -> None:
    """What was written under another limit stays usable; only a longer text is refused."""
    async with AgentMem(config()) as memory:
        note = await memory.create_active_memory("agent-1", "Long", lines(f"passage {n}" for n in range(4)))
    async with AgentMem(config(max_chunks=2)) as memory:
        assert (await memory.update_active_memory("agent-1", note.id, title="Still long")).version == 2


# --- Usage -----------------------------------------------------------------------------------------------------------


async def test_usage_counts_what_there_is(config: Callable[..., Config], superuser: SqlExecutor) -> None:
    """Chunks, bytes and tokens by tier, memories, events; all zeros for a tenant that is not there."""
    async with AgentMem(config(shortterm_promotion_threshold=0.5)) as memory:
        note = await memory.create_active_memory("agent-1", "Accounts", f"{FACT}\n\n{REMARK}")
        await memory.admin.consolidate("agent-1")
        await memory.update_active_memory("agent-1", note.id, content=f"{FACT}\n\nÜber die Brücke.")
        await memory.create_active_memory("agent-1", "Draft", "one draft")
        done = await memory.create_active_memory("agent-1", "Done", "done")
        await memory.admin.archive("agent-1", done.id, end_chunks=True)

        usage = await memory.admin.usage("agent-1")

        assert (usage.longterm.live_chunks, usage.longterm.ended_chunks) == (1, 0)
        assert (usage.shortterm.live_chunks, usage.shortterm.ended_chunks) == (0, 1)
        assert (usage.active.live_chunks, usage.active.ended_chunks) == (2, 1)
        assert usage.live_chunks == 3
        assert usage.active.text_bytes == len("Über die Brücke.".encode()) + len("one draft")
        assert usage.longterm.text_bytes == len(FACT) + 2
        assert usage.longterm.tokens > 10
        assert usage.shortterm.tokens == 0
        assert (usage.active_memories, usage.archived_memories, usage.shortterm_memories) == (2, 1, 1)
        assert usage.events == await memory.ledger.head("agent-1")
        assert (usage.vectors_missing, usage.models) == (0, ())
        nobody = await memory.admin.usage("agent-2")
        assert (nobody.live_chunks, nobody.events, nobody.active_memories, nobody.active.tokens) == (0, 0, 0, 0)


async def test_usage_adds_up_what_models_were_asked_for(memory: AgentMem, superuser: SqlExecutor) -> None:
    """It is read from the events, which say what their decisions have cost."""
    await memory.create_active_memory("agent-1", "Accounts", FACT)
    await memory.admin.consolidate("agent-1")
    usage = [{"model": "small", "requests": 2, "input_tokens": 30, "output_tokens": 4}]
    await superuser.execute(
        "UPDATE memory_event SET payload = payload || jsonb_build_object('usage', $(usage)p::text::jsonb)"
        " WHERE kind = 'memory.consolidated'",
        {"usage": json.dumps(usage * 2)},
    )

    (model,) = (await memory.admin.usage("agent-1")).models

    assert model.model_dump() == {
        "model": "small", "requests": 4, "input_tokens": 60, "output_tokens": 8, "cost_usd": None
    }  # fmt: skip
