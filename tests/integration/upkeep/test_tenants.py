"""The tenants of a database, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from agent_reminiscence import AgentMem, InvalidInputError


async def test_tenants_are_listed_in_order_page_by_page(memory: AgentMem) -> None:
    """Each once, also those that were erased; not those that were only asked about."""
    names = [f"tenant-{number:02}" for number in range(7)]
    for name in reversed(names):
        await memory.create_active_memory(name, "Key", "The key is under the mat.")
    await memory.ledger.append(names[2], "world.observed", {"text": "It rains."})
    await memory.admin.erase(names[3])
    await memory.get_active_memories("nobody")

    everyone = await memory.admin.tenants()
    pages: list[list[str]] = []
    after: str | None = None
    while page := await memory.admin.tenants(after, 3):
        pages.append([tenant.external_id for tenant in page])
        after = page[-1].external_id

    assert [tenant.external_id for tenant in everyone] == names
    assert pages == [names[:3], names[3:6], names[6:]]
    assert [(tenant.head, tenant.live_chunks) for tenant in everyone[1:4]] == [(1, 1), (2, 1), (2, 0)]
    [event] = await memory.ledger.read(names[0])
    assert everyone[0].last_recorded_at == event.recorded_at
    assert await memory.admin.tenants("tenant-05x", limit=1) == everyone[6:]


async def test_an_empty_database_has_no_tenants(memory: AgentMem) -> None:
    """A stream that was only locked is none: a refused write leaves nothing to look at."""
    async with memory._ready().stores.postgres.transaction("locked") as db:
        await db.execute("INSERT INTO memory_stream (external_id) VALUES ('locked')")

    assert await memory.admin.tenants() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"after": ""}, "external_id must not be empty"),
        ({"limit": 0}, "limit must be from 1 to 1,000, not 0"),
        ({"limit": 1_001}, "limit must be from 1 to 1,000, not 1,001"),
        ({"limit": True}, "limit must be a whole number"),
    ],
)
async def test_a_wrong_page_is_refused(memory: AgentMem, arguments: dict[str, Any], said: str) -> None:
    """The message names the value."""
    with pytest.raises(InvalidInputError, match=said):
        await memory.admin.tenants(**arguments)
