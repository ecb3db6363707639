"""Many tasks at once: nothing is lost, nothing waits for ever, and the ledger and the memories agree."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence import ActiveMemory, AgentMem, Config, Event, StoreTimeoutError, VersionConflictError
from agent_reminiscence.database.connection import open_connection
from agent_reminiscence.services.memories.fold import fold
from tests.acceptance.conftest import Server
from tests.support.servers import SECOND_SERVER_THOROUGHLY
from tests.support.steps import EVERYTHING, all_events, lines, only_memory, streams_held, texts

THRESHOLD = 5


def _updates_left(version: int, consolidated_version: int) -> int:
    return max(0, THRESHOLD - (version - max(consolidated_version, 1)))


def _of(events: list[Event], note: ActiveMemory) -> list[Event]:
    return [event for event in events if event.payload.get("memory_id") == str(note.id)]


async def check_stream(memory: AgentMem, tenant: str) -> list[Event]:
    """The ledger is in order, and what it adds up to is what the memories say."""
    events = await all_events(memory, tenant)
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    assert all(before.recorded_at <= after.recorded_at for before, after in pairwise(events))
    for note in await memory.get_active_memories(tenant):
        own = _of(events, note)
        versions = [event.payload["version"] for event in own if event.kind == "memory.updated"]
        assert versions == list(range(2, note.version + 1))
        assert fold(own, _updates_left).model_copy(update={"write": None}) == note
    return events


async def check_chunks(memory: AgentMem, tenant: str) -> None:
    """What a search can find is exactly what the memories say now."""
    # A word of each passage that any of these tests writes.
    query = "version of a memory of a task that goes on, note, ship, rain, wind, fog, snow, hail"
    found = await memory.retrieve_memories(tenant, query, limit=EVERYTHING)
    said: Counter[str] = Counter()
    for note in await memory.get_active_memories(tenant):
        said.update(passage for passage in note.content.split("\n\n") if passage.strip())
    assert Counter({hit.content.strip(): 1 + len(hit.same_text) for hit in found.hits}) == said


@pytest.mark.promise
@SECOND_SERVER_THOROUGHLY
async def test_fifty_tasks_on_one_tenant_lose_nothing(memory: AgentMem) -> None:
    """Each creates a memory of its own and updates one that all share; every write is there, once."""
    shared = await memory.create_active_memory("agent-1", "Shared", "Nobody was here.")

    async def work(number: int) -> None:
        note = await memory.create_active_memory("agent-1", f"Task {number}", f"Task {number} began.")
        await memory.update_active_memory("agent-1", note.id, content=f"Task {number} went on.")
        await memory.update_active_memory("agent-1", shared.id, content=f"Task {number} was here.")
        await memory.ledger.append("agent-1", "task.ended", {"number": number})

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(number) for number in range(50)))

    events = await check_stream(memory, "agent-1")
    await check_chunks(memory, "agent-1")
    notes = await memory.get_active_memories("agent-1")
    assert {note.content for note in notes[1:]} == {f"Task {number} went on." for number in range(50)}
    assert notes[0].version == 51
    written = {event.payload["changes"]["content"] for event in _of(events, shared) if event.kind == "memory.updated"}
    assert written == {f"Task {number} was here." for number in range(50)}
    assert {event.payload["number"] for event in events if event.kind == "task.ended"} == set(range(50))


@pytest.mark.promise
async def test_fifty_tasks_on_fifty_tenants_do_not_meet(memory: AgentMem) -> None:
    """Each tenant has its own stream, whole and in order, and finds its own words only."""

    async def work(number: int) -> None:
        tenant = f"agent-{number}"
        note = await memory.create_active_memory(tenant, "Plan", f"Version 1 of {number}.")
        for version in range(2, 7):
            await memory.update_active_memory(tenant, note.id, content=f"Version {version} of {number}.")
            await memory.retrieve_memories(tenant, "version")
        await memory.admin.run_due(tenant)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(number) for number in range(50)))

    for number in range(50):
        tenant = f"agent-{number}"
        events = await check_stream(memory, tenant)
        assert [event.kind for event in events] == ["memory.created", *["memory.updated"] * 5, "memory.consolidated"]
        assert texts(await memory.retrieve_memories(tenant, "version")) == [f"Version 6 of {number}."]


@pytest.mark.thorough
@SECOND_SERVER_THOROUGHLY
async def test_of_writers_that_read_the_same_version_one_wins(memory: AgentMem) -> None:
    """With `expected_version`, nobody overwrites what he has not seen; all get there by reading again."""
    note = await memory.create_active_memory("agent-1", "Counter", "0")
    conflicts = 0

    async def add_one() -> None:
        nonlocal conflicts
        while True:
            seen = await only_memory(memory, "agent-1")
            try:
                await memory.update_active_memory(
                    "agent-1", note.id, content=str(int(seen.content) + 1), expected_version=seen.version
                )
            except VersionConflictError:
                conflicts += 1
            else:
                return

    async with asyncio.timeout(60):
        await asyncio.gather(*(add_one() for _ in range(10)))

    assert (await only_memory(memory, "agent-1")).content == "10"
    assert conflicts > 0
    await check_stream(memory, "agent-1")


@pytest.mark.thorough
@SECOND_SERVER_THOROUGHLY
async def test_two_objects_on_one_database_share_everything(config: Callable[..., Config]) -> None:
    """As two processes would: each sees the other's writes at once, and positions stay gapless."""
    async with AgentMem(config()) as first, AgentMem(config(postgres_pool_size=2)) as second:
        note = await first.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        await second.update_active_memory("agent-1", note.id, content="Ship on Monday.")
        assert texts(await first.retrieve_memories("agent-1", "when do we ship?")) == ["Ship on Monday."]

        await asyncio.gather(
            *(each.create_active_memory("agent-1", "Note", f"Note {n}.") for n in range(10) for each in (first, second))
        )
        assert len(await first.get_active_memories("agent-1")) == 21
        await check_stream(second, "agent-1")
        await check_chunks(first, "agent-1")


PASSAGES = st.lists(st.sampled_from(["rain", "wind", "fog", "snow 7", "Ann: hail"]), min_size=1, max_size=4)
STEP = st.one_of(
    st.tuples(st.just("create"), st.integers(0, 3), PASSAGES),
    st.tuples(st.just("update"), st.integers(0, 3), PASSAGES),
    st.tuples(st.just("retitle"), st.integers(0, 3), PASSAGES),
    st.tuples(st.just("append"), st.integers(0, 3), PASSAGES),
    st.tuples(st.just("consolidate"), st.integers(0, 3), PASSAGES),
)


# One database serves all examples; each has a tenant of its own.
@pytest.mark.thorough
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(tasks=st.lists(st.lists(STEP, min_size=1, max_size=5), min_size=1, max_size=4))
async def test_any_writes_of_any_tasks_leave_the_ledger_whole(
    memory: AgentMem, tasks: list[list[tuple[str, int, list[str]]]]
) -> None:
    """Whatever is written at once: no gap, no time that runs backwards, and each memory is what its task said last."""
    tenant = str(uuid4())

    async def work(steps: list[tuple[str, int, list[str]]]) -> dict[Any, tuple[str, str]]:
        """A task changes memories of its own, so a plain dict says what they hold in the end."""
        mine: dict[Any, tuple[str, str]] = {}
        for kind, which, passages in steps:
            text = lines(passages)
            note_id = list(mine)[which % len(mine)] if mine else None
            if kind == "create" or note_id is None:
                note = await memory.create_active_memory(tenant, "Weather", text)
                mine[note.id] = ("Weather", text)
            elif kind == "update":
                await memory.update_active_memory(tenant, note_id, content=text)
                mine[note_id] = (mine[note_id][0], text)
            elif kind == "retitle":
                await memory.update_active_memory(tenant, note_id, title=passages[0])
                mine[note_id] = (passages[0], mine[note_id][1])
            elif kind == "append":
                await memory.ledger.append(tenant, "world.observed", {"memory_id": str(which), "seen": passages})
            else:
                await memory.admin.consolidate(tenant, note_id)
        return mine

    async with asyncio.timeout(60):
        expected = await asyncio.gather(*(work(steps) for steps in tasks))

    await check_stream(memory, tenant)
    await check_chunks(memory, tenant)
    notes = {note.id: (note.title, note.content) for note in await memory.get_active_memories(tenant)}
    assert notes == {note_id: said for mine in expected for note_id, said in mine.items()}


@pytest.mark.thorough
async def test_a_call_that_is_cancelled_is_done_or_not(config: Callable[..., Config]) -> None:
    """Cancelled at any moment, a write is in the ledger and in the memory, or in neither; the object goes on."""
    chance = random.Random(7)
    async with AgentMem(config(postgres_pool_size=3)) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Version 0.")
        began = time.perf_counter()
        await memory.update_active_memory("agent-1", note.id, content="Version 1.")
        usual_seconds = time.perf_counter() - began
        for number in range(2, 42):
            text = f"Version {number}.\n\n" + "It goes on and on. " * 20
            task = asyncio.create_task(memory.update_active_memory("agent-1", note.id, content=text.strip()))
            await asyncio.sleep(chance.uniform(0, 2 * usual_seconds))
            task.cancel()
            await asyncio.wait([task])
            # As long as this machine takes for a call just now, so that some are cancelled and some are not.
            usual_seconds *= 1.2 if task.cancelled() else 0.8

        await memory.admin.consolidate("agent-1")
        events = await check_stream(memory, "agent-1")
        await check_chunks(memory, "agent-1")
        kinds = Counter(event.kind for event in events)
        assert 1 < kinds["memory.updated"] < 41


async def test_an_exhausted_pool_waits_and_then_says_so(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """Whoever finds no connection in time is told which settings to look at; afterwards all goes on."""
    async with AgentMem(config(postgres_pool_size=1, pool_timeout_seconds=0.3)) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        async with streams_held(server.superuser(database)) as queued:
            waiting = asyncio.create_task(memory.update_active_memory("agent-1", note.id, content="Ship on Monday."))
            await queued(1)

            with pytest.raises(StoreTimeoutError, match=r"within 0\.3 s; all 1 are in use \(postgres_pool_size, pool_"):
                await memory.get_active_memories("agent-2")

        assert (await waiting).content == "Ship on Monday."
        assert await memory.get_active_memories("agent-2") == []


async def test_a_short_wait_for_a_connection_is_no_failure(config: Callable[..., Config]) -> None:
    """Fifty tasks on a single connection take turns."""
    async with AgentMem(config(postgres_pool_size=1)) as memory, asyncio.timeout(60):
        await asyncio.gather(*(memory.create_active_memory("agent-1", "Note", f"Note {n}.") for n in range(50)))

        assert len(await memory.get_active_memories("agent-1")) == 50


async def test_a_statement_that_runs_too_long_is_ended(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """The server ends it, the message names the setting, nothing was written, and the connection is of use again."""
    async with AgentMem(config(postgres_pool_size=1, statement_timeout_seconds=1.5)) as memory:
        note = await memory.create_active_memory("agent-1", "Plan", "Ship on Friday.")
        async with streams_held(server.superuser(database)):
            with pytest.raises(StoreTimeoutError, match="statement_timeout_seconds sets the limit"):
                await memory.update_active_memory("agent-1", note.id, content="Ship on Monday.")

        assert (await only_memory(memory, "agent-1")).content == "Ship on Friday."
        assert len(await all_events(memory, "agent-1")) == 1


@pytest.mark.thorough
async def test_connections_that_died_while_idle_are_replaced(
    config: Callable[..., Config], server: Server, database: str
) -> None:
    """A server that was restarted or an administrator who ended them: the next call connects again."""
    async with AgentMem(config()) as memory:
        await asyncio.gather(*(memory.create_active_memory("agent-1", "Note", f"Note {n}.") for n in range(10)))
        superuser = await open_connection(server.superuser(database))
        try:
            await superuser.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        finally:
            superuser.close()

        assert len(await memory.get_active_memories("agent-1")) == 10
        await asyncio.gather(*(memory.create_active_memory("agent-1", "Note", f"Again {n}.") for n in range(10)))
        assert len(await check_stream(memory, "agent-1")) == 20
