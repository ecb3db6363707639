"""Lost connections and cancelled calls: each item is as it was or as it was put."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import count
from typing import get_args

import pytest
from langgraph.store.base import PutOp

from agent_reminiscence import AgentMem, Config, StoreError
from agent_reminiscence.integrations.langgraph import ReminiscenceStore
from agent_reminiscence.resilience import retries
from tests.conftest import TestServer, dsn
from tests.support.proxy import FaultyProxy, Loss

HOME = ("home",)


@pytest.fixture
async def proxy(test_server: TestServer) -> AsyncIterator[FaultyProxy]:
    """A way to the server on which things get lost."""
    address = test_server.administrator("postgres")
    async with FaultyProxy(address.host, address.port) as opened:
        yield opened


@pytest.fixture
def behind_proxy(
    config: Callable[..., Config], proxy: FaultyProxy, test_server: TestServer, database: str
) -> Callable[..., Config]:
    """Makes a `Config` that goes by way of the proxy."""

    def make(**settings: object) -> Config:
        return config(postgres_dsn=dsn(proxy.settings(test_server.login(database))), **settings)

    return make


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries that follow each other at once."""
    monkeypatch.setattr(retries, "RETRY_FIRST_WAIT_SECONDS", 0.001)


@pytest.mark.parametrize("loss", get_args(Loss))
async def test_a_cut_at_any_message_loses_no_item(
    behind_proxy: Callable[..., Config], proxy: FaultyProxy, hurried: None, loss: Loss
) -> None:
    """Puts are made again by themselves, each once; a deletion may fail, and is made again by the caller."""
    async with AgentMem(behind_proxy()) as memory:
        # Every third message: a call of the memory is cut at every one of its own in tests/acceptance/test_faults.py.
        for message in count(2 if loss == "message" else 3, 3):
            tenant = f"tenant-{message}"
            store = ReminiscenceStore(memory, external_id=tenant)
            await store.abatch([PutOp(HOME, "old", {"n": 1}), PutOp(HOME, "gone", {"n": 1})])
            ops = [PutOp(HOME, "old", {"n": 2}), PutOp(HOME, "new", {"n": 3}), PutOp(HOME, "gone", None)]
            proxy.cut_at(message, loss)
            try:
                await store.abatch(ops)
            except StoreError:
                await store.adelete(HOME, "gone")
            was_cut = proxy.cuts == 1
            proxy.cut_at(0, loss)

            found = {item.key: item.value for item in await store.asearch(())}
            assert found == {"old": {"n": 2}, "new": {"n": 3}}
            [old] = await memory.get_active_memories(tenant, keys=["langgraph/home./old"])
            assert old.version == 2
            if not was_cut:
                break
        assert message > 5
        assert (await memory.admin.verify()).ok


async def test_a_cancelled_put_is_there_or_not(memory: AgentMem) -> None:
    """Never half of it; the batch ends where it is cancelled."""
    store = ReminiscenceStore(memory, external_id="ana")
    await store.aput(HOME, "k", {"text": "before"})
    for turns in range(0, 60, 3):
        task = asyncio.create_task(store.abatch([PutOp(HOME, "k", {"text": f"after {turns}"}), PutOp(HOME, "l", {})]))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    item = await store.aget(HOME, "k")
    assert item is not None
    assert item.value["text"].startswith(("before", "after"))
    assert (await memory.admin.verify("ana")).ok
    await store.aput(HOME, "k", {"text": "at last"})
    assert [one.value for one in await store.asearch(HOME, query="at last", limit=1)] == [{"text": "at last"}]
