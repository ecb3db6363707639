"""Many creations in one transaction: all of them once, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import get_args

import pytest

from agent_reminiscence import AgentMem, Config
from agent_reminiscence.resilience import retries
from agent_reminiscence.services.ledger.requests import CreateRequest
from tests.conftest import TestServer, dsn
from tests.support.proxy import FaultyProxy, Loss


def _creation(content: str, external_id: str = "agent-1") -> CreateRequest:
    return CreateRequest(
        external_id=external_id,
        title="Note",
        content=content,
        description=None,
        metadata={},
        idempotency_key=content[:20],
    )


async def test_no_creations_write_nothing(memory: AgentMem) -> None:
    """An empty batch needs no stream."""
    assert await memory._ready().services.manager.add_new([]) == ([], 0)
    assert await memory.ledger.head("agent-1") == 0


async def test_equal_keys_of_a_batch_are_written_once(memory: AgentMem) -> None:
    """As one call after the other would: the second is known by then."""
    first, second = _creation("A gate is green."), _creation("A door is red.")

    added, missing = await memory._ready().services.manager.add_new([first, second, first])

    assert [one.added for one in added] == [True, True, False]
    assert added[0].memory_id == added[2].memory_id
    assert missing == 0
    assert await memory.ledger.head("agent-1") == 2
    assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
@pytest.mark.parametrize("loss", get_args(Loss))
async def test_a_batch_is_written_once_wherever_the_connection_breaks(
    test_server: TestServer,
    database: str,
    config: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
    loss: Loss,
) -> None:
    """It is made again until it is there, and what an earlier attempt has written counts as added."""
    monkeypatch.setattr(retries, "RETRY_FIRST_WAIT_SECONDS", 0.001)
    address = test_server.address
    async with (
        FaultyProxy(address.host, address.port) as proxy,
        AgentMem(config(postgres_dsn=dsn(proxy.settings(test_server.login(database))), worker=False)) as memory,
    ):
        for message in count(1):
            tenant = f"agent-{message}"
            requests = [_creation(f"Lamp {number}.", tenant) for number in range(3)]
            await memory.create_active_memory(tenant, "Note", "The first lamp.")
            proxy.cut_at(message, loss)
            added, _ = await memory._ready().services.manager.add_new(requests)
            was_cut = proxy.cuts == 1
            proxy.cut_at(0, loss)
            assert [one.added for one in added] == [True] * 3
            assert await memory.ledger.head(tenant) == 4
            if not was_cut:
                break
