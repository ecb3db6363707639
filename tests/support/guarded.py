"""An application without a memory that says for whom a request acts, behind the access of the server."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from agent_reminiscence.server.access.authenticators import Authenticator
from agent_reminiscence.server.access.grants import Caller, Scope
from agent_reminiscence.server.access.limiter import RateLimiter
from agent_reminiscence.server.access.middleware import AccessMiddleware
from agent_reminiscence.server.problems import ProblemError, as_response


def guarded(authenticator: Authenticator, limiter: RateLimiter | None = None) -> Starlette:
    """`/v1/whoami` for programs and `/whoami` for browsers answer with the tenant; `/socket` with a word."""

    async def whoami(request: Request) -> Response:
        caller: Caller = request.state.caller
        try:
            return JSONResponse({"tenant": caller.tenant(Scope.READ)})
        except ProblemError as problem:
            return as_response(problem)

    async def greet(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("welcome")
        await socket.close()

    return Starlette(
        routes=[Route("/v1/whoami", whoami), Route("/whoami", whoami), WebSocketRoute("/socket", greet)],
        middleware=[
            Middleware(AccessMiddleware, authenticator=authenticator, limiter=limiter or RateLimiter()),
        ],
    )
