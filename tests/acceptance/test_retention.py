"""What retention ends is kept or erased, as the settings say: whole, with a receipt, and nothing that is not over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError, ErasureReceipt, InvalidInputError, StoreError, sync
from agent_reminiscence.config.constants import APP_ROLE, ERASER_ROLE, SCHEDULER_ROLE, WORKER_ROLE
from agent_reminiscence.database.connection import ConnectionSettings
from tests.acceptance.conftest import SocketServer
from tests.conftest import TestServer, dsn, settings_for
from tests.support.command_line import command_line
from tests.support.factories import stored_rows, superuser
from tests.support.fakes import SetClock
from tests.support.steps import EVERYTHING, all_events

TENANT, OTHER = "agent-1", "agent-2"
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
WORD = "zebra"
FACTS = 30
Opened = Callable[..., Any]


@pytest.fixture
def clock() -> SetClock:
    """The clock of every memory that a test opens."""
    return SetClock(datetime.now(UTC))


@pytest.fixture
def opened(config: Callable[..., Config], clock: SetClock) -> Opened:
    """Opens a memory without a worker, so that nothing happens but what the test does."""

    @asynccontextmanager
    async def open_memory(**settings: Any) -> AsyncIterator[AgentMem]:
        async with AgentMem(config(worker=False, **settings), clock=clock) as memory:
            yield memory

    return open_memory


@pytest.fixture
async def rows(test_server: TestServer, database: str) -> AsyncIterator[Callable[..., Any]]:
    """Reads how many rows of each table say a word, past every policy."""
    async with superuser(test_server, database) as db:

        async def read(word: str = WORD, tenant: str = TENANT) -> dict[str, int]:
            said = {
                table: sum(word in row.lower() for row in found)
                for table, found in (await stored_rows(db, tenant)).items()
            }
            return {table: number for table, number in said.items() if number}

        yield read


async def _fill(memory: AgentMem, tenant: str = TENANT, **arguments: Any) -> None:
    for number in range(FACTS):
        await memory.create_active_memory(
            tenant, f"Zebra {number}", f"The zebra of stable {number} belongs to Ana Sousa.", **arguments
        )


async def _receipts(memory: AgentMem, tenant: str = TENANT) -> list[ErasureReceipt]:
    return [
        ErasureReceipt.model_validate(event.payload)
        for event in await all_events(memory, tenant)
        if event.kind == "memory.erased"
    ]


async def _titles(memory: AgentMem) -> list[str]:
    return [one.title for one in await memory.get_active_memories(TENANT)]


# --- Archive and erase -----------------------------------------------------------------------------------------------

POLICIES = {
    "expires_at": ({}, True, False),
    "active_ttl_days": ({"active_ttl_days": 1}, False, False),
    "shortterm_ttl_days": ({"shortterm_ttl_days": 1, "longterm_ttl_days": 1}, False, True),
    "max_chunks": ({"max_chunks": 1}, False, False),
}


@pytest.mark.parametrize("policy", POLICIES)
async def test_what_is_archived_keeps_its_words_and_what_is_erased_does_not(
    opened: Opened, clock: SetClock, rows: Callable[..., Any], policy: str, tmp_path: Path
) -> None:
    """Thirty facts in every row, event, index and question of the past; the receipts say which setting did it."""
    settings, expires, is_consolidated = POLICIES[policy]
    exported = tmp_path / "export"
    async with opened(**settings) as memory:
        await _fill(memory, expires_at=clock() + DAY if expires else None)
        await _fill(memory, OTHER)
        if is_consolidated:
            await memory.admin.consolidate(TENANT)
        before = datetime.now(UTC)
        if policy == "max_chunks":
            await memory.create_active_memory(TENANT, "Piano", "The piano of Robin Vos was tuned in May.")
        clock.advance(2 * DAY)
        await memory.admin.review(TENANT)
        kept = await rows()
        events = [event for event in await all_events(memory, TENANT) if WORD in str(event.payload).lower()]
        then = await memory.retrieve_memories(TENANT, WORD, known_at=before, as_of=before, limit=EVERYTHING)

    assert kept["memory_event"] >= FACTS
    assert len(events) >= FACTS
    assert len(then.hits) >= FACTS
    others = await rows(tenant=OTHER)

    async with opened(**settings, retention="erase") as memory:
        report = await memory.admin.review(TENANT)
        receipts = await _receipts(memory)
        then = await memory.retrieve_memories(TENANT, WORD, known_at=before, as_of=before, limit=EVERYTHING)
        gone = await rows()
        again = await memory.admin.review(TENANT)
        await memory.admin.rebuild(TENANT)
        await memory.admin.export(TENANT, exported)
        rebuilt = await rows()
        assert (await memory.admin.verify(TENANT)).ok
        checks = [await memory.admin.verify_erased(receipt, text="ebra of stable") for receipt in receipts]
        tenant_events = await all_events(memory, TENANT)

    assert report.memories_erased == FACTS
    assert sum(len(receipt.memory_ids) for receipt in receipts) == FACTS
    assert {(receipt.scope, receipt.actor) for receipt in receipts} == {("retention", "retention")}
    assert all((receipt.reason or "").startswith("retention: ") for receipt in receipts)
    assert policy in " ".join(receipt.reason or "" for receipt in receipts)
    assert (gone, rebuilt, then.hits) == ({}, {}, ())
    assert [event.position for event in tenant_events] == list(range(1, len(tenant_events) + 1))
    assert [check.findings for check in checks] == [()] * len(receipts)
    assert (again.memories_erased, again.expired) == (0, 0)
    assert WORD.encode() not in await asyncio.to_thread(exported.read_bytes)
    assert await rows(tenant=OTHER) == others


async def test_what_expires_without_a_worker_is_not_found_and_goes_at_the_next_review(
    opened: Opened, clock: SetClock, rows: Callable[..., Any]
) -> None:
    """Nothing happens by itself in a process without a worker; what has not expired stays, at every moment."""
    async with opened(retention="erase") as memory:
        await memory.create_active_memory(TENANT, "Zebra", "The zebra is ill.", expires_at=clock() + HOUR)
        await memory.create_active_memory(TENANT, "Later", "The giraffe is ill.", expires_at=clock() + DAY)
        await memory.create_active_memory(TENANT, "Never", "The walrus is well.")
        clock.advance(HOUR)
        found = await memory.retrieve_memories(TENANT, "zebra", limit=EVERYTHING)
        assert "Zebra" not in [hit.title for hit in found.hits]
        assert await rows() != {}

        assert (await memory.admin.review(TENANT)).memories_erased == 1
        assert await rows() == {}
        assert await _titles(memory) == ["Later", "Never"]
        [kind] = [event.kind for event in await all_events(memory, TENANT) if event.position > 3]
        assert kind == "memory.erased"
        assert (await memory.admin.verify(TENANT)).ok


async def test_what_had_been_recorded_as_expired_goes_when_the_setting_is_changed(
    opened: Opened, clock: SetClock, rows: Callable[..., Any]
) -> None:
    """Whoever changes the setting wants the words gone that are over, however long they have been."""
    async with opened() as memory:
        await memory.create_active_memory(TENANT, "Zebra", "The zebra is ill.", expires_at=clock() + HOUR)
        clock.advance(HOUR)
        assert (await memory.admin.review(TENANT)).memories_expired == 1
        clock.advance(365 * DAY)
    async with opened(retention="erase") as memory:
        assert (await memory.admin.review(TENANT)).memories_erased == 1
    assert await rows() == {}


# --- What is not over ------------------------------------------------------------------------------------------------


async def test_a_memory_stays_as_long_as_one_of_its_passages_lives(
    opened: Opened, clock: SetClock, rows: Callable[..., Any]
) -> None:
    """Its text has the passages that ended before, and no part of it can go alone."""
    otter = "The otter sleeps in the harbour of Faro."
    async with opened(shortterm_ttl_days=5, longterm_ttl_days=5, retention="erase") as memory:
        note = await memory.create_active_memory(TENANT, "Animals", f"The zebra of Ana Sousa is ill.\n\n{otter}")
        assert note.write is not None
        assert note.write.chunks_added == 2
        await memory.admin.consolidate(TENANT)
        clock.advance(4 * DAY)
        await memory.retrieve_memories(TENANT, otter, limit=1)
        clock.advance(2 * DAY)
        report = await memory.admin.review(TENANT)
        assert (report.expired, report.memories_erased) == (1, 0)
        assert await rows() != {}
        clock.advance(6 * DAY)
        report = await memory.admin.review(TENANT)
        assert (report.expired, report.memories_erased) == (1, 1)
        assert await rows() == {}


async def test_what_is_pinned_recalled_or_said_elsewhere_stays(opened: Opened, clock: SetClock) -> None:
    """A time to live counts from the last touch, and a pin is for good."""
    words = "The staging database is restored every night from the backup."
    async with opened(active_ttl_days=5, shortterm_ttl_days=5, retention="erase") as memory:
        await memory.create_active_memory(TENANT, "Pinned", "The llama always bites.", pinned=True)
        await memory.create_active_memory(TENANT, "Recalled", "The otter sleeps in the harbour of Faro.")
        await memory.create_active_memory(TENANT, "Unused", "The walrus whistles at dawn in Bergen.")
        original = await memory.create_active_memory(TENANT, "Operations", words)
        await memory.admin.consolidate(TENANT, original.id)
        repeated = await memory.create_active_memory(TENANT, "Notes", words)
        [consolidated] = await memory.admin.consolidate(TENANT, repeated.id)
        assert consolidated.duplicates == 1
        clock.advance(4 * DAY)
        # Counted in this process, and not written yet when the review begins.
        await memory.retrieve_memories(TENANT, "Where does the otter sleep in the harbour of Faro?", limit=1)
        await memory.retrieve_memories(TENANT, "staging database restored every night backup", limit=1)
        clock.advance(2 * DAY)
        report = await memory.admin.review(TENANT)
        assert report.memories_erased == 1
        # The repetition lives in what it repeats.
        assert await _titles(memory) == ["Pinned", "Recalled", "Operations", "Notes"]
        assert (await memory.admin.verify(TENANT)).ok

        clock.advance(30 * DAY)
        assert (await memory.admin.review(TENANT)).memories_erased == 3
        assert await _titles(memory) == ["Pinned"]
        assert (await memory.admin.verify(TENANT)).ok


async def test_what_was_archived_has_its_time_to_live_from_then(
    opened: Opened, clock: SetClock, rows: Callable[..., Any]
) -> None:
    """Ended is not over: it goes when its tier's time has passed since, and never where its tier has none."""
    async with opened(active_ttl_days=10, retention="erase") as memory:
        note = await memory.create_active_memory(TENANT, "Zebra", "The zebra is ill.")
        lasting = await memory.create_active_memory(TENANT, "Lasting", "The walrus is well.")
        await memory.admin.consolidate(TENANT, lasting.id)
        for one in (note, lasting):
            await memory.admin.archive(TENANT, one.id, end_chunks=True)
        clock.advance(9 * DAY)
        assert (await memory.admin.review(TENANT)).memories_erased == 0
        clock.advance(2 * DAY)
        assert (await memory.admin.review(TENANT)).memories_erased == 1
        assert await rows() == {}
        clock.advance(365 * DAY)
        assert (await memory.admin.review(TENANT)).memories_erased == 0
        assert (await memory.admin.history(TENANT, lasting.id)).versions


async def test_a_cancelled_review_forgets_no_use(opened: Opened, clock: SetClock) -> None:
    """What was recalled before it is spared later, wherever it was cancelled."""
    words = ("otter", "walrus", "llama", "heron", "badger")
    async with opened(active_ttl_days=5, retention="erase") as memory:
        for word in words:
            await memory.create_active_memory(TENANT, word, f"The {word} sleeps in the harbour of Faro.")
        clock.advance(4 * DAY)
        for steps, word in enumerate(words, start=1):
            await memory.retrieve_memories(TENANT, f"Where does the {word} sleep?", limit=1)
            review = asyncio.create_task(memory.admin.review(TENANT))
            for _ in range(steps):
                await asyncio.sleep(0)
            review.cancel()
            await asyncio.wait([review])
            assert review.cancelled()
        clock.advance(2 * DAY)

        assert (await memory.admin.review(TENANT)).memories_erased == 0


async def test_uses_that_cannot_be_written_put_an_erasure_off(
    opened: Opened, clock: SetClock, test_server: TestServer, database: str
) -> None:
    """What was recalled is not erased because nobody could note that it was."""
    async with opened(active_ttl_days=5, retention="erase") as memory:
        await memory.create_active_memory(TENANT, "Otter", "The otter sleeps in the harbour of Faro.")
        clock.advance(4 * DAY)
        await memory.retrieve_memories(TENANT, "Where does the otter sleep?")
        async with superuser(test_server, database) as db:
            await db.execute_script("ALTER TABLE chunk_use RENAME TO elsewhere")
            with pytest.raises(StoreError):
                await memory.admin.review(TENANT)
            await db.execute_script("ALTER TABLE elsewhere RENAME TO chunk_use")
        clock.advance(2 * DAY)

        assert (await memory.admin.review(TENANT)).memories_erased == 0


async def test_what_another_process_has_just_recalled_is_not_erased(opened: Opened, clock: SetClock) -> None:
    """It writes what it has counted within seconds, and as long an erasure waits."""
    async with (
        opened(active_ttl_days=5, retention="erase") as memory,
        opened(active_ttl_days=5, retention="erase") as other,
    ):
        await memory.create_active_memory(TENANT, "Otter", "The otter sleeps in the harbour of Faro.")
        clock.advance(5 * DAY)
        await memory.retrieve_memories(TENANT, "Where does the otter sleep?")
        clock.advance(timedelta(seconds=5))
        assert (await other.admin.review(TENANT)).memories_erased == 0
        await memory._ready().uses.write()
        clock.advance(timedelta(seconds=10))
        assert (await other.admin.review(TENANT)).memories_erased == 0


async def test_without_a_limit_of_its_own_nothing_is_erased(opened: Opened, clock: SetClock) -> None:
    """The setting says what happens to what is over, and nothing is over by itself; nor is what other limits ended."""
    async with opened(active_ttl_days=1) as memory:
        await _fill(memory)
        clock.advance(2 * DAY)
        assert (await memory.admin.review(TENANT)).expired == FACTS
    async with opened(retention="erase") as memory:
        report = await memory.admin.review(TENANT)
        assert (report.memories_erased, len(await _titles(memory))) == (0, FACTS)


# --- Workers ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
async def test_a_worker_erases_and_leaves_time_between_two_erasures(opened: Opened, clock: SetClock) -> None:
    """An erasure replays what stays, so memories that expire one by one wait for each other; a call does not wait."""
    async with opened(retention="erase") as memory:
        for number in range(120):
            await memory.create_active_memory(
                TENANT, f"Zebra {number}", f"The zebra of stable {number}.", expires_at=clock() + (number + 1) * HOUR
            )
        clock.now = datetime.now(UTC) + HOUR
        first = await memory.admin.run_due(TENANT)
        assert (first.memories_erased, first.error) == (1, None)
        clock.now = datetime.now(UTC) + 2 * HOUR
        assert (await memory.admin.run_due(TENANT)).memories_erased == 1, "an hour is longer than the pause"

    # Twelve seconds for 120 events, by the clock of the server, which wrote the receipt; ten are grace.
    async with opened(retention="erase", active_ttl_days=1e-7) as memory:
        receipts = await memory.ledger.read(TENANT, kinds=["memory.erased"])
        clock.now = receipts[-1].recorded_at + timedelta(seconds=11)
        soon = await memory.admin.run_due(TENANT)
        assert (soon.expired, soon.memories_erased, soon.error) == (118, 0, None)
        assert (await memory.admin.review(TENANT)).memories_erased == 118


async def test_an_altered_ledger_fails_the_erasure_and_nothing_else(
    opened: Opened, clock: SetClock, test_server: TestServer, database: str
) -> None:
    """The job says what is wrong, and what it is to do besides is done."""
    async with opened(retention="erase") as memory:
        await memory.create_active_memory(TENANT, "Altered", "The walrus is well.")
        await memory.create_active_memory(TENANT, "Zebra", "The zebra is ill.", expires_at=clock() + HOUR)
        async with superuser(test_server, database) as db:
            await db.execute(
                'UPDATE memory_event SET payload = payload || \'{"content": "Changed."}\' WHERE position = 1'
            )
        clock.advance(HOUR)
        report = await memory.admin.run_due(TENANT)
        assert (report.memories_erased, report.memories_expired) == (0, 1)
        assert report.error is not None
        assert report.error.startswith("retention: StoreError")


@pytest.mark.thorough
async def test_a_login_that_may_not_erase_is_refused_at_once(
    socket_server: SocketServer, test_server: TestServer, database: str
) -> None:
    """What could not be erased would stay without a word; without that setting the login is good enough to open."""
    login = "retention_login"
    address = socket_server.login(database)
    given = dsn(ConnectionSettings(address.host, address.port, login, database))
    async with superuser(test_server, database) as db:
        await db.execute_script(
            f"CREATE ROLE {login} LOGIN; GRANT {APP_ROLE}, {SCHEDULER_ROLE}, {WORKER_ROLE} TO {login}"
            " WITH INHERIT FALSE, SET TRUE"
        )
        try:
            with pytest.raises(ConfigurationError, match=rf"'{login}' may not take the role {ERASER_ROLE}.*migrate"):
                await AgentMem(settings_for(given, retention="erase", worker=False)).initialize()
            async with AgentMem(settings_for(given, worker=False)):
                pass
            await db.execute_script(f"GRANT {ERASER_ROLE} TO {login} WITH INHERIT FALSE, SET TRUE")
            async with AgentMem(settings_for(given, retention="erase", worker=False)):
                pass
        finally:
            await db.execute_script(f"DROP ROLE {login}")


def test_another_retention_is_refused() -> None:
    """A typing error must not keep what was to be erased."""
    with pytest.raises(ConfigurationError, match="retention"):
        Config(retention="delete")


# --- erase(before=) --------------------------------------------------------------------------------------------------


async def test_what_was_recorded_before_a_moment_is_erased(
    opened: Opened, clock: SetClock, rows: Callable[..., Any]
) -> None:
    """Memories by their last change, events one by one; what was written to since stays whole, with all versions."""
    async with opened() as memory:
        old = await memory.create_active_memory(TENANT, "Old", "The zebra is ill.")
        changed = await memory.create_active_memory(TENANT, "Changed", "The walrus was ill.")
        await memory.ledger.append(TENANT, "world.heard", {"text": "A zebra runs."})
        await memory.admin.profiles.define(TENANT, "animals", "Which animals are there?")
        await memory.admin.consolidate(TENANT)
        await memory.retrieve_memories(TENANT, "zebra", run_id="run-1")
        [*_, last] = await all_events(memory, TENANT)
        before = last.recorded_at + timedelta(microseconds=1)
        await memory.update_active_memory(TENANT, changed.id, content="The walrus is well.")
        await memory.admin.archive(TENANT, old.id)
        new = await memory.create_active_memory(TENANT, "New", "The otter swims.")
        clock.now = datetime.now(UTC)

        preview = await memory.admin.erase(TENANT, before=before, dry_run=True)
        assert await rows() != {}
        receipt = await memory.admin.erase(TENANT, before=before, actor="desk", reason="older than a year")

        assert [item.memory_id for item in preview.items if item.kind == "memory"] == [old.id]
        assert (receipt.scope, receipt.before, receipt.reason) == ("before", before, "older than a year")
        assert (receipt.memory_ids, len(receipt.events)) == ((old.id,), preview.events)
        assert await rows() == {}
        assert await _titles(memory) == ["Changed", "New"]
        assert [one.version for one in (await memory.admin.history(TENANT, changed.id)).versions] == [1, 2]
        assert [one.name for one in await memory.admin.profiles.list(TENANT)] == ["animals"]
        assert (await memory.admin.verify(TENANT)).ok
        assert (await memory.admin.verify_erased(receipt, text="zebra")).ok
        again = await memory.admin.erase(TENANT, before=before)
        assert (again.memory_ids, again.events) == ((), ())
        assert [new.id, changed.id] == [one.id for one in (await memory.get_active_memories(TENANT))][::-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"before": datetime(2026, 1, 1)}, "before '2026-01-01T00:00:00' has no time zone"),  # noqa: DTZ001
        ({"before": datetime(2999, 1, 1, tzinfo=UTC)}, "before '2999-01-01T00:00:00\\+00:00' is in the future"),
        ({"before": "2026-01-01"}, "before must be a datetime"),
        ({"before": None}, "before is None, which names nothing to erase"),
        ({"before": datetime(2020, 1, 1, tzinfo=UTC), "text": "zebra"}, "but got text and before"),
        ({"memory_versions": {}}, "memory_versions name nothing to erase"),
        ({"event_ids": [], "memory_versions": {}}, "memory_versions and event_ids name nothing to erase"),
        ({"event_ids": ["zebra"]}, "event_ids must be a UUID"),
        ({"memory_versions": ["zebra"]}, "memory_versions must map memory ids to versions"),
        ({"reason": "sk-proj-" + "Ab1" * 16, "text": "zebra"}, "reason looks like a secret"),
    ],
)
async def test_what_says_too_much_or_nothing_erases_nothing(
    memory: AgentMem, tenant: str, arguments: dict[str, Any], message: str
) -> None:
    """A forgotten value must never mean everything."""
    await memory.create_active_memory(tenant, "Zebra", "The zebra is ill.")
    with pytest.raises(InvalidInputError, match=message):
        await memory.admin.erase(tenant, **arguments)
    assert await memory.ledger.head(tenant) == 1


async def test_memories_are_erased_at_the_version_that_was_read(memory: AgentMem, tenant: str) -> None:
    """Whoever decides over a list does not erase what somebody has written to in the meantime."""
    notes = [await memory.create_active_memory(tenant, f"Note {n}", f"Sentence {n}.") for n in range(3)]
    event = await memory.ledger.append(tenant, "world.heard", {"text": "A zebra runs."})
    await memory.update_active_memory(tenant, notes[1].id, content="Another sentence.")
    [created, *_] = await all_events(memory, tenant)

    receipt = await memory.admin.erase(
        tenant,
        memory_versions={note.id: note.version for note in notes[:2]},
        # The second is one of our own, which goes with its memory or not at all.
        event_ids=[event.event_id, created.event_id],
        reason="tidying",
    )

    assert (receipt.scope, receipt.memory_ids, receipt.reason) == ("selection", (notes[0].id,), "tidying")
    assert len(receipt.events) == 2
    assert [one.id for one in await memory.get_active_memories(tenant)] == [notes[1].id, notes[2].id]
    assert (await memory.admin.verify(tenant)).ok


def test_the_command_and_the_blocking_memory_erase_what_is_older(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same preview, receipt and refusals."""
    settings = config(worker=False)
    with sync.AgentMem(settings) as memory:
        memory.create_active_memory(TENANT, "Zebra", "The zebra is ill.")
        memory.create_active_memory(OTHER, "Zebra", "The zebra is ill.")
        assert memory.admin.erase(TENANT, before=datetime.now(UTC), dry_run=True).events == 1
        assert memory.admin.erase(TENANT, before=datetime.now(UTC)).scope == "before"
        memory.create_active_memory(TENANT, "Zebra", "The zebra is well.")

    cli = command_line(settings, monkeypatch, capsys)
    words = ("erase", "--external-id", TENANT, "--yes")
    assert cli(*words, "--before", "2999-01-01") == ""
    assert "is in the future" in cli.err
    done = cli.json(*words, "--before", datetime.now(UTC).isoformat(), "--reason", "yearly")
    assert (done["scope"], done["reason"], len(done["events"])) == ("before", "yearly", 1)
    with sync.AgentMem(settings) as memory:
        assert memory.get_active_memories(TENANT) == []
        assert len(memory.get_active_memories(OTHER)) == 1
