"""`verify`, `rebuild` and `erase` while others write, read and stop: each sees and leaves whole states only."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.database.connection import SqlExecutor
from tests.chaos.conftest import Repetitions
from tests.conftest import TestServer
from tests.support.chaos.tampering import Scene, config
from tests.support.factories import LONG_AGO, fill_tenant, stored_rows, superuser

pytestmark = pytest.mark.thorough

_WRITERS = 3
_ANCHOR = "\n\n".join(f"The lighthouse keeper wrote line {number} of his log." for number in range(6))


@pytest.fixture
async def scene(test_server: TestServer, database: str) -> AsyncIterator[Scene]:
    """A database of this test's own, with a memory that nobody changes."""
    async with AgentMem(config(test_server, database)) as memory, superuser(test_server, database) as db:
        yield await _round(Scene(memory, db, "busy"), 0)


async def _round(scene: Scene, number: int) -> Scene:
    """The same with another tenant: streams stay short, so that one of many rounds takes no longer than the first."""
    external_id = f"{scene.external_id}-{number}"
    await scene.memory.create_active_memory(external_id, "Log", _ANCHOR, occurred_at=LONG_AGO)
    return replace(scene, external_id=external_id)


class _Writer:
    """Makes and changes memories of its own until it is told to stop, and knows what they should say.

    Attributes:
        said: What each memory of this writer that is not archived says, by id; a call that returned is in it.
    """

    def __init__(self, scene: Scene, number: int) -> None:
        self._memory = scene.memory
        self._tenant = scene.external_id
        self._random = random.Random(number)
        self._number = number
        self._texts = 0
        self.said: dict[UUID, str] = {}
        self.is_stopped = False

    async def run(self) -> None:
        """Write until it is stopped."""
        while not self.is_stopped:
            await self._write()

    async def _write(self) -> None:
        memory_id = self._random.choice([*self.said, None])
        if memory_id is None:
            note = await self._memory.create_active_memory(
                self._tenant, f"Notes of {self._number}", text := self._text()
            )
            self.said[note.id] = text
            return
        match self._random.randrange(8):
            case 0:
                await self._memory.admin.consolidate(self._tenant, memory_id)
            case 1:
                await self._memory.admin.archive(self._tenant, memory_id, end_chunks=self._random.random() < 0.5)
                del self.said[memory_id]
            case 2:
                await self._memory.admin.erase(self._tenant, memory_id=memory_id)
                del self.said[memory_id]
            case 3:
                await self._memory.ledger.append(self._tenant, "world.observed", {"by": self._number})
            case _:
                when = LONG_AGO + timedelta(days=self._random.randrange(900))
                text = self._text()
                await self._memory.update_active_memory(self._tenant, memory_id, content=text, occurred_at=when)
                self.said[memory_id] = text

    def _text(self) -> str:
        self._texts += 1
        lines = [f"Writer {self._number} counts the ships of group {self._random.randrange(5)}." for _ in range(3)]
        return "\n\n".join([f"Text number {self._texts} of writer {self._number}.", *lines])


async def _while_writing[T](scene: Scene, work: Coroutine[Any, Any, T]) -> tuple[list[_Writer], T]:
    """Do `work` while writers write, and stop them; a failure of any of them fails the test."""
    writers = [_Writer(scene, number) for number in range(_WRITERS)]
    async with asyncio.TaskGroup() as group:
        for writer in writers:
            group.create_task(writer.run())
        try:
            result = await work
        finally:
            for writer in writers:
                writer.is_stopped = True
    return writers, result


async def _assert_all_there(scene: Scene, writers: list[_Writer]) -> None:
    """Whatever a call has returned is stored, and nothing else."""
    expected = {memory_id: text for writer in writers for memory_id, text in writer.said.items()}
    found = {memory.id: memory.content for memory in await scene.memory.get_active_memories(scene.external_id)}
    [anchor] = [memory_id for memory_id, text in found.items() if text == _ANCHOR]
    del found[anchor]
    assert found == expected
    report = await scene.verify()
    assert (report.faults, report.drift, report.missing_vectors) == ((), (), 0)


async def test_verify_is_clean_whatever_is_written_meanwhile(scene: Scene, repetitions: Repetitions) -> None:
    """It compares one moment with itself, so that a busy stream is never taken for a wrong one."""
    for number in range(repetitions(reduced=1, full=12)):
        current = await _round(scene, number)

        writers, heads = await _while_writing(current, _look(current))

        assert heads == sorted(heads)
        assert heads[0] < heads[-1], "nothing was written meanwhile"
        await _assert_all_there(current, writers)


async def _look(scene: Scene) -> list[int]:
    """Verify again and again; returns how long the stream was each time."""
    heads: list[int] = []
    for _ in range(12):
        [report] = (await scene.memory.admin.verify(scene.external_id)).streams
        assert (report.faults, report.drift) == ((), ())
        heads.append(report.head)
    return heads


@pytest.mark.thorough
async def test_a_rebuild_loses_nothing_that_is_written_meanwhile(scene: Scene, repetitions: Repetitions) -> None:
    """Each begins with rows that are wrong, replays most of the stream without a lock, and then what came in since."""
    for number in range(repetitions(reduced=1, full=12)):
        current = await _round(scene, number)

        writers, repaired = await _while_writing(current, _spoil_and_mend(current))

        assert any(repaired)
        await _assert_all_there(current, writers)


async def _spoil_and_mend(scene: Scene) -> list[bool]:
    """Spoil rows and rebuild, again and again; returns whether there was something to mend."""
    repaired: list[bool] = []
    for third in (0, 1, 2) * 3:
        await _spoil(scene, third)
        report = await scene.mend(by_rebuild=True)
        assert (report.faults, report.ok) == ((), True)
        repaired.append(report.repaired)
    return repaired


async def _spoil(scene: Scene, third: int) -> None:
    """Change a third of the tenant's chunks by hand."""
    # The stream is locked first, as by every writer: rows of chunks have no order of their own.
    await scene.db.execute_script("BEGIN")
    params = {"tenant": scene.external_id}
    await scene.db.execute("SELECT FROM memory_stream WHERE external_id = $(tenant)p FOR UPDATE", params)
    await scene.db.execute(
        "UPDATE memory_chunk SET importance = importance + 0.001"
        " WHERE external_id = $(tenant)p AND abs(hashtext(chunk_id::text)) % 3 = $(third)p",
        params | {"third": third},
    )
    await scene.db.execute_script("COMMIT")


async def test_readers_see_all_of_a_rebuild_or_nothing_of_it(scene: Scene, repetitions: Repetitions) -> None:
    """While chunks come back, a search finds all of them or none, and the memory itself is always there."""
    whole = frozenset(_ANCHOR.split("\n\n"))
    seen: set[frozenset[str]] = set()
    is_over = False

    async def read() -> None:
        while not is_over:
            found = await scene.memory.retrieve_memories(scene.external_id, "line of the log of the lighthouse keeper")
            seen.add(frozenset(hit.content.strip() for hit in found.hits))
            active = await scene.memory.get_active_memories(scene.external_id)
            assert [memory.content for memory in active] == [_ANCHOR]

    async def break_and_mend() -> None:
        nonlocal is_over
        try:
            for _ in range(repetitions(reduced=6, full=40)):
                await scene.db.execute_script(
                    "BEGIN; DELETE FROM memory_chunk; DELETE FROM chunk_vector_1; UPDATE active_memory SET version = 7;"
                    "COMMIT"
                )
                assert (await scene.mend(by_rebuild=True)).repaired
                await asyncio.sleep(0.05)
        finally:
            is_over = True

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(read())
        await break_and_mend()

    assert seen <= {whole, frozenset()}
    assert whole in seen
    assert (await scene.verify()).ok


async def _settled(db: SqlExecutor) -> None:
    """Wait until connections that were closed have ended, with their transactions and temporary tables."""
    state: dict[str, Any] | None = None
    for _ in range(1_200):
        state = await db.fetch_one(
            "SELECT (SELECT count(*) FROM pg_class WHERE relpersistence = 't') AS tables,"
            " (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            "  AND state <> 'idle') AS busy"
        )
        if state == {"tables": 0, "busy": 0}:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"something was left behind: {state}")


async def _cancel_after(call: Coroutine[Any, Any, Any], seconds: float) -> bool:
    """Start a call and cancel it; returns whether it had ended before."""
    task = asyncio.create_task(call)
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.wait([task])
    if task.cancelled():
        return False
    task.result()
    return True


async def _assert_usable(scene: Scene) -> None:
    """Every connection of the pool can be had, and the stream can be written to."""
    async with asyncio.timeout(60):
        await asyncio.gather(*(scene.memory.get_active_memories(scene.external_id) for _ in range(20)))
        await scene.memory.ledger.append(scene.external_id, "world.observed", {})
    await _settled(scene.db)


@pytest.mark.thorough
@pytest.mark.usefixtures("attentive_server")
@pytest.mark.parametrize("method", ["verify", "rebuild", "repair"])
async def test_a_cancelled_audit_leaves_nothing_behind(scene: Scene, method: str, repetitions: Repetitions) -> None:
    """No temporary table, no lock, no connection that is lost to the pool; the rows are as before, or all mended."""
    await fill_tenant(scene.memory, scene.external_id)
    right = await _tiers(scene)
    times = repetitions(reduced=8, full=40)
    for number in range(times):
        await scene.db.execute_script("UPDATE memory_chunk SET importance = importance / 2")
        wrong = await _tiers(scene)
        call = (
            scene.memory.admin.rebuild(scene.external_id)
            if method == "rebuild"
            else scene.memory.admin.verify(scene.external_id, repair=method == "repair")
        )

        ended = await _cancel_after(call, 0.4 * number / times)

        await _assert_usable(scene)
        left = await _tiers(scene)
        if method == "verify":
            assert left == wrong
        else:
            assert left == right or (left == wrong and not ended)
        await scene.mend(by_rebuild=True)
        assert await _tiers(scene) == right


async def _tiers(scene: Scene) -> dict[str, list[str]]:
    rows = await stored_rows(scene.db, scene.external_id, with_ctid=False)
    # To see that the memory is usable, events are appended.
    appended = {"memory_event", "memory_stream", "event_index", "event_posting"}
    return {table: found for table, found in rows.items() if table not in appended}


@pytest.mark.thorough
@pytest.mark.usefixtures("attentive_server")
async def test_a_cancelled_erasure_is_done_or_not(scene: Scene, repetitions: Repetitions) -> None:
    """Never in part: either the receipt is in the ledger and all is gone, or every row is as it was."""
    times = repetitions(reduced=8, full=40)
    for number in range(times):
        note = await scene.memory.create_active_memory(
            scene.external_id, "Safe", f"The safe opens with {number:04}, says Ana."
        )
        await scene.memory.admin.consolidate(scene.external_id, note.id)
        before = await stored_rows(scene.db, scene.external_id, with_ctid=False)

        ended = await _cancel_after(
            scene.memory.admin.erase(scene.external_id, memory_id=note.id), 0.4 * number / times
        )

        await _settled(scene.db)
        after = await stored_rows(scene.db, scene.external_id, with_ctid=False)
        events = await scene.memory.ledger.read(scene.external_id, kinds=["memory.erased"], limit=1_000)
        is_done = any(str(note.id) in event.payload["memory_ids"] for event in events)
        assert is_done or not ended
        if is_done:
            assert f"opens with {number:04}" not in str(after)
        else:
            assert after == before
        await _assert_usable(scene)
        assert (await scene.verify()).ok
