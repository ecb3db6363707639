"""What operations on memories answer, whatever the memory is named by; and what those do that have a body."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypedDict, Unpack
from uuid import UUID

from fastapi import Query, Request
from starlette.responses import Response

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    IdempotencyConflictError,
    MemoryExistsError,
    MemoryNotFoundError,
    QuotaExceededError,
    RedactionError,
    VersionConflictError,
)
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.problems import ProblemError
from agent_reminiscence.server.rest.fields import Id, Moment
from agent_reminiscence.server.rest.memories.bodies import MemoryAddition, MemoryChange
from agent_reminiscence.server.rest.routes import ETAG, LOCATION, as_memory, expected_version, says

# Of every write.
_WRITES: Final = (QuotaExceededError, RedactionError, IdempotencyConflictError, CommitUnknownError)
_A_MEMORY: Final[dict[str, Any]] = {"response_model": ActiveMemory}
_ITS_VERSION: Final = {200: {"headers": ETAG}}

GOT: Final = _A_MEMORY | says(Scope.READ, MemoryNotFoundError, responses=_ITS_VERSION)
CREATED: Final = (
    _A_MEMORY
    | {"status_code": 201}
    | says(
        Scope.WRITE,
        *_WRITES,
        MemoryExistsError,
        responses={
            200: {
                "description": "An active memory had the key, and `if_exists` was `update` or `return`.",
                "model": ActiveMemory,
                "headers": ETAG,
            },
            201: {"description": "The memory is new.", "headers": ETAG | LOCATION},
        },
    )
)
PUT: Final = _A_MEMORY | says(
    Scope.WRITE,
    *_WRITES,
    responses={
        200: {"description": "The memory was there; it is now as sent.", "headers": ETAG},
        201: {"description": "The memory is new.", "model": ActiveMemory, "headers": ETAG | LOCATION},
    },
)
CHANGED: Final = _A_MEMORY | says(
    Scope.WRITE,
    *_WRITES,
    MemoryNotFoundError,
    VersionConflictError,
    kinds=[(428, "precondition-required")],
    responses=_ITS_VERSION,
)
APPENDED: Final = _A_MEMORY | says(
    Scope.WRITE, *_WRITES, MemoryNotFoundError, VersionConflictError, responses=_ITS_VERSION
)
UNARCHIVED: Final = _A_MEMORY | says(
    Scope.WRITE,
    MemoryNotFoundError,
    MemoryExistsError,
    QuotaExceededError,
    CommitUnknownError,
    responses=_ITS_VERSION,
)
ARCHIVED: Final = _A_MEMORY | says(Scope.WRITE, MemoryNotFoundError, CommitUnknownError, responses=_ITS_VERSION)

ArchivedAt = Annotated[Moment | None, Query(description="When this happened in the world.")]
ArchivedBy = Annotated[Id | None, Query(description="Who archives it.")]


class Named(TypedDict, total=False):
    """Which memory: one of these."""

    key: str
    memory_id: UUID


def created(request: Request, memory: ActiveMemory) -> Response:
    """The answer to a creation: 201 only if there was no such memory before."""
    if memory.version > 1 or memory.write is None:
        return as_memory(memory)
    # A proxy may have put all paths below one of its own.
    prefix = request.scope.get("root_path", "").rstrip("/")
    return as_memory(memory, 201, {"Location": f"{prefix}/v1/memories/{memory.id}"})


def require_version(if_match: str | None) -> None:
    """Refuse a change that names no version.

    Raises:
        ProblemError: 428.
    """
    if if_match is None:
        # Two clients that read the same version would otherwise overwrite each other without noticing.
        raise ProblemError(
            428,
            "precondition-required",
            'send If-Match with the version that you read, such as "3", or * to change whatever is there',
        )


async def change(
    memory: AgentMem,
    tenant: str,
    body: MemoryChange,
    if_match: str | None,
    idempotency_key: str | None,
    **named: Unpack[Named],
) -> Response:
    """Change a memory; the answer is what it is then."""
    require_version(if_match)
    changed = await memory.update_active_memory(
        tenant,
        **named,
        **body.given(),
        expected_version=expected_version(if_match),
        idempotency_key=idempotency_key,
    )
    return as_memory(changed)


async def append(
    memory: AgentMem,
    tenant: str,
    body: MemoryAddition,
    if_match: str | None,
    idempotency_key: str | None,
    **named: Unpack[Named],
) -> Response:
    """Append to a memory; the answer is what it is then."""
    grown = await memory.update_active_memory(
        tenant,
        **named,
        append=body.addition(),
        **body.given("occurred_at", "actor", "conversation_id", "source"),
        expected_version=expected_version(if_match),
        idempotency_key=idempotency_key,
    )
    return as_memory(grown)
