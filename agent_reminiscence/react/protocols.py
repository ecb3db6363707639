"""What a client holds, and the five services that an agent's memory is made of."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol, runtime_checkable

from agent_reminiscence.react.models import AgentRequest, AgentResponse
from agent_reminiscence.react.service_models import (
    DeleteConversationRequest,
    DeleteEpisodeRequest,
    DeleteFactRequest,
    DeleteResponse,
    EndLessonsRequest,
    EndLessonsResponse,
    GetConversationMemoryRequest,
    GetConversationMemoryResponse,
    ListConversationsRequest,
    ListConversationsResponse,
    RecordUseRequest,
    RecordUseResponse,
    RetrieveEpisodesRequest,
    RetrieveEpisodesResponse,
    RetrieveFactsRequest,
    RetrieveFactsResponse,
    StoreEpisodeRequest,
    StoreEpisodeResponse,
    StoreFactRequest,
    StoreFactResponse,
    UpdateConversationMemoryRequest,
    UpdateConversationMemoryResponse,
)


@runtime_checkable
class AgentService(Protocol):
    """Answers questions; with memory or without, a client sees the same."""

    def run(self, request: AgentRequest) -> AsyncGenerator[AgentResponse]:
        """Answer a question. The last message is final; without `streaming`, it is the only one."""
        ...

    async def answer(self, request: AgentRequest) -> AgentResponse:
        """The final message alone."""
        ...

    async def close(self) -> None:
        """Finish what is left to do."""
        ...


@runtime_checkable
class FactRetrieval(Protocol):
    """Finds facts."""

    async def retrieve_facts(self, request: RetrieveFactsRequest) -> RetrieveFactsResponse:
        """The facts nearest to a query, best first."""
        ...


@runtime_checkable
class FactStorage(Protocol):
    """Keeps facts."""

    async def store_fact(self, request: StoreFactRequest) -> StoreFactResponse:
        """Store a fact; the same `id` again stores nothing."""
        ...

    async def delete_fact(self, request: DeleteFactRequest) -> DeleteResponse:
        """Archive a fact, or erase it with `purge`."""
        ...


@runtime_checkable
class EpisodeRetrieval(Protocol):
    """Finds episodes."""

    async def retrieve_episodes(self, request: RetrieveEpisodesRequest) -> RetrieveEpisodesResponse:
        """The episodes nearest to a query and state; those whose lessons helped come first."""
        ...


@runtime_checkable
class EpisodeStorage(Protocol):
    """Keeps episodes."""

    async def store_episode(self, request: StoreEpisodeRequest) -> StoreEpisodeResponse:
        """Store an episode; the same `id` again stores nothing."""
        ...

    async def delete_episode(self, request: DeleteEpisodeRequest) -> DeleteResponse:
        """Archive an episode, or erase it with `purge`."""
        ...

    async def record_use(self, request: RecordUseRequest) -> RecordUseResponse:
        """Say how the invocation ended in which episodes were recalled."""
        ...


@runtime_checkable
class LessonCorrection(Protocol):
    """What an `EpisodeStorage` may also do; without it, wrong lessons stay, and later ones stand after them."""

    async def end_lessons(self, request: EndLessonsRequest) -> EndLessonsResponse:
        """End lessons that proved wrong; those that are gone already are left."""
        ...


@runtime_checkable
class ConversationMemoryService(Protocol):
    """Keeps conversations as sequences of invocations; they are read, never searched."""

    async def get_conversation(self, request: GetConversationMemoryRequest) -> GetConversationMemoryResponse:
        """A conversation; an empty one if there is none."""
        ...

    async def update_conversation(self, request: UpdateConversationMemoryRequest) -> UpdateConversationMemoryResponse:
        """Add an invocation; the same `invocation_id` again adds nothing."""
        ...

    async def list_conversations(self, request: ListConversationsRequest) -> ListConversationsResponse:
        """The conversations of a user, newest first."""
        ...

    async def delete_conversation(self, request: DeleteConversationRequest) -> DeleteResponse:
        """Archive a conversation, or erase it with `purge`."""
        ...
