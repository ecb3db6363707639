"""What the promises refuse: an erasure on a damaged ledger, an argument that was never set, a file from the future."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from agent_reminiscence import AgentMem, InvalidInputError, StoreError
from agent_reminiscence.config.constants import ERASER_ROLE, FORM_VERSION
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.database.repositories.event_ledger import next_chain
from agent_reminiscence.services.transfer import event_reader
from agent_reminiscence.services.transfer.event_reader import EventFileReader
from tests.conftest import TestServer
from tests.support.exports import forge, read_export, write_export
from tests.support.factories import make_event, stored_rows, superuser


@pytest.fixture
async def admin(test_server: TestServer, database: str) -> AsyncIterator[SqlExecutor]:
    """The superuser, on the database of `memory`."""
    async with superuser(test_server, database) as db:
        yield db


async def _tamper(db: SqlExecutor, position: int) -> None:
    await db.execute(
        "UPDATE memory_event SET payload = jsonb_set(payload, '{title}', '\"Forged\"') WHERE position = $(position)p",
        {"position": position},
    )


async def test_an_erasure_is_refused_where_it_would_project_what_was_forged(
    memory: AgentMem, admin: SqlExecutor
) -> None:
    """What stays would be made of a ledger that is not as it was written: nothing changes, and the fault is named."""
    first = await memory.create_active_memory("agent-1", "Loan", "Ann owes me 900.")
    second = await memory.create_active_memory("agent-1", "Lunch", "We eat at noon.")
    await _tamper(admin, 1)
    before = await stored_rows(admin)

    with pytest.raises(StoreError, match="event 1 of external_id 'agent-1' has been altered"):
        await memory.admin.erase("agent-1", memory_id=second.id)

    assert await stored_rows(admin) == before
    assert [m.title for m in await memory.get_active_memories("agent-1")] == ["Loan", "Lunch"]
    assert first.id in {m.id for m in await memory.get_active_memories("agent-1")}


@pytest.mark.parametrize("whole", [True, False])
async def test_a_forged_event_can_be_erased_and_the_receipt_says_so(
    memory: AgentMem, admin: SqlExecutor, caplog: pytest.LogCaptureFixture, whole: bool
) -> None:
    """Afterwards nobody can check what it said, so the evidence goes into the receipt and the log."""
    note = await memory.create_active_memory("agent-1", "Loan", "Ann owes me 900.")
    await _tamper(admin, 1)

    with caplog.at_level(logging.ERROR, logger="agent_reminiscence"):
        receipt = (
            await memory.admin.erase("agent-1") if whole else await memory.admin.erase("agent-1", memory_id=note.id)
        )

    assert [fault.position for fault in receipt.faults] == [1]
    assert "had been altered" in caplog.text
    assert (await memory.admin.verify_erased(receipt)).ok
    assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.parametrize("name", ["memory_id", "conversation_id", "text"])
async def test_none_is_not_everything(memory: AgentMem, name: str) -> None:
    """A variable that was never set must not erase a whole tenant."""
    note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")

    with pytest.raises(InvalidInputError, match=f"{name} is None"):
        await memory.admin.erase("agent-1", **{name: None})  # type: ignore[call-overload]

    assert [m.id for m in await memory.get_active_memories("agent-1")] == [note.id]


async def test_the_eraser_can_empty_an_event_and_not_rewrite_it(memory: AgentMem, store: PostgresManager) -> None:
    """Nor a receipt; and it appends nothing but receipts."""
    note = await memory.create_active_memory("agent-1", "Loan", "I owe you 100.")
    await memory.create_active_memory("agent-1", "Lunch", "We eat at noon.")
    await memory.admin.erase("agent-1", memory_id=note.id)

    for statement in (
        'UPDATE memory_event SET payload = \'{"title": "Loan"}\' WHERE position = 2',
        # Of an event that is empty otherwise.
        'UPDATE memory_event SET payload = \'{"title": "Loan"}\' WHERE position = 1',
        "UPDATE memory_event SET payload = '{}' WHERE position = 2",
    ):
        with pytest.raises(StoreError, match="row-level security"):
            async with store.transaction("agent-1", role=ERASER_ROLE) as db:
                await db.execute(statement)
    async with store.transaction("agent-1", role=ERASER_ROLE) as db:
        touched = await db.fetch_all(
            "UPDATE memory_event SET salt = NULL WHERE kind = 'memory.erased' RETURNING position"
        )
    assert touched == []
    with pytest.raises(StoreError, match="row-level security"):
        async with store.transaction("agent-1", role=ERASER_ROLE) as db:
            await db.execute(
                "INSERT INTO memory_event SELECT external_id, 9, gen_random_uuid(), kind, actor, conversation_id, turn,"
                " occurred_at, recorded_at, source, payload, NULL, request_hash, salt, digest, chain"
                " FROM memory_event WHERE position = 2"
            )


async def test_a_file_from_the_future_is_refused(memory: AgentMem, tmp_path: Path) -> None:
    """Everything written after it would be recorded as late as that, and `known_at=now` would find nothing of it."""
    (event,) = forge([make_event()])
    late = datetime.now(UTC) + timedelta(hours=1)
    event = event.model_copy(update={"recorded_at": late, "chain": next_chain(b"", event.digest, 1, late)})

    with pytest.raises(InvalidInputError, match="in the future"):
        await memory.admin.import_(write_export(tmp_path / "late.zst", [event]))

    assert await memory.ledger.head("agent-1") == 0


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("memory.invented", {"memory_id": str(uuid4())}),
        ("memory.created", {"memory_id": str(uuid4()), "form_version": FORM_VERSION + 1}),
    ],
)
async def test_a_file_of_a_newer_release_is_refused(
    memory: AgentMem, tmp_path: Path, kind: str, payload: dict[str, object]
) -> None:
    """Half of it would be projected, and nothing would say so."""
    events = forge([make_event(kind=kind, payload=payload)])

    with pytest.raises(InvalidInputError, match="this release does not know"):
        await memory.admin.import_(write_export(tmp_path / "newer.zst", events))

    assert await memory.ledger.head("agent-1") == 0


async def test_batches_end_by_bytes(memory: AgentMem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five hundred events of several MB each are neither in memory at once nor in one statement."""
    monkeypatch.setattr(event_reader, "BATCH_BYTES", 40_000)
    for number in range(6):
        await memory.ledger.append("agent-1", "world.observed", {"text": f"{number}" * 15_000})
    path = tmp_path / "large.zst"
    await memory.admin.export("agent-1", path)

    with EventFileReader(path) as reader:
        reader.check()
        sizes = [len(batch) for batch in reader.batches()]
    report = await memory.admin.import_(path, "agent-2")

    assert sizes == [3, 3]
    assert report.imported == 6
    assert [event.payload for event in await memory.ledger.read("agent-2")] == [e.payload for e in read_export(path)]


async def test_audits_open_no_more_connections_than_the_pool_may_have(
    memory: AgentMem, admin: SqlExecutor, store: PostgresManager
) -> None:
    """A replay has a connection of its own, in place of one of the pool's."""
    for number in range(3):
        await memory.create_active_memory("agent-1", f"Note {number}", "One line.")

    async def touch() -> None:
        async with store.transaction("agent-1", read_only=True) as db:
            await db.fetch_one("SELECT pg_sleep(0.05)::text")

    await asyncio.gather(*(touch() for _ in range(4)))
    most = 0
    for _ in range(3):
        async with store.scratch_transaction("agent-1"):
            row = await admin.fetch_one(
                "SELECT count(*) AS open FROM pg_stat_activity"
                " WHERE usename = 'reminiscence_login' AND datname = current_database()"
            )
            assert row is not None
            most = max(most, row["open"])
    # The store's four, and those of `memory`.
    assert most <= 4 + 2
