"""The loop with memory: recall first, then reason over what was recalled and over working memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from pydantic_ai.models import Model
from pydantic_ai.toolsets import AbstractToolset

from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.react.chosen_model import ChosenModel
from agent_reminiscence.react.config import ReactMemConfig
from agent_reminiscence.react.failures import guarded
from agent_reminiscence.react.grounds import corrects
from agent_reminiscence.react.learning import LearningByModel
from agent_reminiscence.react.manager import ReactAgentManager, Reasoned, Sink, Surroundings
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.memory_tools import keys_of, memory_toolset
from agent_reminiscence.react.models import AgentFailure, AgentRequest, RecalledMemory
from agent_reminiscence.react.numbering import Numbering
from agent_reminiscence.react.rendering import facts_room, render_memory
from agent_reminiscence.react.service_models import (
    GetConversationMemoryRequest,
    GetConversationMemoryResponse,
    RetrieveEpisodesRequest,
    RetrieveEpisodesResponse,
    RetrieveFactsRequest,
    RetrieveFactsResponse,
)
from agent_reminiscence.react.shared_memories import SharedMemories
from agent_reminiscence.react.summaries import StepSummaries
from agent_reminiscence.react.today import today_line
from agent_reminiscence.react.toolbox import ToolsWhenNeeded
from agent_reminiscence.react.window import WorkingMemoryWindow
from agent_reminiscence.react.working_memory import WorkingMemory
from agent_reminiscence.telemetry import Telemetry
from agent_reminiscence.text.tokens import TokenCounts

_logger = logging.getLogger("agent_reminiscence.react")


class ReactMemAgentManager(ReactAgentManager):
    """Runs the loop with what memory holds.

    Args:
        services: Where facts, episodes and conversations come from.
        shared: Where what others know comes from.
        summariser: Summarises steps that no longer fit; None: they are listed by rules.
        telemetry: Observes recall.
    """

    def __init__(
        self,
        model: Model | str | ChosenModel,
        services: MemoryServices,
        shared: SharedMemories,
        *,
        clock: Callable[[], datetime],
        zone: tzinfo = UTC,
        toolsets: Sequence[AbstractToolset[Any]] = (),
        config: ReactMemConfig,
        summariser: LearningByModel | None = None,
        telemetry: Telemetry | None = None,
        deps: Any = None,
    ) -> None:
        super().__init__(model, toolsets=toolsets, config=config, deps=deps)
        self._mem_config = config
        self._services = services
        self._shared = shared
        self._summariser = summariser
        self._clock = clock
        self._zone = zone
        self._telemetry = telemetry or Telemetry()
        self._tools = {
            may_write: memory_toolset(
                services.fact_retrieval,
                services.fact_storage,
                services.episode_retrieval,
                shared,
                names=config.memory_tools,
                may_write=may_write,
                fact_top_k=max(config.fact_retrieval_top_k, 1),
                episode_top_k=max(config.episode_retrieval_top_k, 1),
                episode_min_match=config.episode_min_match,
                allowed=config.allow_sensitive,
            )
            for may_write in (False, True)
        }
        # The next question of a conversation is shown most of what this one is.
        self._counts = TokenCounts()

    async def recall(self, request: AgentRequest, invocation_id: str | None) -> RecalledMemory:
        """Read facts, episodes, the conversation and shared memories, all at once.

        What cannot be read is a failure in the result.

        Args:
            invocation_id: The invocation whose outcome counts for the episodes; None if nothing may be written.
        """
        with self._telemetry.operation("react.recall"):
            facts, episodes, conversation, shared = await asyncio.gather(
                _as_value(self._retrieve_facts(request), RetrieveFactsResponse),
                _as_value(self._retrieve_episodes(request, invocation_id), RetrieveEpisodesResponse),
                _as_value(self._read_conversation(request), GetConversationMemoryResponse),
                self._retrieve_shared(request),
            )
        failures = [one.error for one in (facts, episodes, conversation, shared) if one.error is not None]
        return RecalledMemory(
            facts=facts.facts,
            has_all_facts=facts.is_all,
            episodes=episodes.episodes,
            conversation=conversation.conversation,
            shared=shared.result,
            failures=tuple(failures),
        )

    async def reason_over(
        self,
        request: AgentRequest,
        invocation_id: str,
        sink: Sink,
        recalled: RecalledMemory,
        *,
        may_store: Callable[[], Awaitable[bool]] | None,
    ) -> Reasoned:
        """Reason with what was recalled, within the budget of working memory.

        Args:
            may_store: Whether the run's tool may store a fact, asked each time; None: there is no such tool.
        """
        config = self._mem_config
        now = self._clock()
        today = today_line(config.prompts, now, self._zone, request.user_name)
        working = WorkingMemory(request.question, now)
        summaries = None if self._summariser is None else StepSummaries(self._summariser)
        window = WorkingMemoryWindow(
            working,
            config.working_memory_threshold,
            config.keep_recent_steps,
            summarise=None if summaries is None else summaries.summarise,
        )
        numbers = Numbering()
        shown = render_memory(recalled, config.prompts, config.memory_token_budget, self._counts.count_one, numbers)
        reasoned = await self.reason(
            request,
            invocation_id,
            sink,
            Surroundings(
                recalled=shown,
                recalled_keys=keys_of(recalled.facts, recalled.episodes),
                instructions=f"{config.prompts.memory}\n\n{today}",
                toolsets=[self._tools[may_store is not None]],
                capabilities=[window, ToolsWhenNeeded(working, self._needless(recalled, numbers))],
                may_store=may_store,
                working=working,
                numbers=numbers,
                facts=recalled.facts,
            ),
        )
        recalled_tokens = sum(self._counts.count([part.content for part in shown]))
        return replace(reasoned, usage=reasoned.usage.model_copy(update={"recalled_tokens": recalled_tokens}))

    def _needless(self, recalled: RecalledMemory, numbers: Numbering) -> frozenset[str]:
        """The tools that would find nothing beyond what a run is shown at first."""
        needless: set[str] = set()
        if not self._shared.are_there and recalled.has_all_facts and len(numbers.facts) == len(recalled.facts):
            needless.add("retrieve_facts")
        # Where no earlier task is like the question, none is like it for the tool either.
        if not recalled.episodes and not recalled.failures and self._mem_config.episode_retrieval_top_k:
            needless.add("recall_episodes")
        return frozenset(needless)

    async def _retrieve_shared(self, request: AgentRequest) -> _Shared:
        async def retrieve() -> _Shared:
            return _Shared(
                await self._shared.retrieve(request.user, request.collection, request.question, is_asked=False)
            )

        return await guarded(retrieve, lambda error: _Shared(error=error))

    async def _retrieve_facts(self, request: AgentRequest) -> RetrieveFactsResponse:
        with self._telemetry.operation("react.retrieve_facts"):
            return await self._services.fact_retrieval.retrieve_facts(
                RetrieveFactsRequest(
                    user=request.user,
                    collection=request.collection,
                    query=request.question,
                    top_k=self._mem_config.fact_retrieval_top_k,
                    room_tokens=facts_room(self._mem_config.memory_token_budget)
                    if self._mem_config.fact_retrieval_top_k
                    else None,
                )
            )

    async def _retrieve_episodes(self, request: AgentRequest, invocation_id: str | None) -> RetrieveEpisodesResponse:
        with self._telemetry.operation("react.retrieve_episodes"):
            return await self._services.episode_retrieval.retrieve_episodes(
                RetrieveEpisodesRequest(
                    user=request.user,
                    collection=request.collection,
                    query=request.question,
                    state=request.state,
                    top_k=self._mem_config.episode_retrieval_top_k,
                    invocation_id=invocation_id,
                    # "That lesson is wrong" is hardly like its task, and what is not shown cannot be corrected.
                    min_match=0 if corrects(request.question) else self._mem_config.episode_min_match,
                )
            )

    async def _read_conversation(self, request: AgentRequest) -> GetConversationMemoryResponse:
        if request.conversation_id is None or self._mem_config.conversation_window == 0:
            return GetConversationMemoryResponse()
        with self._telemetry.operation("react.get_conversation"):
            return await self._services.conversations.get_conversation(
                GetConversationMemoryRequest(
                    user=request.user,
                    collection=request.collection,
                    conversation_id=request.conversation_id,
                    limit=self._mem_config.conversation_window,
                )
            )


class _Shared(NamedTuple):
    """What shared memories hold, or why they could not be read."""

    result: RetrievalResult | None = None
    error: AgentFailure | None = None


async def _as_value[T](response: Awaitable[T], failed: Callable[..., T]) -> T:
    """A service's response. One that is not ours may raise anything; that is a failure, too."""
    try:
        return await response
    except Exception as error:  # noqa: BLE001 - see above
        _logger.warning("a service of a ReAct agent's memory failed: %s", type(error).__name__)
        return failed(error=AgentFailure(reason="memory_failed", message=f"a service failed: {type(error).__name__}"))


def timed_out(seconds: float) -> RecalledMemory:
    """What is recalled if recall takes too long."""
    message = f"recall took longer than {seconds:g} s (memory_timeout_seconds)"
    return RecalledMemory(failures=(AgentFailure(reason="timeout", message=message),))
