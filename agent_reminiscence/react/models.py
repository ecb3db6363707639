"""What a client sends to an agent service and gets back, and what the four tiers hold."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from agent_reminiscence.domain.model import StrictModel
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.react.limits import (
    MAX_ID_CHARACTERS,
    MAX_QUESTION_CHARACTERS,
    MAX_STATE_CHARACTERS,
    MAX_STEPS,
)

DEFAULT_COLLECTION = "default"
DEFAULT_GROUP = "default"

type FailureReason = Literal[
    "invalid_request",
    "iteration_limit",
    "model_failed",
    "timeout",
    "conflict",
    "memory_failed",
    "memory_off",
    "quota_exceeded",
]
type ItemType = Literal["thought", "action", "observation"]


class AgentStep(StrictModel):
    """One turn of the loop: what the model thought, which tool it called, and what came back."""

    thought: str = ""
    action: str = Field(default="", description="The name of the tool.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="What the tool was called with.")
    observation: str = Field(default="", description="What the tool returned, as text.")


def _read_steps(value: object) -> object:
    """Steps; one that is told in words is a thought."""
    if isinstance(value, list | tuple):
        return [{"thought": step} if isinstance(step, str) else step for step in value]
    return value


def _read_lessons(value: object) -> object:
    """Lessons; a text is one, and an empty text none."""
    return ([value] if value.strip() else []) if isinstance(value, str) else value


type Steps = Annotated[tuple[AgentStep, ...], BeforeValidator(_read_steps)]
"""The steps of a task; a text is taken for a step of that thought."""
type Lessons = Annotated[tuple[str, ...], BeforeValidator(_read_lessons)]
"""What was learned from a task; a text is taken for one lesson."""

EMBEDDING: Final = (
    "The stored vector of the passage that was found, with `with_embeddings`; None without it, and while there is none."
)


class AgentRequest(StrictModel):
    """A question to an agent service."""

    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS)
    history: tuple[AgentStep, ...] = Field(
        default=(), max_length=MAX_STEPS, description="Steps already taken for this very question; the loop goes on."
    )
    user: str = Field(min_length=1, max_length=MAX_ID_CHARACTERS, description="Whose agent this is.")
    user_name: str = Field(
        default="",
        max_length=MAX_ID_CHARACTERS,
        description="What the user is called, for the model of an agent with memory; `user` itself it is never told.",
    )
    streaming: bool = Field(default=False, description="Whether thoughts and observations are sent as they come.")
    state: str = Field(
        default="", max_length=MAX_STATE_CHARACTERS, description="The state of the client's task, shown to the model."
    )
    group: tuple[str, ...] = Field(
        default=(DEFAULT_GROUP,), description='Only tools of one of these groups may be used; "*" is all groups.'
    )
    conversation_id: str | None = Field(default=None, min_length=1, max_length=MAX_ID_CHARACTERS)
    end_conversation: bool = Field(
        default=False,
        description="Whether the conversation ends with this: then it is closed once the answer is recorded. Without"
        " memory it has no effect.",
    )
    enable_memory: bool = Field(default=False, description="Whether memory is used; the service may allow less.")
    collection: str = Field(
        default=DEFAULT_COLLECTION,
        min_length=1,
        max_length=MAX_ID_CHARACTERS,
        description="Which of the user's memories.",
    )
    invocation_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_ID_CHARACTERS,
        description="Your id of this invocation. With memory, a repeated request with the same id gets the recorded"
        " answer and calls no model.",
    )

    @model_validator(mode="after")
    def _ends_a_conversation(self) -> Self:
        if self.end_conversation and self.conversation_id is None:
            raise ValueError("end_conversation is True, but conversation_id names no conversation; pass it as well")
        return self


class AgentFailure(StrictModel):
    """Why there is no answer. The message quotes neither the question nor a memory."""

    reason: FailureReason
    message: str


class AgentUsage(StrictModel):
    """What an invocation cost, without what is done after its answer."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tool_calls: int = 0
    recalled_tokens: int = Field(default=0, description="How much of the context was recalled at the start.")


class Fact(StrictModel):
    """Something an agent knows about its user or the world."""

    id: str
    content: str
    source: str | None = Field(default=None, description="The conversation in which it was learned.")
    timestamp: datetime = Field(description="When it was learned, or became true.")
    trust: Source = Field(
        default="agent", description="How far its source is trusted: user, agent, tool, import or model."
    )
    embedding: tuple[float, ...] | None = Field(default=None, description=EMBEDDING)
    metadata: dict[str, Any] = Field(default_factory=dict)


class Episode(StrictModel):
    """A task that an agent worked on, how it ended, and what was learned."""

    id: str
    goal: str
    steps: Steps = Field(default=(), description="Each an `AgentStep`; a text is a step of that thought.")
    outcome: str = ""
    lessons: Lessons = Field(default=(), description="A text is one lesson.")
    success: bool | None = Field(default=None, description="Whether it ended well; None if unknown.")
    timestamp: datetime
    embedding: tuple[float, ...] | None = Field(default=None, description=EMBEDDING)
    metadata: dict[str, Any] = Field(default_factory=dict)


class InvocationSummary(StrictModel):
    """One invocation of a conversation: User asked `query`, agent did `summary`, result was `result`."""

    query: str
    summary: str
    result: str
    timestamp: datetime
    invocation_id: str | None = None


class ConversationMemory(StrictModel):
    """A conversation as its invocations, oldest first."""

    conversation_id: str
    invocations: tuple[InvocationSummary, ...] = ()
    gap_after: int | None = Field(
        default=None, description="After how many of these some are left out; None if it is all of them."
    )
    metadata: dict[str, Any] = Field(default_factory=dict)


class WorkingMemoryItem(StrictModel):
    """An entry of working memory; `metadata` has `token_count` and `step`."""

    type: ItemType
    content: str
    timestamp: datetime
    metadata: dict[str, Any] = Field(default_factory=dict)


class RecalledMemory(StrictModel):
    """What an invocation was shown of its memory."""

    facts: tuple[Fact, ...] = ()
    has_all_facts: bool = Field(default=False, description="Whether `facts` are all that is known.")
    episodes: tuple[Episode, ...] = ()
    conversation: ConversationMemory | None = None
    shared: RetrievalResult | None = Field(default=None, description="What shared memories hold; None: none is shared.")
    failures: tuple[AgentFailure, ...] = Field(default=(), description="What could not be read.")


class ForgetRequest(StrictModel):
    """Something the user asked to have forgotten; nothing was deleted. You decide, and call `delete_fact`."""

    what: str = Field(description="What to forget, in the model's words.")
    fact_ids: tuple[str, ...] = Field(
        default=(), description="The facts that hold it, as far as is known; to be passed to `delete_fact`, or changed."
    )


class AgentResponse(StrictModel):
    """A message from an agent service.

    A request without `streaming` gets one message, with `is_final`. With it, parts come first: `thought` in pieces with
    `is_partial`, then whole steps, and last the final message.
    """

    invocation_id: str
    thought: str = ""
    action: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    observation: str = ""
    answer: str = ""
    is_partial: bool = Field(default=False, description="Whether `thought` continues the partial one before it.")
    is_final: bool = False
    error: AgentFailure | None = None
    steps: tuple[AgentStep, ...] = Field(default=(), description="All steps of this invocation; final message only.")
    usage: AgentUsage | None = Field(default=None, description="Final message only.")
    memory: RecalledMemory | None = Field(default=None, description="Final message only, if the service shows it.")
    forget_requests: tuple[ForgetRequest, ...] = Field(
        default=(), description="What the user asked to have forgotten, for you to decide on; final message only."
    )
    warnings: tuple[str, ...] = Field(default=(), description="What went wrong without costing the answer.")
