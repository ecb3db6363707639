"""MCP over HTTP, at `/mcp`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agent_reminiscence.core import AgentMem
from agent_reminiscence.server.access.grants import Caller
from agent_reminiscence.server.config import ServerConfig
from agent_reminiscence.server.mcp.building import NATIVE, build_server
from agent_reminiscence.server.mcp.tools import Backing, Context

PATH: Final = "/mcp"


def add_mcp(
    app: FastAPI,
    memory: AgentMem,
    config: ServerConfig,
    *,
    tools: str = NATIVE,
    count_recall: Callable[[], None] = lambda: None,
) -> None:
    """Serve MCP at `/mcp`: its revision 2026-07-28, and those with a handshake.

    Whoever sends a request is known to the middleware before it arrives here. Each request stands for itself: there are
    no sessions, so nobody can use another's.

    Args:
        memory: Of this application, which opens it.
        tools: A kind of `build_server`.
        count_recall: Called for each question that is answered.

    Raises:
        InvalidInputError: There is no such kind.
    """
    server = build_server(tools, Backing(memory=memory, caller_of=_caller_of, count_recall=count_recall))
    endpoint = _Endpoint()
    # Exactly this path: a mount would redirect it. The stream of a GET would carry nothing without sessions, and keep
    # the process from ending.
    app.router.routes.append(Route(PATH, endpoint, methods=["POST"], include_in_schema=False))
    opened = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(started: FastAPI) -> AsyncGenerator[Any]:
        async with opened(started) as state:
            # One serves once. It leaves the name of the host to the middleware, which guards the whole application.
            manager = StreamableHTTPSessionManager(
                server, stateless=True, max_request_body_size=config.max_body_bytes, security_settings=None
            )
            async with manager.run():
                endpoint.manager = manager
                yield state

    app.router.lifespan_context = lifespan


class _Endpoint:
    """Passes requests on to the manager of the running application."""

    def __init__(self) -> None:
        self.manager: StreamableHTTPSessionManager | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.manager is None:
            raise RuntimeError("the application's lifespan was not entered; serve it with an ASGI server that does")
        await self.manager.handle_request(scope, receive, send)


def _caller_of(context: Context) -> Caller:
    request = cast("Request", context.request)
    return cast("Caller", request.state.caller)
