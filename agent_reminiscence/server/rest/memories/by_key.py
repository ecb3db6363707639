"""Memories by your own names. A key may hold any characters, also slashes, so it stands in the query."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from agent_reminiscence.exceptions import MemoryNotFoundError
from agent_reminiscence.server.rest.fields import Id
from agent_reminiscence.server.rest.memories.answers import (
    APPENDED,
    ARCHIVED,
    CHANGED,
    GOT,
    PUT,
    ArchivedAt,
    ArchivedBy,
    append,
    change,
    created,
)
from agent_reminiscence.server.rest.memories.bodies import MemoryAddition, MemoryChange, MemoryPut
from agent_reminiscence.server.rest.routes import IdempotencyKey, IfMatch, Memory, Tenant, as_memory, operations

Key = Annotated[Id, Query(description="Your own name for the memory.")]

router = operations("memories")


@router.get("/memories/by-key", **GOT)
async def get_memory_by_key(memory: Memory, tenant: Tenant, key: Key) -> Response:
    """The active memory that has a key."""
    found = await memory.get_active_memories(tenant, keys=[key])
    if not found:
        raise MemoryNotFoundError(tenant, key=key)
    return as_memory(found[0])


@router.put("/memories/by-key", **PUT)
async def put_memory(
    request: Request,
    memory: Memory,
    tenant: Tenant,
    key: Key,
    body: MemoryPut,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Make the memory with a key what is sent: create it, or replace its title, content, description, metadata and end.

    If they are the same already, nothing is written, and `write` is null.
    """
    put = await memory.create_active_memory(
        tenant, **body.given(), key=key, if_exists="update", idempotency_key=idempotency_key
    )
    return created(request, put)


@router.patch("/memories/by-key", **CHANGED)
async def change_memory_by_key(
    memory: Memory,
    tenant: Tenant,
    key: Key,
    body: MemoryChange,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Change the active memory that has a key, as `PATCH /v1/memories/{memory_id}` does."""
    return await change(memory, tenant, body, if_match, idempotency_key, key=key)


@router.delete("/memories/by-key", **ARCHIVED)
async def archive_memory_by_key(
    memory: Memory,
    tenant: Tenant,
    key: Key,
    end_chunks: Annotated[bool, Query(description="Also end its passages.")] = False,
    occurred_at: ArchivedAt = None,
    actor: ArchivedBy = None,
) -> Response:
    """Archive the active memory that has a key, as `DELETE /v1/memories/{memory_id}` does."""
    return as_memory(
        await memory.admin.archive(tenant, key=key, end_chunks=end_chunks, occurred_at=occurred_at, actor=actor)
    )


@router.post("/memories/by-key/append", **APPENDED)
async def append_to_memory_by_key(
    memory: Memory,
    tenant: Tenant,
    key: Key,
    body: MemoryAddition,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Append to the active memory that has a key, as `POST /v1/memories/{memory_id}/append` does."""
    return await append(memory, tenant, body, if_match, idempotency_key, key=key)
