"""Whose memories a database holds, for those who may choose."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.usage import TenantOverview

_PAGE: Final = 1_000
# A name that stands further back is typed.
_MOST_READ: Final = 20_000


async def known_tenants(memory: AgentMem, *, containing: str | None = None, limit: int) -> list[TenantOverview]:
    """The first tenants that have events, in the database's order.

    Args:
        containing: Only those with this in their name, in any case.
    """
    found: list[TenantOverview] = []
    async for tenant in _all(memory):
        if containing is None or containing.casefold() in tenant.external_id.casefold():
            found.append(tenant)
        if len(found) == limit:
            break
    return found


async def _all(memory: AgentMem) -> AsyncIterator[TenantOverview]:
    after: str | None = None
    for _ in range(_MOST_READ // _PAGE):
        page = await memory.admin.tenants(after=after, limit=_PAGE)
        for tenant in page:
            yield tenant
        if len(page) < _PAGE:
            return
        after = page[-1].external_id
