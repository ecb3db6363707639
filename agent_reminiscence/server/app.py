"""Puts the application together."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from starlette.middleware import Middleware
from starlette.responses import Response

from agent_reminiscence.core import AgentMem
from agent_reminiscence.server.access.authenticators import Authenticator
from agent_reminiscence.server.access.middleware import AccessMiddleware
from agent_reminiscence.server.config import ServerConfig
from agent_reminiscence.server.problems import ProblemError, as_response


def create_app(memory: AgentMem, authenticator: Authenticator, *, config: ServerConfig | None = None) -> FastAPI:
    """An ASGI application over a memory: REST under `/v1`, MCP at `/mcp`, the inspector at `/`.

    Args:
        memory: The application opens it when it starts, and closes it when it ends.
        authenticator: Knows the credentials that are valid.
        config: None reads the environment.
    """
    config = config or ServerConfig()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with memory:
            app.state.memory = memory
            yield

    app = FastAPI(
        title="agent_reminiscence",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        middleware=[Middleware(AccessMiddleware, authenticator=authenticator)],
    )

    @app.exception_handler(ProblemError)
    async def tell(request: Request, problem: ProblemError) -> Response:
        del request
        return as_response(problem)

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return app
