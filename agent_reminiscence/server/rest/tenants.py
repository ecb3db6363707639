"""Whose memories the server holds, for whoever runs it."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from agent_reminiscence.domain.usage import TenantOverview
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.rest.fields import Id
from agent_reminiscence.server.rest.routes import Memory, as_json, operations, says_of_server

router = operations("tenants")

_MOST: Final = 500


class TenantPage(BaseModel):
    """Some tenants, in the database's order of texts."""

    tenants: tuple[TenantOverview, ...]
    next: str | None = Field(description="What to pass as `after` for the next page; null: this is the last one.")


@router.get("/tenants", response_model=TenantPage, **says_of_server(Scope.ADMIN))
async def list_tenants(
    memory: Memory,
    after: Annotated[Id | None, Query(description="Only those behind this one.")] = None,
    limit: Annotated[int, Query(ge=1, le=_MOST, description="At most this many.")] = 100,
) -> Response:
    """The tenants that have events, also those of whom everything was erased.

    Takes a credential of the whole server, with `memory:admin` and `memory:delegate`; one of a tenant is refused.
    """
    found = await memory.admin.tenants(after=after, limit=limit + 1)
    page = found[:limit]
    return as_json(TenantPage(tenants=tuple(page), next=page[-1].external_id if len(found) > limit else None))
