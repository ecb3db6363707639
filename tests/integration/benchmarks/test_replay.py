"""Calls of a memory can be given recorded answers, so that they take what they would beside an idle database."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

import pytest

from agent_reminiscence import ActiveMemory, AgentMem, ReminiscenceError
from agent_reminiscence.database import connection
from benchmarks.replay import NotRecordedError, record, replay, replayable

_TENANT = "replay"
_QUESTION = "Where is the boat?"


@pytest.fixture(autouse=True)
def plans_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that plans anew, as it does now and then, sends another statement than was recorded."""
    monkeypatch.setattr(connection, "_FIRST_REPLANNING_SECONDS", math.inf)


async def test_a_replayed_call_is_given_what_was_recorded(memory: AgentMem) -> None:
    """It does not ask the database, which has changed since; other calls do, also at the same time."""
    stored = await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")
    seen: list[list[str]] = []

    async def read() -> None:
        seen.append(await _titles(memory))

    await _prepare(lambda: _titles(memory))
    with replayable():
        recorded = await record(read)
        await memory.update_active_memory(_TENANT, stored.id, title="Ships")
        replayed = asyncio.create_task(replay((read, recorded), (read, recorded)))
        now = await _titles(memory)
        seconds = await replayed

    assert seen == [["Boats"]] * 3
    assert now == ["Ships"]
    assert seconds >= sum(answer.seconds for answer in recorded)
    assert await _titles(memory) == ["Ships"]


async def test_a_search_is_replayed(memory: AgentMem) -> None:
    """It reads several times in a transaction, and finds the same hits."""
    await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")
    await _prepare(lambda: memory.retrieve_memories(_TENANT, _QUESTION))
    found: list[list[str]] = []

    async def search() -> None:
        result = await memory.retrieve_memories(_TENANT, _QUESTION)
        found.append([hit.content for hit in result.hits])

    with replayable():
        recorded = await record(search)
        await memory.update_active_memory(_TENANT, (await _only(memory)).id, content="The boat is sold.")
        await replay((search, recorded))

    assert len(recorded) > 1
    assert found == [["The boat is in Bergen."]] * 2


async def test_a_statement_that_was_not_recorded_is_not_sent(memory: AgentMem) -> None:
    """The replay says so, and the memory goes on working."""
    await memory.create_active_memory(_TENANT, "Boats", "The boat is in Bergen.")

    async def read() -> None:
        await _titles(memory)

    await _prepare(read)

    async def write() -> None:
        await memory.create_active_memory(_TENANT, "Ships", "The ship is in Porto.")

    with replayable():
        recorded = await record(read)
        with pytest.raises(NotRecordedError):
            await replay((write, recorded), (read, recorded))

    assert await _titles(memory) == ["Boats"]
    await write()
    assert await _titles(memory) == ["Boats", "Ships"]


async def test_an_error_of_a_recorded_call_is_raised(memory: AgentMem) -> None:
    """A call that failed has no answers to be given again."""
    with replayable(), pytest.raises(ReminiscenceError):
        await record(lambda: memory.create_active_memory(_TENANT, "", ""))


async def _prepare(call: Callable[[], Awaitable[object]]) -> None:
    """Have several connections prepare the statements of a call: the first time, they are sent in other groups."""
    await asyncio.gather(*(call() for _ in range(4)))


async def _titles(memory: AgentMem) -> list[str]:
    return [one.title for one in await memory.get_active_memories(_TENANT)]


async def _only(memory: AgentMem) -> ActiveMemory:
    (one,) = await memory.get_active_memories(_TENANT)
    return one
