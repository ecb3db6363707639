"""Calls of a memory can be given recorded answers, which the database does not have to compute again."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from uuid import uuid4

import pytest

from agent_reminiscence import AgentMem, Config, MemoryNotFoundError
from agent_reminiscence.database import connection
from benchmarks.replay import AT_ONCE, Call, Comparison, NotRecordedError, compare, record, replay, replayable

_TENANT = "replay"
_QUESTION = "Where is the boat?"


@pytest.fixture
async def memory(config: Callable[..., Config]) -> AsyncIterator[AgentMem]:
    """It has one connection: what a call has prepared is prepared for the next, which then asks in the same groups."""
    async with AgentMem(config(postgres_pool_size=1)) as memory:
        yield memory


@pytest.fixture(autouse=True)
def plans_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """From time to time a connection discards its plans, and then sends a statement that was not recorded."""
    monkeypatch.setattr(connection, "_FIRST_REPLANNING_SECONDS", math.inf)


async def test_a_replayed_call_is_given_what_was_recorded(memory: AgentMem) -> None:
    """It does not ask the database, which has changed since; other calls do."""
    stored = await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")
    seen: list[list[str]] = []

    async def read() -> None:
        seen.append(await _titles(memory))

    await _titles(memory)
    with replayable():
        recorded = await record(read)
        await memory.update_active_memory(_TENANT, stored.id, title="Ships")
        seconds = await replay((read, recorded), (read, recorded))
        now = await _titles(memory)

    assert seen == [["Boats"]] * 3
    assert now == ["Ships"]
    assert seconds >= sum(answer.seconds for answer in recorded)
    assert await _titles(memory) == ["Ships"]


async def test_a_search_is_replayed(memory: AgentMem) -> None:
    """It reads several times in a transaction, and finds the same hits."""
    found: list[list[str]] = []

    async def search() -> None:
        result = await memory.retrieve_memories(_TENANT, _QUESTION)
        found.append([hit.content for hit in result.hits])

    stored = await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")
    await search()
    found.clear()
    with replayable():
        recorded = await record(search)
        await memory.update_active_memory(_TENANT, stored.id, content="The boat is sold.")
        await replay((search, recorded))

    assert len(recorded) > 1
    assert found == [["The boat is in Bergen."]] * 2


async def test_a_statement_that_was_not_recorded_is_not_sent(memory: AgentMem) -> None:
    """The replay raises an error, and the memory still works afterwards."""
    await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")

    async def read() -> None:
        await _titles(memory)

    await read()

    async def write() -> None:
        await memory.create_active_memory(_TENANT, "Ships", "The ship is in Porto.")

    with replayable():
        recorded = await record(read)
        with pytest.raises(NotRecordedError):
            await replay((write, recorded), (read, recorded))

    assert await _titles(memory) == ["Boats"]
    await write()
    assert await _titles(memory) == ["Boats", "Ships"]


async def test_a_call_that_asks_less_is_refused(memory: AgentMem) -> None:
    """It would seem faster than what was recorded."""
    await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")
    times = 2

    async def read() -> None:
        for _ in range(times):
            await _titles(memory)

    await read()
    with replayable():
        recorded = await record(read)
        times = 1
        with pytest.raises(NotRecordedError, match="not asked again"):
            await replay((read, recorded))


async def test_a_connection_keeps_no_note_of_what_was_never_sent(memory: AgentMem) -> None:
    """It would send an unprepared statement together with its COMMIT, which would arrive first."""
    await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")
    titles: list[list[str]] = []

    async def read() -> None:
        titles.append(await _titles(memory))

    with replayable():
        # Before the statement was prepared.
        recorded = await record(read)
        with pytest.raises(NotRecordedError):
            await replay((read, recorded), (read, recorded))

    titles.clear()
    await asyncio.gather(*(read() for _ in range(3)))
    assert titles == [["Boats"]] * 3


async def test_an_error_of_a_call_is_raised(memory: AgentMem) -> None:
    """A call that fails while it is recorded fails as it does otherwise."""
    await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")

    async def update() -> None:
        await memory.update_active_memory(_TENANT, uuid4(), title="Ships")

    with replayable(), pytest.raises(MemoryNotFoundError):
        await record(update)


async def test_a_connection_still_plans_anew_when_it_is_due(memory: AgentMem) -> None:
    """A replay begins like a recorded call that planned anew, but discards no plans."""
    await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")

    async def search() -> None:
        await memory.retrieve_memories(_TENANT, _QUESTION)

    await search()
    (executor,) = memory._ready().stores.postgres._idle
    with replayable():
        executor._replanned_at_age = 0.0
        recorded = await record(search)
        executor._replanned_at_age = 0.0
        await replay((search, recorded))

    assert executor._replanned_at_age == 0.0


async def test_calls_are_compared(memory: AgentMem) -> None:
    """With the database and without, each alone and all at once."""
    await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")
    calls: dict[str, Call] = {
        "first": lambda: _titles(memory),
        "second": lambda: memory.retrieve_memories(_TENANT, _QUESTION),
    }
    compared: Comparison | None = None
    # What a connection has not prepared yet, it will have the next time.
    for _ in range(10):
        with suppress(NotRecordedError):
            compared = await compare(calls, calls)
            break

    assert compared is not None
    assert compared.live.keys() == compared.replayed.keys() == {"first", "second", AT_ONCE}
    for name in calls:
        assert 0 < compared.waiting[name] < compared.live[name]
        assert compared.replayed[name] >= compared.waiting[name]


async def _titles(memory: AgentMem) -> list[str]:
    return [one.title for one in await memory.get_active_memories(_TENANT)]
