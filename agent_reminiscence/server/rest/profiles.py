"""Standing summaries: texts about a tenant, or a topic, that keep themselves up to date."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from agent_reminiscence.domain.payloads import ProfileRefresh
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.exceptions import (
    AgentError,
    CommitUnknownError,
    ProfileNotFoundError,
    RedactionError,
)
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.rest.fields import (
    MAX_PROFILE_TOKENS,
    MIN_PROFILE_TOKENS,
    MIN_REFRESH_TOKENS,
    Body,
    Id,
    Moment,
    Number,
    Question,
)
from agent_reminiscence.server.rest.routes import NO_SUCH_PATH, Memory, Tenant, as_json, operations, says

router = operations("profiles")

ProfileName = Annotated[Id, Path(description="What it is called; write / as %2F.")]


class ProfileDefinition(Body):
    """What a profile answers, and when it is written again."""

    question: Question = Field(description="What the text answers; a new question discards the former text.")
    refresh: ProfileRefresh = Field(
        default="consolidation",
        description="`consolidation`: written again after each. `daily`: once a day. Both only if memory has changed.",
    )
    max_tokens: Annotated[Number, Field(ge=MIN_PROFILE_TOKENS, le=MAX_PROFILE_TOKENS)] = Field(
        default=500, description="The longest text, in estimated tokens."
    )
    refresh_tokens: Annotated[Number, Field(ge=MIN_REFRESH_TOKENS)] | None = Field(
        default=None, description="How many tokens a model may use for one text; null: as configured."
    )
    actor: Id | None = Field(default=None, description="Who defines it.")


class ProfileList(BaseModel):
    """A tenant's profiles, by name."""

    profiles: tuple[Profile, ...]


class RemovedProfile(BaseModel):
    """A profile that is no longer updated."""

    name: str


@router.get("/profiles", response_model=ProfileList, **says(Scope.READ))
async def list_profiles(memory: Memory, tenant: Tenant) -> Response:
    """All profiles, by name."""
    return as_json(ProfileList(profiles=tuple(await memory.admin.profiles.list(tenant))))


@router.post(
    "/profiles/{name:path}/refresh",
    response_model=Profile,
    **says(Scope.WRITE, ProfileNotFoundError, AgentError, CommitUnknownError, kinds=NO_SUCH_PATH),
)
async def refresh_profile(memory: Memory, tenant: Tenant, name: ProfileName) -> Response:
    """Write a profile's text now, even if memory has not changed; asks a model if the server has one for it."""
    return as_json(await memory.admin.profiles.refresh(tenant, name))


@router.get(
    "/profiles/{name:path}", response_model=Profile, **says(Scope.READ, ProfileNotFoundError, kinds=NO_SUCH_PATH)
)
async def get_profile(
    memory: Memory,
    tenant: Tenant,
    name: ProfileName,
    known_at: Annotated[Moment | None, Query(description="As recorded by this time; by default as it is.")] = None,
) -> Response:
    """A profile with its text, as it is or as it was."""
    return as_json(await memory.admin.profiles.get(tenant, name, known_at=known_at))


@router.put(
    "/profiles/{name:path}",
    response_model=Profile,
    **says(Scope.WRITE, RedactionError, CommitUnknownError, kinds=NO_SUCH_PATH),
)
async def put_profile(memory: Memory, tenant: Tenant, name: ProfileName, body: ProfileDefinition) -> Response:
    """Define a profile, or change one. A worker writes its text soon after, and again when memory has changed.

    If it is defined like this already, nothing is written.
    """
    return as_json(await memory.admin.profiles.define(tenant, name, **body.given()))


@router.delete(
    "/profiles/{name:path}",
    response_model=RemovedProfile,
    **says(Scope.WRITE, ProfileNotFoundError, CommitUnknownError, kinds=NO_SUCH_PATH),
)
async def remove_profile(
    memory: Memory,
    tenant: Tenant,
    name: ProfileName,
    actor: Annotated[Id | None, Query(description="Who removes it.")] = None,
) -> Response:
    """Remove a profile: it is no longer updated. Its texts stay for `known_at` an earlier time."""
    await memory.admin.profiles.remove(tenant, name, actor=actor)
    return as_json(RemovedProfile(name=name))
