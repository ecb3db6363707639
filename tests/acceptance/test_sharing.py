"""The memory that tests share: what it refuses, and what it does not let a test leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from agent_reminiscence import AgentMem, Config, StoreError
from tests.support.servers import BOTH_SERVERS
from tests.support.sharing import SharedMemory


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that nobody else uses."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@BOTH_SERVERS
async def test_nobody_looks_across_tenants_or_works_for_them(memory: AgentMem, tenant: str) -> None:
    """So no test can depend on what others have left in the same database."""
    await memory.create_active_memory(tenant, "Plan", "Ship on Friday")

    for look in (
        memory.admin.verify(),
        memory.admin.tenants(),
        memory.admin.jobs(),
        memory.admin.run_worker(until_idle=True),
    ):
        with pytest.raises(StoreError):
            await look

    assert (await memory.admin.verify(tenant)).ok


def test_a_test_that_leaves_a_task_running_fails(loop: asyncio.AbstractEventLoop) -> None:
    """And the task ends, so that the next test is not blamed for it."""
    shared = SharedMemory(AgentMem(Config(embedding_provider="hash")), loop)

    with pytest.raises(pytest.fail.Exception, match="left a task running"), shared.lent(patience_seconds=0):
        task = loop.create_task(asyncio.sleep(3600))

    loop.run_until_complete(asyncio.wait([task]))
    assert task.cancelled()


def test_a_test_that_closes_the_memory_fails(loop: asyncio.AbstractEventLoop) -> None:
    """All later tests would find it closed."""
    shared = SharedMemory(AgentMem(Config(embedding_provider="hash")), loop)

    with pytest.raises(pytest.fail.Exception, match="has closed the memory"), shared.lent():
        pass
