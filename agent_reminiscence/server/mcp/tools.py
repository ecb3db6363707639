"""Tools as MCP offers them: a schema, a call for one tenant, a result for programs and a text for models.

It stands on the SDK's low-level server, which leaves the answers to bad arguments, the schemas and the logs to us.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import anyio
from mcp import MCPError, types
from mcp.server import Server, ServerRequestContext
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from agent_reminiscence.config.installation import installed_version
from agent_reminiscence.core import AgentMem
from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.server.access.grants import Caller, Scope
from agent_reminiscence.server.mcp.wording import UNEXPECTED, worded
from agent_reminiscence.server.problems import ProblemError

SERVER_NAME: Final = "agent-reminiscence"
IDEMPOTENCY_KEY: Final = "agent-reminiscence/idempotency-key"
"""In `_meta` of a call: its idempotency key, for programs that repeat calls."""

_logger = logging.getLogger("agent_reminiscence.mcp")

_MAX_SHOWN_NAME: Final = 64
_MAX_SHOWN_FAULTS: Final = 5
_FAULTS: Final = {"extra_forbidden": "there is no such argument", "missing": "is missing"}

type Context = ServerRequestContext[Any, Any]
type CallerOf = Callable[[Context], Caller]
"""Who makes a call; it never depends on the call's arguments."""


class Arguments(BaseModel):
    """The arguments of a tool. What it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Result(BaseModel):
    """What a tool returns to programs; what is None is left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolRefusedError(Exception):
    """A call that is refused; the model reads the message."""


def _count_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backing:
    """What a server of MCP stands on; it knows nothing of HTTP, of standard input, or of credentials.

    Attributes:
        memory: Open while the server runs.
        caller_of: Tells who makes a request, from its context.
        count_recall: Called for each question that is answered.
    """

    memory: AgentMem
    caller_of: CallerOf
    count_recall: Callable[[], None] = _count_nothing


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    backing: Backing
    caller: Caller
    context: Context

    @property
    def memory(self) -> AgentMem:
        """The open memory."""
        return self.backing.memory

    def tenant(self, scope: Scope) -> str:
        """The tenant to act for.

        Raises:
            ToolRefusedError: The credential lacks the scope, or the request names no tenant.
        """
        try:
            return self.caller.tenant(scope)
        except ProblemError as problem:
            raise ToolRefusedError(problem.detail) from None

    @property
    def actor(self) -> str:
        """Who writes, as the ledger records it: the credential."""
        return self.caller.grant.subject

    @property
    def idempotency_key(self) -> str | None:
        """What the client sent along to repeat this call safely, if anything.

        Raises:
            ToolRefusedError: It is not text.
        """
        key = (self.context.meta or {}).get(IDEMPOTENCY_KEY)
        if key is not None and not isinstance(key, str):
            raise ToolRefusedError(f"_meta[{IDEMPOTENCY_KEY!r}] must be text")
        return key


@dataclass(frozen=True, kw_only=True)
class Tool[ArgumentsT: BaseModel, ResultT: BaseModel]:
    """One tool.

    Attributes:
        description: What a model reads; every word costs tokens in every conversation.
        scopes: It is listed for credentials that have one of these. The call itself asks for what it needs.
        run: Carries out a call; returns the result for programs, and the same as a text in which what memories say is
            fenced.
        is_usable: Whether a memory, once open, can do it.
    """

    name: str
    title: str
    description: str
    arguments: type[ArgumentsT]
    result: type[ResultT]
    scopes: frozenset[Scope]
    annotations: types.ToolAnnotations
    run: Callable[[Call, ArgumentsT], Coroutine[Any, Any, tuple[ResultT, str]]]
    is_usable: Callable[[AgentMem], bool] = lambda _: True

    @cached_property
    def listed(self) -> types.Tool:
        """As `tools/list` shows it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=lean_schema(self.arguments),
            output_schema=lean_schema(self.result),
            annotations=self.annotations,
        )

    def is_offered_to(self, caller: Caller, memory: AgentMem) -> bool:
        """Whether `tools/list` shows it."""
        return any(map(caller.may, self.scopes)) and self.is_usable(memory)


def serve_tools(tools: Sequence[Tool[Any, Any]], backing: Backing, *, instructions: str) -> Server[Any]:
    """An MCP server that offers tools over a memory.

    Args:
        instructions: What a client tells its model about all of them.
    """
    named: Mapping[str, Tool[Any, Any]] = {tool.name: tool for tool in tools}
    memory = backing.memory

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        del params
        caller = backing.caller_of(context)
        return types.ListToolsResult(tools=[tool.listed for tool in tools if tool.is_offered_to(caller, memory)])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = named.get(params.name)
        if tool is None or not tool.is_usable(memory):
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:_MAX_SHOWN_NAME]!r}")
        try:
            arguments = tool.arguments.model_validate(params.arguments or {})
            call = Call(backing, backing.caller_of(context), context)
            result, text = await _cancelled_once(tool.run(call, arguments))
        except ValidationError as error:
            return failed(_faults(error))
        except ToolRefusedError as refused:
            return failed(str(refused))
        except ReminiscenceError as error:
            return failed(worded(error))
        except Exception as error:  # noqa: BLE001 - the SDK would log its text, which may quote a memory
            _logger.error("the tool %s failed: %s", tool.name, type(error).__name__)
            return failed(UNEXPECTED)
        return types.CallToolResult(
            content=[types.TextContent(text=text)],
            structured_content=result.model_dump(mode="json", by_alias=True, exclude_none=True),
        )

    def input_schema(name: str) -> Mapping[str, Any] | None:
        tool = named.get(name)
        return None if tool is None else tool.listed.input_schema

    return Server(
        SERVER_NAME,
        version=installed_version() or "",
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=input_schema,
    )


def lean_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model without what costs tokens and says nothing: titles, and that what is optional may be null.

    What is null is accepted all the same.
    """
    return model.model_json_schema(schema_generator=_LeanSchema)


class PlainSchema(GenerateJsonSchema):
    """Leaves out the names and docstrings of our classes."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No field has one."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The schema of a class."""
        written = super().model_schema(schema)
        written.pop("title", None)
        written.pop("description", None)
        return written


class _LeanSchema(PlainSchema):
    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        written = super().default_schema(schema)
        if written.get("default", ...) is None:
            del written["default"]
        return written


async def _cancelled_once[T](work: Coroutine[Any, Any, T]) -> T:
    """Await a call; if the client gives it up, cancel it, and wait until it has ended.

    The SDK cancels as anyio does: again and again, at each `await`. That would cut short what a call does when it ends,
    such as recording what its model has cost.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task})
        # Nobody reads its error any more.
        if not task.cancelled():
            task.exception()
        raise


def failed(text: str) -> types.CallToolResult:
    """A refusal or a failure, of which the model reads the text."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _faults(error: ValidationError) -> str:
    """What is wrong with arguments, without their values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    faults = [
        f"{'.'.join(map(str, one['loc']))[:_MAX_SHOWN_NAME] or 'arguments'}: {_FAULTS.get(one['type'], one['msg'])}"
        for one in found
    ]
    more = len(faults) - _MAX_SHOWN_FAULTS
    return "; ".join([*faults[:_MAX_SHOWN_FAULTS], *([f"and {more} more"] if more > 0 else [])])
