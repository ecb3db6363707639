"""Requests and responses of the five services of an agent's memory; errors are values."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from agent_reminiscence.domain.erasure import ErasureReceipt
from agent_reminiscence.domain.model import StrictModel
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.react.limits import (
    MAX_FACT_CHARACTERS,
    MAX_ID_CHARACTERS,
    MAX_QUESTION_CHARACTERS,
    MAX_STATE_CHARACTERS,
    MAX_TOP_K,
)
from agent_reminiscence.react.models import (
    DEFAULT_COLLECTION,
    AgentFailure,
    ConversationMemory,
    Episode,
    Fact,
    InvocationSummary,
    Lessons,
    Steps,
)

_EMBEDDING: Final = (
    "The vector of the query, by the memory's embedding model; None: the service embeds the query. One that does not"
    " fit the stored vectors is refused."
)
_WITH_EMBEDDINGS: Final = "Whether to return the stored vector of each."


class _Request(StrictModel):
    user: str = Field(min_length=1, max_length=MAX_ID_CHARACTERS)
    collection: str = Field(default=DEFAULT_COLLECTION, min_length=1, max_length=MAX_ID_CHARACTERS)


class _Response(StrictModel):
    error: AgentFailure | None = None


class RetrieveFactsRequest(_Request):
    """Find facts."""

    query: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS)
    embedding: tuple[float, ...] | None = Field(default=None, description=_EMBEDDING)
    top_k: int = Field(default=5, ge=0, le=MAX_TOP_K)
    with_embeddings: bool = Field(default=False, description=_WITH_EMBEDDINGS)
    room_tokens: int | None = Field(
        default=None,
        ge=0,
        description="How many tokens the facts may take as they are shown. If all facts fit, all are returned, whatever"
        " `top_k` is; otherwise first what holds whatever is asked (allergies, names, rules, preferences), in at most"
        " half of the room, then the `top_k` nearest. None: only the nearest.",
    )
    ids: tuple[str, ...] = Field(default=(), description="Only these facts, in this order; then nothing is searched.")


class RetrieveFactsResponse(_Response):
    """Facts, best first."""

    facts: tuple[Fact, ...] = ()
    is_all: bool = Field(default=False, description="Whether there are no others.")


class RetrieveEpisodesRequest(_Request):
    """Find episodes, by likeness to the query and the state."""

    query: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS)
    state: str = Field(default="", max_length=MAX_STATE_CHARACTERS)
    embedding: tuple[float, ...] | None = Field(default=None, description=_EMBEDDING)
    top_k: int = Field(default=3, ge=0, le=MAX_TOP_K)
    with_embeddings: bool = Field(default=False, description=_WITH_EMBEDDINGS)
    invocation_id: str | None = Field(
        default=None, description="The invocation they are recalled in, if its outcome is to count; this is a write."
    )
    ids: tuple[str, ...] = Field(
        default=(), description="Only these episodes, in this order; then nothing is searched or counted."
    )
    min_match: Annotated[float, Field(ge=0, le=1)] | Literal["alike"] | None = Field(
        default=None,
        description="Only episodes that match at least so well, 0 to 1; `alike`: as well as a task does to which a"
        " lesson applies, which was measured; None: the nearest, however far they are.",
    )


class RetrieveEpisodesResponse(_Response):
    """Episodes, best first."""

    episodes: tuple[Episode, ...] = ()


class StoreFactRequest(_Request):
    """Store a fact."""

    content: str = Field(min_length=1, max_length=MAX_FACT_CHARACTERS)
    source: str | None = Field(default=None, description="The conversation in which it was learned.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    id: str | None = Field(default=None, max_length=MAX_ID_CHARACTERS, description="Your own id, for repeated calls.")
    trust: Source = Field(default="agent", description="How far it is to be trusted; what a tool said: tool.")
    occurred_at: datetime | None = Field(
        default=None, description="When it was learned or became true, with a time zone; None: now."
    )


class StoreFactResponse(_Response):
    """The id of the stored fact."""

    fact_id: str | None = None


class DeleteFactRequest(_Request):
    """Archive or erase a fact."""

    fact_id: str
    purge: bool = Field(default=False, description="Whether to erase it instead of archiving it.")
    occurred_at: datetime | None = Field(
        default=None,
        description="Since when it no longer holds, with a time zone; None: now. A purge has no such time.",
    )


class StoreEpisodeRequest(_Request):
    """Store an episode."""

    goal: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS)
    steps: Steps = Field(default=(), description="Each an `AgentStep`; a text is a step of that thought.")
    outcome: str = ""
    lessons: Lessons = Field(default=(), description="A text is one lesson.")
    success: bool | None = None
    source: str | None = Field(default=None, description="The conversation it belongs to.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    id: str | None = Field(default=None, max_length=MAX_ID_CHARACTERS, description="Your own id, for repeated calls.")


class StoreEpisodeResponse(_Response):
    """The id of the stored episode."""

    episode_id: str | None = None


class DeleteEpisodeRequest(_Request):
    """Archive or erase an episode."""

    episode_id: str
    purge: bool = False


class RecordUseRequest(_Request):
    """Say how the invocation ended in which something was recalled."""

    invocation_id: str
    success: bool
    episode_ids: tuple[str, ...] | None = Field(
        default=None, description="The episodes whose lessons it followed, which alone count; None: all it was shown."
    )


class RecordUseResponse(_Response):
    """Whether that was news."""

    recorded: bool = False


class EndLessonsRequest(_Request):
    """End lessons of an episode that proved wrong; the episode stays, and the past is still found as it was."""

    episode_id: str
    lesson_ids: tuple[str, ...] = Field(min_length=1, description="As in `ShownLesson`; unknown ones are gone already.")
    occurred_at: datetime | None = Field(
        default=None, description="Since when they do not hold, with a time zone; None: now."
    )


class EndLessonsResponse(_Response):
    """How many lessons ended."""

    ended: int = 0


class GetConversationMemoryRequest(_Request):
    """Read a conversation."""

    conversation_id: str
    limit: int = Field(
        default=100, ge=1, le=500, description="At most so many: the newest, and the first if there are more."
    )


class GetConversationMemoryResponse(_Response):
    """A conversation; one without invocations if there is none."""

    conversation: ConversationMemory | None = None


class UpdateConversationMemoryRequest(_Request):
    """Add an invocation to a conversation."""

    conversation_id: str
    invocation_summary: InvocationSummary
    metadata: dict[str, Any] = Field(
        default_factory=dict, description="Of the conversation; a name that it has already gets the new value."
    )


class UpdateConversationMemoryResponse(_Response):
    """Whether the conversation holds it."""

    success: bool = False


class ListConversationsRequest(_Request):
    """List the conversations of a user."""

    limit: int = Field(default=100, ge=1, le=1_000)
    offset: int = Field(default=0, ge=0, description="How many of the most recent to leave out.")


class ConversationOutline(StrictModel):
    """A conversation in a list."""

    conversation_id: str
    last_query: str
    updated_at: datetime


class ListConversationsResponse(_Response):
    """Conversations, the most recent first."""

    conversations: tuple[ConversationOutline, ...] = ()


class DeleteConversationRequest(_Request):
    """Archive or erase a conversation."""

    conversation_id: str
    purge: bool = False


class DeleteResponse(_Response):
    """Whether it is gone."""

    success: bool = False
    receipts: tuple[ErasureReceipt, ...] = Field(
        default=(), description="Of a purge: what was erased, to be checked with `memory.admin.verify_erased`."
    )
