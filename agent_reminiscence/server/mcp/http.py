"""MCP over HTTP: the native tools at `/mcp`, and each other kind below that."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, cast

from fastapi import FastAPI
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import PARSE_ERROR
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.domain.strict_json import RepeatedKeyError, refuse_repeated_keys
from agent_reminiscence.server.access.grants import Caller
from agent_reminiscence.server.config import ServerConfig
from agent_reminiscence.server.mcp.building import KINDS, NATIVE, build_server
from agent_reminiscence.server.mcp.tools import Backing, Context

PATHS: Final = MappingProxyType({kind: "/mcp" if kind == NATIVE else f"/mcp/{kind}" for kind in KINDS})
"""Where each kind of tools is served. All of them, and not those that a setting names: a key says what its client may
do, and the client by its address which tools it does that with."""


def add_mcp(
    app: FastAPI,
    memory: AgentMem,
    config: ServerConfig,
    *,
    count_recall: Callable[[RetrievalResult], None] = lambda _: None,
) -> None:
    """Serve MCP at `PATHS`: its revision 2026-07-28, and those with a handshake.

    Whoever sends a request is known to the middleware before it arrives here. Each request stands for itself: there are
    no sessions, so nobody can use another's.

    Args:
        memory: Of this application, which opens it.
        count_recall: Called for each question that is answered.
    """
    backing = Backing(memory=memory, caller_of=_caller_of, count_recall=count_recall, has_sessions=False)
    endpoints = [_Endpoint(build_server(kind, backing), config.max_body_bytes) for kind in PATHS]
    for path, endpoint in zip(PATHS.values(), endpoints, strict=True):
        # Exactly this path: a mount would redirect it. The stream of a GET would carry nothing without sessions, and
        # keep the process from ending.
        app.router.routes.append(Route(path, endpoint, methods=["POST"], include_in_schema=False))
    opened = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(started: FastAPI) -> AsyncGenerator[Any]:
        async with opened(started) as state, AsyncExitStack() as running:
            for endpoint in endpoints:
                await running.enter_async_context(endpoint.running())
            yield state

    app.router.lifespan_context = lifespan


class _Endpoint:
    """Passes requests on to a server, while the application runs."""

    def __init__(self, server: Server[Any], max_body_bytes: int) -> None:
        self._server = server
        self._max_body_bytes = max_body_bytes
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Answer meanwhile."""
        # One serves once. It leaves the name of the host to the middleware, which guards the whole application.
        self._manager = StreamableHTTPSessionManager(
            self._server, stateless=True, max_request_body_size=self._max_body_bytes, security_settings=None
        )
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._manager is None:
            raise RuntimeError("the application's lifespan was not entered; serve it with an ASGI server that does")
        body = await Request(scope, receive).body()
        try:
            refuse_repeated_keys(body)
        except RepeatedKeyError as error:
            await _unreadable(str(error))(scope, receive, send)
            return
        except (ValueError, RecursionError):
            # No JSON at all, which the manager answers.
            pass
        await self._manager.handle_request(scope, _once_more(body, receive), send)


def _once_more(body: bytes, receive: Receive) -> Receive:
    """A body that has been read, and then whatever else comes."""
    read: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def again() -> Message:
        nonlocal read
        if read is None:
            return await receive()
        message, read = read, None
        return message

    return again


def _unreadable(problem: str) -> JSONResponse:
    """What JSON-RPC answers to a message that cannot be read."""
    error = {"code": PARSE_ERROR, "message": f"Parse error: {problem}"}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, HTTPStatus.BAD_REQUEST)


def _caller_of(context: Context) -> Caller:
    request = cast("Request", context.request)
    return cast("Caller", request.state.caller)
