"""Memories by the ids that they get when they are created."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query
from starlette.responses import Response

from agent_reminiscence.domain.graph import Subgraph
from agent_reminiscence.domain.history import MemoryHistory
from agent_reminiscence.exceptions import MemoryNotFoundError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.rest.fields import Id
from agent_reminiscence.server.rest.memories.answers import (
    APPENDED,
    ARCHIVED,
    CHANGED,
    GOT,
    UNARCHIVED,
    ArchivedAt,
    ArchivedBy,
    append,
    change,
    require_version,
)
from agent_reminiscence.server.rest.memories.bodies import MemoryAddition, MemoryChange, VersionToRestore
from agent_reminiscence.server.rest.routes import (
    IdempotencyKey,
    IfMatch,
    Memory,
    Tenant,
    as_json,
    as_memory,
    expected_version,
    operations,
    says,
)

router = operations("memories")


@router.get("/memories/{memory_id}", **GOT)
async def get_memory(memory: Memory, tenant: Tenant, memory_id: UUID) -> Response:
    """An active memory. Of an archived or expired one there is the history."""
    found = await memory.get_active_memories(tenant, ids=[memory_id])
    if not found:
        raise MemoryNotFoundError(tenant, memory_id)
    return as_memory(found[0])


@router.patch("/memories/{memory_id}", **CHANGED)
async def change_memory(
    memory: Memory,
    tenant: Tenant,
    memory_id: UUID,
    body: MemoryChange,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Change a memory. Passages that its text no longer contains end; they are kept, and found with `as_of`.

    `If-Match` is required: with the version that you read, the change is refused if another writer was first; with `*`
    it is made whatever the version is.
    """
    return await change(memory, tenant, body, if_match, idempotency_key, memory_id=memory_id)


@router.post("/memories/{memory_id}/append", **APPENDED)
async def append_to_memory(
    memory: Memory,
    tenant: Tenant,
    memory_id: UUID,
    body: MemoryAddition,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Add a text, or turns of a conversation, at the end of a memory; nothing that stands in it changes.

    An append loses nothing of another writer's, so `If-Match` is optional.
    """
    return await append(memory, tenant, body, if_match, idempotency_key, memory_id=memory_id)


@router.delete("/memories/{memory_id}", **ARCHIVED)
async def archive_memory(
    memory: Memory,
    tenant: Tenant,
    memory_id: UUID,
    end_chunks: Annotated[
        bool, Query(description="Also end its passages, so that only searches `as_of` an earlier time find them.")
    ] = False,
    occurred_at: ArchivedAt = None,
    actor: ArchivedBy = None,
) -> Response:
    """Archive a memory: it leaves the active list and takes no more updates. Nothing is erased."""
    return as_memory(
        await memory.admin.archive(tenant, memory_id, end_chunks=end_chunks, occurred_at=occurred_at, actor=actor)
    )


@router.post("/memories/{memory_id}/unarchive", **UNARCHIVED)
async def unarchive_memory(
    memory: Memory,
    tenant: Tenant,
    memory_id: UUID,
    occurred_at: ArchivedAt = None,
    actor: Annotated[Id | None, Query(description="Who takes it back.")] = None,
) -> Response:
    """Take an archived memory back: it is active again, has its key, and takes updates.

    Passages that archiving ended come back in a new version, from now on.
    """
    return as_memory(await memory.admin.unarchive(tenant, memory_id, occurred_at=occurred_at, actor=actor))


@router.post("/memories/{memory_id}/restore", **CHANGED)
async def restore_version(
    memory: Memory,
    tenant: Tenant,
    memory_id: UUID,
    body: VersionToRestore,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Make a memory say again what it said at an earlier version, as its next one; nothing is rewritten.

    `If-Match` is required, as for a change.
    """
    require_version(if_match)
    return as_memory(
        await memory.admin.restore_version(
            tenant,
            memory_id,
            **body.given(),
            expected_version=expected_version(if_match),
            idempotency_key=idempotency_key,
        )
    )


@router.get("/memories/{memory_id}/history", response_model=MemoryHistory, **says(Scope.READ, MemoryNotFoundError))
async def get_history(memory: Memory, tenant: Tenant, memory_id: UUID) -> Response:
    """Every version of a memory, archived or not, oldest first, and what was derived from each."""
    return as_json(await memory.admin.history(tenant, memory_id))


@router.get("/memories/{memory_id}/graph", response_model=Subgraph, **says(Scope.READ, MemoryNotFoundError))
async def get_memory_graph(memory: Memory, tenant: Tenant, memory_id: UUID) -> Response:
    """The entities that a memory names, and how they are related today."""
    return as_json(await memory.admin.graph.subgraph(tenant, memory_id))
