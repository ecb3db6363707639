"""Memories: created, put, appended to, changed, read, listed, archived, and their history."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.graph import Subgraph
from agent_reminiscence.domain.history import MemoryHistory
from agent_reminiscence.domain.memory import ActiveMemory, IfExists
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    IdempotencyConflictError,
    InvalidInputError,
    MemoryExistsError,
    MemoryNotFoundError,
    QuotaExceededError,
    RedactionError,
    VersionConflictError,
)
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.problems import ProblemError
from agent_reminiscence.server.rest.fields import (
    MAX_DESCRIPTION_CHARACTERS,
    Body,
    Id,
    JsonObject,
    Language,
    Moment,
    Text,
    Title,
    TurnGiven,
    as_filter,
    one_of,
    read_where,
)
from agent_reminiscence.server.rest.routes import (
    ETAG,
    LOCATION,
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

MAX_PAGE: Final = 200
_PAGE: Final = 50

# Of every write.
_WRITES: Final = (QuotaExceededError, RedactionError, IdempotencyConflictError, CommitUnknownError)

Key = Annotated[Id, Query(description="Your own name for the memory.")]

router = operations("memories")


class _Described(Body):
    """What every write may say of itself."""

    occurred_at: Moment | None = Field(default=None, description="When it was true in the world; null: now.")
    actor: Id | None = Field(default=None, description="The agent, user or tool that causes the write.")
    conversation_id: Id | None = Field(default=None, description="The conversation it belongs to.")
    source: Source = Field(default="user", description="Its trust label.")


class MemoryPut(_Described):
    """A whole memory."""

    title: Title = Field(description="Indexed with every passage.")
    content: Text
    description: str | None = Field(
        default=None, max_length=MAX_DESCRIPTION_CHARACTERS, description="Stored, not searched."
    )
    metadata: JsonObject | None = Field(
        default=None,
        description="`speaker` names the speaker of the whole text; `turns`, a list of objects with `start` and"
        " `speaker`, marks where each turn begins.",
    )
    language: Language | None = Field(
        default=None, description="As ISO 639-1, such as `de`; null: the setting, or what the text shows."
    )


class MemoryCreate(MemoryPut):
    """A memory to create."""

    key: Id | None = Field(
        default=None,
        description="Your own name for it; no other active memory may have it, and it does not begin with"
        " `conversation/`.",
    )
    if_exists: IfExists = Field(
        default="error",
        description="If an active memory has the key: `error` refuses, `update` makes it what this request would have"
        " created, `return` leaves it as it is.",
    )


class MemoryChange(_Described):
    """What to change; a field that is left out stays as it is."""

    title: Title = Field(default_factory=str)
    content: Text = Field(
        default_factory=str, description="Unchanged passages keep their chunks, importance and dates."
    )
    description: str | None = Field(default=None, max_length=MAX_DESCRIPTION_CHARACTERS, description="null removes it.")
    metadata: JsonObject | None = Field(
        default=None, description="Replaces all of the old; null empties it. `turns` stay as long as the text does."
    )
    language: Language | None = Field(
        default=None, description="From now on, unchanged passages included; null keeps it."
    )


class MemoryAddition(_Described):
    """What to add at the end of a memory's text: either a text or turns."""

    model_config = ConfigDict(json_schema_extra=one_of(text="string", turns="array"))

    text: Text | None = Field(default=None, description="Begins a new paragraph.")
    turns: list[TurnGiven] | None = Field(
        default=None, min_length=1, description="A turn with an id that the memory holds already is left out."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> MemoryAddition:
        if (self.text is None) == (self.turns is None):
            raise ValueError("pass either text or turns")
        return self

    def addition(self) -> str | list[dict[str, Any]]:
        """What the memory takes."""
        return [turn.model_dump() for turn in self.turns or ()] if self.text is None else self.text


class MemoryPage(BaseModel):
    """Some memories, oldest first."""

    memories: tuple[ActiveMemory, ...]
    next: UUID | None = Field(description="Pass it as `after` for the next page; null: this is the last one.")


# By key -----------------------------------------------------------------------------------------------------------
# A key may hold any characters, also slashes, so it stands in the query.


@router.get(
    "/memories/by-key",
    response_model=ActiveMemory,
    **says(Scope.READ, MemoryNotFoundError, responses={200: {"headers": ETAG}}),
)
async def get_memory_by_key(memory: Memory, tenant: Tenant, key: Key) -> Response:
    """The active memory that has a key."""
    found = await memory.get_active_memories(tenant, keys=[key])
    if not found:
        raise MemoryNotFoundError(tenant, key=key)
    return as_memory(found[0])


@router.put(
    "/memories/by-key",
    response_model=ActiveMemory,
    **says(
        Scope.WRITE,
        *_WRITES,
        responses={
            200: {"description": "The memory was there; it is now as sent.", "headers": ETAG},
            201: {"description": "The memory is new.", "model": ActiveMemory, "headers": ETAG | LOCATION},
        },
    ),
)
async def put_memory(
    request: Request,
    memory: Memory,
    tenant: Tenant,
    key: Key,
    body: MemoryPut,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Make the memory with a key what is sent: create it, or replace its title, content, description and metadata.

    If they are the same already, nothing is written, and `write` is null.
    """
    put = await memory.create_active_memory(
        tenant, **body.given(), key=key, if_exists="update", idempotency_key=idempotency_key
    )
    return _created(request, put)


@router.patch(
    "/memories/by-key",
    response_model=ActiveMemory,
    **says(
        Scope.WRITE,
        *_WRITES,
        MemoryNotFoundError,
        VersionConflictError,
        kinds=[(428, "precondition-required")],
        responses={200: {"headers": ETAG}},
    ),
)
async def change_memory_by_key(
    memory: Memory,
    tenant: Tenant,
    key: Key,
    body: MemoryChange,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Change the active memory that has a key, as `PATCH /v1/memories/{memory_id}` does."""
    return await _change(memory, tenant, {"key": key}, body, if_match, idempotency_key)


@router.delete(
    "/memories/by-key",
    response_model=ActiveMemory,
    **says(
        Scope.WRITE,
        MemoryNotFoundError,
        CommitUnknownError,
        responses={200: {"headers": ETAG}},
    ),
)
async def archive_memory_by_key(
    memory: Memory,
    tenant: Tenant,
    key: Key,
    end_chunks: Annotated[bool, Query(description="Also end its passages.")] = False,
    occurred_at: Annotated[Moment | None, Query(description="When this happened in the world.")] = None,
    actor: Annotated[Id | None, Query(description="Who archives it.")] = None,
) -> Response:
    """Archive the active memory that has a key, as `DELETE /v1/memories/{memory_id}` does."""
    return as_memory(
        await memory.admin.archive(tenant, key=key, end_chunks=end_chunks, occurred_at=occurred_at, actor=actor)
    )


@router.post(
    "/memories/by-key/append",
    response_model=ActiveMemory,
    **says(
        Scope.WRITE,
        *_WRITES,
        MemoryNotFoundError,
        VersionConflictError,
        responses={200: {"headers": ETAG}},
    ),
)
async def append_to_memory_by_key(
    memory: Memory,
    tenant: Tenant,
    key: Key,
    body: MemoryAddition,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Append to the active memory that has a key, as `POST /v1/memories/{memory_id}/append` does."""
    return await _append(memory, tenant, {"key": key}, body, if_match, idempotency_key)


# Of all -----------------------------------------------------------------------------------------------------------


@router.post(
    "/memories",
    status_code=201,
    response_model=ActiveMemory,
    **says(
        Scope.WRITE,
        *_WRITES,
        MemoryExistsError,
        responses={
            200: {
                "description": "An active memory had the key, and `if_exists` was `update` or `return`.",
                "model": ActiveMemory,
                "headers": ETAG,
            },
            201: {
                "description": "The memory is new.",
                "headers": ETAG | LOCATION,
            },
        },
    ),
)
async def create_memory(
    request: Request, memory: Memory, tenant: Tenant, body: MemoryCreate, idempotency_key: IdempotencyKey = None
) -> Response:
    """Remember a text. It is stored verbatim, and can be found as soon as this returns."""
    made = await memory.create_active_memory(tenant, **body.given(), idempotency_key=idempotency_key)
    return _created(request, made)


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


# By id ------------------------------------------------------------------------------------------------------------


@router.get(
    "/memories/{memory_id}",
    response_model=ActiveMemory,
    **says(Scope.READ, MemoryNotFoundError, responses={200: {"headers": ETAG}}),
)
async def get_memory(memory: Memory, tenant: Tenant, memory_id: UUID) -> Response:
    """An active memory. Of an archived one there is the history."""
    found = await memory.get_active_memories(tenant, ids=[memory_id])
    if not found:
        raise MemoryNotFoundError(tenant, memory_id)
    return as_memory(found[0])


@router.patch(
    "/memories/{memory_id}",
    response_model=ActiveMemory,
    **says(
        Scope.WRITE,
        *_WRITES,
        MemoryNotFoundError,
        VersionConflictError,
        kinds=[(428, "precondition-required")],
        responses={200: {"headers": ETAG}},
    ),
)
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
    return await _change(memory, tenant, {"memory_id": memory_id}, body, if_match, idempotency_key)


@router.post(
    "/memories/{memory_id}/append",
    response_model=ActiveMemory,
    **says(
        Scope.WRITE,
        *_WRITES,
        MemoryNotFoundError,
        VersionConflictError,
        responses={200: {"headers": ETAG}},
    ),
)
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
    return await _append(memory, tenant, {"memory_id": memory_id}, body, if_match, idempotency_key)


@router.delete(
    "/memories/{memory_id}",
    response_model=ActiveMemory,
    **says(
        Scope.WRITE,
        MemoryNotFoundError,
        CommitUnknownError,
        responses={200: {"headers": ETAG}},
    ),
)
async def archive_memory(
    memory: Memory,
    tenant: Tenant,
    memory_id: UUID,
    end_chunks: Annotated[
        bool, Query(description="Also end its passages, so that only searches `as_of` an earlier time find them.")
    ] = False,
    occurred_at: Annotated[Moment | None, Query(description="When this happened in the world.")] = None,
    actor: Annotated[Id | None, Query(description="Who archives it.")] = None,
) -> Response:
    """Archive a memory: it leaves the active list and takes no more updates. Nothing is erased."""
    return as_memory(
        await memory.admin.archive(tenant, memory_id, end_chunks=end_chunks, occurred_at=occurred_at, actor=actor)
    )


@router.get("/memories/{memory_id}/history", response_model=MemoryHistory, **says(Scope.READ, MemoryNotFoundError))
async def get_history(memory: Memory, tenant: Tenant, memory_id: UUID) -> Response:
    """Every version of a memory, archived or not, oldest first, and what was derived from each."""
    return as_json(await memory.admin.history(tenant, memory_id))


@router.get("/memories/{memory_id}/graph", response_model=Subgraph, **says(Scope.READ, MemoryNotFoundError))
async def get_memory_graph(memory: Memory, tenant: Tenant, memory_id: UUID) -> Response:
    """The entities that a memory names, and how they are related today."""
    return as_json(await memory.admin.graph.subgraph(tenant, memory_id))


# Shared -----------------------------------------------------------------------------------------------------------


def _created(request: Request, memory: ActiveMemory) -> Response:
    """The answer to a creation: 201 only if there was no such memory before."""
    if memory.version > 1 or memory.write is None:
        return as_memory(memory)
    # A proxy may have put all paths below one of its own.
    prefix = request.scope.get("root_path", "").rstrip("/")
    return as_memory(memory, 201, {"Location": f"{prefix}/v1/memories/{memory.id}"})


async def _change(
    memory: AgentMem,
    tenant: str,
    named: dict[str, Any],
    body: MemoryChange,
    if_match: str | None,
    idempotency_key: str | None,
) -> Response:
    if if_match is None:
        # Two clients that read the same version would otherwise overwrite each other without noticing.
        raise ProblemError(
            428,
            "precondition-required",
            'send If-Match with the version that you read, such as "3", or * to change whatever is there',
        )
    changed = await memory.update_active_memory(
        tenant,
        **named,
        **body.given(),
        expected_version=expected_version(if_match),
        idempotency_key=idempotency_key,
    )
    return as_memory(changed)


async def _append(
    memory: AgentMem,
    tenant: str,
    named: dict[str, Any],
    body: MemoryAddition,
    if_match: str | None,
    idempotency_key: str | None,
) -> Response:
    described = body.given("occurred_at", "actor", "conversation_id", "source")
    grown = await memory.update_active_memory(
        tenant,
        **named,
        append=body.addition(),
        **described,
        expected_version=expected_version(if_match),
        idempotency_key=idempotency_key,
    )
    return as_memory(grown)
