"""A call that ends in the middle, at any of its statements: it is made wholly or not at all, and can be made again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem, Config, StoreTimeoutError
from agent_reminiscence.database.connection import SqlExecutor
from tests.chaos.conftest import Repetitions
from tests.conftest import TestServer
from tests.support.chaos.watching import watching
from tests.support.factories import stored_rows, superuser
from tests.support.fakes import SetClock

pytestmark = [pytest.mark.usefixtures("attentive_server"), pytest.mark.thorough]

_LINES = tuple(f"Ana: Line {number} is about pears and boats in Lisbon." for number in range(6))
# Of a tenant that nothing is forgotten of, but by these calls.
_TENANT = "interrupted"

Call = Callable[[AgentMem, str, UUID], Awaitable[Any]]
# Each of them writes one event, and once however often it is made.
_WRITES: dict[str, Call] = {
    "create": lambda memory, tenant, note_id: memory.create_active_memory(
        tenant, "New", "\n".join(_LINES), idempotency_key=f"new beside {note_id}"
    ),
    "update": lambda memory, tenant, note_id: memory.update_active_memory(
        tenant, note_id, title="Pears", content="\n".join((*_LINES[3:], "Lou: And plums.")),
        idempotency_key=f"changed {note_id}",
    ),
    "archive": lambda memory, tenant, note_id: memory.admin.archive(tenant, note_id, end_chunks=True),
    "erase": lambda memory, tenant, note_id: memory.admin.erase(tenant, memory_id=note_id),
}  # fmt: skip
_READS: dict[str, Call] = {
    "now": lambda memory, tenant, note_id: memory.retrieve_memories(tenant, "pears and plums"),
    "then": lambda memory, tenant, note_id: memory.retrieve_memories(
        tenant, "pears and plums", known_at=datetime.now(UTC)
    ),
}
_HOWS = ["times out", "is cancelled"]


async def _names_of(call: Awaitable[Any]) -> list[str]:
    """The named statements that a call sends, each once; what has no name begins, ends or configures a transaction."""
    names: dict[str, None] = {}

    async def note(db: SqlExecutor, name: str) -> None:
        names[name] = None

    with watching(note):
        await call
    return [name for name in names if name.islower()]


async def _interrupted(call: Awaitable[Any], statement: str, how: str) -> BaseException | None:
    """Make a call in which a statement never ends; returns what it raises."""
    reached = asyncio.Event()

    async def hold(db: SqlExecutor, name: str) -> None:
        if name != statement:
            return
        if how == "times out":
            # The server's own timeout. One that passes while a statement is being parsed is told as a user's request.
            await db.execute_script("SET LOCAL statement_timeout = 100")
        reached.set()
        await db.execute_script("SELECT pg_sleep(3600)")

    with watching(hold):
        task = asyncio.ensure_future(call)
        waiting = asyncio.ensure_future(reached.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if how == "is cancelled":
            task.cancel()
        await asyncio.wait([task])
        waiting.cancel()
    assert reached.is_set(), "the call has ended before it came to the statement"
    return asyncio.CancelledError() if task.cancelled() else task.exception()


async def _settled_rows(db: SqlExecutor, tenant: str) -> dict[str, list[str]]:
    """All rows of a tenant, once what the server still does in the name of a call that has ended is over."""
    await db.execute_script("BEGIN")
    await db.execute("SELECT head FROM memory_stream WHERE external_id = $(tenant)p FOR UPDATE", {"tenant": tenant})
    await db.execute_script("ROLLBACK")
    return await stored_rows(db, tenant, with_ctid=False)


@pytest.mark.parametrize("how", _HOWS)
@pytest.mark.parametrize("call", _WRITES)
async def test_a_write_that_ends_at_any_statement_is_made_wholly_or_not_at_all(
    memory: AgentMem, test_server: TestServer, database: str, subtests: pytest.Subtests, call: str, how: str
) -> None:
    """Whoever is told that it failed finds every row as it was, and the same call goes through afterwards."""
    make = _WRITES[call]

    async def prepare(number: int) -> tuple[str, UUID]:
        # A first write also makes the stream.
        tenant = f"{_TENANT} {number}" if call == "create" else _TENANT
        if call == "create":
            return tenant, UUID(int=number)
        return tenant, (await memory.create_active_memory(tenant, f"House {number}", "\n".join(_LINES))).id

    names = await _names_of(make(memory, *await prepare(0)))
    assert "append_event" in names
    async with superuser(test_server, database) as db:
        for number, name in enumerate(names, start=1):
            with subtests.test(statement=name):
                tenant, note_id = await prepare(number)
                head = await memory.ledger.head(tenant)
                before = await stored_rows(db, tenant, with_ctid=False)

                error = await _interrupted(make(memory, tenant, note_id), name, how)

                after = await _settled_rows(db, tenant)
                is_written = await memory.ledger.head(tenant) == head + 1
                if not is_written:
                    assert after == before
                if how == "times out":
                    assert isinstance(error, StoreTimeoutError)
                    assert not is_written
                else:
                    assert isinstance(error, asyncio.CancelledError)
                if not is_written:
                    await make(memory, tenant, note_id)
                assert await memory.ledger.head(tenant) == head + 1
    report = await memory.admin.verify()
    assert report.ok
    assert [stream.missing_vectors for stream in report.streams] == [0] * len(report.streams)


@pytest.mark.parametrize("how", _HOWS)
async def test_a_consolidation_that_ends_at_any_statement_is_made_by_the_next_run(
    memory: AgentMem, test_server: TestServer, database: str, subtests: pytest.Subtests, how: str
) -> None:
    """It has several transactions; each is there wholly or not at all, and the rest is still due."""

    async def prepare(number: int) -> tuple[str, UUID]:
        # Tenants of their own: what a process knows of one it does not ask again.
        tenant = f"{_TENANT} {number}"
        return tenant, (await memory.create_active_memory(tenant, "House", "\n".join(_LINES))).id

    names = await _names_of(memory.admin.consolidate(*await prepare(0)))
    assert "append_event" in names
    async with superuser(test_server, database) as db:
        for number, name in enumerate(names, start=1):
            with subtests.test(statement=name):
                tenant, note_id = await prepare(number)
                head = await memory.ledger.head(tenant)
                before = await stored_rows(db, tenant, with_ctid=False)

                error = await _interrupted(memory.admin.consolidate(tenant, note_id), name, how)

                expected = StoreTimeoutError if how == "times out" else asyncio.CancelledError
                # Whether a profile is due is looked up when all is recorded: that does not fail it.
                assert isinstance(error, expected) or (error is None and name == "find_due_profiles")
                after = await _settled_rows(db, tenant)
                if await memory.ledger.head(tenant) == head:
                    assert after == before
                    await memory.admin.consolidate(tenant, note_id)
                kinds = [event.kind for event in await memory.ledger.read(tenant, after=head)]
                assert kinds[0] == "memory.consolidated"
                await memory.admin.consolidate(tenant)
    report = await memory.admin.verify()
    assert report.ok
    assert [stream.missing_vectors for stream in report.streams] == [0] * len(report.streams)


@pytest.mark.parametrize("how", _HOWS)
@pytest.mark.parametrize("moment", _READS)
async def test_a_search_that_ends_at_any_statement_says_so_and_the_next_one_answers(
    memory: AgentMem, test_server: TestServer, database: str, subtests: pytest.Subtests, moment: str, how: str
) -> None:
    """Nothing is written by it, and its connection serves the next one or is replaced."""
    note = await memory.create_active_memory(_TENANT, "Fruit", "\n".join(_LINES))
    await memory.update_active_memory(_TENANT, note.id, title="Pears", content="\n".join(_LINES[1:]))
    search = _READS[moment]
    expected = [hit.chunk_id for hit in (await search(memory, _TENANT, note.id)).hits]
    assert expected
    names = await _names_of(search(memory, _TENANT, note.id))
    assert "open_stream" in names
    assert {"find_dots", "find_dots_and_norms"} & set(names)
    async with superuser(test_server, database) as db:
        before = await stored_rows(db, _TENANT, with_ctid=False)
        for name in names:
            with subtests.test(statement=name):
                error = await _interrupted(search(memory, _TENANT, note.id), name, how)

                assert isinstance(error, StoreTimeoutError if how == "times out" else asyncio.CancelledError)
                assert [hit.chunk_id for hit in (await search(memory, _TENANT, note.id)).hits] == expected
        assert await stored_rows(db, _TENANT, with_ctid=False) == before


@pytest.mark.parametrize("how", _HOWS)
async def test_a_retention_that_ends_at_any_statement_is_made_by_the_next_review(
    config: Callable[..., Config],
    test_server: TestServer,
    database: str,
    repetitions: Repetitions,
    subtests: pytest.Subtests,
    how: str,
) -> None:
    """What is over is all there or all gone, and what is not over stays; the next review erases the rest.

    Each statement is met in one of the two ways, with `--full-chaos` in both.
    """
    clock = SetClock(datetime.now(UTC))
    async with (
        AgentMem(config(worker=False, active_ttl_days=5, retention="erase"), clock=clock) as memory,
        superuser(test_server, database) as db,
    ):

        async def prepare(number: int) -> str:
            # Tenants of their own: what is over is of all their memories.
            tenant, clock.now = f"{_TENANT} {number}", datetime.now(UTC)
            for day in range(3):
                await memory.create_active_memory(
                    tenant, "Over", f"Zebra {day} is over.", expires_at=clock() + timedelta(days=4)
                )
                await memory.create_active_memory(tenant, "Old", f"Zebra {day} is old.")
            await memory.create_active_memory(tenant, "Kept", "The walrus stays.", pinned=True)
            clock.advance(timedelta(days=6))
            return tenant

        names = await _names_of(memory.admin.review(await prepare(0)))
        assert {"find_over", "empty_events"} <= set(names)
        every = repetitions(reduced=2, full=1)
        for number, name in list(enumerate(names, start=1))[_HOWS.index(how) % every :: every]:
            with subtests.test(statement=name):
                tenant = await prepare(number)
                error = await _interrupted(memory.admin.review(tenant), name, how)
                assert isinstance(error, StoreTimeoutError if how == "times out" else asyncio.CancelledError)
                await _settled_rows(db, tenant)
                left = [event for event in await memory.ledger.read(tenant) if "Zebra" in str(event.payload)]
                # The three that expired go together, and so do those whose time to live is over.
                assert len(left) in (6, 3, 0)
                await memory.admin.review(tenant)
                rows = await stored_rows(db, tenant, with_ctid=False)
                assert not [row for found in rows.values() for row in found if "Zebra" in row]
                assert [one.title for one in await memory.get_active_memories(tenant)] == ["Kept"]
        assert (await memory.admin.verify()).ok
