"""Blocking and asynchronous calls, from every loop and thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp

from agent_reminiscence import AgentMem, Config, NotInitializedError
from agent_reminiscence.integrations.langgraph import ReminiscenceStore
from agent_reminiscence.sync import AgentMem as BlockingAgentMem

HOME = ("users", "ana")


def use_without_await(store: ReminiscenceStore, key: str) -> list[dict[str, Any]]:
    """All blocking calls; returns the values that a search found."""
    store.put(HOME, key, {"text": f"I drink green tea, says {key}."})
    item = store.get(HOME, key)
    assert item is not None
    assert store.list_namespaces(prefix=("users",)) == [HOME]
    found = [one.value for one in store.search(HOME, query=f"green tea {key}") if one.key == key]
    store.delete(HOME, key)
    assert store.get(HOME, key) is None
    return found


async def test_a_blocking_call_in_the_memorys_own_loop_is_refused(memory: AgentMem) -> None:
    """It would wait for itself forever; LangGraph's own stores raise the same."""
    store = ReminiscenceStore(memory, external_id="ana")

    for call in (
        lambda: store.get(HOME, "k"),
        lambda: store.put(HOME, "k", {"n": 1}),
        lambda: store.search(HOME),
        lambda: store.delete(HOME, "k"),
        store.list_namespaces,
        lambda: store.batch([PutOp(HOME, "k", {"n": 1})]),
    ):
        with pytest.raises(asyncio.InvalidStateError, match=r"`await store.aget\(...\)` for `store.get\(...\)`"):
            call()
    assert await store.aget(HOME, "k") is None


async def test_blocking_calls_of_other_threads_run_in_the_memorys_loop(memory: AgentMem) -> None:
    """Any number of them at once: LangGraph runs nodes that do not await in threads."""
    store = ReminiscenceStore(memory, external_id="ana")

    found = await asyncio.gather(*(asyncio.to_thread(use_without_await, store, f"t{number}") for number in range(4)))

    assert [len(one) for one in found] == [1, 1, 1, 1]


async def test_another_loop_reaches_the_memory_in_its_own(memory: AgentMem) -> None:
    """A program may have several loops; a memory belongs to one."""
    store = ReminiscenceStore(memory, external_id="ana")

    async def elsewhere() -> Any:
        await store.aput(HOME, "k", {"n": 1})
        # Blocks that loop and no other.
        return store.get(HOME, "k")

    item = await asyncio.to_thread(asyncio.run, elsewhere())

    assert item.value == {"n": 1}


def test_a_store_made_without_a_loop_learns_it_from_its_first_call(config: Callable[..., Config]) -> None:
    """No running loop: before that call, and after the loop has ended, a blocking call says what is wrong."""
    memory = AgentMem(config())
    store = ReminiscenceStore(memory, external_id="ana")
    with pytest.raises(asyncio.InvalidStateError, match="does not know the event loop of its memory"):
        store.get(HOME, "k")

    async def use(value: dict[str, Any]) -> Any:
        async with memory:
            await store.aput(HOME, "k", value)
            return await asyncio.to_thread(store.get, HOME, "k")

    assert asyncio.run(use({"n": 1})).value == {"n": 1}
    with pytest.raises(asyncio.InvalidStateError, match="no longer runs"):
        store.get(HOME, "k")
    # The memory may be opened again, in another loop.
    assert asyncio.run(use({"n": 2})).value == {"n": 2}


def test_no_call_waits_for_a_loop_that_was_stopped(config: Callable[..., Config]) -> None:
    """Nor an awaited one, in another loop: it is refused, and nothing hangs."""
    loop = asyncio.new_event_loop()
    memory = AgentMem(config())

    async def begin() -> ReminiscenceStore:
        await memory.initialize()
        return ReminiscenceStore(memory, external_id="ana")

    try:
        store = loop.run_until_complete(begin())

        async def elsewhere() -> None:
            with pytest.raises(asyncio.InvalidStateError, match="no longer runs"):
                await asyncio.wait_for(store.aget(HOME, "k"), 60)

        asyncio.run(elsewhere())
        with pytest.raises(asyncio.InvalidStateError, match="no longer runs"):
            store.get(HOME, "k")
        assert loop.run_until_complete(store.aget(HOME, "k")) is None
    finally:
        loop.run_until_complete(memory.close())
        loop.close()


def test_the_blocking_memory_serves_blocking_calls_of_any_thread(config: Callable[..., Config]) -> None:
    """Without any loop of the program."""
    with BlockingAgentMem(config()) as memory:
        store = ReminiscenceStore(memory, external_id="ana")
        assert len(use_without_await(store, "main")) == 1
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda name: use_without_await(store, name), ["a", "b", "c", "d"]))
        assert [len(one) for one in found] == [1, 1, 1, 1]
    with pytest.raises(NotInitializedError):
        store.get(HOME, "k")


async def test_the_blocking_memory_serves_awaited_calls_without_blocking_the_loop(
    config: Callable[..., Config],
) -> None:
    """They wait in a thread; a blocking call is possible too, because the memory's loop is another one."""
    memory = await asyncio.to_thread(BlockingAgentMem, config())
    await asyncio.to_thread(memory.initialize)
    try:
        store = ReminiscenceStore(memory, scope=1, erase_on_delete=True)
        await store.aput(HOME, "k", {"text": "I drink green tea."})
        results = await store.abatch([GetOp(HOME, "k"), PutOp(HOME, "k", None)])
        assert results[0].value == {"text": "I drink green tea."}
        assert store.get(HOME, "k") is None
    finally:
        await asyncio.to_thread(memory.close)
