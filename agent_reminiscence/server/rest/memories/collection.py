"""All memories of a tenant: new ones, and lists."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from fastapi import Query, Request
from starlette.responses import Response

from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.exceptions import InvalidInputError, MemoryNotFoundError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.rest.fields import Id, Moment, as_filter, read_where
from agent_reminiscence.server.rest.memories.answers import CREATED, created
from agent_reminiscence.server.rest.memories.bodies import MemoryCreate, MemoryPage
from agent_reminiscence.server.rest.routes import IdempotencyKey, Memory, Tenant, as_json, operations, says

MAX_PAGE: Final = 200
_PAGE: Final = 50

router = operations("memories")


@router.post("/memories", **CREATED)
async def create_memory(
    request: Request, memory: Memory, tenant: Tenant, body: MemoryCreate, idempotency_key: IdempotencyKey = None
) -> Response:
    """Remember a text. It is stored verbatim, and can be found as soon as this returns."""
    made = await memory.create_active_memory(tenant, **body.given(), idempotency_key=idempotency_key)
    return created(request, made)


@router.get("/memories", response_model=MemoryPage, **says(Scope.READ, MemoryNotFoundError))
async def list_memories(
    memory: Memory,
    tenant: Tenant,
    key: Annotated[Id | None, Query(description="Only the memory with this key.")] = None,
    key_prefix: Annotated[Id | None, Query(description="Only memories whose key begins with this.")] = None,
    where: Annotated[
        str | None,
        Query(
            description='A filter as JSON, such as `{"actors": ["bot"]}`; not with a time.',
            json_schema_extra={
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": "#/components/schemas/Where"},
            },
        ),
    ] = None,
    as_of: Annotated[Moment | None, Query(description="As true in the world at this time.")] = None,
    known_at: Annotated[Moment | None, Query(description="As the memory knew at this time.")] = None,
    after: Annotated[UUID | None, Query(description="Only memories after this one: `next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="At most this many.")] = _PAGE,
) -> Response:
    """Active memories, oldest first, in pages; or those that were active at an earlier time.

    Later writes do not change the order, so no page repeats or skips a memory. A time reads all memories of that time
    for each page.
    """
    if as_of is None and known_at is None:
        found = await memory.get_active_memories(
            tenant,
            keys=None if key is None else [key],
            key_prefix=key_prefix,
            where=as_filter(None if where is None else read_where(where)),
            after=after,
            limit=limit + 1,
        )
    else:
        if where is not None:
            raise InvalidInputError("where cannot be combined with as_of or known_at; leave out one of them")
        then = await memory.admin.active_memories(tenant, as_of=as_of, known_at=known_at, key=key)
        then = [one for one in then if key_prefix is None or (one.key or "").startswith(key_prefix)]
        found = _after(tenant, then, after)[: limit + 1]
    page = tuple(found[:limit])
    return as_json(MemoryPage(memories=page, next=page[-1].id if len(found) > limit else None))


def _after(tenant: str, memories: list[ActiveMemory], after: UUID | None) -> list[ActiveMemory]:
    if after is None:
        return memories
    for index, one in enumerate(memories):
        if one.id == after:
            return memories[index + 1 :]
    raise MemoryNotFoundError(tenant, after)
