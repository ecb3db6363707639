"""Conversations as events: one for each invocation, read in sequence and never searched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import tzinfo
from hashlib import sha256
from typing import Final

from agent_reminiscence.config.timezones import zone_named
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import ExternalIdNotFoundError, IdempotencyConflictError
from agent_reminiscence.react.failures import guarded
from agent_reminiscence.react.models import ConversationMemory, InvocationSummary
from agent_reminiscence.react.permission import Permission
from agent_reminiscence.react.registry import Registry
from agent_reminiscence.react.scope import Scope, default_scope
from agent_reminiscence.react.service_models import (
    ConversationOutline,
    DeleteConversationRequest,
    DeleteResponse,
    GetConversationMemoryRequest,
    GetConversationMemoryResponse,
    ListConversationsRequest,
    ListConversationsResponse,
    UpdateConversationMemoryRequest,
    UpdateConversationMemoryResponse,
)
from agent_reminiscence.text.days import seen_in

INVOCATION: Final = "react.invocation"
ARCHIVED: Final = "react.conversation.archived"
# How many of the first invocations are always among those returned.
FIRST_INVOCATIONS: Final = 3
_PAGE: Final = 200


class MemoryConversations:
    """Conversations of a user and collection, in the ledger.

    Each invocation is one event, so two that end at the same time are both kept, and a repeated one is kept once.
    """

    def __init__(self, memory: AgentMem, *, scope: Scope = default_scope, permission: Permission | None = None) -> None:
        self._memory = memory
        self._scope = scope
        self._permission = permission or Permission(memory)
        self._registry = Registry(memory)

    async def get_conversation(self, request: GetConversationMemoryRequest) -> GetConversationMemoryResponse:
        """A conversation: the newest invocations, and of a long one the first three; oldest first."""

        async def get() -> GetConversationMemoryResponse:
            await self._permission.to_read(request.user, request.collection, request.conversation_id)
            external_id = self._scope(request.user, request.collection)
            events, gap = await self._read(external_id, request.conversation_id, request.limit)
            zone = zone_named(self._memory.config.timezone)
            return GetConversationMemoryResponse(
                conversation=ConversationMemory(
                    conversation_id=request.conversation_id,
                    invocations=tuple(_summary(event, zone) for event in events),
                    gap_after=gap,
                    # What was said last counts.
                    metadata={name: value for event in events for name, value in event.payload["metadata"].items()},
                )
            )

        return await guarded(get, lambda error: GetConversationMemoryResponse(error=error))

    async def update_conversation(self, request: UpdateConversationMemoryRequest) -> UpdateConversationMemoryResponse:
        """Add an invocation. One with an `invocation_id` that the conversation holds already is not added again."""

        async def update() -> UpdateConversationMemoryResponse:
            await self._permission.to_write(request.user, request.collection, request.conversation_id)
            summary = request.invocation_summary
            await self._registry.open(request.user, request.collection)
            # In conflict: recorded already, with a summary of its own.
            with suppress(IdempotencyConflictError):
                await self._memory.ledger.append(
                    self._scope(request.user, request.collection),
                    INVOCATION,
                    {
                        "query": summary.query,
                        "summary": summary.summary,
                        "result": summary.result,
                        "invocation_id": summary.invocation_id,
                        "metadata": request.metadata,
                    },
                    conversation_id=request.conversation_id,
                    occurred_at=summary.timestamp,
                    idempotency_key=_key(request.conversation_id, summary.invocation_id),
                )
            return UpdateConversationMemoryResponse(success=True)

        return await guarded(update, lambda error: UpdateConversationMemoryResponse(error=error))

    async def list_conversations(self, request: ListConversationsRequest) -> ListConversationsResponse:
        """The conversations of a user and collection, the most recent first."""

        async def listed() -> ListConversationsResponse:
            await self._permission.to_read(request.user, request.collection)
            external_id = self._scope(request.user, request.collection)
            found = await latest_invocations(self._memory, external_id, most=request.offset + request.limit)
            return ListConversationsResponse(
                conversations=tuple(
                    ConversationOutline(
                        conversation_id=event.conversation_id or "",
                        last_query=event.payload["query"],
                        updated_at=event.occurred_at,
                    )
                    for event in found[request.offset :]
                )
            )

        return await guarded(listed, lambda error: ListConversationsResponse(error=error))

    async def delete_conversation(self, request: DeleteConversationRequest) -> DeleteResponse:
        """Archive a conversation: reading it finds nothing before this. `purge` erases all that it left.

        Unknown ones are gone already.
        """

        async def delete() -> DeleteResponse:
            external_id = self._scope(request.user, request.collection)
            if request.purge:
                with suppress(ExternalIdNotFoundError):
                    receipt = await self._memory.admin.erase(external_id, conversation_id=request.conversation_id)
                    return DeleteResponse(success=True, receipts=(receipt,))
            elif (await self._read(external_id, request.conversation_id, 1))[0]:
                await self._memory.ledger.append(external_id, ARCHIVED, {}, conversation_id=request.conversation_id)
            return DeleteResponse(success=True)

        return await guarded(delete, lambda error: DeleteResponse(error=error))

    async def _read(self, external_id: str, conversation_id: str, limit: int) -> tuple[list[Event], int | None]:
        """The first and the newest invocations since it was archived, oldest first; and where some are left out."""
        gap: int | None = None
        ledger = self._memory.ledger
        newest = await ledger.read_conversation(
            external_id, conversation_id, kinds=[INVOCATION, ARCHIVED], limit=limit + 1
        )
        archived = next((number for number, event in enumerate(newest) if event.kind == ARCHIVED), None)
        if archived is not None:
            newest = newest[:archived]
        elif len(newest) > limit:
            # The newest matter most.
            wanted = min(FIRST_INVOCATIONS, limit // 4)
            last = await ledger.read_conversation(external_id, conversation_id, kinds=[ARCHIVED], limit=1)
            first = (
                await ledger.read_conversation(
                    external_id,
                    conversation_id,
                    kinds=[INVOCATION],
                    after=last[0].position if last else 0,
                    limit=max(wanted, 1),
                )
            )[:wanted]
            newest = [*newest[: limit - len(first)], *reversed(first)]
            gap = len(first)
        return newest[:limit][::-1], gap


async def latest_invocations(memory: AgentMem, external_id: str, *, most: int | None = None) -> list[Event]:
    """The last invocation of each conversation that has not been archived since, the most recent first."""
    archived = {event.conversation_id: event.position async for event in all_latest(memory, external_id, ARCHIVED)}
    found: list[Event] = []
    async for event in all_latest(memory, external_id, INVOCATION):
        if most is not None and len(found) >= most:
            break
        if event.position > archived.get(event.conversation_id, 0):
            found.append(event)
    return found


async def all_latest(memory: AgentMem, external_id: str, kind: str) -> AsyncIterator[Event]:
    """The last event of a kind in each conversation, the newest first."""
    before: int | None = None
    while page := await memory.ledger.read_latest(external_id, kind, before=before, limit=_PAGE):
        for event in page:
            yield event
        before = page[-1].position


def _summary(event: Event, zone: tzinfo) -> InvocationSummary:
    stored = event.payload
    return InvocationSummary(
        query=stored["query"],
        summary=stored["summary"],
        result=stored["result"],
        timestamp=seen_in(event.occurred_at, zone),
        invocation_id=stored.get("invocation_id"),
    )


def _key(conversation_id: str, invocation_id: str | None) -> str | None:
    if invocation_id is None:
        return None
    return f"react/invocation/{sha256(f'{len(conversation_id)}:{conversation_id}{invocation_id}'.encode()).hexdigest()}"
