"""Conversations, turn by turn."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from agent_reminiscence.domain.conversation_key import MAX_CONVERSATION_ID_CHARACTERS
from agent_reminiscence.domain.memory import ActiveMemory
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.domain.turn import Turn
from agent_reminiscence.exceptions import (
    CommitUnknownError,
    ConfigurationError,
    InvalidInputError,
    QuotaExceededError,
    RedactionError,
)
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.rest.fields import Body, Flag, Id, Speaker, Timezone, Title, TurnGiven
from agent_reminiscence.server.rest.routes import NO_SUCH_PATH, Memory, Tenant, as_json, operations, says

_MAX_TURNS: Final = 1_000
_TURNS: Final = 50

ConversationId = Annotated[
    Id, Path(max_length=MAX_CONVERSATION_ID_CHARACTERS, description="Your own id; write / as %2F.")
]

router = operations("conversations")


class TurnSaid(TurnGiven):
    """Something that somebody said in a conversation."""

    speaker: Speaker = Field(description="Who says it: `user`, `assistant`, `tool` or a name.")


class TurnsGiven(Body):
    """Turns of a conversation, in their order."""

    turns: list[TurnSaid] = Field(min_length=1)
    title: Title | None = Field(
        default=None, description="Of the memories that hold the turns, indexed with each; null: Conversation."
    )
    source: Source = Field(
        default="user", description="The trust label of speakers that are neither user, assistant nor tool."
    )
    actor: Id | None = Field(default=None, description="Who records the turns.")
    timezone: Timezone | None = Field(
        default=None,
        description="Where its days begin, as an IANA name such as Europe/Lisbon; null: the setting. A memory that"
        " holds turns keeps the zone it was begun in.",
    )
    remember: Flag = Field(
        default=False,
        description="Also have the configured model read the conversation once it has paused, and remember what is"
        " worth it; the request does not wait for that.",
    )
    is_over: Flag = Field(
        default=False, description="With `remember`: whether the conversation is over, so that it is read at once."
    )


class TurnPage(BaseModel):
    """The last turns of a conversation, oldest first."""

    turns: tuple[Turn, ...]


@router.post(
    "/conversations/{conversation_id:path}/turns",
    response_model=ActiveMemory,
    **says(Scope.WRITE, QuotaExceededError, RedactionError, ConfigurationError, CommitUnknownError, kinds=NO_SUCH_PATH),
)
async def add_turns(memory: Memory, tenant: Tenant, conversation_id: ConversationId, body: TurnsGiven) -> Response:
    """Record turns, all of them or none. They can be found as soon as this returns.

    A turn whose `id` the conversation holds already is not recorded again, so a request whose turns have ids can be
    repeated. Answers the memory that holds the last of them; its `write` is null if all were known.
    """
    conversation = memory.conversation(
        tenant,
        conversation_id,
        title=body.title,
        source=body.source,
        actor=body.actor,
        remember=body.remember,
        timezone=body.timezone,
    )
    if body.is_over and not body.remember:
        raise InvalidInputError("is_over has a model read the conversation at once; it needs remember: true")
    written = await conversation.add_turns([turn.model_dump() for turn in body.turns])
    if body.is_over:
        await conversation.end()
    return as_json(written)


@router.get(
    "/conversations/{conversation_id:path}/turns", response_model=TurnPage, **says(Scope.READ, kinds=NO_SUCH_PATH)
)
async def list_turns(
    memory: Memory,
    tenant: Tenant,
    conversation_id: ConversationId,
    limit: Annotated[int, Query(ge=1, le=_MAX_TURNS, description="At most this many.")] = _TURNS,
) -> Response:
    """The last turns of a conversation, oldest first; empty if nobody has added any."""
    return as_json(TurnPage(turns=tuple(await memory.conversation(tenant, conversation_id).turns(limit))))
