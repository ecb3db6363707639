"""Passes the calls of clients on to tools, and answers with what comes of them, whatever that is.

It stands on the SDK's low-level server, which leaves the answers to bad arguments, the schemas and the logs to us.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

import anyio
from mcp import types
from mcp.server import Server
from pydantic import ValidationError

from agent_reminiscence.config.installation import installed_version
from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.server.mcp.tools import Backing, Call, Context, Tool, ToolRefusedError
from agent_reminiscence.server.mcp.wording import UNEXPECTED, Wording, failed

SERVER_NAME: Final = "agent-reminiscence"

_logger = logging.getLogger("agent_reminiscence.mcp")


def serve_tools(
    tools: Sequence[Tool[Any, Any]], backing: Backing, *, wording: Wording, instructions: str | None = None
) -> Server[Any]:
    """An MCP server that offers tools over a memory.

    Args:
        wording: How it tells of failures.
        instructions: What a client tells its model about all of the tools.
    """
    named: Mapping[str, Tool[Any, Any]] = {tool.name: tool for tool in tools}
    memory = backing.memory

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        del params
        caller = backing.caller_of(context)
        return types.ListToolsResult(
            tools=[tool.listed_for(caller) for tool in tools if tool.is_offered_to(caller, memory)]
        )

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = named.get(params.name)
        if tool is None or not tool.is_usable(memory):
            return wording.unknown_tool(params.name)
        try:
            arguments = tool.arguments.model_validate(params.arguments or {})
            call = Call(backing, backing.caller_of(context), context)
            result, text = await _to_its_end(tool.run(call, arguments), is_ended_early=not tool.is_always_finished)
        except ValidationError as error:
            return failed(wording.bad_arguments(tool.name, error))
        except ToolRefusedError as refused:
            return failed(str(refused))
        except ReminiscenceError as error:
            return failed(wording.error(error))
        except Exception as error:  # noqa: BLE001 - the SDK would log its text, which may quote a memory
            _logger.error("the tool %s failed: %s", tool.name, type(error).__name__)
            return failed(UNEXPECTED)
        return types.CallToolResult(
            content=[types.TextContent(text=text)],
            structured_content=result.model_dump(mode="json", by_alias=True, exclude_none=True),
        )

    def input_schema(name: str) -> Mapping[str, Any] | None:
        tool = named.get(name)
        return None if tool is None else tool.input_schema

    return Server(
        SERVER_NAME,
        version=installed_version() or "",
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=input_schema,
    )


async def _to_its_end[T](work: Coroutine[Any, Any, T], *, is_ended_early: bool) -> T:
    """Await a call; if the client gives it up, still wait until it has ended.

    The SDK cancels as anyio does: again and again, at each `await`. That would cut short what a call does when it ends,
    such as the end of a transaction, or recording what its model has cost.

    Args:
        is_ended_early: Whether a call that is given up is cancelled, once; otherwise it is carried out all the same.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if is_ended_early:
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task})
        # Nobody reads its error any more.
        if not task.cancelled():
            task.exception()
        raise
