"""The tools of a run: those of the request's groups, with failures and repetitions as observations."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, WrapToolExecuteHandler
from pydantic_ai.exceptions import ModelRetry, UnexpectedModelBehavior
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset

from agent_reminiscence.react.models import DEFAULT_GROUP, Fact, ForgetRequest
from agent_reminiscence.react.numbering import Numbering
from agent_reminiscence.react.own_tools import WORKING_TOOLS
from agent_reminiscence.react.working_memory import WorkingMemory

_logger = logging.getLogger("agent_reminiscence.react")

ALL_GROUPS: Final = "*"
# Where a tool names its groups: `Tool(search, metadata={"group": ["research"]})`.
GROUP_KEY: Final = "group"


@dataclass(frozen=True, slots=True)
class RunDeps[D]:
    """What a tool of a run gets as `ctx.deps`.

    Attributes:
        user: Whose agent this is.
        collection: Which of the user's memories.
        conversation_id: As in the request, like `state` and `group`.
        invocation_id: Of this run.
        deps: The application's own, as given to the service.
        recalled: Keys of the facts and episodes that the run has been shown.
        may_store: Whether the run may still store facts; None: nothing can forbid it.
        working: The steps so far; None if the run has no memory.
        numbers: The numbers of the facts and lessons that the run has been shown.
        facts: The facts among them, by id.
        forget: What the user asked to have forgotten.
        question: What was asked, in the user's own words.
    """

    user: str
    collection: str
    conversation_id: str | None
    state: str
    group: tuple[str, ...]
    invocation_id: str
    deps: D
    recalled: set[str] = field(default_factory=set)
    may_store: Callable[[], Awaitable[bool]] | None = None
    working: WorkingMemory | None = None
    numbers: Numbering = field(default_factory=Numbering)
    facts: dict[str, Fact] = field(default_factory=dict)
    forget: list[ForgetRequest] = field(default_factory=list)
    question: str = ""


def toolset_of_groups(toolsets: Sequence[AbstractToolset[Any]]) -> AbstractToolset[Any]:
    """All tools, of which a run gets those of its request's groups."""
    return CombinedToolset(list(toolsets)).filtered(lambda ctx, tool: _may_use(tool, ctx.deps.group))


def _may_use(tool: ToolDefinition, groups: Collection[str]) -> bool:
    if ALL_GROUPS in groups:
        return True
    named = (tool.metadata or {}).get(GROUP_KEY, DEFAULT_GROUP)
    of_tool = {named} if isinstance(named, str) else set(named)
    return not of_tool.isdisjoint(groups)


@dataclass
class ToolFailures(AbstractCapability[Any]):
    """Makes a tool's failure an observation, and stops a model that repeats itself.

    Args:
        max_repeats: How often in a row a tool may be called with the same arguments.
    """

    max_repeats: int
    _: KW_ONLY
    id: str | None = "react_tool_failures"
    _last: tuple[str, str] | None = field(default=None, init=False)
    _repeats: int = field(default=0, init=False)

    async def for_run(self, ctx: RunContext[Any]) -> ToolFailures:
        """A copy for each run, which counts for itself."""
        return ToolFailures(self.max_repeats, id=self.id)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Call the tool, unless the very same call was made too often."""
        this = (call.tool_name, json.dumps(args, sort_keys=True, default=str))
        self._repeats = self._repeats + 1 if this == self._last else 1
        self._last = this
        if self._repeats > self.max_repeats:
            return (
                f"{call.tool_name} was not called: you have called it {self.max_repeats} times in a row with these"
                " arguments. Use what it returned, or do something else."
            )
        return await handler(args)

    async def on_tool_execute_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        error: Exception,
    ) -> Any:
        """Tell the model that the tool failed, and why."""
        _logger.warning("tool %s failed: %s", call.tool_name, type(error).__name__)
        # A tool that asks for another try once too often: what it said helps the model, the count does not.
        if isinstance(error, UnexpectedModelBehavior) and isinstance(error.__cause__, ModelRetry):
            return f"{call.tool_name} failed: {error.__cause__}"
        return f"{call.tool_name} failed: {type(error).__name__}: {error}"


@dataclass
class ToolsWhenNeeded(AbstractCapability[Any]):
    """Leaves those of the memory's tools out of a request that can do nothing for it. It stands after the window.

    The tools are prepared before the window chooses what is shown, so `prepare` of a tool would be one request late:
    the model would be told to call what it is not offered.

    Args:
        working: Its tools are offered once it leaves something out.
        needless: Tools that are not offered in this run.
    """

    working: WorkingMemory
    needless: frozenset[str] = frozenset()
    _: KW_ONLY
    id: str | None = "react_tools_when_needed"

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Leave the tools out of this request."""
        left_out = self.needless | WORKING_TOOLS if self.working.shows_all else self.needless
        parameters = request_context.model_request_parameters
        offered = [tool for tool in parameters.function_tools if tool.name not in left_out]
        return replace(request_context, model_request_parameters=replace(parameters, function_tools=offered))
