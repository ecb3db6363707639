"""The loop: reason, act, observe, until there is an answer. Runs as a Pydantic AI agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError, UsageLimitExceeded
from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.run import AgentRun
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.usage import RunUsage, UsageLimits

from agent_reminiscence.apart import run_apart
from agent_reminiscence.react.chosen_model import ChosenModel
from agent_reminiscence.react.config import AgentConfig
from agent_reminiscence.react.models import (
    AgentFailure,
    AgentRequest,
    AgentResponse,
    AgentStep,
    AgentUsage,
    Fact,
    ForgetRequest,
)
from agent_reminiscence.react.numbering import Numbering
from agent_reminiscence.react.steps import as_messages, observation_of, steps_of, thought_of
from agent_reminiscence.react.toolbox import RunDeps, ToolFailures, toolset_of_groups
from agent_reminiscence.react.working_memory import WorkingMemory
from agent_reminiscence.text.storable import storable_text

_logger = logging.getLogger("agent_reminiscence.react")

# How often the model may correct a call or an answer that does not validate.
_RETRIES: Final = 2

type Sink = Callable[[AgentResponse], None]


@dataclass(frozen=True, slots=True)
class Reasoned:
    """How a run ended: with an answer, or with a failure.

    Attributes:
        steps: Those taken in this run, without the request's history.
        recalled: Keys of the facts and episodes that the model was shown.
        numbers: The numbers under which it was shown facts and lessons.
        forget_requests: What the user asked to have forgotten.
    """

    answer: str
    steps: tuple[AgentStep, ...]
    usage: AgentUsage
    failure: AgentFailure | None = None
    recalled: tuple[str, ...] = ()
    numbers: Numbering = field(default_factory=Numbering)
    forget_requests: tuple[ForgetRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run is given beside its question; the stateless agent gives nothing.

    Attributes:
        recalled: Shown before the question, as the user's data.
        instructions: Added to the persona.
        recalled_keys: Of the facts and episodes in it.
        toolsets: Further tools, which belong to every group.
        may_store: Whether the run may still store facts; None: nothing can forbid it.
        working: Takes up the run's steps; None if it has no memory.
        numbers: Of the facts and lessons in `recalled`; tools that show more of them go on from there.
        facts: The facts that were recalled.
    """

    recalled: Sequence[UserContent] = ()
    recalled_keys: Sequence[str] = ()
    instructions: str = ""
    toolsets: Sequence[AbstractToolset[Any]] = ()
    capabilities: Sequence[AbstractCapability[Any]] = field(default=())
    may_store: Callable[[], Awaitable[bool]] | None = None
    working: WorkingMemory | None = None
    numbers: Numbering = field(default_factory=Numbering)
    facts: Sequence[Fact] = ()


NO_SURROUNDINGS: Final = Surroundings()


class ReactAgentManager:
    """Runs the loop for one request after another.

    Args:
        model: A Pydantic AI model, or its name, as `ReactService` takes it.
        toolsets: The agent's tools, MCP servers included. A tool names its groups in its metadata
            (`{"group": ["research"]}`), or is in the group `default`.
        deps: The application's own dependencies; a tool finds them as `ctx.deps.deps`.
    """

    def __init__(
        self,
        model: Model | str | ChosenModel,
        *,
        toolsets: Sequence[AbstractToolset[Any]] = (),
        config: AgentConfig,
        deps: Any = None,
    ) -> None:
        self._config = config
        self._deps = deps
        self._model = model if isinstance(model, ChosenModel) else ChosenModel(model, argument="model")
        self._agent: Agent[RunDeps[Any], str] = Agent(
            deps_type=RunDeps,
            instructions="\n\n".join(text for text in (config.persona, config.additional_context) if text),
            toolsets=[toolset_of_groups(toolsets)],
            capabilities=[ToolFailures(config.max_repeats)],
            retries=_RETRIES,
        )

    @property
    def agent(self) -> Agent[RunDeps[Any], str]:
        """The agent that runs; entering it connects to its MCP servers once for many requests."""
        return self._agent

    async def reason(
        self,
        request: AgentRequest,
        invocation_id: str,
        sink: Sink,
        surroundings: Surroundings = NO_SURROUNDINGS,
    ) -> Reasoned:
        """Reason, act and observe until there is an answer, or a limit is reached.

        Args:
            sink: Called with thoughts and steps as they come, if the request asks for them.

        Returns:
            The answer, or why there is none. Nothing that a model, a tool or a limit does raises an error.
        """
        model = self._model.get()
        run = _Run(invocation_id, sink if request.streaming else None, can_stream=_can_stream(model))
        usage = RunUsage()
        deps = RunDeps(
            user=request.user,
            collection=request.collection,
            conversation_id=request.conversation_id,
            state=request.state,
            group=request.group,
            invocation_id=invocation_id,
            deps=self._deps,
            recalled=set(surroundings.recalled_keys),
            may_store=surroundings.may_store,
            working=surroundings.working,
            numbers=surroundings.numbers,
            facts={fact.id: fact for fact in surroundings.facts},
            question=request.question,
        )
        failure: AgentFailure | None = None
        answer = ""
        limit = asyncio.timeout(self._config.timeout_seconds)

        async def run_agent() -> str:
            async with (
                limit,
                self._agent.iter(
                    message_history=self._messages(request, surroundings),
                    model=model,
                    deps=deps,
                    instructions=surroundings.instructions or None,
                    usage=usage,
                    usage_limits=UsageLimits(request_limit=self._config.max_iterations),
                    toolsets=list(surroundings.toolsets),
                    capabilities=list(surroundings.capabilities),
                ) as agent_run,
            ):
                await run.follow(agent_run)
                assert agent_run.result is not None
                return storable_text(agent_run.result.output)

        try:
            answer = await run_apart(run_agent())
        except UsageLimitExceeded:
            failure = AgentFailure(
                reason="iteration_limit",
                message=f"no answer within {self._config.max_iterations} iterations; raise max_iterations, or ask again"
                " with the steps as history",
            )
        except Exception as error:  # noqa: BLE001 - a provider's client, or a server of tools, may raise anything
            if limit.expired():
                failure = AgentFailure(
                    reason="timeout", message=f"no answer within {self._config.timeout_seconds:g} s (timeout_seconds)"
                )
            else:
                # Without its text, which may quote the prompt.
                name = type(error).__name__
                if isinstance(error, ModelHTTPError):
                    name = f"{name} with status {error.status_code}"
                _logger.warning("the model or the tools of a ReAct agent failed: %s", name)
                failure = AgentFailure(reason="model_failed", message=f"the model or its tools failed: {name}")
        return Reasoned(
            answer=answer,
            steps=tuple(run.steps),
            usage=AgentUsage(
                requests=usage.requests,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                tool_calls=usage.tool_calls,
            ),
            failure=failure,
            recalled=tuple(sorted(deps.recalled)),
            numbers=deps.numbers,
            forget_requests=tuple(deps.forget),
        )

    def _messages(self, request: AgentRequest, surroundings: Surroundings) -> list[ModelMessage]:
        """The question with its surroundings, and the steps already taken."""
        asked = [request.question]
        if request.state:
            prompts = self._config.prompts
            asked = [f"{prompts.state}:\n{request.state}", f"{prompts.task}:\n{request.question}"]
        content: list[UserContent] = [*surroundings.recalled, *asked]
        prompt = UserPromptPart(request.question if content == [request.question] else content)
        return [ModelRequest(parts=[prompt]), *as_messages(request.history)]


def _can_stream(model: Model) -> bool:
    """Whether a model gives its response in pieces; asking one that does not is an error."""
    match model:
        case FunctionModel():
            return model.stream_function is not None
        case FallbackModel():
            return all(map(_can_stream, model.models))
        case WrapperModel():
            return _can_stream(model.wrapped)
        case _:
            return type(model).request_stream is not Model.request_stream


@dataclass(slots=True)
class _Run:
    """Follows a run, and notes its steps.

    Attributes:
        can_stream: Whether the model gives its thoughts in pieces; else each is sent as one.
    """

    invocation_id: str
    sink: Sink | None
    can_stream: bool
    steps: list[AgentStep] = field(default_factory=list)

    async def follow(self, run: AgentRun[RunDeps[Any], str]) -> None:
        node = run.next_node
        while not Agent.is_end_node(node):
            if Agent.is_model_request_node(node):
                if self.sink is not None and self.can_stream:
                    async with node.stream(run.ctx) as events:
                        async for event in events:
                            self._think(event)
            elif Agent.is_call_tools_node(node):
                response = node.model_response
                if not self.can_stream:
                    self._say(thought_of(response))
                observed: dict[str, str] = {}
                try:
                    async with node.stream(run.ctx) as results:
                        async for event in results:
                            if isinstance(event, FunctionToolResultEvent):
                                observed[event.tool_call_id] = observation_of(event.part)
                                self._observe(response, event.tool_call_id, observed)
                finally:
                    self._note(response, observed)
            node = await run.next(node)

    def _think(self, event: AgentStreamEvent) -> None:
        text = ""
        match event:
            case PartStartEvent(part=TextPart(content=content) | ThinkingPart(content=content)):
                text = content
            case PartDeltaEvent(delta=TextPartDelta(content_delta=content) | ThinkingPartDelta(content_delta=content)):
                text = content or ""
        self._say(text)

    def _say(self, thought: str) -> None:
        """Send a thought, or a piece of one."""
        if thought and self.sink is not None:
            self.sink(AgentResponse(invocation_id=self.invocation_id, thought=thought, is_partial=True))

    def _observe(self, response: ModelResponse, call_id: str, observed: dict[str, str]) -> None:
        """Send the step that has just been finished."""
        if self.sink is None:
            return
        for of_call, step in steps_of(response, observed):
            if of_call == call_id:
                self.sink(AgentResponse(invocation_id=self.invocation_id, **step.model_dump()))

    def _note(self, response: ModelResponse, observed: dict[str, str]) -> None:
        self.steps.extend(step for call_id, step in steps_of(response, observed) if call_id in observed)
